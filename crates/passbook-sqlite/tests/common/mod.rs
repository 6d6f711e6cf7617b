//! A directory and a clock for each test.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use passbook::{Acquire, Checkpointer, Claim, Claimed, Clock, Delivery, Durable, Pass, Scheduler, Timestamp, Value};
use passbook_sqlite::Sqlite;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A directory of its own, removed at the end, and a clock that stands still.
pub(crate) struct Home {
    directory: tempfile::TempDir,
    pub(crate) clock: Clock,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock: Clock::manual(Timestamp::from_micros(1_700_000_000_000_000)),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("work.db")
    }

    /// A handle of its own, as another process would have.
    pub(crate) async fn open(&self) -> Sqlite {
        Sqlite::options()
            .lease(LEASE)
            .clock(self.clock.clone())
            .open(self.path())
            .await
            .unwrap()
    }

    pub(crate) async fn prepared(&self) -> Sqlite {
        let store = self.open().await;
        store.scheduler().prepare().await.unwrap();
        store
    }

    /// The file as a program sees it that knows nothing of the library.
    pub(crate) async fn foreign(&self) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(self.path())
            .create_if_missing(true)
            .busy_timeout(Duration::from_secs(10))
            .connect()
            .await
            .unwrap()
    }
}

pub(crate) fn value(text: &str) -> Value {
    Value::encode(text).unwrap()
}

pub(crate) async fn claimed(store: &Sqlite, workflow: &str) -> Claim {
    match store.checkpointer().claim(workflow).await.unwrap() {
        Claimed::Granted(granted) => granted.claim,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn acquired(store: &Sqlite, namespace: &str, limit: usize) -> Vec<(Pass, Delivery)> {
    let namespaces = [namespace.to_owned()];
    let request = Acquire::new(&namespaces, limit);
    store.acquire(&request).await.unwrap().passes
}

pub(crate) async fn count(connection: &mut SqliteConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}
