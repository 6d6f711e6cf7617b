//! A store to hold the sentences against, and the few moves that they are made of.

use std::future::Future;
use std::ops::DerefMut;
use std::time::Duration;

use passbook::{
    Acquire, Checkpointer, Claim, Claimed, Clock, Delivery, Durable, Enlist, Granted, Inspect, Life, Pass, Record,
    Settlement, State, Status, Timestamp, Tx,
};

pub use crate::bed::{KIND, MORNING, encode};

/// A second kind, where a sentence needs two.
pub const OTHER: &str = "other";

/// The lease of the stores under test. Long, so that a slow machine never loses one; the tests move the clock.
pub const LEASE: Duration = Duration::from_secs(30);

/// The smallest step of a clock.
pub const MICRO: Duration = Duration::from_micros(1);

/// A fresh store over a fresh database, under a clock that the test moves.
pub trait Fixture: Sized + Send + Sync {
    /// The store.
    type Store: Durable + Inspect;

    /// A database of its own with the schema in it, under this clock and with the lease [`LEASE`].
    fn open_under(clock: Clock) -> impl Future<Output = Self> + Send;

    /// A database of its own, its clock at [`MORNING`].
    fn open() -> impl Future<Output = Self> + Send {
        Self::open_under(Clock::manual(MORNING))
    }

    /// The first handle.
    fn store(&self) -> &Self::Store;

    /// Another handle on the same database and the same clock, as another process would have one.
    fn second(&self) -> impl Future<Output = Self::Store> + Send;

    /// The clock of all handles.
    fn clock(&self) -> &Clock;

    /// Adds one to a counter of the application's own.
    fn count(&self, tx: &mut Tx<Self::Store>) -> impl Future<Output = ()> + Send;

    /// The counter, as everybody sees it.
    fn counted(&self) -> impl Future<Output = u64> + Send;

    /// Writes the row of a record from inside an effect, past the library where that is possible.
    fn write_row(&self, tx: &mut Tx<Self::Store>, workflow: &str, step: &str) -> impl Future<Output = ()> + Send;

    /// Removes the database; panics when a session was left in a transaction.
    fn close(self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// A fixture whose store takes part in transactions of the caller's own.
pub trait EnlistFixture: Fixture<Store: Enlist> {
    /// An open transaction. Dropped, it is rolled back.
    type Open: DerefMut<Target = Tx<Self::Store>> + Send;

    /// Begins one.
    fn begin(&self) -> impl Future<Output = Self::Open> + Send;

    /// Commits it.
    fn commit(&self, open: Self::Open) -> impl Future<Output = ()> + Send;
}

/// The pass's end when it waits for nothing but a value.
pub fn waiting(key: &str) -> Settlement {
    Settlement::Suspended {
        wake_at: None,
        waits_for: vec![key.to_owned()],
    }
}

/// The pass's end when it sleeps.
pub fn sleeping(until: Timestamp) -> Settlement {
    Settlement::Suspended {
        wake_at: Some(until),
        waits_for: Vec::new(),
    }
}

/// The pass's end when the workflow is over.
pub fn completed() -> Settlement {
    Settlement::Completed { result: encode("done") }
}

/// The pass's end when it failed.
pub fn failed(retry_at: Option<Timestamp>) -> Settlement {
    Settlement::Failed {
        error: "no paper".to_owned(),
        retry_at,
    }
}

/// A sign of life that names no step.
pub fn life(claim: &Claim) -> Life {
    Life {
        claim: claim.clone(),
        running: None,
    }
}

/// A sign of life that names the step which is about to run.
pub fn life_in(claim: &Claim, step: &str) -> Life {
    Life {
        claim: claim.clone(),
        running: Some(step.to_owned()),
    }
}

/// The names of the kinds as an acquire takes them.
pub fn kinds(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Claims a workflow that nobody holds.
pub async fn granted(checkpointer: &impl Checkpointer, workflow: &str) -> Granted {
    match checkpointer.claim(workflow).await.expect("a claim succeeds") {
        Claimed::Granted(granted) => granted,
        other => panic!("`{workflow}` is not granted: {other:?}"),
    }
}

/// Claims a workflow that nobody holds, and returns no more than the claim.
pub async fn claimed(checkpointer: &impl Checkpointer, workflow: &str) -> Claim {
    granted(checkpointer, workflow).await.claim
}

/// Everything that is recorded.
pub async fn records(checkpointer: &impl Checkpointer, workflow: &str) -> Vec<Record> {
    checkpointer.load(workflow).await.expect("a load succeeds")
}

/// The keys that are recorded, in order.
pub async fn keys(checkpointer: &impl Checkpointer, workflow: &str) -> Vec<String> {
    let records = records(checkpointer, workflow).await;
    records.into_iter().map(|record| record.step).collect()
}

/// Up to `limit` passes of [`KIND`].
pub async fn acquired(store: &impl Durable, limit: usize) -> Vec<(Pass, Delivery)> {
    acquired_of(store, &[KIND], limit).await
}

/// Up to `limit` passes of these kinds.
pub async fn acquired_of(store: &impl Durable, names: &[&str], limit: usize) -> Vec<(Pass, Delivery)> {
    let namespaces = kinds(names);
    let request = Acquire::new(&namespaces, limit);
    store.acquire(&request).await.expect("an acquire succeeds").passes
}

/// The one pass that is due.
pub async fn pass(store: &impl Durable) -> (Pass, Delivery) {
    let mut passes = acquired(store, 10).await;
    assert_eq!(passes.len(), 1, "one workflow is due: {passes:?}");
    passes.remove(0)
}

/// That nothing is to be run now.
pub async fn idle(store: &impl Durable) {
    let passes = acquired(store, 10).await;
    assert!(passes.is_empty(), "nothing is due: {passes:?}");
}

/// Starts a workflow whose input does not matter.
pub async fn start(store: &impl Durable, workflow: &str) {
    let recorded = store.start(KIND, workflow, &encode(workflow)).await;
    assert!(recorded.expect("a start succeeds").first);
}

/// Starts a workflow and takes its first pass.
pub async fn started(store: &impl Durable, workflow: &str) -> (Pass, Delivery) {
    start(store, workflow).await;
    pass(store).await
}

/// Ends a pass that still holds its workflow.
pub async fn settle(store: &impl Durable, taken: &(Pass, Delivery), outcome: &Settlement) {
    let held = store.settle(&taken.0.claim, &taken.1, outcome).await;
    assert!(
        held.expect("a settle succeeds").is_held(),
        "the pass holds its workflow"
    );
}

/// Where the workflow stands.
pub async fn status(store: &impl Inspect, workflow: &str) -> Status {
    let status = store.status(workflow).await.expect("a status can be read");
    status.unwrap_or_else(|| panic!("`{workflow}` is known"))
}

/// The state of the workflow.
pub async fn state(store: &impl Inspect, workflow: &str) -> State {
    status(store, workflow).await.state
}

/// The moment of the clock.
pub fn now(fixture: &impl Fixture) -> Timestamp {
    fixture.clock().bound().expect("the clock is manual")
}

/// Names that every store keeps as they are, and keeps apart.
pub fn odd_names() -> Vec<String> {
    let odd = [
        "it's \"quoted\" and `ticked`",
        "{braces} [brackets] (1, 2)",
        "{\"json\": [null]}",
        "line\nfeed\r\n\ttab",
        "back\\slash %s %d $1 ?1 :name @p --",
        "'; DROP TABLE workflow_claim; --",
        "größer, 日本語, \u{1f980}, e\u{301}",
        "gr\u{f6}\u{df}e",
        "gro\u{308}\u{df}e",
        "UPPER",
        "upper",
        "upper ",
        " upper",
        "\u{feff}mark",
        "\u{7f}\u{1}",
        "NULL",
        "/a/../b",
    ];
    let mut names: Vec<String> = odd.iter().map(|name| (*name).to_owned()).collect();
    names.push("x".repeat(passbook::MAX_NAME_BYTES));
    names.push("\u{1f980}".repeat(passbook::MAX_NAME_BYTES / 4));
    // No pages are alike, so an index entry of it cannot be made small.
    let wide = (0..passbook::MAX_NAME_BYTES / 2).scan(17_u32, |state, _| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_u32(0x100 + (*state >> 16) % 0x500)
    });
    names.push(wide.collect());
    names
}

/// Names that no store keeps.
pub fn bad_names() -> [String; 4] {
    [
        String::new(),
        "nul\0".to_owned(),
        "x".repeat(passbook::MAX_NAME_BYTES + 1),
        "\u{1f980}".repeat(passbook::MAX_NAME_BYTES / 4 + 1),
    ]
}
