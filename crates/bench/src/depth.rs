//! What a long history costs: a new step and a wakeup after so many recorded steps.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::stream::{StreamExt, TryStreamExt, iter};
use passbook::{Checkpointer, Client, Durable, Inspect, Run, Shutdown, State, Value, Worker, Workflow};
use tokio::sync::{Barrier, Mutex as Turns};

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
    /// Workflows of each depth that are woken.
    #[arg(long, default_value_t = 4)]
    workflows: usize,
}

/// Longer than anything here takes that does not hang.
const PATIENCE: Duration = Duration::from_mins(5);

/// A body of recorded steps, then of new ones, which bodies of several depths make in turn: so each is alone, and a slow
/// moment of the disk slows every depth. It notes how many milliseconds each took.
#[derive(Clone, Debug)]
struct Longer {
    times: Arc<[Mutex<Vec<f64>>]>,
    replayed: Arc<Barrier>,
    turns: Arc<Turns<()>>,
}

impl<S: Durable> Workflow<S> for Longer {
    const NAME: &'static str = "longer";
    /// Which of the depths, its recorded steps, its new ones.
    type Input = (usize, usize, usize);
    type Output = ();
    type Error = String;

    async fn run(
        &self,
        run: &Run<S>,
        (depth, recorded, new): (usize, usize, usize),
    ) -> std::result::Result<(), String> {
        replay(run, recorded).await?;
        self.replayed.wait().await;
        for step in recorded..recorded + new {
            // Those who wait get their turn in the order in which they came.
            let _turn = self.turns.lock().await;
            let began = Instant::now();
            run.step(&format!("step-{step:06}"), async || Ok::<_, String>(step))
                .await?;
            let took = began.elapsed().as_secs_f64() * 1_000.0;
            self.times[depth].lock().map_err(|error| error.to_string())?.push(took);
        }
        Ok(())
    }
}

/// A body of recorded steps that then waits for values, one after another. It notes when a step after one begins.
#[derive(Clone, Debug, Default)]
struct Woken(Arc<Mutex<Option<Instant>>>);

impl<S: Durable> Workflow<S> for Woken {
    const NAME: &'static str = "woken";
    /// Its recorded steps, its waits.
    type Input = (usize, usize);
    type Output = ();
    type Error = String;

    async fn run(&self, run: &Run<S>, (recorded, wakeups): (usize, usize)) -> std::result::Result<(), String> {
        replay(run, recorded).await?;
        for wakeup in 0..wakeups {
            run.awaiting::<usize>(format!("value-{wakeup}")).await;
            run.step(&format!("woken-{wakeup}"), async || {
                *self.0.lock().map_err(|error| error.to_string())? = Some(Instant::now());
                Ok::<_, String>(())
            })
            .await?;
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
    let new = tokio::time::timeout(PATIENCE, new_steps(&store, depth)).await??;
    // A worker that keeps bodies stands beside this one as soon as there is one.
    let ways = [("wakeup by replay", "replay", Worker::new(store.clone()))];
    let mut figures = vec![("new step", new)];
    for (what, prefix, worker) in ways {
        let woken = tokio::time::timeout(PATIENCE, wakeups(&store, worker, prefix, depth)).await??;
        figures.push((what, woken));
    }
    for (what, times) in figures {
        let least = times.first().map_or(0.0, |times| median(times));
        for (at, (recorded, times)) in depth.recorded.iter().zip(&times).enumerate() {
            let name = format!("{what} after {recorded} recorded");
            let beside = if at == 0 {
                ("one commit", commit)
            } else {
                ("the least deep", least)
            };
            round.report.against(name, "ms", median(times), beside);
        }
    }
    round.ground.close(store).await;
    Ok(())
}

/// Milliseconds of each new step, for each depth.
async fn new_steps<S: Durable + Inspect>(store: &S, depth: &Depth) -> Result<Vec<Vec<f64>>> {
    let depths = depth.recorded.len();
    let longer = Longer {
        times: (0..depths).map(|_| Mutex::default()).collect(),
        replayed: Arc::new(Barrier::new(depths)),
        turns: Arc::default(),
    };
    let shutdown = Shutdown::new();
    let worker = Worker::new(store.clone()).slots(depths).register(longer.clone());
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let client = Client::new(store.clone());
    let id = |recorded: usize| format!("longer-{recorded}");
    for (at, &recorded) in depth.recorded.iter().enumerate() {
        record(store, &id(recorded), recorded).await?;
        client
            .start::<Longer>(&id(recorded), &(at, recorded, depth.steps))
            .await?;
    }
    for &recorded in &depth.recorded {
        client.result::<Longer>(&id(recorded)).await?;
    }
    shutdown.begin();
    worker.await??;
    let times = longer.times.iter().map(|times| {
        let mut times = times.lock().map_err(|error| error.to_string())?;
        Ok(std::mem::take(&mut *times))
    });
    times.collect()
}

/// Milliseconds from each value that arrives to the step after it, for each depth. The depths take turns.
async fn wakeups<S: Durable + Inspect>(
    store: &S,
    worker: Worker<S>,
    prefix: &str,
    depth: &Depth,
) -> Result<Vec<Vec<f64>>> {
    let woken = Woken::default();
    let shutdown = Shutdown::new();
    let worker = tokio::spawn(worker.register(woken.clone()).run(shutdown.clone()));
    let client = Client::new(store.clone());
    let mut times = vec![Vec::new(); depth.recorded.len()];
    for turn in 0..depth.workflows {
        let id = |recorded: usize| format!("{prefix}-{turn}-{recorded}");
        for &recorded in &depth.recorded {
            record(store, &id(recorded), recorded).await?;
            client.start::<Woken>(&id(recorded), &(recorded, depth.wakeups)).await?;
        }
        for wakeup in 0..depth.wakeups {
            for (at, &recorded) in depth.recorded.iter().enumerate() {
                while !waits(store, &id(recorded)).await? {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                // Long enough for the worker to have nothing left to do.
                tokio::time::sleep(Duration::from_millis(20)).await;
                let arrived = Instant::now();
                let key = format!("value-{wakeup}");
                client.arrive::<Woken>(&id(recorded), &key, &wakeup).await?;
                let began = loop {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    if let Some(began) = woken.0.lock().map_err(|error| error.to_string())?.take() {
                        break began;
                    }
                };
                times[at].push(began.duration_since(arrived).as_secs_f64() * 1_000.0);
            }
        }
    }
    shutdown.begin();
    worker.await??;
    Ok(times)
}

async fn waits<S: Inspect>(store: &S, workflow: &str) -> Result<bool> {
    let status = store.status(workflow).await?;
    Ok(status.is_some_and(|status| status.state == State::Waiting))
}
