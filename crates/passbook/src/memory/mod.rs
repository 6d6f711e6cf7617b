//! The store that is memory: complete, for tests, examples and trying things out.

mod checkpointer;
mod durable;
mod inspect;
mod scheduler;
mod state;
mod tx;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

pub use checkpointer::MemoryCheckpointer;
pub use durable::MemoryStore;
pub use scheduler::MemoryScheduler;
pub use tx::{MemoryTransaction, MemoryTx};

use crate::{Clock, Error, Result, Timestamp};
use state::State;

/// What the halves of one store share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    ready: Notify,
    /// Tells that a transaction has ended, to whoever waits for a workflow that it spoke to.
    ended: Notify,
    lease: Duration,
    poll: Duration,
    clock: Clock,
}

impl Shared {
    fn new(lease: Duration, poll: Duration, clock: Clock) -> Result<Arc<Self>> {
        for (name, duration) in [("lease", lease), ("poll", poll)] {
            if duration.is_zero() {
                return Err(Error::invalid(format!(
                    "the {name} of a memory store is zero; give it a positive time"
                )));
            }
        }
        Ok(Arc::new(Self {
            state: Mutex::default(),
            ready: Notify::new(),
            ended: Notify::new(),
            lease,
            poll,
            clock,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Speaks to a workflow once no open transaction but `own` has spoken to it, so that numbers of one workflow are drawn in
    /// the order in which they commit.
    async fn speak<T>(&self, workflow: &str, own: Option<u64>, speak: impl FnOnce(&mut State) -> T) -> T {
        loop {
            // Registered before looking, so that an end in between is not missed.
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            {
                let mut state = self.lock();
                if state.spoken_to.get(workflow).is_none_or(|holder| Some(*holder) == own) {
                    return speak(&mut state);
                }
            }
            ended.await;
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.bound().unwrap_or_else(|| SystemTime::now().into())
    }
}
