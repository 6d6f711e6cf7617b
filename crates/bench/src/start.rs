//! Starts from one process.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use passbook::{Client, Durable, Scheduler};
use passbook_postgres::Postgres;

use crate::database::Database;
use crate::report::Report;
use crate::{Result, floor};

/// How long each figure is measured.
const WHILE: Duration = Duration::from_millis(1_500);

/// One run.
#[allow(clippy::cast_precision_loss)]
pub(crate) async fn measure(database: &Database, batching: bool, run: usize, report: &mut Report) -> Result<()> {
    let commits = floor::rows_per_second(database, 32, 1).await?;
    report.add("floor: 1 row a commit, 32 clients", "commits/s", commits);
    let schema = crate::schema("start", run);
    let store = Postgres::options()
        .batching(batching)
        .schema(&schema)
        .connections(32)
        .connect(&database.url)
        .await?;
    store.scheduler().prepare().await?;
    let client = Client::new(store.clone());
    for callers in [1, 20, 200] {
        let began = Instant::now();
        let call = |caller: usize| {
            let client = client.clone();
            async move {
                let mut started = 0_usize;
                while began.elapsed() < WHILE {
                    let workflow = format!("{callers}-{caller}-{started}");
                    client.kind("steps").start(&workflow, &5).await?;
                    started += 1;
                }
                passbook::Result::Ok(started)
            }
        };
        let started = try_join_all((0..callers).map(|caller| tokio::spawn(call(caller)))).await?;
        let took = began.elapsed().as_secs_f64();
        let started = started.into_iter().sum::<passbook::Result<usize>>()?;
        let name = format!("started by {callers} caller(s)");
        report.against(name, "starts/s", started as f64 / took, ("floor commits", commits));
    }
    store.pool().close().await;
    Ok(())
}
