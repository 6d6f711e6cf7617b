//! An effect and its record in one commit.

mod common;

use passbook::{Begun, Checkpointer, Claim, Claimed, Durable};
use passbook_sqlite::{Sqlite, Transaction};
use sqlx::{Connection, Executor};

use common::{Home, LEASE, claimed, count, value};

const ROWS: &str = "SELECT count(*) FROM ledger";

async fn ledger(home: &Home) -> Sqlite {
    let store = home.prepared().await;
    home.foreign()
        .await
        .execute("CREATE TABLE ledger (amount INTEGER)")
        .await
        .unwrap();
    store
}

async fn opened(store: &Sqlite, claim: &Claim, step: &str) -> Transaction {
    match store.checkpointer().begin(claim, step).await.unwrap() {
        Begun::Open(transaction) => transaction,
        Begun::Recorded(value) => panic!("recorded as {value}"),
    }
}

async fn book(transaction: &mut Transaction) {
    transaction.execute("INSERT INTO ledger VALUES (1)").await.unwrap();
}

#[tokio::test]
async fn a_dropped_transact_leaves_nothing() {
    let home = Home::new();
    let store = ledger(&home).await;
    let claim = claimed(&store, "w").await;
    let mut transaction = opened(&store, &claim, "step").await;
    book(&mut transaction).await;
    drop(transaction);
    assert!(
        store
            .checkpointer()
            .record(&claim, "next", &value("x"))
            .await
            .unwrap()
            .first
    );
    assert_eq!(count(&mut home.foreign().await, ROWS).await, 0);
    assert_eq!(store.checkpointer().load("w").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_committed_transact_runs_once() {
    let home = Home::new();
    let store = ledger(&home).await;
    let claim = claimed(&store, "w").await;
    let mut transaction = opened(&store, &claim, "step").await;
    book(&mut transaction).await;
    // A part of the effect that is undone by the effect itself.
    let mut part = (*transaction).begin().await.unwrap();
    (*part).execute("INSERT INTO ledger VALUES (2)").await.unwrap();
    part.rollback().await.unwrap();
    let recorded = store
        .checkpointer()
        .commit(transaction, &claim, "step", &value("x"))
        .await
        .unwrap();
    assert!(recorded.first);
    assert_eq!(count(&mut home.foreign().await, ROWS).await, 1);
    assert!(matches!(
        store.checkpointer().begin(&claim, "step").await.unwrap(),
        Begun::Recorded(there) if there == value("x")
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_supplied_meanwhile_waits_and_is_told_that_it_lost() {
    let home = Home::new();
    let store = ledger(&home).await;
    let other = home.prepared().await;
    let claim = claimed(&store, "w").await;
    let mut transaction = opened(&store, &claim, "step").await;
    book(&mut transaction).await;
    let supplies = [store.clone(), other].map(|store| {
        tokio::spawn(async move {
            store
                .checkpointer()
                .supply("w", "step", &value("supplied"))
                .await
                .unwrap()
        })
    });
    assert!(
        store
            .checkpointer()
            .commit(transaction, &claim, "step", &value("x"))
            .await
            .unwrap()
            .first
    );
    for supply in supplies {
        let recorded = supply.await.unwrap();
        assert_eq!((recorded.value, recorded.first), (value("x"), false));
    }
    assert_eq!(count(&mut home.foreign().await, ROWS).await, 1);
}

#[tokio::test]
async fn a_fenced_pass_runs_no_effect() {
    let home = Home::new();
    let store = ledger(&home).await;
    let stale = claimed(&store, "w").await;
    home.clock.advance(LEASE);
    let claim = claimed(&store, "w").await;
    assert!(
        store
            .checkpointer()
            .begin(&stale, "step")
            .await
            .unwrap_err()
            .is_fenced()
    );
    // And the lock is free again.
    assert!(
        store
            .checkpointer()
            .record(&claim, "next", &value("x"))
            .await
            .unwrap()
            .first
    );
}

#[tokio::test]
async fn an_effect_whose_pass_was_fenced_inside_it_rolls_back() {
    let home = Home::new();
    let store = ledger(&home).await;
    let claim = claimed(&store, "w").await;
    let mut transaction = opened(&store, &claim, "step").await;
    book(&mut transaction).await;
    transaction
        .execute("UPDATE workflow_claim SET token = token + 1")
        .await
        .unwrap();
    let error = store
        .checkpointer()
        .commit(transaction, &claim, "step", &value("x"))
        .await
        .unwrap_err();
    assert!(error.is_fenced(), "{error}");
    assert_eq!(count(&mut home.foreign().await, ROWS).await, 0);
}

#[tokio::test]
async fn an_effect_that_writes_its_own_row_is_refused() {
    let home = Home::new();
    let store = ledger(&home).await;
    let claim = claimed(&store, "w").await;
    let mut transaction = opened(&store, &claim, "step").await;
    book(&mut transaction).await;
    transaction
        .execute("INSERT INTO workflow_checkpoint (workflow, step, value) VALUES ('w', 'step', '1')")
        .await
        .unwrap();
    let error = store
        .checkpointer()
        .commit(transaction, &claim, "step", &value("x"))
        .await
        .unwrap_err();
    assert!(error.is_refused() && error.to_string().contains("`step`"), "{error}");
    assert_eq!(count(&mut home.foreign().await, ROWS).await, 0);
    assert!(store.checkpointer().load("w").await.unwrap().is_empty());
}

#[tokio::test]
async fn an_effect_that_ends_the_transaction_is_told() {
    let home = Home::new();
    let store = ledger(&home).await;
    let claim = claimed(&store, "w").await;
    for ending in ["COMMIT", "ROLLBACK", "COMMIT; BEGIN IMMEDIATE"] {
        let mut transaction = opened(&store, &claim, "step").await;
        transaction.execute(ending).await.unwrap();
        let error = store
            .checkpointer()
            .commit(transaction, &claim, "step", &value("x"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("ended the transaction"), "{ending}: {error}");
        // Whatever it left open is closed before the next write.
        assert!(
            store
                .checkpointer()
                .supply("w", ending, &value("x"))
                .await
                .unwrap()
                .first
        );
    }
    let mut foreign = home.foreign().await;
    assert_eq!(count(&mut foreign, "SELECT count(*) FROM workflow_checkpoint").await, 3);
}

#[tokio::test]
async fn a_savepoint_that_an_effect_leaks_is_gone_before_the_next_write() {
    let home = Home::new();
    let store = ledger(&home).await;
    let claim = claimed(&store, "w").await;
    let mut transaction = opened(&store, &claim, "step").await;
    std::mem::forget((*transaction).begin().await.unwrap());
    book(&mut transaction).await;
    drop(transaction);
    assert!(
        store
            .checkpointer()
            .supply("w", "next", &value("x"))
            .await
            .unwrap()
            .first
    );
    let mut foreign = home.foreign().await;
    assert_eq!(count(&mut foreign, ROWS).await, 0);
    assert_eq!(count(&mut foreign, "SELECT count(*) FROM workflow_checkpoint").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_claim_is_lost_for_having_waited_for_an_effect() {
    let home = Home::new();
    let store = ledger(&home).await;
    let other = home.prepared().await;
    let (claim, sibling) = (claimed(&store, "w").await, claimed(&other, "sibling").await);
    let mut transaction = opened(&store, &claim, "step").await;
    book(&mut transaction).await;
    let thieves = ["w", "sibling"].map(|workflow| {
        let other = other.clone();
        tokio::spawn(async move { other.checkpointer().claim(workflow).await.unwrap() })
    });
    home.clock.advance(LEASE * 3);
    assert!(
        store
            .checkpointer()
            .commit(transaction, &claim, "step", &value("x"))
            .await
            .unwrap()
            .first
    );
    for thief in thieves {
        assert_eq!(thief.await.unwrap(), Claimed::Held);
    }
    assert!(
        other
            .checkpointer()
            .record(&sibling, "step", &value("x"))
            .await
            .unwrap()
            .first
    );

    // Only the time of the effect is given back.
    home.clock.advance(LEASE);
    assert!(matches!(
        other.checkpointer().claim("w").await.unwrap(),
        Claimed::Granted(_)
    ));
    assert!(matches!(
        other.checkpointer().claim("sibling").await.unwrap(),
        Claimed::Granted(_)
    ));
}

#[tokio::test]
async fn an_effect_begun_after_its_lease_ran_out_keeps_the_claim_that_nobody_took() {
    let home = Home::new();
    let store = ledger(&home).await;
    let claim = claimed(&store, "w").await;
    home.clock.advance(LEASE);
    let mut transaction = opened(&store, &claim, "step").await;
    book(&mut transaction).await;
    home.clock.advance(LEASE);
    let recorded = store
        .checkpointer()
        .commit(transaction, &claim, "step", &value("x"))
        .await
        .unwrap();
    assert!(recorded.first);
    assert_eq!(store.checkpointer().claim("w").await.unwrap(), Claimed::Held);
}
