//! Awa, a queue of plain jobs, measured as its peers are.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use awa::model::insert::params_with;
use awa::{
    Client, InsertOpts, JobArgs, JobEvent, JobResult, QueueConfig, insert_many_copy_from_pool, insert_with, migrations,
};
use frame::{Drain, Ended, Figure, Latency, Noted, Peer, Result, Start};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::watch;

#[derive(Debug)]
struct Awa;

const QUEUE: &str = "peers";

/// A job that carries what a workflow's name and input are.
#[derive(Debug, Serialize, Deserialize, JobArgs)]
struct Job {
    name: String,
    steps: usize,
}

async fn pool(database: &str, connections: u32) -> Result<PgPool> {
    Ok(PgPoolOptions::new()
        .max_connections(connections)
        .connect(database)
        .await?)
}

/// A worker that calls `did` in each job, and `settled` once the end of a job is committed.
fn worker(
    pool: &PgPool,
    config: QueueConfig,
    did: impl Fn() + Clone + Send + Sync + 'static,
    settled: impl Fn() + Clone + Send + Sync + 'static,
) -> Result<Client> {
    let client = Client::builder(pool.clone())
        .queue(QUEUE, config)
        .register::<Job, _, _>(move |_job, _context| {
            let did = did.clone();
            async move {
                did();
                Ok(JobResult::Completed)
            }
        })
        .on_event::<Job, _, _>(move |event| {
            let settled = settled.clone();
            async move {
                if let JobEvent::Completed { .. } = event {
                    settled();
                }
            }
        })
        .build()?;
    Ok(client)
}

/// Makes the tables. A first worker switches a fresh database to the storage that is the default of this version.
async fn prepare(database: &str) -> Result<()> {
    let pool = pool(database, 10).await?;
    migrations::run(&pool).await?;
    let client = worker(&pool, QueueConfig::default(), || {}, || {})?;
    client.start().await?;
    client.shutdown(Duration::from_secs(10)).await;
    pool.close().await;
    Ok(())
}

async fn insert(pool: &PgPool, name: String) -> Result<()> {
    insert_with(pool, &Job { name, steps: 1 }, options()).await?;
    Ok(())
}

fn options() -> InsertOpts {
    InsertOpts {
        queue: QUEUE.to_owned(),
        ..InsertOpts::default()
    }
}

/// Inserts the jobs, then drains them. The seconds that the second part took.
async fn drained(pool: &PgPool, task: &Drain) -> Result<f64> {
    let job = |name| params_with(&Job { name, steps: 1 }, options());
    let jobs = task.names().map(job).collect::<std::result::Result<Vec<_>, _>>()?;
    insert_many_copy_from_pool(pool, &jobs).await?;
    sqlx::query("ANALYZE").execute(pool).await?;

    let ended = Ended::default();
    let count = ended.clone();
    let config = QueueConfig {
        max_workers: u32::try_from(task.in_flight)?,
        poll_interval: Duration::from_millis(50),
        deadline_duration: Duration::ZERO,
        ..QueueConfig::default()
    };
    let client = worker(pool, config, || {}, move || count.add())?;
    let began = Instant::now();
    client.start().await?;
    ended.bodies(task).await;
    let took = began.elapsed().as_secs_f64();
    client.shutdown(Duration::from_secs(10)).await;
    sqlx::query("ANALYZE").execute(pool).await?;
    Ok(took)
}

impl Peer for Awa {
    const CRATE: &'static str = "awa";
    const SETUP: &'static str =
        "as in its own benchmark: polled every 50 ms, no deadlines; pool of 32. A result is its `Completed` event";

    async fn drain(task: Drain) -> Result<f64> {
        prepare(&task.database).await?;
        let pool = pool(&task.database, task.connections).await?;
        // The plans for tables that were never filled are slow; a worker in use has better ones from autovacuum.
        let warm = Drain {
            workflows: 500,
            ..task.clone()
        };
        drained(&pool, &warm).await?;
        drained(&pool, &task).await
    }

    async fn latency(task: Latency) -> Result<Vec<Figure>> {
        prepare(&task.database).await?;
        let working = pool(&task.database, 10).await?;
        let inserting = if task.apart {
            pool(&task.database, 10).await?
        } else {
            working.clone()
        };
        let noted = Noted::default();
        let note = noted.clone();
        let (tell, told) = watch::channel(0_u64);
        let tell = Arc::new(tell);
        let settled = move || tell.send_modify(|jobs| *jobs += 1);
        let client = worker(&working, QueueConfig::default(), move || note.now(), settled)?;
        client.start().await?;
        let figures = task
            .measure(&noted, async |name| {
                let mut told = told.clone();
                told.mark_unchanged();
                insert(&inserting, name).await?;
                Ok(told.changed().await?)
            })
            .await?;
        client.shutdown(Duration::from_secs(10)).await;
        Ok(figures)
    }

    async fn start(task: Start) -> Result<f64> {
        prepare(&task.database).await?;
        let pool = pool(&task.database, task.connections).await?;
        task.measure(move |name| {
            let pool = pool.clone();
            async move { insert(&pool, name).await }
        })
        .await
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    frame::main::<Awa>().await
}
