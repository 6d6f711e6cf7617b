//! What the sentences of the contract do not reach: transactions of this store alone, and moments at which the clock
//! stands still.

use std::time::Duration;

use crate::checkpointer::{Checkpointer, Claim, Life};
use crate::{
    Acquire, Clock, Delivery, Durable, Enlist, Error, MemoryStore, Pass, Scheduler, Settlement, Timestamp, Value,
};

const LEASE: Duration = Duration::from_secs(30);

fn store() -> (MemoryStore, Clock) {
    let clock = Clock::manual(Timestamp::from_micros(1_000_000));
    (MemoryStore::with(LEASE, clock.clone()).unwrap(), clock)
}

fn value(number: i32) -> Value {
    Value::encode(&number).unwrap()
}

fn waiting() -> Settlement {
    Settlement::Suspended {
        wake_at: None,
        waits_for: vec!["x".to_owned()],
    }
}

async fn acquired(store: &MemoryStore) -> Vec<(Pass, Delivery)> {
    let namespaces = ["kind".to_owned(), "kind".to_owned()];
    let request = Acquire::new(&namespaces, 10);
    store.acquire(&request).await.unwrap().passes
}

async fn started(store: &MemoryStore) -> (Pass, Delivery) {
    store.start("kind", "w", &value(1)).await.unwrap();
    let mut passes = acquired(store).await;
    assert_eq!(passes.len(), 1);
    passes.remove(0)
}

/// Whether a task that runs meanwhile is done after everybody had their turn.
async fn is_done<T>(task: &tokio::task::JoinHandle<T>) -> bool {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    task.is_finished()
}

#[tokio::test]
async fn a_transaction_reads_its_own_rows_before_others_do() {
    let (store, _) = store();
    let mut tx = store.begin_tx();
    tx.put("ledger", "a", value(1));
    tx.commit().unwrap();

    let mut tx = store.begin_tx();
    tx.put("ledger", "a", value(2));
    tx.put("ledger", "b", value(3));
    assert_eq!(tx.get("ledger", "a"), Some(value(2)));
    assert_eq!((tx.count("ledger"), tx.count("other")), (2, 0));
    let beside = store.begin_tx();
    assert_eq!(
        (beside.get("ledger", "a"), beside.get("ledger", "b")),
        (Some(value(1)), None)
    );
    assert_eq!(beside.count("ledger"), 1);
    drop(tx);
    assert_eq!(store.rows("ledger"), [("a".to_owned(), value(1))]);
}

#[tokio::test]
async fn what_an_open_transaction_was_told_is_so_when_it_commits() {
    let (store, _) = store();
    let mut tx = store.begin_tx();
    assert!(store.start_in(&mut tx, "kind", "w", &value(1)).await.unwrap().first);
    let key = store.deliver_in(&mut tx, "kind", "w", &value(2)).await.unwrap();
    let other = {
        let store = store.clone();
        tokio::spawn(async move { store.start("other", "w", &value(3)).await })
    };
    assert!(!is_done(&other).await);
    // Another workflow is not kept waiting.
    store.start("kind", "v", &value(1)).await.unwrap();
    tx.commit().unwrap();
    assert!(other.await.unwrap().unwrap_err().is_wrong_kind());
    let records = store.checkpointer().load("w").await.unwrap();
    assert_eq!(records[1].step, key);
    assert!(key.ends_with(&records[1].seq.to_string()));
}

#[tokio::test]
async fn a_dropped_transaction_lets_the_next_be_first() {
    let (store, _) = store();
    let mut tx = store.begin_tx();
    store.arrive_in(&mut tx, "kind", "w", "x", &value(1)).await.unwrap();
    let other = {
        let store = store.clone();
        tokio::spawn(async move { store.arrive("kind", "w", "x", &value(2)).await })
    };
    assert!(!is_done(&other).await);
    drop(tx);
    assert!(other.await.unwrap().unwrap().first);
}

#[tokio::test]
async fn a_pass_waits_only_for_the_keys_that_a_transaction_wrote() {
    let (store, _) = store();
    let (pass, _) = started(&store).await;
    let mut tx = store.begin_tx();
    store.arrive_in(&mut tx, "kind", "w", "x", &value(1)).await.unwrap();
    assert!(
        store
            .checkpointer()
            .record(&pass.claim, "y", &value(2))
            .await
            .unwrap()
            .first
    );
    let same = {
        let (store, claim) = (store.clone(), pass.claim.clone());
        tokio::spawn(async move { store.checkpointer().record(&claim, "x", &value(3)).await })
    };
    assert!(!is_done(&same).await);
    tx.commit().unwrap();
    let lost = same.await.unwrap().unwrap();
    assert_eq!((lost.value, lost.first), (value(1), false));
}

#[tokio::test]
async fn of_two_transactions_that_wait_for_each_other_one_is_refused() {
    let (store, _) = store();
    let (mut one, mut two) = (store.begin_tx(), store.begin_tx());
    store.start_in(&mut one, "kind", "v", &value(1)).await.unwrap();
    store.start_in(&mut two, "kind", "w", &value(1)).await.unwrap();
    let waits = {
        let store = store.clone();
        tokio::spawn(async move {
            let started = store.start_in(&mut one, "kind", "w", &value(2)).await;
            one.commit().map(|()| started)
        })
    };
    assert!(!is_done(&waits).await);
    let refused = store.start_in(&mut two, "kind", "v", &value(2)).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    drop(two);
    assert!(waits.await.unwrap().unwrap().unwrap().first);
}

#[tokio::test]
async fn a_transaction_of_another_store_is_refused() {
    let ((store, _), (other, _)) = (store(), self::store());
    let mut tx = other.begin_tx();
    let refused = store.start_in(&mut tx, "kind", "w", &value(1)).await.unwrap_err();
    assert!(refused.is_invalid(), "{refused}");
    let (pass, _) = started(&store).await;
    let refused = store.checkpointer().commit(tx, &pass.claim, "a", &value(1)).await;
    assert!(refused.as_ref().is_err_and(Error::is_invalid), "{refused:?}");
}

#[tokio::test]
async fn a_wakeup_that_met_the_held_claim_is_not_lost_while_the_clock_stands_still() {
    let (store, _) = store();
    let (pass, delivery) = started(&store).await;
    store.arrive("kind", "w", "x", &value(1)).await.unwrap();
    assert!(acquired(&store).await.is_empty());
    assert!(
        store
            .settle(&pass.claim, &delivery, &waiting())
            .await
            .unwrap()
            .is_held()
    );
    assert_eq!(acquired(&store).await.len(), 1);
}

#[tokio::test]
async fn two_deliveries_of_one_moment_have_two_receipts() {
    let (store, clock) = store();
    let (scheduler, kinds) = (store.scheduler(), ["kind".to_owned()]);
    let mut receipts = Vec::new();
    for _ in 0..3 {
        scheduler.make_ready("kind", "w").await.unwrap();
        let delivery = scheduler.next_ready(&kinds, 1).await.unwrap().remove(0);
        let extended = scheduler.extend(std::slice::from_ref(&delivery)).await.unwrap();
        assert_eq!(extended, std::slice::from_ref(&delivery), "an extension by nothing");
        assert!(!receipts.contains(&delivery.receipt));
        receipts.push(delivery.receipt);
        scheduler.cancel("kind", "w").await.unwrap();
    }
    // The first of a moment is hidden for the whole lease.
    assert_eq!(receipts[0], clock.bound().unwrap().after(LEASE));
}

#[tokio::test]
async fn a_settle_that_comes_twice_does_not_park_again_what_was_reopened() {
    let (store, _) = store();
    let (pass, delivery) = started(&store).await;
    let failed = Settlement::Failed {
        error: "no".to_owned(),
        retry_at: None,
    };
    assert!(store.settle(&pass.claim, &delivery, &failed).await.unwrap().is_held());
    assert!(store.reopen("kind", "w").await.unwrap());
    assert!(!store.settle(&pass.claim, &delivery, &failed).await.unwrap().is_held());
    assert_eq!(acquired(&store).await.len(), 1);
}

#[tokio::test]
async fn a_lost_claim_is_not_renewed() {
    let (store, _) = store();
    let (pass, delivery) = started(&store).await;
    let stale = Life {
        claim: Claim {
            workflow: "w".to_owned(),
            token: pass.claim.token - 1,
        },
        running: None,
    };
    let renewed = store.renew(&[(stale, delivery.clone())]).await.unwrap().remove(0);
    assert!(!renewed.alive);
    assert!(
        store
            .settle(&pass.claim, &renewed.delivery, &waiting())
            .await
            .unwrap()
            .is_held()
    );
}

#[tokio::test]
async fn a_commit_wakes_every_idle_worker_and_one_that_does_not_wait_yet() {
    let (store, _) = store();
    let mut late = store.scheduler().wakeups(&["kind".to_owned()]);
    let idle: Vec<_> = (0..3)
        .map(|_| {
            let mut wakeups = store.scheduler().wakeups(&["kind".to_owned()]);
            tokio::spawn(async move { wakeups.next().await })
        })
        .collect();
    assert!(!is_done(&idle[0]).await);
    store.start("kind", "w", &value(1)).await.unwrap();
    for worker in idle {
        worker.await.unwrap();
    }
    late.next().await;
    let again = tokio::spawn(async move { late.next().await });
    assert!(!is_done(&again).await, "once for each commit");
}
