//! Steps whose own SQL commits with their record, beside the same SQL by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures_util::future::try_join_all;
use passbook::{Run, Workflow};
use passbook_postgres::Postgres;
use sqlx::{AssertSqlSafe, PgPool};

use crate::Result;
use crate::ground::{Ground, Opening, Round, Server};
use crate::work::{self, Crew};

/// How much is transacted, and how many at once.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Transact {
    /// How many workflows.
    #[arg(long, default_value_t = 1_000)]
    workflows: usize,
    /// Transactions of each.
    #[arg(long, default_value_t = 5)]
    steps: usize,
    /// How many transactions at once: connections of the hand-written, connections and slots of ours.
    #[arg(long, default_value_t = 16)]
    at_once: u32,
}

/// A body whose every step inserts a row of the application's.
#[derive(Clone, Debug)]
struct Entries {
    insert: Arc<str>,
    ended: Arc<AtomicUsize>,
}

impl Workflow<Postgres> for Entries {
    const NAME: &'static str = "entries";
    type Input = usize;
    type Output = ();
    type Error = sqlx::Error;

    async fn run(&self, run: &Run<Postgres>, steps: usize) -> std::result::Result<(), sqlx::Error> {
        for step in 0..steps {
            run.transact(&format!("entry-{step}"), async |tx| {
                sqlx::query(AssertSqlSafe(self.insert.clone()))
                    .bind(format!("{}-{step}", run.workflow()))
                    .execute(&mut *tx)
                    .await
                    .map(|_| step)
            })
            .await?;
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// One run.
#[allow(clippy::cast_precision_loss)]
pub(crate) async fn measure(round: &mut Round<'_, Server>, transact: &Transact) -> Result<()> {
    let place = round.place("transact");
    let opening = Opening {
        connections: transact.at_once,
        ..round.opening()
    };
    let store = round.ground.open(&place, opening).await?;
    for table in ["by_hand", "by_step"] {
        let create = format!("CREATE TABLE {place}.bench_{table} (id text PRIMARY KEY, cents bigint NOT NULL)");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(store.pool()).await?;
    }
    let insert = |table: &str| format!("INSERT INTO {place}.bench_{table} VALUES ($1, 4200)").into();
    let ids = (0..transact.workflows).map(|at| format!("{at:08}"));
    work::start(&store, Entries::NAME, ids, transact.steps).await?;
    round.ground.close(store).await;

    let pool = round.ground.pool(transact.at_once).await?;
    let by_hand = by_hand_per_second(&pool, insert("by_hand"), transact).await?;
    pool.close().await;
    round.report.add("by hand", "commits/s", by_hand);

    let entries = Entries {
        insert: insert("by_step"),
        ended: Arc::default(),
    };
    let slots = usize::try_from(transact.at_once)?;
    let before = round.ground.counts().await?;
    let began = Instant::now();
    let crew = Crew::new(round.ground, &place, opening, 1, |worker| {
        worker.slots(slots).register(entries.clone())
    })
    .await?;
    crew.until(&entries.ended, transact.workflows).await?;
    let took = crew.dismiss().await?.duration_since(began).as_secs_f64();
    let after = round.ground.counts().await?;

    let workflows = transact.workflows as f64;
    let steps = workflows * transact.steps as f64 / took;
    round
        .report
        .against("by steps", "steps/s", steps, ("the same by hand", by_hand));
    after.report_since(&before, workflows, round.report);
    Ok(())
}

/// BEGIN, INSERT, COMMIT, as many in all as the workflows have steps.
#[allow(clippy::cast_precision_loss)]
async fn by_hand_per_second(pool: &PgPool, insert: Arc<str>, transact: &Transact) -> Result<f64> {
    let all = transact.workflows * transact.steps;
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let client = || {
        let (pool, insert, next) = (pool.clone(), insert.clone(), next.clone());
        async move {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= all {
                    return Result::Ok(());
                }
                let mut transaction = pool.begin().await?;
                sqlx::query(AssertSqlSafe(insert.clone()))
                    .bind(format!("{at:010}"))
                    .execute(&mut *transaction)
                    .await?;
                transaction.commit().await?;
            }
        }
    };
    for inserted in try_join_all((0..transact.at_once).map(|_| tokio::spawn(client()))).await? {
        inserted?;
    }
    Ok(all as f64 / began.elapsed().as_secs_f64())
}
