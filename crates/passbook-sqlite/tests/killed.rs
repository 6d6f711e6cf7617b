//! A process that is killed at any moment leaves nothing half-written, and what it was told is done is there.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use passbook::{Checkpointer, Durable, Settlement};
use passbook_sqlite::Sqlite;

use common::{Home, acquired, count, value};

/// Set in the process that is killed.
const VICTIM: &str = "PASSBOOK_TEST_VICTIM";

async fn work(path: std::ffi::OsString) {
    let store = Sqlite::open(path).await.unwrap();
    // Several at once, so that their writes go together.
    let workers = (0..8).map(|worker| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0_u64.. {
                let workflow = format!("{}-{worker}-{n}", std::process::id());
                store.start("orders", &workflow, &value("x")).await.unwrap();
                for (pass, delivery) in acquired(&store, "orders", 1).await {
                    store
                        .checkpointer()
                        .record(&pass.claim, "step", &value("x"))
                        .await
                        .unwrap();
                    let result = Settlement::Completed { result: value("x") };
                    store.settle(&pass.claim, &delivery, &result).await.unwrap();
                    println!("completed {}", pass.claim.workflow);
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

#[tokio::test]
async fn a_killed_process_leaves_every_transition_whole() {
    if let Some(path) = std::env::var_os(VICTIM) {
        return work(path).await;
    }
    let home = Home::new();
    let store = home.prepared().await;
    let mut foreign = home.foreign().await;
    let mut told = 0;
    for round in 0..12 {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_killed_process_leaves_every_transition_whole",
                "--nocapture",
            ])
            .env(VICTIM, home.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        // A different place each time: the kill falls wherever the next writes happen to be.
        let mut lines = lines.map_while(Result::ok).filter(|line| line.contains("completed "));
        told += lines.by_ref().take(round + 1).count();
        victim.kill().unwrap();
        victim.wait().unwrap();
        told += lines.count();

        for half in [
            "SELECT count(*) FROM workflow_checkpoint WHERE step = ':input' AND workflow NOT IN (SELECT workflow FROM workflow_queue UNION SELECT workflow FROM workflow_claim WHERE state = 'completed')",
            "SELECT count(*) FROM workflow_queue WHERE workflow NOT IN (SELECT workflow FROM workflow_checkpoint)",
            "SELECT count(*) FROM workflow_claim WHERE state = 'completed' AND (open OR workflow IN (SELECT workflow FROM workflow_queue))",
            "SELECT count(*) FROM workflow_claim WHERE state = 'completed' AND workflow NOT IN (SELECT workflow FROM workflow_checkpoint WHERE step = ':result')",
            "SELECT count(*) FROM workflow_checkpoint WHERE step = ':result' AND workflow NOT IN (SELECT workflow FROM workflow_claim WHERE state = 'completed')",
        ] {
            assert_eq!(count(&mut foreign, half).await, 0, "round {round}: {half}");
        }
        // The lock did not die with its holder.
        store.checkpointer().append("alive", &value("x")).await.unwrap();
    }
    let completed = count(
        &mut foreign,
        "SELECT count(*) FROM workflow_claim WHERE state = 'completed'",
    )
    .await;
    assert!(
        completed >= i64::try_from(told).unwrap(),
        "{completed} completed, {told} told"
    );
    let integrity: String = sqlx::query_scalar("PRAGMA integrity_check")
        .fetch_one(&mut foreign)
        .await
        .unwrap();
    assert_eq!(integrity, "ok");
}
