//! Start, arrive and deliver in a transaction of the caller's own.

mod common;

use passbook::{Checkpointer, Durable, Enlist, Inspect};
use passbook_sqlite::Sqlite;
use sqlx::{Connection, SqliteConnection};

use common::{Home, acquired, count, value};

async fn enlist_all(store: &Sqlite, tx: &mut SqliteConnection) {
    assert!(store.start_in(tx, "orders", "w", &value("in")).await.unwrap().first);
    assert!(
        store
            .arrive_in(tx, "orders", "w", "key", &value("a"))
            .await
            .unwrap()
            .first
    );
    store.deliver_in(tx, "orders", "w", &value("b")).await.unwrap();
}

#[tokio::test]
async fn nothing_is_visible_before_the_commit() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut application = home.foreign().await;

    let mut tx = application.begin_with("BEGIN IMMEDIATE").await.unwrap();
    enlist_all(&store, &mut tx).await;
    assert!(acquired(&store, "orders", 1).await.is_empty());
    assert!(store.checkpointer().load("w").await.unwrap().is_empty());
    assert_eq!(store.status("w").await.unwrap(), None);
    tx.commit().await.unwrap();

    let passes = acquired(&store, "orders", 9).await;
    assert_eq!(passes.len(), 1);
    assert_eq!(passes[0].0.records.len(), 3);
}

#[tokio::test]
async fn nothing_remains_after_a_rollback() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut application = home.foreign().await;

    let mut tx = application.begin_with("BEGIN IMMEDIATE").await.unwrap();
    enlist_all(&store, &mut tx).await;
    tx.rollback().await.unwrap();
    assert!(acquired(&store, "orders", 1).await.is_empty());
    assert_eq!(store.status("w").await.unwrap(), None);

    // The same on a transaction of the store's own.
    let mut tx = store.file().begin().await.unwrap();
    enlist_all(&store, &mut tx).await;
    drop(tx);
    assert_eq!(store.status("w").await.unwrap(), None);
    let mut tx = store.file().begin().await.unwrap();
    enlist_all(&store, &mut tx).await;
    tx.commit().await.unwrap();
    assert_eq!(acquired(&store, "orders", 1).await.len(), 1);
}

#[tokio::test]
async fn a_refused_call_leaves_the_rest_of_the_transaction() {
    let home = Home::new();
    let store = home.prepared().await;
    store.start("orders", "w", &value("in")).await.unwrap();
    let mut tx = store.file().begin().await.unwrap();
    store.start_in(&mut tx, "orders", "before", &value("in")).await.unwrap();
    let error = store
        .arrive_in(&mut tx, "refunds", "w", "key", &value("a"))
        .await
        .unwrap_err();
    assert!(error.is_wrong_kind(), "{error}");
    assert!(
        store
            .deliver_in(&mut tx, "refunds", "w", &value("a"))
            .await
            .unwrap_err()
            .is_wrong_kind()
    );
    assert!(
        store
            .start_in(&mut tx, "refunds", "w", &value("a"))
            .await
            .unwrap_err()
            .is_wrong_kind()
    );
    assert!(
        store
            .start_in(&mut tx, "orders", "", &value("a"))
            .await
            .unwrap_err()
            .is_refused()
    );
    store.start_in(&mut tx, "orders", "after", &value("in")).await.unwrap();
    tx.commit().await.unwrap();

    let mut foreign = home.foreign().await;
    assert_eq!(count(&mut foreign, "SELECT count(*) FROM workflow_checkpoint").await, 3);
    assert_eq!(count(&mut foreign, "SELECT count(*) FROM workflow_queue").await, 3);
}
