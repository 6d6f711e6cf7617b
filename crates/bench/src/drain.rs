//! Workflows that were started up front, drained by workers of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use passbook::{Client, Durable, Run, Scheduler, Shutdown, Worker, Workflow};
use passbook_postgres::Postgres;

use crate::database::{Counts, Database};
use crate::report::Report;
use crate::{Result, floor};

/// How much is drained, and by whom.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Drain {
    /// How many workflows.
    #[arg(long, default_value_t = 1_000)]
    workflows: usize,
    /// Steps of each.
    #[arg(long, default_value_t = 5)]
    steps: usize,
    /// Slots of each worker.
    #[arg(long, default_value_t = 100)]
    in_flight: usize,
    /// Workers, each with a store of its own.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Connections of each store.
    #[arg(long, default_value_t = 32)]
    connections: u32,
}

/// A body of plain steps that tells how many have ended.
#[derive(Debug)]
struct Steps(Arc<AtomicUsize>);

impl<S: Durable> Workflow<S> for Steps {
    const NAME: &'static str = "steps";
    type Input = usize;
    type Output = usize;
    type Error = String;

    async fn run(&self, run: &Run<S>, steps: usize) -> std::result::Result<usize, String> {
        for step in 0..steps {
            run.step(&format!("step-{step}"), async || Ok::<_, String>(step))
                .await?;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(steps)
    }
}

/// One run.
#[allow(clippy::cast_precision_loss)]
pub(crate) async fn measure(
    database: &Database,
    drain: &Drain,
    batching: bool,
    run: usize,
    report: &mut Report,
) -> Result<()> {
    let commits = floor::rows_per_second(database, 32, 1).await?;
    report.add("floor: 1 row a commit, 32 clients", "commits/s", commits);
    let schema = crate::schema("drain", run);
    let options = Postgres::options()
        .batching(batching)
        .schema(&schema)
        .connections(drain.connections);

    let store = options.clone().connect(&database.url).await?;
    store.scheduler().prepare().await?;
    let client = Client::new(store.clone());
    iter(0..drain.workflows)
        .map(|at| {
            let client = &client;
            async move {
                client
                    .kind("steps")
                    .start(&format!("{at:08}"), &drain.steps)
                    .await
                    .map(drop)
            }
        })
        .buffer_unordered(64)
        .try_collect::<()>()
        .await?;
    store.pool().close().await;
    drop((client, store));

    let counting = database.pool(1).await?;
    let before = Counts::read(&counting).await?;
    let shutdown = Shutdown::new();
    let ended = Arc::new(AtomicUsize::new(0));
    let mut pools = Vec::new();
    let mut workers = Vec::new();
    let began = Instant::now();
    for _ in 0..drain.workers {
        let store = options.clone().connect(&database.url).await?;
        pools.push(store.pool().clone());
        let worker = Worker::new(store).slots(drain.in_flight).register(Steps(ended.clone()));
        workers.push(tokio::spawn(worker.run(shutdown.clone())));
    }
    while ended.load(Ordering::Relaxed) < drain.workflows {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // The shutdown waits for the last passes to be settled.
    shutdown.begin();
    for worked in try_join_all(workers).await? {
        worked?;
    }
    let took = began.elapsed().as_secs_f64();
    for pool in pools {
        pool.close().await;
    }
    let after = Counts::read(&counting).await?;
    let left: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
        "SELECT count(*) FROM {schema}.workflow_queue"
    )))
    .fetch_one(&counting)
    .await?;
    if left > 0 {
        return Err(
            format!("{left} workflows were left in the queue of `{schema}`; the run counts for nothing").into(),
        );
    }

    let workflows = drain.workflows as f64;
    report.add("drained", "workflows/s", workflows / took);
    let steps = workflows * drain.steps as f64 / took;
    report.against("recorded", "steps/s", steps, ("floor commits", commits));
    let each = |after: f64, before: f64| (after - before) / workflows;
    report.add("commits", "/workflow", each(after.commits, before.commits));
    report.add("WAL", "B/workflow", each(after.wal, before.wal));
    report.add("dead row versions", "/workflow", each(after.dead, before.dead));
    report.add("HOT updates", "/workflow", each(after.hot, before.hot));
    report.add("CPU of this process", "s", after.own_cpu - before.own_cpu);
    if let (Some(after), Some(before)) = (after.server_cpu, before.server_cpu) {
        report.add("CPU of the server", "s", after - before);
    }
    Ok(())
}
