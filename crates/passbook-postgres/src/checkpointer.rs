//! What was done, and who may write it.

use std::sync::Arc;
use std::time::Duration;

use passbook::{
    Begun, Checkpointer, Claim, Claimed, Error, Granted, Life, Record, Recorded, Result, Settlement, Value, check_name,
};
use sqlx::postgres::PgPool;
use sqlx::{PgConnection, Row, Transaction};

use crate::PostgresOptions;
use crate::batch::Request as _;
use crate::connection::{Asking, COLLISIONS, Link};
use crate::error::{Doing, is_collision};
use crate::requests::Recording;
use crate::rows;
use crate::settling::Settling;
use crate::statements::safe;

/// The checkpointer of a database: the tables `workflow_checkpoint` and `workflow_claim`.
///
/// A `transact` effect holds one connection of the pool while it runs, and locks nothing of ours until it commits. Signs of
/// life go over a connection of their own, so effects that hold every connection do not starve them.
#[derive(Clone, Debug)]
pub struct PostgresCheckpointer(pub(crate) Arc<Link>);

impl PostgresCheckpointer {
    /// The checkpointer over a pool of the caller's own. Refused when an option cannot work. The lease is held against the
    /// server's round trip when a scheduler [prepares](passbook::Scheduler::prepare).
    pub fn new(pool: PgPool, options: &PostgresOptions) -> Result<Self> {
        Ok(Self(Link::new(pool, options)?))
    }

    async fn look_up(&self, workflow: &str, step: &str) -> Result<Option<Value>> {
        let what = || format!("read `{step}` of workflow `{workflow}`");
        let rows = self
            .0
            .ask(&self.0.statements.look_up, |q| q.bind(workflow).bind(step), what)
            .await?;
        let values = rows::all(
            &rows,
            |row| Ok(Value::stored(row.try_get::<&str, _>("value")?)),
            "read a record",
        )?;
        Ok(values.into_iter().next())
    }

    /// Deletes in two statements of one transaction: the second must see what the last holder committed before the fence was
    /// raised by the first.
    pub(crate) async fn delete(&self, namespace: Option<&str>, workflow: &str) -> Result<u64> {
        let mut collided = 0;
        loop {
            match self.try_delete(namespace, workflow).await {
                Err(error) if is_collision(&error) && collided < COLLISIONS => collided += 1,
                deleted => return deleted.doing(|| format!("delete workflow `{workflow}`")),
            }
        }
    }

    async fn try_delete(&self, namespace: Option<&str>, workflow: &str) -> sqlx::Result<u64> {
        let persistent = self.0.persistent();
        let mut transaction = self.0.pool.begin().await?;
        sqlx::query(safe(&self.0.statements.fence))
            .bind(namespace)
            .bind(workflow)
            .bind(self.0.bound_now())
            .persistent(persistent)
            .execute(&mut *transaction)
            .await?;
        let removed = sqlx::query(safe(&self.0.statements.discard))
            .bind(workflow)
            .persistent(persistent)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(removed.rows_affected())
    }
}

impl Checkpointer for PostgresCheckpointer {
    type Tx = PgConnection;
    type Transaction = Transaction<'static, sqlx::Postgres>;

    fn lease(&self) -> Duration {
        self.0.lease
    }

    async fn load(&self, workflow: &str) -> Result<Vec<Record>> {
        let what = || format!("load workflow `{workflow}`");
        let rows = self
            .0
            .ask(
                &self.0.statements.load,
                |q| q.bind([workflow].as_slice()).bind([None::<i64>].as_slice()),
                what,
            )
            .await?;
        rows::all(&rows, rows::record, "load a workflow")
    }

    async fn claim(&self, workflow: &str) -> Result<Claimed> {
        check_name("workflow id", workflow)?;
        let (now, lease) = (self.0.bound_now(), self.0.lease_interval());
        let what = || format!("claim workflow `{workflow}`");
        let bind = |q: Asking| q.bind(workflow).bind(now).bind(lease);
        let rows = self.0.ask(&self.0.statements.claim, bind, what).await?;
        if rows.is_empty() {
            let bind = |q: Asking| q.bind(workflow);
            let rows = self.0.ask(&self.0.statements.claim_state, bind, what).await?;
            let over: Vec<bool> = rows::all(&rows, |row| row.try_get("over"), "claim a workflow")?;
            return Ok(if over == [true] { Claimed::Over } else { Claimed::Held });
        }
        let granted = |row: &_| granted(row, workflow);
        Ok(Claimed::Granted(rows::one(&rows, granted, "claim a workflow")?))
    }

    async fn release(&self, claim: &Claim, outcome: &Settlement) -> Result<bool> {
        let (released, _) = Settling::without_delivery(claim, outcome).one(&self.0).await?;
        if released.is_held() && outcome.is_over() {
            self.0.tell_ended(&claim.workflow);
        }
        Ok(released.is_held())
    }

    async fn renew(&self, lives: &[Life]) -> Result<Vec<bool>> {
        let renewed = crate::durable::renew(&self.0, lives.iter().map(|life| (life, None))).await?;
        Ok(renewed.into_iter().map(|(alive, _)| alive).collect())
    }

    async fn record(&self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        check_name("step name", step)?;
        let request = Recording {
            claim: claim.clone(),
            step: step.to_owned(),
            value: value.clone(),
        };
        self.0.records.ask(&self.0, request).await
    }

    async fn supply(&self, workflow: &str, step: &str, value: &Value) -> Result<Recorded> {
        check_name("workflow id", workflow)?;
        check_name("key", step)?;
        let bind = |q: Asking| q.bind(workflow).bind(step).bind(value.as_str());
        let what = || format!("supply `{step}` of workflow `{workflow}`");
        let rows = self.0.ask(&self.0.statements.supply, bind, what).await?;
        rows::one(&rows, |row| rows::recorded(row, value), "supply a value")
    }

    async fn append(&self, workflow: &str, value: &Value) -> Result<String> {
        check_name("workflow id", workflow)?;
        let bind = |q: Asking| q.bind(workflow).bind(value.as_str());
        let what = || format!("append to workflow `{workflow}`");
        let rows = self.0.ask(&self.0.statements.append, bind, what).await?;
        rows::one(&rows, |row| row.try_get("step"), "append to a workflow")
    }

    async fn begin(&self, claim: &Claim, step: &str) -> Result<Begun<Self::Transaction>> {
        check_name("step name", step)?;
        let what = || format!("begin step `{step}` of workflow `{}`", claim.workflow);
        let mut transaction = self.0.pool.begin().await.doing(what)?;
        let row = sqlx::query(safe(&self.0.statements.begin))
            .bind(&claim.workflow)
            .bind(step)
            .bind(claim.token)
            .persistent(self.0.persistent())
            .fetch_optional(&mut *transaction)
            .await
            .doing(what)?;
        let (holds, value) = match row {
            Some(row) => {
                let value: Option<&str> = row.try_get("value").doing(what)?;
                (row.try_get("holds").doing(what)?, value.map(Value::stored))
            }
            None => (false, None),
        };
        if !holds {
            return Err(Error::fenced(&format!("step `{step}`"), &claim.workflow));
        }
        Ok(match value {
            Some(value) => Begun::Recorded(value),
            None => Begun::Open(transaction),
        })
    }

    async fn commit(
        &self,
        mut transaction: Self::Transaction,
        claim: &Claim,
        step: &str,
        value: &Value,
    ) -> Result<Recorded> {
        let what = || format!("commit step `{step}` of workflow `{}`", claim.workflow);
        let row = sqlx::query(safe(&self.0.statements.record))
            .bind(&claim.workflow)
            .bind(step)
            .bind(value.as_str())
            .bind(claim.token)
            .persistent(self.0.persistent())
            .fetch_optional(&mut *transaction)
            .await
            .doing(what)?;
        let Some(row) = row else {
            return Err(Error::fenced(&format!("the commit of step `{step}`"), &claim.workflow));
        };
        let recorded = rows::recorded(&row, value).doing(what)?;
        if recorded.first {
            transaction.commit().await.doing(what)?;
            return Ok(recorded);
        }
        // Somebody's value stands there: the effect must not. If nothing is there once it is undone, it was the effect's.
        transaction.rollback().await.doing(what)?;
        match self.look_up(&claim.workflow, step).await? {
            Some(value) => Ok(Recorded { value, first: false }),
            None => Err(Error::refused(format!(
                "the effect of step `{step}` of workflow `{}` wrote the step's own record; return the value instead, it is recorded in the same commit",
                claim.workflow
            ))),
        }
    }

    async fn rollback(&self, transaction: Self::Transaction) -> Result<()> {
        transaction.rollback().await.doing(|| "roll back a step".to_owned())
    }

    async fn cancel(&self, workflow: &str) -> Result<bool> {
        let cancelled = crate::durable::cancel(&self.0, None, workflow).await?;
        if cancelled {
            self.0.tell_ended(workflow);
        }
        Ok(cancelled)
    }

    async fn reopen(&self, workflow: &str) -> Result<bool> {
        crate::durable::reopen(&self.0, None, workflow).await
    }

    async fn discard(&self, workflow: &str) -> Result<u64> {
        self.delete(None, workflow).await
    }
}

/// A row of a claim that was granted.
pub(crate) fn granted(row: &sqlx::postgres::PgRow, workflow: &str) -> sqlx::Result<Granted> {
    Ok(Granted {
        claim: Claim {
            workflow: workflow.to_owned(),
            token: row.try_get("token")?,
        },
        attempts: rows::attempts(row.try_get("attempts")?),
        interrupted: row.try_get("running")?,
    })
}
