//! What every peer in Rust shares: its command line, its clock, and what it prints.
//!
//! A peer is a program of its own. It is asked for one measure on one fresh database, does it, prints one JSON line for each
//! figure, and ends. Peers in other languages keep to the same command line.

mod drain;
mod latency;
mod start;

use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::json;

pub use drain::{Drain, Ended};
pub use latency::{Latency, Noted};
pub use start::Start;

/// What a measure comes to.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// One figure of one measure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What the driver knows it by.
    pub name: &'static str,
    /// Of the value.
    pub unit: &'static str,
    /// How much.
    pub value: f64,
}

/// A system that is measured.
pub trait Peer {
    /// The crate whose version is printed.
    const CRATE: &'static str;
    /// How it is set up, in one line for the reader of the table.
    const SETUP: &'static str;

    /// Starts the workflows, then drains them by one worker. The seconds that the second part took.
    fn drain(task: Drain) -> impl Future<Output = Result<f64>>;

    /// Submits one workflow after another to an idle worker.
    fn latency(task: Latency) -> impl Future<Output = Result<Vec<Figure>>>;

    /// Starts workflows that nobody takes. How many a second.
    fn start(task: Start) -> impl Future<Output = Result<f64>>;
}

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    measure: Measure,
}

#[derive(Debug, Subcommand)]
enum Measure {
    /// Prints what is measured.
    About,
    /// Drains workflows that were started up front.
    Drain(Drain),
    /// Submit to first step and to result seen.
    Latency(Latency),
    /// Starts by concurrent callers.
    Start(Start),
}

/// The whole program of a peer: reads the command line, measures, prints.
pub async fn main<P: Peer>() -> ExitCode {
    match figures::<P>(Arguments::parse().measure).await {
        Ok(figures) => {
            for figure in figures {
                println!(
                    "{}",
                    json!({"figure": figure.name, "unit": figure.unit, "value": figure.value})
                );
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::cast_precision_loss)]
async fn figures<P: Peer>(measure: Measure) -> Result<Vec<Figure>> {
    let one = |name, unit, value| vec![Figure { name, unit, value }];
    Ok(match measure {
        Measure::About => {
            let version = version(P::CRATE).ok_or("the lock file does not name the crate")?;
            println!("{}", json!({"version": version, "setup": P::SETUP}));
            Vec::new()
        }
        Measure::Drain(drain) => {
            let workflows = drain.workflows as f64;
            one("drained", "workflows/s", workflows / P::drain(drain).await?)
        }
        Measure::Latency(latency) => P::latency(latency).await?,
        Measure::Start(start) => one("started", "starts/s", P::start(start).await?),
    })
}

/// The version of a crate that this workspace is built with.
fn version(name: &str) -> Option<&'static str> {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let rest = LOCK.split_once(&format!("\nname = \"{name}\"\nversion = \""))?.1;
    rest.split('"').next()
}
