//! The checkpointer half.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::tx::{MemoryTransaction, MemoryTx};
use crate::checkpointer::{Begun, Checkpointer, Claim, Claimed, Life, Record, Recorded};
use crate::{Result, Settlement, Value, check_name};

/// The checkpointer of a [`MemoryStore`](super::MemoryStore).
#[derive(Clone, Debug)]
pub struct MemoryCheckpointer(pub(super) Arc<Shared>);

impl Checkpointer for MemoryCheckpointer {
    type Tx = MemoryTx;
    type Transaction = MemoryTransaction;

    fn lease(&self) -> Duration {
        self.0.options.lease
    }

    async fn load(&self, workflow: &str) -> Result<Vec<Record>> {
        Ok(self.0.lock().load(workflow, None))
    }

    async fn claim(&self, workflow: &str) -> Result<Claimed> {
        check_name("workflow id", workflow)?;
        Ok(self.0.commit(|state, now| state.claim(workflow, now, self.lease())))
    }

    async fn release(&self, claim: &Claim, outcome: &Settlement) -> Result<bool> {
        let released = self.0.commit(|state, now| state.release(claim, outcome, now));
        if released && outcome.is_over() {
            self.0.hints.tell_ended(&claim.workflow);
        }
        Ok(released)
    }

    async fn renew(&self, lives: &[Life]) -> Result<Vec<bool>> {
        Ok(self.0.commit(|state, now| {
            let renewed = lives.iter().map(|life| state.renew(life, now, self.lease()));
            renewed.collect()
        }))
    }

    async fn record(&self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        check_name("step name", step)?;
        self.0
            .commit_when(|state, now| {
                if let Err(fenced) = state.fenced("the record", claim) {
                    return Some(Err(fenced));
                }
                let free = !state.holds.is_reserved(&claim.workflow, step);
                free.then(|| Ok(state.write(&claim.workflow, step, value, now)))
            })
            .await
    }

    async fn supply(&self, workflow: &str, step: &str, value: &Value) -> Result<Recorded> {
        check_name("workflow id", workflow)?;
        check_name("key", step)?;
        let written = self.0.commit_when(|state, now| {
            let free = !state.holds.is_held(workflow);
            free.then(|| state.write(workflow, step, value, now))
        });
        Ok(written.await)
    }

    async fn append(&self, workflow: &str, value: &Value) -> Result<String> {
        check_name("workflow id", workflow)?;
        let filed = self.0.commit_when(|state, now| {
            let free = !state.holds.is_held(workflow);
            free.then(|| state.append(workflow, value, now))
        });
        Ok(filed.await)
    }

    async fn begin(&self, claim: &Claim, step: &str) -> Result<Begun<MemoryTransaction>> {
        check_name("step name", step)?;
        let recorded = self.0.commit(|state, _| {
            state.fenced("a transaction", claim)?;
            Ok(state.value(&claim.workflow, step).cloned())
        })?;
        Ok(match recorded {
            Some(value) => Begun::Recorded(value),
            None => Begun::Open(MemoryTransaction::open(self.0.clone())),
        })
    }

    async fn commit(
        &self,
        transaction: MemoryTransaction,
        claim: &Claim,
        step: &str,
        value: &Value,
    ) -> Result<Recorded> {
        transaction.check_store(&self.0)?;
        transaction.commit_step(claim, step, value).await
    }

    async fn cancel(&self, workflow: &str) -> Result<bool> {
        let cancelled = self.0.commit(|state, now| state.cancel(workflow, now));
        if cancelled {
            self.0.hints.tell_ended(workflow);
        }
        Ok(cancelled)
    }

    async fn reopen(&self, workflow: &str) -> Result<bool> {
        Ok(self.0.commit(|state, _| state.reopen(workflow)))
    }

    async fn discard(&self, workflow: &str) -> Result<u64> {
        let discarded = self.0.commit_when(|state, now| {
            let free = !state.holds.is_held(workflow);
            free.then(|| state.discard(workflow, now))
        });
        Ok(discarded.await)
    }
}
