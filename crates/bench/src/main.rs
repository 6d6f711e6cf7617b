//! Measures of Passbook, each beside the floor of the same database in the same run.

mod database;
mod drain;
mod floor;
mod latency;
mod report;
mod start;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use database::Database;
use report::Report;

/// What a measure comes to.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures Passbook on Postgres.
#[derive(Debug, Parser)]
struct Arguments {
    /// The database to measure, instead of a throwaway one with fsync on. Schemas named `bench_…` are made in it and stay.
    #[arg(long, global = true)]
    database: Option<String>,
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
    /// Starts by 1, 20 and 200 concurrent callers.
    Start,
    /// Submit to first step and to result seen, on an idle worker.
    Latency {
        /// How many workflows a run submits, one after another.
        #[arg(long, default_value_t = 100)]
        submits: usize,
        /// Gives the worker a store of its own, so that nothing in this process tells it of a start.
        #[arg(long)]
        apart: bool,
    },
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
    let database = Database::open(arguments.database)?;
    let server = database.describe().await?;
    let mut report = Report::default();
    let batching = !arguments.no_batching;
    for run in 0..arguments.runs {
        match &arguments.measure {
            Measure::Floor => floor::measure(&database, &mut report).await?,
            Measure::Drain(drain) => drain::measure(&database, drain, batching, run, &mut report).await?,
            Measure::Start => start::measure(&database, batching, run, &mut report).await?,
            Measure::Latency { submits, apart } => {
                latency::measure(&database, *submits, *apart, batching, run, &mut report).await?;
            }
        }
    }
    let how = if batching { "" } else { ", each write by itself" };
    let measure = format!("{:?}{how}", arguments.measure);
    if arguments.json {
        println!(
            "{}",
            serde_json::json!({"measure": measure, "server": server, "runs": arguments.runs, "figures": report.json()})
        );
    } else {
        println!(
            "{measure}, {} run(s)\nPostgres: {server}\nmedians, and spread from lowest to highest\n",
            arguments.runs
        );
        report.print();
    }
    Ok(())
}

/// A schema that no earlier run has used.
pub(crate) fn schema(measure: &str, run: usize) -> String {
    format!("bench_{measure}_{}_{run}", std::process::id())
}
