//! The sentences about stores, on a SQLite file.

use conformance::conformance_suite;
use conformance::stores::File;

// Not `beside` and `stall`: an open transaction holds the file's only write lock, so nothing is written beside it.
conformance_suite!(
    File: checkpointer, claims, transact, scheduler, durable, settles, fused, known, inspect, enlist, repairs
);

/// The groups whose writes go together otherwise.
mod each_write_by_itself {
    use super::*;
    conformance_suite!(File<false>: checkpointer, durable, settles, fused, known, repairs);
}
