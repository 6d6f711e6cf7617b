//! From the submit to the first step, and to the result seen, on an idle worker.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use passbook::{Client, Durable, Run, Scheduler, Shutdown, Worker, Workflow};
use passbook_postgres::Postgres;

use crate::database::Database;
use crate::report::{Report, quantile};
use crate::{Result, floor};

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

/// One run: `submits` workflows one after another. The client and the worker have a store each, as two processes have.
pub(crate) async fn measure(
    database: &Database,
    submits: usize,
    apart: bool,
    batching: bool,
    run: usize,
    report: &mut Report,
) -> Result<()> {
    let commit = 1_000.0 / floor::rows_per_second(database, 1, 1).await?;
    report.add("floor: one commit, 1 client", "ms", commit);
    let options = Postgres::options()
        .batching(batching)
        .schema(crate::schema("latency", run));
    let store = options.clone().connect(&database.url).await?;
    store.scheduler().prepare().await?;
    let working = if apart {
        options.connect(&database.url).await?
    } else {
        store.clone()
    };
    let noted = Arc::new(Mutex::new(None));
    let shutdown = Shutdown::new();
    let worker = Worker::new(working).register(Noted(noted.clone()));
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let client = Client::new(store);
    let (mut firsts, mut results) = (Vec::new(), Vec::new());
    for at in 0..submits {
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
            report.against(format!("submit {name}, {of}"), "ms", value, ("one commit", commit));
        }
    }
    Ok(())
}
