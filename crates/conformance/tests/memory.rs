//! The sentences about stores, on the in-memory store.

use conformance::conformance_suite;
use conformance::stores::Memory;

conformance_suite!(
    Memory: checkpointer, claims, transact, beside, scheduler, durable, settles, fused, known, inspect, enlist, stall, repairs
);
