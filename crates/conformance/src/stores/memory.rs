//! The in-memory store.

use crate::fixture::{EnlistFixture, Fixture, LEASE, encode};
use passbook::{Clock, Enlist as _, MemoryStore, MemoryTransaction, MemoryTx};

/// The in-memory store; another handle is a clone.
#[derive(Debug)]
pub struct Memory {
    store: MemoryStore,
    clock: Clock,
}

impl Fixture for Memory {
    type Store = MemoryStore;

    async fn open_under(clock: Clock) -> Self {
        let store = MemoryStore::with(LEASE, clock.clone()).expect("a store");
        Self { store, clock }
    }

    fn store(&self) -> &MemoryStore {
        &self.store
    }

    async fn second(&self) -> MemoryStore {
        self.store.clone()
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn count(&self, tx: &mut MemoryTx) {
        let counted: u64 = tx
            .get("counter", "")
            .map_or(0, |value| value.decode().expect("a number"));
        tx.put("counter", "", encode(&(counted + 1)));
    }

    async fn counted(&self) -> u64 {
        let rows = self.store.rows("counter");
        rows.first().map_or(0, |(_, value)| value.decode().expect("a number"))
    }

    async fn write_row(&self, tx: &mut MemoryTx, workflow: &str, step: &str) {
        let written = self
            .store
            .arrive_in(tx, "kind", workflow, step, &encode("by hand"))
            .await;
        assert!(written.expect("an arrive").first);
    }
}

impl EnlistFixture for Memory {
    type Open = MemoryTransaction;

    async fn begin(&self) -> MemoryTransaction {
        self.store.begin_tx()
    }

    async fn commit(&self, open: MemoryTransaction) {
        open.commit().expect("a commit");
    }
}
