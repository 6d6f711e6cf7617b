//! The records and the claims.

use std::time::Duration;

use passbook::{
    Begun, Checkpointer, Claim, Claimed, Error, Granted, INBOX, Life, Record, Recorded, Result, Settlement, State,
    Timestamp, Value, check_name,
};
use sqlx::SqliteConnection;

use crate::connection::wall_clock;
use crate::error::Doing;
use crate::rows::{self, attempts, list_of_names};
use crate::{SqliteFile, Transaction};

const LOAD: &str = include_str!("../sql/load.sql");
const CLAIM: &str = include_str!("../sql/claim.sql");
const STATE: &str = include_str!("../sql/state.sql");
const RELEASE: &str = include_str!("../sql/release.sql");
const RENEW: &str = include_str!("../sql/renew.sql");
const PROLONG: &str = include_str!("../sql/prolong.sql");
const RECORD: &str = include_str!("../sql/record.sql");
const FENCE: &str = include_str!("../sql/fence.sql");
const SUPPLY: &str = include_str!("../sql/supply.sql");
const DRAW: &str = include_str!("../sql/draw.sql");
const APPEND: &str = include_str!("../sql/append.sql");
const CANCEL: &str = include_str!("../sql/cancel.sql");
const REOPEN: &str = include_str!("../sql/reopen.sql");
const DISCARD: &str = include_str!("../sql/discard.sql");
const FORGET: &str = include_str!("../sql/forget.sql");

// Around a `transact` effect. It is gone when the effect has ended the transaction by itself, be it with a new one.
const MARK: &str = include_str!("../sql/mark.sql");
const UNMARK: &str = include_str!("../sql/unmark.sql");

/// What was done and who may write it, in a SQLite file.
///
/// Every call that writes is one transaction. A future that is dropped half-way has written all or nothing; which of
/// the two, nobody is told.
///
/// # Long effects and leases
///
/// Between [`begin`](Checkpointer::begin) and [`commit`](Checkpointer::commit) the effect holds the file's only write
/// lock. A renewal waits for it, that of its own pass and of every other; but nobody can claim meanwhile either. So that
/// no claim is lost to whoever gets the lock first afterwards, `commit` gives, in the same transaction, its own claim a
/// whole lease and every other live claim the time for which it was kept waiting. An effect that ends without a commit
/// writes nothing and so gives nothing: claims that ran out meanwhile may then be taken over, which their fence makes
/// safe, and which costs those passes an attempt. Deliveries are not prolonged, their receipts are their holders': one
/// that is taken again meanwhile meets the claim and costs one more pass.
#[derive(Clone, Debug)]
pub struct SqliteCheckpointer {
    pub(crate) file: SqliteFile,
}

impl SqliteCheckpointer {
    /// The checkpointer in this file.
    pub fn new(file: &SqliteFile) -> Self {
        Self { file: file.clone() }
    }
}

impl Checkpointer for SqliteCheckpointer {
    type Tx = SqliteConnection;
    type Transaction = Transaction;

    fn lease(&self) -> Duration {
        self.file.lease()
    }

    async fn load(&self, workflow: &str) -> Result<Vec<Record>> {
        let mut reader = self.file.read().await?;
        load(&mut reader, workflow).await
    }

    async fn claim(&self, workflow: &str) -> Result<Claimed> {
        check_name("workflow id", workflow)?;
        let mut transaction = self.file.begin().await?;
        let claimed = claim(&mut transaction, workflow, None, self.file.now(), self.file.lease()).await?;
        transaction.commit().await?;
        Ok(claimed)
    }

    async fn release(&self, claim: &Claim, outcome: &Settlement) -> Result<bool> {
        let mut transaction = self.file.begin().await?;
        let held = release(&mut transaction, claim, outcome, self.file.now()).await?;
        transaction.commit().await?;
        Ok(held)
    }

    async fn renew(&self, lives: &[Life]) -> Result<Vec<bool>> {
        if lives.is_empty() {
            return Ok(Vec::new());
        }
        let mut transaction = self.file.begin().await?;
        let until = self.file.now().after(self.file.lease());
        let mut alive = Vec::with_capacity(lives.len());
        for life in lives {
            alive.push(renew(&mut transaction, life, until).await?);
        }
        transaction.commit().await?;
        Ok(alive)
    }

    async fn record(&self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        check_name("step", step)?;
        let mut transaction = self.file.begin().await?;
        let recorded = record(&mut transaction, claim, step, value).await?;
        transaction.commit().await?;
        Ok(recorded)
    }

    async fn supply(&self, workflow: &str, step: &str, value: &Value) -> Result<Recorded> {
        check_name("workflow id", workflow)?;
        check_name("step", step)?;
        let mut transaction = self.file.begin().await?;
        let recorded = supply(&mut transaction, workflow, step, value, None).await?;
        transaction.commit().await?;
        Ok(recorded)
    }

    async fn append(&self, workflow: &str, value: &Value) -> Result<String> {
        check_name("workflow id", workflow)?;
        let mut transaction = self.file.begin().await?;
        let key = append(&mut transaction, workflow, value).await?;
        transaction.commit().await?;
        Ok(key)
    }

    async fn begin(&self, claim: &Claim, step: &str) -> Result<Begun<Transaction>> {
        check_name("step", step)?;
        let mut transaction = self.file.begin().await?;
        if let Some(value) = fenced(&mut transaction, claim, step).await? {
            // Nothing was written, so this is only the end of it.
            transaction.commit().await?;
            return Ok(Begun::Recorded(value));
        }
        sqlx::query(MARK)
            .execute(&mut *transaction)
            .await
            .doing(|| format!("begin step `{step}` of workflow `{}`", claim.workflow))?;
        Ok(Begun::Open(transaction))
    }

    async fn commit(&self, mut transaction: Transaction, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        sqlx::query(UNMARK).execute(&mut *transaction).await.map_err(|error| {
            Error::store(format!(
                "the effect of step `{step}` of workflow `{}` has ended the transaction it runs in; leave commit and rollback to the step, and use a savepoint for a part of it",
                claim.workflow
            ))
            .with_source(error)
        })?;
        // The lock was held since `begin` found nothing under the key, so whatever is there is the effect's doing.
        if fenced(&mut transaction, claim, step).await?.is_some() {
            return Err(Error::refused(format!(
                "the effect of step `{step}` of workflow `{}` wrote the record of the step itself; return the value instead, or give it another key",
                claim.workflow
            )));
        }
        let recorded = record(&mut transaction, claim, step, value).await?;
        prolong(&mut transaction, claim, &self.file).await?;
        transaction.commit().await?;
        Ok(recorded)
    }

    async fn cancel(&self, workflow: &str) -> Result<bool> {
        let mut transaction = self.file.begin().await?;
        let cancelled = cancel(&mut transaction, workflow, self.file.now()).await?;
        transaction.commit().await?;
        Ok(cancelled)
    }

    async fn reopen(&self, workflow: &str) -> Result<bool> {
        let mut transaction = self.file.begin().await?;
        let reopened = reopen(&mut transaction, workflow, self.file.now()).await?;
        transaction.commit().await?;
        Ok(reopened)
    }

    async fn discard(&self, workflow: &str) -> Result<u64> {
        let mut transaction = self.file.begin().await?;
        let removed = discard(&mut transaction, workflow, self.file.now()).await?;
        transaction.commit().await?;
        Ok(removed)
    }
}

pub(crate) async fn load(connection: &mut SqliteConnection, workflow: &str) -> Result<Vec<Record>> {
    let doing = || format!("load workflow `{workflow}`");
    let rows = sqlx::query(LOAD)
        .bind(workflow)
        .fetch_all(connection)
        .await
        .doing(doing)?;
    rows.iter().map(rows::record).collect::<sqlx::Result<_>>().doing(doing)
}

pub(crate) async fn claim(
    connection: &mut SqliteConnection,
    workflow: &str,
    namespace: Option<&str>,
    now: Timestamp,
    lease: Duration,
) -> Result<Claimed> {
    let doing = || format!("claim workflow `{workflow}`");
    let granted: Option<(i64, i64, Option<String>)> = sqlx::query_as(CLAIM)
        .bind(workflow)
        .bind(now.as_micros())
        .bind(now.after(lease).as_micros())
        .bind(namespace)
        .fetch_optional(&mut *connection)
        .await
        .doing(doing)?;
    if let Some((token, failed, interrupted)) = granted {
        return Ok(Claimed::Granted(Granted {
            claim: Claim {
                workflow: workflow.to_owned(),
                token,
            },
            attempts: attempts(failed),
            interrupted,
        }));
    }
    let over: Option<bool> = sqlx::query_scalar(STATE)
        .bind(workflow)
        .fetch_optional(connection)
        .await
        .doing(doing)?;
    Ok(if over == Some(true) {
        Claimed::Over
    } else {
        Claimed::Held
    })
}

pub(crate) async fn release(
    connection: &mut SqliteConnection,
    claim: &Claim,
    outcome: &Settlement,
    now: Timestamp,
) -> Result<bool> {
    let nothing: &[String] = &[];
    let (state, waits_for, wake_at, attempts, error) = match outcome {
        Settlement::Completed { .. } => (State::Completed, nothing, None, "clear", None),
        Settlement::Suspended { wake_at, waits_for } => {
            let state = match (waits_for.is_empty(), wake_at) {
                (true, Some(_)) => State::Sleeping,
                _ => State::Waiting,
            };
            (state, waits_for.as_slice(), *wake_at, "clear", None)
        }
        Settlement::Failed { error, retry_at } => {
            let state = if retry_at.is_some() {
                State::Sleeping
            } else {
                State::Failed
            };
            (state, nothing, *retry_at, "add", Some(error.as_str()))
        }
        Settlement::HandedBack => (State::Ready, nothing, None, "keep", None),
    };
    let done = sqlx::query(RELEASE)
        .bind(&claim.workflow)
        .bind(claim.token)
        .bind(now.as_micros())
        .bind(state.as_str())
        .bind(list_of_names(waits_for)?.as_str())
        .bind(wake_at.map(Timestamp::as_micros))
        .bind(attempts)
        .bind(error)
        .bind(state.is_over().then_some(now.as_micros()))
        .execute(connection)
        .await
        .doing(|| format!("release workflow `{}`", claim.workflow))?;
    Ok(done.rows_affected() == 1)
}

pub(crate) async fn renew(connection: &mut SqliteConnection, life: &Life, until: Timestamp) -> Result<bool> {
    let done = sqlx::query(RENEW)
        .bind(&life.claim.workflow)
        .bind(life.claim.token)
        .bind(until.as_micros())
        .bind(life.running.as_deref())
        .execute(connection)
        .await
        .doing(|| format!("renew the claim of workflow `{}`", life.claim.workflow))?;
    Ok(done.rows_affected() == 1)
}

/// Lets no claim run out for having been kept waiting by this transaction.
async fn prolong(transaction: &mut Transaction, claim: &Claim, file: &SqliteFile) -> Result<()> {
    let (begun_at, now) = (transaction.begun_at(), file.now());
    let waited = begun_at.until(now);
    // Renewals come several times a lease, so a short wait costs nobody anything, and the common case no statement.
    if waited < file.lease() / 10 {
        return Ok(());
    }
    sqlx::query(PROLONG)
        .bind(&claim.workflow)
        .bind(claim.token)
        .bind(now.after(file.lease()).as_micros())
        .bind(begun_at.as_micros())
        .bind(i64::try_from(waited.as_micros()).unwrap_or(i64::MAX))
        .execute(&mut **transaction)
        .await
        .doing(|| format!("prolong the claims that waited for workflow `{}`", claim.workflow))?;
    Ok(())
}

pub(crate) async fn record(
    connection: &mut SqliteConnection,
    claim: &Claim,
    step: &str,
    value: &Value,
) -> Result<Recorded> {
    let doing = || format!("record step `{step}` of workflow `{}`", claim.workflow);
    let done = sqlx::query(RECORD)
        .bind(&claim.workflow)
        .bind(step)
        .bind(value.as_str())
        .bind(claim.token)
        .bind(wall_clock().as_micros())
        .execute(&mut *connection)
        .await
        .doing(doing)?;
    if done.rows_affected() == 1 {
        return Ok(Recorded {
            value: value.clone(),
            first: true,
        });
    }
    match fenced(connection, claim, step).await? {
        Some(value) => Ok(Recorded { value, first: false }),
        // Not fenced and nothing there, yet nothing was inserted: only a foreign trigger does that.
        None => Err(Error::store(format!(
            "could not {}: the row was not kept; does a trigger of the application refuse it?",
            doing()
        ))),
    }
}

/// Refuses a claim below the highest token, and returns what is recorded under the key.
async fn fenced(connection: &mut SqliteConnection, claim: &Claim, step: &str) -> Result<Option<Value>> {
    let what = format!("record of step `{step}`");
    let (highest, value): (Option<i64>, Option<String>) = sqlx::query_as(FENCE)
        .bind(&claim.workflow)
        .bind(step)
        .fetch_one(connection)
        .await
        .doing(|| format!("read step `{step}` of workflow `{}`", claim.workflow))?;
    if highest.is_none_or(|highest| highest > claim.token) {
        return Err(Error::fenced(&what, &claim.workflow));
    }
    Ok(value.map(Value::stored))
}

pub(crate) async fn supply(
    connection: &mut SqliteConnection,
    workflow: &str,
    step: &str,
    value: &Value,
    namespace: Option<&str>,
) -> Result<Recorded> {
    let doing = || format!("record `{step}` of workflow `{workflow}`");
    let done = sqlx::query(SUPPLY)
        .bind(workflow)
        .bind(step)
        .bind(value.as_str())
        .bind(wall_clock().as_micros())
        .bind(namespace)
        .execute(&mut *connection)
        .await
        .doing(doing)?;
    if done.rows_affected() == 1 {
        return Ok(Recorded {
            value: value.clone(),
            first: true,
        });
    }
    let (_, there): (Option<i64>, Option<String>) = sqlx::query_as(FENCE)
        .bind(workflow)
        .bind(step)
        .fetch_one(connection)
        .await
        .doing(doing)?;
    there
        .map(|there| Recorded {
            value: Value::stored(there),
            first: false,
        })
        .ok_or_else(|| {
            Error::store(format!(
                "could not {}: the row was not kept; does a trigger of the application refuse it?",
                doing()
            ))
        })
}

pub(crate) async fn append(connection: &mut SqliteConnection, workflow: &str, value: &Value) -> Result<String> {
    let doing = || format!("append to the inbox of workflow `{workflow}`");
    let seq: i64 = sqlx::query_scalar(DRAW)
        .fetch_one(&mut *connection)
        .await
        .doing(doing)?;
    let key = format!("{INBOX}{seq:020}");
    sqlx::query(APPEND)
        .bind(workflow)
        .bind(&key)
        .bind(value.as_str())
        .bind(seq)
        .bind(wall_clock().as_micros())
        .execute(connection)
        .await
        .doing(doing)?;
    Ok(key)
}

pub(crate) async fn cancel(connection: &mut SqliteConnection, workflow: &str, now: Timestamp) -> Result<bool> {
    let done = sqlx::query(CANCEL)
        .bind(workflow)
        .bind(now.as_micros())
        .execute(connection)
        .await
        .doing(|| format!("cancel workflow `{workflow}`"))?;
    Ok(done.rows_affected() == 1)
}

pub(crate) async fn reopen(connection: &mut SqliteConnection, workflow: &str, now: Timestamp) -> Result<bool> {
    let done = sqlx::query(REOPEN)
        .bind(workflow)
        .bind(now.as_micros())
        .execute(connection)
        .await
        .doing(|| format!("reopen workflow `{workflow}`"))?;
    Ok(done.rows_affected() == 1)
}

pub(crate) async fn discard(connection: &mut SqliteConnection, workflow: &str, now: Timestamp) -> Result<u64> {
    let doing = || format!("discard workflow `{workflow}`");
    let removed = sqlx::query(DISCARD)
        .bind(workflow)
        .execute(&mut *connection)
        .await
        .doing(doing)?;
    sqlx::query(FORGET)
        .bind(workflow)
        .bind(now.as_micros())
        .execute(connection)
        .await
        .doing(doing)?;
    Ok(removed.rows_affected())
}
