//! Measures of Passbook, each beside the floor of the same database in the same run.

mod counts;
mod depth;
mod drain;
mod floor;
mod ground;
mod idle;
mod latency;
mod pinned;
mod report;
mod sleepers;
mod start;
mod takeover;
mod transact;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use ground::{Files, Ground, Round, Server};
use report::Report;

/// What a measure comes to.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures Passbook on Postgres or on SQLite.
#[derive(Debug, Parser)]
struct Arguments {
    /// The Postgres to measure, instead of a throwaway one with fsync on. Schemas named `bench_…` are made in it and stay.
    #[arg(long, global = true)]
    database: Option<String>,
    /// Measures SQLite instead, on throwaway files in the temporary directory.
    #[arg(long, global = true, conflicts_with = "database")]
    sqlite: bool,
    /// How often each figure is measured.
    #[arg(long, global = true, default_value_t = 3)]
    runs: usize,
    /// Makes each write by itself, for comparison.
    #[arg(long, global = true)]
    no_batching: bool,
    /// Prints JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    measure: Measure,
}

#[derive(Debug, Subcommand)]
enum Measure {
    /// What the database itself can do.
    Floor,
    /// Drains workflows that were started up front.
    Drain(drain::Drain),
    /// Starts by 1, 20 and 200 concurrent callers, alone and inside a transaction of the caller's.
    Start,
    /// Submit to first step and to result seen, on an idle worker or beside a load.
    Latency(latency::Latency),
    /// A new step and a wakeup of workflows with a long history.
    Depth(depth::Depth),
    /// Takes and drains beside sleeping workflows, and how late these wake.
    Sleepers(sleepers::Sleepers),
    /// The rate under steady work while somebody holds a snapshot open.
    Pinned(pinned::Pinned),
    /// Statements and CPU of a worker that has nothing to do.
    Idle(idle::Idle),
    /// From the kill of a worker's process to the next effect, by another.
    Takeover(takeover::Takeover),
    /// Steps whose own SQL commits with their record, beside the same SQL by hand.
    Transact(transact::Transact),
    /// A process of `takeover`.
    #[command(hide = true)]
    Hand(takeover::Hand),
}

impl Measure {
    /// One run.
    async fn make<G: Ground>(&self, round: &mut Round<'_, G>) -> Result<()> {
        match self {
            Self::Floor => floor::measure(round).await,
            Self::Drain(drain) => drain::measure(round, drain).await,
            Self::Start => start::measure(round).await,
            Self::Latency(latency) => latency::measure(round, latency).await,
            Self::Depth(depth) => depth::measure(round, depth).await,
            Self::Sleepers(sleepers) => sleepers::measure(&mut round.on_server()?, sleepers).await,
            Self::Pinned(pinned) => pinned::measure(&mut round.on_server()?, pinned).await,
            Self::Idle(idle) => idle::measure(round, idle).await,
            Self::Takeover(takeover) => takeover::measure(&mut round.on_server()?, takeover).await,
            Self::Hand(_) => Ok(()),
            Self::Transact(transact) => transact::measure(&mut round.on_server()?, transact).await,
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    if let Measure::Hand(hand) = &arguments.measure {
        takeover::work(hand).await
    } else if arguments.sqlite {
        measure_on(&Files::new()?, &arguments).await
    } else {
        measure_on(&Server::open(arguments.database.clone())?, &arguments).await
    }
}

async fn measure_on<G: Ground>(ground: &G, arguments: &Arguments) -> Result<()> {
    let described = ground.describe().await?;
    let mut report = Report::default();
    for run in 0..arguments.runs {
        let mut round = Round {
            ground,
            report: &mut report,
            batching: !arguments.no_batching,
            run,
        };
        arguments.measure.make(&mut round).await?;
    }
    let how = if arguments.no_batching {
        ", each write by itself"
    } else {
        ""
    };
    let measure = format!("{:?}{how}", arguments.measure);
    if arguments.json {
        println!(
            "{}",
            serde_json::json!({"measure": measure, "database": described, "runs": arguments.runs, "figures": report.json()})
        );
    } else {
        println!(
            "{measure}, {} run(s)\n{described}\nmedians, and spread from lowest to highest\n",
            arguments.runs
        );
        report.print();
    }
    Ok(())
}
