//! The Postgres that is measured.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use passbook::{Durable, Scheduler};
use passbook_postgres::Postgres;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool, Row};

use super::{Ground, Opening};
use crate::Result;
use crate::counts::Counts;

/// How many round trips are made for the time of one.
pub(super) const TRIPS: u32 = 2_000;

const ONE_ROW: &str = "INSERT INTO bench_floor VALUES ($1, $2, '1')";

/// A server, ours or a given one. A server of our own is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    server: Option<Child>,
}

impl Server {
    /// The given server, or a throwaway one with fsync on.
    pub(crate) fn open(url: Option<String>) -> Result<Self> {
        if let Some(url) = url {
            return Ok(Self { url, server: None });
        }
        let mut server = Command::new("cargo")
            .args(["xtask", "postgres", "--fsync"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = server.stdout.take().ok_or("the server's stdout was not piped")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url)?;
        let database = Self {
            url: url.trim().to_owned(),
            server: Some(server),
        };
        if database.url.is_empty() {
            return Err("no throwaway Postgres could be started; see what `cargo xtask postgres --fsync` says".into());
        }
        Ok(database)
    }

    /// Connections of the measure's own.
    pub(crate) async fn pool(&self, connections: u32) -> Result<PgPool> {
        let options = PgPoolOptions::new()
            .max_connections(connections)
            .min_connections(connections)
            // As the store's: a sign of life before each use would be a round trip that only the floor pays.
            .test_before_acquire(false);
        Ok(options.connect(&self.url).await?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // Asked as by Ctrl-C, so that it removes its data before it ends.
            let _ = Command::new("kill").args(["-INT", &server.id().to_string()]).status();
            let _ = server.wait();
        }
    }
}

impl Ground for Server {
    type Store = Postgres;

    const FLOORS: &'static [(i64, u32)] = &[(1, 1), (1, 8), (1, 32), (10, 8), (10, 32), (100, 8), (100, 32)];
    const CLIENTS: u32 = 32;

    fn server(&self) -> Option<&Server> {
        Some(self)
    }

    async fn describe(&self) -> Result<String> {
        let pool = self.pool(1).await?;
        let rows = sqlx::query(
            "SELECT name, current_setting(name) AS value FROM unnest(ARRAY['server_version', 'fsync', \
             'synchronous_commit', 'shared_buffers', 'max_wal_size', 'wal_level', 'full_page_writes', 'max_connections']) AS name",
        )
        .fetch_all(&pool)
        .await?;
        let settings = rows
            .iter()
            .map(|row| format!("{} {}", row.get::<String, _>("name"), row.get::<String, _>("value")));
        Ok(format!("Postgres: {}", settings.collect::<Vec<_>>().join(", ")))
    }

    async fn open(&self, place: &str, opening: Opening) -> Result<Postgres> {
        let options = Postgres::options()
            .schema(place)
            .batching(opening.batching)
            .connections(opening.connections)
            .lease(opening.lease);
        let store = options.connect(&self.url).await?;
        store.scheduler().prepare().await?;
        Ok(store)
    }

    async fn close(&self, store: Postgres) {
        store.pool().close().await;
    }

    async fn queued(&self, place: &str) -> Result<i64> {
        let pool = self.pool(1).await?;
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {place}.workflow_queue"));
        Ok(sqlx::query_scalar(count).fetch_one(&pool).await?)
    }

    #[allow(clippy::cast_precision_loss)]
    async fn rows_per_second(&self, clients: u32, rows: i64, time: Duration) -> Result<f64> {
        let pool = self.pool(clients).await?;
        sqlx::raw_sql(
            "DROP TABLE IF EXISTS bench_floor; CREATE TABLE bench_floor (workflow text, step text, value jsonb, PRIMARY KEY (workflow, step))",
        )
        .execute(&pool)
        .await?;
        let began = Instant::now();
        let insert = |client: u32| {
            let pool = pool.clone();
            async move {
                let mut connection = pool.acquire().await?;
                let mut commits = 0_i64;
                while began.elapsed() < time {
                    let workflow = format!("order-{client}");
                    // A series is planned anew at each call, which a floor of one row need not pay for.
                    let insert = if rows == 1 {
                        sqlx::query(ONE_ROW).bind(workflow).bind(format!("step-{commits}"))
                    } else {
                        let many = "INSERT INTO bench_floor SELECT $1, 'step-' || ($2 + i), '1' FROM generate_series(1, $3) AS i";
                        sqlx::query(many).bind(workflow).bind(commits * rows).bind(rows)
                    };
                    insert.execute(&mut *connection).await?;
                    commits += 1;
                }
                Ok::<_, sqlx::Error>(commits * rows)
            }
        };
        let inserted = try_join_all((0..clients).map(|client| tokio::spawn(insert(client)))).await?;
        let took = began.elapsed().as_secs_f64();
        let inserted = inserted.into_iter().sum::<sqlx::Result<i64>>()?;
        pool.close().await;
        Ok(inserted as f64 / took)
    }

    async fn paused_commits(&self, pause: Duration, times: usize) -> Result<Vec<f64>> {
        let pool = self.pool(1).await?;
        let commits = async move {
            let mut connection = pool.acquire().await?;
            let mut took = Vec::new();
            for at in 0..times {
                tokio::time::sleep(pause).await;
                let began = Instant::now();
                let insert = sqlx::query(ONE_ROW).bind("paused").bind(format!("step-{at}"));
                insert.execute(&mut *connection).await?;
                took.push(began.elapsed().as_secs_f64());
            }
            Ok::<_, sqlx::Error>(took)
        };
        Ok(tokio::spawn(commits).await??)
    }

    async fn round_trip(&self) -> Result<f64> {
        let pool = self.pool(1).await?;
        let mut connection = pool.acquire().await?;
        let began = Instant::now();
        for _ in 0..TRIPS {
            sqlx::query("SELECT 1").execute(&mut *connection).await?;
        }
        Ok(began.elapsed().as_secs_f64() / f64::from(TRIPS))
    }

    async fn counts(&self) -> Result<Counts> {
        let pool = self.pool(1).await?;
        let counts = Counts::of_server(&pool).await?;
        pool.close().await;
        Ok(counts)
    }
}
