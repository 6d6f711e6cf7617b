//! The rate under steady work while somebody holds a snapshot open, so that no dead row version can be cleared away.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use passbook::{Durable, Inspect};
use sqlx::{AssertSqlSafe, PgPool};

use crate::Result;
use crate::ground::{Ground, Round, Server};
use crate::work::{self, Crew, Steps};

/// How long, and how much stands ready.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Pinned {
    /// Windows while the snapshot is held.
    #[arg(long, default_value_t = 5)]
    windows: usize,
    /// Windows after it was let go.
    #[arg(long, default_value_t = 2)]
    after: usize,
    /// Seconds of a window.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// How many workflows are kept started and not ended.
    #[arg(long, default_value_t = 1_000)]
    ready: usize,
    /// Slots of the worker.
    #[arg(long, default_value_t = 100)]
    in_flight: usize,
}

/// How many workflows are started together by the refill.
const PORTION: usize = 100;

/// One run: a window before the snapshot, some under it, some after it.
pub(crate) async fn measure(round: &mut Round<'_, Server>, pinned: &Pinned) -> Result<()> {
    round.commits().await?;
    let place = round.place("pinned");
    let store = round.ground.open(&place, round.opening()).await?;
    let steps = Steps::default();
    let crew = Crew::new(round.ground, &place, round.opening(), 1, |worker| {
        worker.slots(pinned.in_flight).register(steps.clone())
    })
    .await?;
    let refill = tokio::spawn(refill(store, steps.0.clone(), pinned.ready));
    let pool = round.ground.pool(2).await?;
    let windows = Windows {
        ended: steps.0.clone(),
        length: Duration::from_secs_f64(pinned.seconds),
        pool: pool.clone(),
        place,
    };

    // The first connections and the first pages of the tables are nobody's window.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = windows.rate(&crew).await?;
    round.report.add("before the snapshot", "workflows/s", before);
    let mut snapshot = pool.begin().await?;
    sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        .execute(&mut *snapshot)
        .await?;
    sqlx::query("SELECT count(*) FROM pg_class")
        .execute(&mut *snapshot)
        .await?;
    let mut rates = Vec::new();
    for window in 1..=pinned.windows {
        let rate = windows.rate(&crew).await?;
        rates.push(rate);
        let name = format!("under the snapshot, window {window}");
        round
            .report
            .against(name, "workflows/s", rate, ("before the snapshot", before));
    }
    windows.report_dead("under the snapshot", round).await?;
    snapshot.rollback().await?;
    for window in 1..=pinned.after {
        let rate = windows.rate(&crew).await?;
        let name = format!("after the snapshot, window {window}");
        round
            .report
            .against(name, "workflows/s", rate, ("before the snapshot", before));
    }
    windows.report_dead("after the snapshot", round).await?;
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let first = rates.first().copied().unwrap_or_default();
    round
        .report
        .against("lowest under the snapshot", "workflows/s", lowest, ("its first", first));

    if refill.is_finished() {
        let Err(error) = refill.await?;
        return Err(error);
    }
    refill.abort();
    crew.dismiss().await?;
    pool.close().await;
    Ok(())
}

/// Keeps so many workflows started and not ended, until it is aborted.
async fn refill<S: Durable + Inspect>(store: S, ended: Arc<AtomicUsize>, ready: usize) -> Result<Infallible> {
    let mut started = 0;
    loop {
        while started < ended.load(Ordering::Relaxed) + ready {
            let ids = (started..started + PORTION).map(|at| format!("{at:010}"));
            work::start(&store, "steps", ids, 5_usize).await?;
            started += PORTION;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Windows of one length over what ends.
#[derive(Debug)]
struct Windows {
    ended: Arc<AtomicUsize>,
    length: Duration,
    pool: PgPool,
    place: String,
}

impl Windows {
    /// Workflows per second over one window.
    #[allow(clippy::cast_precision_loss)]
    async fn rate(&self, crew: &Crew<'_, Server>) -> Result<f64> {
        let (before, began) = (self.ended.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(self.length).await;
        crew.check()?;
        let ended = self.ended.load(Ordering::Relaxed) - before;
        Ok(ended as f64 / began.elapsed().as_secs_f64())
    }

    /// Dead row versions that the server believes to be in each table, and the size of the table with its indexes.
    async fn report_dead(&self, when: &str, round: &mut Round<'_, Server>) -> Result<()> {
        for table in ["queue", "claim"] {
            let sql = format!(
                "SELECT n_dead_tup::float8, pg_total_relation_size(relid)::float8 / 1048576 FROM pg_stat_user_tables \
                 WHERE schemaname = '{}' AND relname = 'workflow_{table}'",
                self.place
            );
            let (dead, size): (f64, f64) = sqlx::query_as(AssertSqlSafe(sql)).fetch_one(&self.pool).await?;
            round.report.add(format!("dead in {table}, {when}"), "rows", dead);
            round.report.add(format!("size of {table}, {when}"), "MiB", size);
        }
        Ok(())
    }
}
