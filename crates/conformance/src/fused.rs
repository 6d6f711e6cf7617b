//! What one datastore promises beyond a pair of two: it sees both halves in one commit.

use passbook::{Checkpointer, Claim, Durable, Filter, Inspect, Scheduler, Settlement, State};

use crate::fixture::{
    Fixture, KIND, LEASE, OTHER, acquired_of, bad_names, claimed, completed, encode, failed, idle, keys, kinds, now,
    pass, records, settle, sleeping, start, started, state, status, waiting,
};

async fn queue_is_empty(store: &impl Durable) {
    let due = store.scheduler().next_due(&kinds(&[KIND, OTHER])).await;
    assert_eq!(due.expect("a look"), None);
}

/// The first start fixes the kind: a start of the same id as another kind is refused, and nothing is written.
pub async fn a_start_as_another_kind_is_refused(fixture: &impl Fixture) {
    let store = fixture.store();
    start(store, "w").await;
    let refused = store.start(OTHER, "w", &encode(&1)).await.expect_err("a start");
    assert!(refused.is_wrong_kind(), "{refused:?}");
    assert!(refused.to_string().contains("`w`"), "{refused}");
    assert!(acquired_of(store, &[OTHER], 10).await.is_empty());
    let taken = pass(store).await;
    assert_eq!(taken.0.records.len(), 1);
    settle(store, &taken, &completed()).await;
    assert!(
        store
            .start(OTHER, "w", &encode(&1))
            .await
            .expect_err("a start")
            .is_wrong_kind()
    );
    queue_is_empty(store).await;
}

/// A value that is sent to a workflow as of another kind is refused, and nothing is written.
pub async fn a_value_for_another_kind_is_refused(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &waiting("x")).await;
    let refusals = [
        store
            .arrive(OTHER, "w", "x", &encode(&1))
            .await
            .map(drop)
            .expect_err("an arrive"),
        store
            .deliver(OTHER, "w", &encode(&1))
            .await
            .map(drop)
            .expect_err("a deliver"),
    ];
    assert!(refusals.iter().all(passbook::Error::is_wrong_kind), "{refusals:?}");
    queue_is_empty(store).await;
    assert_eq!(records(store.checkpointer(), "w").await.len(), 1);
}

/// Of starts at once as two kinds, one kind wins: the others are refused, and only its workers are given the workflow.
pub async fn of_concurrent_starts_as_two_kinds_one_kind_wins(fixture: &impl Fixture) {
    let handles = [fixture.store().clone(), fixture.second().await];
    for round in 0..10 {
        let workflow = format!("w-{round}");
        let starts = (0..8).map(|at| {
            let (store, workflow) = (handles[at % 2].clone(), workflow.clone());
            let kind = if at % 3 == 0 { OTHER } else { KIND };
            tokio::spawn(async move { (kind, store.start(kind, &workflow, &encode(kind)).await) })
        });
        let mut first = Vec::new();
        let mut refused = Vec::new();
        for started in futures_util::future::join_all(starts).await {
            match started.expect("what the test set up is there") {
                (kind, Ok(recorded)) => {
                    assert_eq!(recorded.value, encode(kind));
                    first.extend(recorded.first.then_some(kind));
                }
                (kind, Err(error)) => {
                    assert!(error.is_wrong_kind(), "{error:?}");
                    refused.push(kind);
                }
            }
        }
        assert_eq!(first.len(), 1);
        assert!(refused.iter().all(|kind| *kind != first[0]), "{first:?} {refused:?}");
        let taken = acquired_of(&handles[0], &[KIND, OTHER], 10).await;
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].1.namespace, first[0]);
    }
}

/// A deleted id is free for another kind.
pub async fn a_deleted_id_is_free_for_another_kind(fixture: &impl Fixture) {
    let store = fixture.store();
    start(store, "w").await;
    assert_eq!(store.delete(KIND, "w").await.expect("a delete"), 1);
    assert!(store.start(OTHER, "w", &encode(&2)).await.expect("a start").first);
    assert_eq!(acquired_of(store, &[OTHER], 10).await.len(), 1);
    idle(store).await;
}

/// A second start wakes neither what is over nor what waits or sleeps.
pub async fn a_second_start_wakes_nobody(fixture: &impl Fixture) {
    let store = fixture.store();
    for (workflow, outcome) in [
        ("completed", completed()),
        ("failed", failed(None)),
        ("waiting", waiting("x")),
        ("sleeping", sleeping(now(fixture).after(LEASE * 9))),
    ] {
        let taken = started(store, workflow).await;
        settle(store, &taken, &outcome).await;
        let again = store.start(KIND, workflow, &encode(&2)).await.expect("a start");
        assert!(!again.first);
        let passes = acquired_of(store, &[KIND], 10).await;
        assert!(passes.is_empty(), "`{workflow}` was woken");
    }
    start(store, "cancelled").await;
    assert!(store.cancel(KIND, "cancelled").await.expect("a cancel"));
    assert!(
        !store
            .start(KIND, "cancelled", &encode(&2))
            .await
            .expect("a start")
            .first
    );
    idle(store).await;
    let due = store.scheduler().next_due(&kinds(&[KIND])).await.expect("a look");
    assert_eq!(due, Some(LEASE * 9), "only the sleeper is queued");
}

/// What arrives at a workflow that is over makes no queue row.
pub async fn a_value_for_what_is_over_queues_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    for (workflow, outcome) in [("completed", completed()), ("failed", failed(None))] {
        let taken = started(store, workflow).await;
        settle(store, &taken, &outcome).await;
    }
    start(store, "cancelled").await;
    assert!(store.cancel(KIND, "cancelled").await.expect("a cancel"));
    for workflow in ["completed", "failed", "cancelled"] {
        assert!(
            store
                .arrive(KIND, workflow, "x", &encode(&1))
                .await
                .expect("an arrive")
                .first
        );
        store.deliver(KIND, workflow, &encode(&1)).await.expect("a deliver");
        queue_is_empty(store).await;
    }
}

/// A settle of a lost claim leaves the queue as it was, to the microsecond.
pub async fn a_lost_settle_leaves_the_queue_alone(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    let claim = Claim {
        workflow: "w".to_owned(),
        token: taken.0.claim.token - 1,
    };
    for outcome in [
        completed(),
        sleeping(now(fixture)),
        Settlement::HandedBack,
        failed(None),
    ] {
        assert!(
            !store
                .settle(&claim, &taken.1, &outcome)
                .await
                .expect("a settle")
                .is_held()
        );
        let due = store.scheduler().next_due(&kinds(&[KIND])).await.expect("a look");
        assert_eq!(due, Some(LEASE), "after {outcome:?}");
    }
    assert_eq!(keys(store.checkpointer(), "w").await.len(), 1);
    settle(store, &taken, &completed()).await;
}

/// A reopen of what is neither failed nor cancelled queues nothing.
pub async fn a_reopen_of_what_is_open_or_completed_queues_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    assert!(!store.reopen(KIND, "unseen").await.expect("a reopen"));
    for (workflow, outcome) in [("completed", completed()), ("waiting", waiting("x"))] {
        let taken = started(store, workflow).await;
        settle(store, &taken, &outcome).await;
        assert!(!store.reopen(KIND, workflow).await.expect("a reopen"));
        queue_is_empty(store).await;
    }
}

/// What is due is shown as ready: started, handed back, woken, past its sleep, or left by a dead worker.
pub async fn what_is_due_is_shown_as_ready(fixture: &impl Fixture) {
    let store = fixture.store();
    start(store, "w").await;
    assert_eq!(state(store, "w").await, State::Ready);
    let taken = pass(store).await;
    assert_eq!(state(store, "w").await, State::Running);
    settle(store, &taken, &Settlement::HandedBack).await;
    assert_eq!(state(store, "w").await, State::Ready);

    let taken = pass(store).await;
    settle(store, &taken, &waiting("x")).await;
    assert_eq!(state(store, "w").await, State::Waiting);
    store.arrive(KIND, "w", "x", &encode(&1)).await.expect("an arrive");
    assert_eq!(state(store, "w").await, State::Ready);

    let taken = pass(store).await;
    settle(store, &taken, &sleeping(now(fixture).after(LEASE))).await;
    assert_eq!(state(store, "w").await, State::Sleeping);
    fixture.clock().advance(LEASE);
    assert_eq!(state(store, "w").await, State::Ready);

    let taken = pass(store).await;
    fixture.clock().advance(LEASE);
    assert_eq!(state(store, "w").await, State::Ready, "its worker died");
    drop(taken);
    let taken = pass(store).await;
    settle(store, &taken, &failed(None)).await;
    assert!(store.reopen(KIND, "w").await.expect("a reopen"));
    assert_eq!(state(store, "w").await, State::Ready);
}

/// A wakeup that comes while a pass runs does not hide that it runs.
pub async fn a_wakeup_does_not_hide_that_a_pass_runs(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    store.arrive(KIND, "w", "x", &encode(&1)).await.expect("an arrive");
    assert_eq!(state(store, "w").await, State::Running);
    settle(store, &taken, &waiting("y")).await;
    assert_eq!(state(store, "w").await, State::Ready);
}

/// A claim that was made by hand and an acquire exclude each other; the delivery waits hidden.
pub async fn a_claim_by_hand_and_an_acquire_exclude_each_other(fixture: &impl Fixture) {
    let store = fixture.store();
    start(store, "w").await;
    let by_hand = claimed(store.checkpointer(), "w").await;
    idle(store).await;
    // The delivery that met the held claim stays hidden for its lease, so it is found when that is over.
    let due = store.scheduler().next_due(&kinds(&[KIND])).await.expect("a look");
    assert_eq!(due, Some(LEASE));
    assert!(
        store
            .checkpointer()
            .release(&by_hand, &waiting("x"))
            .await
            .expect("a release")
    );
    fixture.clock().advance(LEASE);
    assert_eq!(pass(store).await.0.attempts, 0);
    assert_eq!(store.finished(&["w".to_owned()]).await.expect("a look"), []);
}

/// A list may be of one kind.
pub async fn a_list_may_be_of_one_kind(fixture: &impl Fixture) {
    let store = fixture.store();
    start(store, "b").await;
    start(store, "a").await;
    store.start(OTHER, "c", &encode(&1)).await.expect("a start");
    for taken in acquired_of(store, &[KIND, OTHER], 10).await {
        settle(store, &taken, &completed()).await;
    }
    for (kind, expected) in [(KIND, vec!["a", "b"]), (OTHER, vec!["c"]), ("none", vec![])] {
        let filter = Filter {
            namespace: Some(kind.to_owned()),
            limit: 10,
            ..Filter::default()
        };
        assert_eq!(listed(store, filter).await, expected, "{kind}");
        let shown = listed(
            store,
            Filter {
                limit: 10,
                ..Filter::default()
            },
        )
        .await;
        assert_eq!(shown, ["a", "b", "c"]);
    }
    assert_eq!(status(store, "c").await.namespace, OTHER);
}

async fn listed(store: &impl Inspect, filter: Filter) -> Vec<String> {
    let listed = store.list(&filter).await.expect("a list");
    listed.into_iter().map(|status| status.workflow).collect()
}

/// A kind's name that no store keeps is refused, and nothing is written.
pub async fn a_bad_name_of_a_kind_is_refused_with_nothing_written(fixture: &impl Fixture) {
    let store = fixture.store();
    for bad in bad_names() {
        let refusals = [
            store
                .start(&bad, "w", &encode(&1))
                .await
                .map(drop)
                .expect_err("a start"),
            store
                .arrive(&bad, "w", "x", &encode(&1))
                .await
                .map(drop)
                .expect_err("an arrive"),
            store
                .deliver(&bad, "w", &encode(&1))
                .await
                .map(drop)
                .expect_err("a deliver"),
        ];
        assert!(refusals.iter().all(passbook::Error::is_refused), "{refusals:?}");
    }
    assert_eq!(records(store.checkpointer(), "w").await, []);
    assert_eq!(store.status("w").await.expect("a status"), None);
}

/// A value that was sent as to another kind before the start is not run by that kind: the start told which kind it is.
pub async fn a_value_sent_before_the_start_brings_no_other_kind(fixture: &impl Fixture) {
    let store = fixture.store();
    store.arrive(OTHER, "w", "x", &encode(&1)).await.expect("an arrive");
    start(store, "w").await;
    assert!(
        acquired_of(store, &[OTHER], 10).await.is_empty(),
        "it is of another kind"
    );
    let taken = pass(store).await;
    assert_eq!((taken.0.attempts, taken.0.records.len()), (0, 2));
    settle(store, &taken, &completed()).await;
    assert!(acquired_of(store, &[OTHER], 10).await.is_empty());
    queue_is_empty(store).await;
}
