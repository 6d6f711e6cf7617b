//! Transactions of the in-memory store: what effects and callers write, all of it or nothing.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Shared;
use super::state::State;
use crate::checkpointer::{Claim, INBOX, INPUT, Recorded};
use crate::{Error, Result, Value};

/// What a `transact` effect writes through: a small table of its own, and workflows started or signalled.
///
/// Reads see what was committed and what this transaction wrote. A workflow that it spoke to is spoken to by nobody else until
/// it ends, so who was first is decided at once, and numbers of an inbox are drawn in the order in which they commit.
#[derive(Debug)]
pub struct MemoryTx {
    shared: Arc<Shared>,
    id: u64,
    puts: Vec<(String, String, Value)>,
    sends: Vec<Sent>,
}

#[derive(Debug)]
struct Sent {
    namespace: String,
    workflow: String,
    key: String,
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
            let row = (table.to_owned(), key.to_owned());
            self.shared.lock().rows.get(&row).cloned()
        };
        own.map(|(_, _, value)| value.clone()).or_else(committed)
    }

    pub(super) async fn send(&mut self, namespace: &str, workflow: &str, key: &str, value: &Value) -> Result<Recorded> {
        let stored = self
            .speak(namespace, workflow, |state| state.value(workflow, key).cloned())
            .await?;
        let own = self
            .sends
            .iter()
            .find(|sent| sent.workflow == workflow && sent.key == key);
        if let Some(value) = stored.or_else(|| own.map(|sent| sent.value.clone())) {
            // The wakeup that the first one brought stands.
            return Ok(Recorded { value, first: false });
        }
        self.stage(namespace, workflow, key.to_owned(), value);
        Ok(Recorded {
            value: value.clone(),
            first: true,
        })
    }

    pub(super) async fn deliver(&mut self, namespace: &str, workflow: &str, value: &Value) -> Result<String> {
        let key = self.speak(namespace, workflow, State::draw_key).await?;
        self.stage(namespace, workflow, key.clone(), value);
        Ok(key)
    }

    /// Speaks to a workflow, and keeps others from it until the end.
    async fn speak<T>(&self, namespace: &str, workflow: &str, speak: impl FnOnce(&mut State) -> T) -> Result<T> {
        self.check_own_kind(namespace, workflow)?;
        let speak = |state: &mut State| {
            state.check_kind(namespace, workflow)?;
            state.spoken_to.insert(workflow.to_owned(), self.id);
            Ok(speak(state))
        };
        self.shared.speak(workflow, Some(self.id), speak).await
    }

    fn stage(&mut self, namespace: &str, workflow: &str, key: String, value: &Value) {
        self.sends.push(Sent {
            namespace: namespace.to_owned(),
            workflow: workflow.to_owned(),
            key,
            value: value.clone(),
        });
    }

    fn check_own_kind(&self, namespace: &str, workflow: &str) -> Result<()> {
        let started = self
            .sends
            .iter()
            .find(|sent| sent.workflow == workflow && sent.key == INPUT);
        match started {
            Some(started) if started.namespace != namespace => Err(Error::wrong_kind(workflow, namespace)),
            _ => Ok(()),
        }
    }
}

impl Drop for MemoryTx {
    fn drop(&mut self) {
        let id = self.id;
        self.shared.lock().spoken_to.retain(|_, holder| *holder != id);
        self.shared.ended.notify_waiters();
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
        let id = {
            let mut state = shared.lock();
            state.transactions += 1;
            state.transactions
        };
        Self(MemoryTx {
            shared,
            id,
            puts: Vec::new(),
            sends: Vec::new(),
        })
    }

    /// Makes everything visible, in one step.
    pub fn commit(self) -> Result<()> {
        self.finish(None).map(drop)
    }

    pub(super) fn commit_step(self, claim: &Claim, step: &str, value: &Value) -> Result<Recorded> {
        let recorded = self.finish(Some((claim, step, value)))?;
        recorded.ok_or_else(|| Error::store("a step was committed without its record"))
    }

    fn finish(mut self, step: Option<(&Claim, &str, &Value)>) -> Result<Option<Recorded>> {
        let (puts, sends) = (std::mem::take(&mut self.0.puts), std::mem::take(&mut self.0.sends));
        let shared = self.0.shared.clone();
        let now = shared.now();
        let mut state = shared.lock();
        let mut recorded = None;
        if let Some((claim, step, value)) = step {
            state.fenced("the commit of a step", claim)?;
            if sends
                .iter()
                .any(|sent| sent.workflow == claim.workflow && sent.key == step)
            {
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
        for (table, key, value) in puts {
            state.rows.insert((table, key), value);
        }
        for sent in sends {
            if sent.key == INPUT {
                state.start(&sent.namespace, &sent.workflow, &sent.value, now)?;
                continue;
            }
            debug_assert!(sent.key.starts_with(INBOX) || state.value(&sent.workflow, &sent.key).is_none());
            state.write(&sent.workflow, &sent.key, &sent.value, now);
            state.wake(&sent.namespace, &sent.workflow, now);
        }
        drop(state);
        shared.ready.notify_one();
        Ok(recorded)
    }
}
