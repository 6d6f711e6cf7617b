//! Names: any string within the limits, on its way through every transition.

use crate::fixture::{
    Fixture, KIND, acquired_of, bad_names, encode, granted, idle, odd_names, records, settle, waiting,
};
use crate::scheduler::{done, due, ready, take};
use passbook::{Durable, INPUT, Scheduler};
use std::collections::HashSet;

/// Names of kinds and workflows are parameters: never parsed, never folded, never trimmed.
pub async fn names_are_queued_as_they_are(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    let names = odd_names();
    for name in &names {
        store.make_ready(name, "w").await.expect("it is made ready");
        ready(store, name).await;
    }
    store
        .make_ready(&names[names.len() - 1], &names[names.len() - 2])
        .await
        .expect("it is made ready");
    let taken: HashSet<String> = take(store, 100)
        .await
        .into_iter()
        .map(|delivery| delivery.workflow)
        .collect();
    assert_eq!(taken, names.iter().cloned().collect());
    let mut of_kinds = store.next_ready(&names, 100).await.expect("a take succeeds");
    assert_eq!(of_kinds.len(), names.len() + 1);
    for delivery in of_kinds.drain(..) {
        done(store, &delivery).await;
    }
    assert_eq!(store.next_due(&names).await.expect("a look succeeds"), None);
}

/// An empty name, one with a NUL and one over the limit are refused, and nothing is queued.
pub async fn names_that_no_queue_keeps_are_refused(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    for name in bad_names() {
        for refused in [store.make_ready(KIND, &name).await, store.make_ready(&name, "w").await] {
            let refused = refused.expect_err("it is refused");
            assert!(refused.is_refused(), "{refused:?}");
        }
    }
    assert_eq!(due(store).await, None);
}

/// Ids, kinds and keys are parameters on the whole way from start to result.
pub async fn names_go_through_as_they_are(fixture: &impl Fixture) {
    let store = fixture.store();
    let names = odd_names();
    for name in &names {
        store.start(name, name, &encode(name)).await.expect("a start");
        store.arrive(name, name, name, &encode(name)).await.expect("an arrive");
    }
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    let passes = acquired_of(store, &asked, 100).await;
    assert_eq!(passes.len(), names.len());
    for taken in &passes {
        let name = &taken.1.workflow;
        assert_eq!((&taken.1.namespace, &taken.0.claim.workflow), (name, name));
        assert!(taken.0.records.iter().map(|record| &record.step).eq([INPUT, name]));
        let waiting = waiting(name);
        settle(store, taken, &waiting).await;
    }
    for name in &names {
        assert!(store.cancel(name, name).await.expect("a cancel"));
        assert!(store.reopen(name, name).await.expect("a reopen"));
        assert_eq!(store.delete(name, name).await.expect("a delete"), 2);
    }
    assert!(acquired_of(store, &asked, 100).await.is_empty());
}

/// A name that no store keeps is refused and nothing is written.
pub async fn a_bad_name_is_refused_with_nothing_written(fixture: &impl Fixture) {
    let store = fixture.store();
    let value = encode(&1);
    for bad in bad_names() {
        let bad = bad.as_str();
        let refusals = [
            store.start(KIND, bad, &value).await.expect_err("a start"),
            store.arrive(KIND, bad, "a", &value).await.expect_err("an arrive"),
            store.arrive(KIND, "w", bad, &value).await.expect_err("an arrive"),
            store.deliver(KIND, bad, &value).await.expect_err("a deliver"),
        ];
        for refused in refusals {
            assert!(refused.is_refused(), "{refused:?}");
        }
    }
    idle(store).await;
    assert_eq!(records(store.checkpointer(), "w").await, []);
    granted(store.checkpointer(), "w").await;
}
