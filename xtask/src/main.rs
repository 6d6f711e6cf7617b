//! Tasks of the repository, run as `cargo xtask TASK`.
//!
//! Nothing beyond the Rust toolchain has to be installed: servers that the tests need are found on
//! the machine, or installed where that is possible without asking.

mod account;
mod child;
mod ci;
mod failed;
mod postgres;
mod programs;
mod suite;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::account::Account;
use crate::child::{Interrupt, Interrupted};
use crate::failed::Failed;
use crate::postgres::{Fsync, Postgres};

/// Tasks of the repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Runs all tests, on a Postgres that is started for them and stopped after them.
    Test {
        /// What `cargo test` gets instead of nothing, after `--`: `-- -p passbook-postgres claim`.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Starts the Postgres that the tests get, prints its URL and waits for Ctrl-C.
    Postgres {
        /// Leaves fsync on, for measuring.
        #[arg(long)]
        fsync: bool,
    },
    /// Runs the whole CI: formatting, lints, documentation, tidiness, tests, packages.
    Ci,
    /// Checks what no compiler checks: sizes, leftovers, SQL files, links, dependencies.
    Tidy,
}

fn main() -> ExitCode {
    let Err(error) = run(&Arguments::parse().task) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("xtask: {error:#}");
    if let Some(Interrupted { signal }) = error.downcast_ref() {
        return u8::try_from(128 + signal).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    error
        .downcast_ref::<Failed>()
        .map_or(ExitCode::FAILURE, |failed| failed.exit_code().into())
}

fn run(task: &Task) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    match task {
        Task::Test { arguments } => suite::run(arguments, &interrupt),
        Task::Postgres { fsync } => lend_postgres(if *fsync { Fsync::On } else { Fsync::Off }, &interrupt),
        Task::Ci => ci::run(&interrupt),
        Task::Tidy => tidy::run(),
    }
}

/// `cargo xtask postgres`. Ctrl-C is how it is meant to end, so it is a success.
fn lend_postgres(fsync: Fsync, interrupt: &Interrupt) -> Result<()> {
    let bin = programs::postgres(interrupt)?;
    let account = Account::for_servers()?;
    let mut server = Postgres::start(&bin, account.as_ref(), fsync, interrupt)?;
    println!("{}", server.url());
    eprintln!("xtask: this Postgres is gone after Ctrl-C");
    while interrupt.pause().is_ok() {
        server.check()?;
    }
    Ok(())
}
