//! Who is told that something may have happened: idle workers, and whoever waits for a result.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, broadcast};

use crate::offers::{Given, Offer, Offering, Offers};
use crate::{Settlement, Value};

/// How many endings a slow listener may lag behind before it is told to ask for all.
const KEPT: usize = 4_096;
/// The longest result that is told with its ending, in bytes, so that a slow listener keeps little memory.
const LONGEST: usize = 4_096;

/// The hints of one store: a part for those who build stores.
///
/// A hint may be lost and it may be wrong. Nothing that is promised rests on one: workers poll, and so do waiters.
pub struct Hints {
    workers: Mutex<Vec<Weak<Listening>>>,
    offers: Offers,
    ended: broadcast::Sender<Option<Ending>>,
}

impl Hints {
    /// Nobody is told anything yet.
    pub fn new() -> Self {
        Self {
            workers: Mutex::default(),
            offers: Offers::default(),
            ended: broadcast::Sender::new(KEPT),
        }
    }

    /// Tells idle workers that something of this namespace may be ready, or of any. Whether one was waiting for it, and is
    /// about to look: then nobody else needs to. Of any it is never said, as it may be a kind that nobody here serves.
    pub fn tell_ready(&self, namespace: Option<&str>) -> bool {
        let mut heard = false;
        self.workers().retain(|worker| {
            let Some(worker) = worker.upgrade() else {
                return false;
            };
            if namespace.is_none_or(|namespace| worker.namespaces.iter().any(|served| served == namespace)) {
                heard |= worker.tell() && namespace.is_some();
            }
            true
        });
        heard
    }

    /// The wakeups of these namespaces from now on; what [`Scheduler::wakeups`](crate::Scheduler::wakeups) of the store
    /// returns.
    pub fn wakeups(&self, namespaces: &[String]) -> Wakeups {
        let listening = Arc::new(Listening {
            namespaces: namespaces.to_vec(),
            told: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            wake: Notify::new(),
        });
        self.workers().push(Arc::downgrade(&listening));
        Wakeups(Some(listening))
    }

    /// A free slot of a worker that serves this namespace and waits for work, if there is one. A start that has it may claim its
    /// workflow in the commit that starts it, and hand over the pass: then nobody needs to take it from the queue.
    pub fn offer(&self, namespace: &str) -> Option<Offer> {
        self.offers.take(namespace)
    }

    /// What a worker of these namespaces offers; what [`Durable::offering`](crate::Durable::offering) of the store returns, if
    /// its starts take what is offered.
    pub fn offering(&self, namespaces: &[String]) -> Offering {
        self.offers.offering(namespaces)
    }

    fn workers(&self) -> MutexGuard<'_, Vec<Weak<Listening>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells who waits for results that this workflow is over.
    pub fn tell_ended(&self, workflow: &str) {
        self.tell(|| Ending {
            workflow: workflow.to_owned(),
            result: None,
        });
    }

    /// Tells who waits for results that a pass was settled, if that was the end of its workflow. The result goes along when
    /// it is short and `recorded` says that this pass was the first to record one. Unlike a hint it must be true: `asked` is
    /// from before the store was asked to settle, and who has waited since before that asks no more.
    pub fn tell_settled(&self, asked: Instant, workflow: &str, outcome: &Settlement, recorded: bool) {
        // Before it is told: who comes later asks.
        self.offers.given().forget(workflow);
        if outcome.is_over() {
            self.tell(|| Ending {
                workflow: workflow.to_owned(),
                result: match outcome {
                    Settlement::Completed { result } if recorded && result.len() <= LONGEST => {
                        Some((asked, result.clone()))
                    }
                    _ => None,
                },
            });
        }
    }

    fn tell(&self, ending: impl FnOnce() -> Ending) {
        if self.ended.receiver_count() > 0 {
            // Nobody listens any more when it fails.
            let _ = self.ended.send(Some(ending()));
        }
    }

    /// Tells everybody that hints may have been missed, e.g. since a listener's connection broke.
    pub fn tell_unsure(&self) {
        self.tell_ready(None);
        let _ = self.ended.send(None);
    }

    /// The endings from now on; what [`Inspect::endings`](crate::Inspect::endings) of the store returns.
    pub fn endings(&self) -> Endings {
        Endings {
            receiver: Some(self.ended.subscribe()),
            given: self.offers.given().clone(),
            bare: false,
        }
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
pub struct Wakeups(Option<Arc<Listening>>);

#[derive(Debug)]
struct Listening {
    namespaces: Vec<String>,
    /// Since the worker last looked.
    told: AtomicBool,
    /// The worker waits, and looks when it is told.
    waits: AtomicBool,
    wake: Notify,
}

impl Listening {
    /// Whether the worker was waiting, and nobody had told it yet.
    fn tell(&self) -> bool {
        self.told.store(true, Ordering::SeqCst);
        let waited = self.waits.swap(false, Ordering::SeqCst);
        self.wake.notify_one();
        waited
    }
}

/// Waits no longer, whether told or dropped.
struct Waits<'a>(&'a Listening);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waits.store(false, Ordering::SeqCst);
    }
}

impl Wakeups {
    /// Never tells anything: of a store without hints.
    pub fn silent() -> Self {
        Self(None)
    }

    /// What has been told until now is known: the worker is about to look.
    pub fn catch_up(&mut self) {
        if let Some(listening) = &self.0 {
            listening.told.store(false, Ordering::SeqCst);
        }
    }

    /// Completes when something has been told since it completed the last time, or since it caught up.
    pub async fn next(&mut self) {
        let Some(listening) = &self.0 else {
            return std::future::pending().await;
        };
        let waits = Waits(listening);
        listening.waits.store(true, Ordering::SeqCst);
        while !listening.told.swap(false, Ordering::SeqCst) {
            // A wake that was told before the worker caught up is an old one.
            listening.wake.notified().await;
        }
        drop(waits);
    }
}

/// A workflow that is over.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) workflow: String,
    /// What it has returned, for those who wait since before this instant: whoever came later may wait for another one of
    /// the same id.
    pub(crate) result: Option<(Instant, Value)>,
}

/// Workflows that are over, told as they end. Only hints; see [`Inspect::endings`](crate::Inspect::endings).
#[derive(Debug)]
pub struct Endings {
    receiver: Option<broadcast::Receiver<Option<Ending>>>,
    given: Arc<Given>,
    /// Leaves the results away.
    bare: bool,
}

impl Endings {
    /// Never tells anything: of a store without hints.
    pub fn silent() -> Self {
        Self {
            receiver: None,
            given: Arc::default(),
            bare: true,
        }
    }

    /// Tells no results: of a store that reads them otherwise than the store within.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { bare: true, ..self }
    }

    /// Whether it never tells anything.
    pub fn is_silent(&self) -> bool {
        self.receiver.is_none()
    }

    /// Whether a worker of this process runs this workflow: it is not over yet, and when it is, that will be told.
    pub(crate) fn expects(&self, workflow: &str) -> bool {
        self.given.contains(workflow)
    }

    /// Waits for the next workflow that is over, and takes along what has been told by then; `None` when any may be over.
    pub(crate) async fn next(&mut self) -> Option<Vec<Ending>> {
        let mut ended = Vec::new();
        if let Some(receiver) = &mut self.receiver {
            match receiver.recv().await {
                Ok(first) => ended.push(first?),
                Err(RecvError::Lagged(_)) => return None,
                Err(RecvError::Closed) => self.receiver = None,
            }
        }
        let Some(receiver) = &mut self.receiver else {
            return std::future::pending().await;
        };
        loop {
            match receiver.try_recv() {
                Ok(next) => ended.push(next?),
                Err(TryRecvError::Lagged(_)) => return None,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        if self.bare {
            for ended in &mut ended {
                ended.result = None;
            }
        }
        Some(ended)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn completed(text: &str) -> (Settlement, Value) {
        let result = Value::encode(text).expect("text can be kept");
        (Settlement::Completed { result: result.clone() }, result)
    }

    /// The result that is told with the next ending.
    async fn told(endings: &mut Endings) -> Option<Value> {
        let ended = endings.next().await.expect("nothing was missed").pop();
        ended.expect("one has ended").result.map(|(_, result)| result)
    }

    #[tokio::test]
    async fn a_short_result_is_told_with_the_ending_when_it_was_the_first() {
        let hints = Hints::new();
        let mut endings = hints.endings();
        let mut bare = hints.endings().bare();
        let (outcome, result) = completed("short");
        hints.tell_settled(Instant::now(), "w", &outcome, true);
        assert_eq!(told(&mut endings).await, Some(result));
        assert_eq!(told(&mut bare).await, None, "only the name");
        hints.tell_settled(Instant::now(), "w", &outcome, false);
        assert_eq!(told(&mut endings).await, None, "another stood there before");
        let (outcome, _) = completed(&"long".repeat(LONGEST));
        hints.tell_settled(Instant::now(), "w", &outcome, true);
        assert_eq!(told(&mut endings).await, None, "too long to be kept for slow listeners");

        hints.tell_settled(Instant::now(), "w", &Settlement::HandedBack, false);
        hints.tell_ended("next");
        let ended = endings.next().await.expect("nothing was missed");
        let names: Vec<_> = ended.iter().map(|ended| ended.workflow.as_str()).collect();
        assert_eq!(names, ["next"], "a workflow that goes on has not ended");
    }

    #[tokio::test]
    async fn a_wakeup_is_heard_by_a_worker_that_serves_the_kind_and_waits_for_it() {
        let hints = Hints::new();
        let mut wakeups = hints.wakeups(&["orders".to_owned(), "refunds".to_owned()]);
        assert!(!hints.tell_ready(Some("orders")), "it does not wait yet");
        wakeups.catch_up();
        let waiting = tokio::spawn(async move {
            wakeups.next().await;
            wakeups
        });
        tokio::task::yield_now().await;
        assert!(!hints.tell_ready(Some("letters")), "it serves others");
        assert!(hints.tell_ready(Some("refunds")), "it waits");
        assert!(!hints.tell_ready(Some("orders")), "it is about to look, once");
        let mut wakeups = waiting.await.expect("it was woken");
        wakeups.catch_up();
        let heard = tokio::time::timeout(Duration::from_millis(1), wakeups.next()).await;
        assert!(heard.is_err(), "it knows of all that was told");
        assert!(!hints.tell_ready(Some("orders")), "it has turned to something else");
        wakeups.catch_up();
        let waiting = tokio::spawn(async move { wakeups.next().await });
        tokio::task::yield_now().await;
        assert!(
            !hints.tell_ready(None),
            "what is ready may be of a kind that it does not serve"
        );
        waiting.await.expect("it was woken all the same");
        assert!(!hints.tell_ready(Some("orders")), "it is gone");
    }
}
