//! Postgres.

use std::time::Duration;

use passbook::{Clock, Durable as _, Scheduler as _};
use passbook_postgres::Postgres;
use sqlx::{AssertSqlSafe, PgConnection, Row as _, Transaction};

use crate::fixture::{EnlistFixture, Fixture, LEASE};
use crate::server::{Schema, schema};

/// A schema of its own in the database that the test command starts. `Database<false>` makes each write by itself.
#[derive(Debug)]
pub struct Database<const BATCHING: bool = true> {
    store: Postgres,
    clock: Clock,
    schema: Schema,
    /// Where a pooler leads to the database, if one does.
    pooler: Option<String>,
}

impl<const BATCHING: bool> Database<BATCHING> {
    /// The same behind a transaction pooler, which is reached under this URL.
    pub async fn behind(pooler: &str, clock: Clock) -> Self {
        Self::made(clock, Some(pooler.to_owned())).await
    }

    async fn made(clock: Clock, pooler: Option<String>) -> Self {
        let schema = schema();
        let store = Self::handle(&schema, &clock, pooler.as_deref()).await;
        store.scheduler().prepare().await.expect("a schema");
        let made = Self {
            store,
            clock,
            schema,
            pooler,
        };
        let sql = "CREATE TABLE {schema}.counter (counted bigint NOT NULL); INSERT INTO {schema}.counter VALUES (0)";
        let counter = sqlx::raw_sql(made.sql(sql)).execute(made.store.pool()).await;
        counter.expect("a table");
        made
    }

    async fn handle(schema: &Schema, clock: &Clock, pooler: Option<&str>) -> Postgres {
        let options = Postgres::options().schema(schema.name()).clock(clock.clone());
        let options = options.pooler(pooler.is_some());
        let url = pooler.unwrap_or(schema.url());
        let joint = if url.contains('?') { '&' } else { '?' };
        // The sessions bear the name of the schema, so that a leak is told from the sessions of other tests.
        let url = format!("{url}{joint}application_name={}", schema.name());
        options
            .lease(LEASE)
            .connections(8)
            .batching(BATCHING)
            .connect(&url)
            .await
            .expect("a store")
    }

    fn sql(&self, sql: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(sql.replace("{schema}", self.schema.name()))
    }

    /// How many sessions of this test stand in a transaction and do nothing.
    async fn left_open(&self, connection: &mut PgConnection) -> i64 {
        let sql =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in transaction%'";
        let left = sqlx::query_scalar(sql)
            .bind(self.schema.name())
            .fetch_one(connection)
            .await;
        left.expect("the sessions can be counted")
    }
}

impl<const BATCHING: bool> Fixture for Database<BATCHING> {
    type Store = Postgres;

    async fn open_under(clock: Clock) -> Self {
        Self::made(clock, None).await
    }

    fn store(&self) -> &Postgres {
        &self.store
    }

    async fn second(&self) -> Postgres {
        Self::handle(&self.schema, &self.clock, self.pooler.as_deref()).await
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn count(&self, tx: &mut PgConnection) {
        let sql = self.sql("UPDATE {schema}.counter SET counted = counted + 1");
        sqlx::raw_sql(sql).execute(tx).await.expect("it counts");
    }

    async fn counted(&self) -> u64 {
        // As text, all at once: behind a pooler, the parts of a prepared statement may meet different sessions.
        let counted = sqlx::raw_sql(self.sql("SELECT counted FROM {schema}.counter"));
        let counted = counted.fetch_one(self.store.pool()).await.expect("a count");
        u64::try_from(counted.get::<i64, _>(0)).expect("a count")
    }

    async fn write_row(&self, tx: &mut PgConnection, workflow: &str, step: &str) {
        let sql = "INSERT INTO {schema}.workflow_checkpoint (workflow, step, value) VALUES ($1, $2, '1')";
        let written = sqlx::query(self.sql(sql)).persistent(self.pooler.is_none());
        written.bind(workflow).bind(step).execute(tx).await.expect("a row");
    }

    async fn close(self) {
        let mut connection = self.schema.connection().await;
        // A dropped transaction is rolled back by the pool, soon and not at once.
        let all_closed = async {
            while self.left_open(&mut connection).await > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let closed = tokio::time::timeout(Duration::from_secs(20), all_closed).await;
        closed.expect("no session is left in a transaction");
        self.store.pool().close().await;
    }
}

impl<const BATCHING: bool> EnlistFixture for Database<BATCHING> {
    type Open = Transaction<'static, sqlx::Postgres>;

    async fn begin(&self) -> Self::Open {
        self.store.pool().begin().await.expect("a transaction")
    }

    async fn commit(&self, open: Self::Open) {
        open.commit().await.expect("a commit");
    }
}
