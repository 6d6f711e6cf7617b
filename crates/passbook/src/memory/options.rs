//! How an in-memory store is set up.

use std::time::Duration;

use super::{MemoryStore, Shared};
use crate::{Clock, Error, Result};

/// How an in-memory store is set up.
///
/// ```
/// use std::time::Duration;
/// use passbook::{Clock, MemoryStore, Timestamp};
///
/// let clock = Clock::manual(Timestamp::from_micros(0));
/// let store = MemoryStore::options().lease(Duration::from_secs(60)).clock(clock).open()?;
/// # Ok::<(), passbook::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MemoryOptions {
    pub(super) lease: Duration,
    pub(super) poll: Duration,
    pub(super) clock: Clock,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            poll: Duration::from_millis(50),
            clock: Clock::store(),
        }
    }
}

impl MemoryOptions {
    /// How long one sign of life is good for. 30 seconds unless told otherwise.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long an idle worker waits before it looks again. 50 milliseconds unless told otherwise.
    ///
    /// What is made ready is told at once; the poll finds what comes of age when a manual clock is moved.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// The clock that deadlines are judged by: the machine's, unless a test moves one of its own.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// An empty store. Refused when the lease or the poll is zero.
    pub fn open(self) -> Result<MemoryStore> {
        for (name, duration) in [("lease", self.lease), ("poll", self.poll)] {
            if duration.is_zero() {
                return Err(Error::invalid(format!(
                    "the {name} of a memory store is zero; give it a positive time"
                )));
            }
        }
        Ok(MemoryStore::over(Shared::new(self)))
    }
}
