//! Sleeps, waits with and without a limit, the inbox, retries: what a body waits for.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use passbook::{Batch, Checkpointer, Cursor, Durable, Retry, Run, State, TimedOut, Timestamp};
use tokio::sync::Notify;

use crate::bed::{Bed, KIND, Store, completed, encode, suspended};

const HOUR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_mins(1);

/// Case 4: the end of a wait is a record, so a crash does not start it over.
pub async fn a_sleep_that_crashes_ends_when_it_would_have<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let began = bed.now();
    let (pass, _) = bed.take().await.expect("due");
    // The pass dies after its deadline was recorded: nothing is settled.
    suspended(passbook::resume(pass, &bed.store, async |run| run.sleep("nap", HOUR).await).await);
    bed.clock.advance(MINUTE * 30);
    let again = bed.pass(async |run| run.sleep("nap", HOUR).await).await;
    assert_eq!(suspended(again).0, Some(began.after(HOUR)));
    assert!(bed.take().await.is_none(), "it sleeps");
    bed.clock.advance(MINUTE * 30);
    completed(bed.pass(async |run| run.sleep("nap", HOUR).await).await);
}

/// A moment that has passed is not slept for.
pub async fn a_sleep_until_the_past_goes_on_at_once<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    completed(
        bed.pass(async |run| run.sleep_until("then", Timestamp::from_micros(1)).await)
            .await,
    );
}

/// What `now` gave is recorded.
pub async fn now_reads_the_same_on_every_replay<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let first = bed.now();
    let body = async |run: &Run<S>| {
        let now = run.now("began").await;
        run.awaiting::<()>("go").await;
        now
    };
    suspended(bed.pass(body).await);
    bed.clock.advance(HOUR);
    bed.arrive("w", "go", &()).await;
    let body = async |run: &Run<S>| {
        let now = run.now("began").await;
        run.awaiting::<()>("go").await;
        now
    };
    assert_eq!(completed(bed.pass(body).await), first);
}

/// A value that is there before it is awaited is taken at once.
pub async fn a_value_that_arrived_before_it_was_awaited_is_there<S: Store>(bed: Bed<S>) {
    assert!(bed.arrive("w", "go", &5).await, "before the start");
    bed.start("w").await;
    assert_eq!(
        completed(bed.pass(async |run| run.awaiting::<u32>("go").await).await),
        5
    );
}

/// A wait with a limit gives `None` after it, and whoever arrives later is told that it lost.
pub async fn a_limited_wait_times_out_and_the_late_sender_is_told<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let body = async |run: &Run<S>| run.awaiting::<u32>("go").within(HOUR).await;
    let (wake_at, keys) = suspended(bed.pass(body).await);
    assert_eq!((wake_at, keys), (Some(bed.now().after(HOUR)), vec!["go".to_owned()]));
    assert_eq!(bed.status("w").await.state, State::Waiting);
    bed.clock.advance(HOUR);
    let body = async |run: &Run<S>| {
        let got = run.awaiting::<u32>("go").within(HOUR).await;
        run.awaiting::<()>("end").await;
        got
    };
    suspended(bed.pass(body).await);
    assert!(!bed.arrive("w", "go", &5).await, "the clock was first");
    bed.arrive("w", "end", &()).await;
    let body = async |run: &Run<S>| {
        let got = run.awaiting::<u32>("go").within(HOUR).await;
        run.awaiting::<()>("end").await;
        got
    };
    assert_eq!(completed(bed.pass(body).await), None);
}

/// A value that arrives in time is taken, also when the pass looks only after the deadline.
pub async fn a_value_in_time_wins_over_the_limit<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let body = async |run: &Run<S>| run.awaiting::<u32>("go").within(HOUR).await;
    suspended(bed.pass(body).await);
    assert!(bed.arrive("w", "go", &5).await);
    bed.clock.advance(HOUR * 2);
    let body = async |run: &Run<S>| run.awaiting::<u32>("go").within(HOUR).await;
    assert_eq!(completed(bed.pass(body).await), Some(5));
}

/// Case 5: a timeout and an arrival at the same moment name the same winner.
pub async fn a_timeout_and_an_arrival_name_the_same_winner<S: Store>(bed: Bed<S>) {
    let (mut clock, mut world) = (0, 0);
    for n in 0..1_000 {
        let workflow = format!("w{n}");
        bed.start(&workflow).await;
        let body = async |run: &Run<S>| run.awaiting::<u32>("go").within(MINUTE).await;
        suspended(bed.pass(body).await);
        bed.clock.advance(MINUTE);
        let (pass, delivery) = bed.take().await.expect("due");
        // On a thread of its own, and now and then surely the first or surely the last.
        let over = Arc::new(Notify::new());
        let arrives = {
            let (bed, workflow, over) = (bed.clone(), workflow.clone(), over.clone());
            tokio::spawn(async move {
                if n % 8 == 1 {
                    over.notified().await;
                }
                bed.arrive(&workflow, "go", &n).await
            })
        };
        if n % 8 == 0 {
            while !arrives.is_finished() {
                tokio::task::yield_now().await;
            }
        }
        let passes = bed.run(pass, &delivery, async |run| {
            for _ in 0..n % 8 {
                tokio::task::yield_now().await;
            }
            run.awaiting::<u32>("go").within(MINUTE).await
        });
        let outcome = passes.await;
        over.notify_one();
        let first = arrives.await;
        let first = first.expect("what the test set up is there");
        let got = completed(outcome);
        assert_eq!(got.is_some(), first, "both sides name the same winner");
        *(if first { &mut world } else { &mut clock }) += 1;
        assert!(bed.take().await.is_none_or(|(pass, _)| pass.claim.workflow == workflow));
    }
    assert!(clock >= 125 && world >= 125, "{clock} and {world}");
}

async fn read<S: Durable>(run: &Run<S>, name: &str, after: &Cursor, limit: usize) -> Batch<u32> {
    run.receive(name, after, limit).await
}

/// The inbox is read in order, from an explicit cursor, and a read that was recorded returns the same for ever.
pub async fn a_recorded_read_of_the_inbox_returns_the_same<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let deliver = async |n: u32| bed.store.deliver(KIND, "w", &encode(&n)).await.expect("delivered");
    let waits = bed.pass(async |run| read(run, "r1", &Cursor::default(), 2).await.values);
    assert_eq!(suspended(waits.await).1, ["inbox:"]);
    for n in [1, 2, 3] {
        deliver(n).await;
    }
    let body = async |run: &Run<S>| {
        let first = read(run, "r1", &Cursor::default(), 2).await;
        run.awaiting::<()>("go").await;
        first.values
    };
    suspended(bed.pass(body).await);
    deliver(4).await;
    bed.arrive("w", "go", &()).await;
    let body = async |run: &Run<S>| {
        let first = read(run, "r1", &Cursor::default(), 2).await;
        run.awaiting::<()>("go").await;
        let second: Batch<u32> = run.pending("r2", &first.cursor, 10).await;
        let third: Batch<u32> = run.pending("r3", &second.cursor, 10).await;
        (first.values, second.values, third.values)
    };
    assert_eq!(completed(bed.pass(body).await), (vec![1, 2], vec![3, 4], vec![]));
}

/// A short wait between attempts is made in place; the effect is tried as often as the policy says.
pub async fn a_retried_effect_is_tried_in_place<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let count = Cell::new(0);
    let outcome = bed.pass(async |run| {
        let policy = Retry::times(3).first(Duration::from_millis(1));
        run.retry(policy)
            .step("a", || {
                count.set(count.get() + 1);
                let n = count.get();
                async move { if n < 3 { Err("not yet") } else { Ok(n) } }
            })
            .await
            .map_err(str::to_owned)
    });
    assert_eq!(completed(outcome.await), Ok(3));

    bed.start("v").await;
    let outcome = bed.pass(async |run| {
        let policy = Retry::times(2).first(Duration::ZERO);
        run.retry(policy)
            .step("a", || async { Err::<(), _>("never") })
            .await
            .map_err(str::to_owned)
    });
    assert_eq!(completed(outcome.await), Err("never".to_owned()));
}

/// A long wait between attempts is durable: it goes on after a crash, and attempts are not forgotten.
pub async fn a_long_wait_between_attempts_is_durable<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let count = Cell::new(0);
    for wait in [HOUR, HOUR * 2] {
        let outcome = bed.pass(async |run| {
            let policy = Retry::times(3).first(HOUR).cap(HOUR * 10);
            let step = run.retry(policy).step("a", || {
                count.set(count.get() + 1);
                async { Err::<(), _>("no") }
            });
            step.await.map_err(str::to_owned)
        });
        assert_eq!(suspended(outcome.await).0, Some(bed.now().after(wait)));
        bed.clock.advance(wait);
    }
    let outcome = bed.pass(async |run| {
        let policy = Retry::times(3).first(HOUR).cap(HOUR * 10);
        let step = run.retry(policy).step("a", || {
            count.set(count.get() + 1);
            async { Err::<(), _>("no") }
        });
        step.await.map_err(str::to_owned)
    });
    assert_eq!(completed(outcome.await), Err("no".to_owned()));
    assert_eq!(count.get(), 3);
}

/// An effect over its limit is dropped, and the step fails as timed out.
pub async fn an_effect_over_its_limit_is_dropped<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let finished = Cell::new(false);
    let outcome = bed.pass(async |run| {
        let limited = run.within(Duration::from_millis(5)).step("a", || async {
            std::future::pending::<()>().await;
            finished.set(true);
            Ok::<(), String>(())
        });
        limited.await
    });
    let limit = Duration::from_millis(5);
    assert_eq!(completed(outcome.await), Err(TimedOut { limit }.to_string()));
    assert!(!finished.get());
    assert!(bed.steps("w").await.is_empty());
}

/// With a policy and a limit, the limit is of each attempt; one that was dropped is tried again like one that failed.
pub async fn a_limit_is_of_each_attempt<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let count = Cell::new(0);
    let outcome = bed.pass(async |run| {
        let policy = Retry::times(3).first(Duration::from_millis(1));
        let limited = run.retry(policy).within(Duration::from_millis(20)).step("a", || {
            count.set(count.get() + 1);
            let attempt = count.get();
            async move {
                if attempt < 3 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, String>(attempt)
            }
        });
        limited.await
    });
    assert_eq!(completed(outcome.await), Ok(3));
    assert_eq!(bed.steps("w").await, ["a"]);
}

/// Case 6: a sleep costs two passes, whatever the worker's own clock says: only the store's is asked.
pub async fn a_sleep_costs_two_passes<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    suspended(
        bed.pass(async |run| run.sleep("nap", Duration::from_secs(5)).await)
            .await,
    );
    bed.clock.advance(Duration::from_micros(4_999_999));
    assert!(bed.take().await.is_none(), "one microsecond early");
    bed.clock.advance(Duration::from_micros(1));
    completed(
        bed.pass(async |run| run.sleep("nap", Duration::from_secs(5)).await)
            .await,
    );
    let records = bed.store.checkpointer().load("w").await.expect("records");
    assert_eq!(records.len(), 3, "input, deadline, result");
}
