//! From when the queue is looked at, and whether its room is scarce.
//!
//! Taking goes along the index of the moments at which rows are due. While some transaction holds an old snapshot open, the
//! entries of rows that are gone stay in it, and a busy worker would walk over all of them at every take. So a take that
//! follows a full one begins a little before the last row that was taken. It would not see a row that turns up further back,
//! e.g. one whose transaction was open for long: every now and then, and whenever there was room left, a take sees everything.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use passbook::Timestamp;

/// How far before the last row that was taken. Transactions that were open for less are seen at once.
const MARGIN: Duration = Duration::from_secs(1);
/// The time between two takes that see everything.
const WHOLE: Duration = Duration::from_millis(500);
/// They take at most this part of the time: they read what a snapshot that is held open for minutes keeps from being removed.
const PART: u32 = 20;

#[derive(Debug, Default)]
pub(crate) struct Horizon(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// The last take came back full: the room of the next is shared out among its namespaces.
    scarce: bool,
    /// By namespace, while takes come back full.
    since: HashMap<String, Timestamp>,
    /// When the last take that sees everything began.
    whole: Option<Instant>,
    /// It has not ended yet.
    looks: bool,
    /// When the next one begins, counted from it.
    pause: Duration,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            // Nothing is known yet.
            scarce: true,
            since: HashMap::new(),
            whole: None,
            looks: false,
            pause: WHOLE,
        }
    }
}

impl Horizon {
    pub(crate) fn is_scarce(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).scarce
    }

    /// From when each of these namespaces is looked at; `None` for everything.
    pub(crate) fn since(&self, namespaces: &[String]) -> Vec<Option<Timestamp>> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recently = inner.whole.is_some_and(|whole| whole.elapsed() < inner.pause);
        if !recently || inner.since.is_empty() {
            inner.whole = Some(Instant::now());
            inner.looks = true;
            return vec![None; namespaces.len()];
        }
        namespaces.iter().map(|of| inner.since.get(of).copied()).collect()
    }

    /// What a take found: for each row the namespace and since when it was due, and whether there was room left.
    pub(crate) fn took<'a>(&self, rows: impl Iterator<Item = (&'a str, Timestamp)>, room: bool) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.scarce = !room;
        if std::mem::take(&mut inner.looks) {
            let took = inner.whole.map_or(Duration::ZERO, |whole| whole.elapsed());
            inner.pause = WHOLE.max(took * PART);
        }
        if room {
            inner.since.clear();
            return;
        }
        for (namespace, due) in rows {
            let begin = before(due);
            match inner.since.get_mut(namespace) {
                Some(since) => *since = begin.max(*since),
                None => drop(inner.since.insert(namespace.to_owned(), begin)),
            }
        }
    }
}

fn before(due: Timestamp) -> Timestamp {
    let margin = i64::try_from(MARGIN.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(due.as_micros() - margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    #[test]
    fn a_take_that_sees_everything_and_takes_long_is_seldom_repeated() {
        let horizon = Horizon::default();
        let kinds = ["a".to_owned()];
        assert_eq!(horizon.since(&kinds), [None]);
        let long = WHOLE * 2 / PART;
        let begun = Instant::now().checked_sub(long).expect("the machine runs that long");
        horizon.0.lock().expect("nobody panicked").whole = Some(begun);
        horizon.took([("a", NOON)].into_iter(), false);
        let pause = horizon.0.lock().expect("nobody panicked").pause;
        assert!(pause >= WHOLE * 2, "{pause:?}");
        assert_eq!(horizon.since(&kinds), [Some(before(NOON))]);
    }

    #[test]
    fn a_full_take_is_followed_by_one_that_begins_where_it_ended() {
        let horizon = Horizon::default();
        let kinds = ["a".to_owned(), "b".to_owned()];
        assert_eq!(horizon.since(&kinds), [None, None], "everything, at first");
        let later = NOON.after(Duration::from_secs(9));
        horizon.took([("a", later), ("a", NOON)].into_iter(), false);
        assert_eq!(horizon.since(&kinds), [Some(before(later)), None]);
        horizon.took([("a", NOON)].into_iter(), true);
        assert_eq!(horizon.since(&kinds), [None, None], "there was room left");
    }
}
