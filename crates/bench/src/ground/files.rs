//! SQLite files in a temporary directory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use passbook::{Durable, Scheduler};
use passbook_sqlite::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;

use super::server::TRIPS;
use super::{Ground, Opening};
use crate::Result;
use crate::counts::Counts;

/// A directory of files, each a place. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("passbook-bench-").tempdir()?))
    }

    fn path(&self, place: &str) -> PathBuf {
        self.0.path().join(format!("{place}.db"))
    }

    /// A connection of the measure's own, set as the store's are.
    async fn connect(&self, place: &str) -> Result<SqliteConnection> {
        let options = SqliteConnectOptions::new()
            .filename(self.path(place))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        Ok(SqliteConnection::connect_with(&options).await?)
    }
}

impl Ground for Files {
    type Store = Sqlite;

    const FLOORS: &'static [(i64, u32)] = &[(1, 1), (10, 1), (100, 1)];
    // There is one write lock, so more would only wait.
    const CLIENTS: u32 = 1;

    async fn describe(&self) -> Result<String> {
        let mut connection = self.connect("floor").await?;
        let version: String = sqlx::query_scalar("SELECT sqlite_version()")
            .fetch_one(&mut connection)
            .await?;
        Ok(format!(
            "SQLite: {version}, journal_mode WAL, synchronous FULL, in `{}`",
            std::env::temp_dir().display()
        ))
    }

    async fn open(&self, place: &str, opening: Opening) -> Result<Sqlite> {
        let options = Sqlite::options().lease(opening.lease).batching(opening.batching);
        let store = options.open(self.path(place)).await?;
        store.scheduler().prepare().await?;
        Ok(store)
    }

    async fn close(&self, store: Sqlite) {
        store.file().close().await;
    }

    async fn queued(&self, place: &str) -> Result<i64> {
        let mut connection = self.connect(place).await?;
        Ok(sqlx::query_scalar("SELECT count(*) FROM workflow_queue")
            .fetch_one(&mut connection)
            .await?)
    }

    #[allow(clippy::cast_precision_loss)]
    async fn rows_per_second(&self, _clients: u32, rows: i64, time: Duration) -> Result<f64> {
        let mut connection = self.connect("floor").await?;
        sqlx::raw_sql(
            "DROP TABLE IF EXISTS bench_floor; CREATE TABLE bench_floor (workflow TEXT, step TEXT, value TEXT, PRIMARY KEY (workflow, step))",
        )
        .execute(&mut connection)
        .await?;
        let began = Instant::now();
        let mut inserted = 0;
        while began.elapsed() < time {
            sqlx::query(
                "WITH RECURSIVE series (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM series WHERE i < ?2) \
                 INSERT INTO bench_floor SELECT 'order-1', 'step-' || (?1 + i), '1' FROM series",
            )
            .bind(inserted)
            .bind(rows)
            .execute(&mut connection)
            .await?;
            inserted += rows;
        }
        Ok(inserted as f64 / began.elapsed().as_secs_f64())
    }

    async fn paused_commits(&self, pause: Duration, times: usize) -> Result<Vec<f64>> {
        let mut connection = self.connect("floor").await?;
        let mut took = Vec::new();
        for at in 0..times {
            tokio::time::sleep(pause).await;
            let began = Instant::now();
            let insert = sqlx::query("INSERT INTO bench_floor VALUES ('paused', ?1, '1')").bind(format!("step-{at}"));
            insert.execute(&mut connection).await?;
            took.push(began.elapsed().as_secs_f64());
        }
        Ok(took)
    }

    async fn round_trip(&self) -> Result<f64> {
        let mut connection = self.connect("floor").await?;
        let began = Instant::now();
        for _ in 0..TRIPS {
            sqlx::query("SELECT 1").execute(&mut connection).await?;
        }
        Ok(began.elapsed().as_secs_f64() / f64::from(TRIPS))
    }

    async fn counts(&self) -> Result<Counts> {
        Ok(Counts::of_this_process())
    }
}
