//! What workflows that sleep cost those that are due, and how late they wake when many fall due at once.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use passbook::{Acquire, Durable, Run, Scheduler, Settlement, Timestamp, Value, Workflow};
use passbook_postgres::Postgres;
use sqlx::AssertSqlSafe;

use crate::Result;
use crate::ground::{Ground, Round, Server};
use crate::report::{median, quantile};
use crate::work::{self, Crew, Steps};

/// How many sleep, and how many are due beside them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sleepers {
    /// How many sleep. Ratios are against the first.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 100_000, 1_000_000])]
    asleep: Vec<i64>,
    /// Takes of 50 that are timed beside each number of sleepers.
    #[arg(long, default_value_t = 40)]
    takes: usize,
    /// Workflows of 5 steps that are drained beside each number of sleepers, three times.
    #[arg(long, default_value_t = 1_000)]
    workflows: usize,
    /// How many fall due within a second.
    #[arg(long, default_value_t = 10_000)]
    due: usize,
    /// How many seconds ahead of that they are started. Their first passes must have ended by then.
    #[arg(long, default_value_t = 10)]
    ahead: u64,
}

/// Deliveries of one take.
const TAKE: usize = 50;

/// How often each drain is repeated.
const DRAINS: usize = 3;

/// One run.
pub(crate) async fn measure(round: &mut Round<'_, Server>, sleepers: &Sleepers) -> Result<()> {
    round.commits().await?;
    beside(round, sleepers).await?;
    if sleepers.due > 0 {
        late(round, sleepers).await?;
    }
    Ok(())
}

/// Takes and drains beside so many sleepers. The numbers of sleepers take turns, so that a slow moment slows them all.
#[allow(clippy::cast_precision_loss)]
async fn beside(round: &mut Round<'_, Server>, sleepers: &Sleepers) -> Result<()> {
    let mut beds = Vec::new();
    for &asleep in &sleepers.asleep {
        let place = format!("{}_{asleep}", round.place("sleepers"));
        let store = round.ground.open(&place, round.opening()).await?;
        // Statements that were prepared on empty tables must not be the worse for it.
        take(&store, "warm", 8).await?;
        put_to_sleep(&store, &place, asleep).await?;
        beds.push((place, store));
    }
    let mut takes = vec![Vec::new(); beds.len()];
    for turn in 0..sleepers.takes {
        for (at, (_, store)) in beds.iter().enumerate() {
            takes[at].push(take(store, &format!("take-{turn:04}"), TAKE).await?);
        }
    }
    let mut drains = vec![Vec::new(); beds.len()];
    for turn in 0..DRAINS {
        for (at, (place, store)) in beds.iter().enumerate() {
            let ids = (0..sleepers.workflows).map(|at| format!("drain-{turn}-{at:08}"));
            work::start(store, "steps", ids, 5).await?;
            let steps = Steps::default();
            let began = Instant::now();
            let crew = Crew::new(round.ground, place, round.opening(), 1, |worker| {
                worker.register(steps.clone())
            })
            .await?;
            crew.until(&steps.0, sleepers.workflows).await?;
            let took = crew.dismiss().await?.duration_since(began).as_secs_f64();
            drains[at].push(sleepers.workflows as f64 / took);
        }
    }
    for (what, unit, figures) in [("taken (50)", "ms", takes), ("drained", "workflows/s", drains)] {
        let least = figures.first().map_or(0.0, |figures| median(figures));
        for (asleep, figures) in sleepers.asleep.iter().zip(&figures) {
            let name = format!("{what} beside {asleep} asleep");
            let beside = ("the fewest asleep", least);
            round.report.against(name, unit, median(figures), beside);
        }
    }
    for (_, store) in beds {
        round.ground.close(store).await;
    }
    Ok(())
}

/// Starts so many workflows and takes them: the milliseconds of the take. They are completed after it.
async fn take(store: &Postgres, prefix: &str, count: usize) -> Result<f64> {
    work::start(store, "steps", (0..count).map(|at| format!("{prefix}-{at:02}")), 5).await?;
    let namespaces = ["steps".to_owned()];
    let began = Instant::now();
    let acquired = store
        .acquire(&Acquire {
            namespaces: &namespaces,
            limit: count,
        })
        .await?;
    let took = began.elapsed().as_secs_f64() * 1_000.0;
    if acquired.passes.len() != count {
        return Err(format!("{} of {count} due workflows were taken", acquired.passes.len()).into());
    }
    let completed = Settlement::Completed {
        result: Value::encode(&5)?,
    };
    for (pass, delivery) in &acquired.passes {
        store.settle(&pass.claim, delivery, &completed).await?;
    }
    Ok(took)
}

/// Workflows as they stand in the tables while they sleep until tomorrow.
async fn put_to_sleep(store: &Postgres, place: &str, asleep: i64) -> Result<()> {
    let sql = [
        "INSERT INTO {place}.workflow_checkpoint (workflow, step, value, namespace) \
         SELECT 'sleeper-' || i, ':input', '5', 'steps' FROM generate_series(1, $1) AS i",
        "INSERT INTO {place}.workflow_claim (workflow, token, held_until, namespace, state, wake_at) \
         SELECT 'sleeper-' || i, 1, now(), 'steps', 'sleeping', now() + interval '1 day' FROM generate_series(1, $1) AS i",
        "INSERT INTO {place}.workflow_queue (namespace, workflow, visible_at) \
         SELECT 'steps', 'sleeper-' || i, now() + interval '1 day' + i * interval '1 millisecond' FROM generate_series(1, $1) AS i",
    ];
    for statement in sql {
        sqlx::query(AssertSqlSafe(statement.replace("{place}", place)))
            .bind(asleep)
            .execute(store.pool())
            .await?;
    }
    Ok(())
}

/// A body that sleeps until the moment it is started with, and notes how late it went on, in milliseconds.
#[derive(Clone, Debug, Default)]
struct Nap {
    late: Arc<Mutex<Vec<f64>>>,
    /// Those that were asked to sleep until a moment that had passed.
    too_soon: Arc<Mutex<usize>>,
}

impl<S: Durable> Workflow<S> for Nap {
    const NAME: &'static str = "nap";
    type Input = Timestamp;
    type Output = ();
    type Error = String;

    async fn run(&self, run: &Run<S>, until: Timestamp) -> std::result::Result<(), String> {
        if run.now("lay down").await >= until {
            *self.too_soon.lock().map_err(|error| error.to_string())? += 1;
        }
        run.sleep_until("slept", until).await;
        let woke = run.now("woke").await;
        let late = until.until(woke).as_secs_f64() * 1_000.0;
        self.late.lock().map_err(|error| error.to_string())?.push(late);
        Ok(())
    }
}

/// How late those wake that fall due within one second.
async fn late(round: &mut Round<'_, Server>, sleepers: &Sleepers) -> Result<()> {
    let place = round.place("late");
    let store = round.ground.open(&place, round.opening()).await?;
    let nap = Nap::default();
    let crew = Crew::new(round.ground, &place, round.opening(), 1, |worker| {
        worker.slots(400).register(nap.clone())
    })
    .await?;
    let wakes = store
        .scheduler()
        .now()
        .await?
        .after(Duration::from_secs(sleepers.ahead));
    let step = Duration::from_secs(1) / u32::try_from(sleepers.due)?;
    let mut until = wakes;
    let naps = (0..sleepers.due).map(|at| {
        until = until.after(step);
        (format!("{at:08}"), until)
    });
    work::start_each(&store, <Nap as Workflow<Postgres>>::NAME, naps).await?;
    let slept = || Ok::<_, String>(nap.late.lock().map_err(|error| error.to_string())?.len());
    while slept()? < sleepers.due {
        crew.check()?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    crew.dismiss().await?;
    round.ground.close(store).await;
    let too_soon = *nap.too_soon.lock().map_err(|error| error.to_string())?;
    if too_soon > 0 {
        return Err(format!(
            "{too_soon} lay down when they should have woken; give more than `--ahead {}`",
            sleepers.ahead
        )
        .into());
    }
    let late = nap.late.lock().map_err(|error| error.to_string())?;
    for (of, share) in [("p50", 0.5), ("p99", 0.99)] {
        let name = format!("late, {} due within a second, {of}", sleepers.due);
        round.report.add(name, "ms", quantile(&late, share));
    }
    Ok(())
}
