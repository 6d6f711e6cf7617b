//! Passbook on one SQLite file.
//!
//! ```
//! use passbook::{Durable, Scheduler, Value};
//! use passbook_sqlite::Sqlite;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("work.db");
//! let store = Sqlite::open(&path).await?;
//! store.scheduler().prepare().await?;
//!
//! let recorded = store.start("orders", "order-17", &Value::encode("two books")?).await?;
//! assert!(recorded.first);
//! # Ok(())
//! # }
//! ```
//!
//! The file is in WAL mode with `synchronous = FULL`: what a call returned as done survives a power cut. Several processes
//! on one machine may use it; a network file system must not be used, SQLite's locks do not hold there.
//!
//! # One writer
//!
//! SQLite has one write lock for a file. Inside a process all writes queue fairly for one connection; between processes
//! they wait for the lock, up to [`SqliteOptions::patience`], and fail as unavailable after that. Reads wait for nobody.
//! Writes that wait for the lock go together in one transaction, unless [`SqliteOptions::batching`] is off.
//!
//! A `transact` effect holds that lock from its beginning to its commit. While it runs, nothing else is written: no
//! start, no record, no renewal, by any process. Keep effects short: **no network calls in them**. What follows for
//! leases is said at [`SqliteCheckpointer`]. An effect that calls the store other than through its own transaction waits
//! for itself, until the patience ends; use [`Enlist`](passbook::Enlist) in it.
//!
//! # Clock
//!
//! SQLite has no server, so the store's clock is the machine's wall clock. Processes on one machine share it; when it is
//! set back, leases and sleeps last longer by as much.

mod batch;
mod checkpointer;
mod connection;
mod durable;
mod enlist;
mod error;
mod inspect;
mod migrate;
mod options;
mod requests;
mod rows;
mod scheduler;
mod settling;
mod watch;

pub use checkpointer::SqliteCheckpointer;
pub use connection::{SqliteFile, Transaction};
pub use durable::SqliteDurable;
/// The whole store: what most programs name.
pub use durable::SqliteDurable as Sqlite;
pub use migrate::migration_sql;
pub use options::SqliteOptions;
pub use scheduler::SqliteScheduler;
