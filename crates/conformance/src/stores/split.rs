//! Pairs of stores that are two datastores.

use passbook::{Clock, Durable, Inspect, SplitDurable, Tx};

use crate::fixture::Fixture;

/// The records in one store and the queue in another.
#[allow(
    missing_debug_implementations,
    reason = "the halves of a store need not be printable"
)]
pub struct Split<C: Fixture, Q: Fixture>
where
    <C::Store as Durable>::Checkpointer: Inspect,
{
    store: Pair<C, Q>,
    records: C,
    queue: Q,
}

type Pair<C, Q> =
    SplitDurable<<<C as Fixture>::Store as Durable>::Checkpointer, <<Q as Fixture>::Store as Durable>::Scheduler>;

fn pair<C: Durable, Q: Durable>(records: &C, queue: &Q) -> SplitDurable<C::Checkpointer, Q::Scheduler> {
    let (records, queue) = (records.checkpointer().clone(), queue.scheduler().clone());
    SplitDurable::new(records, queue).expect("the halves have one lease")
}

impl<C: Fixture, Q: Fixture> Fixture for Split<C, Q>
where
    <C::Store as Durable>::Checkpointer: Inspect,
{
    type Store = Pair<C, Q>;

    async fn open_under(clock: Clock) -> Self {
        let records = C::open_under(clock.clone()).await;
        let queue = Q::open_under(clock).await;
        Self {
            store: pair(records.store(), queue.store()),
            records,
            queue,
        }
    }

    fn store(&self) -> &Self::Store {
        &self.store
    }

    async fn second(&self) -> Self::Store {
        pair(&self.records.second().await, &self.queue.second().await)
    }

    fn clock(&self) -> &Clock {
        self.records.clock()
    }

    async fn count(&self, tx: &mut Tx<Self::Store>) {
        self.records.count(tx).await;
    }

    async fn counted(&self) -> u64 {
        self.records.counted().await
    }

    async fn write_row(&self, tx: &mut Tx<Self::Store>, workflow: &str, step: &str) {
        self.records.write_row(tx, workflow, step).await;
    }

    async fn close(self) {
        self.records.close().await;
        self.queue.close().await;
    }
}
