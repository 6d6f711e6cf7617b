//! What comes from outside: start, arrive and deliver, in a transaction of ours or of the caller's.

use std::future::Future;

use passbook::{Enlist, Error, INPUT, Recorded, Result, Timestamp, Value, check_name};
use sqlx::SqliteConnection;

use crate::error::Doing;
use crate::{SqliteDurable, checkpointer, scheduler};

const KIND: &str = include_str!("../sql/kind.sql");
const ENLIST: &str = include_str!("../sql/enlist.sql");
const ENLISTED: &str = include_str!("../sql/enlisted.sql");
const WITHDRAW: &str = include_str!("../sql/withdraw.sql");

/// The caller's transaction must be on the file of the store. Begin it with `BEGIN IMMEDIATE`, or take
/// [`SqliteFile::begin`](crate::SqliteFile::begin): one that reads first and writes later fails as unavailable when
/// another writer came in between.
///
/// While it is open it holds the file's only write lock, so all other writers wait. A call that fails leaves the
/// transaction as it was before the call; one whose future is dropped may leave half of it, so roll back then. Workers
/// of other handles find what was committed by their poll.
impl Enlist for SqliteDurable {
    async fn start_in(
        &self,
        tx: &mut SqliteConnection,
        namespace: &str,
        workflow: &str,
        input: &Value,
    ) -> Result<Recorded> {
        let now = self.file().now();
        mark(tx).await?;
        let started = start(tx, namespace, workflow, input, now).await;
        close(tx, started).await
    }

    async fn arrive_in(
        &self,
        tx: &mut SqliteConnection,
        namespace: &str,
        workflow: &str,
        key: &str,
        value: &Value,
    ) -> Result<Recorded> {
        let now = self.file().now();
        mark(tx).await?;
        let arrived = arrive(tx, namespace, workflow, key, value, now).await;
        close(tx, arrived).await
    }

    async fn deliver_in(
        &self,
        tx: &mut SqliteConnection,
        namespace: &str,
        workflow: &str,
        value: &Value,
    ) -> Result<String> {
        let now = self.file().now();
        mark(tx).await?;
        let delivered = deliver(tx, namespace, workflow, value, now).await;
        close(tx, delivered).await
    }
}

fn mark(tx: &mut SqliteConnection) -> impl Future<Output = Result<()>> + Send {
    run(tx, ENLIST)
}

/// Keeps what the call did, or undoes just that.
async fn close<T>(tx: &mut SqliteConnection, outcome: Result<T>) -> Result<T> {
    if outcome.is_err() {
        run(tx, WITHDRAW).await?;
    }
    run(tx, ENLISTED).await?;
    outcome
}

async fn run(tx: &mut SqliteConnection, statement: &'static str) -> Result<()> {
    sqlx::query(statement)
        .execute(tx)
        .await
        .doing(|| "take part in the caller's transaction".to_owned())?;
    Ok(())
}

/// Refuses a namespace other than the one that the workflow was started under.
pub(crate) async fn check_kind(connection: &mut SqliteConnection, namespace: &str, workflow: &str) -> Result<()> {
    let kind: Option<Option<String>> = sqlx::query_scalar(KIND)
        .bind(workflow)
        .fetch_optional(connection)
        .await
        .doing(|| format!("look up the kind of workflow `{workflow}`"))?;
    match kind.flatten() {
        Some(kind) if kind != namespace => Err(Error::wrong_kind(workflow, namespace)),
        _ => Ok(()),
    }
}

pub(crate) async fn start(
    connection: &mut SqliteConnection,
    namespace: &str,
    workflow: &str,
    input: &Value,
    now: Timestamp,
) -> Result<Recorded> {
    check_name("namespace", namespace)?;
    check_name("workflow id", workflow)?;
    check_kind(connection, namespace, workflow).await?;
    let recorded = checkpointer::supply(connection, workflow, INPUT, input, Some(namespace)).await?;
    // A later start changes nothing: it must neither wake a sleeper nor bring back what has finished.
    if recorded.first {
        scheduler::wake(connection, namespace, workflow, now).await?;
    }
    Ok(recorded)
}

pub(crate) async fn arrive(
    connection: &mut SqliteConnection,
    namespace: &str,
    workflow: &str,
    key: &str,
    value: &Value,
    now: Timestamp,
) -> Result<Recorded> {
    check_name("namespace", namespace)?;
    check_name("workflow id", workflow)?;
    check_name("key", key)?;
    check_kind(connection, namespace, workflow).await?;
    scheduler::wake(connection, namespace, workflow, now).await?;
    let kind = (key == INPUT).then_some(namespace);
    checkpointer::supply(connection, workflow, key, value, kind).await
}

pub(crate) async fn deliver(
    connection: &mut SqliteConnection,
    namespace: &str,
    workflow: &str,
    value: &Value,
    now: Timestamp,
) -> Result<String> {
    check_name("namespace", namespace)?;
    check_name("workflow id", workflow)?;
    check_kind(connection, namespace, workflow).await?;
    scheduler::wake(connection, namespace, workflow, now).await?;
    checkpointer::append(connection, workflow, value).await
}
