//! Work to be done: plain workflows, those who start them, and the workers that do them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::stream::{StreamExt, TryStreamExt, iter};
use passbook::{Client, Durable, Inspect, Run, Shutdown, Worker, Workflow};
use serde::Serialize;
use tokio::task::JoinHandle;

use crate::Result;
use crate::ground::{Ground, Opening};

/// How many starts are under way at once.
const STARTS: usize = 64;

/// A body of plain steps that tells how many have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(pub(crate) Arc<AtomicUsize>);

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

/// Starts workflows of one kind with one input, many at a time.
pub(crate) async fn start<S: Durable + Inspect>(
    store: &S,
    namespace: &str,
    workflows: impl Iterator<Item = String>,
    input: impl Serialize + Copy,
) -> Result<()> {
    start_each(store, namespace, workflows.map(|workflow| (workflow, input))).await
}

/// Starts workflows of one kind, each with an input of its own, many at a time.
pub(crate) async fn start_each<S: Durable + Inspect>(
    store: &S,
    namespace: &str,
    workflows: impl Iterator<Item = (String, impl Serialize)>,
) -> Result<()> {
    let client = Client::new(store.clone());
    let client = &client;
    iter(workflows)
        .map(|(workflow, input)| async move { client.kind(namespace).start(&workflow, &input).await.map(drop) })
        .buffer_unordered(STARTS)
        .try_collect::<()>()
        .await?;
    Ok(())
}

/// Workers of this process, each with a store of its own.
#[derive(Debug)]
pub(crate) struct Crew<'a, G: Ground> {
    ground: &'a G,
    stores: Vec<G::Store>,
    workers: Vec<JoinHandle<passbook::Result<()>>>,
    shutdown: Shutdown,
}

impl<'a, G: Ground> Crew<'a, G> {
    /// So many workers, each with the kinds that `served` gives it.
    pub(crate) async fn new(
        ground: &'a G,
        place: &str,
        opening: Opening,
        workers: usize,
        served: impl Fn(Worker<G::Store>) -> Worker<G::Store>,
    ) -> Result<Self> {
        let mut crew = Self {
            ground,
            stores: Vec::new(),
            workers: Vec::new(),
            shutdown: Shutdown::new(),
        };
        for _ in 0..workers {
            let store = ground.open(place, opening).await?;
            let worker = served(Worker::new(store.clone()));
            crew.workers.push(tokio::spawn(worker.run(crew.shutdown.clone())));
            crew.stores.push(store);
        }
        Ok(crew)
    }

    /// Returns when so many have ended. Fails when a worker has.
    pub(crate) async fn until(&self, ended: &AtomicUsize, count: usize) -> Result<()> {
        while ended.load(Ordering::Relaxed) < count {
            self.check()?;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Fails when a worker has ended, so that nobody waits for its work for ever.
    pub(crate) fn check(&self) -> Result<()> {
        if self.workers.iter().any(JoinHandle::is_finished) {
            return Err("a worker has ended before its work".into());
        }
        Ok(())
    }

    /// Returns when the passes that are under way are settled and the connections closed.
    pub(crate) async fn dismiss(self) -> Result<Instant> {
        self.shutdown.begin();
        for worked in try_join_all(self.workers).await? {
            worked?;
        }
        let settled = Instant::now();
        for store in self.stores {
            self.ground.close(store).await;
        }
        Ok(settled)
    }
}
