//! durare, measured as its peers are.

use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use durare::{Client, DurableContext, DurableEngine, PostgresProvider, WorkflowOptions, WorkflowQueue};
use frame::{Drain, Ended, Figure, Latency, Noted, Peer, Result, Start};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

#[derive(Debug)]
struct Durare;

const QUEUE: &str = "peers";

/// Its operations guide sizes pools so: one of our own, with the search path of the shared schema.
async fn provider(database: &str, connections: u32) -> Result<Arc<PostgresProvider>> {
    let options = PgConnectOptions::from_str(database)?.options([("search_path", "dbos")]);
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .connect_with(options)
        .await?;
    Ok(Arc::new(PostgresProvider::from_pool_with_schema(pool, "dbos")?))
}

impl Peer for Durare {
    const CRATE: &'static str = "durare";
    const SETUP: &'static str =
        "queue polled every 10 ms instead of 1 s, claims as many as may run; pool of 32 instead of 8";

    async fn drain(task: Drain) -> Result<f64> {
        let provider = provider(&task.database, task.connections).await?;
        let ended = Ended::default();
        let count = ended.clone();
        let mut builder = DurableEngine::builder(provider.clone());
        builder
            .register("steps", move |run: DurableContext, steps: usize| {
                let count = count.clone();
                async move {
                    for step in 0..steps {
                        run.step(&format!("step-{step}"), move || async move { durare::Result::Ok(step) })
                            .await?;
                    }
                    count.add();
                    Ok(steps)
                }
            })
            .register_queue(
                WorkflowQueue::new(QUEUE)
                    .worker_concurrency(task.in_flight)
                    .max_tasks_per_iteration(task.in_flight)
                    .base_polling_interval(Duration::from_millis(10)),
            );
        let engine = builder.build().await?;
        let client = Client::new(provider);
        task.start(|name| {
            let client = &client;
            async move {
                let options = WorkflowOptions::with_id(name);
                client
                    .enqueue::<_, usize>(QUEUE, "steps", task.steps, options)
                    .await
                    .map(drop)
            }
        })
        .await?;

        let began = Instant::now();
        engine.launch().await?;
        ended
            .all(
                &task,
                "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'",
            )
            .await?;
        let took = began.elapsed().as_secs_f64();
        engine.shutdown(Duration::from_secs(10)).await?;
        Ok(took)
    }

    async fn latency(task: Latency) -> Result<Vec<Figure>> {
        let worker = PostgresProvider::connect(&task.database).await?;
        let noted = Noted::default();
        let note = noted.clone();
        let mut builder = DurableEngine::builder(Arc::new(worker));
        builder
            .register("first", move |run: DurableContext, (): ()| {
                let note = note.clone();
                async move {
                    run.step("first", move || async move {
                        note.now();
                        durare::Result::Ok(())
                    })
                    .await
                }
            })
            .register_queue(WorkflowQueue::new(QUEUE));
        let engine = builder.build().await?;
        engine.launch().await?;
        let figures = if task.apart {
            let client = Client::new(Arc::new(PostgresProvider::connect(&task.database).await?));
            task.measure(&noted, async |name| {
                let options = WorkflowOptions::with_id(name);
                Ok(client
                    .enqueue::<_, ()>(QUEUE, "first", (), options)
                    .await?
                    .result()
                    .await?)
            })
            .await?
        } else {
            task.measure(&noted, async |name| {
                let options = WorkflowOptions::with_id(name);
                Ok(engine.start::<_, ()>("first", (), options).await?.result().await?)
            })
            .await?
        };
        engine.shutdown(Duration::from_secs(10)).await?;
        Ok(figures)
    }

    async fn start(task: Start) -> Result<f64> {
        let provider = provider(&task.database, task.connections).await?;
        // Makes the tables.
        DurableEngine::builder(provider.clone()).build().await?;
        let client = Arc::new(Client::new(provider));
        task.measure(move |name| {
            let client = client.clone();
            async move {
                let options = WorkflowOptions::with_id(name);
                client.enqueue::<_, usize>(QUEUE, "steps", 5_usize, options).await?;
                Ok(())
            }
        })
        .await
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    frame::main::<Durare>().await
}
