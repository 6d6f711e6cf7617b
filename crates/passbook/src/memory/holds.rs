//! Which open transaction holds which workflow.

use std::collections::{HashMap, HashSet};

/// What open transactions hold until they end.
///
/// A transaction that sends to a workflow holds it, as it would hold the rows in a database: nobody else sends to it or
/// deletes it meanwhile, so what the transaction was told (who is first, under which key) is still so when it commits.
/// Passes are not kept from recording, but for the very keys that the transaction wrote.
#[derive(Debug, Default)]
pub(super) struct Holds {
    last: Holder,
    by_workflow: HashMap<String, Hold>,
    /// Who waits for whom. An entry may be left by a wait that was dropped; it goes with the next call or the end of its
    /// transaction.
    waits: HashMap<Holder, Holder>,
}

/// An open transaction.
pub(super) type Holder = u64;

#[derive(Debug)]
struct Hold {
    holder: Holder,
    keys: HashSet<String>,
}

/// Whether a transaction got what it asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Granted,
    /// Another one has it; it is to be asked for again when that one ends.
    Wait,
    /// The other one waits for this one, so neither would ever go on.
    Deadlock,
}

impl Holds {
    pub(super) fn open(&mut self) -> Holder {
        self.last += 1;
        self.last
    }

    /// Holds a workflow until the transaction ends.
    pub(super) fn hold(&mut self, holder: Holder, workflow: &str) -> Asked {
        match self.by_workflow.get(workflow).map(|hold| hold.holder) {
            Some(other) if other != holder => return self.wait(holder, other),
            Some(_) => {}
            None => {
                let hold = Hold {
                    holder,
                    keys: HashSet::new(),
                };
                self.by_workflow.insert(workflow.to_owned(), hold);
            }
        }
        self.waits.remove(&holder);
        Asked::Granted
    }

    /// Keeps a key of a workflow that the transaction holds from the passes too.
    pub(super) fn reserve(&mut self, workflow: &str, key: &str) {
        if let Some(hold) = self.by_workflow.get_mut(workflow) {
            hold.keys.insert(key.to_owned());
        }
    }

    /// Asks for a key that the transaction is about to record.
    pub(super) fn ask(&mut self, holder: Holder, workflow: &str, key: &str) -> Asked {
        match self.by_workflow.get(workflow) {
            Some(hold) if hold.holder != holder && hold.keys.contains(key) => {
                let other = hold.holder;
                self.wait(holder, other)
            }
            _ => {
                self.waits.remove(&holder);
                Asked::Granted
            }
        }
    }

    fn wait(&mut self, holder: Holder, other: Holder) -> Asked {
        self.waits.insert(holder, other);
        let mut next = Some(other);
        // A chain without a ring is no longer than there are waits.
        for _ in 0..self.waits.len() {
            next = next.and_then(|waiting| self.waits.get(&waiting).copied());
            if next == Some(holder) {
                self.waits.remove(&holder);
                return Asked::Deadlock;
            }
        }
        Asked::Wait
    }

    pub(super) fn is_held(&self, workflow: &str) -> bool {
        self.by_workflow.contains_key(workflow)
    }

    pub(super) fn is_reserved(&self, workflow: &str, key: &str) -> bool {
        self.by_workflow
            .get(workflow)
            .is_some_and(|hold| hold.keys.contains(key))
    }

    /// Gives back everything that a transaction holds.
    pub(super) fn release(&mut self, holder: Holder) {
        self.waits.remove(&holder);
        self.by_workflow.retain(|_, hold| hold.holder != holder);
    }
}
