//! Who is told that something may have happened: idle workers, and whoever waits for a result.

use std::fmt;

use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};

/// How many endings a slow listener may lag behind before it is told to ask for all.
const KEPT: usize = 4_096;

/// The hints of one store: a part for those who build stores.
///
/// A hint may be lost and it may be wrong. Nothing that is promised rests on one: workers poll, and so do waiters.
pub struct Hints {
    ready: watch::Sender<()>,
    ended: broadcast::Sender<Option<String>>,
}

impl Hints {
    /// Nobody is told anything yet.
    pub fn new() -> Self {
        Self {
            ready: watch::Sender::new(()),
            ended: broadcast::Sender::new(KEPT),
        }
    }

    /// Tells idle workers that something may be ready.
    pub fn tell_ready(&self) {
        self.ready.send_replace(());
    }

    /// The wakeups from now on; what [`Scheduler::wakeups`](crate::Scheduler::wakeups) of the store returns.
    pub fn wakeups(&self) -> Wakeups {
        Wakeups(Some(self.ready.subscribe()))
    }

    /// Tells who waits for results that this workflow is over.
    pub fn tell_ended(&self, workflow: &str) {
        if self.ended.receiver_count() > 0 {
            // Nobody listens any more when it fails.
            let _ = self.ended.send(Some(workflow.to_owned()));
        }
    }

    /// Tells everybody that hints may have been missed, e.g. since a listener's connection broke.
    pub fn tell_unsure(&self) {
        self.tell_ready();
        let _ = self.ended.send(None);
    }

    /// The endings from now on; what [`Inspect::endings`](crate::Inspect::endings) of the store returns.
    pub fn endings(&self) -> Endings {
        Endings(Some(self.ended.subscribe()))
    }
}

impl Default for Hints {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hints")
            .field("waiting for endings", &self.ended.receiver_count())
            .finish_non_exhaustive()
    }
}

/// Tells one worker that something may be ready. Only hints; see [`Scheduler::wakeups`](crate::Scheduler::wakeups).
#[derive(Debug)]
pub struct Wakeups(Option<watch::Receiver<()>>);

impl Wakeups {
    /// Never tells anything: of a store without hints.
    pub fn silent() -> Self {
        Self(None)
    }

    /// What has been told until now is known: the worker is about to look.
    pub fn catch_up(&mut self) {
        if let Some(receiver) = &mut self.0 {
            receiver.mark_unchanged();
        }
    }

    /// Completes when something has been told since it completed the last time, or since it caught up.
    pub async fn next(&mut self) {
        if let Some(receiver) = &mut self.0 {
            match receiver.changed().await {
                Ok(()) => return,
                // The store is gone.
                Err(_) => self.0 = None,
            }
        }
        std::future::pending::<()>().await;
    }
}

/// Workflows that are over, told as they end. Only hints; see [`Inspect::endings`](crate::Inspect::endings).
#[derive(Debug)]
pub struct Endings(Option<broadcast::Receiver<Option<String>>>);

impl Endings {
    /// Never tells anything: of a store without hints.
    pub fn silent() -> Self {
        Self(None)
    }

    /// Whether it never tells anything.
    pub fn is_silent(&self) -> bool {
        self.0.is_none()
    }

    /// The next workflow that is over; `None` when any may be.
    pub async fn next(&mut self) -> Option<String> {
        if let Some(receiver) = &mut self.0 {
            match receiver.recv().await {
                Ok(ended) => return ended,
                Err(RecvError::Lagged(_)) => return None,
                Err(RecvError::Closed) => self.0 = None,
            }
        }
        std::future::pending().await
    }

    /// The next one if it has been told already.
    pub fn try_next(&mut self) -> Option<Option<String>> {
        match self.0.as_mut()?.try_recv() {
            Ok(ended) => Some(ended),
            Err(TryRecvError::Lagged(_)) => Some(None),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}
