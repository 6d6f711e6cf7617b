//! Reading the inbox.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Wait;
use crate::checkpointer::INBOX;
use crate::durable::Durable;
use crate::{Error, Run};

/// A place in an inbox: everything up to it has been read. The default stands before the first value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

/// What a read of the inbox gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// The values, in the order in which they were delivered.
    pub values: Vec<T>,
    /// Where the next read begins.
    pub cursor: Cursor,
}

impl<S: Durable> Run<S> {
    /// Up to `limit` values that were delivered after `after`; waits until there is one.
    ///
    /// Which values it returned is recorded under the name, so that every replay of the read returns the same, whatever
    /// was delivered since.
    pub async fn receive<T: DeserializeOwned>(&self, name: &str, after: &Cursor, limit: usize) -> Batch<T> {
        self.read(name, after, limit, true).await
    }

    /// Up to `limit` values that were delivered after `after`, as far as this pass knows them; perhaps none. Recorded
    /// like [`receive`](Run::receive).
    pub async fn pending<T: DeserializeOwned>(&self, name: &str, after: &Cursor, limit: usize) -> Batch<T> {
        self.read(name, after, limit, false).await
    }

    async fn read<T: DeserializeOwned>(&self, name: &str, after: &Cursor, limit: usize, wait: bool) -> Batch<T> {
        let keys: Vec<String> = match self.enter(name).await {
            Some(value) => self.decode(name, &value).await,
            None => {
                if limit == 0 {
                    let error = format!(
                        "step `{name}` of workflow `{}` reads the inbox with a limit of zero; ask for at least one",
                        self.workflow()
                    );
                    return self.end(Error::invalid(error)).await;
                }
                let keys = loop {
                    let resumed = self.state.resumed();
                    let keys = self.state.inbox_after(&after.0, limit);
                    if !keys.is_empty() || !wait {
                        break keys;
                    }
                    // What is delivered while this pass runs makes the workflow ready, and the next pass sees it.
                    let _parked = self.state.park(Wait::key(INBOX));
                    resumed.await;
                };
                let busy = self.state.busy(name);
                self.keep(busy, name, &keys).await
            }
        };
        let mut values = Vec::with_capacity(keys.len());
        for key in &keys {
            let Some(value) = self.state.recorded(key) else {
                let error = format!(
                    "step `{name}` of workflow `{}` read `{key}`, which is gone from the inbox; do not delete what was read",
                    self.workflow()
                );
                return self.end(Error::not_found(error)).await;
            };
            values.push(self.decode(key, &value).await);
        }
        Batch {
            values,
            cursor: keys.into_iter().next_back().map_or_else(|| after.clone(), Cursor),
        }
    }
}
