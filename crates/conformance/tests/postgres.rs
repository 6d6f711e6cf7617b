//! The sentences about stores, on Postgres.

use conformance::conformance_suite;
use conformance::stores::Database;

conformance_suite!(
    Database: checkpointer, claims, transact, beside, scheduler, durable, settles, fused, known, inspect, enlist, stall, repairs
);
