//! The tables of the in-memory store, and the transitions on them. Each is called under one lock, so each is one commit.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::checkpointer::{Claim, Claimed, Granted, INBOX, INPUT, Record, Recorded};
use crate::durable::Settlement;
use crate::inspect::State as Shown;
use crate::{Delivery, Error, Result, Timestamp, Value};

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) checkpoints: HashMap<String, Checkpoint>,
    pub(super) claims: BTreeMap<String, ClaimRow>,
    pub(super) queue: BTreeMap<(String, String), Timestamp>,
    /// What effects have written through a [`super::MemoryTx`].
    pub(super) rows: BTreeMap<(String, String), Value>,
    /// Which open transaction has spoken to a workflow. Everybody else who wants to speak to it waits for its end.
    pub(super) spoken_to: HashMap<String, u64>,
    pub(super) transactions: u64,
    seq: i64,
}

#[derive(Debug, Default)]
pub(super) struct Checkpoint {
    /// The kind, fixed by the first start.
    pub(super) namespace: Option<String>,
    pub(super) records: Vec<Record>,
}

#[derive(Debug, Default)]
pub(super) struct ClaimRow {
    pub(super) token: i64,
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
    pub(super) fn load(&self, workflow: &str) -> Vec<Record> {
        self.checkpoints
            .get(workflow)
            .map(|checkpoint| checkpoint.records.clone())
            .unwrap_or_default()
    }

    pub(super) fn value(&self, workflow: &str, step: &str) -> Option<&Value> {
        let checkpoint = self.checkpoints.get(workflow)?;
        checkpoint
            .records
            .iter()
            .find(|record| record.step == step)
            .map(|record| &record.value)
    }

    /// First writer wins.
    pub(super) fn write(&mut self, workflow: &str, step: &str, value: &Value, now: Timestamp) -> Recorded {
        if let Some(stored) = self.value(workflow, step) {
            return Recorded {
                value: stored.clone(),
                first: false,
            };
        }
        self.seq += 1;
        let record = Record {
            step: step.to_owned(),
            value: value.clone(),
            seq: self.seq,
            recorded_at: now,
        };
        self.checkpoints
            .entry(workflow.to_owned())
            .or_default()
            .records
            .push(record);
        Recorded {
            value: value.clone(),
            first: true,
        }
    }

    pub(super) fn append(&mut self, workflow: &str, value: &Value, now: Timestamp) -> String {
        let key = self.draw_key();
        self.write(workflow, &key, value, now);
        key
    }

    /// The next key of an inbox.
    pub(super) fn draw_key(&mut self) -> String {
        self.seq += 1;
        format!("{INBOX}{:020}", self.seq)
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

    pub(super) fn holds(&self, claim: &Claim) -> bool {
        self.claims
            .get(&claim.workflow)
            .is_some_and(|row| row.token == claim.token)
    }

    pub(super) fn fenced(&self, operation: &str, claim: &Claim) -> Result<()> {
        // A claim that was never granted here is nobody's: only a token at or above the highest may write.
        match self.claims.get(&claim.workflow) {
            Some(row) if row.token <= claim.token => Ok(()),
            _ => Err(Error::fenced(operation, &claim.workflow)),
        }
    }

    pub(super) fn renew(&mut self, claim: &Claim, running: Option<&str>, now: Timestamp, lease: Duration) -> bool {
        match self.claims.get_mut(&claim.workflow) {
            Some(row) if row.token == claim.token && row.open => {
                row.held_until = now.after(lease);
                if let Some(running) = running {
                    row.running = Some(running.to_owned());
                }
                true
            }
            _ => false,
        }
    }

    pub(super) fn release(&mut self, claim: &Claim, outcome: &Settlement, now: Timestamp) -> bool {
        if !self.holds(claim) {
            return false;
        }
        let Some(row) = self.claims.get_mut(&claim.workflow) else {
            return false;
        };
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

    pub(super) fn make_ready(&mut self, namespace: &str, workflow: &str, now: Timestamp) {
        // Moved even when it is due already: a lease may have run out unnoticed, and the row under which its delivery was
        // taken must show that a wakeup came.
        self.queue
            .entry((namespace.to_owned(), workflow.to_owned()))
            .and_modify(|visible| *visible = now.min(Timestamp::from_micros(visible.as_micros() - 1)))
            .or_insert(now);
    }

    pub(super) fn next_ready(
        &mut self,
        namespaces: &[String],
        limit: usize,
        now: Timestamp,
        lease: Duration,
    ) -> Vec<Delivery> {
        let mut due: Vec<Vec<(Timestamp, String)>> = namespaces
            .iter()
            .map(|namespace| {
                let from = (namespace.clone(), String::new());
                let mut due: Vec<_> = self
                    .queue
                    .range(from..)
                    .take_while(|((queue, _), _)| queue == namespace)
                    .filter(|(_, visible)| **visible <= now)
                    .map(|((_, workflow), visible)| (*visible, workflow.clone()))
                    .collect();
                // The longest due last, where it is popped first.
                due.sort_unstable_by(|a, b| b.cmp(a));
                due
            })
            .collect();
        let receipt = now.after(lease);
        let mut deliveries = Vec::new();
        // One of each in turn, so that none starves another.
        while deliveries.len() < limit && due.iter().any(|queue| !queue.is_empty()) {
            for (namespace, queue) in namespaces.iter().zip(&mut due) {
                if deliveries.len() == limit {
                    break;
                }
                if let Some((_, workflow)) = queue.pop() {
                    self.queue.insert((namespace.clone(), workflow.clone()), receipt);
                    deliveries.push(Delivery {
                        namespace: namespace.clone(),
                        workflow,
                        receipt,
                    });
                }
            }
        }
        deliveries
    }

    /// Answers for a delivery. A wakeup that came after it was taken has changed the row, and counts.
    pub(super) fn answer(&mut self, delivery: &Delivery, when: Option<Timestamp>, now: Timestamp) {
        let key = (delivery.namespace.clone(), delivery.workflow.clone());
        let Some(visible) = self.queue.get_mut(&key) else {
            return;
        };
        if *visible != delivery.receipt {
            *visible = now.min(*visible);
        } else if let Some(when) = when {
            *visible = when;
        } else {
            self.queue.remove(&key);
        }
    }

    pub(super) fn extend(&mut self, delivery: &Delivery, now: Timestamp, lease: Duration) -> Option<Delivery> {
        let key = (delivery.namespace.clone(), delivery.workflow.clone());
        let visible = self
            .queue
            .get_mut(&key)
            .filter(|visible| **visible == delivery.receipt)?;
        *visible = now.after(lease);
        Some(Delivery {
            receipt: *visible,
            ..delivery.clone()
        })
    }

    pub(super) fn dequeue(&mut self, namespace: &str, workflow: &str) {
        self.queue.remove(&(namespace.to_owned(), workflow.to_owned()));
    }

    pub(super) fn next_due(&self, namespaces: &[String], now: Timestamp) -> Option<Duration> {
        self.queue
            .iter()
            .filter(|((namespace, _), _)| namespaces.contains(namespace))
            .map(|(_, visible)| now.until(*visible))
            .min()
    }

    pub(super) fn start(&mut self, namespace: &str, workflow: &str, input: &Value, now: Timestamp) -> Result<Recorded> {
        self.check_kind(namespace, workflow)?;
        let recorded = self.write(workflow, INPUT, input, now);
        if recorded.first {
            self.checkpoints.entry(workflow.to_owned()).or_default().namespace = Some(namespace.to_owned());
            self.make_ready(namespace, workflow, now);
        }
        Ok(recorded)
    }

    /// Wakes the workflow for something that was sent to it, unless nothing can come of it.
    pub(super) fn wake(&mut self, namespace: &str, workflow: &str, now: Timestamp) {
        if !self.is_over(workflow) {
            self.make_ready(namespace, workflow, now);
        }
    }
}
