//! Room for one pass.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use crate::offers::Noted;

/// What the taking loop is told when a pass has ended: there is room, and when the workflow is due again as far as that is
/// known.
pub(super) struct Freed {
    pub(super) due: Option<Instant>,
}

/// Held by a pass while it runs. There is room again when it is dropped, however the pass ends.
pub(super) struct Slot {
    freed: UnboundedSender<Freed>,
    due: Option<Instant>,
    /// Of a pass that was given by its start.
    _noted: Option<Noted>,
}

impl Slot {
    pub(super) fn new(freed: UnboundedSender<Freed>, noted: Option<Noted>) -> Self {
        Self {
            freed,
            due: None,
            _noted: noted,
        }
    }

    /// The workflow is due again after this long.
    pub(super) fn due_in(&mut self, wait: Duration) {
        self.due = Instant::now().checked_add(wait);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Nobody takes any more when it fails.
        let _ = self.freed.send(Freed { due: self.due });
    }
}
