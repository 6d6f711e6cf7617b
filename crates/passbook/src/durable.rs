//! The pair of checkpointer and scheduler, and the transitions that cross both.

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use crate::checkpointer::{Checkpointer, Claimed, Granted, Life, Record, Recorded};
use crate::scheduler::{Delivery, Scheduler};
use crate::time::StoreTime;
use crate::{Claim, Error, INPUT, Offering, RESULT, Result, Timestamp, Value};

/// What a `transact` effect writes through in the store `S`, e.g. a database connection.
pub type Tx<S> = <<S as Durable>::Checkpointer as Checkpointer>::Tx;

/// The right to run one pass, with everything that the pass needs to know.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The claim under which it runs.
    pub claim: Claim,
    /// The checkpoint, in first-recorded order, read after the claim was granted.
    pub records: Vec<Record>,
    /// When only the records after this place in the order of first writes were read, because the caller of
    /// [`Durable::acquire`] knew the others.
    pub since: Option<i64>,
    /// The store's time.
    pub time: StoreTime,
    /// How long one sign of life is good for.
    pub lease: Duration,
    /// Failed passes since the last one that got somewhere.
    pub attempts: u32,
    /// The step that was running when the last claim was left unsettled, where that is known.
    pub interrupted: Option<String>,
}

/// What a worker asks for.
#[derive(Clone, Copy)]
pub struct Acquire<'a> {
    /// The kinds it can run, the one to be served first in front.
    pub namespaces: &'a [String],
    /// How many passes it has room for.
    pub limit: usize,
    /// Of a workflow whose records it knows up to some place in their order, that place ([`Settled::Quiet`]): then the
    /// store may read only what came after. `None` for all others.
    pub known: &'a (dyn Fn(&str) -> Option<i64> + Sync),
}

impl<'a> Acquire<'a> {
    /// Asks for whole checkpoints.
    pub fn new(namespaces: &'a [String], limit: usize) -> Self {
        Self {
            namespaces,
            limit,
            known: &|_| None,
        }
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("namespaces", &self.namespaces)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// What a worker got.
#[derive(Debug, Default)]
pub struct Acquired {
    /// Passes to run, each with the delivery that it answers for.
    pub passes: Vec<(Pass, Delivery)>,
    /// How long until the next workflow is due, when fewer passes were found than asked for.
    pub next_due: Option<Duration>,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The workflow is over.
    Completed {
        /// What the body returned.
        result: Value,
    },
    /// The workflow goes on later.
    Suspended {
        /// The earliest deadline.
        wake_at: Option<Timestamp>,
        /// The keys it waits for; [`crate::INBOX`] stands for the next value of the inbox.
        waits_for: Vec<String>,
    },
    /// The pass failed.
    Failed {
        /// The message.
        error: String,
        /// When to try again; `None` parks the workflow as failed.
        retry_at: Option<Timestamp>,
    },
    /// The pass was put down before it got anywhere, e.g. by a shutdown: the workflow is ready again now, and it does
    /// not count as an attempt.
    HandedBack,
}

impl Settlement {
    /// Whether nothing will run after it unless somebody asks for it.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Failed { retry_at: None, .. })
    }
}

/// What became of the end of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The claim was lost: nothing was written.
    Lost,
    /// Written, and nothing had come since the delivery was taken.
    Quiet {
        /// The pass knew every record up to this place in the order of first writes: those that it was given, and its own.
        seen: i64,
    },
    /// Written, and the workflow is due again now: a wakeup came since the delivery was taken, or a value that the pass
    /// waits for, or the store cannot tell.
    Woken,
}

impl Settled {
    /// Whether the pass still held its workflow, so that its end was written.
    pub fn is_held(self) -> bool {
        self != Self::Lost
    }
}

/// The pair, and what crosses both.
///
/// A caller never holds half a transition. Each has a default that is built from the halves, ordered so that the crash
/// window between them holds the failure that asking again repairs; a store that is one datastore makes it one commit.
pub trait Durable: Clone + Send + Sync + 'static {
    /// What was done, and who may write it.
    type Checkpointer: Checkpointer;
    /// The right to run.
    type Scheduler: Scheduler;

    /// The first half.
    fn checkpointer(&self) -> &Self::Checkpointer;

    /// The second half.
    fn scheduler(&self) -> &Self::Scheduler;

    /// Records the input and makes the workflow ready, in one commit. The first start fixes the kind: a start of the
    /// same id under another namespace is refused as of the wrong kind. A later start of the same kind changes
    /// nothing and returns the input that is there.
    fn start(&self, namespace: &str, workflow: &str, input: &Value) -> impl Future<Output = Result<Recorded>> + Send {
        self.arrive(namespace, workflow, INPUT, input)
    }

    /// Records a value from outside and makes the workflow ready, in one commit. First writer wins, and the loser is
    /// told. A workflow that is completed, failed or cancelled keeps the value and is not made ready.
    ///
    /// A workflow that was not started yet may be sent to: it runs once its input is there.
    fn arrive(
        &self,
        namespace: &str,
        workflow: &str,
        key: &str,
        value: &Value,
    ) -> impl Future<Output = Result<Recorded>> + Send {
        async move {
            // The record first: a crash in between leaves a value without a wakeup, and the caller, who saw the
            // failure, asks again.
            let recorded = self.checkpointer().supply(workflow, key, value).await?;
            self.scheduler().make_ready(namespace, workflow).await?;
            Ok(recorded)
        }
    }

    /// Files a value in the inbox and makes the workflow ready, in one commit. Returns the key.
    ///
    /// Asking again after a failure whose outcome is unknown may file the value twice; `arrive` under a key of the
    /// caller's own does not.
    fn deliver(&self, namespace: &str, workflow: &str, value: &Value) -> impl Future<Output = Result<String>> + Send {
        async move {
            let key = self.checkpointer().append(workflow, value).await?;
            self.scheduler().make_ready(namespace, workflow).await?;
            Ok(key)
        }
    }

    /// Cancels the workflow and takes it out of the queue, in one commit. False when it was over already or never seen.
    fn cancel(&self, namespace: &str, workflow: &str) -> impl Future<Output = Result<bool>> + Send {
        async move {
            let cancelled = self.checkpointer().cancel(workflow).await?;
            self.scheduler().cancel(namespace, workflow).await?;
            Ok(cancelled)
        }
    }

    /// Makes a failed or cancelled workflow go on from its checkpoint, in one commit. False when it is neither.
    fn reopen(&self, namespace: &str, workflow: &str) -> impl Future<Output = Result<bool>> + Send {
        async move {
            let reopened = self.checkpointer().reopen(workflow).await?;
            // Also when it was open already: the crash window of this default is a reopened workflow without a wakeup.
            self.scheduler().make_ready(namespace, workflow).await?;
            Ok(reopened)
        }
    }

    /// Takes the workflow out of the queue and removes its records, in one commit, and returns how many there were. A
    /// running pass loses its claim.
    fn delete(&self, namespace: &str, workflow: &str) -> impl Future<Output = Result<u64>> + Send {
        async move {
            // Cancel first: a crash in between leaves records without a wakeup, and asking again removes them.
            self.scheduler().cancel(namespace, workflow).await?;
            self.checkpointer().discard(workflow).await
        }
    }

    /// Takes up to `limit` deliveries, claims their workflows, and loads the checkpoints after the claims were granted.
    ///
    /// A delivery whose workflow somebody holds stays hidden until that pass settles or its lease runs out; a delivery
    /// whose workflow is over is answered for.
    fn acquire(&self, request: &Acquire<'_>) -> impl Future<Output = Result<Acquired>> + Send {
        async move {
            let deliveries = self.scheduler().next_ready(request.namespaces, request.limit).await?;
            let mut acquired = Acquired::default();
            if deliveries.len() < request.limit {
                acquired.next_due = self.scheduler().next_due(request.namespaces).await?;
            }
            for delivery in deliveries {
                match self.checkpointer().claim(&delivery.workflow).await? {
                    Claimed::Granted(Granted {
                        claim,
                        attempts,
                        interrupted,
                    }) => {
                        let records = self.checkpointer().load(&claim.workflow).await?;
                        let asked = Instant::now();
                        let pass = Pass {
                            claim,
                            records,
                            since: None,
                            time: StoreTime::new(asked, self.scheduler().now().await?, self.scheduler().clock()),
                            lease: self.scheduler().lease(),
                            attempts,
                            interrupted,
                        };
                        acquired.passes.push((pass, delivery));
                    }
                    // Its pass will find that the receipt has changed, and leave the workflow ready.
                    Claimed::Held => {}
                    Claimed::Over => self.scheduler().done(&delivery).await?,
                }
            }
            Ok(acquired)
        }
    }

    /// What a worker of these namespaces offers to the starts of its own process. A store whose [`start`](Durable::start) can
    /// claim in the same commit returns that of its [`Hints`](crate::Hints::offering); with others nothing is offered.
    fn offering(&self, _namespaces: &[String]) -> Offering {
        Offering::none()
    }

    /// Renews claims and deliveries together. For each, the delivery under its new receipt and whether the pass still
    /// holds the workflow.
    fn renew(&self, held: &[(Life, Delivery)]) -> impl Future<Output = Result<Vec<Renewed>>> + Send {
        async move {
            let lives: Vec<Life> = held.iter().map(|(life, _)| life.clone()).collect();
            let alive = self.checkpointer().renew(&lives).await?;
            let deliveries: Vec<Delivery> = held.iter().map(|(_, delivery)| delivery.clone()).collect();
            let extended = self.scheduler().extend(&deliveries).await?;
            Ok(alive
                .into_iter()
                .zip(deliveries)
                .map(|(alive, old)| Renewed {
                    alive,
                    delivery: extended
                        .iter()
                        .find(|new| new.namespace == old.namespace && new.workflow == old.workflow)
                        .cloned()
                        .unwrap_or(old),
                })
                .collect())
        }
    }

    /// The pass's end in one commit: the result or the wait, the release of the claim, the answer to the delivery. A
    /// wakeup that came after the delivery was taken leaves the workflow ready now, and so does a value that the pass waits
    /// for and has not seen. Nothing is written when the claim was lost.
    fn settle(
        &self,
        claim: &Claim,
        delivery: &Delivery,
        outcome: &Settlement,
    ) -> impl Future<Output = Result<Settled>> + Send {
        async move {
            if let Settlement::Completed { result } = outcome {
                match self.checkpointer().record(claim, RESULT, result).await {
                    Ok(_) => {}
                    Err(error) if error.is_fenced() => return Ok(Settled::Lost),
                    Err(error) => return Err(error),
                }
            }
            // The claim before the queue: a crash in between leaves a delivery whose lease runs out, and the next pass
            // settles again.
            if !self.checkpointer().release(claim, outcome).await? {
                return Ok(Settled::Lost);
            }
            match outcome {
                Settlement::Suspended {
                    wake_at: Some(when), ..
                }
                | Settlement::Failed {
                    retry_at: Some(when), ..
                } => self.scheduler().wake_at(delivery, *when).await?,
                Settlement::HandedBack => {
                    self.scheduler()
                        .wake_at(delivery, self.scheduler().now().await?)
                        .await?;
                }
                Settlement::Completed { .. } | Settlement::Suspended { .. } | Settlement::Failed { .. } => {
                    self.scheduler().done(delivery).await?;
                }
            }
            // Whether something came meanwhile, the two halves cannot tell together.
            Ok(Settled::Woken)
        }
    }
}

/// What became of one pass's sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Whether the pass still holds the workflow.
    pub alive: bool,
    /// The delivery under its new receipt; as it was when a later wakeup has changed it.
    pub delivery: Delivery,
}

/// A store that can take part in a transaction of the caller's own.
///
/// Nothing is visible before the caller commits, nothing remains when the caller rolls back.
pub trait Enlist: Durable {
    /// [`Durable::start`] inside the caller's transaction.
    fn start_in(
        &self,
        tx: &mut Tx<Self>,
        namespace: &str,
        workflow: &str,
        input: &Value,
    ) -> impl Future<Output = Result<Recorded>> + Send;

    /// [`Durable::arrive`] inside the caller's transaction.
    fn arrive_in(
        &self,
        tx: &mut Tx<Self>,
        namespace: &str,
        workflow: &str,
        key: &str,
        value: &Value,
    ) -> impl Future<Output = Result<Recorded>> + Send;

    /// [`Durable::deliver`] inside the caller's transaction.
    fn deliver_in(
        &self,
        tx: &mut Tx<Self>,
        namespace: &str,
        workflow: &str,
        value: &Value,
    ) -> impl Future<Output = Result<String>> + Send;

    /// Tells idle workers that the transaction has committed. Only a hint, for a store that cannot see the commit by itself:
    /// without it the workflow is found by the poll.
    fn committed(&self) {}
}

/// Refuses a name that no store keeps: empty, over [`crate::MAX_NAME_BYTES`], or with a NUL in it. `what` says what it
/// names, e.g. "workflow id".
pub fn check_name(what: &str, name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > crate::MAX_NAME_BYTES {
        format!(
            "has {} bytes, and the limit is {}; use a shorter one, e.g. a hash of it",
            name.len(),
            crate::MAX_NAME_BYTES
        )
    } else if let Some(at) = name.find('\0') {
        format!("has a NUL at byte {at}, which Postgres cannot keep; remove it")
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(60).collect();
    let dots = if shown.len() < name.len() { "…" } else { "" };
    Err(Error::refused(format!(
        "the {what} `{}{dots}` {why}",
        shown.escape_debug()
    )))
}
