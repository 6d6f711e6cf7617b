//! From the submit to the first step, and to the result seen, on an idle worker or beside a steady load.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use passbook::{Client, Durable, Inspect, Run, Shutdown, Worker, Workflow};
use tokio::task::JoinSet;

use crate::Result;
use crate::ground::{Ground, Round};
use crate::report::quantile;
use crate::work::{self, Steps};

/// A body of one step that notes when the step began.
#[derive(Debug)]
struct Noted(Arc<Mutex<Option<Instant>>>);

impl<S: Durable> Workflow<S> for Noted {
    const NAME: &'static str = "noted";
    type Input = ();
    type Output = ();
    type Error = String;

    async fn run(&self, run: &Run<S>, (): ()) -> std::result::Result<(), String> {
        run.step("first", async || {
            *self.0.lock().map_err(|error| error.to_string())? = Some(Instant::now());
            Ok(())
        })
        .await
    }
}

/// What is submitted, to whom, and beside what.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Latency {
    /// How many workflows a run submits, one after another.
    #[arg(long, default_value_t = 100)]
    submits: usize,
    /// Gives the worker a store of its own, so that nothing in this process tells it of a start.
    #[arg(long)]
    apart: bool,
    /// Submits beside a steady load of half the rate at which the same worker drains, which is measured first.
    #[arg(long)]
    load: bool,
}

/// Between one workflow and the next: long enough for an idle worker to have nothing left to do.
const PAUSE: Duration = Duration::from_millis(20);

/// Workflows that are submitted before the first that is measured: a connection plans each statement anew for the first five
/// times, and a worker that has run for a minute is past that.
const WARM: usize = 100;

/// Workflows that are drained for the rate.
const DRAINED: usize = 2_000;

/// Steps of the workflows that make the load.
const STEPS: usize = 5;

/// One run.
#[allow(clippy::cast_precision_loss)]
pub(crate) async fn measure<G: Ground>(round: &mut Round<'_, G>, latency: &Latency) -> Result<()> {
    let commit = round.commit().await?;
    let paused = round.ground.paused_commits(PAUSE, latency.submits).await?;
    let paused = quantile(&paused, 0.5) * 1_000.0;
    let name = "one commit after the same pause, p50";
    round.report.against(name, "ms", paused, ("one commit", commit));
    let place = round.place("latency");
    let store = round.ground.open(&place, round.opening()).await?;
    let working = if latency.apart {
        round.ground.open(&place, round.opening()).await?
    } else {
        store.clone()
    };
    let noted = Arc::new(Mutex::new(None));
    let steps = Steps::default();
    let worker = Worker::new(working.clone())
        .register(Noted(noted.clone()))
        .register(steps.clone());
    let client = Client::new(store.clone());
    if latency.load {
        // Put down before the worker begins, so that all of it stands ready.
        work::start(&store, "steps", (0..DRAINED).map(|at| format!("drained-{at}")), STEPS).await?;
    }
    let shutdown = Shutdown::new();
    let began = Instant::now();
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let mut load = None;
    if latency.load {
        while steps.0.load(Ordering::Relaxed) < DRAINED {
            if worker.is_finished() {
                return Err("the worker has ended before its work".into());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let rate = DRAINED as f64 / began.elapsed().as_secs_f64();
        round.report.add("drained before", "workflows/s", rate);
        load = Some((Instant::now(), tokio::spawn(offer(client.clone(), rate / 2.0))));
        // Until it is as steady as it will be.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // As a handler of a server would: a task among others.
    let times = tokio::spawn(probe(client.clone(), noted.clone(), latency.submits)).await??;
    if let Some((began, offering)) = load {
        let (took, ended) = (began.elapsed().as_secs_f64(), steps.0.load(Ordering::Relaxed));
        if offering.is_finished() {
            let Err(error) = offering.await?;
            return Err(error);
        }
        offering.abort();
        round
            .report
            .add("ended meanwhile", "workflows/s", (ended - DRAINED) as f64 / took);
    }
    shutdown.begin();
    worker.await??;
    for (name, values) in [("first step", times.0), ("result seen", times.1)] {
        for (of, share) in [("p50", 0.5), ("p99", 0.99)] {
            let value = quantile(&values, share);
            let name = format!("submit to the {name}, {of}");
            round.report.against(name, "ms", value, ("one commit", commit));
        }
    }
    if latency.apart {
        round.ground.close(working).await;
    }
    round.ground.close(store).await;
    Ok(())
}

/// Milliseconds to the first step and to the result seen, of one workflow after another.
async fn probe<S: Durable + Inspect>(
    client: Client<S>,
    noted: Arc<Mutex<Option<Instant>>>,
    submits: usize,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut firsts, mut results) = (Vec::new(), Vec::new());
    for at in 0..WARM + submits {
        tokio::time::sleep(PAUSE).await;
        let submitted = Instant::now();
        let workflow = format!("{at}");
        client.start::<Noted>(&workflow, &()).await?;
        client.result::<Noted>(&workflow).await?;
        let seen = submitted.elapsed();
        let began = noted.lock().map_err(|error| error.to_string())?.take();
        let began = began.ok_or("a workflow ended without its step")?;
        if at >= WARM {
            firsts.push(began.duration_since(submitted).as_secs_f64() * 1_000.0);
            results.push(seen.as_secs_f64() * 1_000.0);
        }
    }
    Ok((firsts, results))
}

/// Starts so many workflows a second, evenly and each by itself, until it is aborted.
#[allow(clippy::cast_precision_loss)]
async fn offer<S: Durable + Inspect>(client: Client<S>, rate: f64) -> Result<Infallible> {
    let (began, mut offered, mut starts) = (Instant::now(), 0_u64, JoinSet::new());
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        while (offered as f64) < began.elapsed().as_secs_f64() * rate {
            let (client, workflow) = (client.clone(), format!("load-{offered}"));
            starts.spawn(async move { client.kind("steps").start(&workflow, &STEPS).await });
            offered += 1;
        }
        while let Some(started) = starts.try_join_next() {
            started??;
        }
    }
}
