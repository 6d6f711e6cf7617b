//! Durable workflows on the database you already run.
//!
//! A workflow is an ordinary async function whose effects are named. What it has done is rows in a table; resuming it is
//! calling it again. There is no server and no engine: every guarantee is an ordinary transaction.
//!
//! ```
//! use std::time::Duration;
//!
//! use passbook::{Client, Ended, MemoryStore, Run, Shutdown, Value, Worker};
//!
//! async fn payout(run: &Run<MemoryStore>, cents: u64) -> Result<String, String> {
//!     // At least once: recorded when it has returned, and not run again after that.
//!     let key = run.key("charged");
//!     run.step("charged", async || charge(cents, &key)).await?;
//!
//!     // Exactly once: what the effect writes and the record of the step are one commit.
//!     run.transact("ledger", async |tx| {
//!         tx.put("ledger", "order-17", Value::encode(&cents).map_err(|why| why.to_string())?);
//!         Ok::<_, String>(())
//!     })
//!     .await?;
//!
//!     // No memory and no thread while it sleeps or waits. The deadline is a record.
//!     run.sleep("settling", Duration::from_millis(10)).await;
//!     let by: String = run.awaiting("approved-by").await;
//!     Ok(format!("{cents} cents, approved by {by}"))
//! }
//!
//! fn charge(_cents: u64, _idempotency_key: &str) -> Result<(), String> {
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> passbook::Result<()> {
//! let store = MemoryStore::new();
//! let client = Client::new(store.clone());
//! let orders = client.kind("payout");
//! orders.start("order-17", &4_200).await?;
//!
//! let shutdown = Shutdown::new();
//! let worker = Worker::new(store.clone()).serve("payout", payout).run(shutdown.clone());
//! let person = async {
//!     orders.arrive("order-17", "approved-by", "ann").await?;
//!     let ended = orders.result::<String>("order-17").await;
//!     shutdown.begin();
//!     ended
//! };
//! let (worked, ended) = tokio::join!(worker, person);
//! worked?;
//! assert_eq!(ended?, Ended::Completed("4200 cents, approved by ann".to_owned()));
//! assert_eq!(store.rows("ledger").len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! The same body runs on Postgres and on SQLite: name the store of `passbook-postgres` or `passbook-sqlite` in the place
//! of [`MemoryStore`], or be generic over [`Durable`].
//!
//! # The concepts
//!
//! - A **workflow** is one durable execution under an id of the caller's choosing. Its kind is a [`Workflow`] (a type that
//!   holds what the body needs) or a plain function ([`Worker::serve`]); the name of the kind is its **namespace**, the
//!   name of its queue.
//! - A **step** is a named effect: [`Run::step`], [`Run::attempt`], [`Run::transact`], and [`Run::retry`] and
//!   [`Run::within`] before the verb. The name is the key of its record. Moving a step, or adding one before it, changes
//!   nothing; a name is used once in a pass.
//! - A **pass** is one run of the body from the top, under a **claim**, of which at most one is live. The claim's token
//!   strictly rises, and a write under an older one is refused. Everything outside of steps may run again on any pass, so
//!   it must come to the same each time.
//! - [`Run::sleep`], [`Run::awaiting`] and [`Run::receive`] end the pass when nothing else is left to do: they are futures
//!   that do not resolve. Nothing about suspending, or about losing the claim, reaches the body as a value or an error.
//! - [`Client`] starts workflows, sends to them, waits for results. Where the store implements [`Enlist`], `start_in`,
//!   `arrive_in` and `deliver_in` join the caller's own transaction.
//! - [`Worker`] takes what is due, runs it, keeps it alive and settles it. [`resume`] runs one pass that the caller drives.
//! - [`Inspect`] is only for looking.
//!
//! # What is promised
//!
//! An effect of `transact` takes place exactly once over all passes, crashes and workers. An effect of `step` takes place
//! at least once: when the process dies between the effect and its record, the next pass runs it again, so give gateways
//! the [`Run::key`]. The first writer of a key wins, and everybody is told who that was. A wakeup is never lost.
//!
//! When the process dies, its transactions roll back, and what it held is taken up again when its lease runs out.
//!
//! # Stores
//!
//! A store implements [`Checkpointer`] (what was done, and who may write), [`Scheduler`] (the right to run) and
//! [`Durable`] (the pair, and the transitions that cross both). [`SplitDurable`] pairs two that are not one datastore.
//! This crate names no database driver; an error of a store is an [`Error`] with predicates.
//!
//! Values are whatever serde can write, kept as canonical JSON: see [`Value`] for what is refused, and for the limits.
//! [`Coded`] puts a codec of your own before a store, e.g. to encrypt them.

mod batches;
mod checkpointer;
mod client;
mod codec;
mod durable;
mod error;
mod hints;
mod inspect;
mod memory;
mod offers;
mod pass;
mod retry;
mod run;
mod scheduler;
mod split;
mod time;
mod value;
mod worker;
mod workflow;

pub use batches::Batches;
pub use checkpointer::{
    Begun, Checkpointer, Claim, Claimed, Granted, INBOX, INPUT, Life, MAX_NAME_BYTES, RESULT, Record, Recorded,
};
pub use client::{Client, Ended, Kind, Sent};
pub use codec::{Codec, Coded, CodedCheckpointer};
pub use durable::{Acquire, Acquired, Durable, Enlist, Pass, Renewed, Settled, Settlement, Tx, check_name};
pub use error::{Error, Result};
pub use hints::{Endings, Hints, Wakeups};
pub use inspect::{Filter, Finished, Inspect, State, Status};
pub use memory::{MemoryCheckpointer, MemoryOptions, MemoryScheduler, MemoryStore, MemoryTransaction, MemoryTx};
pub use offers::{Offer, Offering};
pub use pass::{Failure, Outcome, resume};
pub use retry::Retry;
pub use run::{Awaiting, AwaitingWithin, Batch, Cursor, Limited, Retrying, Run, TimedOut};
pub use scheduler::{Delivery, Scheduler};
pub use split::SplitDurable;
pub use time::{Clock, StoreTime, Timestamp};
pub use value::{MAX_DEPTH, MAX_VALUE_BYTES, Refused, Undecodable, Value};
pub use worker::{Shutdown, Worker};
pub use workflow::{Body, Workflow};
