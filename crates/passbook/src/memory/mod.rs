//! The store that is memory: complete, for tests, examples and trying things out.

mod checkpointer;
mod durable;
mod enlist;
mod holds;
mod inspect;
mod options;
mod queue;
mod scheduler;
mod state;
#[cfg(test)]
mod tests;
mod tx;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::Notify;

pub use checkpointer::MemoryCheckpointer;
pub use durable::MemoryStore;
pub use options::MemoryOptions;
pub use scheduler::MemoryScheduler;
pub use tx::{MemoryTransaction, MemoryTx};

use crate::{Hints, Timestamp};
use state::State;

/// What the halves of one store share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    hints: Hints,
    /// Told when an open transaction ends that held workflows.
    freed: Notify,
    options: MemoryOptions,
}

impl Shared {
    fn new(options: MemoryOptions) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            hints: Hints::new(),
            freed: Notify::new(),
            options,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.options.clock.bound().unwrap_or_else(|| SystemTime::now().into())
    }

    /// Runs one transition. The clock is read under the lock, so that time does not run backwards from one to the next.
    fn commit<T>(&self, transition: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let mut state = self.lock();
        let now = self.now();
        transition(&mut state, now)
    }

    /// Runs one transition as soon as it can: one that returns `None` has met what an open transaction holds, has written
    /// nothing, and is tried again when a transaction ends.
    async fn commit_when<T>(&self, mut transition: impl FnMut(&mut State, Timestamp) -> Option<T>) -> T {
        loop {
            // Before the look, so that an end that comes right after it is heard.
            let freed = self.freed.notified();
            if let Some(done) = self.commit(&mut transition) {
                return done;
            }
            freed.await;
        }
    }
}
