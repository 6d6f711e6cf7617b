//! What happens beside an open `transact`. A store whose effects hold its only write lock keeps all others waiting, and
//! so has none of these to show.

use passbook::{Begun, Checkpointer, Claim, Durable};

use crate::fixture::{Fixture, LEASE, claimed, encode, keys, life, records, waiting};

async fn opened<S: Durable>(store: &S, claim: &Claim) -> <<S as Durable>::Checkpointer as Checkpointer>::Transaction {
    match store.checkpointer().begin(claim, "ledger").await.expect("a begin") {
        Begun::Open(transaction) => transaction,
        Begun::Recorded(value) => panic!("it is recorded: {value}"),
    }
}

/// An effect whose pass is fenced while it runs rolls back, whoever raised the fence.
pub async fn an_effect_rolls_back_when_its_pass_is_fenced_meanwhile(fixture: &impl Fixture) {
    let store = fixture.store();
    for raised_by in ["takeover", "cancel", "discard"] {
        let stale = claimed(store.checkpointer(), raised_by).await;
        let mut open = opened(store, &stale).await;
        fixture.count(&mut open).await;
        match raised_by {
            "takeover" => {
                fixture.clock().advance(LEASE);
                claimed(store.checkpointer(), raised_by).await;
            }
            "cancel" => assert!(store.checkpointer().cancel(raised_by).await.expect("a cancel")),
            _ => assert_eq!(store.checkpointer().discard(raised_by).await.expect("a discard"), 0),
        }
        let commit = store.checkpointer().commit(open, &stale, "ledger", &encode(&1)).await;
        let refused = commit.expect_err("a commit");
        assert!(refused.is_fenced(), "{raised_by}: {refused:?}");
        assert_eq!(records(store.checkpointer(), raised_by).await, []);
        assert_eq!(fixture.counted().await, 0, "{raised_by}");
    }
}

/// A value that `supply` put under the key meanwhile wins: the effect rolls back and that value is returned.
pub async fn a_value_supplied_meanwhile_wins_over_the_effect(fixture: &impl Fixture) {
    let store = fixture.store();
    let claim = claimed(store.checkpointer(), "w").await;
    let mut open = opened(store, &claim).await;
    fixture.count(&mut open).await;
    let supplied = store.checkpointer().supply("w", "ledger", &encode("supplied")).await;
    assert!(supplied.expect("a supply").first);
    let commit = store.checkpointer().commit(open, &claim, "ledger", &encode(&1)).await;
    let recorded = commit.expect("a commit");
    assert_eq!((recorded.value, recorded.first), (encode("supplied"), false));
    assert_eq!(fixture.counted().await, 0);
    let records = records(store.checkpointer(), "w").await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].value, encode("supplied"));
}

/// Of two runs of one effect at once, under one claim, exactly one commits and the other returns its value.
pub async fn of_two_runs_of_an_effect_exactly_one_commits(fixture: &impl Fixture) {
    let (one, other) = (fixture.store(), fixture.second().await);
    let claim = claimed(one.checkpointer(), "w").await;
    let mut first = opened(one, &claim).await;
    let mut second = opened(&other, &claim).await;
    fixture.count(&mut first).await;
    let recorded = one.checkpointer().commit(first, &claim, "ledger", &encode(&1)).await;
    assert!(recorded.expect("a commit").first);
    fixture.count(&mut second).await;
    let recorded = other.checkpointer().commit(second, &claim, "ledger", &encode(&2)).await;
    let recorded = recorded.expect("a commit");
    assert_eq!((recorded.value, recorded.first), (encode(&1), false));
    assert_eq!(fixture.counted().await, 1);
}

/// The claim is not locked while the effect runs: renewals, records and values from outside land.
pub async fn renewals_and_records_land_while_an_effect_runs(fixture: &impl Fixture) {
    let store = fixture.store();
    let claim = claimed(store.checkpointer(), "w").await;
    let mut open = opened(store, &claim).await;
    fixture.count(&mut open).await;
    for _ in 0..3 {
        fixture.clock().advance(LEASE / 2);
        assert_eq!(
            store.checkpointer().renew(&[life(&claim)]).await.expect("a renewal"),
            [true]
        );
    }
    let recorded = store.checkpointer().record(&claim, "beside", &encode(&1)).await;
    assert!(recorded.expect("a record").first);
    let supplied = store.checkpointer().supply("w", "approved", &encode(&1)).await;
    assert!(supplied.expect("a supply").first);
    store.checkpointer().append("w", &encode(&1)).await.expect("an append");

    let recorded = store.checkpointer().commit(open, &claim, "ledger", &encode(&1)).await;
    assert!(recorded.expect("a commit").first);
    assert_eq!(fixture.counted().await, 1);
    assert_eq!(keys(store.checkpointer(), "w").await.len(), 4);
    assert!(
        store
            .checkpointer()
            .release(&claim, &waiting("x"))
            .await
            .expect("a release")
    );
}
