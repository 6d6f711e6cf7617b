//! Takes workflows that are due, runs their passes, keeps them alive, and settles them.

mod attempt;
mod keeper;
mod parking;
mod shutdown;
mod slot;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

pub use shutdown::Shutdown;

use crate::durable::{Acquire, Acquired, Durable, Pass};
use crate::offers::{Gift, Noted};
use crate::workflow::{Body, Function, Kind, Typed, Workflow};
use crate::{Delivery, Error, Result, Retry, Scheduler, check_name};
use attempt::Attempt;
use keeper::Keeper;
use parking::{Parking, Turn};
use slot::{Freed, Slot};

/// The waits of a worker whose store does not answer.
const PATIENCE: Retry = Retry::times(u32::MAX)
    .first(Duration::from_millis(50))
    .cap(Duration::from_secs(5));

/// Runs workflows.
///
/// Any number of workers, in any number of processes, work on one store. A worker serves several kinds; none starves
/// another, and one poll serves them all.
///
/// ```
/// use passbook::{Client, Ended, MemoryStore, Run, Shutdown, Worker};
///
/// async fn greeting(run: &Run<MemoryStore>, name: String) -> Result<String, String> {
///     run.step("composed", async || Ok(format!("Good day, {name}!"))).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> passbook::Result<()> {
/// let store = MemoryStore::new();
/// let client = Client::new(store.clone());
/// client.kind("greeting").start("to-ada", &"Ada").await?;
///
/// let shutdown = Shutdown::new();
/// let worker = Worker::new(store).serve("greeting", greeting).run(shutdown.clone());
/// let result = async {
///     let ended = client.kind("greeting").result::<String>("to-ada").await;
///     shutdown.begin();
///     ended
/// };
/// let (worked, ended) = tokio::join!(worker, result);
/// worked?;
/// assert_eq!(ended?, Ended::Completed("Good day, Ada!".to_owned()));
/// # Ok(())
/// # }
/// ```
pub struct Worker<S: Durable> {
    store: S,
    kinds: HashMap<String, Arc<dyn Kind<S>>>,
    slots: usize,
    keep: usize,
    grace: Duration,
    policy: Retry,
    refused: Option<Error>,
}

impl<S: Durable> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("kinds", &self.kinds.keys().collect::<Vec<_>>())
            .field("slots", &self.slots)
            .field("keep", &self.keep)
            .field("grace", &self.grace)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl<S: Durable> Worker<S> {
    /// A worker with 100 slots that keeps up to 1,000 suspended bodies, with 10 s of grace at shutdown, and 10 attempts for
    /// a failing pass, with waits from 1 s up to 5 minutes.
    pub fn new(store: S) -> Self {
        Self {
            store,
            kinds: HashMap::new(),
            slots: 100,
            keep: 1_000,
            grace: Duration::from_secs(10),
            policy: Retry::times(10).cap(Duration::from_mins(5)),
            refused: None,
        }
    }

    /// Serves a kind of workflow.
    #[must_use]
    pub fn register<W: Workflow<S>>(self, workflow: W) -> Self {
        self.add(W::NAME, Arc::new(Typed(workflow)))
    }

    /// Serves a kind of workflow whose body is a plain `async fn(&Run<S>, I) -> Result<O, E>`.
    #[must_use]
    pub fn serve<I, F>(self, namespace: &str, body: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        F: for<'r> Body<'r, S, I>,
    {
        self.add(namespace, Arc::new(Function::new(body)))
    }

    fn add(mut self, namespace: &str, kind: Arc<dyn Kind<S>>) -> Self {
        if let Err(error) = check_name("namespace", namespace) {
            self.refused.get_or_insert(error);
        }
        if self.kinds.insert(namespace.to_owned(), kind).is_some() {
            let error = format!("a worker was given two workflows for the namespace `{namespace}`; give each its own");
            self.refused.get_or_insert(Error::invalid(error));
        }
        self
    }

    /// How many passes run at once, at least one. Each costs its body's memory, and a connection only while it writes.
    #[must_use]
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// How many bodies of suspended workflows are kept in memory, the latest; zero keeps none.
    ///
    /// A body that is kept goes on where it stands when its workflow is woken, and only what came since is loaded. It
    /// replays all the same when anything else has happened to the workflow, so nothing rests on it. Each costs the
    /// memory of its body, and up to 64 KiB of records that it has not read yet; one with more is not kept.
    #[must_use]
    pub fn keep(mut self, bodies: usize) -> Self {
        self.keep = bodies;
        self
    }

    /// How long passes may go on after a shutdown began. Zero puts them down at once.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How often a failing pass is tried again before its workflow is parked as failed, and the waits in between.
    #[must_use]
    pub fn retry(mut self, policy: Retry) -> Self {
        self.policy = policy;
        self
    }

    /// Works until it is told to stop.
    ///
    /// Refused when no kind is served, when a namespace is served twice, or when the store cannot be prepared. After
    /// that it returns only at the shutdown: an unreachable store is waited for. If this future is dropped, or the
    /// process dies, what was running is taken up again when its lease runs out.
    pub async fn run(self, shutdown: Shutdown) -> Result<()> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        if self.kinds.is_empty() || self.slots == 0 {
            return Err(Error::invalid(
                "a worker needs at least one workflow and one slot; register a workflow, and ask for a slot or more",
            ));
        }
        self.store.scheduler().prepare().await?;
        let keeper = Keeper::default();
        let mut background = JoinSet::new();
        background.spawn(keeper.clone().run(self.store.clone()));
        let mut namespaces: Vec<String> = self.kinds.keys().cloned().collect();
        namespaces.sort_unstable();
        let attempt = Attempt {
            store: self.store,
            kinds: self.kinds,
            policy: self.policy,
            keeper,
            parking: Parking::new(self.keep),
            cut: Shutdown::new(),
            unsettled: AtomicUsize::new(0),
        };
        let (freed, told) = unbounded_channel();
        let taking = Taking {
            attempt: Arc::new(attempt),
            namespaces,
            slots: self.slots,
            running: 0,
            passes: JoinSet::new(),
            freed,
            told,
            pace: Duration::ZERO,
            unanswered: 0,
        };
        taking.run(&shutdown, self.grace).await;
        background.shutdown().await;
        Ok(())
    }
}

/// Completes when a shutdown has waited for its grace, or when everything is to end at once.
async fn overdue(shutdown: &Shutdown, grace: Duration) {
    tokio::select! {
        () = async {
            shutdown.begun().await;
            tokio::time::sleep(grace).await;
        } => {}
        () = shutdown.ended() => {}
    }
}

/// The loop that takes.
struct Taking<S: Durable> {
    attempt: Arc<Attempt<S>>,
    namespaces: Vec<String>,
    slots: usize,
    /// How many passes run now.
    running: usize,
    /// The tasks of the passes that run, and of the bodies that are kept.
    passes: JoinSet<()>,
    freed: UnboundedSender<Freed>,
    told: UnboundedReceiver<Freed>,
    /// How soon it looks again when it has found nothing. Doubles up to the store's poll.
    pace: Duration,
    /// How often in a row the store has not answered.
    unanswered: u32,
}

impl<S: Durable> Taking<S> {
    async fn run(mut self, shutdown: &Shutdown, grace: Duration) {
        let mut wakeups = self.attempt.store.scheduler().wakeups(&self.namespaces);
        let mut offering = self.attempt.store.offering(&self.namespaces);
        let mut look_at = Instant::now();
        while !shutdown.has_begun() {
            while self.passes.try_join_next().is_some() {}
            // What has ended by now makes room together, so that a busy worker takes many at a time.
            while let Ok(freed) = self.told.try_recv() {
                look_at = self.ended(&freed, look_at);
            }
            let free = self.slots.saturating_sub(self.running + offering.taken());
            if free > 0 && Instant::now() >= look_at {
                wakeups.catch_up();
                // To the end, also at a shutdown: what is being taken is claimed already, perhaps, and is run or handed back.
                let pause = tokio::select! {
                    pause = self.take(free) => pause,
                    () = overdue(shutdown, grace) => break,
                };
                look_at = Instant::now() + pause;
                continue;
            }
            // While the store does not answer, each hint would have it asked again at once, and a start is not claimed ahead of
            // the ends of passes.
            let answers = self.unanswered == 0 && self.attempt.unsettled.load(Ordering::SeqCst) == 0;
            let open = if answers { free } else { 0 };
            tokio::select! {
                () = shutdown.begun() => break,
                given = offering.next(open) => self.run_given(given),
                Some(freed) = self.told.recv() => look_at = self.ended(&freed, look_at),
                () = tokio::time::sleep_until(look_at.into()), if free > 0 => {}
                () = wakeups.next(), if free > 0 && self.unanswered == 0 => look_at = Instant::now(),
            }
        }
        // What is being started is claimed already, perhaps.
        let began = Instant::now();
        let mut overdue = std::pin::pin!(overdue(shutdown, grace));
        while offering.taken() > 0 {
            tokio::select! {
                given = offering.next(0) => self.run_given(given),
                () = overdue.as_mut() => break,
            }
        }
        for gift in offering.close() {
            self.run_given(Some(gift));
        }
        self.drain(shutdown, grace.saturating_sub(began.elapsed())).await;
    }

    /// Runs what was given, if it was.
    fn run_given(&mut self, gift: Option<Gift>) {
        if let Some(gift) = gift {
            self.begin(gift.pass, gift.delivery, Some(gift.noted));
        }
    }

    /// Gives a pass its turn.
    fn begin(&mut self, pass: Pass, delivery: Delivery, noted: Option<Noted>) {
        self.running += 1;
        let slot = Slot::new(self.freed.clone(), noted);
        let turn = Turn { pass, delivery, slot };
        if let Some(turn) = self.attempt.parking.go_on(turn) {
            let attempt = self.attempt.clone();
            self.passes.spawn(async move { attempt.run(turn).await });
        }
    }

    /// A pass has ended. When to look again, now that its workflow may be due.
    fn ended(&mut self, freed: &Freed, look_at: Instant) -> Instant {
        self.running -= 1;
        freed.due.map_or(look_at, |due| due.min(look_at))
    }

    /// Takes what there is room for and gives it its turn. How long to pause before the next time.
    async fn take(&mut self, free: usize) -> Duration {
        let poll = self.attempt.store.scheduler().poll();
        if self.attempt.unsettled.load(Ordering::SeqCst) > 0 {
            // Passes wait for the store to take their end. To take first would count them as left unsettled.
            return PATIENCE.wait(1).unwrap_or(poll);
        }
        let acquired = match self.acquire(free).await {
            Ok(acquired) => acquired,
            Err(error) => {
                self.unanswered += 1;
                tracing::warn!(%error, "nothing could be taken");
                return PATIENCE.wait(self.unanswered).unwrap_or(poll);
            }
        };
        self.unanswered = 0;
        // Another kind stands in front the next time.
        self.namespaces.rotate_left(1);
        let Acquired { passes, next_due } = acquired;
        let found = passes.len();
        for (pass, delivery) in passes {
            self.begin(pass, delivery, None);
        }
        self.pace = if found > 0 { poll / 16 } else { poll.min(self.pace * 2) }.max(poll / 64);
        if found >= free {
            // There is probably more.
            return Duration::ZERO;
        }
        // Due at once but not taken: somebody else's, or held by a pass of ours.
        let soon = next_due.map_or(poll, |due| due.max(Duration::from_millis(1)));
        self.pace.min(soon)
    }

    async fn acquire(&self, limit: usize) -> Result<Acquired> {
        let scheduler = self.attempt.store.scheduler();
        // Nothing to do for stores that score by visibility.
        scheduler.wake_due().await?;
        scheduler.reclaim().await?;
        let known = |workflow: &str| self.attempt.parking.seen(workflow);
        let request = Acquire {
            known: &known,
            ..Acquire::new(&self.namespaces, limit)
        };
        self.attempt.store.acquire(&request).await
    }

    async fn drain(mut self, shutdown: &Shutdown, grace: Duration) {
        self.attempt.parking.close();
        let passes = &mut self.passes;
        tokio::select! {
            () = async { while passes.join_next().await.is_some() {} } => return,
            () = tokio::time::sleep(grace) => {}
            () = shutdown.ended() => return self.passes.shutdown().await,
        }
        // What an effect has done by now is still recorded, and the workflow handed back.
        self.attempt.cut.begin();
        let passes = &mut self.passes;
        let lease = self.attempt.store.scheduler().lease();
        tokio::select! {
            () = async { while passes.join_next().await.is_some() {} } => {}
            () = tokio::time::sleep(lease) => {}
            () = shutdown.ended() => {}
        }
        self.passes.shutdown().await;
    }
}
