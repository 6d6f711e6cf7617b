//! The bodies of suspended passes, kept so that the next pass goes on where they stand instead of replaying.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::slot::Slot;
use crate::checkpointer::RESULT;
use crate::durable::Pass;
use crate::{Delivery, Timestamp};

/// A body with more bytes of unread records than this is put down: a replay reads them when they are needed.
const MOST_BYTES: usize = 64 << 10;

/// What a body that was kept goes on with.
pub(super) struct Turn {
    pub(super) pass: Pass,
    pub(super) delivery: Delivery,
    pub(super) slot: Slot,
}

/// Where a body stands.
pub(super) struct Stand {
    /// It knows every record up to this place.
    pub(super) seen: i64,
    /// The token under which it was suspended.
    pub(super) token: i64,
    /// The earliest moment that it waits for.
    pub(super) wake_at: Option<Timestamp>,
}

struct Kept {
    stand: Stand,
    place: u64,
    go_on: oneshot::Sender<Turn>,
}

/// At most so many bodies, the latest.
#[derive(Default)]
pub(super) struct Parking(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    room: usize,
    next: u64,
    kept: HashMap<String, Kept>,
    /// In the order in which they were kept.
    order: BTreeMap<u64, String>,
}

impl Parking {
    pub(super) fn new(room: usize) -> Self {
        let inner = Inner {
            room,
            ..Inner::default()
        };
        Self(Mutex::new(inner))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a body. What it goes on with comes through the channel, which closes when the body is to be put down.
    pub(super) fn keep(&self, workflow: &str, stand: Stand, bytes: usize) -> Option<oneshot::Receiver<Turn>> {
        let mut inner = self.lock();
        // An older one of this workflow stands where nobody is any more.
        inner.take(workflow);
        if inner.room == 0 || bytes > MOST_BYTES {
            return None;
        }
        if inner.kept.len() == inner.room {
            let oldest = inner.order.values().next().cloned();
            oldest.and_then(|oldest| inner.take(&oldest));
        }
        let (go_on, turn) = oneshot::channel();
        let place = inner.next;
        inner.next += 1;
        inner.order.insert(place, workflow.to_owned());
        let kept = Kept { stand, place, go_on };
        inner.kept.insert(workflow.to_owned(), kept);
        Some(turn)
    }

    /// Up to where the body of this workflow knows the records, if it is kept.
    pub(super) fn seen(&self, workflow: &str) -> Option<i64> {
        self.lock().kept.get(workflow).map(|kept| kept.stand.seen)
    }

    /// Gives a turn to the body of its workflow. Gives it back when there is none, or when the body must replay.
    pub(super) fn go_on(&self, turn: Turn) -> Option<Turn> {
        let Some(kept) = self.lock().take(&turn.pass.claim.workflow) else {
            return Some(turn);
        };
        if may_go_on(&kept.stand, &turn.pass) {
            kept.go_on.send(turn).err()
        } else {
            Some(turn)
        }
    }

    /// Puts all bodies down, and keeps none any more.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.room = 0;
        inner.kept.clear();
        inner.order.clear();
    }
}

impl Inner {
    fn take(&mut self, workflow: &str) -> Option<Kept> {
        let kept = self.kept.remove(workflow)?;
        self.order.remove(&kept.place);
        Some(kept)
    }
}

/// Whether everything that was recorded since came from outside and is known: no pass was in between, and what woke the
/// workflow can be seen. A wakeup that nothing explains may be that of a value whose place in the order lies further back,
/// as another program may write one; a replay sees it.
fn may_go_on(stand: &Stand, pass: &Pass) -> bool {
    let explained = !pass.records.is_empty() || stand.wake_at.is_some_and(|at| at <= pass.time.earliest());
    pass.since == Some(stand.seen)
        && pass.claim.token == stand.token + 1
        && explained
        && pass.records.iter().all(|record| record.step != RESULT)
}
