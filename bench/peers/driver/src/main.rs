//! Measures Passbook beside other systems: the same work, on the same database, in the same run, one after another.

mod chart;
mod child;
mod figures;
mod floor;
mod machine;
mod measure;
mod peer;
mod ready;
mod run;
mod server;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use figures::Figures;
use machine::Machine;
use server::Server;

/// What a measure comes to.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures Passbook beside other systems on Postgres.
#[derive(Debug, Parser)]
struct Arguments {
    /// The server to measure on, as a superuser, instead of a throwaway one with fsync on. Each measure makes a database of
    /// its own in it and removes it.
    #[arg(long)]
    database: Option<String>,
    /// How often each figure is measured. Rounds go through all systems, so that none has the quiet hours for itself.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// How many workflows are drained.
    #[arg(long, default_value_t = 4_000)]
    workflows: usize,
    /// Only these systems, and Passbook, by their names in the table.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these measures.
    #[arg(long, value_delimiter = ',')]
    measures: Vec<measure::Kind>,
    /// Writes all figures there too.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draws the charts into this folder.
    #[arg(long)]
    charts: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match measured(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measured(arguments: Arguments) -> Result<()> {
    let server = Server::open(arguments.database.clone())?;
    let machine = Machine::look(&server, &arguments).await?;
    let mut figures = Figures::default();
    let peers = peer::prepare(&arguments.only, &mut figures).await?;
    let measures = measure::all(&arguments.measures);
    run::all(&server, &peers, &measures, &arguments, &mut figures).await?;
    table::print(&machine, &figures, &measures);
    if let Some(folder) = &arguments.charts {
        chart::draw(folder, &machine, &figures)?;
    }
    if let Some(file) = &arguments.json {
        let json = figures.json(&machine);
        std::fs::write(file, format!("{json:#}\n"))?;
    }
    Ok(())
}
