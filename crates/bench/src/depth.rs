//! What a long history costs: a new step and a wakeup after so many recorded steps.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::stream::{StreamExt, TryStreamExt, iter};
use passbook::{Checkpointer, Client, Durable, Inspect, Run, Shutdown, State, Value, Worker, Workflow};

use crate::Result;
use crate::ground::{Ground, Round};
use crate::report::median;

/// How deep, and how often.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Depth {
    /// How many steps are recorded before the measure begins. Ratios are against the first.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1_000, 10_000])]
    recorded: Vec<usize>,
    /// New steps that are timed in one pass.
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Wakeups of one workflow.
    #[arg(long, default_value_t = 5)]
    wakeups: usize,
    /// Workflows of each depth, in turn with those of the others.
    #[arg(long, default_value_t = 3)]
    workflows: usize,
}

type Moments = Arc<Mutex<Vec<Instant>>>;

fn note(moments: &Moments) -> std::result::Result<(), String> {
    moments.lock().map_err(|error| error.to_string())?.push(Instant::now());
    Ok(())
}

fn noted(moments: &Moments) -> Result<Vec<Instant>> {
    Ok(std::mem::take(&mut *moments.lock().map_err(|error| error.to_string())?))
}

/// A body of recorded steps, then of new ones. It notes when each of the new ones begins, and when the last has ended.
#[derive(Clone, Debug, Default)]
struct Longer(Moments);

impl<S: Durable> Workflow<S> for Longer {
    const NAME: &'static str = "longer";
    type Input = (usize, usize);
    type Output = ();
    type Error = String;

    async fn run(&self, run: &Run<S>, (recorded, new): (usize, usize)) -> std::result::Result<(), String> {
        replay(run, recorded).await?;
        for step in recorded..recorded + new {
            note(&self.0)?;
            run.step(&format!("step-{step:06}"), async || Ok::<_, String>(step))
                .await?;
        }
        note(&self.0)
    }
}

/// A body of recorded steps that then waits for values, one after another. It notes when a step after one begins.
#[derive(Clone, Debug, Default)]
struct Woken(Moments);

impl<S: Durable> Workflow<S> for Woken {
    const NAME: &'static str = "woken";
    type Input = (usize, usize);
    type Output = ();
    type Error = String;

    async fn run(&self, run: &Run<S>, (recorded, wakeups): (usize, usize)) -> std::result::Result<(), String> {
        replay(run, recorded).await?;
        for wakeup in 0..wakeups {
            run.awaiting::<usize>(format!("value-{wakeup}")).await;
            run.step(&format!("woken-{wakeup}"), async || note(&self.0)).await?;
        }
        Ok(())
    }
}

async fn replay<S: Durable>(run: &Run<S>, recorded: usize) -> std::result::Result<(), String> {
    for step in 0..recorded {
        run.step(&format!("step-{step:06}"), async || {
            Err::<usize, _>(format!("step {step} should have been recorded"))
        })
        .await?;
    }
    Ok(())
}

/// Puts down the steps of a workflow before it starts: they are then as if passes had recorded them.
async fn record<S: Durable>(store: &S, workflow: &str, steps: usize) -> Result<()> {
    iter(0..steps)
        .map(|step| async move {
            let value = Value::encode(&step)?;
            let name = format!("step-{step:06}");
            store.checkpointer().supply(workflow, &name, &value).await?;
            Result::Ok(())
        })
        .buffer_unordered(32)
        .try_collect::<()>()
        .await
}

/// One run.
pub(crate) async fn measure<G: Ground>(round: &mut Round<'_, G>, depth: &Depth) -> Result<()> {
    let commit = round.commit().await?;
    let place = round.place("depth");
    let store = round.ground.open(&place, round.opening()).await?;
    let mut new = vec![Vec::new(); depth.recorded.len()];
    let mut cold = new.clone();
    for turn in 0..depth.workflows {
        for (at, &recorded) in depth.recorded.iter().enumerate() {
            let id = |what: &str| format!("{what}-{recorded}-{turn}");
            record(&store, &id("longer"), recorded).await?;
            new[at].extend(new_steps(&store, &id("longer"), recorded, depth.steps).await?);
            record(&store, &id("cold"), recorded).await?;
            let worker = Worker::new(store.clone());
            cold[at].extend(wakeups(worker, &store, &id("cold"), recorded, depth.wakeups).await?);
        }
    }
    for (what, times) in [("new step", new), ("wakeup by replay", cold)] {
        let first = times.first().map_or(0.0, |times| median(times));
        for (at, (recorded, times)) in depth.recorded.iter().zip(&times).enumerate() {
            let name = format!("{what} after {recorded} recorded");
            let beside = if at == 0 {
                ("one commit", commit)
            } else {
                ("the least deep", first)
            };
            round.report.against(name, "ms", median(times), beside);
        }
    }
    round.ground.close(store).await;
    Ok(())
}

/// Milliseconds of each new step of one pass.
async fn new_steps<S: Durable + Inspect>(store: &S, workflow: &str, recorded: usize, steps: usize) -> Result<Vec<f64>> {
    let longer = Longer::default();
    let shutdown = Shutdown::new();
    let worker = Worker::new(store.clone()).register(longer.clone());
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let client = Client::new(store.clone());
    client.start::<Longer>(workflow, &(recorded, steps)).await?;
    client.result::<Longer>(workflow).await?;
    shutdown.begin();
    worker.await??;
    let moments = noted(&longer.0)?;
    let each = moments.windows(2).map(|pair| milliseconds(pair[0], pair[1]));
    Ok(each.collect())
}

/// Milliseconds from each value that arrives to the step after it.
async fn wakeups<S: Durable + Inspect>(
    worker: Worker<S>,
    store: &S,
    workflow: &str,
    recorded: usize,
    wakeups: usize,
) -> Result<Vec<f64>> {
    let woken = Woken::default();
    let shutdown = Shutdown::new();
    let worker = tokio::spawn(worker.register(woken.clone()).run(shutdown.clone()));
    let client = Client::new(store.clone());
    client.start::<Woken>(workflow, &(recorded, wakeups)).await?;
    let mut times = Vec::new();
    for wakeup in 0..wakeups {
        while !waits(store, workflow).await? {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Long enough for the worker to have nothing left to do.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let arrived = Instant::now();
        client
            .arrive::<Woken>(workflow, &format!("value-{wakeup}"), &wakeup)
            .await?;
        let began = loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if let Some(began) = noted(&woken.0)?.pop() {
                break began;
            }
        };
        times.push(milliseconds(arrived, began));
    }
    client.result::<Woken>(workflow).await?;
    shutdown.begin();
    worker.await??;
    Ok(times)
}

async fn waits<S: Inspect>(store: &S, workflow: &str) -> Result<bool> {
    let status = store.status(workflow).await?;
    Ok(status.is_some_and(|status| status.state == State::Waiting))
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.duration_since(from).as_secs_f64() * 1_000.0
}
