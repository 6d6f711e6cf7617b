//! The sentences about passes, on the in-memory store.

use std::time::Duration;

use conformance::bed::{Bed, MORNING};
use passbook::{Clock, MemoryStore};

#[allow(clippy::unused_async, reason = "other stores open theirs")]
async fn memory() -> (Bed<MemoryStore>, ()) {
    let clock = Clock::manual(MORNING);
    let store = MemoryStore::with(Duration::from_secs(30), clock.clone()).expect("a store");
    (Bed { store, clock }, ())
}

conformance::pass_sentences!(super::memory);
