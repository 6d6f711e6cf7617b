//! How writes go together, as numbers for a dashboard.

use serde::Serialize;

/// How the writes of one kind have gone together since the store was opened.
///
/// `requests / statements` is how many went together on average; `waiting` is how deep the queue is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Batches {
    /// Writes that were asked for and sent.
    pub requests: u64,
    /// Statements that they were sent in.
    pub statements: u64,
    /// The most that went together.
    pub largest: u64,
    /// Writes that wait for a statement in flight.
    pub waiting: u64,
    /// Statements in flight.
    pub in_flight: u64,
}

impl Batches {
    /// Counts a statement with so many writes in it.
    pub fn sent(&mut self, requests: usize) {
        let requests = u64::try_from(requests).unwrap_or(u64::MAX);
        self.requests += requests;
        self.statements += 1;
        self.largest = self.largest.max(requests);
    }
}
