//! The checkpointer half.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::state::State;
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
        self.0.lease
    }

    async fn load(&self, workflow: &str) -> Result<Vec<Record>> {
        Ok(self.0.lock().load(workflow))
    }

    async fn claim(&self, workflow: &str) -> Result<Claimed> {
        check_name("workflow id", workflow)?;
        Ok(self.0.lock().claim(workflow, self.0.now(), self.0.lease))
    }

    async fn release(&self, claim: &Claim, outcome: &Settlement) -> Result<bool> {
        Ok(self.0.lock().release(claim, outcome, self.0.now()))
    }

    async fn renew(&self, lives: &[Life]) -> Result<Vec<bool>> {
        let mut state = self.0.lock();
        let renewed = lives
            .iter()
            .map(|life| state.renew(&life.claim, life.running.as_deref(), self.0.now(), self.0.lease));
        Ok(renewed.collect())
    }

    async fn record(&self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        check_name("step name", step)?;
        let mut state = self.0.lock();
        state.fenced("the record", claim)?;
        Ok(state.write(&claim.workflow, step, value, self.0.now()))
    }

    async fn supply(&self, workflow: &str, step: &str, value: &Value) -> Result<Recorded> {
        check_name("workflow id", workflow)?;
        check_name("key", step)?;
        let now = self.0.now();
        let supply = |state: &mut State| state.write(workflow, step, value, now);
        Ok(self.0.speak(workflow, None, supply).await)
    }

    async fn append(&self, workflow: &str, value: &Value) -> Result<String> {
        check_name("workflow id", workflow)?;
        let now = self.0.now();
        let append = |state: &mut State| state.append(workflow, value, now);
        Ok(self.0.speak(workflow, None, append).await)
    }

    async fn begin(&self, claim: &Claim, step: &str) -> Result<Begun<MemoryTransaction>> {
        check_name("step name", step)?;
        let recorded = {
            let state = self.0.lock();
            state.fenced("a transaction", claim)?;
            state.value(&claim.workflow, step).cloned()
        };
        Ok(match recorded {
            Some(value) => Begun::Recorded(value),
            None => Begun::Open(MemoryTransaction::new(self.0.clone())),
        })
    }

    async fn commit(
        &self,
        transaction: MemoryTransaction,
        claim: &Claim,
        step: &str,
        value: &Value,
    ) -> Result<Recorded> {
        transaction.commit_step(claim, step, value)
    }

    async fn cancel(&self, workflow: &str) -> Result<bool> {
        Ok(self.0.lock().cancel(workflow, self.0.now()))
    }

    async fn reopen(&self, workflow: &str) -> Result<bool> {
        Ok(self.0.lock().reopen(workflow))
    }

    async fn discard(&self, workflow: &str) -> Result<u64> {
        Ok(self.0.lock().discard(workflow, self.0.now()))
    }
}
