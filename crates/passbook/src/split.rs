//! A pair of stores that are two datastores.

use crate::{Checkpointer, Durable, Endings, Error, Filter, Finished, Inspect, Result, Scheduler, Status};

/// A checkpointer and a scheduler that need not be one datastore.
///
/// Every transition is the default of [`Durable`]: two commits in the order in which asking again repairs a crash
/// between them. Prefer a store that is one datastore where there is one.
///
/// ```
/// use passbook::{Durable, MemoryStore, SplitDurable};
///
/// let (records, queue) = (MemoryStore::new(), MemoryStore::new());
/// let store = SplitDurable::new(records.checkpointer().clone(), queue.scheduler().clone())?;
/// # Ok::<(), passbook::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SplitDurable<C, S> {
    checkpointer: C,
    scheduler: S,
}

impl<C: Checkpointer, S: Scheduler> SplitDurable<C, S> {
    /// Bundles the two. Refused when their leases differ: one sign of life renews both.
    pub fn new(checkpointer: C, scheduler: S) -> Result<Self> {
        if checkpointer.lease() != scheduler.lease() {
            return Err(Error::invalid(format!(
                "the lease of the checkpointer is {:?} and that of the scheduler {:?}; a pass renews both together, so give them the same",
                checkpointer.lease(),
                scheduler.lease()
            )));
        }
        Ok(Self {
            checkpointer,
            scheduler,
        })
    }
}

impl<C: Checkpointer, S: Scheduler> Durable for SplitDurable<C, S> {
    type Checkpointer = C;
    type Scheduler = S;

    fn checkpointer(&self) -> &C {
        &self.checkpointer
    }

    fn scheduler(&self) -> &S {
        &self.scheduler
    }
}

/// Sees what the checkpointer knows: states, records and failures, but not what is due in the queue.
impl<C: Checkpointer + Inspect, S: Scheduler> Inspect for SplitDurable<C, S> {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        self.checkpointer.status(workflow).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        self.checkpointer.list(filter).await
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        self.checkpointer.finished(workflows).await
    }

    fn endings(&self) -> Endings {
        self.checkpointer.endings()
    }
}
