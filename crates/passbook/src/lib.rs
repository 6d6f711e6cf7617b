//! Durable workflows on the database you already run.

mod checkpointer;
mod client;
mod durable;
mod error;
mod inspect;
mod memory;
mod pass;
mod retry;
mod run;
mod scheduler;
mod split;
mod time;
mod value;
mod worker;
mod workflow;

pub use checkpointer::{
    Begun, Checkpointer, Claim, Claimed, Granted, INBOX, INPUT, Life, MAX_NAME_BYTES, RESULT, Record, Recorded,
};
pub use client::{Client, Ended, Kind, Sent};
pub use durable::{Acquire, Acquired, Durable, Enlist, Pass, Renewed, Settlement, Tx, check_name};
pub use error::{Error, Result};
pub use inspect::{Filter, Finished, Inspect, State, Status};
pub use memory::{MemoryCheckpointer, MemoryOptions, MemoryScheduler, MemoryStore, MemoryTransaction, MemoryTx};
pub use pass::{Failure, Outcome, resume};
pub use retry::Retry;
pub use run::{Awaiting, AwaitingWithin, Batch, Cursor, Limited, Retrying, Run, TimedOut};
pub use scheduler::{Delivery, Scheduler};
pub use split::SplitDurable;
pub use time::{Clock, StoreTime, Timestamp};
pub use value::{MAX_DEPTH, MAX_VALUE_BYTES, Refused, Undecodable, Value};
pub use worker::{Shutdown, Worker};
pub use workflow::{Body, Workflow};
