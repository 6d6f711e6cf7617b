//! A step's own writes and its record, in one commit.

use passbook::{Begun, Checkpointer, Claim, Durable, Recorded, Result, Tx};

use crate::fixture::{Fixture, LEASE, claimed, encode, keys, records};

type Open<S> = <<S as Durable>::Checkpointer as Checkpointer>::Transaction;

async fn opened<S: Durable>(store: &S, claim: &Claim, step: &str) -> Open<S> {
    match store.checkpointer().begin(claim, step).await.expect("a begin succeeds") {
        Begun::Open(transaction) => transaction,
        Begun::Recorded(value) => panic!("`{step}` is recorded: {value}"),
    }
}

async fn commit<S: Durable>(store: &S, open: Open<S>, claim: &Claim, step: &str, value: i32) -> Result<Recorded> {
    store.checkpointer().commit(open, claim, step, &encode(&value)).await
}

async fn count<F: Fixture>(fixture: &F, tx: &mut Tx<F::Store>) {
    fixture.count(tx).await;
}

/// The effect and its record are there together, and for everybody.
pub async fn an_effect_and_its_record_commit_together(fixture: &impl Fixture) {
    let store = fixture.store();
    let claim = claimed(store.checkpointer(), "w").await;
    let mut open = opened(store, &claim, "ledger").await;
    count(fixture, &mut open).await;
    assert_eq!(fixture.counted().await, 0, "nothing is visible before the commit");
    assert_eq!(records(store.checkpointer(), "w").await, []);
    let recorded = commit(store, open, &claim, "ledger", 1).await.expect("a commit");
    assert_eq!((recorded.value, recorded.first), (encode(&1), true));
    assert_eq!(fixture.counted().await, 1);
    assert_eq!(keys(fixture.second().await.checkpointer(), "w").await, ["ledger"]);
}

/// A recorded effect is not run again, by no later pass: its value is returned.
pub async fn a_recorded_effect_is_not_run_again(fixture: &impl Fixture) {
    let store = fixture.store();
    let mut claim = claimed(store.checkpointer(), "w").await;
    let mut open = opened(store, &claim, "ledger").await;
    count(fixture, &mut open).await;
    commit(store, open, &claim, "ledger", 1).await.expect("a commit");
    for _ in 0..3 {
        match store.checkpointer().begin(&claim, "ledger").await.expect("a begin") {
            Begun::Recorded(value) => assert_eq!(value, encode(&1)),
            Begun::Open(_) => panic!("it would run again"),
        }
        fixture.clock().advance(LEASE);
        claim = claimed(store.checkpointer(), "w").await;
    }
    assert_eq!(fixture.counted().await, 1);
}

/// A step and a supplied value are recorded likewise: no transaction is opened over them.
pub async fn no_transaction_is_opened_over_a_record(fixture: &impl Fixture) {
    let store = fixture.store();
    let claim = claimed(store.checkpointer(), "w").await;
    store
        .checkpointer()
        .supply("w", "a", &encode(&1))
        .await
        .expect("a supply");
    store
        .checkpointer()
        .record(&claim, "b", &encode(&2))
        .await
        .expect("a record");
    for (step, value) in [("a", 1), ("b", 2)] {
        match store.checkpointer().begin(&claim, step).await.expect("a begin") {
            Begun::Recorded(recorded) => assert_eq!(recorded, encode(&value)),
            Begun::Open(_) => panic!("`{step}` is recorded"),
        }
    }
}

/// A pass that is fenced before performs nothing.
pub async fn a_fenced_pass_opens_no_transaction(fixture: &impl Fixture) {
    let store = fixture.store();
    let stale = claimed(store.checkpointer(), "w").await;
    let mut open = opened(store, &stale, "a").await;
    count(fixture, &mut open).await;
    commit(store, open, &stale, "a", 1).await.expect("a commit");
    fixture.clock().advance(LEASE);
    claimed(store.checkpointer(), "w").await;
    for step in ["a", "b"] {
        let refused = store
            .checkpointer()
            .begin(&stale, step)
            .await
            .map(drop)
            .expect_err("a begin");
        assert!(refused.is_fenced(), "{refused:?}");
    }
    assert_eq!(fixture.counted().await, 1);
}

/// A transaction that is dropped leaves nothing, and the step runs at the next asking.
pub async fn a_dropped_transaction_leaves_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    let claim = claimed(store.checkpointer(), "w").await;
    for _ in 0..3 {
        let mut open = opened(store, &claim, "ledger").await;
        count(fixture, &mut open).await;
        drop(open);
        assert_eq!(records(store.checkpointer(), "w").await, []);
        assert_eq!(fixture.counted().await, 0);
    }
    let mut open = opened(store, &claim, "ledger").await;
    count(fixture, &mut open).await;
    commit(store, open, &claim, "ledger", 1).await.expect("a commit");
    assert_eq!(fixture.counted().await, 1);
}

/// An effect that writes the step's own row is told so, and rolls back.
pub async fn an_effect_that_writes_its_own_row_is_refused(fixture: &impl Fixture) {
    let store = fixture.store();
    let claim = claimed(store.checkpointer(), "w").await;
    let mut open = opened(store, &claim, "ledger").await;
    count(fixture, &mut open).await;
    fixture.write_row(&mut open, "w", "ledger").await;
    let refused = commit(store, open, &claim, "ledger", 1).await.expect_err("a commit");
    assert!(!refused.is_fenced() && !refused.is_unavailable(), "{refused:?}");
    assert!(refused.to_string().contains("`ledger`"), "{refused}");
    assert!(refused.to_string().contains("`w`"), "{refused}");
    assert_eq!(records(store.checkpointer(), "w").await, []);
    assert_eq!(fixture.counted().await, 0);
}

/// An effect may write another row of its workflow, in the same commit.
pub async fn an_effect_may_write_another_row(fixture: &impl Fixture) {
    let store = fixture.store();
    let claim = claimed(store.checkpointer(), "w").await;
    let mut open = opened(store, &claim, "ledger").await;
    fixture.write_row(&mut open, "w", "beside").await;
    fixture.write_row(&mut open, "v", "ledger").await;
    commit(store, open, &claim, "ledger", 1).await.expect("a commit");
    let mut written = keys(store.checkpointer(), "w").await;
    written.sort();
    assert_eq!(written, ["beside", "ledger"]);
    assert_eq!(keys(store.checkpointer(), "v").await, ["ledger"]);
}
