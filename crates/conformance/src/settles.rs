//! The end of a pass.

use futures_util::future::join_all;
use passbook::{Acquire, Checkpointer, Claimed, Durable, INBOX, INPUT, Inspect, RESULT, Scheduler, Settlement, State};

use crate::fixture::{
    Fixture, KIND, LEASE, MICRO, acquired, completed, encode, failed, idle, keys, kinds, now, pass, records, settle,
    sleeping, start, started, state, status, waiting,
};

async fn queue_is_empty(store: &impl Durable) {
    assert_eq!(store.scheduler().next_due(&kinds(&[KIND])).await.expect("a look"), None);
}

/// A completed pass leaves its result, an empty queue, and nothing to run.
pub async fn a_completed_pass_records_its_result(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &completed()).await;
    let records = records(store.checkpointer(), "w").await;
    assert_eq!((records[1].step.as_str(), &records[1].value), (RESULT, &encode("done")));
    assert_eq!(records.len(), 2);
    assert_eq!(store.checkpointer().claim("w").await.expect("a claim"), Claimed::Over);
    queue_is_empty(store).await;
    let finished = store.finished(&["w".to_owned()]).await.expect("a look");
    assert_eq!(finished.len(), 1);
    assert_eq!(finished[0].result, Some(encode("done")));
}

/// A pass that completed although a wakeup came meanwhile is over: the wakeup is answered by the next to take it.
pub async fn a_completed_pass_is_over_whatever_came_meanwhile(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    fixture.clock().advance(MICRO);
    store.arrive(KIND, "w", "late", &encode(&1)).await.expect("an arrive");
    settle(store, &taken, &completed()).await;
    idle(store).await;
    queue_is_empty(store).await;
    assert_eq!(state(store, "w").await, State::Completed);
    assert_eq!(keys(store.checkpointer(), "w").await, [INPUT, "late", RESULT]);
}

/// A workflow that is over and still queued is answered for by whoever takes it, without a pass.
pub async fn a_delivery_of_what_is_over_is_answered(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &completed()).await;
    store.scheduler().make_ready(KIND, "w").await.expect("it is made ready");
    let namespaces = kinds(&[KIND]);
    let request = Acquire::new(&namespaces, 1);
    assert!(store.acquire(&request).await.expect("an acquire").passes.is_empty());
    queue_is_empty(store).await;
}

/// A sleeper runs again at its time, and not a moment before.
pub async fn a_sleeper_runs_again_on_time(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &sleeping(now(fixture).after(LEASE * 5))).await;
    fixture.clock().advance(LEASE * 5 - MICRO);
    idle(store).await;
    fixture.clock().advance(MICRO);
    let (next, _) = pass(store).await;
    assert_eq!((next.attempts, next.interrupted), (0, None));
}

/// A pass that sleeps until a moment which has passed runs again at once.
pub async fn a_sleep_until_the_past_runs_again_at_once(fixture: &impl Fixture) {
    let store = fixture.store();
    let before = now(fixture);
    fixture.clock().advance(LEASE / 2);
    let taken = started(store, "w").await;
    settle(store, &taken, &sleeping(before)).await;
    pass(store).await;
}

/// A workflow that waits for a value runs when it arrives, and for no other reason.
pub async fn a_waiter_runs_when_its_value_arrives(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &waiting("approved")).await;
    queue_is_empty(store).await;
    fixture.clock().advance(LEASE * 1_000);
    idle(store).await;
    store
        .arrive(KIND, "w", "approved", &encode(&1))
        .await
        .expect("an arrive");
    pass(store).await;
}

/// A wait with a limit ends at the limit, or before it when the value arrives.
pub async fn a_wait_with_a_limit_ends_at_either(fixture: &impl Fixture) {
    let store = fixture.store();
    let wait = Settlement::Suspended {
        wake_at: Some(now(fixture).after(LEASE * 3)),
        waits_for: vec!["approved".to_owned(), "refused".to_owned()],
    };
    let taken = started(store, "limit").await;
    settle(store, &taken, &wait).await;
    let taken = started(store, "value").await;
    settle(store, &taken, &wait).await;
    store
        .arrive(KIND, "value", "refused", &encode(&1))
        .await
        .expect("an arrive");
    let taken = pass(store).await;
    assert_eq!(taken.0.claim.workflow, "value");
    settle(store, &taken, &completed()).await;
    fixture.clock().advance(LEASE * 3);
    assert_eq!(pass(store).await.0.claim.workflow, "limit");
}

/// A failed pass runs again after its backoff, and is told how often it failed.
pub async fn a_failed_pass_runs_again_after_its_backoff(fixture: &impl Fixture) {
    let store = fixture.store();
    let mut taken = started(store, "w").await;
    for attempts in 0..3 {
        assert_eq!(taken.0.attempts, attempts);
        settle(store, &taken, &failed(Some(now(fixture).after(LEASE)))).await;
        fixture.clock().advance(LEASE - MICRO);
        idle(store).await;
        fixture.clock().advance(MICRO);
        taken = pass(store).await;
    }
    settle(store, &taken, &waiting("x")).await;
    store.arrive(KIND, "w", "x", &encode(&1)).await.expect("an arrive");
    assert_eq!(pass(store).await.0.attempts, 0, "it got somewhere");
}

/// A workflow that is parked as failed keeps its error and its records, and runs no more.
pub async fn a_parked_workflow_keeps_its_error(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &failed(None)).await;
    queue_is_empty(store).await;
    let status = status(store, "w").await;
    assert_eq!(
        (status.state, status.error.as_deref()),
        (State::Failed, Some("no paper"))
    );
    assert_eq!((status.attempts, status.finished_at), (1, Some(now(fixture))));
    assert_eq!(keys(store.checkpointer(), "w").await, [INPUT]);
    assert_eq!(store.checkpointer().claim("w").await.expect("a claim"), Claimed::Over);
}

/// A pass that was handed back runs again at once, and does not count.
pub async fn a_pass_that_is_handed_back_runs_again_at_once(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &failed(Some(now(fixture)))).await;
    for _ in 0..3 {
        let taken = pass(store).await;
        assert_eq!(taken.0.attempts, 1);
        settle(store, &taken, &Settlement::HandedBack).await;
    }
}

/// A pass that lost its claim settles nothing: no result, no wait, no failure, and the holder goes on undisturbed.
pub async fn a_lost_pass_settles_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    let stale = started(store, "w").await;
    fixture.clock().advance(LEASE);
    let holder = pass(store).await;
    let before = status(store, "w").await;
    for outcome in [
        completed(),
        waiting("x"),
        sleeping(now(fixture)),
        failed(None),
        Settlement::HandedBack,
    ] {
        assert!(
            !store
                .settle(&stale.0.claim, &stale.1, &outcome)
                .await
                .expect("a settle")
                .is_held()
        );
        assert_eq!(status(store, "w").await, before, "after {outcome:?}");
        // Neither with the delivery of the holder.
        assert!(
            !store
                .settle(&stale.0.claim, &holder.1, &outcome)
                .await
                .expect("a settle")
                .is_held()
        );
    }
    assert_eq!(keys(store.checkpointer(), "w").await, [INPUT]);
    idle(store).await;
    fixture.clock().advance(LEASE - MICRO);
    idle(store).await;
    settle(store, &holder, &completed()).await;
    assert_eq!(keys(store.checkpointer(), "w").await, [INPUT, RESULT]);
    queue_is_empty(store).await;
}

/// A pass that nobody superseded settles though its lease is over.
pub async fn a_late_pass_that_nobody_superseded_settles(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    fixture.clock().advance(LEASE * 2);
    settle(store, &taken, &completed()).await;
    idle(store).await;
    queue_is_empty(store).await;
}

/// A result that is there already stays.
pub async fn a_result_is_never_overwritten(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    store
        .checkpointer()
        .supply("w", RESULT, &encode("first"))
        .await
        .expect("a supply");
    settle(store, &taken, &completed()).await;
    let finished = store.finished(&["w".to_owned()]).await.expect("a look");
    assert_eq!(finished[0].result, Some(encode("first")));
}

/// Many passes that end at once each end as they said.
pub async fn many_passes_end_at_once(fixture: &impl Fixture) {
    const PASSES: usize = 40;
    let store = fixture.store();
    for at in 0..PASSES {
        store
            .start(KIND, &format!("w-{at:02}"), &encode(&at))
            .await
            .expect("a start");
    }
    let passes = acquired(store, PASSES).await;
    assert_eq!(passes.len(), PASSES);
    let later = now(fixture).after(LEASE * 2);
    let endings = passes.into_iter().enumerate().map(|(at, taken)| {
        let store = store.clone();
        tokio::spawn(async move {
            let outcome = match at % 4 {
                0 => completed(),
                1 => sleeping(later),
                2 => waiting("x"),
                _ => failed(None),
            };
            settle(&store, &taken, &outcome).await;
            (taken.0.claim.workflow, at % 4)
        })
    });
    for ended in futures_util::future::join_all(endings).await {
        let (workflow, how) = ended.expect("what the test set up is there");
        let expected = [State::Completed, State::Sleeping, State::Waiting, State::Failed][how];
        assert_eq!(state(store, &workflow).await, expected);
    }
    fixture.clock().advance(LEASE * 2);
    assert_eq!(acquired(store, PASSES).await.len(), PASSES / 4);
}

/// Of arrivals and passes at once, no value is left unread: after the last arrival some pass sees them all.
pub async fn no_arrival_is_left_unread(fixture: &impl Fixture) {
    const SENDERS: usize = 4;
    const EACH: usize = 15;
    let handles = [fixture.store().clone(), fixture.second().await];
    start(&handles[0], "w").await;
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let store = handles[sender % 2].clone();
            tokio::spawn(async move {
                for at in 0..EACH {
                    if sender % 2 == 0 {
                        store
                            .deliver(KIND, "w", &encode(&(sender, at)))
                            .await
                            .expect("a deliver");
                    } else {
                        let key = format!("{sender}-{at}");
                        store.arrive(KIND, "w", &key, &encode(&at)).await.expect("an arrive");
                    }
                }
            })
        })
        .collect();
    let mut seen = 0;
    let mut round = 0;
    loop {
        let finished = senders.iter().all(tokio::task::JoinHandle::is_finished);
        round += 1;
        let passes = acquired(&handles[round % 2], 5).await;
        assert!(passes.len() <= 1, "{passes:?}");
        if passes.is_empty() && finished {
            break;
        }
        for taken in passes {
            assert!(taken.0.records.len() >= seen, "a pass saw less than the one before");
            seen = taken.0.records.len();
            settle(&handles[round % 2], &taken, &waiting(INBOX)).await;
        }
    }
    join_all(senders)
        .await
        .into_iter()
        .for_each(|sent| sent.expect("what the test set up is there"));
    assert_eq!(seen, 1 + SENDERS * EACH);
}
