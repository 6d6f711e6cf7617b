//! Only for looking.

use std::fmt;
use std::future::Future;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Endings, Error, Result, Timestamp, Value};

/// Where a workflow stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It runs as soon as a worker has room.
    Ready,
    /// A pass holds it.
    Running,
    /// It goes on at a moment that is known.
    Sleeping,
    /// It goes on when a value arrives.
    Waiting,
    /// It has a result.
    Completed,
    /// It is parked with an error; `resume` lets it go on from where it failed.
    Failed,
    /// It was cancelled; `resume` lets it go on.
    Cancelled,
}

impl State {
    /// As it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing will run unless somebody asks for it.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [
            Self::Ready,
            Self::Running,
            Self::Sleeping,
            Self::Waiting,
            Self::Completed,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|state| state.as_str() == text)
        .ok_or_else(|| Error::invalid(format!("`{text}` is no state of a workflow")))
    }
}

/// What is known of one workflow without running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Its id.
    pub workflow: String,
    /// Its kind; empty when only a program that knows no kinds has written of it.
    pub namespace: String,
    /// Where it stands.
    pub state: State,
    /// The keys it waits for.
    pub waits_for: Vec<String>,
    /// When it goes on by itself: the end of a sleep, of a wait's limit, or of a backoff.
    pub wake_at: Option<Timestamp>,
    /// Failed passes since the last one that got somewhere.
    pub attempts: u32,
    /// Why the last pass failed, if it did.
    pub error: Option<String>,
    /// The step that was named as about to run on a pass after a failed one.
    pub running: Option<String>,
    /// How many records it has.
    pub records: u64,
    /// When it was started, by the store's clock.
    pub started_at: Option<Timestamp>,
    /// When it completed, failed for good, or was cancelled.
    pub finished_at: Option<Timestamp>,
}

/// Which workflows to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this kind.
    pub namespace: Option<String>,
    /// Only this state.
    pub state: Option<State>,
    /// Only ids after this one: the last of the page before.
    pub after: Option<String>,
    /// At most this many; a store may lower it to 1,000.
    pub limit: usize,
}

/// How a workflow ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its id.
    pub workflow: String,
    /// `Completed`, `Failed` or `Cancelled`.
    pub state: State,
    /// What it returned, when it completed.
    pub result: Option<Value>,
    /// Why it failed, when it did.
    pub error: Option<String>,
}

/// Reads what a person or a waiter asks for. Takes no part in any guarantee.
pub trait Inspect: Send + Sync {
    /// Where a workflow stands; `None` for one that nobody has written of.
    fn status(&self, workflow: &str) -> impl Future<Output = Result<Option<Status>>> + Send;

    /// A page of workflows in the order of their ids.
    fn list(&self, filter: &Filter) -> impl Future<Output = Result<Vec<Status>>> + Send;

    /// Those of the workflows that are over, in one statement, in any order.
    fn finished(&self, workflows: &[String]) -> impl Future<Output = Result<Vec<Finished>>> + Send;

    /// Tells of workflows that end from now on, so that a waiter knows when to ask. Only hints: some may be lost, and a
    /// store without hints tells nothing, so a waiter also asks from time to time.
    fn endings(&self) -> Endings {
        Endings::silent()
    }
}
