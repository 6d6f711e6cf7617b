//! The client of one kind of workflow.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Client;
use crate::checkpointer::{INBOX, Recorded};
use crate::durable::{Durable, Enlist, Tx};
use crate::{Error, Inspect, Result, State, Value};

/// What stands under a key after a value was sent there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Whether it was this call's value that was recorded.
    pub first: bool,
    /// The value that is recorded now.
    pub value: Value,
}

impl From<Recorded> for Sent {
    fn from(Recorded { value, first }: Recorded) -> Self {
        Self { first, value }
    }
}

/// How a workflow ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// With a result.
    Completed(T),
    /// It is parked as failed, with this message. `resume` lets it go on.
    Failed(String),
    /// It was cancelled. `resume` lets it go on.
    Cancelled,
}

/// A client that knows the kind of the workflows that it speaks of; see [`Client::kind`].
#[derive(Debug)]
pub struct Kind<'a, S> {
    client: &'a Client<S>,
    namespace: &'a str,
}

impl<'a, S: Durable + Inspect> Kind<'a, S> {
    pub(super) fn new(client: &'a Client<S>, namespace: &'a str) -> Self {
        Self { client, namespace }
    }

    /// See [`Client::start`].
    pub async fn start(&self, workflow: &str, input: &(impl Serialize + ?Sized)) -> Result<Sent> {
        let input = encode("input", workflow, input)?;
        let recorded = self.client.store.start(self.namespace, workflow, &input).await?;
        Ok(recorded.into())
    }

    /// See [`Client::start_in`].
    pub async fn start_in(&self, tx: &mut Tx<S>, workflow: &str, input: &(impl Serialize + ?Sized)) -> Result<Sent>
    where
        S: Enlist,
    {
        let input = encode("input", workflow, input)?;
        let recorded = self.client.store.start_in(tx, self.namespace, workflow, &input).await?;
        Ok(recorded.into())
    }

    /// See [`Client::arrive`].
    pub async fn arrive(&self, workflow: &str, key: &str, value: &(impl Serialize + ?Sized)) -> Result<Sent> {
        let value = prepare(workflow, key, value)?;
        let recorded = self.client.store.arrive(self.namespace, workflow, key, &value).await?;
        Ok(recorded.into())
    }

    /// See [`Client::arrive_in`].
    pub async fn arrive_in(
        &self,
        tx: &mut Tx<S>,
        workflow: &str,
        key: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<Sent>
    where
        S: Enlist,
    {
        let value = prepare(workflow, key, value)?;
        let store = &self.client.store;
        let recorded = store.arrive_in(tx, self.namespace, workflow, key, &value).await?;
        Ok(recorded.into())
    }

    /// See [`Client::deliver`].
    pub async fn deliver(&self, workflow: &str, value: &(impl Serialize + ?Sized)) -> Result<()> {
        let value = encode("message", workflow, value)?;
        self.client.store.deliver(self.namespace, workflow, &value).await?;
        Ok(())
    }

    /// See [`Client::deliver_in`].
    pub async fn deliver_in(&self, tx: &mut Tx<S>, workflow: &str, value: &(impl Serialize + ?Sized)) -> Result<()>
    where
        S: Enlist,
    {
        let value = encode("message", workflow, value)?;
        self.client
            .store
            .deliver_in(tx, self.namespace, workflow, &value)
            .await?;
        Ok(())
    }

    /// See [`Client::result`].
    pub async fn result<T: DeserializeOwned>(&self, workflow: &str) -> Result<Ended<T>> {
        let finished = self.client.waiters.wait(&self.client.store, workflow).await?;
        match (finished.state, finished.result) {
            (State::Completed, Some(value)) => {
                let result = value
                    .decode()
                    .map_err(|why| Error::undecodable(format!("the result of workflow `{workflow}`: {why}")))?;
                Ok(Ended::Completed(result))
            }
            (State::Completed, None) => Err(Error::undecodable(format!(
                "the result of workflow `{workflow}`: {}",
                finished.error.unwrap_or_default()
            ))),
            (State::Cancelled, _) => Ok(Ended::Cancelled),
            (_, _) => Ok(Ended::Failed(finished.error.unwrap_or_default())),
        }
    }
}

fn encode(what: &str, workflow: &str, value: &(impl Serialize + ?Sized)) -> Result<Value> {
    Value::encode(value)
        .map_err(|why| Error::refused(format!("the {what} for workflow `{workflow}` cannot be kept: {why}")))
}

fn prepare(workflow: &str, key: &str, value: &(impl Serialize + ?Sized)) -> Result<Value> {
    if key.starts_with(':') || key.starts_with(INBOX) {
        return Err(Error::refused(format!(
            "the key `{key}` for workflow `{workflow}` belongs to the store: keys that begin with `:` or `{INBOX}` are reserved, choose another"
        )));
    }
    encode(&format!("value under `{key}`"), workflow, value)
}
