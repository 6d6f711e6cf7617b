//! The contract of Passbook, as sentences that every store is held to.
//!
//! A sentence is an async function that panics when it does not hold. Those about stores take a
//! [`Fixture`](fixture::Fixture), and [`conformance_suite!`] makes a test of each for one store; those about passes, waits
//! and workers take a [`Bed`](bed::Bed), and [`pass_sentences!`] does the same. A new store is a fixture and one line.

// A sentence that does not hold panics; that is what it is for.
#![allow(clippy::missing_panics_doc)]
// "A lease, and not a moment before": both sides are constants.
#![allow(clippy::unchecked_time_subtraction)]
// A sentence declares what it needs where it needs it.
#![allow(clippy::items_after_statements)]

pub mod bed;
pub mod beside;
pub mod checkpointer;
pub mod claims;
pub mod driver;
pub mod durable;
pub mod enlist;
pub mod faulty;
pub mod fixture;
pub mod fused;
pub mod inspect;
pub mod known;
mod moments;
pub mod naming;
pub mod parking;
pub mod pass;
pub mod repairs;
pub mod scheduler;
mod sentences;
pub mod server;
pub mod settles;
pub mod stall;
pub mod stores;
mod suite;
pub mod transact;
pub mod transacts;
pub mod waits;
pub mod worker;
