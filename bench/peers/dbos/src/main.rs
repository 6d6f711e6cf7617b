//! DBOS for Rust, measured as its peers are.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dbos::{
    Client, ClientConfig, Config, DBOS, EnqueueOptions, QueueConflict, QueueOptions, StartOptions, WorkflowRef,
};
use frame::{Drain, Ended, Figure, Latency, Noted, Peer, Result, Start};
use tokio::sync::watch;

#[derive(Debug)]
struct Dbos;

const QUEUE: &str = "peers";

/// A worker begins to poll at 1 s and takes a tenth off after each poll, down to what the queue asks for. A drain by a cold
/// worker would measure that; so it is left to warm up, and bodies wait at a gate until all are started.
const WARM: Duration = Duration::from_secs(11);

/// A worker's instance, not launched yet.
fn instance(database: &str, connections: Option<u32>) -> DBOS {
    let mut config = Config::new("peers", database);
    config.app_version = Some("1".to_owned());
    if let Some(connections) = connections {
        config.max_connections = connections;
    }
    DBOS::new(config)
}

/// A client of the same application.
async fn client(database: &str, connections: Option<u32>) -> Result<Client> {
    let mut config = ClientConfig::new(database);
    config.app_name = Some("peers".to_owned());
    if let Some(connections) = connections {
        config.max_connections = connections;
    }
    Ok(Client::connect(config).await?)
}

/// Makes the tables and the queue, which is a row of one.
async fn prepare(database: &str, options: QueueOptions) -> Result<()> {
    let dbos = instance(database, None);
    dbos.launch().await?;
    dbos.register_queue(QUEUE, options, QueueConflict::AlwaysUpdate).await?;
    dbos.shutdown().await;
    Ok(())
}

async fn enqueue(client: &Client, name: &str, steps: usize) -> Result<()> {
    let options = EnqueueOptions {
        workflow_id: Some(name),
        ..EnqueueOptions::new(QUEUE)
    };
    client
        .enqueue_with::<_, usize, dbos::EngineOnly>("steps", steps, options)
        .await?;
    Ok(())
}

impl Peer for Dbos {
    const CRATE: &'static str = "dbos";
    const SETUP: &'static str = "queue polled every 10 ms instead of 1 s, and warm; pool of 32 instead of 10";

    async fn drain(task: Drain) -> Result<f64> {
        let options = QueueOptions {
            worker_concurrency: Some(i32::try_from(task.in_flight)?),
            polling_interval: Duration::from_millis(10),
            ..QueueOptions::default()
        };
        prepare(&task.database, options).await?;
        let (open, gate) = watch::channel(false);
        let ended = Ended::default();
        let dbos = instance(&task.database, Some(task.connections));
        let count = ended.clone();
        let _: WorkflowRef<usize, usize> = dbos.register_workflow("steps", move |steps: usize| {
            let (count, mut gate) = (count.clone(), gate.clone());
            async move {
                // An end of the gate is an end of the measure.
                let _ = gate.wait_for(|open| *open).await;
                for step in 0..steps {
                    dbos::step(&format!("step-{step}"), move || async move { dbos::Result::Ok(step) }).await?;
                }
                count.add();
                dbos::Result::Ok(steps)
            }
        })?;
        dbos.launch().await?;
        tokio::time::sleep(WARM).await;
        let starting = client(&task.database, Some(task.connections)).await?;
        task.start(|name| {
            let starting = &starting;
            async move { enqueue(starting, &name, task.steps).await }
        })
        .await?;
        starting.close().await;

        let began = Instant::now();
        open.send_replace(true);
        ended
            .all(
                &task,
                "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'",
            )
            .await?;
        let took = began.elapsed().as_secs_f64();
        dbos.shutdown().await;
        Ok(took)
    }

    async fn latency(task: Latency) -> Result<Vec<Figure>> {
        prepare(&task.database, QueueOptions::default()).await?;
        let noted = Noted::default();
        let note = noted.clone();
        let dbos = instance(&task.database, None);
        let first: WorkflowRef<(), ()> = dbos.register_workflow("first", move |(): ()| {
            let note = note.clone();
            async move {
                dbos::step("first", move || {
                    note.now();
                    async { dbos::Result::Ok(()) }
                })
                .await
            }
        })?;
        dbos.launch().await?;
        let figures = if task.apart {
            let client = client(&task.database, None).await?;
            task.measure(&noted, async |name| {
                let options = EnqueueOptions {
                    workflow_id: Some(&name),
                    ..EnqueueOptions::new(QUEUE)
                };
                let handle = client
                    .enqueue_with::<_, (), dbos::EngineOnly>("first", (), options)
                    .await?;
                Ok(handle.result().await?)
            })
            .await?
        } else {
            task.measure(&noted, async |name| {
                let options = StartOptions {
                    workflow_id: Some(&name),
                    ..StartOptions::default()
                };
                Ok(first.start_with((), options).await?.result().await?)
            })
            .await?
        };
        dbos.shutdown().await;
        Ok(figures)
    }

    async fn start(task: Start) -> Result<f64> {
        prepare(&task.database, QueueOptions::default()).await?;
        let client = Arc::new(client(&task.database, Some(task.connections)).await?);
        task.measure(move |name| {
            let client = client.clone();
            async move { enqueue(&client, &name, 5).await }
        })
        .await
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    frame::main::<Dbos>().await
}
