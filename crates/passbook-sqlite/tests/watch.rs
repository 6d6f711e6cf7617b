//! An idle worker sees what others have made ready, long before it would look by itself.

mod common;

use std::io::{BufRead, BufReader, Lines};
use std::process::{Command, Stdio};
use std::time::Duration;

use passbook::{Acquire, Acquired, Durable, Enlist, Scheduler, Settlement};
use passbook_sqlite::Sqlite;

use common::{Home, value};

/// Set in the process that waits.
const IDLE: &str = "PASSBOOK_TEST_IDLE";

/// So long that a test which has to wait for it has failed.
const HOUR: Duration = Duration::from_hours(1);
/// Only to fail.
const MINUTE: Duration = Duration::from_mins(1);

async fn patient(path: impl AsRef<std::path::Path>) -> Sqlite {
    let store = Sqlite::options().poll(HOUR).open(path).await.unwrap();
    store.scheduler().prepare().await.unwrap();
    store
}

/// Looks as a worker does: at once, and then when it is told to. Calls back when it has found nothing and is about to wait.
async fn take(store: &Sqlite, mut idle: impl FnMut()) -> String {
    let namespaces = ["orders".to_owned()];
    let request = Acquire::new(&namespaces, 1);
    let mut wakeups = store.scheduler().wakeups(&namespaces);
    loop {
        wakeups.catch_up();
        let Acquired { mut passes, .. } = store.acquire(&request).await.unwrap();
        if let Some((pass, delivery)) = passes.pop() {
            let end = Settlement::Completed { result: value("x") };
            assert!(store.settle(&pass.claim, &delivery, &end).await.unwrap().is_held());
            return pass.claim.workflow;
        }
        idle();
        let told = tokio::time::timeout(MINUTE, wakeups.next()).await;
        told.expect("the worker is told");
    }
}

fn next(lines: &mut Lines<BufReader<std::process::ChildStdout>>, mark: &str) -> String {
    let line = lines.map_while(Result::ok).find(|line| line.contains(mark));
    line.unwrap_or_else(|| panic!("the other process does not get to `{mark}`"))
}

#[tokio::test]
async fn an_idle_worker_of_another_process_takes_what_was_started() {
    if let Some(path) = std::env::var_os(IDLE) {
        let store = patient(path).await;
        loop {
            let workflow = take(&store, || println!("idle")).await;
            println!("took {workflow}.");
        }
    }
    let home = Home::new();
    let store = patient(home.path()).await;
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "an_idle_worker_of_another_process_takes_what_was_started",
            "--nocapture",
        ])
        .env(IDLE, home.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    for n in 0..20 {
        next(&mut lines, "idle");
        let workflow = format!("w{n}");
        if n % 2 == 0 {
            store.start("orders", &workflow, &value("x")).await.unwrap();
        } else {
            let mut transaction = store.file().begin().await.unwrap();
            store
                .start_in(&mut transaction, "orders", &workflow, &value("x"))
                .await
                .unwrap();
            transaction.commit().await.unwrap();
        }
        assert!(next(&mut lines, "took ").contains(&format!("took {workflow}.")));
    }
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn every_idle_worker_of_a_handle_is_told_what_another_handle_has_committed() {
    let home = Home::new();
    let (here, there) = (patient(home.path()).await, patient(home.path()).await);
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let there = there.clone();
            tokio::spawn(async move { take(&there, || {}).await })
        })
        .collect();
    let mut started: Vec<String> = (0..3).map(|n| format!("w{n}")).collect();
    for workflow in &started {
        here.start("orders", workflow, &value("x")).await.unwrap();
    }
    let mut took = Vec::new();
    for worker in workers {
        took.push(worker.await.unwrap());
    }
    took.sort();
    started.sort();
    assert_eq!(took, started);
}

#[tokio::test]
async fn a_worker_is_told_of_a_transaction_of_the_callers_own_after_its_commit() {
    let home = Home::new();
    let store = patient(home.path()).await;
    let mut transaction = store.file().begin().await.unwrap();
    store
        .start_in(&mut transaction, "orders", "w", &value("x"))
        .await
        .unwrap();
    let worker = tokio::spawn({
        let store = store.clone();
        async move { take(&store, || {}).await }
    });
    transaction.commit().await.unwrap();
    assert_eq!(worker.await.unwrap(), "w");
}
