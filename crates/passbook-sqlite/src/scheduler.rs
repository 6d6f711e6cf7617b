//! The queue.

use std::collections::HashSet;
use std::time::Duration;

use passbook::{Clock, Delivery, Error, Result, Scheduler, Timestamp, Wakeups, check_name};
use sqlx::SqliteConnection;

use crate::SqliteFile;
use crate::error::Doing;
use crate::rows::array;

const MAKE_READY: &str = include_str!("../sql/make_ready.sql");
const DUE: &str = include_str!("../sql/due.sql");
const RECEIPT: &str = include_str!("../sql/receipt.sql");
const TAKE: &str = include_str!("../sql/take.sql");
const EXTEND: &str = include_str!("../sql/extend.sql");
const WAKE_AT: &str = include_str!("../sql/wake_at.sql");
const DONE: &str = include_str!("../sql/done.sql");
const HURRY: &str = include_str!("../sql/hurry.sql");
const DEQUEUE: &str = include_str!("../sql/dequeue.sql");
const NEXT_DUE: &str = include_str!("../sql/next_due.sql");

/// The right to run, in a SQLite file.
///
/// Every call that writes is one transaction. A future that is dropped half-way has written all or nothing; which of
/// the two, nobody is told.
#[derive(Clone, Debug)]
pub struct SqliteScheduler {
    pub(crate) file: SqliteFile,
}

impl SqliteScheduler {
    /// The scheduler in this file.
    pub fn new(file: &SqliteFile) -> Self {
        Self { file: file.clone() }
    }

    /// Refuses a lease that a few round trips would eat up: it would run out while its renewal is under way.
    async fn check_round_trip(&self) -> Result<()> {
        let mut reader = self.file.read().await?;
        let mut shortest = Duration::MAX;
        // The shortest of some, so that one hiccup of a booting machine refuses nobody.
        for _ in 0..5 {
            let since = std::time::Instant::now();
            next_due(&mut reader, &[String::new()]).await?;
            shortest = shortest.min(since.elapsed());
        }
        if self.file.lease() < shortest * 3 {
            return Err(Error::invalid(format!(
                "the lease is {:?} and a round trip to `{}` takes {shortest:?}; give a lease of several times that",
                self.file.lease(),
                self.file.path().display()
            )));
        }
        Ok(())
    }
}

impl Scheduler for SqliteScheduler {
    fn lease(&self) -> Duration {
        self.file.lease()
    }

    fn poll(&self) -> Duration {
        self.file.poll()
    }

    fn clock(&self) -> &Clock {
        self.file.clock()
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.file.now())
    }

    async fn prepare(&self) -> Result<()> {
        crate::migrate::migrate(&self.file).await?;
        self.check_round_trip().await
    }

    async fn make_ready(&self, namespace: &str, workflow: &str) -> Result<()> {
        check_name("namespace", namespace)?;
        check_name("workflow id", workflow)?;
        let mut transaction = self.file.begin().await?;
        make_ready(&mut transaction, &self.file, namespace, workflow, self.file.now()).await?;
        transaction.commit().await
    }

    async fn next_ready(&self, namespaces: &[String], limit: usize) -> Result<Vec<Delivery>> {
        let next = look(&self.file, namespaces).await?;
        if next.is_none_or(|next| next > self.file.now()) || limit == 0 {
            return Ok(Vec::new());
        }
        let mut transaction = self.file.begin().await?;
        let now = self.file.now();
        let deliveries = take(&mut transaction, namespaces, limit, now, self.file.lease()).await?;
        transaction.commit().await?;
        Ok(deliveries)
    }

    async fn wake_at(&self, delivery: &Delivery, when: Timestamp) -> Result<()> {
        let mut transaction = self.file.begin().await?;
        wake_at(&mut transaction, &[(delivery, when)], self.file.now()).await?;
        // Also when it is due later: an idle worker would look too late, were it not told.
        self.file.wakes();
        transaction.commit().await
    }

    async fn done(&self, delivery: &Delivery) -> Result<()> {
        let mut transaction = self.file.begin().await?;
        done(&mut transaction, &self.file, &[delivery], self.file.now()).await?;
        transaction.commit().await
    }

    async fn extend(&self, deliveries: &[Delivery]) -> Result<Vec<Delivery>> {
        if deliveries.is_empty() {
            return Ok(Vec::new());
        }
        let deliveries: Vec<&Delivery> = deliveries.iter().collect();
        let mut transaction = self.file.begin().await?;
        let extended = extend(&mut transaction, &deliveries, self.file.now(), self.file.lease()).await?;
        transaction.commit().await?;
        Ok(extended.into_iter().flatten().collect())
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<()> {
        let mut transaction = self.file.begin().await?;
        dequeue(&mut transaction, namespace, workflow).await?;
        transaction.commit().await
    }

    async fn next_due(&self, namespaces: &[String]) -> Result<Option<Duration>> {
        let next = look(&self.file, namespaces).await?;
        Ok(next.map(|at| self.file.now().until(at)))
    }

    fn wakeups(&self, namespaces: &[String]) -> Wakeups {
        self.file.wakeups(namespaces)
    }
}

/// When the next workflow of these namespaces is due. Looks without the write lock, so that idle workers do not stand in
/// the way of those that write. It sees every commit before it, so a wakeup is not missed.
pub(crate) async fn look(file: &SqliteFile, namespaces: &[String]) -> Result<Option<Timestamp>> {
    let mut reader = file.read().await?;
    next_due(&mut reader, namespaces).await
}

/// When the next workflow of these namespaces is due.
pub(crate) async fn next_due(connection: &mut SqliteConnection, namespaces: &[String]) -> Result<Option<Timestamp>> {
    let mut earliest = None;
    for namespace in namespaces {
        let at: Option<i64> = sqlx::query_scalar(NEXT_DUE)
            .bind(namespace)
            .fetch_one(&mut *connection)
            .await
            .doing(|| format!("look when namespace `{namespace}` is due"))?;
        earliest = earliest.into_iter().chain(at.map(Timestamp::from_micros)).min();
    }
    Ok(earliest)
}

/// Takes what is due: first an equal share for each namespace, so that none starves another, then whatever is left, in
/// the order given.
pub(crate) async fn take(
    connection: &mut SqliteConnection,
    namespaces: &[String],
    limit: usize,
    now: Timestamp,
    lease: Duration,
) -> Result<Vec<Delivery>> {
    let mut taken: Vec<Delivery> = Vec::new();
    if limit == 0 || namespaces.is_empty() {
        return Ok(taken);
    }
    let receipt = receipt(connection, now, lease).await?;
    let share = limit.div_ceil(namespaces.len());
    // Those that have more than their share.
    let mut namespaces: Vec<&String> = namespaces.iter().collect();
    for most in [share, limit] {
        let mut more = Vec::new();
        for namespace in namespaces {
            let most = most.min(limit - taken.len());
            if most == 0 {
                return Ok(taken);
            }
            let limit = i64::try_from(most).unwrap_or(i64::MAX);
            let due: Vec<String> = sqlx::query_scalar(DUE)
                .bind(namespace)
                .bind(now.as_micros())
                .bind(limit)
                .fetch_all(&mut *connection)
                .await
                .doing(|| format!("look what is due in namespace `{namespace}`"))?;
            if due.len() == most {
                more.push(namespace);
            }
            if due.is_empty() {
                continue;
            }
            sqlx::query(TAKE)
                .bind(namespace)
                .bind(now.as_micros())
                .bind(limit)
                .bind(receipt.as_micros())
                .execute(&mut *connection)
                .await
                .doing(|| format!("take {} workflows of namespace `{namespace}`", due.len()))?;
            taken.extend(due.into_iter().map(|workflow| Delivery {
                namespace: namespace.clone(),
                workflow,
                receipt,
            }));
        }
        namespaces = more;
    }
    Ok(taken)
}

/// Draws the receipt of what is hidden from now on for one lease.
async fn receipt(connection: &mut SqliteConnection, now: Timestamp, lease: Duration) -> Result<Timestamp> {
    sqlx::query_scalar(RECEIPT)
        .bind(now.after(lease).as_micros())
        .fetch_one(connection)
        .await
        .map(Timestamp::from_micros)
        .doing(|| "draw a receipt".to_owned())
}

pub(crate) async fn make_ready(
    connection: &mut SqliteConnection,
    file: &SqliteFile,
    namespace: &str,
    workflow: &str,
    now: Timestamp,
) -> Result<()> {
    sqlx::query(MAKE_READY)
        .bind(namespace)
        .bind(workflow)
        .bind(now.as_micros())
        .execute(connection)
        .await
        .doing(|| format!("make workflow `{workflow}` ready"))?;
    file.wakes();
    Ok(())
}

/// Hides deliveries for another lease. Each under its new receipt, where it was still held.
pub(crate) async fn extend(
    connection: &mut SqliteConnection,
    deliveries: &[&Delivery],
    now: Timestamp,
    lease: Duration,
) -> Result<Vec<Option<Delivery>>> {
    let receipt = receipt(connection, now, lease).await?;
    let extended: HashSet<(String, String)> = sqlx::query_as(EXTEND)
        .bind(receipts(deliveries)?)
        .bind(receipt.as_micros())
        .fetch_all(connection)
        .await
        .doing(|| format!("extend {} deliveries", deliveries.len()))?
        .into_iter()
        .collect();
    let extended = deliveries.iter().map(|delivery| {
        let key = (delivery.namespace.clone(), delivery.workflow.clone());
        extended.contains(&key).then(|| Delivery {
            receipt,
            ..(*delivery).clone()
        })
    });
    Ok(extended.collect())
}

/// Answers for deliveries that are due again.
pub(crate) async fn wake_at(
    connection: &mut SqliteConnection,
    deliveries: &[(&Delivery, Timestamp)],
    now: Timestamp,
) -> Result<()> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let asked = deliveries.iter().map(|(delivery, when)| {
        let receipt = delivery.receipt.as_micros();
        (&delivery.namespace, &delivery.workflow, receipt, when.as_micros())
    });
    sqlx::query(WAKE_AT)
        .bind(array(asked)?)
        .bind(now.as_micros())
        .execute(connection)
        .await
        .doing(|| format!("answer for {} deliveries", deliveries.len()))?;
    Ok(())
}

/// Answers for deliveries after which nothing is to be run.
pub(crate) async fn done(
    connection: &mut SqliteConnection,
    file: &SqliteFile,
    deliveries: &[&Delivery],
    now: Timestamp,
) -> Result<()> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let asked = receipts(deliveries)?;
    let doing = || format!("answer for {} deliveries", deliveries.len());
    let done = sqlx::query(DONE)
        .bind(&asked)
        .execute(&mut *connection)
        .await
        .doing(doing)?;
    if done.rows_affected() < deliveries.len() as u64 {
        let hurried = sqlx::query(HURRY)
            .bind(&asked)
            .bind(now.as_micros())
            .execute(connection)
            .await
            .doing(doing)?;
        if hurried.rows_affected() > 0 {
            file.wakes();
        }
    }
    Ok(())
}

/// Rows of namespace, workflow and receipt.
fn receipts(deliveries: &[&Delivery]) -> Result<String> {
    array(deliveries.iter().map(|delivery| {
        let receipt = delivery.receipt.as_micros();
        (&delivery.namespace, &delivery.workflow, receipt)
    }))
}

pub(crate) async fn dequeue(connection: &mut SqliteConnection, namespace: &str, workflow: &str) -> Result<()> {
    sqlx::query(DEQUEUE)
        .bind(namespace)
        .bind(workflow)
        .execute(connection)
        .await
        .doing(|| format!("take workflow `{workflow}` out of the queue"))?;
    Ok(())
}
