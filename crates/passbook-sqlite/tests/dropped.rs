//! Futures that are dropped in the middle, as a losing branch of `select!` is.

mod common;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use passbook::{Acquire, Checkpointer, Durable, Life, Scheduler, Settlement};
use passbook_sqlite::Sqlite;
use sqlx::{Connection, SqliteConnection};

use common::{Home, claimed, count, value};

/// Where to stop: at once after so many polls, while the database works, or when it has answered but nobody has heard.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Working,
    Answered,
}

/// Polls so many times and drops. True when the future was ready before that.
async fn drop_after(polls: usize, stop: Stop, future: impl Future) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        if future.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        if left == 0 && matches!(stop, Stop::Working) {
            return Poll::Ready(false);
        }
        Poll::Pending
    })
    .await
}

/// Nothing is half-written, and no transaction is open.
async fn check(store: &Sqlite, foreign: &mut SqliteConnection, context: &str) {
    // Another process gets the lock, although this one writes nothing more.
    let taken = tokio::time::timeout(Duration::from_secs(5), foreign.begin_with("BEGIN IMMEDIATE")).await;
    taken.expect(context).expect(context).rollback().await.unwrap();
    for half in [
        // A start or an arrive without its wakeup, or the reverse.
        "SELECT count(*) FROM workflow_checkpoint WHERE step IN (':input', 'key') AND workflow NOT IN (SELECT workflow FROM workflow_queue UNION SELECT workflow FROM workflow_claim WHERE state = 'completed')",
        "SELECT count(*) FROM workflow_queue WHERE namespace = 'orders' AND workflow NOT IN (SELECT workflow FROM workflow_checkpoint)",
        // A result without its end, or the reverse.
        "SELECT count(*) FROM workflow_claim WHERE state = 'completed' AND workflow NOT IN (SELECT workflow FROM workflow_checkpoint WHERE step = ':result')",
        "SELECT count(*) FROM workflow_checkpoint WHERE step = ':result' AND workflow NOT IN (SELECT workflow FROM workflow_claim WHERE state = 'completed')",
    ] {
        assert_eq!(count(foreign, half).await, 0, "{context}: {half}");
    }
    store.checkpointer().append("next", &value("x")).await.expect(context);
}

#[tokio::test]
async fn a_dropped_write_is_whole_or_not_there_and_leaves_no_transaction_open() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut foreign = home.foreign().await;
    let mut fresh = 0;
    for stop in [Stop::Working, Stop::Answered] {
        for kind in [
            "start", "arrive", "deliver", "record", "renew", "cancel", "delete", "transact",
        ] {
            for polls in 1.. {
                fresh += 1;
                let workflow = format!("w{fresh}");
                let context = format!("{kind} dropped after {polls} polls, {stop:?}");
                let ended = match kind {
                    "start" => drop_after(polls, stop, store.start("orders", &workflow, &value("x"))).await,
                    "arrive" => drop_after(polls, stop, store.arrive("orders", &workflow, "key", &value("x"))).await,
                    "deliver" => drop_after(polls, stop, store.deliver("orders", &workflow, &value("x"))).await,
                    "record" => {
                        let claim = claimed(&store, &workflow).await;
                        drop_after(polls, stop, store.checkpointer().record(&claim, "step", &value("x"))).await
                    }
                    "renew" => {
                        let lives = [Life {
                            claim: claimed(&store, &workflow).await,
                            running: None,
                        }];
                        drop_after(polls, stop, store.checkpointer().renew(&lives)).await
                    }
                    "cancel" => {
                        store.start("orders", &workflow, &value("x")).await.unwrap();
                        let ended = drop_after(polls, stop, store.cancel("orders", &workflow)).await;
                        store.delete("orders", &workflow).await.unwrap();
                        ended
                    }
                    "delete" => {
                        store.start("orders", &workflow, &value("x")).await.unwrap();
                        drop_after(polls, stop, store.delete("orders", &workflow)).await
                    }
                    _ => {
                        let claim = claimed(&store, &workflow).await;
                        drop_after(polls, stop, store.checkpointer().begin(&claim, "step")).await
                    }
                };
                check(&store, &mut foreign, &context).await;
                if ended {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_dropped_acquire_or_settle_is_whole_or_not_there() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut foreign = home.foreign().await;
    let namespaces = ["passes".to_owned()];
    let request = Acquire::new(&namespaces, 3);
    for stop in [Stop::Working, Stop::Answered] {
        for polls in 1.. {
            let workflow = format!("{stop:?}{polls}");
            for n in 0..3 {
                store
                    .start("passes", &format!("{workflow}-{n}"), &value("x"))
                    .await
                    .unwrap();
            }
            let context = format!("acquire dropped after {polls} polls, {stop:?}");
            let ended = drop_after(polls, stop, store.acquire(&request)).await;
            check(&store, &mut foreign, &context).await;
            // Taken and claimed together: a claim that nobody hears of runs out together with its delivery.
            let lost = "SELECT count(*) FROM workflow_claim c JOIN workflow_queue q USING (workflow) WHERE c.open AND c.held_until < q.visible_at";
            assert_eq!(count(&mut foreign, lost).await, 0, "{context}");
            home.clock.advance(common::LEASE);
            for (pass, delivery) in store.acquire(&Acquire { limit: 9, ..request }).await.unwrap().passes {
                let result = Settlement::Completed { result: value("x") };
                drop_after(polls, stop, store.settle(&pass.claim, &delivery, &result)).await;
                check(&store, &mut foreign, &context).await;
                store.delete("passes", &pass.claim.workflow).await.unwrap();
            }
            if ended {
                break;
            }
        }
    }
}

#[tokio::test]
async fn who_gives_up_waiting_for_the_lock_leaves_the_queue() {
    let home = Home::new();
    let store = home.prepared().await;
    let held = store.file().begin().await.unwrap();
    for _ in 0..10 {
        assert!(!drop_after(1, Stop::Working, store.start("orders", "w", &value("x"))).await);
    }
    drop(held);
    store.scheduler().make_ready("orders", "w").await.unwrap();
    assert_eq!(store.checkpointer().load("w").await.unwrap(), []);
}

#[tokio::test]
async fn an_effect_that_waits_for_itself_is_told_after_the_patience() {
    let home = Home::new();
    home.prepared().await;
    let store = Sqlite::options()
        .patience(Duration::from_millis(50))
        .open(home.path())
        .await
        .unwrap();
    let held = store.file().begin().await.unwrap();
    let error = store.start("orders", "w", &value("x")).await.unwrap_err();
    assert!(
        error.is_unavailable() && error.to_string().contains("its own transaction"),
        "{error}"
    );
    drop(held);

    // And the same for a lock that another process holds.
    let other = home.open().await;
    let held = other.file().begin().await.unwrap();
    let error = store.start("orders", "w", &value("x")).await.unwrap_err();
    assert!(
        error.is_unavailable() && error.to_string().contains("another process"),
        "{error}"
    );
    drop(held);
    // Not at once: the other's rollback may be under way.
    let patient = home.open().await;
    assert!(patient.start("orders", "w", &value("x")).await.unwrap().first);
}
