//! What the database itself can do: the floor that every other figure is held against.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::Result;
use crate::database::Database;
use crate::report::Report;

/// How long each figure is measured.
const WHILE: Duration = Duration::from_millis(1_500);

/// Rows per second of `clients` that each commit `rows` rows at a time. The rows look like a record.
#[allow(clippy::cast_precision_loss)]
pub(crate) async fn rows_per_second(database: &Database, clients: u32, rows: i64) -> Result<f64> {
    let pool = database.pool(clients).await?;
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
            while began.elapsed() < WHILE {
                sqlx::query(
                    "INSERT INTO bench_floor SELECT $1, 'step-' || ($2 + i), '1' FROM generate_series(1, $3) AS i",
                )
                .bind(format!("order-{client}"))
                .bind(commits * rows)
                .bind(rows)
                .execute(&mut *connection)
                .await?;
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

/// Seconds of one round trip that does nothing.
async fn round_trip(database: &Database) -> Result<f64> {
    const TRIPS: u32 = 2_000;
    let pool = database.pool(1).await?;
    let mut connection = pool.acquire().await?;
    let began = Instant::now();
    for _ in 0..TRIPS {
        sqlx::query("SELECT 1").execute(&mut *connection).await?;
    }
    Ok(began.elapsed().as_secs_f64() / f64::from(TRIPS))
}

/// One run.
pub(crate) async fn measure(database: &Database, report: &mut Report) -> Result<()> {
    report.add("round trip", "ms", round_trip(database).await? * 1_000.0);
    for (rows, clients) in [(1, 1), (1, 8), (1, 32), (10, 32), (100, 8)] {
        let name = format!("{rows} row(s) a commit, {clients} client(s)");
        report.add(name, "rows/s", rows_per_second(database, clients, rows).await?);
    }
    Ok(())
}
