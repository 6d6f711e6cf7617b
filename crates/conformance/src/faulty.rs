//! A store that fails: before or after a call, by a seed or by count.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use passbook::{
    Acquire, Acquired, Begun, Checkpointer, Claim, Claimed, Clock, Delivery, Durable, Endings, Enlist, Error, Filter,
    Finished, Inspect, Life, Record, Recorded, Renewed, Result, Scheduler, Settled, Settlement, Status, Timestamp, Tx,
    Value, Wakeups,
};

/// On which side of the call the failure lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The call was never made.
    Before,
    /// The call was made and its answer was lost.
    After,
}

/// Which calls fail. Clones share the plan and its count.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug)]
struct Plan {
    calls: u64,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    None,
    At { call: u64, side: Side },
    Every { side: Side },
    Seeded { state: u64, one_in: u64 },
}

impl Faults {
    /// No call fails.
    pub fn none() -> Self {
        Self::new(Rule::None)
    }

    /// The call of this number fails, counted from zero, and no other.
    pub fn at(call: u64, side: Side) -> Self {
        Self::new(Rule::At { call, side })
    }

    /// Every call fails: the store is out of reach, or its answers are.
    pub fn every(side: Side) -> Self {
        Self::new(Rule::Every { side })
    }

    /// About one call in `one_in` fails, on either side. The same seed fails the same calls.
    pub fn seeded(seed: u64, one_in: u64) -> Self {
        Self::new(Rule::Seeded { state: seed, one_in })
    }

    fn new(rule: Rule) -> Self {
        Self(Arc::new(Mutex::new(Plan { calls: 0, rule })))
    }

    /// From here on no call fails.
    pub fn heal(&self) {
        self.plan(|plan| plan.rule = Rule::None);
    }

    /// From here on the call of this number fails, counted from this moment.
    pub fn fail_at(&self, call: u64, side: Side) {
        self.plan(|plan| {
            plan.rule = Rule::At {
                call: plan.calls + call,
                side,
            };
        });
    }

    /// How many calls there have been.
    pub fn calls(&self) -> u64 {
        self.plan(|plan| plan.calls)
    }

    fn plan<T>(&self, with: impl FnOnce(&mut Plan) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn next(&self) -> Option<Side> {
        self.plan(|plan| {
            let this = plan.calls;
            plan.calls += 1;
            match &mut plan.rule {
                Rule::None => None,
                Rule::Every { side } => Some(*side),
                Rule::At { call, side } => (*call == this).then_some(*side),
                Rule::Seeded { state, one_in } => {
                    // SplitMix64: tiny, and every seed is a good one.
                    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let mut mixed = *state;
                    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                    mixed ^= mixed >> 31;
                    let side = if mixed >> 63 == 0 { Side::Before } else { Side::After };
                    (mixed % *one_in == 0).then_some(side)
                }
            }
        })
    }

    async fn through<T>(&self, operation: &str, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        match self.next() {
            None => call.await,
            Some(Side::Before) => Err(Error::unavailable(format!("`{operation}` failed before it was asked"))),
            Some(Side::After) => {
                call.await?;
                Err(Error::unavailable(format!("the answer of `{operation}` was lost")))
            }
        }
    }
}

/// One half of a store, whose calls fail by plan.
#[derive(Clone, Debug)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl<S> Faulty<S> {
    /// The half, under the plan.
    pub fn new(inner: S, faults: &Faults) -> Self {
        Self {
            inner,
            faults: faults.clone(),
        }
    }
}

impl<C: Checkpointer> Checkpointer for Faulty<C> {
    type Tx = C::Tx;
    type Transaction = C::Transaction;

    fn lease(&self) -> Duration {
        self.inner.lease()
    }

    async fn load(&self, workflow: &str) -> Result<Vec<Record>> {
        self.faults.through("load", self.inner.load(workflow)).await
    }

    async fn claim(&self, workflow: &str) -> Result<Claimed> {
        self.faults.through("claim", self.inner.claim(workflow)).await
    }

    async fn release(&self, claim: &Claim, outcome: &Settlement) -> Result<bool> {
        self.faults.through("release", self.inner.release(claim, outcome)).await
    }

    async fn renew(&self, lives: &[Life]) -> Result<Vec<bool>> {
        self.faults.through("renew", self.inner.renew(lives)).await
    }

    async fn record(&self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        self.faults
            .through("record", self.inner.record(claim, step, value))
            .await
    }

    async fn supply(&self, workflow: &str, step: &str, value: &Value) -> Result<Recorded> {
        self.faults
            .through("supply", self.inner.supply(workflow, step, value))
            .await
    }

    async fn append(&self, workflow: &str, value: &Value) -> Result<String> {
        self.faults.through("append", self.inner.append(workflow, value)).await
    }

    async fn begin(&self, claim: &Claim, step: &str) -> Result<Begun<C::Transaction>> {
        self.faults.through("begin", self.inner.begin(claim, step)).await
    }

    async fn commit(&self, transaction: C::Transaction, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        let commit = self.inner.commit(transaction, claim, step, value);
        self.faults.through("commit", commit).await
    }

    async fn cancel(&self, workflow: &str) -> Result<bool> {
        self.faults.through("cancel", self.inner.cancel(workflow)).await
    }

    async fn reopen(&self, workflow: &str) -> Result<bool> {
        self.faults.through("reopen", self.inner.reopen(workflow)).await
    }

    async fn discard(&self, workflow: &str) -> Result<u64> {
        self.faults.through("discard", self.inner.discard(workflow)).await
    }
}

impl<S: Scheduler> Scheduler for Faulty<S> {
    fn lease(&self) -> Duration {
        self.inner.lease()
    }

    fn poll(&self) -> Duration {
        self.inner.poll()
    }

    fn clock(&self) -> &Clock {
        self.inner.clock()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.faults.through("now", self.inner.now()).await
    }

    async fn prepare(&self) -> Result<()> {
        self.faults.through("prepare", self.inner.prepare()).await
    }

    async fn make_ready(&self, namespace: &str, workflow: &str) -> Result<()> {
        self.faults
            .through("make_ready", self.inner.make_ready(namespace, workflow))
            .await
    }

    async fn next_ready(&self, namespaces: &[String], limit: usize) -> Result<Vec<Delivery>> {
        self.faults
            .through("next_ready", self.inner.next_ready(namespaces, limit))
            .await
    }

    async fn wake_at(&self, delivery: &Delivery, when: Timestamp) -> Result<()> {
        self.faults.through("wake_at", self.inner.wake_at(delivery, when)).await
    }

    async fn done(&self, delivery: &Delivery) -> Result<()> {
        self.faults.through("done", self.inner.done(delivery)).await
    }

    async fn extend(&self, deliveries: &[Delivery]) -> Result<Vec<Delivery>> {
        self.faults.through("extend", self.inner.extend(deliveries)).await
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<()> {
        self.faults
            .through("cancel", self.inner.cancel(namespace, workflow))
            .await
    }

    async fn next_due(&self, namespaces: &[String]) -> Result<Option<Duration>> {
        self.faults.through("next_due", self.inner.next_due(namespaces)).await
    }

    async fn wake_due(&self) -> Result<()> {
        self.faults.through("wake_due", self.inner.wake_due()).await
    }

    async fn reclaim(&self) -> Result<()> {
        self.faults.through("reclaim", self.inner.reclaim()).await
    }

    fn wakeups(&self, namespaces: &[String]) -> Wakeups {
        self.inner.wakeups(namespaces)
    }
}

impl<S: Inspect> Inspect for Faulty<S> {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        self.faults.through("status", self.inner.status(workflow)).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        self.faults.through("list", self.inner.list(filter)).await
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        self.faults.through("finished", self.inner.finished(workflows)).await
    }

    fn endings(&self) -> Endings {
        self.inner.endings()
    }
}

/// A whole store whose calls fail by plan: the transitions as well as those of its halves.
///
/// A transition is one call here, as it is one commit in a store that is one datastore. For the windows inside a
/// transition of two commits, make a [`passbook::SplitDurable`] of [`Faulty`] halves.
#[derive(Clone, Debug)]
pub struct FaultyDurable<S: Durable> {
    inner: S,
    checkpointer: Faulty<S::Checkpointer>,
    scheduler: Faulty<S::Scheduler>,
    faults: Faults,
}

impl<S: Durable> FaultyDurable<S> {
    /// The store, under the plan.
    pub fn new(inner: S, faults: &Faults) -> Self {
        Self {
            checkpointer: Faulty::new(inner.checkpointer().clone(), faults),
            scheduler: Faulty::new(inner.scheduler().clone(), faults),
            inner,
            faults: faults.clone(),
        }
    }
}

impl<S: Durable> Durable for FaultyDurable<S> {
    type Checkpointer = Faulty<S::Checkpointer>;
    type Scheduler = Faulty<S::Scheduler>;

    fn checkpointer(&self) -> &Self::Checkpointer {
        &self.checkpointer
    }

    fn scheduler(&self) -> &Self::Scheduler {
        &self.scheduler
    }

    async fn start(&self, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        self.faults
            .through("start", self.inner.start(namespace, workflow, input))
            .await
    }

    async fn arrive(&self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        self.faults
            .through("arrive", self.inner.arrive(namespace, workflow, key, value))
            .await
    }

    async fn deliver(&self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        self.faults
            .through("deliver", self.inner.deliver(namespace, workflow, value))
            .await
    }

    async fn cancel(&self, namespace: &str, workflow: &str) -> Result<bool> {
        self.faults
            .through("cancel", self.inner.cancel(namespace, workflow))
            .await
    }

    async fn reopen(&self, namespace: &str, workflow: &str) -> Result<bool> {
        self.faults
            .through("reopen", self.inner.reopen(namespace, workflow))
            .await
    }

    async fn delete(&self, namespace: &str, workflow: &str) -> Result<u64> {
        self.faults
            .through("delete", self.inner.delete(namespace, workflow))
            .await
    }

    async fn acquire(&self, request: &Acquire<'_>) -> Result<Acquired> {
        self.faults.through("acquire", self.inner.acquire(request)).await
    }

    async fn renew(&self, held: &[(Life, Delivery)]) -> Result<Vec<Renewed>> {
        self.faults.through("renew", self.inner.renew(held)).await
    }

    async fn settle(&self, claim: &Claim, delivery: &Delivery, outcome: &Settlement) -> Result<Settled> {
        self.faults
            .through("settle", self.inner.settle(claim, delivery, outcome))
            .await
    }
}

impl<S: Enlist> Enlist for FaultyDurable<S> {
    async fn start_in(&self, tx: &mut Tx<Self>, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        self.faults
            .through("start_in", self.inner.start_in(tx, namespace, workflow, input))
            .await
    }

    async fn arrive_in(
        &self,
        tx: &mut Tx<Self>,
        namespace: &str,
        workflow: &str,
        key: &str,
        value: &Value,
    ) -> Result<Recorded> {
        self.faults
            .through("arrive_in", self.inner.arrive_in(tx, namespace, workflow, key, value))
            .await
    }

    async fn deliver_in(&self, tx: &mut Tx<Self>, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        self.faults
            .through("deliver_in", self.inner.deliver_in(tx, namespace, workflow, value))
            .await
    }
}

impl<S: Durable + Inspect> Inspect for FaultyDurable<S> {
    async fn status(&self, workflow: &str) -> Result<Option<Status>> {
        self.faults.through("status", self.inner.status(workflow)).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Status>> {
        self.faults.through("list", self.inner.list(filter)).await
    }

    async fn finished(&self, workflows: &[String]) -> Result<Vec<Finished>> {
        self.faults.through("finished", self.inner.finished(workflows)).await
    }

    fn endings(&self) -> Endings {
        self.inner.endings()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_fails_the_same_calls() {
        let drawn = |seed| {
            let faults = Faults::seeded(seed, 5);
            let drawn: Vec<_> = (0..1_000).map(|_| faults.next()).collect();
            assert_eq!(faults.calls(), 1_000);
            drawn
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let failures = |side| drawn(1).into_iter().filter(|drawn| *drawn == Some(side)).count();
        for side in [Side::Before, Side::After] {
            assert!(
                (50..150).contains(&failures(side)),
                "about every fifth fails, on either side alike"
            );
        }
    }

    #[test]
    fn exactly_the_call_that_was_told_fails() {
        let faults = Faults::at(1, Side::After);
        assert_eq!(
            [faults.next(), faults.next(), faults.next()],
            [None, Some(Side::After), None]
        );
        faults.fail_at(1, Side::Before);
        assert_eq!([faults.next(), faults.next()], [None, Some(Side::Before)]);
        faults.fail_at(0, Side::Before);
        faults.heal();
        assert_eq!(faults.next(), None);
    }

    #[tokio::test]
    async fn a_failure_after_the_call_has_happened_all_the_same() {
        let (faults, store) = (Faults::none(), passbook::MemoryStore::new());
        let failing = FaultyDurable::new(store.clone(), &faults);
        let value = Value::encode("v").expect("a value");
        for (key, side, happened) in [("a", Side::Before, false), ("b", Side::After, true)] {
            faults.fail_at(0, side);
            let failed = failing.arrive("kind", "w", key, &value).await.expect_err("an arrive");
            assert!(failed.is_unavailable(), "{failed:?}");
            let again = failing.arrive("kind", "w", key, &value).await.expect("an arrive");
            assert_eq!(again.first, !happened, "{key}");
        }
        assert_eq!(faults.calls(), 4);
    }
}
