//! What crosses both halves, on every pair of stores: from outside, and taking.

use std::collections::HashSet;
use std::time::Duration;

pub use crate::naming::{a_bad_name_is_refused_with_nothing_written, names_go_through_as_they_are};
pub use crate::settles::no_arrival_is_left_unread;

use futures_util::future::join_all;
use passbook::{Acquire, Checkpointer, Durable, INBOX, INPUT, Scheduler};

use crate::fixture::{
    Fixture, KIND, LEASE, MICRO, OTHER, acquired, acquired_of, claimed, completed, encode, failed, idle, keys, kinds,
    life, life_in, now, pass, records, settle, sleeping, start, started, waiting,
};

/// A started workflow is acquired once, with its input and everything that a pass needs to know.
pub async fn a_started_workflow_is_acquired_with_its_input(fixture: &impl Fixture) {
    let store = fixture.store();
    idle(store).await;
    let recorded = store.start(KIND, "w", &encode(&7)).await.expect("a start");
    assert_eq!((recorded.value, recorded.first), (encode(&7), true));

    let other = fixture.second().await;
    let (pass, delivery) = pass(&other).await;
    assert_eq!(pass.claim.workflow, "w");
    assert_eq!((delivery.namespace.as_str(), delivery.workflow.as_str()), (KIND, "w"));
    assert_eq!(pass.records.len(), 1);
    assert_eq!(
        (pass.records[0].step.as_str(), &pass.records[0].value),
        (INPUT, &encode(&7))
    );
    assert_eq!((pass.attempts, pass.interrupted, pass.lease), (0, None, LEASE));
    assert_eq!(pass.time.earliest(), now(fixture));
    idle(store).await;
}

/// A second start of the same kind returns the input that is there, and nothing runs twice.
pub async fn a_second_start_returns_the_first_input(fixture: &impl Fixture) {
    let store = fixture.store();
    start(store, "w").await;
    let again = store.start(KIND, "w", &encode(&2)).await.expect("a start");
    assert_eq!((again.value, again.first), (encode("w"), false));
    let taken = pass(store).await;
    assert_eq!(taken.0.records.len(), 1);
    settle(store, &taken, &completed()).await;
    let late = store.start(KIND, "w", &encode(&3)).await.expect("a start");
    assert_eq!((late.value, late.first), (encode("w"), false));
    idle(store).await;
}

/// Of starts at once exactly one is the first, and one pass runs.
pub async fn of_concurrent_starts_exactly_one_is_first(fixture: &impl Fixture) {
    let handles = [fixture.store().clone(), fixture.second().await];
    let starts = (0..16).map(|at| {
        let store = handles[at % 2].clone();
        tokio::spawn(async move { store.start(KIND, "w", &encode(&at)).await.expect("a start") })
    });
    let recorded: Vec<_> = join_all(starts).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(recorded.iter().filter(|recorded| recorded.first).count(), 1);
    let taken = pass(&handles[0]).await;
    assert!(
        recorded
            .iter()
            .all(|recorded| recorded.value == taken.0.records[0].value)
    );
    idle(&handles[1]).await;
}

/// An arrival is recorded and wakes the workflow; the first writer wins and the loser is told.
pub async fn an_arrival_is_recorded_and_wakes(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &waiting("approved")).await;
    idle(store).await;
    let first = store
        .arrive(KIND, "w", "approved", &encode("ann"))
        .await
        .expect("an arrive");
    assert_eq!((first.value, first.first), (encode("ann"), true));
    let late = store
        .arrive(KIND, "w", "approved", &encode("bob"))
        .await
        .expect("an arrive");
    assert_eq!((late.value, late.first), (encode("ann"), false));
    let (pass, _) = pass(store).await;
    assert_eq!(pass.records.len(), 2);
    assert_eq!(
        (pass.records[1].step.as_str(), &pass.records[1].value),
        ("approved", &encode("ann"))
    );
}

/// A delivery files a value under a key of the store's own and wakes the workflow.
pub async fn a_delivered_value_is_filed_and_wakes(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &waiting(INBOX)).await;
    let mut filed = vec![INPUT.to_owned()];
    for at in 0..3 {
        filed.push(store.deliver(KIND, "w", &encode(&at)).await.expect("a deliver"));
    }
    assert!(filed[1..].iter().all(|key| key.starts_with(INBOX)), "{filed:?}");
    assert!(filed[1..].is_sorted_by(|one, next| one < next), "{filed:?}");
    let (pass, _) = pass(store).await;
    assert!(pass.records.iter().map(|record| &record.step).eq(&filed));
}

/// A value that comes before the start is kept, and the workflow runs with it once its input is there.
pub async fn a_value_before_the_start_is_there_after_it(fixture: &impl Fixture) {
    let store = fixture.store();
    store
        .arrive(KIND, "w", "approved", &encode(&1))
        .await
        .expect("an arrive");
    let key = store.deliver(KIND, "w", &encode(&2)).await.expect("a deliver");
    // A worker may look at it already; it waits for the input.
    for taken in acquired(store, 10).await {
        settle(store, &taken, &waiting(INPUT)).await;
    }
    idle(store).await;
    start(store, "w").await;
    let (pass, _) = pass(store).await;
    let steps: Vec<&str> = pass.records.iter().map(|record| record.step.as_str()).collect();
    assert_eq!(steps, ["approved", key.as_str(), INPUT]);
}

/// What arrives while a pass runs leaves the workflow ready at its end, whatever the pass decided.
pub async fn an_arrival_mid_pass_leaves_the_workflow_ready(fixture: &impl Fixture) {
    let store = fixture.store();
    let later = now(fixture).after(LEASE * 100);
    let outcomes = [
        waiting("x"),
        sleeping(later),
        failed(Some(later)),
        passbook::Settlement::HandedBack,
    ];
    start(store, "w").await;
    for (at, outcome) in outcomes.iter().enumerate() {
        let taken = pass(store).await;
        fixture.clock().advance(MICRO);
        if at % 2 == 0 {
            store
                .arrive(KIND, "w", &format!("x-{at}"), &encode(&at))
                .await
                .expect("an arrive");
        } else {
            store.deliver(KIND, "w", &encode(&at)).await.expect("a deliver");
        }
        settle(store, &taken, outcome).await;
    }
    assert_eq!(pass(store).await.0.records.len(), 1 + outcomes.len());
}

/// A wakeup that another worker took while the pass held the workflow is not lost: the holder's end leaves it ready.
pub async fn a_wakeup_taken_while_a_pass_runs_is_not_lost(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    fixture.clock().advance(Duration::from_secs(1));
    store
        .arrive(KIND, "w", "approved", &encode(&1))
        .await
        .expect("an arrive");
    // The other worker takes the wakeup, finds the workflow held, and leaves it hidden.
    idle(&fixture.second().await).await;
    idle(store).await;
    settle(store, &taken, &waiting("approved")).await;
    assert_eq!(pass(store).await.0.records.len(), 2);
}

/// Nor is it lost when everything happens in one moment of the clock: the receipts of two takes differ all the same.
pub async fn a_wakeup_taken_in_the_same_moment_is_not_lost(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    store
        .arrive(KIND, "w", "approved", &encode(&1))
        .await
        .expect("an arrive");
    idle(store).await;
    settle(store, &taken, &waiting("approved")).await;
    // The wakeup is due now, or when the lease of the take that met the held workflow is over.
    fixture.clock().advance(LEASE);
    assert_eq!(pass(store).await.0.records.len(), 2);
}

/// A workflow that somebody holds stays hidden until its lease is over, and is found then.
pub async fn a_held_workflow_stays_hidden(fixture: &impl Fixture) {
    let store = fixture.store();
    start(store, "w").await;
    let claim = claimed(store.checkpointer(), "w").await;
    idle(store).await;
    idle(store).await;
    assert!(
        store
            .checkpointer()
            .release(&claim, &waiting("x"))
            .await
            .expect("a release")
    );
    fixture.clock().advance(LEASE);
    pass(store).await;
}

/// A value that arrives when the workflow is over is kept, and nothing runs.
pub async fn a_value_for_a_workflow_that_is_over_is_kept(fixture: &impl Fixture) {
    let store = fixture.store();
    for (workflow, outcome) in [("completed", completed()), ("failed", failed(None))] {
        let taken = started(store, workflow).await;
        settle(store, &taken, &outcome).await;
    }
    start(store, "cancelled").await;
    assert!(store.cancel(KIND, "cancelled").await.expect("a cancel"));
    for workflow in ["completed", "failed", "cancelled"] {
        let recorded = store
            .arrive(KIND, workflow, "late", &encode(&1))
            .await
            .expect("an arrive");
        assert!(recorded.first);
        store.deliver(KIND, workflow, &encode(&2)).await.expect("a deliver");
        idle(store).await;
        assert!(keys(store.checkpointer(), workflow).await.contains(&"late".to_owned()));
    }
    fixture.clock().advance(LEASE);
    idle(store).await;
    // What was asked for is answered: nobody looks at it again.
    assert_eq!(store.scheduler().next_due(&kinds(&[KIND])).await.expect("a look"), None);
}

/// A cancelled workflow is not acquired; its running pass can write and settle nothing.
pub async fn a_cancelled_workflow_runs_no_more(fixture: &impl Fixture) {
    let store = fixture.store();
    start(store, "queued").await;
    assert!(store.cancel(KIND, "queued").await.expect("a cancel"));
    idle(store).await;
    assert!(
        !store.cancel(KIND, "queued").await.expect("a cancel"),
        "it is cancelled already"
    );

    let taken = started(store, "running").await;
    assert!(store.cancel(KIND, "running").await.expect("a cancel"));
    for outcome in [completed(), sleeping(now(fixture)), passbook::Settlement::HandedBack] {
        assert!(
            !store
                .settle(&taken.0.claim, &taken.1, &outcome)
                .await
                .expect("a settle")
                .is_held()
        );
    }
    assert_eq!(keys(store.checkpointer(), "running").await, [INPUT]);
    fixture.clock().advance(LEASE);
    idle(store).await;
}

/// A cancel of what was never seen says so and leaves nothing.
pub async fn a_cancel_of_what_was_never_seen_leaves_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    assert!(!store.cancel(KIND, "w").await.expect("a cancel"));
    start(store, "w").await;
    pass(store).await;
}

/// A reopened workflow goes on from its checkpoint, with its attempts forgotten.
pub async fn a_reopened_workflow_goes_on_from_its_checkpoint(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    store
        .checkpointer()
        .record(&taken.0.claim, "a", &encode(&1))
        .await
        .expect("a record");
    settle(store, &taken, &failed(None)).await;
    idle(store).await;
    assert!(store.reopen(KIND, "w").await.expect("a reopen"));
    let (second, _) = pass(store).await;
    assert_eq!((second.records.len(), second.attempts), (2, 0));
    assert!(second.claim.token > taken.0.claim.token);

    assert!(store.cancel(KIND, "w").await.expect("a cancel"));
    assert!(store.reopen(KIND, "w").await.expect("a reopen"));
    assert!(!store.reopen(KIND, "w").await.expect("a reopen"), "it is open already");
    let taken = pass(store).await;
    settle(store, &taken, &completed()).await;
    assert!(
        !store.reopen(KIND, "w").await.expect("a reopen"),
        "what is completed stays so"
    );
    idle(store).await;
}

/// A deleted workflow leaves nothing to run and nothing to load; its running pass loses its claim; its id is free.
pub async fn a_deleted_workflow_is_gone(fixture: &impl Fixture) {
    let store = fixture.store();
    assert_eq!(store.delete(KIND, "w").await.expect("a delete"), 0);
    start(store, "w").await;
    store.deliver(KIND, "w", &encode(&1)).await.expect("a deliver");
    assert_eq!(store.delete(KIND, "w").await.expect("a delete"), 2);
    idle(store).await;
    assert_eq!(records(store.checkpointer(), "w").await, []);

    let taken = started(store, "w").await;
    assert_eq!(store.delete(KIND, "w").await.expect("a delete"), 1);
    let refused = store
        .checkpointer()
        .record(&taken.0.claim, "a", &encode(&1))
        .await
        .expect_err("a record");
    assert!(refused.is_fenced());
    assert!(
        !store
            .settle(&taken.0.claim, &taken.1, &completed())
            .await
            .expect("a settle")
            .is_held()
    );
    fixture.clock().advance(LEASE);
    idle(store).await;
    assert_eq!(records(store.checkpointer(), "w").await, []);

    let anew = started(store, "w").await;
    assert!(anew.0.claim.token > taken.0.claim.token);
    assert_eq!((anew.0.attempts, anew.0.records.len()), (0, 1));
}

/// `acquire` takes at most what was asked for, each workflow once, and says when the next is due if it found fewer.
pub async fn an_acquire_takes_at_most_what_was_asked_for(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "sleeper").await;
    settle(store, &taken, &sleeping(now(fixture).after(LEASE / 2))).await;
    for at in 0..7 {
        start(store, &format!("w-{at}")).await;
    }
    let namespaces = kinds(&[KIND]);
    let mut seen = HashSet::new();
    for (limit, expected, next_due) in [(3, 3, None), (5, 4, Some(LEASE / 2)), (5, 0, Some(LEASE / 2))] {
        let request = Acquire::new(&namespaces, limit);
        let acquired = store.acquire(&request).await.expect("an acquire");
        assert_eq!((acquired.passes.len(), acquired.next_due), (expected, next_due));
        for (pass, delivery) in acquired.passes {
            assert_eq!(pass.claim.workflow, delivery.workflow);
            assert_eq!(
                pass.records[0].value,
                encode(&delivery.workflow),
                "each with its own checkpoint"
            );
            assert!(seen.insert(delivery.workflow));
        }
    }
}

/// `acquire` takes of the kinds it was asked for, and none of them starves another.
pub async fn an_acquire_starves_no_kind(fixture: &impl Fixture) {
    let store = fixture.store();
    for at in 0..20 {
        start(store, &format!("w-{at:02}")).await;
    }
    fixture.clock().advance(Duration::from_secs(1));
    for at in 0..3 {
        store
            .start(OTHER, &format!("v-{at}"), &encode(&at))
            .await
            .expect("a start");
    }
    store.start("third", "u", &encode(&0)).await.expect("a start");
    let passes = acquired_of(store, &[KIND, OTHER], 8).await;
    let others = passes
        .iter()
        .filter(|(_, delivery)| delivery.namespace == OTHER)
        .count();
    assert_eq!((passes.len(), others), (8, 3));
    assert!(acquired_of(store, &[], 8).await.is_empty());
}

/// Workers at once never run the same workflow, and together they run all.
pub async fn workers_at_once_never_get_the_same_workflow(fixture: &impl Fixture) {
    const WORKFLOWS: usize = 60;
    let handles = [fixture.store().clone(), fixture.second().await];
    for at in 0..WORKFLOWS {
        start(&handles[0], &format!("w-{at:02}")).await;
    }
    let workers = (0..6).map(|worker| {
        let store = handles[worker % 2].clone();
        tokio::spawn(async move {
            let (mut taken, mut misses) = (Vec::new(), 0);
            while misses < 50 {
                let passes = acquired(&store, 4).await;
                misses = if passes.is_empty() { misses + 1 } else { 0 };
                for pass in passes {
                    settle(&store, &pass, &completed()).await;
                    taken.push(pass.0.claim.workflow);
                }
            }
            taken
        })
    });
    let taken: Vec<String> = join_all(workers).await.into_iter().flat_map(Result::unwrap).collect();
    let different: HashSet<&String> = taken.iter().collect();
    assert_eq!((taken.len(), different.len()), (WORKFLOWS, WORKFLOWS));
}

/// A workflow whose worker died is taken by another when the lease is over, and told how the last pass ended.
pub async fn a_workflow_of_a_dead_worker_is_taken_by_another(fixture: &impl Fixture) {
    let store = fixture.store();
    let dead = started(store, "w").await;
    store
        .checkpointer()
        .record(&dead.0.claim, "a", &encode(&1))
        .await
        .expect("a record");
    let life = [life_in(&dead.0.claim, "charged")];
    assert_eq!(store.checkpointer().renew(&life).await.expect("a renewal"), [true]);
    fixture.clock().advance(LEASE - MICRO);
    idle(store).await;
    fixture.clock().advance(MICRO);
    let next = pass(&fixture.second().await).await;
    assert_eq!((next.0.attempts, next.0.interrupted.as_deref()), (1, Some("charged")));
    assert_eq!(next.0.records.len(), 2);
    assert!(
        !store
            .settle(&dead.0.claim, &dead.1, &completed())
            .await
            .expect("a settle")
            .is_held()
    );
    settle(store, &next, &completed()).await;
}

/// `renew` keeps claim and delivery together: nobody takes the workflow, and the new receipt answers.
pub async fn a_renewal_keeps_claim_and_delivery(fixture: &impl Fixture) {
    let store = fixture.store();
    for workflow in ["a", "b"] {
        start(store, workflow).await;
    }
    let mut taken = acquired(store, 10).await;
    for _ in 0..3 {
        fixture.clock().advance(LEASE - MICRO);
        let held: Vec<_> = taken
            .iter()
            .map(|(pass, delivery)| (life(&pass.claim), delivery.clone()))
            .collect();
        let renewed = store.renew(&held).await.expect("a renewal");
        assert_eq!(renewed.len(), 2);
        for (renewed, taken) in renewed.into_iter().zip(&mut taken) {
            assert!(renewed.alive);
            assert_eq!(renewed.delivery.workflow, taken.1.workflow);
            assert!(renewed.delivery.receipt > taken.1.receipt);
            taken.1 = renewed.delivery;
        }
        idle(store).await;
    }
    for taken in &taken {
        settle(store, taken, &waiting("x")).await;
    }
    fixture.clock().advance(LEASE * 2);
    idle(store).await;
    assert!(store.renew(&[]).await.expect("a renewal").is_empty());
}

/// `renew` says of each pass whether it holds its workflow; a wakeup meanwhile is kept for its end.
pub async fn a_renewal_says_who_lost_and_hides_no_wakeup(fixture: &impl Fixture) {
    let store = fixture.store();
    for workflow in ["cancelled", "woken"] {
        start(store, workflow).await;
    }
    let taken = acquired(store, 10).await;
    assert_eq!(taken.len(), 2);
    fixture.clock().advance(Duration::from_secs(1));
    assert!(store.cancel(KIND, "cancelled").await.expect("a cancel"));
    store.arrive(KIND, "woken", "x", &encode(&1)).await.expect("an arrive");
    let held: Vec<_> = taken
        .iter()
        .map(|(pass, delivery)| (life(&pass.claim), delivery.clone()))
        .collect();
    let renewed = store.renew(&held).await.expect("a renewal");
    for (renewed, (pass, delivery)) in renewed.into_iter().zip(taken) {
        let woken = pass.claim.workflow == "woken";
        assert_eq!(renewed.alive, woken);
        assert_eq!(renewed.delivery, delivery);
        let settled = store.settle(&pass.claim, &renewed.delivery, &waiting("y")).await;
        assert_eq!(settled.expect("a settle").is_held(), woken);
    }
    assert_eq!(pass(store).await.0.claim.workflow, "woken");
}
