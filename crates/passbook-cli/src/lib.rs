//! The `passbook` command, as a library: what each command does, apart from how it was typed.

mod commands;
mod database;

use clap::{Parser, Subcommand};
use passbook::{Result, State};

/// Looks after durable workflows in a database.
#[derive(Debug, Parser)]
#[command(name = "passbook", version, about)]
pub struct Arguments {
    /// Where the workflows are: a Postgres URL (postgres://user@host/name), or sqlite:FILE.
    #[arg(long, global = true, env = "DATABASE_URL", hide_env_values = true)]
    database: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Brings the schema up to date, forward only. Safe while others do the same.
    Migrate {
        /// Prints the SQL, and touches nothing.
        #[arg(long)]
        print: bool,
    },
    /// Lists workflows by their ids.
    List {
        /// Only this kind.
        #[arg(long)]
        namespace: Option<String>,
        /// Only this state: ready, running, sleeping, waiting, completed, failed or cancelled.
        #[arg(long)]
        state: Option<State>,
        /// Only ids after this one.
        #[arg(long)]
        after: Option<String>,
        /// At most this many, up to 1,000.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Shows where a workflow stands.
    Status {
        /// Its id.
        workflow: String,
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Shows what a workflow has done, in the order in which it was first recorded.
    History {
        /// Its id.
        workflow: String,
    },
    /// Gives a workflow the value that it awaits under a key. Exits with 1 when another value was first.
    Arrive {
        /// Its id.
        workflow: String,
        /// The key.
        key: String,
        /// The value, as JSON. A text needs its quotes: '"ann"'.
        value: String,
    },
    /// Puts a value into a workflow's inbox.
    Deliver {
        /// Its id.
        workflow: String,
        /// The value, as JSON.
        value: String,
    },
    /// Cancels a workflow. Exits with 1 when it was over already.
    Cancel {
        /// Its id.
        workflow: String,
    },
    /// Lets a failed or cancelled workflow go on. Exits with 1 when it is neither.
    Resume {
        /// Its id.
        workflow: String,
    },
    /// Removes a workflow with all that it has recorded.
    Delete {
        /// Its id.
        workflow: String,
    },
}

/// Carries out what was asked, printing to standard output. False when it came to nothing, as the command says.
pub async fn run(arguments: Arguments) -> Result<bool> {
    database::open(arguments.database.as_deref(), arguments.command).await
}
