//! What was done, and who may write it.

use std::future::Future;
use std::ops::DerefMut;
use std::time::Duration;

use crate::{Result, Settlement, Timestamp, Value};

/// The key of a workflow's input: what `start` records.
pub const INPUT: &str = ":input";
/// The key of a workflow's result: what its last pass records.
pub const RESULT: &str = ":result";
/// What the keys of an inbox begin with; the rest sorts in the order in which the values were appended.
pub const INBOX: &str = "inbox:";

/// The longest workflow id, step name or namespace, in bytes of UTF-8.
///
/// Postgres keeps an index entry under 2,704 bytes, and the longest entry holds two such names.
pub const MAX_NAME_BYTES: usize = 1_024;

/// The right to run a pass, as its holder shows it.
///
/// The token (fencing token) strictly rises from claim to claim of one workflow, also over cancel and delete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The workflow that is claimed.
    pub workflow: String,
    /// The fencing token.
    pub token: i64,
}

/// What [`Checkpointer::claim`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The claim is ours until the lease runs out.
    Granted(Granted),
    /// Somebody holds it.
    Held,
    /// The workflow is completed, failed or cancelled: there is nothing to run.
    Over,
}

/// A claim, with what its row told of earlier passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The claim.
    pub claim: Claim,
    /// Failed passes since the last one that got somewhere, among them the claims that nobody ever settled.
    pub attempts: u32,
    /// The step that was running when the last claim was left unsettled, where that is known.
    pub interrupted: Option<String>,
}

/// One entry of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name of the step, or a key of the store's own.
    pub step: String,
    /// What was recorded.
    pub value: Value,
    /// The place of the record in the order of first writes. Unique in a store, and rising within a workflow.
    pub seq: i64,
    /// When the winning write was made, by the store's clock.
    pub recorded_at: Timestamp,
}

/// What stands under a key after a write, and who put it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The value that is stored now.
    pub value: Value,
    /// Whether this call wrote it.
    pub first: bool,
}

/// What [`Checkpointer::begin`] found.
#[derive(Debug)]
pub enum Begun<T> {
    /// The step is recorded: nothing is to run.
    Recorded(Value),
    /// The transaction in which the effect and its record will commit.
    Open(T),
}

/// A sign of life of one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The claim to renew.
    pub claim: Claim,
    /// The step that is about to run, kept for the case that it takes the process down; `None` leaves what is there.
    pub running: Option<String>,
}

/// Keeps what was done and who may write.
///
/// Keys are whatever the caller names them; a store never parses an id or a step. A name over [`MAX_NAME_BYTES`], an
/// empty one, or one with a NUL in it is refused ([`crate::check_name`]) wherever it would be written first.
pub trait Checkpointer: Clone + Send + Sync + 'static {
    /// What a `transact` effect writes through, e.g. a database connection.
    type Tx: Send + 'static;
    /// An open transaction. Dropped without [`commit`](Checkpointer::commit), it leaves nothing behind.
    type Transaction: DerefMut<Target = Self::Tx> + Send + 'static;

    /// How long one sign of life is good for: a claim that is neither settled nor renewed for so long may be taken over.
    fn lease(&self) -> Duration;

    /// Given any id, returns what was recorded, in first-recorded order, each with the time of its winning write;
    /// empty for a workflow that never ran.
    fn load(&self, workflow: &str) -> impl Future<Output = Result<Vec<Record>>> + Send;

    /// Given a workflow that nobody holds, grants the claim for one lease with a higher token than any before.
    ///
    /// At most one claim is live. A claim that was granted before and never settled, released or superseded by
    /// `cancel`, `reopen` or `discard` counts as one failed attempt. A workflow that was never seen is granted.
    fn claim(&self, workflow: &str) -> impl Future<Output = Result<Claimed>> + Send;

    /// Given a claim that is still the highest, hands it back before the lease is over, keeps the token, and writes
    /// what the pass left: state, what it waits for, failures. False when the claim was lost: then nothing is written.
    fn release(&self, claim: &Claim, outcome: &Settlement) -> impl Future<Output = Result<bool>> + Send;

    /// Given claims, extends by a lease each that is still the highest of its workflow, and says for each whether it
    /// is. A claim whose lease has run out but which nobody took over is still the highest.
    fn renew(&self, lives: &[Life]) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// Given a claim, records the value unless the key is taken. Fenced when the token is below the highest, durable
    /// when it returns, never overwrites.
    fn record(&self, claim: &Claim, step: &str, value: &Value) -> impl Future<Output = Result<Recorded>> + Send;

    /// Records from outside a pass, without a fence: it succeeds while a worker is mid-pass. First writer wins.
    fn supply(&self, workflow: &str, step: &str, value: &Value) -> impl Future<Output = Result<Recorded>> + Send;

    /// Files a value under a new key of the inbox and returns the key. Keys sort in append order within a workflow,
    /// and whoever has seen a key will never see a smaller one appear.
    fn append(&self, workflow: &str, value: &Value) -> impl Future<Output = Result<String>> + Send;

    /// Opens the transaction of a `transact` step. Fenced before anything runs when the token is below the highest.
    ///
    /// The claim is not locked while the effect runs, so renewals land.
    fn begin(&self, claim: &Claim, step: &str) -> impl Future<Output = Result<Begun<Self::Transaction>>> + Send;

    /// Records the step in its transaction and commits both. Fenced, or lost to a value that was supplied under the
    /// key meanwhile (`first` is false): the effect rolls back. An effect that wrote the step's own row is refused.
    fn commit(
        &self,
        transaction: Self::Transaction,
        claim: &Claim,
        step: &str,
        value: &Value,
    ) -> impl Future<Output = Result<Recorded>> + Send;

    /// Gives up a transaction whose effect has failed; nothing of it remains. An unavailable store says so here: then it was
    /// not the effect that failed, and the pass is not counted as an attempt.
    fn rollback(&self, transaction: Self::Transaction) -> impl Future<Output = Result<()>> + Send {
        drop(transaction);
        async { Ok(()) }
    }

    /// Marks the workflow cancelled and raises the fence: a running pass loses its claim, later claims find it over.
    /// False when it was already completed, failed or cancelled, or never seen at all: then nothing changes.
    fn cancel(&self, workflow: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Makes a failed or cancelled workflow claimable again, with its attempts forgotten. False when it is neither.
    fn reopen(&self, workflow: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Removes the records, raises the fence, forgets the state, and returns how many records there were.
    fn discard(&self, workflow: &str) -> impl Future<Output = Result<u64>> + Send;
}
