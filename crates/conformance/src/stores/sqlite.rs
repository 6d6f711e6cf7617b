//! SQLite.

use crate::fixture::{EnlistFixture, Fixture, LEASE};
use passbook::{Clock, Durable as _, Scheduler as _};
use passbook_sqlite::{Sqlite, Transaction};
use sqlx::SqliteConnection;
use tempfile::TempDir;

/// A SQLite file in a folder of its own. `File<false>` makes each write by itself.
#[derive(Debug)]
pub struct File<const BATCHING: bool = true> {
    store: Sqlite,
    clock: Clock,
    folder: TempDir,
}

impl<const BATCHING: bool> File<BATCHING> {
    async fn handle(folder: &TempDir, clock: &Clock) -> Sqlite {
        let options = Sqlite::options().lease(LEASE).clock(clock.clone());
        let options = options.batching(BATCHING);
        options.open(folder.path().join("store.db")).await.expect("a store")
    }
}

impl<const BATCHING: bool> Fixture for File<BATCHING> {
    type Store = Sqlite;

    async fn open_under(clock: Clock) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Self::handle(&folder, &clock).await;
        store.scheduler().prepare().await.expect("a schema");
        let mut transaction = store.file().begin().await.expect("a transaction");
        for sql in [
            "CREATE TABLE counter (counted INTEGER NOT NULL)",
            "INSERT INTO counter VALUES (0)",
        ] {
            sqlx::query(sql).execute(&mut *transaction).await.expect("a table");
        }
        transaction.commit().await.expect("a commit");
        Self { store, clock, folder }
    }

    fn store(&self) -> &Sqlite {
        &self.store
    }

    async fn second(&self) -> Sqlite {
        Self::handle(&self.folder, &self.clock).await
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn count(&self, tx: &mut SqliteConnection) {
        let counted = sqlx::query("UPDATE counter SET counted = counted + 1")
            .execute(tx)
            .await;
        counted.expect("it counts");
    }

    async fn counted(&self) -> u64 {
        // By a connection of its own: the store's is inside a transaction where a sentence looks from outside.
        use sqlx::ConnectOptions as _;
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.folder.path().join("store.db"));
        let mut connection = options.connect().await.expect("a connection");
        let counted: i64 = sqlx::query_scalar("SELECT counted FROM counter")
            .fetch_one(&mut connection)
            .await
            .expect("a count");
        u64::try_from(counted).expect("a count")
    }

    async fn write_row(&self, tx: &mut SqliteConnection, workflow: &str, step: &str) {
        let written = sqlx::query("INSERT INTO workflow_checkpoint (workflow, step, value) VALUES (?, ?, '1')")
            .bind(workflow.to_owned())
            .bind(step.to_owned())
            .execute(tx)
            .await;
        written.expect("a row");
    }

    async fn close(self) {
        self.store.file().close().await;
    }
}

impl<const BATCHING: bool> EnlistFixture for File<BATCHING> {
    type Open = Transaction;

    async fn begin(&self) -> Transaction {
        self.store.file().begin().await.expect("a transaction")
    }

    async fn commit(&self, open: Transaction) {
        open.commit().await.expect("a commit");
    }
}
