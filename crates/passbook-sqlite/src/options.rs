//! How a file is opened.

use std::path::Path;
use std::time::Duration;

use passbook::{Clock, Error, Result};

use crate::{Sqlite, SqliteFile};

/// How a file is opened.
///
/// ```
/// use std::time::Duration;
/// use passbook_sqlite::Sqlite;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("work.db");
/// let store = Sqlite::options().lease(Duration::from_secs(60)).open(&path).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteOptions {
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) patience: Duration,
    pub(crate) readers: u32,
    pub(crate) batching: bool,
    pub(crate) clock: Clock,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            poll: Duration::from_millis(200),
            patience: Duration::from_secs(30),
            readers: 4,
            batching: true,
            clock: Clock::store(),
        }
    }
}

impl SqliteOptions {
    /// How long one sign of life is good for. 30 seconds unless told otherwise.
    ///
    /// All processes on one file should use the same.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long an idle worker waits before it looks again. 200 milliseconds unless told otherwise.
    ///
    /// What the same process makes ready is told to its workers at once, and an idle worker sees within some ten milliseconds
    /// that another process has written to the file; the poll finds what they have missed.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// How long a write waits for its turn in this process, and then again for the file's lock, before it fails as
    /// unavailable. 30 seconds unless told otherwise.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// At most how many connections read at once. 4 unless told otherwise.
    pub fn readers(mut self, readers: u32) -> Self {
        self.readers = readers;
        self
    }

    /// Whether starts, arrivals, deliveries, records and settlements that are asked for while the file is being written go
    /// together in the next transaction. They do unless told otherwise. A lone one is not delayed by it, a bad one fails
    /// alone, and a call returns when its commit did, either way.
    pub fn batching(mut self, batching: bool) -> Self {
        self.batching = batching;
        self
    }

    /// The clock that deadlines are judged by: the machine's, unless a test moves one of its own.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Opens the file, and creates it when it is not there. The schema is made by
    /// [`prepare`](passbook::Scheduler::prepare), which every worker calls at boot.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<Sqlite> {
        Ok(Sqlite::over(&self.open_file(path).await?))
    }

    /// Opens the file as a handle, for who needs only one half of the store.
    pub async fn open_file(self, path: impl AsRef<Path>) -> Result<SqliteFile> {
        SqliteFile::open_with(path.as_ref(), self).await
    }

    pub(crate) fn check(&self) -> Result<()> {
        /// SQLite counts its busy timeout in milliseconds in 32 bits.
        const LONGEST: Duration = Duration::from_hours(7 * 24);

        for (name, duration) in [("lease", self.lease), ("poll", self.poll), ("patience", self.patience)] {
            if duration.is_zero() || duration > LONGEST {
                return Err(Error::invalid(format!(
                    "the {name} is {duration:?}; give more than zero and at most seven days"
                )));
            }
        }
        if self.readers == 0 {
            return Err(Error::invalid("the readers are 0; give it at least one"));
        }
        Ok(())
    }
}
