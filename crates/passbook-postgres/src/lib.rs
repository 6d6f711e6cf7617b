//! Passbook on Postgres.
//!
//! ```no_run
//! use passbook::{Durable, Scheduler, Value};
//! use passbook_postgres::Postgres;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Postgres::connect("postgres://shop@localhost/shop").await?;
//! store.scheduler().prepare().await?;
//!
//! let recorded = store.start("orders", "order-17", &Value::encode("two books")?).await?;
//! assert!(recorded.first);
//! # Ok(())
//! # }
//! ```
//!
//! Every transition is one statement and one commit, and every guarantee is that transaction's. `synchronous_commit` is left
//! as the server has it. Nothing is kept in a session, so the store works through a transaction pooler too; see
//! [`PostgresOptions::pooler`].
//!
//! Postgres 13 and later. The tables are described in the project's `docs/schema.md`; [`migration_sql`] prints them.

mod at_hand;
mod batch;
mod checkpointer;
mod connection;
mod durable;
mod enlist;
mod error;
mod hints;
mod horizon;
mod inspect;
mod migrate;
mod options;
mod requests;
mod rows;
mod scheduler;
mod settling;
mod statements;

pub use checkpointer::PostgresCheckpointer;
pub use durable::PostgresDurable;
/// The whole store: what most programs name.
pub use durable::PostgresDurable as Postgres;
pub use migrate::{SCHEMA, migration_sql};
pub use options::PostgresOptions;
pub use scheduler::PostgresScheduler;
