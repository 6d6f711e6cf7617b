//! The contract of Passbook, as sentences that every store is held to.

// A sentence that does not hold panics; that is what it is for.
#![allow(clippy::missing_panics_doc)]

pub mod bed;
pub mod pass;
mod sentences;
pub mod server;
pub mod waits;
pub mod worker;
