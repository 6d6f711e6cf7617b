//! Workflows that were started up front, drained by one worker.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{StreamExt, TryStreamExt, iter};
use sqlx::{Connection, PgConnection};

use crate::Result;

/// Between two looks at whether the drain is over.
const PAUSE: Duration = Duration::from_millis(2);

/// How much is drained.
#[derive(Clone, Debug, clap::Args)]
pub struct Drain {
    /// A fresh database.
    #[arg(long)]
    pub database: String,
    /// How many workflows.
    #[arg(long)]
    pub workflows: usize,
    /// Steps of each.
    #[arg(long)]
    pub steps: usize,
    /// How many the worker runs at once.
    #[arg(long)]
    pub in_flight: usize,
    /// Connections of the peer's pool.
    #[arg(long)]
    pub connections: u32,
}

impl Drain {
    /// The names of the workflows.
    pub fn names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.workflows).map(|at| format!("{at:08}"))
    }

    /// Starts all workflows, 64 at a time. Not part of what is measured.
    pub async fn start<F, E>(&self, start: impl Fn(String) -> F) -> std::result::Result<(), E>
    where
        F: Future<Output = std::result::Result<(), E>>,
    {
        iter(self.names()).map(start).buffer_unordered(64).try_collect().await
    }
}

/// How many bodies have come to their end.
#[derive(Clone, Debug, Default)]
pub struct Ended(Arc<AtomicUsize>);

impl Ended {
    /// One more. Bodies call it last.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns when all have been added.
    pub async fn bodies(&self, drain: &Drain) {
        while self.0.load(Ordering::Relaxed) < drain.workflows {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns when all bodies have ended and the database says so too: `left` counts what is not settled. It is asked
    /// only once the bodies have ended, so that it does not burden the drain.
    pub async fn all(&self, drain: &Drain, left: &'static str) -> Result<()> {
        let mut connection = PgConnection::connect(&drain.database).await?;
        self.bodies(drain).await;
        while sqlx::query_scalar::<_, i64>(left).fetch_one(&mut connection).await? > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        connection.close().await?;
        Ok(())
    }
}
