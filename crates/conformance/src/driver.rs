//! When a pass is over, and what no body ever sees.
//!
//! A run is borrowed, so it cannot leave its pass. A body like this is one,
//!
//! ```
//! # use passbook::{MemoryStore, Run, Worker};
//! async fn body(run: &Run<MemoryStore>, (): ()) -> Result<(), String> {
//!     run.step("a", async || Ok(())).await
//! }
//! Worker::new(MemoryStore::new()).serve("kind", body);
//! ```
//!
//! and one that takes its run elsewhere is refused by the compiler:
//!
//! ```compile_fail,E0521
//! # use passbook::{MemoryStore, Run, Worker};
//! async fn body(run: &Run<MemoryStore>, (): ()) -> Result<(), String> {
//!     tokio::spawn(async move { run.step("a", async || Ok::<(), String>(())).await });
//!     Ok(())
//! }
//! Worker::new(MemoryStore::new()).serve("kind", body);
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{IntoFuture as _, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use passbook::{Client, Cursor, Durable, Ended, MAX_DEPTH, MAX_VALUE_BYTES, Outcome, Run, State, Worker, Workflow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bed::{Bed, KIND, Store, completed, failed, suspended};
use crate::faulty::{Faults, FaultyDurable, Side};
use crate::worker::beside;

const HOUR: Duration = Duration::from_hours(1);

/// A pass that waits for several things reports the earliest deadline and every key, each once, and nothing that was
/// dropped.
pub async fn the_earliest_deadline_and_every_key_are_reported<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        {
            let dropped = pin!(run.sleep("dropped", Duration::from_secs(1)));
            let also = pin!(run.awaiting::<u32>("dropped too").into_future());
            let (mut dropped, mut also) = (dropped, also);
            poll_fn(|cx| {
                assert!(dropped.as_mut().poll(cx).is_pending());
                assert!(also.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        tokio::join!(
            run.sleep("late", HOUR * 3),
            run.sleep("soon", HOUR),
            run.awaiting::<u32>("b").within(HOUR * 2).into_future(),
            run.awaiting::<u32>("a").into_future(),
        )
    });
    let (wake_at, keys) = suspended(outcome.await);
    assert_eq!(wake_at, Some(bed.now().after(HOUR)));
    assert_eq!(keys, ["a", "b"]);
}

/// A step that was dropped while it ran, or that was never polled, keeps no pass alive.
pub async fn a_step_that_was_dropped_is_not_busy<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        let slow = run.step("slow", async || {
            pending::<()>().await;
            Ok::<_, String>(())
        });
        tokio::select! {
            biased;
            _ = slow => {}
            () = tokio::task::yield_now() => {}
        }
        let _unpolled = run.step("unpolled", async || Ok::<_, String>(()));
        run.awaiting::<()>("go").await;
    });
    assert_eq!(suspended(outcome.await).1, ["go"]);
    assert!(bed.steps("w").await.is_empty());
}

/// A body that gave up its turn, or whose turn was used up, is polled again: it is not waiting. On a worker, where such
/// wakes are kept back until the turn is over.
pub async fn a_body_whose_turn_is_used_up_is_polled_again<S: Store>(bed: Bed<S>) {
    struct Counting;
    impl<S: Durable> Workflow<S> for Counting {
        const NAME: &'static str = KIND;
        type Input = bool;
        type Output = u32;
        type Error = String;

        async fn run(&self, run: &Run<S>, yields: bool) -> Result<u32, String> {
            let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
            for n in 0..5_000_u32 {
                send.send(n).expect("it is open");
            }
            drop(send);
            let counts = async {
                let mut count = 0;
                while receive.recv().await.is_some() {
                    count += 1;
                    if yields {
                        tokio::task::yield_now().await;
                    }
                }
                count
            };
            tokio::select! {
                biased;
                count = run.awaiting::<u32>("go").into_future() => Ok(count),
                count = counts => Ok(count),
            }
        }
    }
    beside(Worker::new(bed.store.clone()).register(Counting), async {
        for (workflow, yields) in [("used up", false), ("given up", true)] {
            bed.start_with(workflow, &yields).await;
            bed.reaches(workflow, State::Completed).await;
            let result = Client::new(bed.store.clone()).kind(KIND).result(workflow).await;
            assert_eq!(result.expect("a result"), Ended::Completed(5_000));
        }
    })
    .await;
}

/// What returned before a sibling failed is recorded, though the failure dropped its step.
pub async fn what_returned_before_a_sibling_failed_is_recorded<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        let returns = run.step("returned", async || Ok::<_, String>(1));
        let fails = run.step("failed", async || Err::<u32, _>("no".to_owned()));
        tokio::try_join!(returns, fails)
    });
    assert_eq!(completed(outcome.await), Err("no".to_owned()));
    assert_eq!(bed.steps("w").await, ["returned"]);
}

/// A store that does not answer ends the pass, and the body never sees it. The next pass finds the record where it was
/// written, and does again what was not recorded.
pub async fn a_store_that_does_not_answer_ends_the_pass<S: Store>(bed: Bed<S>) {
    for (side, times) in [(Side::Before, 2), (Side::After, 1)] {
        let workflow = format!("{side:?}");
        bed.start(&workflow).await;
        let (mut pass, _) = bed.take().await.expect("due");
        let lease = pass.lease;
        // How long a pass asks again.
        pass.lease = Duration::from_millis(50);
        let lost = FaultyDurable::new(bed.store.clone(), &Faults::every(side));
        let (count, after) = (Cell::new(0), Cell::new(false));
        let outcome = passbook::resume(pass, &lost, async |run| {
            let step = run.step("a", async || {
                count.set(count.get() + 1);
                Ok::<_, String>(count.get())
            });
            step.await.ok();
            after.set(true);
        });
        assert!(matches!(outcome.await, Outcome::Lost(error) if error.is_unavailable()));
        assert_eq!((count.get(), after.get()), (1, false));
        bed.clock.advance(lease);
        let again = bed.pass(async |run| {
            let step = run.step("a", async || {
                count.set(count.get() + 1);
                Ok::<_, String>(count.get())
            });
            step.await
        });
        assert_eq!(completed(again.await), Ok(times));
    }
}

/// No verb takes a name that belongs to the store.
pub async fn a_reserved_name_is_refused_to_every_verb<S: Store>(bed: Bed<S>) {
    for name in [":input", ":anything", "inbox:", "inbox:00000000000000000001"] {
        for verb in 0..8 {
            let workflow = format!("{verb} {name}");
            bed.start(&workflow).await;
            let ran = Cell::new(false);
            let effect = async || {
                ran.set(true);
                Ok::<_, String>(())
            };
            let outcome = bed.pass(async |run| match verb {
                0 => drop(run.step(name, effect).await),
                1 => drop(run.attempt(name, effect).await),
                2 => drop(run.transact(name, async |_| effect().await).await),
                3 => run.sleep(name, HOUR).await,
                4 => drop(run.now(name).await),
                5 => run.awaiting::<()>(name).await,
                6 => drop(run.awaiting::<()>(name).within(HOUR).await),
                _ => drop(run.receive::<()>(name, &Cursor::default(), 1).await),
            });
            let (message, permanent) = failed(outcome.await);
            assert!(
                message.contains(&format!("`{name}`")) && message.contains(&workflow),
                "{message}"
            );
            assert!(permanent && !ran.get(), "{workflow}");
            assert!(bed.steps(&workflow).await.is_empty());
        }
    }
}

/// A list inside a list, and so on.
#[derive(Serialize, Deserialize)]
struct Nested(Vec<Nested>);

async fn refused<S: Store, T: Serialize + DeserializeOwned>(bed: &Bed<S>, what: &str, value: T, place: &str) {
    bed.start(what).await;
    let outcome = bed.pass(async |run: &Run<S>| {
        let step = run.step("charged", async || Ok::<_, String>(value));
        step.await.is_ok()
    });
    let (message, permanent) = failed(outcome.await);
    for part in [what, "`charged`", place] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    assert!(permanent, "trying again would repeat the effect");
    assert!(bed.steps(what).await.is_empty(), "{what}");
}

/// What no store may hold is refused before anything is written, naming the workflow, the step and the place.
pub async fn a_refused_value_names_workflow_step_and_place<S: Store>(bed: Bed<S>) {
    refused(&bed, "nan", vec![1.0, f64::NAN], "$[1]").await;
    refused(
        &bed,
        "infinity",
        BTreeMap::from([("a".to_owned(), f64::INFINITY)]),
        "$.a",
    )
    .await;
    refused(&bed, "minus infinity", f32::NEG_INFINITY, "`$`").await;
    refused(&bed, "nul", ("fine".to_owned(), "a\0b".to_owned()), "$[1]").await;
    refused(&bed, "nul in a key", BTreeMap::from([("a\0b".to_owned(), 1)]), "$").await;
    refused(&bed, "a key that is no string", BTreeMap::from([((1, 2), 3)]), "$").await;
    let deep = (0..MAX_DEPTH).fold(Nested(Vec::new()), |inner, _| Nested(vec![inner]));
    refused(&bed, "too deep", deep, "$[0][0]").await;
    refused(&bed, "too long", "x".repeat(MAX_VALUE_BYTES), "`$`").await;
}

/// A body gets its values in the type that it asked for, to the last digit, on the first pass and on every replay.
pub async fn a_value_is_read_straight_into_its_type<S: Store>(bed: Bed<S>) {
    type Kept = (u64, i128, f64, f64);
    let exact = (u64::MAX, i128::MIN, 5e-324, 0.1 + 0.2);
    let body = async |run: &Run<S>| {
        let step: Result<Kept, String> = run.step("a", async || Ok(exact)).await;
        let zero: Result<f64, String> = run.step("zero", async || Ok(-0.0)).await;
        run.awaiting::<()>("go").await;
        (step, zero.map(f64::to_bits))
    };
    bed.start("w").await;
    let seen = Cell::new(None);
    let first = bed.pass(async |run| {
        let step: Result<Kept, String> = run.step("a", async || Ok(exact)).await;
        let zero: Result<f64, String> = run.step("zero", async || Ok(-0.0)).await;
        seen.set(Some((step, zero.map(f64::to_bits))));
        run.awaiting::<()>("go").await;
    });
    suspended(first.await);
    let expected = (Ok(exact), Ok(0.0_f64.to_bits()));
    assert_eq!(seen.take(), Some(expected.clone()), "on the first pass");
    bed.arrive("w", "go", &()).await;
    assert_eq!(completed(bed.pass(body).await), expected, "on a replay");
}
