//! From the kill of a worker's process to the next effect, by another process.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use passbook::{Run, Shutdown, Worker, Workflow};
use passbook_postgres::Postgres;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::io::AsyncReadExt;

use crate::Result;
use crate::ground::{Ground, Opening, Round, Server};
use crate::report::quantile;
use crate::work;

/// How long a dead worker is waited for, and how often one is killed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Takeover {
    /// Seconds of the lease.
    #[arg(long, default_value_t = 3.0)]
    lease: f64,
    /// Kills of a run.
    #[arg(long, default_value_t = 5)]
    kills: usize,
}

/// One of the processes that work.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Hand {
    #[arg(long)]
    url: String,
    #[arg(long)]
    place: String,
    #[arg(long)]
    lease: f64,
}

/// A body of short effects, each of which leaves a row that says whose it was and when.
#[derive(Clone, Debug)]
struct Effects(PgPool);

impl Workflow<Postgres> for Effects {
    const NAME: &'static str = "effects";
    type Input = String;
    type Output = ();
    type Error = sqlx::Error;

    async fn run(&self, run: &Run<Postgres>, place: String) -> std::result::Result<(), sqlx::Error> {
        for effect in 0..100_000 {
            run.step(&format!("effect-{effect}"), async || {
                sqlx::query(AssertSqlSafe(format!(
                    "INSERT INTO {place}.bench_effect (workflow, process) VALUES ($1, $2)"
                )))
                .bind(run.workflow())
                .bind(i64::from(std::process::id()))
                .execute(&self.0)
                .await?;
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok::<_, sqlx::Error>(())
            })
            .await?;
        }
        Ok(())
    }
}

/// A process that works until it is killed, or until the one that started it is gone.
pub(crate) async fn work(hand: &Hand) -> Result<()> {
    let store = Postgres::options()
        .schema(&hand.place)
        .lease(Duration::from_secs_f64(hand.lease))
        .connect(&hand.url)
        .await?;
    let effects = Effects(store.pool().clone());
    let working = Worker::new(store).register(effects).run(Shutdown::new());
    let (mut stdin, mut nothing) = (tokio::io::stdin(), Vec::new());
    tokio::select! {
        ended = working => ended?,
        // Its end is the end of whoever holds the other side.
        gone = stdin.read_to_end(&mut nothing) => { gone?; }
    }
    // The thread that reads has no other end.
    std::process::exit(0)
}

/// A process that is killed at the latest when this is dropped.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn start(hand: &Hand) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(["hand", "--url", &hand.url, "--place", &hand.place])
            .args(["--lease", &hand.lease.to_string()])
            .stdin(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }

    fn id(&self) -> i64 {
        i64::from(self.0.id())
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One run: each kill has a workflow and two processes of its own.
#[allow(clippy::cast_precision_loss)]
pub(crate) async fn measure(round: &mut Round<'_, Server>, takeover: &Takeover) -> Result<()> {
    round.commit().await?;
    let place = round.place("takeover");
    let opening = Opening {
        lease: Duration::from_secs_f64(takeover.lease),
        ..round.opening()
    };
    let store = round.ground.open(&place, opening).await?;
    let create = format!(
        "CREATE TABLE {place}.bench_effect (workflow text, process bigint, at timestamptz DEFAULT clock_timestamp())"
    );
    sqlx::raw_sql(AssertSqlSafe(create)).execute(store.pool()).await?;
    let hand = Hand {
        url: round.ground.url.clone(),
        place: place.clone(),
        lease: takeover.lease,
    };
    let mut waits = Vec::new();
    for kill in 0..takeover.kills {
        let workflow = format!("{kill}");
        let mut first = Process::start(&hand)?;
        work::start(&store, Effects::NAME, std::iter::once(workflow.clone()), place.as_str()).await?;
        effect(store.pool(), &place, &workflow, first.id()).await?;
        let second = Process::start(&hand)?;
        // Spread over the time between two signs of life, of which a lease has three.
        let share = kill as f64 / takeover.kills as f64;
        tokio::time::sleep(Duration::from_secs_f64(1.0 + takeover.lease / 3.0 * share)).await;
        let killed: f64 = sqlx::query_scalar("SELECT extract(epoch FROM clock_timestamp())::float8")
            .fetch_one(store.pool())
            .await?;
        first.kill();
        let next = effect(store.pool(), &place, &workflow, second.id()).await?;
        waits.push(next - killed);
        passbook::Client::new(store.clone()).cancel(&workflow).await?;
    }
    for (of, share) in [("shortest", 0.0), ("p50", 0.5), ("longest", 1.0)] {
        let wait = quantile(&waits, share);
        round.report.against(
            format!("kill to next effect, {of}"),
            "s",
            wait,
            ("the lease", takeover.lease),
        );
        let beyond = (wait - takeover.lease) * 1_000.0;
        round.report.add(format!("beyond the lease, {of}"), "ms", beyond);
    }
    round.ground.close(store).await;
    Ok(())
}

/// When the first effect of a workflow by a process took place, in the server's seconds. Waits for it.
async fn effect(pool: &PgPool, place: &str, workflow: &str, process: i64) -> Result<f64> {
    /// Far more than a lease and a poll.
    const PATIENCE: u32 = 6_000;
    let sql = format!(
        "SELECT extract(epoch FROM min(at))::float8 FROM {place}.bench_effect WHERE workflow = $1 AND process = $2"
    );
    for _ in 0..PATIENCE {
        let at: Option<f64> = sqlx::query_scalar(AssertSqlSafe(sql.as_str().to_owned()))
            .bind(workflow)
            .bind(process)
            .fetch_one(pool)
            .await?;
        if let Some(at) = at {
            return Ok(at);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("process {process} has done nothing for workflow `{workflow}`").into())
}
