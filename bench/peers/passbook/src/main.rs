//! Passbook, measured as its peers are.

use std::process::ExitCode;
use std::time::Instant;

use frame::{Drain, Ended, Figure, Latency, Noted, Peer, Result, Start};
use passbook::{Client, Durable, Run, Scheduler, Shutdown, Worker, Workflow};
use passbook_postgres::Postgres;

#[derive(Debug)]
struct Passbook;

/// A body of plain steps.
#[derive(Debug)]
struct Steps(Ended);

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
        self.0.add();
        Ok(steps)
    }
}

/// A body of one step that notes when the step began.
#[derive(Debug)]
struct First(Noted);

impl<S: Durable> Workflow<S> for First {
    const NAME: &'static str = "first";
    type Input = ();
    type Output = ();
    type Error = String;

    async fn run(&self, run: &Run<S>, (): ()) -> std::result::Result<(), String> {
        run.step("first", async || {
            self.0.now();
            Ok(())
        })
        .await
    }
}

impl Peer for Passbook {
    const CRATE: &'static str = "passbook";
    const SETUP: &'static str = "defaults; slots as in flight";

    async fn drain(task: Drain) -> Result<f64> {
        let store = Postgres::options()
            .connections(task.connections)
            .connect(&task.database)
            .await?;
        store.scheduler().prepare().await?;
        let client = Client::new(store.clone());
        task.start(|name| {
            let client = &client;
            async move { client.kind("steps").start(&name, &task.steps).await.map(drop) }
        })
        .await?;

        let (ended, shutdown) = (Ended::default(), Shutdown::new());
        let worker = Worker::new(store).slots(task.in_flight).register(Steps(ended.clone()));
        let began = Instant::now();
        let worker = tokio::spawn(worker.run(shutdown.clone()));
        ended.all(&task, "SELECT count(*) FROM workflow_queue").await?;
        let took = began.elapsed().as_secs_f64();
        shutdown.begin();
        worker.await??;
        Ok(took)
    }

    async fn latency(task: Latency) -> Result<Vec<Figure>> {
        let store = Postgres::options().connect(&task.database).await?;
        store.scheduler().prepare().await?;
        let working = if task.apart {
            Postgres::options().connect(&task.database).await?
        } else {
            store.clone()
        };
        let (noted, shutdown) = (Noted::default(), Shutdown::new());
        let worker = Worker::new(working).register(First(noted.clone()));
        let worker = tokio::spawn(worker.run(shutdown.clone()));
        let client = Client::new(store);
        let figures = task
            .measure(&noted, async |name| {
                client.start::<First>(&name, &()).await?;
                client.result::<First>(&name).await?;
                Ok(())
            })
            .await?;
        shutdown.begin();
        worker.await??;
        Ok(figures)
    }

    async fn start(task: Start) -> Result<f64> {
        let store = Postgres::options()
            .connections(task.connections)
            .connect(&task.database)
            .await?;
        store.scheduler().prepare().await?;
        let client = Client::new(store);
        task.measure(move |name| {
            let client = client.clone();
            async move { Ok(client.kind("steps").start(&name, &5).await.map(drop)?) }
        })
        .await
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    frame::main::<Passbook>().await
}
