//! Starts workflows, sends to them, and asks what became of them.

mod kind;
mod waiters;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use kind::{Ended, Kind, Sent};

use crate::durable::{Durable, Enlist, Tx};
use crate::{Checkpointer, Error, Inspect, Record, Result, Status, Workflow};
use waiters::Waiters;

/// The way in from outside. Cheap to clone; clones share what they wait for.
///
/// Each call is one statement and one commit, unless it says otherwise, and returns when that commit did.
#[derive(Clone, Debug)]
pub struct Client<S> {
    store: S,
    waiters: Waiters,
}

impl<S: Durable + Inspect> Client<S> {
    /// A client of this store.
    pub fn new(store: S) -> Self {
        Self {
            store,
            waiters: Waiters::default(),
        }
    }

    /// The client of one kind of workflow, by the name of the kind.
    pub fn kind<'a>(&'a self, namespace: &'a str) -> Kind<'a, S> {
        Kind::new(self, namespace)
    }

    /// Starts a workflow under an id of the caller's choosing. Starting twice is harmless: the second changes nothing
    /// and says that it was not the first.
    pub async fn start<W: Workflow<S>>(&self, workflow: &str, input: &W::Input) -> Result<Sent> {
        self.kind(W::NAME).start(workflow, input).await
    }

    /// [`start`](Client::start) inside the caller's own transaction.
    pub async fn start_in<W: Workflow<S>>(&self, tx: &mut Tx<S>, workflow: &str, input: &W::Input) -> Result<Sent>
    where
        S: Enlist,
    {
        self.kind(W::NAME).start_in(tx, workflow, input).await
    }

    /// Gives a workflow the value that it awaits under a key, now or later. The first writer wins, and the answer says
    /// who that was. A step's name is a key like any other.
    pub async fn arrive<W: Workflow<S>>(
        &self,
        workflow: &str,
        key: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<Sent> {
        self.kind(W::NAME).arrive(workflow, key, value).await
    }

    /// [`arrive`](Client::arrive) inside the caller's own transaction.
    pub async fn arrive_in<W: Workflow<S>>(
        &self,
        tx: &mut Tx<S>,
        workflow: &str,
        key: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<Sent>
    where
        S: Enlist,
    {
        self.kind(W::NAME).arrive_in(tx, workflow, key, value).await
    }

    /// Puts a value into a workflow's inbox.
    pub async fn deliver<W: Workflow<S>>(&self, workflow: &str, value: &(impl Serialize + ?Sized)) -> Result<()> {
        self.kind(W::NAME).deliver(workflow, value).await
    }

    /// [`deliver`](Client::deliver) inside the caller's own transaction.
    pub async fn deliver_in<W: Workflow<S>>(
        &self,
        tx: &mut Tx<S>,
        workflow: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<()>
    where
        S: Enlist,
    {
        self.kind(W::NAME).deliver_in(tx, workflow, value).await
    }

    /// Tells idle workers that a transaction of the caller's own, in which something was started or sent, has committed.
    /// Only a hint, and no call to the database: without it, the workflow is found by the store's poll. On SQLite and in
    /// memory the store sees such a commit by itself.
    pub fn committed(&self)
    where
        S: Enlist,
    {
        self.store.committed();
    }

    /// Waits until the workflow is over, also for one that is not started yet, and returns how it ended. All the
    /// waiters of a client share one statement.
    pub async fn result<W: Workflow<S>>(&self, workflow: &str) -> Result<Ended<W::Output>>
    where
        W::Output: DeserializeOwned,
    {
        self.kind(W::NAME).result(workflow).await
    }

    /// Where a workflow stands; `None` for one that nobody has written of.
    pub async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        self.store.status(workflow).await
    }

    /// What a workflow has done: its records in first-recorded order, each with the time of its winning write.
    pub async fn history(&self, workflow: &str) -> Result<Vec<Record>> {
        self.store.checkpointer().load(workflow).await
    }

    /// Cancels a workflow: a running pass can write nothing more, and no further one begins. False when it was over
    /// already. Two statements.
    pub async fn cancel(&self, workflow: &str) -> Result<bool> {
        let status = self.known("cancel", workflow).await?;
        self.store.cancel(&status.namespace, workflow).await
    }

    /// Lets a failed or cancelled workflow go on from its checkpoint, with its attempts forgotten. False when it is
    /// neither. Two statements.
    pub async fn resume(&self, workflow: &str) -> Result<bool> {
        let status = self.known("resume", workflow).await?;
        if !status.state.is_over() || status.state == crate::State::Completed {
            return Ok(false);
        }
        self.store.reopen(&status.namespace, workflow).await
    }

    /// Removes a workflow with all it has recorded, and returns how many records there were. A running pass can write
    /// nothing more. Its id can be started anew. Two statements.
    pub async fn delete(&self, workflow: &str) -> Result<u64> {
        let status = self.known("delete", workflow).await?;
        self.store.delete(&status.namespace, workflow).await
    }

    async fn known(&self, operation: &str, workflow: &str) -> Result<Status> {
        self.store.status(workflow).await?.ok_or_else(|| {
            Error::not_found(format!(
                "cannot {operation} workflow `{workflow}`: there is none of this id; look at the list of workflows"
            ))
        })
    }
}
