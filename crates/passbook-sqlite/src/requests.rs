//! The writes that can be made for many callers at once.

use std::collections::{HashMap, HashSet};

use passbook::{Claim, Error, INPUT, Recorded, Result, Value, check_name};
use sqlx::SqliteConnection;

use crate::batch::{Queue, Request, Waiting};
use crate::connection::wall_clock;
use crate::error::Doing;
use crate::rows::array;
use crate::{SqliteFile, Transaction};

const RECORD: &str = include_str!("../sql/record.sql");
const FENCE: &str = include_str!("../sql/fence.sql");
const SUPPLY: &str = include_str!("../sql/supply.sql");
const KIND: &str = include_str!("../sql/kind.sql");
const ADVANCE: &str = include_str!("../sql/advance.sql");
const WAKE: &str = include_str!("../sql/wake.sql");

/// One record of a pass; `record.sql`.
#[derive(Debug)]
pub(crate) struct Recording {
    claim: Claim,
    step: String,
    value: Value,
}

impl Recording {
    pub(crate) fn new(claim: &Claim, step: &str, value: &Value) -> Self {
        Self {
            claim: claim.clone(),
            step: step.to_owned(),
            value: value.clone(),
        }
    }
}

impl Request for Recording {
    type Reply = Recorded;

    fn queue(waiting: &mut Waiting) -> &mut Queue<Self> {
        &mut waiting.recordings
    }

    fn bytes(&self) -> usize {
        self.value.as_str().len()
    }

    async fn make(requests: &[&Self], transaction: &mut Transaction) -> Result<Vec<Result<Recorded>>> {
        let rows = requests
            .iter()
            .map(|each| (&each.claim.workflow, &each.step, each.value.as_str(), each.claim.token));
        let first: HashSet<i64> = sqlx::query_scalar(RECORD)
            .bind(array(rows)?)
            .bind(wall_clock().as_micros())
            .fetch_all(&mut **transaction)
            .await
            .doing(|| match requests {
                [one] => format!("record step `{}` of workflow `{}`", one.step, one.claim.workflow),
                many => format!("record {} steps", many.len()),
            })?
            .into_iter()
            .collect();
        advance(transaction, first.iter().max()).await?;
        let mut replies = Vec::with_capacity(requests.len());
        for (place, request) in (0..).zip(requests) {
            replies.push(if first.contains(&place) {
                Ok(Recorded {
                    value: request.value.clone(),
                    first: true,
                })
            } else {
                match fenced(transaction, &request.claim, &request.step).await {
                    Ok(there) => there
                        .map(|value| Recorded { value, first: false })
                        .ok_or_else(|| not_kept(&request.step, &request.claim.workflow)),
                    Err(error) if error.is_fenced() => Err(error),
                    Err(error) => return Err(error),
                }
            });
        }
        Ok(replies)
    }
}

/// Refuses a claim below the highest token, and returns what is recorded under the key.
pub(crate) async fn fenced(connection: &mut SqliteConnection, claim: &Claim, step: &str) -> Result<Option<Value>> {
    let (highest, value) = there(connection, &claim.workflow, step).await?;
    if highest.is_none_or(|highest| highest > claim.token) {
        return Err(Error::fenced(&format!("record of step `{step}`"), &claim.workflow));
    }
    Ok(value)
}

/// The highest token of a workflow and what stands under a key.
async fn there(connection: &mut SqliteConnection, workflow: &str, step: &str) -> Result<(Option<i64>, Option<Value>)> {
    let (highest, value): (Option<i64>, Option<String>) = sqlx::query_as(FENCE)
        .bind(workflow)
        .bind(step)
        .fetch_one(connection)
        .await
        .doing(|| format!("read step `{step}` of workflow `{workflow}`"))?;
    Ok((highest, value.map(Value::stored)))
}

/// Nothing stands in the way and nothing is there, yet nothing was inserted: only a foreign trigger does that.
fn not_kept(step: &str, workflow: &str) -> Error {
    Error::store(format!(
        "could not record `{step}` of workflow `{workflow}`: the row was not kept; does a trigger of the application refuse it?"
    ))
}

/// Moves the last number drawn to that of the last row inserted.
async fn advance(connection: &mut SqliteConnection, last: Option<&i64>) -> Result<()> {
    if let Some(last) = last {
        sqlx::query(ADVANCE)
            .bind(last + 1)
            .execute(connection)
            .await
            .doing(|| "draw numbers".to_owned())?;
    }
    Ok(())
}

/// One value from outside; `supply.sql` and `wake.sql`.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The kind that is meant, where one is named.
    namespace: Option<String>,
    workflow: String,
    /// The next key of the inbox when it is not given.
    key: Option<String>,
    value: Value,
    wakes: Wakes,
}

/// Whether a value makes its workflow ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wakes {
    Never,
    WhenFirst,
    Always,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Under which key it went.
    pub(crate) key: String,
    pub(crate) recorded: Recorded,
}

impl Sending {
    pub(crate) fn start(namespace: &str, workflow: &str, input: &Value) -> Result<Self> {
        // A later start changes nothing: it must neither wake a sleeper nor bring back what has finished.
        Self::new(Some(namespace), workflow, Some(INPUT), input, Wakes::WhenFirst)
    }

    pub(crate) fn arrive(namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Self> {
        Self::new(Some(namespace), workflow, Some(key), value, Wakes::Always)
    }

    pub(crate) fn deliver(namespace: &str, workflow: &str, value: &Value) -> Result<Self> {
        Self::new(Some(namespace), workflow, None, value, Wakes::Always)
    }

    pub(crate) fn supply(workflow: &str, step: &str, value: &Value) -> Result<Self> {
        Self::new(None, workflow, Some(step), value, Wakes::Never)
    }

    pub(crate) fn append(workflow: &str, value: &Value) -> Result<Self> {
        Self::new(None, workflow, None, value, Wakes::Never)
    }

    fn new(namespace: Option<&str>, workflow: &str, key: Option<&str>, value: &Value, wakes: Wakes) -> Result<Self> {
        if let Some(namespace) = namespace {
            check_name("namespace", namespace)?;
        }
        check_name("workflow id", workflow)?;
        if let Some(key) = key {
            check_name("key", key)?;
        }
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            workflow: workflow.to_owned(),
            key: key.map(str::to_owned),
            value: value.clone(),
            wakes,
        })
    }

    /// Makes the writes of some in a transaction of ours or of the caller's.
    pub(crate) async fn send(
        requests: &[&Self],
        connection: &mut SqliteConnection,
        file: &SqliteFile,
    ) -> Result<Vec<Result<Sent>>> {
        let rows = requests
            .iter()
            .map(|each| (&each.workflow, &each.key, each.value.as_str(), &each.namespace));
        let mut first = supply(connection, &array(rows)?, || match requests {
            [one] => format!("record `{}` of workflow `{}`", one.key(), one.workflow),
            many => format!("record {} values", many.len()),
        })
        .await?;
        let mut replies = Vec::with_capacity(requests.len());
        let mut woken = Vec::new();
        for (place, request) in (0..).zip(requests) {
            let reply = match first.remove(&place) {
                Some(key) => Ok(Sent {
                    key,
                    recorded: Recorded {
                        value: request.value.clone(),
                        first: true,
                    },
                }),
                None => request.lost(connection).await?,
            };
            if let (Ok(sent), Some(namespace)) = (&reply, &request.namespace) {
                let wakes = match request.wakes {
                    Wakes::Never => false,
                    Wakes::WhenFirst => sent.recorded.first,
                    Wakes::Always => true,
                };
                woken.extend(wakes.then_some((namespace, &request.workflow)));
            }
            replies.push(reply);
        }
        if !woken.is_empty() {
            sqlx::query(WAKE)
                .bind(array(woken)?)
                .bind(file.now().as_micros())
                .execute(connection)
                .await
                .doing(|| match requests {
                    [one] => format!("wake workflow `{}`", one.workflow),
                    many => format!("wake {} workflows", many.len()),
                })?;
            file.wakes();
        }
        Ok(replies)
    }

    /// Why it was not inserted.
    async fn lost(&self, connection: &mut SqliteConnection) -> Result<Result<Sent>> {
        if let Some(namespace) = &self.namespace
            && kind(connection, &self.workflow)
                .await?
                .is_some_and(|kind| kind != *namespace)
        {
            return Ok(Err(Error::wrong_kind(&self.workflow, namespace)));
        }
        let Some(key) = &self.key else {
            return Ok(Err(not_kept(self.key(), &self.workflow)));
        };
        let (_, value) = there(connection, &self.workflow, key).await?;
        Ok(value
            .map(|value| Sent {
                key: key.clone(),
                recorded: Recorded { value, first: false },
            })
            .ok_or_else(|| not_kept(key, &self.workflow)))
    }

    fn key(&self) -> &str {
        self.key.as_deref().unwrap_or("the next of the inbox")
    }
}

impl Request for Sending {
    type Reply = Sent;

    fn queue(waiting: &mut Waiting) -> &mut Queue<Self> {
        &mut waiting.sendings
    }

    fn bytes(&self) -> usize {
        self.value.as_str().len()
    }

    async fn make(requests: &[&Self], transaction: &mut Transaction) -> Result<Vec<Result<Sent>>> {
        let file = transaction.file().clone();
        Self::send(requests, transaction, &file).await
    }
}

/// The places of what was inserted, and the keys it went under.
pub(crate) async fn supply(
    connection: &mut SqliteConnection,
    rows: &str,
    doing: impl FnOnce() -> String,
) -> Result<HashMap<i64, String>> {
    let first: HashMap<i64, String> = sqlx::query_as(SUPPLY)
        .bind(rows)
        .bind(wall_clock().as_micros())
        .fetch_all(&mut *connection)
        .await
        .doing(doing)?
        .into_iter()
        .collect();
    advance(connection, first.keys().max()).await?;
    Ok(first)
}

/// The kind as which a workflow was started, where that is known.
pub(crate) async fn kind(connection: &mut SqliteConnection, workflow: &str) -> Result<Option<String>> {
    let kind: Option<Option<String>> = sqlx::query_scalar(KIND)
        .bind(workflow)
        .fetch_optional(connection)
        .await
        .doing(|| format!("look up the kind of workflow `{workflow}`"))?;
    Ok(kind.flatten())
}
