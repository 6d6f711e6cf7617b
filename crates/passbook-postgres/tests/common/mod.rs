//! A schema of its own for each test, on the server that the test command starts.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use passbook::{Acquire, Checkpointer, Claim, Claimed, Delivery, Durable, Pass, Scheduler, Value};
use passbook_postgres::{Postgres, PostgresOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

pub(crate) const KIND: &str = "kind";

/// Nobody gives up: a step that should follow at once is waited for so long before the test fails.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn url() -> String {
    std::env::var("PASSBOOK_TEST_POSTGRES")
        .expect("these tests need a Postgres; `cargo xtask test` starts one for them and stops it again")
}

/// A schema of one test. It stays when the test fails, for a look at it.
pub(crate) struct Home {
    pub(crate) schema: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            schema: format!("pg{}_{number}", std::process::id()),
        }
    }

    /// Removes the schema of a test that passed.
    pub(crate) async fn drop(self) {
        let mut connection = PgConnection::connect(&url()).await.unwrap();
        run(
            &mut connection,
            &format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema),
        )
        .await;
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        Postgres::options().schema(self.schema.as_str()).connections(4)
    }

    /// A store of its own pool, as another process would have.
    pub(crate) async fn open(&self) -> Postgres {
        self.options().connect(&url()).await.unwrap()
    }

    pub(crate) async fn prepared(&self) -> Postgres {
        let store = self.open().await;
        store.scheduler().prepare().await.unwrap();
        store
    }

    /// A connection whose search path is the schema: a program that knows nothing of the library.
    pub(crate) async fn foreign(&self) -> PgConnection {
        let mut connection = PgConnection::connect(&url()).await.unwrap();
        let path = format!("CREATE SCHEMA IF NOT EXISTS {0}; SET search_path = {0}", self.schema);
        run(&mut connection, &path).await;
        connection
    }
}

/// Runs statements whose text the test made itself.
pub(crate) async fn run(connection: &mut PgConnection, sql: &str) {
    let ran = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await;
    if let Err(error) = ran {
        panic!("{error}, in:\n{sql}");
    }
}

/// The one number that a query gives.
pub(crate) async fn count(connection: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

/// Waits until the server has `expected` sessions of this application that wait for a lock. The time that it takes decides
/// nothing: the test goes on as soon as it is so.
pub(crate) async fn blocked(observer: &mut PgConnection, application: &str, expected: i64) {
    let seen = async {
        loop {
            let waiting: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'",
            )
            .bind(application)
            .fetch_one(&mut *observer)
            .await
            .unwrap();
            if waiting == expected {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    in_time(seen).await;
}

/// Fails the test when something does not come that must.
pub(crate) async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what)
        .await
        .expect("what must happen does not")
}

pub(crate) fn value(text: &str) -> Value {
    Value::encode(text).unwrap()
}

pub(crate) async fn claimed(store: &Postgres, workflow: &str) -> Claim {
    match store.checkpointer().claim(workflow).await.unwrap() {
        Claimed::Granted(granted) => granted.claim,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn acquired(store: &Postgres, limit: usize) -> Vec<(Pass, Delivery)> {
    let namespaces = [KIND.to_owned()];
    let request = Acquire::new(&namespaces, limit);
    store.acquire(&request).await.unwrap().passes
}

/// What is recorded, without the values.
pub(crate) async fn steps(store: &Postgres, workflow: &str) -> Vec<String> {
    let records = store.checkpointer().load(workflow).await.unwrap();
    records.into_iter().map(|record| record.step).collect()
}
