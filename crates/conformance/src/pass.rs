//! A pass: steps, replays, and what the driver makes of a body.

use std::cell::Cell;
use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::try_join_all;
use passbook::{Checkpointer, Durable, Outcome, Run, State};
use serde::{Deserialize, Serialize};

use crate::bed::{Bed, Store, completed, encode, failed, suspended};

type Never<T> = Result<T, Infallible>;

/// A step that counts how often it ran.
async fn counted<S: Durable>(run: &Run<S>, name: &str, count: &Cell<u32>) -> u32 {
    let counted = run.step(name, async || {
        count.set(count.get() + 1);
        Never::Ok(count.get())
    });
    match counted.await {
        Ok(value) => value,
    }
}

/// A recorded step is not run again, and gives what it gave.
pub async fn a_recorded_step_is_replayed_and_not_run<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let count = Cell::new(0);
    let first = bed.pass(async |run| {
        counted(run, "a", &count).await;
        run.awaiting::<u32>("go").await
    });
    assert_eq!(suspended(first.await), (None, vec!["go".to_owned()]));
    bed.arrive("w", "go", &7).await;
    let second = bed.pass(async |run| {
        let a = counted(run, "a", &count).await;
        (a, run.awaiting::<u32>("go").await)
    });
    assert_eq!(completed(second.await), (1, 7));
    assert_eq!(count.get(), 1);
}

/// What the body gets on the first pass is what it will get on every replay.
pub async fn a_value_crosses_the_codec_on_the_first_pass_too<S: Store>(bed: Bed<S>) {
    #[derive(Debug, Serialize, Deserialize)]
    struct Lossy {
        kept: u32,
        #[serde(skip)]
        skipped: u32,
    }
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        let step = run.step("a", async || Never::Ok(Lossy { kept: 1, skipped: 1 })).await;
        step.map(|lossy| (lossy.kept, lossy.skipped))
            .map_err(|never| match never {})
    });
    let value: Result<(u32, u32), String> = completed(outcome.await);
    assert_eq!(value, Ok((1, 0)));
}

/// An effect's error goes to the body, and the next pass runs the effect again.
pub async fn a_failed_effect_is_not_recorded<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let count = Cell::new(0);
    for _ in 0..2 {
        let outcome = bed.pass(async |run| {
            let step: Result<(), String> = run
                .step("a", async || {
                    count.set(count.get() + 1);
                    Err("no".to_owned())
                })
                .await;
            assert_eq!(step, Err("no".to_owned()));
            run.awaiting::<()>("go").await;
        });
        suspended(outcome.await);
        bed.store
            .deliver(crate::bed::KIND, "w", &encode(&()))
            .await
            .expect("delivered");
    }
    assert_eq!(count.get(), 2);
    assert!(!bed.steps("w").await.contains(&"a".to_owned()));
}

/// `attempt` records an error like a value.
pub async fn an_attempt_is_the_same_on_every_replay<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let count = Cell::new(0);
    let body = async |run: &Run<S>| {
        let outcome: Result<u32, String> = run
            .attempt("a", async || {
                count.set(count.get() + 1);
                if count.get() == 1 { Err("no".to_owned()) } else { Ok(2) }
            })
            .await;
        let go = run.awaiting::<u32>("go").await;
        (outcome, go)
    };
    suspended(bed.pass(body).await);
    bed.arrive("w", "go", &1).await;
    let body = async |run: &Run<S>| {
        let outcome: Result<u32, String> = run.attempt("a", async || Ok(3)).await;
        (outcome, run.awaiting::<u32>("go").await)
    };
    assert_eq!(completed(bed.pass(body).await), (Err("no".to_owned()), 1));
    assert_eq!(count.get(), 1);
}

/// Case 3: two steps of one name do not take each other's values.
pub async fn a_name_used_twice_ends_the_pass_and_writes_nothing<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let count = Cell::new(0);
    let outcome = bed.pass(async |run| {
        counted(run, "a", &count).await;
        counted(run, "a", &count).await
    });
    let (message, permanent) = failed(outcome.await);
    assert!(message.contains("`a`") && message.contains("`w`"), "{message}");
    assert!(permanent);
    assert_eq!(count.get(), 1, "the second effect does not run");
    assert_eq!(bed.steps("w").await, ["a"]);
}

/// Names that belong to the store are refused.
pub async fn a_reserved_name_ends_the_pass<S: Store>(bed: Bed<S>) {
    for (workflow, name) in [("w1", ":result"), ("w2", "inbox:7"), ("w3", ""), ("w4", "nul\0")] {
        bed.start(workflow).await;
        let count = Cell::new(0);
        let outcome = bed.pass(async |run| counted(run, name, &count).await);
        let (message, permanent) = failed(outcome.await);
        assert!(message.contains(workflow) && permanent, "{message}");
        assert_eq!(count.get(), 0);
    }
}

/// Case 8: a step, a sleep and a wait side by side: the step runs, the pass reports both waits.
pub async fn a_join_of_step_sleep_and_wait_reports_both_waits<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let count = Cell::new(0);
    let outcome = bed.pass(async |run| {
        tokio::join!(
            counted(run, "a", &count),
            run.sleep("nap", Duration::from_hours(1)),
            run.awaiting::<u32>("go").into_future(),
            run.awaiting::<u32>("or").into_future(),
        )
    });
    let (wake_at, keys) = suspended(outcome.await);
    assert_eq!(wake_at, Some(bed.now().after(Duration::from_hours(1))));
    assert_eq!(keys, ["go", "or"]);
    assert_eq!(bed.steps("w").await.len(), 2, "the step and the deadline");
}

/// Case 7: a suspension cannot be swallowed, whatever the body does with errors.
pub async fn a_suspension_cannot_be_swallowed<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let acted = Cell::new(false);
    let outcome = bed.pass(async |run| {
        let waited: Result<u32, String> = Ok(run.awaiting::<u32>("go").await);
        waited.ok();
        run.sleep("nap", Duration::from_secs(1)).await;
        acted.set(true);
    });
    assert_eq!(suspended(outcome.await).1, ["go"]);
    assert!(!acted.get());
}

/// The branches of a fan-out run to their end when one of them suspends.
pub async fn siblings_run_on_when_one_branch_suspends<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        try_join_all((0..50).map(async |n| -> Result<(), String> {
            if n == 7 {
                run.awaiting::<()>("go").await;
            }
            let name = format!("s{n}");
            run.step(&name, async || {
                for _ in 0..n % 5 {
                    tokio::task::yield_now().await;
                }
                tokio::time::sleep(Duration::from_millis(n % 3)).await;
                Ok::<_, String>(n)
            })
            .await?;
            let name = format!("t{n}");
            run.step(&name, async || Ok::<_, String>(n)).await.map(drop)
        }))
        .await
    });
    assert_eq!(suspended(outcome.await).1, ["go"]);
    assert_eq!(
        bed.steps("w").await.len(),
        98,
        "two steps of each of the other branches"
    );
}

/// A body that asked to be polled again is not waiting.
pub async fn a_body_that_yields_is_polled_again<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        let yields = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            1
        };
        tokio::select! {
            biased;
            _ = run.awaiting::<u32>("go").into_future() => 0,
            done = yields => done,
        }
    });
    assert_eq!(completed(outcome.await), 1);
}

/// A body may wait for something that is not durable; it is not put down.
pub async fn a_wait_that_is_not_durable_is_allowed<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |_: &Run<S>| {
        tokio::time::sleep(Duration::from_millis(30)).await;
        5
    });
    assert_eq!(completed(outcome.await), 5);
}

/// A wait that was dropped is not waited for any more.
pub async fn a_dropped_wait_is_not_reported<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        let count = Cell::new(0);
        tokio::select! {
            biased;
            _ = run.awaiting::<u32>("never").into_future() => {}
            _ = counted(run, "a", &count) => {}
        }
        run.awaiting::<u32>("go").await
    });
    assert_eq!(suspended(outcome.await).1, ["go"]);
}

/// Once an effect has returned, its record is written, even if nobody waits for the step any more.
pub async fn an_effect_that_returned_is_recorded_though_its_step_was_dropped<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        let returned = Cell::new(false);
        let step = run.step("loser", async || {
            returned.set(true);
            Never::Ok(1)
        });
        let mut step = std::pin::pin!(step);
        // One poll: the effect returns, the record is on its way, and the step is dropped.
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(step.as_mut().poll(cx))).await;
        assert!(returned.get());
        polled.is_ready()
    });
    completed(outcome.await);
    assert!(bed.steps("w").await.contains(&"loser".to_owned()));
}

/// A panic is a failed pass that says where, and the worker lives.
pub async fn a_panic_is_a_failed_pass_with_its_message<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        run.step("a", async || -> Never<()> {
            tokio::task::yield_now().await;
            panic!("out of {}", "ink")
        })
        .await
        .is_ok()
    });
    let (message, permanent) = failed(outcome.await);
    assert!(message.contains("out of ink") && message.contains("`a`"), "{message}");
    assert!(!permanent);
    assert_eq!(bed.status("w").await.state, State::Failed);
}

/// Case 1: a stale holder's first write is refused; it changes nothing, and the new holder's lease is as it was.
pub async fn a_superseded_pass_ends_at_its_first_write<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let (stale, _) = bed.take().await.expect("due");
    bed.clock.advance(stale.lease + Duration::from_secs(1));
    let (fresh, delivery) = bed.take().await.expect("taken over");
    let (after, count) = (Cell::new(false), Cell::new(0));
    let outcome = passbook::resume(stale, &bed.store, async |run| {
        counted(run, "a", &count).await;
        after.set(true);
    });
    assert!(matches!(outcome.await, Outcome::Lost(error) if error.is_fenced()));
    assert!(!after.get(), "the body never sees it");
    assert!(bed.steps("w").await.is_empty());
    let life = passbook::Life {
        claim: fresh.claim.clone(),
        running: None,
    };
    assert_eq!(bed.store.checkpointer().renew(&[life]).await.expect("renewed"), [true]);
    let outcome = bed.run(fresh, &delivery, async |run| counted(run, "a", &count).await);
    assert_eq!(completed(outcome.await), 2);
}

/// Case 11: a value that a store must refuse parks the workflow at once, and names the place.
pub async fn a_value_that_cannot_be_kept_parks_the_workflow<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        run.step("a", async || {
            Never::Ok(
                vec!["fine", "not\0fine"]
                    .into_iter()
                    .map(str::to_owned)
                    .collect::<Vec<_>>(),
            )
        })
        .await
        .is_ok()
    });
    let (message, permanent) = failed(outcome.await);
    assert!(
        message.contains("`a`") && message.contains("`w`") && message.contains("[1]"),
        "{message}"
    );
    assert!(permanent);

    bed.start("nan").await;
    let outcome = bed.pass(async |run| run.step("a", async || Never::Ok(f64::NAN)).await.is_ok());
    let (message, permanent) = failed(outcome.await);
    assert!(message.contains("`a`") && permanent, "{message}");
    assert!(bed.steps("nan").await.is_empty());
}

/// A record of another type is an error that names both; the record stays.
pub async fn a_record_that_does_not_decode_is_named_and_stays<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    bed.arrive("w", "a", "text").await;
    let outcome = bed.pass(async |run| run.step("a", async || Never::Ok(1_u32)).await.is_ok());
    let (message, permanent) = failed(outcome.await);
    assert!(
        message.contains("`a`") && message.contains("u32") && permanent,
        "{message}"
    );
    assert_eq!(bed.steps("w").await, ["a"]);
}

/// Case 2: names match, so a workflow that waits survives a change of its source.
pub async fn a_changed_body_keeps_what_was_done<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let (a, new, b) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let first = bed.pass(async |run| {
        counted(run, "a", &a).await;
        run.awaiting::<()>("go").await;
        counted(run, "b", &b).await;
    });
    suspended(first.await);
    bed.arrive("w", "go", &()).await;
    let second = bed.pass(async |run| {
        counted(run, "a", &a).await;
        counted(run, "new", &new).await;
        run.awaiting::<()>("go").await;
        counted(run, "b", &b).await;
    });
    completed(second.await);
    assert_eq!((a.get(), new.get(), b.get()), (1, 1, 1));
}

/// A key for a gateway is the same on every pass, and differs by name and workflow.
pub async fn an_idempotency_key_is_stable<S: Store>(bed: Bed<S>) {
    let mut seen = Vec::new();
    for workflow in ["w1", "w2"] {
        bed.start(workflow).await;
        let outcome = bed.pass(async |run| (run.key("charge"), run.key("refund"), run.key("charge")));
        let (charge, refund, again) = completed(outcome.await);
        assert_eq!(charge, again);
        seen.extend([charge, refund]);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4);
}

/// A compensation is a step like any other: it runs when what it undoes has failed, once over all passes, however often the
/// body is put down and replayed.
pub async fn a_compensation_runs_once_and_only_on_failure<S: Store>(bed: Bed<S>) {
    for (workflow, fails) in [("fails", true), ("works", false)] {
        bed.start(workflow).await;
        let refunded = Cell::new(0);
        for value in ["first", "second", "third"] {
            let outcome = bed.pass(async |run| {
                counted(run, "charged", &Cell::new(0)).await;
                run.awaiting::<()>("first").await;
                let sent: Result<(), String> = run
                    .attempt("sent", async || if fails { Err("lost".to_owned()) } else { Ok(()) })
                    .await;
                if sent.is_err() {
                    counted(run, "refunded", &refunded).await;
                }
                run.awaiting::<()>("second").await;
                run.awaiting::<()>("third").await;
            });
            suspended(outcome.await);
            bed.arrive(workflow, value, &()).await;
        }
        assert_eq!(refunded.get(), u32::from(fails));
        bed.take().await.expect("it is due");
    }
}

/// Case 9: what a body holds is dropped at every suspension and again at the end: once for each pass.
pub async fn a_drop_runs_once_for_each_pass<S: Store>(bed: Bed<S>) {
    struct Counting<'a>(&'a Cell<u32>);
    impl Drop for Counting<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    bed.start("w").await;
    let (drops, compensated) = (Cell::new(0), Cell::new(0));
    let body = async |run: &Run<S>| {
        let _held = Counting(&drops);
        let charged: Result<u32, String> = run.step("a", async || Ok(1)).await;
        if charged.is_err() {
            counted(run, "compensated", &compensated).await;
        }
        run.awaiting::<()>("go").await;
    };
    suspended(bed.pass(body).await);
    bed.arrive("w", "go", &()).await;
    let body = async |run: &Run<S>| {
        let _held = Counting(&drops);
        let charged: Result<u32, String> = run.step("a", async || Ok(1)).await;
        if charged.is_err() {
            counted(run, "compensated", &compensated).await;
        }
        run.awaiting::<()>("go").await;
    };
    completed(bed.pass(body).await);
    assert_eq!((drops.get(), compensated.get()), (2, 0));
}
