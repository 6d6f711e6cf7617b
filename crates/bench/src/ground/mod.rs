//! Where a measure takes place: Postgres, or SQLite files.

mod files;
mod server;

use std::time::Duration;

use passbook::{Durable, Inspect};

pub(crate) use files::Files;
pub(crate) use server::Server;

use crate::Result;
use crate::counts::Counts;
use crate::report::Report;

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) batching: bool,
    /// At most so many connections, where there can be several.
    pub(crate) connections: u32,
    pub(crate) lease: Duration,
}

/// A database that is measured: what opens stores in it, what it does by itself, and what it counts.
pub(crate) trait Ground {
    /// What keeps workflows there.
    type Store: Durable + Inspect;

    /// Rows a commit and clients of each figure of the floor.
    const FLOORS: &'static [(i64, u32)];

    /// How many clients bring the one-row commits that rates are held against.
    const CLIENTS: u32;

    /// Itself where it is a Postgres, for the measures that are made with its SQL.
    fn server(&self) -> Option<&Server> {
        None
    }

    /// Version and the settings that figures depend on.
    async fn describe(&self) -> Result<String>;

    /// Opens a store at a place. Stores that are opened at one place share what they keep.
    async fn open(&self, place: &str, opening: Opening) -> Result<Self::Store>;

    /// Closes a store's connections, so that they have told the counters everything.
    async fn close(&self, store: Self::Store);

    /// How many workflows are in the queue at a place.
    async fn queued(&self, place: &str) -> Result<i64>;

    /// Rows per second of `clients` that each commit `rows` rows at a time for so long. The rows look like a record.
    async fn rows_per_second(&self, clients: u32, rows: i64, time: Duration) -> Result<f64>;

    /// Seconds of each of so many one-row commits of one client, which pauses before each. The table is that of the floor.
    async fn paused_commits(&self, pause: Duration, times: usize) -> Result<Vec<f64>>;

    /// Seconds of one round trip that does nothing.
    async fn round_trip(&self) -> Result<f64>;

    /// What was counted up to now.
    async fn counts(&self) -> Result<Counts>;
}

/// One run of a measure.
#[derive(Debug)]
pub(crate) struct Round<'a, G> {
    pub(crate) ground: &'a G,
    pub(crate) report: &'a mut Report,
    pub(crate) batching: bool,
    pub(crate) run: usize,
}

impl<G: Ground> Round<'_, G> {
    /// The same run, for a measure that is made with the SQL of Postgres.
    pub(crate) fn on_server(&mut self) -> Result<Round<'_, Server>> {
        let server = self.ground.server();
        let ground = server.ok_or("this is measured on Postgres only; leave out `--sqlite`")?;
        Ok(Round {
            ground,
            report: &mut *self.report,
            batching: self.batching,
            run: self.run,
        })
    }

    /// A place that no earlier run has used.
    pub(crate) fn place(&self, measure: &str) -> String {
        format!("bench_{measure}_{}_{}", std::process::id(), self.run)
    }

    /// How stores are opened unless the measure says otherwise.
    pub(crate) fn opening(&self) -> Opening {
        Opening {
            batching: self.batching,
            connections: 32,
            lease: Duration::from_secs(30),
        }
    }

    /// Measures the floor of rates: one-row commits per second.
    pub(crate) async fn commits(&mut self) -> Result<f64> {
        let commits = self.ground.rows_per_second(G::CLIENTS, 1, crate::floor::WHILE).await?;
        let name = format!("floor: 1 row a commit, {} client(s)", G::CLIENTS);
        self.report.add(name, "commits/s", commits);
        Ok(commits)
    }

    /// Measures the floor of delays: the milliseconds of one commit of one client.
    pub(crate) async fn commit(&mut self) -> Result<f64> {
        let commit = 1_000.0 / self.ground.rows_per_second(1, 1, crate::floor::WHILE).await?;
        self.report.add("floor: one commit, 1 client", "ms", commit);
        Ok(commit)
    }
}
