//! The pair, and what crosses both in one commit.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use passbook::{
    Acquire, Acquired, Batches, Claim, Delivery, Durable, Error, Granted, Life, Pass, Recorded, Renewed, Result,
    Settled, Settlement, StoreTime, Value,
};
use sqlx::SqliteConnection;

use crate::error::Doing;
use crate::requests::Sending;
use crate::rows::array;
use crate::settling::Settling;
use crate::{SqliteCheckpointer, SqliteFile, SqliteOptions, SqliteScheduler};
use crate::{checkpointer, requests, scheduler};

const MOOT: &str = include_str!("../sql/moot.sql");

/// The whole store in a SQLite file: every transition is one commit.
///
/// ```
/// use passbook::Scheduler;
/// use passbook_sqlite::{Sqlite, SqliteCheckpointer, SqliteFile, SqliteScheduler};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("work.db");
/// let file = SqliteFile::open(&path).await?;
/// let store = Sqlite::new(SqliteCheckpointer::new(&file), SqliteScheduler::new(&file))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteDurable {
    checkpointer: SqliteCheckpointer,
    scheduler: SqliteScheduler,
}

impl SqliteDurable {
    /// Bundles the two. Refused when they are not over one handle: one commit could not cover both.
    pub fn new(checkpointer: SqliteCheckpointer, scheduler: SqliteScheduler) -> Result<Self> {
        if !checkpointer.file.is_same(&scheduler.file) {
            return Err(Error::invalid(format!(
                "the checkpointer is over `{}` and the scheduler over `{}` by another handle; make both from clones of one `SqliteFile`, or pair them as a `SplitDurable`",
                checkpointer.file.path().display(),
                scheduler.file.path().display()
            )));
        }
        Ok(Self {
            checkpointer,
            scheduler,
        })
    }

    /// The store over a handle.
    pub fn over(file: &SqliteFile) -> Self {
        Self {
            checkpointer: SqliteCheckpointer::new(file),
            scheduler: SqliteScheduler::new(file),
        }
    }

    /// Opens the file with the default options, and creates it when it is not there. The schema is made by
    /// [`prepare`](passbook::Scheduler::prepare), which every worker calls at boot.
    ///
    /// Files only: `:memory:` and addresses are refused, since several connections must see one store.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path).await
    }

    /// How a file is opened.
    pub fn options() -> SqliteOptions {
        SqliteOptions::default()
    }

    /// The handle, for transactions of the application's own and for closing.
    pub fn file(&self) -> &SqliteFile {
        &self.checkpointer.file
    }

    /// How the writes of this handle have gone together; see [`SqliteOptions::batching`].
    pub fn batches(&self) -> Batches {
        self.file().batch().counted()
    }
}

impl Durable for SqliteDurable {
    type Checkpointer = SqliteCheckpointer;
    type Scheduler = SqliteScheduler;

    fn checkpointer(&self) -> &SqliteCheckpointer {
        &self.checkpointer
    }

    fn scheduler(&self) -> &SqliteScheduler {
        &self.scheduler
    }

    async fn start(&self, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        let sent = self.file().write(Sending::start(namespace, workflow, input)?).await?;
        Ok(sent.recorded)
    }

    async fn arrive(&self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        let sent = self
            .file()
            .write(Sending::arrive(namespace, workflow, key, value)?)
            .await?;
        Ok(sent.recorded)
    }

    async fn deliver(&self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        let sent = self.file().write(Sending::deliver(namespace, workflow, value)?).await?;
        Ok(sent.key)
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let mut transaction = self.file().begin().await?;
        scheduler::dequeue(&mut transaction, namespace, workflow).await?;
        let cancelled = checkpointer::cancel(&mut transaction, workflow, self.file().now()).await?;
        transaction.commit().await?;
        if cancelled {
            self.file().hints().tell_ended(workflow);
        }
        Ok(cancelled)
    }

    async fn reopen(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let mut transaction = self.file().begin().await?;
        // A queue row of another kind would hand the workflow to a worker that cannot run it.
        if requests::kind(&mut transaction, workflow)
            .await?
            .is_some_and(|kind| kind != namespace)
        {
            return Err(Error::wrong_kind(workflow, namespace));
        }
        let now = self.file().now();
        let reopened = checkpointer::reopen(&mut transaction, workflow, now).await?;
        if reopened {
            scheduler::make_ready(&mut transaction, self.file(), namespace, workflow, now).await?;
        }
        transaction.commit().await?;
        Ok(reopened)
    }

    async fn delete(&self, namespace: &str, workflow: &str) -> Result<u64> {
        let mut transaction = self.file().begin().await?;
        scheduler::dequeue(&mut transaction, namespace, workflow).await?;
        let removed = checkpointer::discard(&mut transaction, workflow, self.file().now()).await?;
        transaction.commit().await?;
        Ok(removed)
    }

    /// Takes, claims and loads in one transaction, so that nothing is claimed whose checkpoint could not be read. While it
    /// holds the write lock nobody else commits, so the checkpoint is that after the claim.
    async fn acquire(&self, request: &Acquire<'_>) -> Result<Acquired> {
        let mut acquired = Acquired::default();
        let next = scheduler::look(self.file(), request.namespaces).await?;
        if next.is_none_or(|next| next > self.file().now()) || request.limit == 0 {
            acquired.next_due = next.map(|next| self.file().now().until(next));
            return Ok(acquired);
        }

        let mut transaction = self.file().begin().await?;
        let (now, lease) = (self.file().now(), self.file().lease());
        let deliveries = scheduler::take(&mut transaction, request.namespaces, request.limit, now, lease).await?;
        let taken = deliveries.len();

        let moot = moot(&mut transaction, &deliveries).await?;
        let (mut answered, mut wanted) = (Vec::new(), Vec::new());
        for (place, delivery) in (0..).zip(&deliveries) {
            if moot.contains(&place) {
                answered.push(delivery);
            } else {
                wanted.push((delivery.workflow.as_str(), Some(delivery.namespace.as_str())));
            }
        }
        scheduler::done(&mut transaction, self.file(), &answered, now).await?;
        // A workflow that is not granted is held: its pass will find that the receipt has changed, and leave it ready.
        let mut granted = checkpointer::claim(&mut transaction, &wanted, now, lease).await?;
        let workflows: Vec<(&str, Option<i64>)> = granted
            .keys()
            .map(|workflow| (workflow.as_str(), (request.known)(workflow)))
            .collect();
        let mut checkpoints = checkpointer::load(&mut transaction, &workflows).await?;
        for (place, delivery) in (0..).zip(&deliveries) {
            let granted = if moot.contains(&place) {
                None
            } else {
                granted.remove(&delivery.workflow)
            };
            let Some(Granted {
                claim,
                attempts,
                interrupted,
            }) = granted
            else {
                continue;
            };
            let pass = Pass {
                records: checkpoints.remove(&claim.workflow).unwrap_or_default(),
                since: (request.known)(&claim.workflow),
                claim,
                time: StoreTime::new(Instant::now(), self.file().now(), self.file().clock()),
                lease,
                attempts,
                interrupted,
            };
            acquired.passes.push((pass, delivery.clone()));
        }
        if taken < request.limit {
            let next = scheduler::next_due(&mut transaction, request.namespaces).await?;
            acquired.next_due = next.map(|next| now.until(next));
        }
        transaction.commit().await?;
        Ok(acquired)
    }

    async fn renew(&self, held: &[(Life, Delivery)]) -> Result<Vec<Renewed>> {
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let (lives, deliveries): (Vec<&Life>, Vec<&Delivery>) = held.iter().map(|(life, of)| (life, of)).unzip();
        let mut transaction = self.file().begin().await?;
        let (now, lease) = (self.file().now(), self.file().lease());
        let alive = checkpointer::renew(&mut transaction, &lives, now.after(lease)).await?;
        let extended = scheduler::extend(&mut transaction, &deliveries, now, lease).await?;
        transaction.commit().await?;
        let renewed = alive.into_iter().zip(extended).zip(deliveries);
        Ok(renewed
            .map(|((alive, extended), delivery)| Renewed {
                alive,
                delivery: extended.unwrap_or_else(|| delivery.clone()),
            })
            .collect())
    }

    async fn settle(&self, claim: &Claim, delivery: &Delivery, outcome: &Settlement) -> Result<Settled> {
        let asked = Instant::now();
        let settling = Settling::new(claim, Some(delivery), outcome);
        let (settled, recorded) = self.file().write(settling).await?;
        if settled.is_held() {
            let hints = self.file().hints();
            hints.tell_settled(asked, &claim.workflow, outcome, recorded);
        }
        Ok(settled)
    }
}

/// The places of the deliveries that are of no use: the workflow is over or of another kind.
async fn moot(connection: &mut SqliteConnection, deliveries: &[Delivery]) -> Result<HashSet<i64>> {
    if deliveries.is_empty() {
        return Ok(HashSet::new());
    }
    let asked = deliveries.iter().map(|each| (&each.workflow, &each.namespace));
    let moot: Vec<i64> = sqlx::query_scalar(MOOT)
        .bind(array(asked)?)
        .fetch_all(connection)
        .await
        .doing(|| format!("look whether {} workflows can run", deliveries.len()))?;
    Ok(moot.into_iter().collect())
}
