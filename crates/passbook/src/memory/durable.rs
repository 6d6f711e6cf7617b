//! The pair: every transition under one lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tx::MemoryTransaction;
use super::{MemoryCheckpointer, MemoryOptions, MemoryScheduler, Shared};
use crate::checkpointer::{Claim, Claimed, Granted, INPUT, Life, RESULT, Recorded};
use crate::durable::{Acquire, Acquired, Durable, Pass, Renewed, Settled, Settlement};
use crate::{Clock, Delivery, Result, StoreTime, Value, check_name};

/// A store that is memory. Complete, and gone with the process.
///
/// It holds text like the others and refuses the same values and names, so a workflow cannot tell the difference. Clones
/// are handles on the same store.
///
/// ```
/// use passbook::{Durable, MemoryStore, Value};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let first = store.start("payout", "order-17", &Value::encode(&4_200)?).await?;
/// let again = store.start("payout", "order-17", &Value::encode(&9_900)?).await?;
/// assert!(first.first && !again.first);
/// assert_eq!(again.value.decode::<u32>()?, 4_200);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore {
    checkpointer: MemoryCheckpointer,
    scheduler: MemoryScheduler,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// A store with a lease of 30 seconds and a poll of 50 milliseconds, on the machine's clock.
    pub fn new() -> Self {
        Self::over(Shared::new(MemoryOptions::default()))
    }

    /// Sets a store up otherwise than [`MemoryStore::new`] does.
    pub fn options() -> MemoryOptions {
        MemoryOptions::default()
    }

    /// A store with a lease and a clock of the caller's choosing. Refused when the lease is zero.
    pub fn with(lease: Duration, clock: Clock) -> Result<Self> {
        Self::options().lease(lease).clock(clock).open()
    }

    pub(super) fn over(shared: Arc<Shared>) -> Self {
        Self {
            checkpointer: MemoryCheckpointer(shared.clone()),
            scheduler: MemoryScheduler(shared),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.checkpointer.0
    }

    /// Opens a transaction of the caller's own, for [`Enlist`](crate::Enlist) and for rows.
    ///
    /// ```
    /// use passbook::{Enlist, MemoryStore, Value};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::new();
    /// let mut tx = store.begin_tx();
    /// tx.put("orders", "17", Value::encode("2 books")?);
    /// store.start_in(&mut tx, "payout", "order-17", &Value::encode(&4_200)?).await?;
    /// assert!(store.rows("orders").is_empty());
    /// tx.commit()?;
    /// assert_eq!(store.rows("orders").len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn begin_tx(&self) -> MemoryTransaction {
        MemoryTransaction::open(self.shared().clone())
    }

    /// The committed rows of a table that effects write to, in the order of their keys.
    pub fn rows(&self, table: &str) -> Vec<(String, Value)> {
        let state = self.shared().lock();
        let rows = state.rows.get(table).into_iter().flatten();
        rows.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl Durable for MemoryStore {
    type Checkpointer = MemoryCheckpointer;
    type Scheduler = MemoryScheduler;

    fn checkpointer(&self) -> &MemoryCheckpointer {
        &self.checkpointer
    }

    fn scheduler(&self) -> &MemoryScheduler {
        &self.scheduler
    }

    async fn start(&self, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        check(namespace, workflow)?;
        let started = self.shared().commit_when(|state, now| {
            let free = !state.holds.is_held(workflow);
            free.then(|| state.start(namespace, workflow, input, now))
        });
        let recorded = started.await?;
        self.shared().hints.tell_ready(Some(namespace));
        Ok(recorded)
    }

    async fn arrive(&self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        if key == INPUT {
            // Whoever records the input starts the workflow, and so fixes its kind.
            return self.start(namespace, workflow, value).await;
        }
        check(namespace, workflow)?;
        check_name("key", key)?;
        let arrived = self.shared().commit_when(|state, now| {
            let free = !state.holds.is_held(workflow);
            free.then(|| {
                state.check_kind(namespace, workflow)?;
                let recorded = state.write(workflow, key, value, now);
                state.wake(namespace, workflow, now);
                Ok(recorded)
            })
        });
        let recorded = arrived.await?;
        self.shared().hints.tell_ready(Some(namespace));
        Ok(recorded)
    }

    async fn deliver(&self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        check(namespace, workflow)?;
        let delivered = self.shared().commit_when(|state, now| {
            let free = !state.holds.is_held(workflow);
            free.then(|| {
                state.check_kind(namespace, workflow)?;
                let key = state.append(workflow, value, now);
                state.wake(namespace, workflow, now);
                Ok(key)
            })
        });
        let key = delivered.await?;
        self.shared().hints.tell_ready(Some(namespace));
        Ok(key)
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let cancelled = self.shared().commit(|state, now| {
            let cancelled = state.cancel(workflow, now);
            if cancelled {
                state.queue.remove(namespace, workflow);
            }
            cancelled
        });
        if cancelled {
            self.shared().hints.tell_ended(workflow);
        }
        Ok(cancelled)
    }

    async fn reopen(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let reopened = self.shared().commit(|state, now| {
            let reopened = state.reopen(workflow);
            if reopened {
                state.queue.make_ready(namespace, workflow, now);
            }
            reopened
        });
        self.shared().hints.tell_ready(Some(namespace));
        Ok(reopened)
    }

    async fn delete(&self, namespace: &str, workflow: &str) -> Result<u64> {
        let deleted = self.shared().commit_when(|state, now| {
            let free = !state.holds.is_held(workflow);
            free.then(|| {
                state.queue.remove(namespace, workflow);
                state.discard(workflow, now)
            })
        });
        Ok(deleted.await)
    }

    async fn acquire(&self, request: &Acquire<'_>) -> Result<Acquired> {
        let MemoryOptions { lease, clock, .. } = &self.shared().options;
        let asked = Instant::now();
        Ok(self.shared().commit(|state, now| {
            let mut acquired = Acquired::default();
            for delivery in state.queue.take(request.namespaces, request.limit, now, *lease) {
                if state.check_kind(&delivery.namespace, &delivery.workflow).is_err() {
                    // Something was sent as to another kind before the start told which kind it is.
                    state.queue.answer(&delivery, None, now);
                    continue;
                }
                match state.acquire(&delivery, now, *lease) {
                    Claimed::Granted(Granted {
                        claim,
                        attempts,
                        interrupted,
                    }) => {
                        let since = (request.known)(&claim.workflow);
                        let pass = Pass {
                            records: state.load(&claim.workflow, since),
                            since,
                            claim,
                            time: StoreTime::new(asked, now, clock),
                            lease: *lease,
                            attempts,
                            interrupted,
                        };
                        acquired.passes.push((pass, delivery));
                    }
                    // Its pass will find that the receipt has changed, and leave the workflow ready.
                    Claimed::Held => {}
                    Claimed::Over => {
                        state.queue.answer(&delivery, None, now);
                    }
                }
            }
            if acquired.passes.len() < request.limit {
                acquired.next_due = state.queue.next_due(request.namespaces, now);
            }
            acquired
        }))
    }

    async fn renew(&self, held: &[(Life, Delivery)]) -> Result<Vec<Renewed>> {
        let lease = self.shared().options.lease;
        Ok(self.shared().commit(|state, now| {
            let renewed = held.iter().map(|(life, delivery)| Renewed {
                alive: state.renew(life, now, lease),
                delivery: state
                    .queue
                    .extend(delivery, now, lease)
                    .unwrap_or_else(|| delivery.clone()),
            });
            renewed.collect()
        }))
    }

    async fn settle(&self, claim: &Claim, delivery: &Delivery, outcome: &Settlement) -> Result<Settled> {
        let asked = Instant::now();
        let settled = self.shared().commit_when(|state, now| {
            let completed = matches!(outcome, Settlement::Completed { .. });
            if completed && state.holds.is_reserved(&claim.workflow, RESULT) {
                return None;
            }
            if !state.release(claim, outcome, now) {
                return Some((Settled::Lost, false));
            }
            let mut recorded = false;
            let when = match outcome {
                Settlement::Completed { result } => {
                    recorded = state.write(&claim.workflow, RESULT, result, now).first;
                    None
                }
                Settlement::Suspended { waits_for, .. } if state.has_any(&claim.workflow, waits_for) => Some(now),
                Settlement::Suspended { wake_at, .. } => *wake_at,
                Settlement::Failed { retry_at, .. } => *retry_at,
                Settlement::HandedBack => Some(now),
            };
            state.queue.answer(delivery, when, now);
            let due = state.queue.get(&delivery.namespace, &delivery.workflow);
            let settled = if due.is_some_and(|due| due <= now) {
                Settled::Woken
            } else {
                let seen = state.last_seq(&claim.workflow);
                Settled::Quiet { seen }
            };
            Some((settled, recorded))
        });
        let (settled, recorded) = settled.await;
        if settled.is_held() {
            let hints = &self.shared().hints;
            hints.tell_settled(asked, &claim.workflow, outcome, recorded);
        }
        Ok(settled)
    }
}

pub(super) fn check(namespace: &str, workflow: &str) -> Result<()> {
    check_name("namespace", namespace)?;
    check_name("workflow id", workflow)
}
