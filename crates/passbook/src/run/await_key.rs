//! Waiting for a value from outside, with and without a limit.

use std::collections::BTreeMap;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::Wait;
use crate::durable::Durable;
use crate::{Run, Timestamp, Value};

/// What stands under a key whose wait was over before anything arrived. No serde type writes a map with this key by
/// accident: names that begin with `:` belong to the store.
const TIMED_OUT: &str = ":timed-out";
/// Where the end of a limited wait is recorded.
const DEADLINE: &str = ":deadline:";

/// A value that is awaited; see [`Run::awaiting`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct Awaiting<'r, S: Durable, T> {
    run: &'r Run<S>,
    key: String,
    value: PhantomData<fn() -> T>,
}

impl<'r, S: Durable, T: DeserializeOwned + Send> Awaiting<'r, S, T> {
    pub(super) fn new(run: &'r Run<S>, key: String) -> Self {
        Self {
            run,
            key,
            value: PhantomData,
        }
    }

    /// Gives `None` when nothing has arrived after this long, by the store's clock. The deadline is recorded when the
    /// wait is first met.
    ///
    /// The race between the clock and the world is decided by the first writer under the same key: at the deadline the
    /// pass records there that the time is over, and an [`arrive`](Durable::arrive) that comes later is told that it
    /// lost.
    pub fn within(self, limit: Duration) -> AwaitingWithin<'r, S, T> {
        AwaitingWithin { awaiting: self, limit }
    }
}

impl<'r, S: Durable, T: DeserializeOwned + Send + 'r> IntoFuture for Awaiting<'r, S, T> {
    type Output = T;
    type IntoFuture = Pin<Box<dyn Future<Output = T> + Send + 'r>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { run, key, .. } = self;
        Box::pin(async move {
            let value = match run.enter(&key).await {
                Some(value) => Some(value),
                None => run.park(Wait::key(&key)).await,
            };
            match value {
                Some(value) => run.decode(&key, &value).await,
                // It has no deadline.
                None => std::future::pending().await,
            }
        })
    }
}

/// A value that is awaited for a limited time; see [`Awaiting::within`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct AwaitingWithin<'r, S: Durable, T> {
    awaiting: Awaiting<'r, S, T>,
    limit: Duration,
}

impl<'r, S: Durable, T: DeserializeOwned + Send + 'r> IntoFuture for AwaitingWithin<'r, S, T> {
    type Output = Option<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Option<T>> + Send + 'r>>;

    fn into_future(self) -> Self::IntoFuture {
        let Awaiting { run, key, .. } = self.awaiting;
        Box::pin(async move {
            if let Some(value) = run.enter(&key).await {
                return run.arrived(&key, &value).await;
            }
            let deadline_key = format!("{DEADLINE}{key}");
            let deadline: Timestamp = match run.state.recorded(&deadline_key) {
                Some(value) => run.decode(&deadline_key, &value).await,
                None => run.moment(&deadline_key, |now| now.after(self.limit)).await,
            };
            let wait = Wait {
                deadline: Some(deadline),
                key: Some(key.clone()),
            };
            if let Some(value) = run.park(wait).await {
                return run.arrived(&key, &value).await;
            }
            let _busy = run.state.busy(&key);
            let over = BTreeMap::from([(TIMED_OUT, deadline)]);
            let over = run.encode(&key, &over).await;
            let recorded = run.write(&key, over).await;
            run.arrived(&key, &recorded.value).await
        })
    }
}

impl<S: Durable> Run<S> {
    /// What stands under the key of a limited wait: a value, or that the time was over.
    async fn arrived<T: DeserializeOwned>(&self, key: &str, value: &Value) -> Option<T> {
        if is_timed_out(value) {
            return None;
        }
        Some(self.decode(key, value).await)
    }
}

fn is_timed_out(value: &Value) -> bool {
    value
        .as_str()
        .strip_prefix("{\"")
        .and_then(|rest| rest.strip_prefix(TIMED_OUT))
        .is_some_and(|rest| rest.starts_with("\":"))
}

impl<S: Durable, T> fmt::Debug for Awaiting<'_, S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaiting")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl<S: Durable, T> fmt::Debug for AwaitingWithin<'_, S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitingWithin")
            .field("key", &self.awaiting.key)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
