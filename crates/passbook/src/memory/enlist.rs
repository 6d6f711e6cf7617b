//! Sending from inside a transaction of the caller's own.

use super::MemoryStore;
use super::durable::check;
use super::tx::MemoryTx;
use crate::durable::Enlist;
use crate::{INPUT, Recorded, Result, Value, check_name};

/// The transaction must be of this store: refused as invalid otherwise.
///
/// It holds each workflow that it sends to until it ends, as it would in a database. Whoever else sends to that workflow
/// or deletes it waits meanwhile, so do not await such a call before the commit, in the task that holds the transaction. Of
/// two transactions that wait for each other, one is refused as unavailable. Takes, passes and all other workflows go on.
impl Enlist for MemoryStore {
    async fn start_in(&self, tx: &mut MemoryTx, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        check(namespace, workflow)?;
        tx.check_store(self.shared())?;
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
        tx.check_store(self.shared())?;
        tx.send(namespace, workflow, key, value).await
    }

    async fn deliver_in(&self, tx: &mut MemoryTx, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        check(namespace, workflow)?;
        tx.check_store(self.shared())?;
        tx.deliver(namespace, workflow, value).await
    }
}
