//! The records and the claims.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use passbook::{
    Begun, Checkpointer, Claim, Claimed, Error, Granted, Life, Record, Recorded, Result, Settlement, Timestamp, Value,
    check_name,
};
use sqlx::{Row as _, SqliteConnection};

use crate::batch::Request as _;
use crate::error::Doing;
use crate::requests::{Recording, Sending, fenced};
use crate::rows::{self, array, attempts};
use crate::settling::Settling;
use crate::{SqliteFile, Transaction};

const LOAD: &str = include_str!("../sql/load.sql");
const CLAIM: &str = include_str!("../sql/claim.sql");
const STATE: &str = include_str!("../sql/state.sql");
const RENEW: &str = include_str!("../sql/renew.sql");
const PROLONG: &str = include_str!("../sql/prolong.sql");
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
        let mut checkpoints = load(&mut reader, &[(workflow, None)]).await?;
        Ok(checkpoints.remove(workflow).unwrap_or_default())
    }

    async fn claim(&self, workflow: &str) -> Result<Claimed> {
        check_name("workflow id", workflow)?;
        let mut transaction = self.file.begin().await?;
        let mut granted = claim(
            &mut transaction,
            &[(workflow, None)],
            self.file.now(),
            self.file.lease(),
        )
        .await?;
        let claimed = match granted.remove(workflow) {
            Some(granted) => Claimed::Granted(granted),
            None if is_over(&mut transaction, workflow).await? => Claimed::Over,
            None => Claimed::Held,
        };
        transaction.commit().await?;
        Ok(claimed)
    }

    async fn release(&self, claim: &Claim, outcome: &Settlement) -> Result<bool> {
        let (settled, _) = self.file.write(Settling::new(claim, None, outcome)).await?;
        if settled.is_held() && outcome.is_over() {
            self.file.hints().tell_ended(&claim.workflow);
        }
        Ok(settled.is_held())
    }

    async fn renew(&self, lives: &[Life]) -> Result<Vec<bool>> {
        if lives.is_empty() {
            return Ok(Vec::new());
        }
        let lives: Vec<&Life> = lives.iter().collect();
        let mut transaction = self.file.begin().await?;
        let until = self.file.now().after(self.file.lease());
        let alive = renew(&mut transaction, &lives, until).await?;
        transaction.commit().await?;
        Ok(alive)
    }

    async fn record(&self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        check_name("step", step)?;
        self.file.write(Recording::new(claim, step, value)).await
    }

    async fn supply(&self, workflow: &str, step: &str, value: &Value) -> Result<Recorded> {
        let sent = self.file.write(Sending::supply(workflow, step, value)?).await?;
        Ok(sent.recorded)
    }

    async fn append(&self, workflow: &str, value: &Value) -> Result<String> {
        let sent = self.file.write(Sending::append(workflow, value)?).await?;
        Ok(sent.key)
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
        let recording = Recording::new(claim, step, value);
        let recorded = Recording::make(&[&recording], &mut transaction).await?.pop();
        let recorded = recorded.unwrap_or_else(|| Err(Error::store("a write was not answered")))?;
        prolong(&mut transaction, claim, &self.file).await?;
        transaction.commit().await?;
        Ok(recorded)
    }

    async fn cancel(&self, workflow: &str) -> Result<bool> {
        let mut transaction = self.file.begin().await?;
        let cancelled = cancel(&mut transaction, workflow, self.file.now()).await?;
        transaction.commit().await?;
        if cancelled {
            self.file.hints().tell_ended(workflow);
        }
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

/// The checkpoints of workflows, where there is anything in them. Of one that is known up to some place, what was sent to it
/// since.
pub(crate) async fn load(
    connection: &mut SqliteConnection,
    workflows: &[(&str, Option<i64>)],
) -> Result<HashMap<String, Vec<Record>>> {
    let doing = || match workflows {
        [(one, _)] => format!("load workflow `{one}`"),
        many => format!("load {} workflows", many.len()),
    };
    let mut checkpoints: HashMap<String, Vec<Record>> = HashMap::new();
    if workflows.is_empty() {
        return Ok(checkpoints);
    }
    let rows = sqlx::query(LOAD)
        .bind(array(workflows)?)
        .fetch_all(connection)
        .await
        .doing(doing)?;
    for row in &rows {
        let place: i64 = row.try_get("place").doing(doing)?;
        let workflow = usize::try_from(place).ok().and_then(|place| workflows.get(place));
        if let Some((workflow, _)) = workflow {
            let records = checkpoints.entry((*workflow).to_owned()).or_default();
            records.push(rows::record(row).doing(doing)?);
        }
    }
    Ok(checkpoints)
}

/// Claims workflows, each with the namespace it is to run in where that is known. Those that are not granted are held or over.
pub(crate) async fn claim(
    connection: &mut SqliteConnection,
    workflows: &[(&str, Option<&str>)],
    now: Timestamp,
    lease: Duration,
) -> Result<HashMap<String, Granted>> {
    if workflows.is_empty() {
        return Ok(HashMap::new());
    }
    let granted: Vec<(String, i64, i64, Option<String>)> = sqlx::query_as(CLAIM)
        .bind(array(workflows)?)
        .bind(now.as_micros())
        .bind(now.after(lease).as_micros())
        .fetch_all(connection)
        .await
        .doing(|| match workflows {
            [(one, _)] => format!("claim workflow `{one}`"),
            many => format!("claim {} workflows", many.len()),
        })?;
    let granted = granted.into_iter().map(|(workflow, token, failed, interrupted)| {
        let claim = Claim {
            workflow: workflow.clone(),
            token,
        };
        let granted = Granted {
            claim,
            attempts: attempts(failed),
            interrupted,
        };
        (workflow, granted)
    });
    Ok(granted.collect())
}

async fn is_over(connection: &mut SqliteConnection, workflow: &str) -> Result<bool> {
    let over: Option<bool> = sqlx::query_scalar(STATE)
        .bind(workflow)
        .fetch_optional(connection)
        .await
        .doing(|| format!("claim workflow `{workflow}`"))?;
    Ok(over.unwrap_or(false))
}

/// Gives signs of life. Whether each claim still holds its workflow.
pub(crate) async fn renew(connection: &mut SqliteConnection, lives: &[&Life], until: Timestamp) -> Result<Vec<bool>> {
    let asked = lives
        .iter()
        .map(|life| (&life.claim.workflow, life.claim.token, &life.running));
    let alive: HashSet<(String, i64)> = sqlx::query_as(RENEW)
        .bind(array(asked)?)
        .bind(until.as_micros())
        .fetch_all(connection)
        .await
        .doing(|| match lives {
            [one] => format!("renew the claim of workflow `{}`", one.claim.workflow),
            many => format!("renew {} claims", many.len()),
        })?
        .into_iter()
        .collect();
    let claims = lives.iter().map(|life| (life.claim.workflow.clone(), life.claim.token));
    Ok(claims.map(|claim| alive.contains(&claim)).collect())
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
