//! The right to run.

use std::sync::Arc;
use std::time::Duration;

use passbook::{Clock, Delivery, Error, Result, Scheduler, Timestamp, Wakeups, check_name};
use sqlx::postgres::PgPool;

use crate::connection::{Asking, Link};
use crate::rows::{self, moment};
use crate::{PostgresOptions, migrate};

/// The scheduler of a database: the table `workflow_queue`.
#[derive(Clone, Debug)]
pub struct PostgresScheduler(pub(crate) Arc<Link>);

impl PostgresScheduler {
    /// The scheduler over a pool of the caller's own. Refused when an option cannot work.
    pub fn new(pool: PgPool, options: &PostgresOptions) -> Result<Self> {
        Ok(Self(Link::new(pool, options)?))
    }
}

/// A limit as the server counts.
pub(crate) fn limit(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

impl Scheduler for PostgresScheduler {
    fn lease(&self) -> Duration {
        self.0.lease
    }

    fn poll(&self) -> Duration {
        self.0.poll
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    async fn now(&self) -> Result<Timestamp> {
        self.0.now().await
    }

    async fn prepare(&self) -> Result<()> {
        migrate::migrate(&self.0).await?;
        self.0.check_round_trip().await
    }

    async fn make_ready(&self, namespace: &str, workflow: &str) -> Result<()> {
        check_name("namespace", namespace)?;
        check_name("workflow id", workflow)?;
        let now = self.0.bound_now();
        let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(now);
        let what = || format!("make workflow `{workflow}` ready");
        self.0.ask(&self.0.statements.make_ready, bind, what).await?;
        self.0.tell_ready(Some(namespace));
        Ok(())
    }

    async fn next_ready(&self, namespaces: &[String], of: usize) -> Result<Vec<Delivery>> {
        let (now, lease) = (self.0.bound_now(), self.0.lease_interval());
        let bind = |q: Asking| q.bind(namespaces).bind(limit(of)).bind(now).bind(lease);
        let what = || format!("take from `{}`", namespaces.join("`, `"));
        let rows = self.0.ask(&self.0.statements.next_ready, bind, what).await?;
        rows::all(&rows, rows::delivery, "take workflows")
    }

    async fn wake_at(&self, delivery: &Delivery, when: Timestamp) -> Result<()> {
        let Delivery {
            namespace,
            workflow,
            receipt,
        } = delivery;
        let (receipt, when, now) = (moment(*receipt), moment(when), self.0.bound_now());
        let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(receipt).bind(when).bind(now);
        let what = || format!("put workflow `{workflow}` to sleep");
        self.0.ask(&self.0.statements.wake_at, bind, what).await?;
        self.0.tell_ready(Some(namespace));
        Ok(())
    }

    async fn done(&self, delivery: &Delivery) -> Result<()> {
        let Delivery {
            namespace,
            workflow,
            receipt,
        } = delivery;
        let (receipt, now) = (moment(*receipt), self.0.bound_now());
        let bind = |q: Asking| q.bind(namespace).bind(workflow).bind(receipt).bind(now);
        let what = || format!("answer for the delivery of workflow `{workflow}`");
        self.0.ask(&self.0.statements.done, bind, what).await?;
        self.0.tell_ready(Some(namespace));
        Ok(())
    }

    async fn extend(&self, deliveries: &[Delivery]) -> Result<Vec<Delivery>> {
        let namespaces: Vec<&str> = deliveries.iter().map(|each| each.namespace.as_str()).collect();
        let workflows: Vec<&str> = deliveries.iter().map(|each| each.workflow.as_str()).collect();
        let receipts: Vec<_> = deliveries.iter().map(|each| moment(each.receipt)).collect();
        let (now, lease) = (self.0.bound_now(), self.0.lease_interval());
        let bind = |q: Asking| {
            q.bind(&namespaces)
                .bind(&workflows)
                .bind(&receipts)
                .bind(now)
                .bind(lease)
        };
        let what = || format!("extend {} deliveries", deliveries.len());
        let rows = self
            .0
            .lifeline
            .ask(&self.0, &self.0.statements.extend, bind, what)
            .await?;
        rows::all(&rows, rows::delivery, "extend deliveries")
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<()> {
        let bind = |q: Asking| q.bind(namespace).bind(workflow);
        let what = || format!("take workflow `{workflow}` out of the queue");
        self.0.ask(&self.0.statements.dequeue, bind, what).await?;
        Ok(())
    }

    async fn next_due(&self, namespaces: &[String]) -> Result<Option<Duration>> {
        let now = self.0.bound_now();
        let what = || format!("look at what is due in `{}`", namespaces.join("`, `"));
        let rows = self
            .0
            .ask(&self.0.statements.next_due, |q| q.bind(namespaces).bind(now), what)
            .await?;
        let due = |row: &_| Ok((rows::timestamp(row, "now")?, rows::maybe_timestamp(row, "next_due")?));
        let (now, due) = rows::one(&rows, due, "look at what is due")?;
        Ok(due.map(|due| now.until(due)))
    }

    fn wakeups(&self, namespaces: &[String]) -> Wakeups {
        self.0.wakeups(namespaces)
    }
}

/// Refuses two halves that are not one.
pub(crate) fn same(checkpointer: &Link, scheduler: &Link) -> Result<()> {
    if !Arc::ptr_eq(&checkpointer.pool.connect_options(), &scheduler.pool.connect_options()) {
        return Err(Error::invalid(
            "the checkpointer and the scheduler have two pools; one commit needs one, so make both from clones of the same pool, or take a `SplitDurable`",
        ));
    }
    if checkpointer.schema != scheduler.schema || checkpointer.lease != scheduler.lease {
        return Err(Error::invalid(
            "the checkpointer and the scheduler differ in their schema or lease; make both with the same options",
        ));
    }
    Ok(())
}
