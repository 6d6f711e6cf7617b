//! From the submit to the first step, and to the result seen, on an idle worker.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use passbook::{Client, Durable, Run, Shutdown, Worker, Workflow};

use crate::Result;
use crate::ground::{Ground, Round};
use crate::report::quantile;

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

/// What is submitted, and to whom.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Latency {
    /// How many workflows a run submits, one after another.
    #[arg(long, default_value_t = 100)]
    submits: usize,
    /// Gives the worker a store of its own, so that nothing in this process tells it of a start.
    #[arg(long)]
    apart: bool,
}

/// One run.
pub(crate) async fn measure<G: Ground>(round: &mut Round<'_, G>, latency: &Latency) -> Result<()> {
    let commit = round.commit().await?;
    let place = round.place("latency");
    let store = round.ground.open(&place, round.opening()).await?;
    let working = if latency.apart {
        round.ground.open(&place, round.opening()).await?
    } else {
        store.clone()
    };
    let noted = Arc::new(Mutex::new(None));
    let shutdown = Shutdown::new();
    let worker = Worker::new(working).register(Noted(noted.clone()));
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let client = Client::new(store);
    let (mut firsts, mut results) = (Vec::new(), Vec::new());
    for at in 0..latency.submits {
        // Long enough for the worker to have nothing left to do.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let submitted = Instant::now();
        let workflow = format!("{at}");
        client.start::<Noted>(&workflow, &()).await?;
        client.result::<Noted>(&workflow).await?;
        results.push(submitted.elapsed().as_secs_f64() * 1_000.0);
        let began = noted.lock().map_err(|error| error.to_string())?.take();
        let began = began.ok_or("a workflow ended without its step")?;
        firsts.push(began.duration_since(submitted).as_secs_f64() * 1_000.0);
    }
    shutdown.begin();
    worker.await??;
    for (name, values) in [("to the first step", firsts), ("to the result seen", results)] {
        for (of, share) in [("p50", 0.5), ("p99", 0.99)] {
            let value = quantile(&values, share);
            round
                .report
                .against(format!("submit {name}, {of}"), "ms", value, ("one commit", commit));
        }
    }
    Ok(())
}
