//! The pair: every transition under one lock.

use std::sync::Arc;
use std::time::Duration;

use super::state::State;
use super::tx::{MemoryTransaction, MemoryTx};
use super::{MemoryCheckpointer, MemoryScheduler, Shared};
use crate::checkpointer::{Claim, Claimed, Granted, INPUT, RESULT, Recorded};
use crate::durable::{Acquire, Acquired, Durable, Enlist, Pass, Settlement};
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
    const LEASE: Duration = Duration::from_secs(30);
    const POLL: Duration = Duration::from_millis(50);

    /// A store with a lease of 30 s and a poll of 50 ms, on the machine's clock.
    pub fn new() -> Self {
        Self::over(Arc::new(Shared {
            state: std::sync::Mutex::default(),
            ready: tokio::sync::Notify::new(),
            ended: tokio::sync::Notify::new(),
            lease: Self::LEASE,
            poll: Self::POLL,
            clock: Clock::store(),
        }))
    }

    /// A store with a lease and a clock of the caller's choosing. Refused when the lease is zero.
    pub fn with(lease: Duration, clock: Clock) -> Result<Self> {
        Ok(Self::over(Shared::new(lease, Self::POLL, clock)?))
    }

    fn over(shared: Arc<Shared>) -> Self {
        Self {
            checkpointer: MemoryCheckpointer(shared.clone()),
            scheduler: MemoryScheduler(shared),
        }
    }

    fn shared(&self) -> &Shared {
        &self.checkpointer.0
    }

    /// Opens a transaction of the caller's own.
    pub fn begin_tx(&self) -> MemoryTransaction {
        MemoryTransaction::new(self.checkpointer.0.clone())
    }

    /// The committed rows of a table that effects write to, by key.
    pub fn rows(&self, table: &str) -> Vec<(String, Value)> {
        let state = self.shared().lock();
        let rows = state.rows.iter().filter(|((of, _), _)| of == table);
        rows.map(|((_, key), value)| (key.clone(), value.clone())).collect()
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
        let (shared, now) = (self.shared(), self.shared().now());
        let start = |state: &mut State| state.start(namespace, workflow, input, now);
        let recorded = shared.speak(workflow, None, start).await?;
        shared.ready.notify_one();
        Ok(recorded)
    }

    async fn arrive(&self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        check(namespace, workflow)?;
        check_name("key", key)?;
        let (shared, now) = (self.shared(), self.shared().now());
        let arrive = |state: &mut State| {
            state.check_kind(namespace, workflow)?;
            let recorded = state.write(workflow, key, value, now);
            state.wake(namespace, workflow, now);
            Ok(recorded)
        };
        let recorded = shared.speak(workflow, None, arrive).await?;
        shared.ready.notify_one();
        Ok(recorded)
    }

    async fn deliver(&self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        check(namespace, workflow)?;
        let (shared, now) = (self.shared(), self.shared().now());
        let deliver = |state: &mut State| {
            state.check_kind(namespace, workflow)?;
            let key = state.append(workflow, value, now);
            state.wake(namespace, workflow, now);
            Ok(key)
        };
        let key = shared.speak(workflow, None, deliver).await?;
        shared.ready.notify_one();
        Ok(key)
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let shared = self.shared();
        let mut state = shared.lock();
        let cancelled = state.cancel(workflow, shared.now());
        if cancelled {
            state.dequeue(namespace, workflow);
        }
        Ok(cancelled)
    }

    async fn reopen(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let (shared, now) = (self.shared(), self.shared().now());
        let reopened = {
            let mut state = shared.lock();
            let reopened = state.reopen(workflow);
            if reopened {
                state.make_ready(namespace, workflow, now);
            }
            reopened
        };
        shared.ready.notify_one();
        Ok(reopened)
    }

    async fn delete(&self, namespace: &str, workflow: &str) -> Result<u64> {
        let shared = self.shared();
        let mut state = shared.lock();
        state.dequeue(namespace, workflow);
        Ok(state.discard(workflow, shared.now()))
    }

    async fn acquire(&self, request: &Acquire<'_>) -> Result<Acquired> {
        let (shared, now) = (self.shared(), self.shared().now());
        let mut state = shared.lock();
        let deliveries = state.next_ready(request.namespaces, request.limit, now, shared.lease);
        let mut acquired = Acquired::default();
        if deliveries.len() < request.limit {
            acquired.next_due = state.next_due(request.namespaces, now);
        }
        for delivery in deliveries {
            if state.check_kind(&delivery.namespace, &delivery.workflow).is_err() {
                // Something was sent as to another kind before the start told which kind it is.
                state.answer(&delivery, None, now);
                continue;
            }
            match state.claim(&delivery.workflow, now, shared.lease) {
                Claimed::Granted(Granted {
                    claim,
                    attempts,
                    interrupted,
                }) => {
                    let pass = Pass {
                        records: state.load(&claim.workflow),
                        claim,
                        time: StoreTime::new(now, &shared.clock),
                        lease: shared.lease,
                        attempts,
                        interrupted,
                    };
                    acquired.passes.push((pass, delivery));
                }
                Claimed::Held => {}
                Claimed::Over => state.answer(&delivery, None, now),
            }
        }
        Ok(acquired)
    }

    async fn settle(&self, claim: &Claim, delivery: &Delivery, outcome: &Settlement) -> Result<bool> {
        let (shared, now) = (self.shared(), self.shared().now());
        {
            let mut state = shared.lock();
            if !state.release(claim, outcome, now) {
                return Ok(false);
            }
            let when = match outcome {
                Settlement::Completed { result } => {
                    state.write(&claim.workflow, RESULT, result, now);
                    None
                }
                Settlement::Suspended { wake_at, .. } => *wake_at,
                Settlement::Failed { retry_at, .. } => *retry_at,
                Settlement::HandedBack => Some(now),
            };
            state.answer(delivery, when, now);
        }
        shared.ready.notify_one();
        Ok(true)
    }
}

impl Enlist for MemoryStore {
    async fn start_in(&self, tx: &mut MemoryTx, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        check(namespace, workflow)?;
        tx.send(namespace, workflow, INPUT, input).await
    }

    async fn arrive_in(
        &self,
        tx: &mut MemoryTx,
        namespace: &str,
        workflow: &str,
        key: &str,
        value: &Value,
    ) -> Result<Recorded> {
        check(namespace, workflow)?;
        check_name("key", key)?;
        tx.send(namespace, workflow, key, value).await
    }

    async fn deliver_in(&self, tx: &mut MemoryTx, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        check(namespace, workflow)?;
        tx.deliver(namespace, workflow, value).await
    }
}

fn check(namespace: &str, workflow: &str) -> Result<()> {
    check_name("namespace", namespace)?;
    check_name("workflow id", workflow)
}
