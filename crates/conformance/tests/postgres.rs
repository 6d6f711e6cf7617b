//! The sentences about stores, on Postgres.

use conformance::conformance_suite;
use conformance::stores::Database;

conformance_suite!(
    Database: checkpointer, claims, transact, beside, scheduler, durable, settles, fused, known, inspect, enlist, stall, repairs
);

/// The groups whose writes go together otherwise.
mod each_write_by_itself {
    use super::*;
    conformance_suite!(Database<false>: checkpointer, durable, settles, fused, known);
}
