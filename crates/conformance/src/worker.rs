//! A worker and a client over the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use passbook::{
    Checkpointer as _, Client, Durable, Ended, Life, RESULT, Retry, Run, Scheduler, Shutdown, State, Worker, Workflow,
};

use crate::bed::{Bed, KIND, Store};

/// Runs the worker beside the test, and stops it gently when the test is through.
pub async fn beside<S: Store, T>(worker: Worker<S>, test: impl Future<Output = T>) -> T {
    let shutdown = Shutdown::new();
    let stop = shutdown.clone();
    let (end, value) = tokio::join!(worker.run(shutdown), async move {
        let value = test.await;
        stop.begin();
        value
    });
    end.expect("the worker works");
    value
}

fn quick<S: Store>(bed: &Bed<S>) -> Worker<S> {
    let policy = Retry::times(3)
        .first(Duration::from_hours(1))
        .cap(Duration::from_hours(10));
    Worker::new(bed.store.clone()).retry(policy).keep(bed.kept)
}

async fn doubled<S: Durable>(run: &Run<S>, n: u64) -> Result<u64, String> {
    run.step("doubled", async || Ok(n * 2)).await
}

/// A started workflow is run, and its result is told to whoever waits.
pub async fn a_started_workflow_comes_to_its_result<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    let kind = client.kind(KIND);
    beside(quick(&bed).serve(KIND, doubled::<S>), async {
        assert!(kind.start("w", &21).await.expect("started").first);
        assert_eq!(kind.result::<u64>("w").await.expect("a result"), Ended::Completed(42));
        let again = kind.start("w", &99).await.expect("started");
        assert!(!again.first);
        assert_eq!(again.value.decode::<u64>().ok(), Some(21));
        let status = bed.status("w").await;
        assert_eq!((status.state, status.namespace.as_str()), (State::Completed, KIND));
    })
    .await;
}

/// Who waits is told the result that stands, also when somebody had recorded one before the pass came to its own.
pub async fn a_result_that_stood_there_before_is_the_one_that_is_told<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    let kind = client.kind(KIND);
    kind.start("w", &21).await.expect("started");
    let theirs = bed
        .store
        .checkpointer()
        .supply("w", RESULT, &crate::bed::encode(&7))
        .await;
    assert!(theirs.expect("recorded").first);
    beside(quick(&bed).serve(KIND, doubled::<S>), async {
        assert_eq!(kind.result::<u64>("w").await.expect("a result"), Ended::Completed(7));
    })
    .await;
    assert_eq!(kind.result::<u64>("w").await.expect("a result"), Ended::Completed(7));
}

struct Adder {
    add: u64,
}

impl<S: Durable> Workflow<S> for Adder {
    const NAME: &'static str = "adder";
    type Input = u64;
    type Output = u64;
    type Error = String;

    async fn run(&self, run: &Run<S>, input: u64) -> Result<u64, String> {
        let sum = run.step("sum", async || Ok::<_, String>(self.add + input)).await?;
        let more = run.awaiting::<u64>("more").await;
        if more == 0 {
            Err("nothing more".to_owned())
        } else {
            Ok(sum + more)
        }
    }

    fn is_permanent(&self, error: &String) -> bool {
        error.contains("nothing")
    }
}

/// A type that holds its dependencies is a workflow like a plain function; both stand side by side.
pub async fn a_type_and_a_function_are_workflows_alike<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    let worker = quick(&bed).register(Adder { add: 1 }).serve(KIND, doubled::<S>);
    beside(worker, async {
        assert!(client.start::<Adder>("a", &2).await.expect("started").first);
        assert!(client.kind(KIND).start("f", &2).await.expect("started").first);
        assert!(client.arrive::<Adder>("a", "more", &10).await.expect("arrived").first);
        let typed = client.result::<Adder>("a").await.expect("a result");
        let plain = client.kind(KIND).result::<u64>("f").await.expect("a result");
        assert_eq!((typed, plain), (Ended::Completed(13), Ended::Completed(4)));
    })
    .await;
}

/// An error that is marked permanent parks the workflow at once; resumed, it goes on from where it failed.
pub async fn a_permanent_error_parks_and_a_resume_goes_on<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    beside(quick(&bed).register(Adder { add: 1 }), async {
        client.start::<Adder>("a", &2).await.expect("started");
        client.arrive::<Adder>("a", "more", &0).await.expect("arrived");
        let ended = client.result::<Adder>("a").await.expect("an end");
        assert_eq!(ended, Ended::Failed("nothing more".to_owned()));
        let status = bed.status("a").await;
        assert_eq!((status.state, status.attempts), (State::Failed, 1));
        assert!(status.finished_at.is_some());
        assert!(client.resume("a").await.expect("resumed"));
        let again = bed.reaches("a", State::Failed).await;
        assert_eq!(again.error.as_deref(), Some("nothing more"));
        let mut steps = bed.steps("a").await;
        steps.sort_unstable();
        assert_eq!(steps, ["more", "sum"], "neither is there twice");
    })
    .await;
}

/// A failing pass is tried again after a backoff and parked after its attempts; one poison slows nobody else.
pub async fn a_failing_workflow_backs_off_and_is_parked<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    let kind = client.kind(KIND);
    beside(quick(&bed).serve(KIND, poison::<S>), async {
        kind.start("bad", &true).await.expect("started");
        for attempt in 1..3 {
            let status = bed.reaches("bad", State::Sleeping).await;
            assert_eq!((status.attempts, status.error.as_deref()), (attempt, Some("poison")));
            kind.start(&format!("good{attempt}"), &false).await.expect("started");
            let good = kind.result::<()>(&format!("good{attempt}")).await.expect("a result");
            assert_eq!(good, Ended::Completed(()));
            let wait = status.wake_at.expect("a backoff").as_micros() - bed.now().as_micros();
            assert_eq!(wait, i64::from(attempt) * 3_600_000_000, "an hour, then two");
            bed.clock.advance(Duration::from_hours(2));
        }
        let status = bed.reaches("bad", State::Failed).await;
        assert_eq!((status.attempts, status.wake_at), (3, None));
    })
    .await;
}

async fn poison<S: Durable>(_: &Run<S>, bad: bool) -> Result<(), String> {
    if bad { Err("poison".to_owned()) } else { Ok(()) }
}

/// A panic in the body fails its pass and nothing else.
pub async fn a_panic_does_not_take_the_worker_down<S: Store>(bed: Bed<S>) {
    async fn panics<S: Durable>(_: &Run<S>, bad: bool) -> Result<(), String> {
        assert!(!bad, "panicked on purpose");
        Ok(())
    }
    let client = Client::new(bed.store.clone());
    let kind = client.kind(KIND);
    beside(quick(&bed).serve(KIND, panics::<S>), async {
        kind.start("bad", &true).await.expect("started");
        kind.start("good", &false).await.expect("started");
        assert_eq!(kind.result::<()>("good").await.expect("a result"), Ended::Completed(()));
        let status = bed.reaches("bad", State::Sleeping).await;
        assert!(status.error.expect("an error").contains("panicked on purpose"));
    })
    .await;
}

/// Case 18: a workflow whose step takes the process down is parked after its attempts, naming the step.
pub async fn a_workflow_that_kills_its_workers_is_parked<S: Store>(bed: Bed<S>) {
    bed.start_with("killer", &1_u64).await;
    for attempt in 0..3 {
        let (pass, _) = bed.take().await.expect("due");
        assert_eq!(pass.attempts, attempt);
        if attempt > 0 {
            // What a pass does before each effect once one has died.
            let life = Life {
                claim: pass.claim.clone(),
                running: Some("aborts".to_owned()),
            };
            assert_eq!(bed.store.checkpointer().renew(&[life]).await.expect("renewed"), [true]);
        }
        bed.clock.advance(pass.lease + Duration::from_secs(1));
    }
    beside(quick(&bed).serve(KIND, doubled::<S>), async {
        let status = bed.reaches("killer", State::Failed).await;
        assert!(status.error.expect("an error").contains("`aborts`"));
    })
    .await;
    assert!(bed.steps("killer").await.is_empty(), "the body was not run");
}

/// Case 10: a cancellation is a fact of the workflow; after a resume the step runs.
pub async fn a_cancelled_workflow_runs_its_step_after_a_resume<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    beside(quick(&bed).register(Adder { add: 1 }), async {
        client.start::<Adder>("a", &2).await.expect("started");
        bed.reaches("a", State::Waiting).await;
        assert!(client.cancel("a").await.expect("cancelled"));
        assert!(!client.cancel("a").await.expect("asked again"));
        assert_eq!(client.result::<Adder>("a").await.expect("an end"), Ended::Cancelled);
        assert!(client.arrive::<Adder>("a", "more", &5).await.expect("arrived").first);
        assert_eq!(
            bed.status("a").await.state,
            State::Cancelled,
            "an arrival does not bring it back"
        );
        assert!(client.resume("a").await.expect("resumed"));
        assert_eq!(
            client.result::<Adder>("a").await.expect("a result"),
            Ended::Completed(8)
        );
    })
    .await;
}

/// A running pass that is cancelled is put down, and writes nothing more.
pub async fn a_cancelled_pass_is_put_down<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    bed.start("w").await;
    let (pass, delivery) = bed.take().await.expect("due");
    assert!(client.cancel("w").await.expect("cancelled"));
    let outcome = passbook::resume(pass.clone(), &bed.store, async |run| {
        run.step("a", async || Ok::<_, String>(1)).await
    });
    assert!(matches!(outcome.await, passbook::Outcome::Lost(_)));
    let handed_back = passbook::Settlement::HandedBack;
    assert!(
        !bed.store
            .settle(&pass.claim, &delivery, &handed_back)
            .await
            .expect("asked")
            .is_held()
    );
    assert_eq!(bed.status("w").await.state, State::Cancelled);
    // Nothing of it is a step's: resumed, the step runs as if it never had.
    assert!(bed.steps("w").await.is_empty());
    assert!(client.resume("w").await.expect("resumed"));
    let again = bed.pass(async |run| run.step("a", async || Ok::<_, String>(2)).await);
    assert!(matches!(again.await, passbook::Outcome::Completed(Ok(2))));
}

/// A deleted workflow is gone with its records, and its id begins anew.
pub async fn a_deleted_workflow_begins_anew<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    let kind = client.kind(KIND);
    beside(quick(&bed).serve(KIND, doubled::<S>), async {
        kind.start("w", &1).await.expect("started");
        assert_eq!(kind.result::<u64>("w").await.expect("a result"), Ended::Completed(2));
        assert_eq!(client.delete("w").await.expect("deleted"), 3);
        assert!(client.status("w").await.expect("asked").is_none());
        assert!(client.delete("w").await.expect_err("nothing is there").is_not_found());
        assert!(kind.start("w", &5).await.expect("started").first);
        assert_eq!(kind.result::<u64>("w").await.expect("a result"), Ended::Completed(10));
    })
    .await;
}

/// An input that does not decode any more parks the workflow, naming both types.
pub async fn an_input_of_another_type_is_parked_and_named<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    beside(quick(&bed).serve(KIND, doubled::<S>), async {
        client.kind(KIND).start("w", "twenty").await.expect("started");
        let status = bed.reaches("w", State::Failed).await;
        let error = status.error.expect("an error");
        assert!(error.contains("u64") && error.contains("`w`"), "{error}");
    })
    .await;
}

/// A value for a workflow that is not started waits for the start.
pub async fn a_value_before_the_start_waits_for_it<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    beside(quick(&bed).register(Adder { add: 1 }), async {
        client.arrive::<Adder>("a", "more", &5).await.expect("arrived");
        bed.reaches("a", State::Waiting).await;
        client.start::<Adder>("a", &2).await.expect("started");
        assert_eq!(
            client.result::<Adder>("a").await.expect("a result"),
            Ended::Completed(8)
        );
    })
    .await;
}

/// A kind with a long queue does not starve another.
pub async fn no_kind_starves_another<S: Store>(bed: Bed<S>) {
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 0..40 {
        bed.store
            .start("many", &format!("m{n}"), &crate::bed::encode(&0))
            .await
            .expect("started");
    }
    bed.store
        .start("few", "f", &crate::bed::encode(&0))
        .await
        .expect("started");
    let (many, few) = (order.clone(), order.clone());
    let worker = quick(&bed)
        .slots(2)
        .register(Noting::<0>(many))
        .register(Noting::<1>(few));
    beside(worker, async {
        bed.reaches("f", State::Completed).await;
        for n in 0..40 {
            bed.reaches(&format!("m{n}"), State::Completed).await;
        }
    })
    .await;
    let order = order.lock().expect("nobody panicked");
    let place = order.iter().position(|name| name == "f").expect("it ran");
    assert!(place < 4, "it came at place {place}");
}

struct Noting<const N: usize>(Arc<Mutex<Vec<String>>>);

impl<S: Durable, const N: usize> Workflow<S> for Noting<N> {
    const NAME: &'static str = if N == 0 { "many" } else { "few" };
    type Input = u32;
    type Output = ();
    type Error = String;

    async fn run(&self, run: &Run<S>, _: u32) -> Result<(), String> {
        self.0.lock().expect("nobody panicked").push(run.workflow().to_owned());
        Ok(())
    }
}

/// At a shutdown nothing more is taken, passes reach their end or are handed back, and nothing counts as an attempt.
pub async fn a_shutdown_hands_back_what_does_not_end<S: Store>(bed: Bed<S>) {
    struct Slow(Arc<AtomicU32>);
    impl<S: Durable> Workflow<S> for Slow {
        const NAME: &'static str = KIND;
        type Input = u64;
        type Output = ();
        type Error = String;

        async fn run(&self, run: &Run<S>, millis: u64) -> Result<(), String> {
            run.step("first", async || Ok::<_, String>(())).await?;
            self.0.fetch_add(1, Ordering::SeqCst);
            run.step("slow", async || {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(())
            })
            .await
        }
    }
    let running = Arc::new(AtomicU32::new(0));
    bed.start_with("short", &50_u64).await;
    bed.start_with("long", &600_000_u64).await;
    let worker = quick(&bed)
        .grace(Duration::from_millis(500))
        .register(Slow(running.clone()));
    beside(worker, async {
        while running.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(bed.status("short").await.state, State::Completed);
    let long = bed.status("long").await;
    assert_eq!((long.state, long.attempts), (State::Ready, 0));
    assert_eq!(bed.steps("long").await, ["first"]);
    let (pass, _) = bed.take().await.expect("it can be taken at once");
    assert_eq!(pass.attempts, 0);
}

/// Many who wait for results share one statement, and all are told.
pub async fn many_waiters_are_all_told<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    let kind = client.kind(KIND);
    beside(quick(&bed).serve(KIND, doubled::<S>), async {
        let waiters = (0..200_u64).map(async |n| {
            let workflow = format!("w{n}");
            kind.start(&workflow, &n).await.expect("started");
            (n, kind.result::<u64>(&workflow).await.expect("a result"))
        });
        let results: BTreeMap<u64, Ended<u64>> = futures_util::future::join_all(waiters).await.into_iter().collect();
        assert!(results.iter().all(|(n, ended)| *ended == Ended::Completed(n * 2)));
        assert_eq!(results.len(), 200);
    })
    .await;
}

/// A value that no store may hold parks its workflow at once, be it of a step or the result, and its effect ran once.
pub async fn a_value_that_cannot_be_kept_is_parked_and_not_stuck<S: Store>(bed: Bed<S>) {
    struct Unkept(Arc<AtomicU32>);
    impl<S: Durable> Workflow<S> for Unkept {
        const NAME: &'static str = KIND;
        type Input = bool;
        type Output = f64;
        type Error = String;

        async fn run(&self, run: &Run<S>, in_step: bool) -> Result<f64, String> {
            let value = run.step("weighed", async || {
                self.0.fetch_add(1, Ordering::SeqCst);
                Ok::<_, String>(if in_step { f64::NAN } else { 0.5 })
            });
            value.await.map(|weight| weight / 0.0)
        }
    }
    let ran = Arc::new(AtomicU32::new(0));
    beside(quick(&bed).register(Unkept(ran.clone())), async {
        bed.start_with("step", &true).await;
        let status = bed.reaches("step", State::Failed).await;
        let error = status.error.expect("an error");
        assert!(
            ["`step`", "`weighed`", "`$`"].iter().all(|part| error.contains(part)),
            "{error}"
        );
        assert_eq!((status.attempts, ran.load(Ordering::SeqCst)), (1, 1));

        bed.start_with("result", &false).await;
        let status = bed.reaches("result", State::Failed).await;
        assert!(status.error.expect("an error").contains("`$`"));
        assert_eq!((status.attempts, ran.load(Ordering::SeqCst)), (1, 2));
    })
    .await;
    assert_eq!(bed.steps("result").await, ["weighed"]);
}

/// A value that no store may hold is refused to whoever sends it, and nothing is written.
pub async fn a_value_that_cannot_be_kept_is_refused_to_its_sender<S: Store>(bed: Bed<S>) {
    let client = Client::new(bed.store.clone());
    let kind = client.kind(KIND);
    let refused = [
        kind.start("w", &f64::NAN).await.map(drop).expect_err("a start"),
        kind.arrive("w", "go", "a\0b").await.map(drop).expect_err("an arrive"),
        kind.deliver("w", &f64::INFINITY)
            .await
            .map(drop)
            .expect_err("a deliver"),
    ];
    for refused in refused {
        assert!(refused.is_refused(), "{refused}");
        let told = refused.to_string();
        assert!(told.contains("`w`") && told.contains("`$`"), "{told}");
    }
    assert!(client.status("w").await.expect("asked").is_none());
}

/// A pass that outlives its lease is renewed, and is not run twice. Wants a store with a short lease on its own clock.
pub async fn a_long_pass_is_kept_alive<S: Store>(bed: Bed<S>) {
    let lease = bed.store.scheduler().lease();
    let client = Client::new(bed.store.clone());
    let runs = Arc::new(AtomicU32::new(0));
    beside(quick(&bed).register(Long(runs.clone(), lease * 3)), async {
        bed.start("w").await;
        assert_eq!(
            client.kind(KIND).result::<()>("w").await.expect("a result"),
            Ended::Completed(())
        );
    })
    .await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

struct Long(Arc<AtomicU32>, Duration);
impl<S: Durable> Workflow<S> for Long {
    const NAME: &'static str = KIND;
    type Input = ();
    type Output = ();
    type Error = String;

    async fn run(&self, run: &Run<S>, (): ()) -> Result<(), String> {
        run.step("long", async || {
            self.0.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(self.1).await;
            Ok(())
        })
        .await
    }
}
