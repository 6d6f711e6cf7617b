//! The tables of the in-memory store, and the transitions on them. Each is called under one lock, so each is one commit.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::holds::Holds;
use super::queue::Queue;

use crate::checkpointer::{Claim, Claimed, Granted, INBOX, INPUT, Life, Record, Recorded};
use crate::durable::Settlement;
use crate::inspect::State as Shown;
use crate::{Delivery, Error, Result, Timestamp, Value};

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) checkpoints: HashMap<String, Checkpoint>,
    pub(super) claims: HashMap<String, ClaimRow>,
    pub(super) queue: Queue,
    /// What effects have written through a [`super::MemoryTx`]: tables of rows by key.
    pub(super) rows: BTreeMap<String, BTreeMap<String, Value>>,
    pub(super) holds: Holds,
    seq: i64,
}

#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    /// The kind, fixed by the first start.
    pub(super) namespace: Option<String>,
    /// In the order of `seq`.
    pub(super) records: Vec<Record>,
    /// Where in `records` a key stands.
    places: HashMap<String, usize>,
}

impl Checkpoint {
    pub(super) fn get(&self, step: &str) -> Option<&Record> {
        self.places.get(step).map(|place| &self.records[*place])
    }
}

#[derive(Debug, Default)]
pub(super) struct ClaimRow {
    pub(super) token: i64,
    /// The kind it was last acquired as.
    pub(super) namespace: Option<String>,
    pub(super) held_until: Timestamp,
    /// As it was last settled; `None` when it never was.
    pub(super) state: Option<Shown>,
    pub(super) waits_for: Vec<String>,
    pub(super) wake_at: Option<Timestamp>,
    pub(super) attempts: u32,
    /// Granted and not settled since.
    pub(super) open: bool,
    pub(super) running: Option<String>,
    pub(super) error: Option<String>,
    pub(super) finished_at: Option<Timestamp>,
}

impl ClaimRow {
    fn is_over(&self) -> bool {
        self.state.is_some_and(Shown::is_over)
    }

    /// Takes the workflow from whoever holds it.
    fn fence(&mut self, now: Timestamp) {
        self.token += 1;
        self.held_until = now;
        self.open = false;
        self.running = None;
        self.waits_for.clear();
        self.wake_at = None;
    }
}

impl State {
    /// The records after this place, or all.
    pub(super) fn load(&self, workflow: &str, since: Option<i64>) -> Vec<Record> {
        let Some(checkpoint) = self.checkpoints.get(workflow) else {
            return Vec::new();
        };
        let known = since.map_or(0, |since| {
            checkpoint.records.partition_point(|record| record.seq <= since)
        });
        checkpoint.records[known..].to_vec()
    }

    /// The place of the last record; what is recorded later stands after it.
    pub(super) fn last_seq(&self, workflow: &str) -> i64 {
        let last = self.checkpoints.get(workflow).and_then(|of| of.records.last());
        last.map_or(0, |last| last.seq)
    }

    pub(super) fn has_any(&self, workflow: &str, keys: &[String]) -> bool {
        keys.iter().any(|key| self.value(workflow, key).is_some())
    }

    pub(super) fn value(&self, workflow: &str, step: &str) -> Option<&Value> {
        self.checkpoints.get(workflow)?.get(step).map(|record| &record.value)
    }

    /// First writer wins.
    pub(super) fn write(&mut self, workflow: &str, step: &str, value: &Value, now: Timestamp) -> Recorded {
        if let Some(stored) = self.value(workflow, step) {
            return Recorded {
                value: stored.clone(),
                first: false,
            };
        }
        let seq = self.draw();
        self.insert(workflow, step, value, seq, now);
        Recorded {
            value: value.clone(),
            first: true,
        }
    }

    /// The next place in the order of first writes.
    pub(super) fn draw(&mut self) -> i64 {
        self.seq += 1;
        self.seq
    }

    /// Writes under a key that is free. A place that was drawn before the last record of the workflow was written is
    /// drawn anew, so that nothing appears in front of what a reader has seen.
    pub(super) fn insert(&mut self, workflow: &str, step: &str, value: &Value, drawn: i64, now: Timestamp) {
        let last = self.checkpoints.get(workflow).and_then(|of| of.records.last());
        let passed_over = last.is_some_and(|last| last.seq >= drawn);
        let seq = if passed_over { self.draw() } else { drawn };
        let checkpoint = self.checkpoints.entry(workflow.to_owned()).or_default();
        checkpoint.places.insert(step.to_owned(), checkpoint.records.len());
        checkpoint.records.push(Record {
            step: step.to_owned(),
            value: value.clone(),
            seq,
            recorded_at: now,
        });
    }

    pub(super) fn append(&mut self, workflow: &str, value: &Value, now: Timestamp) -> String {
        loop {
            let seq = self.draw();
            let key = inbox_key(seq);
            // Taken only where somebody supplied a value under a key of the store's own.
            if self.value(workflow, &key).is_none() {
                self.insert(workflow, &key, value, seq, now);
                return key;
            }
        }
    }

    pub(super) fn claim(&mut self, workflow: &str, now: Timestamp, lease: Duration) -> Claimed {
        let row = self.claims.entry(workflow.to_owned()).or_default();
        if row.is_over() {
            return Claimed::Over;
        }
        if row.held_until > now {
            return Claimed::Held;
        }
        row.token += 1;
        row.held_until = now.after(lease);
        row.attempts += u32::from(row.open);
        let interrupted = if row.open { row.running.clone() } else { None };
        row.open = true;
        Claimed::Granted(Granted {
            claim: Claim {
                workflow: workflow.to_owned(),
                token: row.token,
            },
            attempts: row.attempts,
            interrupted,
        })
    }

    /// Claims what a delivery is for.
    pub(super) fn acquire(&mut self, delivery: &Delivery, now: Timestamp, lease: Duration) -> Claimed {
        let claimed = self.claim(&delivery.workflow, now, lease);
        if let (Claimed::Granted(_), Some(row)) = (&claimed, self.claims.get_mut(&delivery.workflow)) {
            row.namespace = Some(delivery.namespace.clone());
        }
        claimed
    }

    pub(super) fn fenced(&self, operation: &str, claim: &Claim) -> Result<()> {
        // A claim that was never granted here is nobody's: only a token at or above the highest may write.
        match self.claims.get(&claim.workflow) {
            Some(row) if row.token <= claim.token => Ok(()),
            _ => Err(Error::fenced(operation, &claim.workflow)),
        }
    }

    pub(super) fn renew(&mut self, life: &Life, now: Timestamp, lease: Duration) -> bool {
        match self.claims.get_mut(&life.claim.workflow) {
            Some(row) if row.token == life.claim.token && row.open => {
                row.held_until = now.after(lease);
                if life.running.is_some() {
                    row.running.clone_from(&life.running);
                }
                true
            }
            _ => false,
        }
    }

    pub(super) fn release(&mut self, claim: &Claim, outcome: &Settlement, now: Timestamp) -> bool {
        let Some(row) = self.claims.get_mut(&claim.workflow) else {
            return false;
        };
        // Settled already counts as lost: a settle that comes twice must not count an attempt twice, nor park again what
        // was reopened in between.
        if row.token != claim.token || !row.open {
            return false;
        }
        row.held_until = now;
        row.open = false;
        row.waits_for.clear();
        row.wake_at = None;
        match outcome {
            Settlement::HandedBack => row.state = Some(Shown::Ready),
            Settlement::Failed { error, retry_at } => {
                row.attempts += 1;
                row.error = Some(error.clone());
                row.wake_at = *retry_at;
                row.state = Some(if retry_at.is_some() {
                    Shown::Sleeping
                } else {
                    Shown::Failed
                });
                row.finished_at = retry_at.is_none().then_some(now);
            }
            Settlement::Suspended { wake_at, waits_for } => {
                row.attempts = 0;
                row.error = None;
                row.running = None;
                row.wake_at = *wake_at;
                row.waits_for.clone_from(waits_for);
                row.state = Some(if waits_for.is_empty() {
                    Shown::Sleeping
                } else {
                    Shown::Waiting
                });
            }
            Settlement::Completed { .. } => {
                row.attempts = 0;
                row.error = None;
                row.running = None;
                row.state = Some(Shown::Completed);
                row.finished_at = Some(now);
            }
        }
        true
    }

    pub(super) fn cancel(&mut self, workflow: &str, now: Timestamp) -> bool {
        let known = self.checkpoints.contains_key(workflow)
            || self
                .claims
                .get(workflow)
                .is_some_and(|row| row.state.is_some() || row.open);
        if !known || self.is_over(workflow) {
            return false;
        }
        let row = self.claims.entry(workflow.to_owned()).or_default();
        row.fence(now);
        row.state = Some(Shown::Cancelled);
        row.finished_at = Some(now);
        true
    }

    pub(super) fn reopen(&mut self, workflow: &str) -> bool {
        match self.claims.get_mut(workflow) {
            Some(row) if matches!(row.state, Some(Shown::Failed | Shown::Cancelled)) => {
                row.state = Some(Shown::Ready);
                row.attempts = 0;
                row.open = false;
                row.running = None;
                row.error = None;
                row.finished_at = None;
                true
            }
            _ => false,
        }
    }

    pub(super) fn discard(&mut self, workflow: &str, now: Timestamp) -> u64 {
        if let Some(row) = self.claims.get_mut(workflow) {
            // The row stays, so that a token never comes again.
            row.fence(now);
            *row = ClaimRow {
                token: row.token,
                held_until: now,
                ..ClaimRow::default()
            };
        }
        self.checkpoints
            .remove(workflow)
            .map_or(0, |checkpoint| checkpoint.records.len() as u64)
    }

    pub(super) fn is_over(&self, workflow: &str) -> bool {
        self.claims.get(workflow).is_some_and(ClaimRow::is_over)
    }

    /// Whether the workflow may be spoken of under this namespace.
    pub(super) fn check_kind(&self, namespace: &str, workflow: &str) -> Result<()> {
        let started_as = self
            .checkpoints
            .get(workflow)
            .and_then(|checkpoint| checkpoint.namespace.as_deref());
        match started_as {
            Some(other) if other != namespace => Err(Error::wrong_kind(workflow, namespace)),
            _ => Ok(()),
        }
    }

    pub(super) fn start(&mut self, namespace: &str, workflow: &str, input: &Value, now: Timestamp) -> Result<Recorded> {
        self.check_kind(namespace, workflow)?;
        let recorded = self.write(workflow, INPUT, input, now);
        self.started(namespace, workflow, recorded.first, now);
        Ok(recorded)
    }

    /// What follows from a start whose input is recorded. Only the first fixes the kind and wakes what is not queued: a
    /// later one neither brings back what is over nor hurries what waits for something else.
    pub(super) fn started(&mut self, namespace: &str, workflow: &str, first: bool, now: Timestamp) {
        if first {
            self.checkpoints.entry(workflow.to_owned()).or_default().namespace = Some(namespace.to_owned());
            self.wake(namespace, workflow, now);
        }
    }

    /// Wakes the workflow for something that was sent to it, unless nothing can come of it.
    pub(super) fn wake(&mut self, namespace: &str, workflow: &str, now: Timestamp) {
        if !self.is_over(workflow) {
            self.queue.make_ready(namespace, workflow, now);
        }
    }
}

/// The key of an inbox that sorts by its number.
pub(super) fn inbox_key(number: i64) -> String {
    format!("{INBOX}{number:020}")
}
