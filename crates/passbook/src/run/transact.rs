//! A step whose own SQL commits together with its record.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Patience;
use crate::checkpointer::Begun;
use crate::durable::{Durable, Tx};
use crate::{Checkpointer, Run};

impl<S: Durable> Run<S> {
    /// Runs an effect exactly once: what it writes through the connection and the step's record are one commit.
    ///
    /// The effect may use savepoints and may start or signal workflows through a client that joins the connection. It
    /// must not commit or roll back the transaction itself. An `Err` rolls back and goes to the body; nothing is
    /// recorded. If the process dies before the commit, nothing has happened; after it, everything has. While the effect
    /// runs, a connection of the pool is taken, and on SQLite the file's only write lock.
    ///
    /// At most two statements are added to the effect's own, besides BEGIN and COMMIT.
    pub async fn transact<T, E>(&self, name: &str, effect: impl AsyncFnOnce(&mut Tx<S>) -> Result<T, E>) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
    {
        if let Some(value) = self.enter(name).await {
            return Ok(self.decode(name, &value).await);
        }
        let busy = self.announce(name).await;
        let claim = self.claim();
        let mut patience = Patience::new(self.lease);
        let mut transaction = loop {
            match self.store.checkpointer().begin(&claim, name).await {
                Ok(Begun::Open(transaction)) => break transaction,
                Ok(Begun::Recorded(value)) => return Ok(self.decode(name, &value).await),
                Err(error) => {
                    if let Err(error) = patience.after(error).await {
                        return self.end(error).await;
                    }
                }
            }
        };
        let value = match effect(&mut transaction).await {
            Ok(value) => value,
            Err(error) => {
                return match self.store.checkpointer().rollback(transaction).await {
                    Err(lost) if lost.is_unavailable() => self.end(lost).await,
                    _ => Err(error),
                };
            }
        };
        let value = self.encode(name, &value).await;
        let (store, step) = (self.store.clone(), name.to_owned());
        // Never asked twice: a commit whose outcome is unknown is settled by the next pass, which finds the record or
        // runs the effect again.
        let commit = async move { store.checkpointer().commit(transaction, &claim, &step, &value).await };
        let recorded = self.hand_over(commit).await;
        drop(busy);
        Ok(self.decode(name, &recorded.value).await)
    }
}
