//! What the database itself can do: the floor that every figure is held against.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use sqlx::postgres::PgPoolOptions;

use crate::Result;

/// How long it is measured.
const WHILE: Duration = Duration::from_millis(1_500);

/// Commits per second of `clients` that each insert one row at a time. The rows look like a record.
#[allow(clippy::cast_precision_loss)]
pub(crate) async fn commits_per_second(url: &str, clients: u32) -> Result<f64> {
    let pool = PgPoolOptions::new()
        .max_connections(clients)
        .min_connections(clients)
        .connect(url)
        .await?;
    sqlx::query("CREATE TABLE floor (workflow text, step text, value jsonb, PRIMARY KEY (workflow, step))")
        .execute(&pool)
        .await?;
    let began = Instant::now();
    let insert = |client: u32| {
        let pool = pool.clone();
        async move {
            let mut connection = pool.acquire().await?;
            let mut commits = 0_i64;
            while began.elapsed() < WHILE {
                sqlx::query("INSERT INTO floor VALUES ($1, $2, '1')")
                    .bind(format!("order-{client}"))
                    .bind(format!("step-{commits}"))
                    .execute(&mut *connection)
                    .await?;
                commits += 1;
            }
            Ok::<_, sqlx::Error>(commits)
        }
    };
    let commits = try_join_all((0..clients).map(|client| tokio::spawn(insert(client)))).await?;
    let took = began.elapsed().as_secs_f64();
    let commits = commits.into_iter().sum::<sqlx::Result<i64>>()?;
    pool.close().await;
    Ok(commits as f64 / took)
}
