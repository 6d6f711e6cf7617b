//! The store's own clock, and what is done for stores that keep sleepers and the dead apart.

use std::time::Duration;

use passbook::{Checkpointer, Clock, Durable, Scheduler};

use crate::fixture::{Fixture, KIND, LEASE, MICRO, claimed, encode, kinds, now, records};

/// Each record tells when its winning write was made, by the store's clock; a later write that lost does not move it.
pub async fn a_record_tells_when_its_winning_write_was_made<F: Fixture>(_: &F) {
    let fixture = F::open_under(Clock::store()).await;
    let store = fixture.store();
    let claim = claimed(store.checkpointer(), "w").await;
    let mut between = vec![store.scheduler().now().await.expect("the time")];
    for at in 0..4 {
        let (half, step) = (store.checkpointer(), format!("step-{at}"));
        match at {
            0 | 3 => drop(half.record(&claim, &step, &encode(&at)).await.expect("a record")),
            1 => drop(half.supply("w", &step, &encode(&at)).await.expect("a supply")),
            _ => drop(half.append("w", &encode(&at)).await.expect("an append")),
        }
        between.push(store.scheduler().now().await.expect("the time"));
        // It loses, and so moves nothing.
        half.record(&claim, "step-0", &encode("late")).await.expect("a record");
    }
    let records = records(store.checkpointer(), "w").await;
    assert_eq!(records.len(), 4);
    for (record, moments) in records.iter().zip(between.windows(2)) {
        assert!(
            moments[0] <= record.recorded_at && record.recorded_at <= moments[1],
            "{record:?} was not made between {moments:?}"
        );
    }
    fixture.close().await;
}

/// Waking what is due and reclaiming from the dead change nothing where the queue is scored by visibility, and lose
/// nothing anywhere.
pub async fn waking_and_reclaiming_lose_nothing(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    let upkeep = async || {
        store.wake_due().await.expect("what is due is woken");
        store.reclaim().await.expect("what the dead held is reclaimed");
    };
    let take = async || store.next_ready(&kinds(&[KIND]), 10).await.expect("a take succeeds");
    upkeep().await;
    for workflow in ["sleeps", "held"] {
        store.make_ready(KIND, workflow).await.expect("it is made ready");
    }
    upkeep().await;
    let taken = take().await;
    assert_eq!(taken.len(), 2);
    let sleeper = taken.iter().find(|delivery| delivery.workflow == "sleeps");
    let until = now(fixture).after(LEASE * 2);
    store
        .wake_at(sleeper.expect("it was taken"), until)
        .await
        .expect("an answer succeeds");
    fixture.clock().advance(LEASE - MICRO);
    upkeep().await;
    assert_eq!(take().await, [], "one is held and one sleeps");
    fixture.clock().advance(MICRO);
    upkeep().await;
    let dead = take().await;
    assert_eq!((dead.len(), dead[0].workflow.as_str()), (1, "held"));
    store.done(&dead[0]).await.expect("an answer succeeds");
    fixture.clock().advance(LEASE);
    upkeep().await;
    let woken = take().await;
    assert_eq!((woken.len(), woken[0].workflow.as_str()), (1, "sleeps"));
    store.done(&woken[0]).await.expect("an answer succeeds");
    upkeep().await;
    fixture.clock().advance(Duration::from_hours(1));
    assert_eq!(take().await, []);
}
