//! The right to run.

use std::future::Future;
use std::time::Duration;

use crate::{Clock, Result, Timestamp, Wakeups};

/// One wakeup taken from the queue and not yet answered for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delivery {
    /// The queue it was taken from: the kind of the workflow.
    pub namespace: String,
    /// The workflow that is to run.
    pub workflow: String,
    /// The `visible_at` under which it was taken. A later wakeup changes it, and so shows.
    pub receipt: Timestamp,
}

/// Keeps the right to run.
///
/// Not promised: that a workflow reaches one worker at a time. Exclusion is the claim's.
pub trait Scheduler: Clone + Send + Sync + 'static {
    /// How long one sign of life is good for: a delivery is hidden from others for so long.
    fn lease(&self) -> Duration;

    /// How long an idle worker waits before it looks again, when nothing tells it to.
    fn poll(&self) -> Duration;

    /// The clock that deadlines are judged by.
    fn clock(&self) -> &Clock;

    /// The time of that clock, in one round trip.
    fn now(&self) -> impl Future<Output = Result<Timestamp>> + Send;

    /// Makes sure that the schema is there. Every worker calls it at boot, all at once.
    fn prepare(&self) -> impl Future<Output = Result<()>> + Send;

    /// Makes the workflow ready now. Some `next_ready` will yield it, even if a worker dies mid-pass, even if a pass
    /// is running at this moment. Making ready twice is the same as once.
    fn make_ready(&self, namespace: &str, workflow: &str) -> impl Future<Output = Result<()>> + Send;

    /// Takes up to `limit` workflows that are due, over all the namespaces, none of which starves another; each is
    /// hidden from other takers for one lease.
    fn next_ready(&self, namespaces: &[String], limit: usize) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// Answers for a delivery: the workflow is due again at `when`. If a wakeup came after the delivery was taken, the
    /// workflow is ready now instead; if it was cancelled, it stays so.
    fn wake_at(&self, delivery: &Delivery, when: Timestamp) -> impl Future<Output = Result<()>> + Send;

    /// Answers for a delivery: nothing more is to be run. A wakeup that came after it was taken stays and is ready now.
    fn done(&self, delivery: &Delivery) -> impl Future<Output = Result<()>> + Send;

    /// Hides the deliveries for another lease and returns those that it still held, under their new receipts. Silent
    /// about the others, and nothing is done to them.
    fn extend(&self, deliveries: &[Delivery]) -> impl Future<Output = Result<Vec<Delivery>>> + Send;

    /// Takes the workflow out of the queue, delivered or not; no answer of an earlier delivery brings it back.
    fn cancel(&self, namespace: &str, workflow: &str) -> impl Future<Output = Result<()>> + Send;

    /// How long until the next workflow of these namespaces is due; `None` when nothing is queued.
    fn next_due(&self, namespaces: &[String]) -> impl Future<Output = Result<Option<Duration>>> + Send;

    /// Makes due what has come of age, for stores that keep sleepers apart. Nothing to do over a table that is scored
    /// by visibility.
    fn wake_due(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Brings back deliveries whose worker died, for stores that keep them apart. Nothing to do over a table that is
    /// scored by visibility.
    fn reclaim(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Tells a worker of these namespaces when work may have appeared, from now on. Only hints: they may be lost and they may
    /// be wrong, the poll still finds the work. A store without hints tells nothing.
    fn wakeups(&self, namespaces: &[String]) -> Wakeups {
        let _ = namespaces;
        Wakeups::silent()
    }
}
