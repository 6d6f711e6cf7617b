//! The pair, and what crosses both in one commit.

use std::path::Path;

use passbook::{
    Acquire, Acquired, Claim, Claimed, Delivery, Durable, Error, Granted, Life, Pass, RESULT, Recorded, Renewed,
    Result, Settled, Settlement, StoreTime, Value,
};

use crate::{SqliteCheckpointer, SqliteFile, SqliteOptions, SqliteScheduler};
use crate::{checkpointer, enlist, scheduler};

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
        let mut transaction = self.file().begin().await?;
        let now = self.file().now();
        let recorded = enlist::start(&mut transaction, namespace, workflow, input, now).await?;
        transaction.commit().await?;
        Ok(recorded)
    }

    async fn arrive(&self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        let mut transaction = self.file().begin().await?;
        let now = self.file().now();
        let recorded = enlist::arrive(&mut transaction, namespace, workflow, key, value, now).await?;
        transaction.commit().await?;
        Ok(recorded)
    }

    async fn deliver(&self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        let mut transaction = self.file().begin().await?;
        let now = self.file().now();
        let key = enlist::deliver(&mut transaction, namespace, workflow, value, now).await?;
        transaction.commit().await?;
        Ok(key)
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let mut transaction = self.file().begin().await?;
        scheduler::dequeue(&mut transaction, namespace, workflow).await?;
        let cancelled = checkpointer::cancel(&mut transaction, workflow, self.file().now()).await?;
        transaction.commit().await?;
        Ok(cancelled)
    }

    async fn reopen(&self, namespace: &str, workflow: &str) -> Result<bool> {
        let mut transaction = self.file().begin().await?;
        // A queue row of another kind would hand the workflow to a worker that cannot run it.
        enlist::check_kind(&mut transaction, namespace, workflow).await?;
        let now = self.file().now();
        let reopened = checkpointer::reopen(&mut transaction, workflow, now).await?;
        if reopened {
            scheduler::make_ready(&mut transaction, namespace, workflow, now).await?;
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
        for delivery in deliveries {
            match enlist::check_kind(&mut transaction, &delivery.namespace, &delivery.workflow).await {
                // Something was sent as to another kind before the start told which kind it is.
                Err(error) if error.is_wrong_kind() => {
                    scheduler::done(&mut transaction, &delivery, now).await?;
                    continue;
                }
                known => known?,
            }
            let kind = Some(delivery.namespace.as_str());
            match checkpointer::claim(&mut transaction, &delivery.workflow, kind, now, lease).await? {
                Claimed::Granted(Granted {
                    claim,
                    attempts,
                    interrupted,
                }) => {
                    let pass = Pass {
                        records: checkpointer::load(&mut transaction, &claim.workflow).await?,
                        since: None,
                        claim,
                        time: StoreTime::new(self.file().now(), self.file().clock()),
                        lease,
                        attempts,
                        interrupted,
                    };
                    acquired.passes.push((pass, delivery));
                }
                // Its pass will find that the receipt has changed, and leave the workflow ready.
                Claimed::Held => {}
                Claimed::Over => scheduler::done(&mut transaction, &delivery, now).await?,
            }
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
        let mut transaction = self.file().begin().await?;
        let (now, lease) = (self.file().now(), self.file().lease());
        let receipt = scheduler::receipt(&mut transaction, now, lease).await?;
        let mut renewed = Vec::with_capacity(held.len());
        for (life, delivery) in held {
            let alive = checkpointer::renew(&mut transaction, life, now.after(lease)).await?;
            let extended = scheduler::extend(&mut transaction, delivery, receipt).await?;
            renewed.push(Renewed {
                alive,
                delivery: extended.unwrap_or_else(|| delivery.clone()),
            });
        }
        transaction.commit().await?;
        Ok(renewed)
    }

    async fn settle(&self, claim: &Claim, delivery: &Delivery, outcome: &Settlement) -> Result<Settled> {
        let mut transaction = self.file().begin().await?;
        let now = self.file().now();
        if !checkpointer::release(&mut transaction, claim, outcome, now).await? {
            // Nothing was written, so this is only the end of it.
            transaction.commit().await?;
            return Ok(Settled::Lost);
        }
        if let Settlement::Completed { result } = outcome {
            checkpointer::record(&mut transaction, claim, RESULT, result).await?;
        }
        match outcome {
            Settlement::Suspended {
                wake_at: Some(when), ..
            }
            | Settlement::Failed {
                retry_at: Some(when), ..
            } => scheduler::wake_at(&mut transaction, delivery, *when, now).await?,
            Settlement::HandedBack => scheduler::wake_at(&mut transaction, delivery, now, now).await?,
            Settlement::Completed { .. } | Settlement::Suspended { .. } | Settlement::Failed { .. } => {
                scheduler::done(&mut transaction, delivery, now).await?;
            }
        }
        transaction.commit().await?;
        Ok(Settled::Woken)
    }
}
