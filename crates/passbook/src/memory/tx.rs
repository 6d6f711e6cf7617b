//! Transactions of the in-memory store: what effects and callers write, all of it or nothing.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Shared;
use crate::checkpointer::{Claim, INBOX, INPUT, Recorded};
use crate::{Error, Result, Value};

/// What a `transact` effect writes through: a small table of its own, and workflows started or signalled.
///
/// Reads see what was committed and what this transaction wrote. Who is the first writer of a key that two open
/// transactions send to is decided when they commit; within one transaction, and against what is committed, it is
/// decided at once.
#[derive(Debug)]
pub struct MemoryTx {
    shared: Arc<Shared>,
    puts: Vec<(String, String, Value)>,
    sends: Vec<Send>,
}

#[derive(Debug)]
struct Send {
    namespace: String,
    workflow: String,
    /// `None` files the value in the inbox.
    key: Option<String>,
    value: Value,
}

impl MemoryTx {
    /// Writes a row, over what is there.
    pub fn put(&mut self, table: &str, key: &str, value: Value) {
        self.puts.push((table.to_owned(), key.to_owned(), value));
    }

    /// Reads a row.
    pub fn get(&self, table: &str, key: &str) -> Option<Value> {
        let own = self.puts.iter().rev().find(|(of, at, _)| of == table && at == key);
        let committed = || {
            self.shared
                .lock()
                .rows
                .get(&(table.to_owned(), key.to_owned()))
                .cloned()
        };
        own.map(|(_, _, value)| value.clone()).or_else(committed)
    }

    pub(super) fn start(&mut self, namespace: &str, workflow: &str, input: &Value) -> Result<Recorded> {
        self.send(namespace, workflow, INPUT, input)
    }

    pub(super) fn arrive(&mut self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        self.send(namespace, workflow, key, value)
    }

    fn send(&mut self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        let stored = {
            let state = self.shared.lock();
            state.check_kind(namespace, workflow)?;
            state.value(workflow, key).cloned()
        };
        let own = self
            .sends
            .iter()
            .find(|send| send.workflow == workflow && send.key.as_deref() == Some(key));
        let stored = stored.or_else(|| own.map(|send| send.value.clone()));
        self.sends.push(Send {
            namespace: namespace.to_owned(),
            workflow: workflow.to_owned(),
            key: Some(key.to_owned()),
            value: value.clone(),
        });
        Ok(match stored {
            Some(value) => Recorded { value, first: false },
            None => Recorded {
                value: value.clone(),
                first: true,
            },
        })
    }

    pub(super) fn deliver(&mut self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        self.shared.lock().check_kind(namespace, workflow)?;
        self.sends.push(Send {
            namespace: namespace.to_owned(),
            workflow: workflow.to_owned(),
            key: None,
            value: value.clone(),
        });
        // The key is drawn when the transaction commits; until then nobody else can see the value.
        Ok(INBOX.to_owned())
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
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(MemoryTx {
            shared,
            puts: Vec::new(),
            sends: Vec::new(),
        })
    }

    /// Makes everything visible, in one step. Refused when a workflow that it started was started as another kind
    /// meanwhile: then nothing is.
    pub fn commit(self) -> Result<()> {
        self.finish(None).map(drop)
    }

    pub(super) fn commit_step(self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        let recorded = self.finish(Some((claim, step, value)))?;
        recorded.ok_or_else(|| Error::store("a step was committed without its record"))
    }

    fn finish(self, step: Option<(&Claim, &str, &Value)>) -> Result<Option<Recorded>> {
        let MemoryTx { shared, puts, sends } = self.0;
        let now = shared.now();
        let mut state = shared.lock();
        let mut recorded = None;
        if let Some((claim, step, value)) = step {
            state.fenced("the commit of a step", claim)?;
            let own = |send: &Send| send.workflow == claim.workflow && send.key.as_deref() == Some(step);
            if sends.iter().any(own) {
                return Err(Error::refused(format!(
                    "the effect of step `{step}` of workflow `{}` wrote the step's own record; return the value instead, it is recorded in the same commit",
                    claim.workflow
                )));
            }
            let written = state.write(&claim.workflow, step, value, now);
            if !written.first {
                return Ok(Some(written));
            }
            recorded = Some(written);
        }
        for send in &sends {
            state.check_kind(&send.namespace, &send.workflow)?;
        }
        for (table, key, value) in puts {
            state.rows.insert((table, key), value);
        }
        for send in sends {
            match send.key.as_deref() {
                Some(INPUT) => drop(state.start(&send.namespace, &send.workflow, &send.value, now)?),
                Some(key) => {
                    state.write(&send.workflow, key, &send.value, now);
                    state.wake(&send.namespace, &send.workflow, now);
                }
                None => {
                    state.append(&send.workflow, &send.value, now);
                    state.wake(&send.namespace, &send.workflow, now);
                }
            }
        }
        drop(state);
        shared.ready.notify_one();
        Ok(recorded)
    }
}
