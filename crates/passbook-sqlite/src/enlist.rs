//! What comes from outside: start, arrive and deliver, in a transaction of the caller's.

use passbook::{Enlist, Error, Recorded, Result, Value};
use sqlx::SqliteConnection;

use crate::SqliteDurable;
use crate::error::Doing;
use crate::requests::{Sending, Sent};

const ENLIST: &str = include_str!("../sql/enlist.sql");
const ENLISTED: &str = include_str!("../sql/enlisted.sql");
const WITHDRAW: &str = include_str!("../sql/withdraw.sql");

/// The caller's transaction must be on the file of the store. Begin it with `BEGIN IMMEDIATE`, or take
/// [`SqliteFile::begin`](crate::SqliteFile::begin): one that reads first and writes later fails as unavailable when
/// another writer came in between.
///
/// While it is open it holds the file's only write lock, so all other writers wait. A call that fails leaves the
/// transaction as it was before the call; one whose future is dropped may leave half of it, so roll back then. Idle workers,
/// of this process and of others, are told of the commit.
impl Enlist for SqliteDurable {
    async fn start_in(
        &self,
        tx: &mut SqliteConnection,
        namespace: &str,
        workflow: &str,
        input: &Value,
    ) -> Result<Recorded> {
        Ok(self
            .send(tx, Sending::start(namespace, workflow, input)?)
            .await?
            .recorded)
    }

    async fn arrive_in(
        &self,
        tx: &mut SqliteConnection,
        namespace: &str,
        workflow: &str,
        key: &str,
        value: &Value,
    ) -> Result<Recorded> {
        Ok(self
            .send(tx, Sending::arrive(namespace, workflow, key, value)?)
            .await?
            .recorded)
    }

    async fn deliver_in(
        &self,
        tx: &mut SqliteConnection,
        namespace: &str,
        workflow: &str,
        value: &Value,
    ) -> Result<String> {
        Ok(self.send(tx, Sending::deliver(namespace, workflow, value)?).await?.key)
    }
}

impl SqliteDurable {
    async fn send(&self, tx: &mut SqliteConnection, sending: Sending) -> Result<Sent> {
        run(tx, ENLIST).await?;
        let sent = match Sending::send(&[&sending], tx, self.file()).await {
            Ok(mut sent) => sent
                .pop()
                .unwrap_or_else(|| Err(Error::store("a write was not answered"))),
            Err(error) => Err(error),
        };
        // Keeps what the call did, or undoes just that.
        if sent.is_err() {
            run(tx, WITHDRAW).await?;
        }
        run(tx, ENLISTED).await?;
        sent
    }
}

async fn run(tx: &mut SqliteConnection, statement: &'static str) -> Result<()> {
    sqlx::query(statement)
        .execute(tx)
        .await
        .doing(|| "take part in the caller's transaction".to_owned())?;
    Ok(())
}
