//! The schema: made once by however many boot together, in place over what is there.

mod common;

use std::process::Command;

use passbook::{Checkpointer, Claimed, Durable, Inspect, Scheduler, State};
use passbook_sqlite::Sqlite;
use sqlx::{AssertSqlSafe, Executor};

use common::{Home, acquired, claimed, count, value};

/// Set in the processes that `fifty_processes_at_boot` starts.
const BOOT: &str = "PASSBOOK_TEST_BOOT";

#[tokio::test]
async fn fifty_connections_at_boot_all_succeed() {
    let home = Home::new();
    let boots: Vec<_> = (0..50)
        .map(|_| {
            let path = home.path();
            tokio::spawn(async move {
                let store = Sqlite::open(path).await?;
                store.scheduler().prepare().await
            })
        })
        .collect();
    for boot in boots {
        boot.await.unwrap().unwrap();
    }
    let mut foreign = home.foreign().await;
    assert_eq!(count(&mut foreign, "SELECT count(*) FROM passbook_migration").await, 2);
    assert_eq!(count(&mut foreign, "SELECT count(*) FROM workflow_sequence").await, 1);
}

#[tokio::test]
async fn fifty_processes_at_boot_all_succeed() {
    if let Some(path) = std::env::var_os(BOOT) {
        let store = Sqlite::open(path).await.unwrap();
        store.scheduler().prepare().await.unwrap();
        return;
    }
    let home = Home::new();
    let boots: Vec<_> = (0..50)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "fifty_processes_at_boot_all_succeed", "--nocapture"])
                .env(BOOT, home.path())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut boot in boots {
        assert!(boot.wait().unwrap().success());
    }
    let mut foreign = home.foreign().await;
    assert_eq!(count(&mut foreign, "SELECT count(*) FROM passbook_migration").await, 2);
}

#[tokio::test]
async fn a_file_with_the_bare_tables_and_rows_is_upgraded_in_place() {
    let home = Home::new();
    let mut foreign = home.foreign().await;
    let tables = include_str!("../migrations/0001_tables.sql");
    (&mut foreign).execute(tables).await.unwrap();
    (&mut foreign)
        .execute(
            "INSERT INTO workflow_checkpoint VALUES ('w', ':input', '\"books\"'), ('w', 'b', '1'), ('w', 'a', '2');
             INSERT INTO workflow_claim VALUES ('w', 41, 0);
             INSERT INTO workflow_queue VALUES ('orders', 'w', 0);",
        )
        .await
        .unwrap();

    let store = home.prepared().await;
    let records = store.checkpointer().load("w").await.unwrap();
    let steps: Vec<&str> = records.iter().map(|record| record.step.as_str()).collect();
    assert_eq!(steps, [":input", "b", "a"]);
    assert_eq!(store.status("w").await.unwrap().unwrap().state, State::Ready);

    let (pass, _) = acquired(&store, "orders", 1).await.pop().unwrap();
    assert_eq!((pass.claim.token, pass.attempts, pass.records.len()), (42, 0, 3));
    let recorded = store
        .checkpointer()
        .record(&pass.claim, "c", &value("x"))
        .await
        .unwrap();
    assert!(recorded.first);
    let after = store.checkpointer().load("w").await.unwrap();
    assert!(after[3].seq > after[2].seq);
}

#[tokio::test]
async fn a_program_that_knows_only_the_bare_columns_works_beside_us() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut foreign = home.foreign().await;
    (&mut foreign)
        .execute(
            "BEGIN IMMEDIATE;
             INSERT INTO workflow_checkpoint (workflow, step, value) VALUES ('w', 'a', '1');
             INSERT INTO workflow_queue (namespace, workflow, visible_at) VALUES ('orders', 'w', 0);
             INSERT INTO workflow_claim (workflow, token, held_until) VALUES ('held', 7, 9999999999999999);
             COMMIT;",
        )
        .await
        .unwrap();
    store.checkpointer().supply("w", "b", &value("x")).await.unwrap();
    (&mut foreign)
        .execute(
            "INSERT INTO workflow_checkpoint (workflow, step, value) VALUES ('w', 'c', '3') ON CONFLICT DO NOTHING",
        )
        .await
        .unwrap();

    let records = store.checkpointer().load("w").await.unwrap();
    assert_eq!(
        records.iter().map(|record| record.step.as_str()).collect::<String>(),
        "abc"
    );
    assert!(records.iter().all(|record| record.recorded_at.as_micros() > 0));
    assert!(records.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    assert_eq!(store.checkpointer().claim("held").await.unwrap(), Claimed::Held);
    assert_eq!(acquired(&store, "orders", 1).await.len(), 1);
}

#[tokio::test]
async fn a_losing_write_moves_neither_the_order_nor_the_time() {
    let home = Home::new();
    let store = home.prepared().await;
    let claim = claimed(&store, "w").await;
    store.checkpointer().record(&claim, "a", &value("first")).await.unwrap();
    let before = store.checkpointer().load("w").await.unwrap();
    let mut foreign = home.foreign().await;
    let drawn = count(&mut foreign, "SELECT seq FROM workflow_sequence").await;

    for _ in 0..3 {
        assert!(
            !store
                .checkpointer()
                .record(&claim, "a", &value("later"))
                .await
                .unwrap()
                .first
        );
        assert!(
            !store
                .checkpointer()
                .supply("w", "a", &value("later"))
                .await
                .unwrap()
                .first
        );
        assert!(!store.arrive("orders", "w", "a", &value("later")).await.unwrap().first);
    }
    assert_eq!(store.checkpointer().load("w").await.unwrap(), before);
    assert_eq!(count(&mut foreign, "SELECT seq FROM workflow_sequence").await, drawn);
}

#[tokio::test]
async fn a_number_is_not_handed_out_again_after_a_delete() {
    let home = Home::new();
    let store = home.prepared().await;
    let first = store.checkpointer().append("w", &value("x")).await.unwrap();
    store.checkpointer().discard("w").await.unwrap();
    let second = store.checkpointer().append("w", &value("x")).await.unwrap();
    assert!(second > first, "{second} after {first}");
}

#[tokio::test]
async fn the_printed_schema_is_the_one_that_is_made() {
    let (printed, made) = (Home::new(), Home::new());
    let mut by_hand = printed.foreign().await;
    (&mut by_hand)
        .execute(AssertSqlSafe(passbook_sqlite::migration_sql()))
        .await
        .unwrap();
    made.prepared().await;
    let mut ours = made.foreign().await;

    let schema = "SELECT name, sql FROM sqlite_master ORDER BY name";
    let left: Vec<(String, Option<String>)> = sqlx::query_as(schema).fetch_all(&mut by_hand).await.unwrap();
    let right: Vec<(String, Option<String>)> = sqlx::query_as(schema).fetch_all(&mut ours).await.unwrap();
    assert_eq!(left, right);
    // And finds nothing left to do.
    printed.prepared().await;
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut foreign = home.foreign().await;
    (&mut foreign)
        .execute("INSERT INTO passbook_migration VALUES (1000, 'from the future', 0)")
        .await
        .unwrap();
    let error = store.scheduler().prepare().await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    assert!(error.to_string().contains("version 1000"), "{error}");
}

#[tokio::test]
async fn a_migration_that_fails_leaves_what_was_there() {
    let home = Home::new();
    let mut foreign = home.foreign().await;
    // A table of that name that is not ours: the second version cannot be made over it.
    (&mut foreign)
        .execute("CREATE TABLE workflow_sequence (x)")
        .await
        .unwrap();
    let store = home.open().await;
    store.scheduler().prepare().await.unwrap_err();
    store.scheduler().prepare().await.unwrap_err();
    assert_eq!(
        count(&mut foreign, "SELECT count(*) FROM sqlite_master WHERE type = 'table'").await,
        1
    );

    (&mut foreign).execute("DROP TABLE workflow_sequence").await.unwrap();
    store.scheduler().prepare().await.unwrap();
}

#[tokio::test]
async fn a_call_before_the_schema_is_there_says_so() {
    let home = Home::new();
    let store = home.open().await;
    let error = store.start("orders", "w", &value("x")).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert!(error.to_string().contains("`prepare`"), "{error}");
}
