//! What a pass knows while it runs: what is recorded, what is busy, what it waits for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

use crate::checkpointer::{INBOX, Record, Recorded};
use crate::{Error, Result, Timestamp, Value};

/// A write on its way, which belongs to the pass and not to the future that asked for it.
pub(crate) type Write = Pin<Box<dyn Future<Output = Landed> + Send>>;

/// What became of a write, and who wants to know.
pub(crate) struct Landed {
    written: Result<Recorded>,
    tell: oneshot::Sender<Recorded>,
}

/// Something that a pass waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wait {
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) key: Option<String>,
}

impl Wait {
    pub(crate) fn until(deadline: Timestamp) -> Self {
        Self {
            deadline: Some(deadline),
            key: None,
        }
    }

    pub(crate) fn key(key: &str) -> Self {
        Self {
            deadline: None,
            key: Some(key.to_owned()),
        }
    }
}

/// Shared by the body's futures and the driver. Locked for moments only, never over an await.
pub(crate) struct State {
    inner: Mutex<Inner>,
    /// Told when a body that was kept goes on under another pass.
    resumed: Notify,
}

struct Inner {
    /// What was recorded when the pass began, or when the body went on under another.
    records: HashMap<String, Value>,
    /// The keys of the inbox among them, in append order.
    inbox: Vec<String>,
    /// The names that the body has used so far.
    used: HashSet<String>,
    /// What runs now. While there is anything, the pass is not over.
    busy: BTreeMap<u64, String>,
    /// What it waits for. With nothing busy, this is what the pass suspends on.
    parked: BTreeMap<u64, Wait>,
    /// Writes that the driver has not seen yet.
    writes: Vec<Write>,
    /// Why the pass must end.
    ended: Option<Error>,
    next: u64,
}

pub(crate) enum Found {
    Recorded(Value),
    Nothing,
    Taken,
}

impl State {
    pub(crate) fn new(records: Vec<Record>) -> Self {
        let mut inner = Inner {
            records: HashMap::with_capacity(records.len()),
            inbox: Vec::new(),
            used: HashSet::new(),
            busy: BTreeMap::new(),
            parked: BTreeMap::new(),
            writes: Vec::new(),
            ended: None,
            next: 0,
        };
        inner.know(records);
        Self {
            inner: Mutex::new(inner),
            resumed: Notify::new(),
        }
    }

    /// The body goes on, knowing what was recorded meanwhile.
    pub(crate) fn resume(&self, records: Vec<Record>) {
        self.lock().know(records);
        self.resumed.notify_waiters();
    }

    /// Completes at the next [`State::resume`] after this call.
    pub(crate) fn resumed(&self) -> Notified<'_> {
        self.resumed.notified()
    }

    /// Lets go of what the body cannot ask for again, and returns how many bytes of values are left.
    pub(crate) fn forget_used(&self) -> usize {
        let Inner { records, used, .. } = &mut *self.lock();
        records.retain(|key, _| !used.contains(key));
        records.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here can panic half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, name: &str) -> Found {
        let mut inner = self.lock();
        if !inner.used.insert(name.to_owned()) {
            return Found::Taken;
        }
        match inner.records.get(name) {
            Some(value) => Found::Recorded(value.clone()),
            None => Found::Nothing,
        }
    }

    pub(crate) fn recorded(&self, key: &str) -> Option<Value> {
        self.lock().records.get(key).cloned()
    }

    /// The records whose keys begin so, with the rest of the key.
    pub(crate) fn recorded_under(&self, prefix: &str) -> Vec<(String, Value)> {
        self.lock()
            .records
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.to_owned(), value.clone())))
            .collect()
    }

    /// Up to `limit` keys of the inbox that come after this one.
    pub(crate) fn inbox_after(&self, after: &str, limit: usize) -> Vec<String> {
        let inner = self.lock();
        let from = inner.inbox.partition_point(|key| key.as_str() <= after);
        inner.inbox[from..].iter().take(limit).cloned().collect()
    }

    pub(crate) fn busy(&self, name: &str) -> Busy<'_> {
        let mut inner = self.lock();
        let id = inner.id();
        inner.busy.insert(id, name.to_owned());
        Busy { state: self, id }
    }

    /// The names of what runs now, for a person.
    pub(crate) fn running(&self) -> String {
        self.lock().busy.values().cloned().collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.lock().busy.is_empty()
    }

    pub(crate) fn park(&self, wait: Wait) -> Parked<'_> {
        let mut inner = self.lock();
        let id = inner.id();
        inner.parked.insert(id, wait);
        Parked { state: self, id }
    }

    /// What the pass waits for; empty when it waits for nothing.
    pub(crate) fn parked(&self) -> Vec<Wait> {
        self.lock().parked.values().cloned().collect()
    }

    pub(crate) fn push(
        &self,
        write: impl Future<Output = Result<Recorded>> + Send + 'static,
    ) -> oneshot::Receiver<Recorded> {
        let (tell, told) = oneshot::channel();
        self.lock().writes.push(Box::pin(async move {
            Landed {
                written: write.await,
                tell,
            }
        }));
        told
    }

    pub(crate) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.lock().writes)
    }

    pub(crate) fn has_writes(&self) -> bool {
        !self.lock().writes.is_empty()
    }

    pub(crate) fn landed(&self, landed: Landed) {
        match landed.written {
            // Nobody listens when the future that asked was dropped; the record is there all the same.
            Ok(recorded) => drop(landed.tell.send(recorded)),
            Err(error) => self.end(error),
        }
    }

    /// The first reason counts.
    pub(crate) fn end(&self, error: Error) {
        self.lock().ended.get_or_insert(error);
    }

    pub(crate) fn take_end(&self) -> Option<Error> {
        self.lock().ended.take()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended.is_some()
    }
}

impl Inner {
    fn know(&mut self, records: Vec<Record>) {
        for record in records {
            if record.step.starts_with(INBOX) {
                self.inbox.push(record.step.clone());
            }
            self.records.insert(record.step, record.value);
        }
        self.inbox.sort_unstable();
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("State")
            .field("records", &inner.records.len())
            .field("busy", &inner.busy)
            .field("parked", &inner.parked)
            .finish_non_exhaustive()
    }
}

/// Says that something runs, until it is dropped.
#[derive(Debug)]
pub(crate) struct Busy<'r> {
    state: &'r State,
    id: u64,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        // A panic drops the guard before anybody can ask what was running.
        if !std::thread::panicking() {
            self.state.lock().busy.remove(&self.id);
        }
    }
}

/// Says that something is waited for, until it is dropped.
#[derive(Debug)]
pub(crate) struct Parked<'r> {
    state: &'r State,
    id: u64,
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.state.lock().parked.remove(&self.id);
    }
}
