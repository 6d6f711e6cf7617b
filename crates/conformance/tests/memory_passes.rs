//! The sentences about passes, on the in-memory store.

use std::time::Duration;

use conformance::bed::{Bed, MORNING};
use passbook::{Clock, MemoryStore};

#[expect(
    clippy::unused_async,
    reason = "the beds of other stores are made by asking a server"
)]
async fn memory() -> (Bed<MemoryStore>, ()) {
    let clock = Clock::manual(MORNING);
    let store = MemoryStore::with(Duration::from_secs(30), clock.clone()).expect("a store");
    (Bed::new(store, clock), ())
}

conformance::pass_sentences!(super::memory);
