//! Moments, and the one clock that judges them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::format_description::well_known::Rfc3339;

use crate::{Error, Result};

/// A moment of the store's clock, in whole microseconds since 1970 (the precision of `timestamptz`).
///
/// Recorded and shown as RFC 3339 in UTC, so that a person can read it in the row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last moment that prints with a year of four digits; later ones are cut to it.
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// The moment this many microseconds after the beginning of 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the beginning of 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This moment and `by` more, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(by).min(Self::MAX.0))
    }

    /// How long it is from this moment until `later`; zero when `later` has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_micros(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(at: SystemTime) -> Self {
        match at.duration_since(UNIX_EPOCH) {
            Ok(since) => Self(0).after(since),
            Err(before) => Self(-i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX)),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(at: Timestamp) -> Self {
        let distance = Duration::from_micros(at.0.unsigned_abs());
        if at.0 < 0 {
            UNIX_EPOCH - distance
        } else {
            UNIX_EPOCH + distance
        }
    }
}

impl fmt::Display for Timestamp {
    /// As RFC 3339 in UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .ok()
            .and_then(|at| at.format(&Rfc3339).ok());
        match text {
            Some(text) => f.write_str(&text),
            None => write!(f, "{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let at = time::OffsetDateTime::parse(text, &Rfc3339).map_err(|error| {
            Error::invalid(format!("`{text}` is no moment like 2026-01-31T09:30:00Z")).with_source(error)
        })?;
        let micros = i64::try_from(at.unix_timestamp_nanos() / 1_000);
        micros
            .map(Self)
            .map_err(|error| Error::invalid(format!("`{text}` is too far away")).with_source(error))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where a store takes its time from: its own clock, or one that a test moves.
///
/// Every deadline is computed and judged by the store's clock, so that workers whose own clocks disagree neither spin
/// nor oversleep. Clones share the same clock.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The store's own clock.
    pub fn store() -> Self {
        Self(None)
    }

    /// A clock that stands still until a test moves it.
    pub fn manual(at: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(at.0))))
    }

    /// The bound moment of a manual clock; `None` when the store's own clock decides.
    pub fn bound(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|at| Timestamp(at.load(Ordering::SeqCst)))
    }

    /// Moves a manual clock forward. Does nothing to the store's own clock.
    pub fn advance(&self, by: Duration) {
        if let Some(at) = &self.0 {
            let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
            at.fetch_add(by, Ordering::SeqCst);
        }
    }
}

/// The store's time as a pass knows it: read once from the store, carried on by the machine's steady clock.
///
/// The wall clock of the worker is never asked, so it may be wrong by any amount. The store read its clock somewhere
/// between the question and the answer, so its time is known to within that round trip, from both sides: deadlines
/// are set by the later bound and judged by the earlier one, and so nothing ends before its time.
#[derive(Clone, Debug)]
pub struct StoreTime {
    read: Timestamp,
    asked: Instant,
    answered: Instant,
    clock: Clock,
}

impl StoreTime {
    /// The store, asked at that instant, has just said that it is `now`, under the clock that it was given.
    pub fn new(asked: Instant, now: Timestamp, clock: &Clock) -> Self {
        Self {
            read: now,
            asked,
            answered: Instant::now(),
            clock: clock.clone(),
        }
    }

    /// The store's time at this moment, or earlier by up to the round trip.
    pub fn earliest(&self) -> Timestamp {
        self.carried_on(self.answered)
    }

    /// The store's time at this moment, or later by up to the round trip.
    pub fn latest(&self) -> Timestamp {
        self.carried_on(self.asked)
    }

    fn carried_on(&self, since: Instant) -> Timestamp {
        let bound = self.clock.bound();
        bound.unwrap_or_else(|| self.read.after(since.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_back_to_the_microsecond() {
        for micros in [0, 1, -1, 1_700_000_000_000_000, 1_700_000_000_123_456, Timestamp::MAX.0] {
            let at = Timestamp(micros);
            assert_eq!(at.to_string().parse::<Timestamp>().ok(), Some(at), "{at}");
        }
    }

    #[test]
    fn a_time_that_took_long_to_read_is_bounded_from_both_sides() {
        let trip = Duration::from_secs(3);
        let asked = Instant::now().checked_sub(trip).expect("the machine runs that long");
        let time = StoreTime::new(asked, Timestamp(0), &Clock::default());
        let (earliest, latest) = (time.earliest(), time.latest());
        assert!(earliest < Timestamp(0).after(trip), "{earliest}");
        assert!(latest >= earliest.after(trip), "{earliest} and {latest}");
    }

    #[test]
    fn a_moment_beyond_the_calendar_is_cut_to_its_end() {
        assert_eq!(Timestamp(0).after(Duration::MAX), Timestamp::MAX);
    }
}
