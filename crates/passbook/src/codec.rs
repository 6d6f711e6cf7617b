//! A store whose values pass through a codec of the user's own, e.g. one that encrypts.

use std::future::Future;
use std::time::Duration;

use crate::checkpointer::{Begun, Checkpointer, Claim, Claimed, Life, Record, Recorded};
use crate::durable::{Acquire, Acquired, Durable, Enlist, Renewed, Settled, Settlement, Tx};
use crate::inspect::{Filter, Finished, Inspect, Status};
use crate::{Delivery, Endings, Result, Value};

/// Turns values into what a store keeps, and back.
///
/// Inputs, results, values that arrive and what steps return pass through it. Ids, the names of steps and namespaces,
/// and the messages of failures do not: they are for looking, so keep secrets out of them.
pub trait Codec: Clone + Send + Sync + 'static {
    /// What the store is to keep for a value of this workflow, under whatever key. It may differ from call to call,
    /// as it does with a fresh nonce. An error is shown to whoever wanted to write, and nothing is written.
    fn encode(&self, workflow: &str, value: &Value) -> Result<Value>;

    /// The value again. Values that were written before there was a codec come here too. With an error
    /// ([`Error::undecodable`](crate::Error::undecodable), say which key is missing) the workflow is parked as failed; its records stay.
    fn decode(&self, workflow: &str, stored: Value) -> Result<Value>;
}

/// A store behind a [`Codec`].
///
/// Every promise of the store stays as it is: a codec sees values on their way in and out, and nothing else.
///
/// ```
/// use passbook::{Coded, Codec, Error, MemoryStore, Result, Value};
///
/// /// Stands for encryption: keeps text backwards.
/// #[derive(Clone)]
/// struct Backwards;
///
/// impl Codec for Backwards {
///     fn encode(&self, _workflow: &str, value: &Value) -> Result<Value> {
///         let backwards: String = value.as_str().chars().rev().collect();
///         Value::encode(&backwards).map_err(|why| Error::refused(why.to_string()))
///     }
///
///     fn decode(&self, workflow: &str, stored: Value) -> Result<Value> {
///         let backwards: String = stored
///             .decode()
///             .map_err(|why| Error::undecodable(format!("a value of workflow `{workflow}` is not coded: {why}")))?;
///         Ok(Value::stored(backwards.chars().rev().collect::<String>()))
///     }
/// }
///
/// let store = Coded::new(MemoryStore::new(), Backwards);
/// ```
#[derive(Clone, Debug)]
pub struct Coded<S: Durable, C> {
    store: S,
    checkpointer: CodedCheckpointer<S::Checkpointer, C>,
}

/// A checkpointer behind a [`Codec`].
#[derive(Clone, Debug)]
pub struct CodedCheckpointer<K, C> {
    inner: K,
    codec: C,
}

impl<S: Durable, C: Codec> Coded<S, C> {
    /// Puts the codec before the store. Every process that works on these workflows must do the same.
    pub fn new(store: S, codec: C) -> Self {
        let checkpointer = CodedCheckpointer::new(store.checkpointer().clone(), codec);
        Self { store, checkpointer }
    }

    /// The store behind the codec.
    pub fn store(&self) -> &S {
        &self.store
    }

    fn encode(&self, workflow: &str, value: &Value) -> Result<Value> {
        self.checkpointer.codec.encode(workflow, value)
    }
}

impl<K, C: Codec> CodedCheckpointer<K, C> {
    /// Puts the codec before the checkpointer.
    pub fn new(checkpointer: K, codec: C) -> Self {
        Self {
            inner: checkpointer,
            codec,
        }
    }

    fn recorded(&self, workflow: &str, recorded: Recorded) -> Result<Recorded> {
        Ok(Recorded {
            value: self.codec.decode(workflow, recorded.value)?,
            first: recorded.first,
        })
    }

    fn records(&self, workflow: &str, records: Vec<Record>) -> Result<Vec<Record>> {
        records
            .into_iter()
            .map(|record| {
                Ok(Record {
                    value: self.codec.decode(workflow, record.value)?,
                    ..record
                })
            })
            .collect()
    }

    fn settlement(&self, workflow: &str, outcome: &Settlement) -> Result<Settlement> {
        Ok(match outcome {
            Settlement::Completed { result } => Settlement::Completed {
                result: self.codec.encode(workflow, result)?,
            },
            other => other.clone(),
        })
    }

    fn opened(&self, finished: Finished) -> Finished {
        match finished
            .result
            .map(|result| self.codec.decode(&finished.workflow, result))
        {
            Some(Ok(result)) => Finished {
                result: Some(result),
                ..finished
            },
            // Told to whoever waits for this one; the others of the page have their results.
            Some(Err(error)) => Finished {
                result: None,
                error: Some(error.to_string()),
                ..finished
            },
            None => Finished {
                result: None,
                ..finished
            },
        }
    }
}

impl<K: Checkpointer, C: Codec> Checkpointer for CodedCheckpointer<K, C> {
    type Tx = K::Tx;
    type Transaction = K::Transaction;

    fn lease(&self) -> Duration {
        self.inner.lease()
    }

    async fn load(&self, workflow: &str) -> Result<Vec<Record>> {
        self.records(workflow, self.inner.load(workflow).await?)
    }

    fn claim(&self, workflow: &str) -> impl Future<Output = Result<Claimed>> + Send {
        self.inner.claim(workflow)
    }

    fn release(&self, claim: &Claim, outcome: &Settlement) -> impl Future<Output = Result<bool>> + Send {
        // Nothing of an outcome but its kind is written here: a result is recorded first, by itself.
        self.inner.release(claim, outcome)
    }

    fn renew(&self, lives: &[Life]) -> impl Future<Output = Result<Vec<bool>>> + Send {
        self.inner.renew(lives)
    }

    async fn record(&self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        let value = self.codec.encode(&claim.workflow, value)?;
        self.recorded(&claim.workflow, self.inner.record(claim, step, &value).await?)
    }

    async fn supply(&self, workflow: &str, step: &str, value: &Value) -> Result<Recorded> {
        let value = self.codec.encode(workflow, value)?;
        self.recorded(workflow, self.inner.supply(workflow, step, &value).await?)
    }

    async fn append(&self, workflow: &str, value: &Value) -> Result<String> {
        let value = self.codec.encode(workflow, value)?;
        self.inner.append(workflow, &value).await
    }

    async fn begin(&self, claim: &Claim, step: &str) -> Result<Begun<K::Transaction>> {
        Ok(match self.inner.begin(claim, step).await? {
            Begun::Recorded(value) => Begun::Recorded(self.codec.decode(&claim.workflow, value)?),
            Begun::Open(transaction) => Begun::Open(transaction),
        })
    }

    async fn commit(&self, transaction: K::Transaction, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        let value = self.codec.encode(&claim.workflow, value)?;
        let recorded = self.inner.commit(transaction, claim, step, &value).await?;
        self.recorded(&claim.workflow, recorded)
    }

    fn rollback(&self, transaction: K::Transaction) -> impl Future<Output = Result<()>> + Send {
        self.inner.rollback(transaction)
    }

    fn cancel(&self, workflow: &str) -> impl Future<Output = Result<bool>> + Send {
        self.inner.cancel(workflow)
    }

    fn reopen(&self, workflow: &str) -> impl Future<Output = Result<bool>> + Send {
        self.inner.reopen(workflow)
    }

    fn discard(&self, workflow: &str) -> impl Future<Output = Result<u64>> + Send {
        self.inner.discard(workflow)
    }
}

impl<S: Durable, C: Codec> Durable for Coded<S, C> {
    type Checkpointer = CodedCheckpointer<S::Checkpointer, C>;
    type Scheduler = S::Scheduler;

    fn checkpointer(&self) -> &Self::Checkpointer {
        &self.checkpointer
    }

    fn scheduler(&self) -> &S::Scheduler {
        self.store.scheduler()
    }

    async fn start(&self, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        let input = self.encode(workflow, input)?;
        let recorded = self.store.start(namespace, workflow, &input).await?;
        self.checkpointer.recorded(workflow, recorded)
    }

    async fn arrive(&self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        let value = self.encode(workflow, value)?;
        let recorded = self.store.arrive(namespace, workflow, key, &value).await?;
        self.checkpointer.recorded(workflow, recorded)
    }

    async fn deliver(&self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        let value = self.encode(workflow, value)?;
        self.store.deliver(namespace, workflow, &value).await
    }

    fn cancel(&self, namespace: &str, workflow: &str) -> impl Future<Output = Result<bool>> + Send {
        self.store.cancel(namespace, workflow)
    }

    fn reopen(&self, namespace: &str, workflow: &str) -> impl Future<Output = Result<bool>> + Send {
        self.store.reopen(namespace, workflow)
    }

    fn delete(&self, namespace: &str, workflow: &str) -> impl Future<Output = Result<u64>> + Send {
        self.store.delete(namespace, workflow)
    }

    /// A workflow whose records do not decode is parked as failed here, so that it is in nobody's way.
    async fn acquire(&self, request: &Acquire<'_>) -> Result<Acquired> {
        let acquired = self.store.acquire(request).await?;
        let mut passes = Vec::with_capacity(acquired.passes.len());
        for (mut pass, delivery) in acquired.passes {
            match self.checkpointer.records(&pass.claim.workflow, pass.records) {
                Ok(records) => {
                    pass.records = records;
                    passes.push((pass, delivery));
                }
                Err(error) => {
                    let error = error.to_string();
                    let outcome = Settlement::Failed { error, retry_at: None };
                    self.store.settle(&pass.claim, &delivery, &outcome).await?;
                }
            }
        }
        Ok(Acquired { passes, ..acquired })
    }

    fn renew(&self, held: &[(Life, Delivery)]) -> impl Future<Output = Result<Vec<Renewed>>> + Send {
        self.store.renew(held)
    }

    async fn settle(&self, claim: &Claim, delivery: &Delivery, outcome: &Settlement) -> Result<Settled> {
        let outcome = self.checkpointer.settlement(&claim.workflow, outcome)?;
        self.store.settle(claim, delivery, &outcome).await
    }
}

impl<S: Enlist, C: Codec> Enlist for Coded<S, C> {
    async fn start_in(&self, tx: &mut Tx<Self>, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        let input = self.encode(workflow, input)?;
        let recorded = self.store.start_in(tx, namespace, workflow, &input).await?;
        self.checkpointer.recorded(workflow, recorded)
    }

    async fn arrive_in(
        &self,
        tx: &mut Tx<Self>,
        namespace: &str,
        workflow: &str,
        key: &str,
        value: &Value,
    ) -> Result<Recorded> {
        let value = self.encode(workflow, value)?;
        let recorded = self.store.arrive_in(tx, namespace, workflow, key, &value).await?;
        self.checkpointer.recorded(workflow, recorded)
    }

    async fn deliver_in(&self, tx: &mut Tx<Self>, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        let value = self.encode(workflow, value)?;
        self.store.deliver_in(tx, namespace, workflow, &value).await
    }

    fn committed(&self) {
        self.store.committed();
    }
}

impl<S: Durable + Inspect, C: Codec> Inspect for Coded<S, C> {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        self.store.status(workflow).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        self.store.list(filter).await
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        let finished = self.store.finished(workflows).await?;
        Ok(finished.into_iter().map(|one| self.checkpointer.opened(one)).collect())
    }

    fn endings(&self) -> Endings {
        self.store.endings().bare()
    }
}

impl<K: Checkpointer + Inspect, C: Codec> Inspect for CodedCheckpointer<K, C> {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        self.inner.status(workflow).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        self.inner.list(filter).await
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        let finished = self.inner.finished(workflows).await?;
        Ok(finished.into_iter().map(|one| self.opened(one)).collect())
    }

    fn endings(&self) -> Endings {
        self.inner.endings().bare()
    }
}
