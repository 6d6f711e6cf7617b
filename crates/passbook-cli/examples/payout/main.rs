//! A payout workflow over the orders of a file. Kill it anywhere and run it again: it goes on.
//!
//! With a terminal it waits for a person to approve large sums; without one it approves them itself, so that it always
//! comes to an end.

mod account;
mod ledger;
mod workflow;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use passbook::{Client, Ended, Error, Result, Shutdown, State, Worker};
use passbook_postgres::Postgres;
use passbook_sqlite::Sqlite;

use account::{Account, euros, say};
use ledger::Ledger;
use workflow::{APPROVAL_LIMIT, APPROVED_BY, Order, Payout, Receipt};

/// The command that approves, as a person types it.
const APPROVE: &str = "cargo run --quiet --example payout -- approve";

/// After a kill, whoever is next takes over when the lease of the killed one is over. Short, so that nobody has to wait long
/// here; a real worker keeps the 30 s that are there unless told otherwise, and rides out a slow minute.
const LEASE: Duration = Duration::from_secs(2);

#[derive(Parser)]
#[command(about = "Pays orders, durably. Kill it anywhere and run it again: it goes on.")]
struct Arguments {
    /// A Postgres URL, e.g. postgres://localhost/shop; a SQLite file in the folder otherwise.
    #[arg(long, global = true, env = "DATABASE_URL", hide_env_values = true)]
    database: Option<String>,
    /// Where the effects file and the SQLite file are kept.
    #[arg(long, global = true, default_value = "payout-demo")]
    folder: PathBuf,
    /// A JSON file of orders; those that come with the program otherwise.
    #[arg(long)]
    orders: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Approves an order that waits, from a second terminal.
    Approve {
        /// The order's id.
        order: String,
        /// Who approves.
        #[arg(long, default_value = "somebody")]
        by: String,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("payout: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<bool> {
    std::fs::create_dir_all(&arguments.folder).map_err(|error| {
        let folder = arguments.folder.display();
        Error::invalid(format!("cannot make the folder `{folder}`; name another with --folder")).with_source(error)
    })?;
    match &arguments.database {
        Some(url) if url.starts_with("postgres:") || url.starts_with("postgresql:") => {
            go(arguments, Postgres::options().lease(LEASE).connect(url).await?, url).await
        }
        Some(other) => Err(Error::invalid(format!(
            "the database `{other}` is no Postgres URL; give one like postgres://localhost/shop, or leave it out for a SQLite file"
        ))),
        None => {
            let file = arguments.folder.join("payout.db");
            go(
                arguments,
                Sqlite::options().lease(LEASE).open(&file).await?,
                &file.display().to_string(),
            )
            .await
        }
    }
}

async fn go<S: Ledger>(arguments: &Arguments, store: S, database: &str) -> Result<bool> {
    use passbook::Scheduler as _;
    let client = Client::new(store.clone());
    match &arguments.command {
        None => {
            store.scheduler().prepare().await?;
            S::create(database)
                .await
                .map_err(|error| Error::store("cannot create the ledger").with_source(error))?;
            pay(arguments, store, &client, database).await
        }
        Some(Command::Approve { order, by }) => approve(&client, order, by).await,
    }
}

async fn approve<S: Ledger>(client: &Client<S>, order: &str, by: &str) -> Result<bool> {
    if client.status(order).await?.is_none() {
        return Err(Error::not_found(format!(
            "there is no order `{order}`; run the payout first"
        )));
    }
    let sent = client.arrive::<Payout>(order, APPROVED_BY, by).await?;
    if sent.first {
        println!("{order} is approved by {by}.");
    } else {
        println!("{order} was approved already, by {}.", sent.value);
    }
    Ok(true)
}

async fn pay<S: Ledger>(arguments: &Arguments, store: S, client: &Client<S>, database: &str) -> Result<bool> {
    let orders = read(arguments.orders.as_deref())?;
    let effects = arguments.folder.join("effects.txt");
    let account = Account::new(&effects);
    println!(
        "Paying {} orders. Kill me whenever you like (kill -9 {}), and run me again.",
        orders.len(),
        std::process::id()
    );
    println!("  records  {database}\n  effects  {}\n", effects.display());

    for order in &orders {
        let sent = client.start::<Payout>(&order.id, order).await?;
        if sent.first {
            say(
                &order.id,
                "started",
                "",
                &format!("{}, {}", order.customer, euros(order.total())),
            );
        } else {
            let state = client
                .status(&order.id)
                .await?
                .map_or(State::Ready, |status| status.state);
            say(&order.id, "goes on", "", &format!("it is {state}"));
        }
    }

    let shutdown = Shutdown::on_signals();
    // A worker would keep the bodies that it suspends, and go on where they stand. Here each begins again from the top after
    // a sleep, as it would in another process, so that one sees the replay.
    let worker = Worker::new(store).keep(0).register(Payout {
        account: account.clone(),
    });
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let person = tokio::spawn(approvals(client.clone(), orders.clone()));

    let mut results: FuturesUnordered<_> = orders
        .iter()
        .map(async |order| (order, client.result::<Payout>(&order.id).await))
        .collect();
    let mut paid = 0;
    while let Some((order, ended)) = tokio::select! {
        next = results.next() => next,
        () = stopped(&worker) => None,
    } {
        match ended? {
            Ended::Completed(Receipt { cents, approved_by }) => {
                paid += 1;
                let by = approved_by.map_or_else(String::new, |by| format!(", approved by {by}"));
                say(&order.id, "completed", "", &format!("{}{by}", euros(cents)));
            }
            Ended::Failed(why) => say(&order.id, "failed", "", &why),
            Ended::Cancelled => say(&order.id, "cancelled", "", ""),
        }
    }
    person.abort();
    shutdown.begin();
    worker
        .await
        .map_err(|error| Error::store("the worker ended").with_source(error))??;

    let (lines, sum) = S::total(database)
        .await
        .map_err(|error| Error::store("cannot read the ledger").with_source(error))?;
    println!("\n{paid} of {} orders are paid.", orders.len());
    println!(
        "  the ledger has {lines} lines over {}: each order exactly once",
        euros(sum)
    );
    for (effect, count) in account.count() {
        println!("  {effect:<8} {count:>3} times in {}", effects.display());
    }
    println!(
        "Run it again: everything is recorded, so nothing is done. Delete {} to begin anew.",
        arguments.folder.display()
    );
    Ok(paid == orders.len())
}

/// Completes when the worker has ended by itself, e.g. after Ctrl-C.
async fn stopped(worker: &tokio::task::JoinHandle<Result<()>>) {
    while !worker.is_finished() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Tells a person what waits, and approves it on Enter; without a terminal, approves it by itself.
async fn approvals<S: Ledger>(client: Client<S>, orders: Vec<Order>) -> Result<()> {
    let person = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    for order in orders.iter().filter(|order| order.total() > APPROVAL_LIMIT) {
        loop {
            match client.status(&order.id).await?.map(|status| status.state) {
                Some(State::Waiting) => break,
                Some(state) if state.is_over() => break,
                _ => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
        if client
            .status(&order.id)
            .await?
            .is_none_or(|status| status.state != State::Waiting)
        {
            continue;
        }
        let sum = euros(order.total());
        say(
            &order.id,
            "waits",
            APPROVED_BY,
            &format!("{sum} is above {}", euros(APPROVAL_LIMIT)),
        );
        if person {
            println!(
                "\n  Press Enter to approve {} here, or in a second terminal:\n  {APPROVE} {}\n",
                order.id, order.id
            );
            let approved_elsewhere = client.result::<Payout>(&order.id);
            tokio::select! {
                line = line() => line?,
                ended = approved_elsewhere => { ended?; continue; }
            }
        } else {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let by = if person { "the terminal" } else { "the demonstration" };
        let sent = client.arrive::<Payout>(&order.id, APPROVED_BY, by).await?;
        if sent.first {
            say(&order.id, "approved", "", &format!("by {by}"));
        }
    }
    Ok(())
}

async fn line() -> Result<()> {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    match read.await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Error::store("cannot read the terminal").with_source(error)),
        Err(error) => Err(Error::store("cannot read the terminal").with_source(error)),
    }
}

fn read(file: Option<&Path>) -> Result<Vec<Order>> {
    let text = match file {
        Some(file) => std::fs::read_to_string(file).map_err(|error| {
            Error::invalid(format!("cannot read the orders in `{}`", file.display())).with_source(error)
        })?,
        None => include_str!("orders.json").to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| Error::invalid("the orders are not as expected").with_source(error))
}
