//! No wakeup is lost to a receipt that happens to be the same.

mod common;

use passbook::{Durable, Scheduler, Settlement};

use common::{Home, LEASE, acquired, value};

#[tokio::test]
async fn a_wakeup_after_the_lease_ran_out_unnoticed_is_not_lost() {
    let home = Home::new();
    let store = home.prepared().await;
    store.start("orders", "w", &value("x")).await.unwrap();
    let (pass, delivery) = acquired(&store, "orders", 1).await.pop().unwrap();
    // The worker sleeps through its lease, and nobody else has room.
    home.clock.advance(LEASE);
    store.arrive("orders", "w", "key", &value("x")).await.unwrap();
    let waits = Settlement::Suspended {
        wake_at: None,
        waits_for: vec!["key".to_owned()],
    };
    assert!(store.settle(&pass.claim, &delivery, &waits).await.unwrap().is_held());
    assert_eq!(acquired(&store, "orders", 1).await.len(), 1);
}

#[tokio::test]
async fn making_ready_after_the_lease_ran_out_unnoticed_is_not_lost() {
    let home = Home::new();
    let store = home.prepared().await;
    let scheduler = store.scheduler();
    let orders = ["orders".to_owned()];
    scheduler.make_ready("orders", "w").await.unwrap();
    let delivery = scheduler.next_ready(&orders, 1).await.unwrap().pop().unwrap();
    home.clock.advance(LEASE * 2);
    scheduler.make_ready("orders", "w").await.unwrap();
    scheduler.done(&delivery).await.unwrap();
    assert_eq!(scheduler.next_ready(&orders, 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_deliveries_of_one_moment_have_two_receipts() {
    let home = Home::new();
    let store = home.prepared().await;
    let scheduler = store.scheduler();
    let orders = ["orders".to_owned()];
    scheduler.make_ready("orders", "w").await.unwrap();
    let first = scheduler.next_ready(&orders, 1).await.unwrap().pop().unwrap();
    scheduler.make_ready("orders", "w").await.unwrap();
    let second = scheduler.next_ready(&orders, 1).await.unwrap().pop().unwrap();
    assert_ne!(first.receipt, second.receipt);

    // The answer of the first does not take the second away.
    scheduler.done(&first).await.unwrap();
    assert_eq!(scheduler.next_ready(&orders, 1).await.unwrap().len(), 1);

    // Nor does one from before the workflow was cancelled and made ready again.
    scheduler.cancel("orders", "w").await.unwrap();
    scheduler.make_ready("orders", "w").await.unwrap();
    let third = scheduler.next_ready(&orders, 1).await.unwrap().pop().unwrap();
    assert!(third.receipt != first.receipt && third.receipt != second.receipt);
    scheduler.done(&third).await.unwrap();
    assert_eq!(scheduler.next_due(&orders).await.unwrap(), None);
}

#[tokio::test]
async fn a_commit_wakes_an_idle_worker_of_the_same_process() {
    let home = Home::new();
    let store = home.prepared().await;
    let orders = ["orders".to_owned()];
    let mut waiting = store.scheduler().wakeups(&orders);
    let mut late = store.scheduler().wakeups(&orders);
    let idle = tokio::spawn(async move { waiting.next().await });
    store.start("orders", "w", &value("x")).await.unwrap();
    idle.await.unwrap();

    // Also one that has looked, but does not wait yet.
    late.catch_up();
    store.arrive("orders", "w", "key", &value("x")).await.unwrap();
    late.next().await;
}
