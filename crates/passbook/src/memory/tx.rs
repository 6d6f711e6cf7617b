//! Transactions of the in-memory store: what effects and callers write, all of it or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Shared;
use super::holds::{Asked, Holder};
use super::state::{State, inbox_key};
use crate::checkpointer::{Claim, INPUT, Recorded};
use crate::{Error, Result, Timestamp, Value};

/// What a `transact` effect writes through: small tables of its own, and workflows that are started or sent to.
///
/// Reads see what was committed and what this transaction wrote. Nobody else sees any of it before the commit. Rows are
/// not locked: of two transactions that put the same one, the last to commit wins.
#[derive(Debug)]
pub struct MemoryTx {
    shared: Arc<Shared>,
    holder: Holder,
    rows: BTreeMap<String, BTreeMap<String, Value>>,
    sends: Vec<Send>,
}

/// One value that was sent, and what its sender was told of it.
#[derive(Debug)]
struct Send {
    namespace: String,
    workflow: String,
    key: String,
    value: Value,
    /// The place that was drawn for the record; `None` when the key was taken.
    drawn: Option<i64>,
}

impl MemoryTx {
    /// Writes a row, over what is there.
    pub fn put(&mut self, table: &str, key: &str, value: Value) {
        let rows = self.rows.entry(table.to_owned()).or_default();
        rows.insert(key.to_owned(), value);
    }

    /// Reads a row.
    pub fn get(&self, table: &str, key: &str) -> Option<Value> {
        let own = self.rows.get(table).and_then(|rows| rows.get(key));
        own.cloned().or_else(|| {
            let state = self.shared.lock();
            state.rows.get(table)?.get(key).cloned()
        })
    }

    /// How many rows a table has.
    pub fn count(&self, table: &str) -> usize {
        let state = self.shared.lock();
        let committed = state.rows.get(table).into_iter().flatten();
        let own = self.rows.get(table).into_iter().flatten();
        let keys: BTreeSet<&String> = committed.chain(own).map(|(key, _)| key).collect();
        keys.len()
    }

    /// Refuses to work on another store than it was opened on.
    pub(super) fn check_store(&self, shared: &Arc<Shared>) -> Result<()> {
        if Arc::ptr_eq(&self.shared, shared) {
            return Ok(());
        }
        Err(Error::invalid(
            "the transaction belongs to another memory store; open it with `begin_tx` of this one",
        ))
    }

    pub(super) async fn send(&mut self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        let shared = self.shared.clone();
        let sent = shared.commit_when(|state, _| {
            self.hold(state, namespace, workflow, |tx, state| {
                let own = tx
                    .sends
                    .iter()
                    .find(|send| send.workflow == workflow && send.key == key);
                let stored = state.value(workflow, key).or(own.map(|own| &own.value)).cloned();
                state.holds.reserve(workflow, key);
                tx.sends.push(Send {
                    namespace: namespace.to_owned(),
                    workflow: workflow.to_owned(),
                    key: key.to_owned(),
                    value: value.clone(),
                    drawn: stored.is_none().then(|| state.draw()),
                });
                Recorded {
                    first: stored.is_none(),
                    value: stored.unwrap_or_else(|| value.clone()),
                }
            })
        });
        sent.await
    }

    pub(super) async fn deliver(&mut self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        let shared = self.shared.clone();
        let sent = shared.commit_when(|state, _| {
            self.hold(state, namespace, workflow, |tx, state| {
                // Drawn while the workflow is held, so that nobody commits a later one before.
                let drawn = state.draw();
                let key = inbox_key(drawn);
                state.holds.reserve(workflow, &key);
                tx.sends.push(Send {
                    namespace: namespace.to_owned(),
                    workflow: workflow.to_owned(),
                    key: key.clone(),
                    value: value.clone(),
                    drawn: Some(drawn),
                });
                key
            })
        });
        sent.await
    }

    /// Stages a send as soon as no other transaction holds the workflow.
    fn hold<T>(
        &mut self,
        state: &mut State,
        namespace: &str,
        workflow: &str,
        then: impl FnOnce(&mut Self, &mut State) -> T,
    ) -> Option<Result<T>> {
        let own = |send: &&Send| send.workflow == workflow && send.key == INPUT && send.drawn.is_some();
        let foreign = self
            .sends
            .iter()
            .find(own)
            .is_some_and(|send| send.namespace != namespace);
        if foreign {
            return Some(Err(Error::wrong_kind(workflow, namespace)));
        }
        if let Err(refused) = state.check_kind(namespace, workflow) {
            return Some(Err(refused));
        }
        match state.holds.hold(self.holder, workflow) {
            Asked::Granted => Some(Ok(then(self, state))),
            Asked::Wait => None,
            Asked::Deadlock => Some(Err(deadlock(workflow))),
        }
    }

    /// Makes everything visible.
    fn apply(&mut self, state: &mut State, now: Timestamp) {
        for (table, rows) in std::mem::take(&mut self.rows) {
            state.rows.entry(table).or_default().extend(rows);
        }
        for send in std::mem::take(&mut self.sends) {
            if let Some(drawn) = send.drawn {
                state.insert(&send.workflow, &send.key, &send.value, drawn, now);
            }
            if send.key == INPUT {
                state.started(&send.namespace, &send.workflow, send.drawn.is_some(), now);
            } else {
                state.wake(&send.namespace, &send.workflow, now);
            }
        }
    }
}

/// What it holds is free again, whether it committed or not.
impl Drop for MemoryTx {
    fn drop(&mut self) {
        self.shared.lock().holds.release(self.holder);
        self.shared.freed.notify_waiters();
    }
}

/// An open transaction. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct MemoryTransaction(MemoryTx);

impl Deref for MemoryTransaction {
    type Target = MemoryTx;

    fn deref(&self) -> &MemoryTx {
        &self.0
    }
}

impl DerefMut for MemoryTransaction {
    fn deref_mut(&mut self) -> &mut MemoryTx {
        &mut self.0
    }
}

impl MemoryTransaction {
    pub(super) fn open(shared: Arc<Shared>) -> Self {
        let holder = shared.lock().holds.open();
        Self(MemoryTx {
            shared,
            holder,
            rows: BTreeMap::new(),
            sends: Vec::new(),
        })
    }

    /// Makes everything visible, in one step.
    ///
    /// It has nothing to fail of: what could be refused was refused when it was sent. It returns a result because the
    /// commit of any other store may fail.
    pub fn commit(mut self) -> Result<()> {
        let shared = self.shared.clone();
        shared.commit(|state, now| self.apply(state, now));
        shared.hints.tell_ready(None);
        Ok(())
    }

    pub(super) async fn commit_step(mut self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        let shared = self.shared.clone();
        let committed = shared.commit_when(|state, now| {
            if let Err(fenced) = state.fenced("the commit of a step", claim) {
                return Some(Err(fenced));
            }
            if self.sends.iter().any(|send| send.workflow == claim.workflow && send.key == step) {
                return Some(Err(Error::refused(format!(
                    "the effect of step `{step}` of workflow `{}` wrote the step's own record; return the value instead, it is recorded in the same commit",
                    claim.workflow
                ))));
            }
            match state.holds.ask(self.holder, &claim.workflow, step) {
                Asked::Granted => {}
                Asked::Wait => return None,
                Asked::Deadlock => return Some(Err(deadlock(&claim.workflow))),
            }
            let recorded = state.write(&claim.workflow, step, value, now);
            if recorded.first {
                self.apply(state, now);
            }
            Some(Ok(recorded))
        });
        let recorded = committed.await?;
        shared.hints.tell_ready(None);
        Ok(recorded)
    }
}

fn deadlock(workflow: &str) -> Error {
    Error::unavailable(format!(
        "two transactions wait for each other, one of them for workflow `{workflow}`; roll this one back and run it again"
    ))
}
