//! When to try again. Pure: nothing here waits or reads a clock.

use std::time::Duration;

/// How often to try, and how long to wait in between.
///
/// The wait after the first failure is `first`; each further one is twice as long, up to `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    attempts: u32,
    first: Duration,
    cap: Duration,
}

impl Retry {
    /// At most this many attempts in all, the first included; waits begin at 1 s and double up to 1 minute. Zero
    /// counts as one: something that is asked for is tried.
    pub const fn times(attempts: u32) -> Self {
        Self {
            attempts: if attempts == 0 { 1 } else { attempts },
            first: Duration::from_secs(1),
            cap: Duration::from_mins(1),
        }
    }

    /// Sets the wait after the first failure. Zero tries again at once.
    #[must_use]
    pub const fn first(mut self, wait: Duration) -> Self {
        self.first = wait;
        self
    }

    /// Sets the longest wait; the first wait is made in full even when it is longer.
    #[must_use]
    pub const fn cap(mut self, wait: Duration) -> Self {
        self.cap = wait;
        self
    }

    /// How many attempts there are in all.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long to wait after this many failed attempts; `None` when there is no further one.
    pub fn wait(&self, failed: u32) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let doubled = 1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX);
        Some(self.first.saturating_mul(doubled).min(self.cap.max(self.first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_end_with_the_attempts() {
        let retry = Retry::times(5)
            .first(Duration::from_secs(2))
            .cap(Duration::from_secs(7));
        let waits: Vec<_> = (1..=5).map(|failed| retry.wait(failed).map(|w| w.as_secs())).collect();
        assert_eq!(waits, [Some(2), Some(4), Some(7), Some(7), None]);
    }

    #[test]
    fn a_great_number_of_failures_waits_the_cap() {
        let retry = Retry::times(u32::MAX);
        assert_eq!(retry.wait(1_000_000), Some(Duration::from_mins(1)));
    }

    #[test]
    fn no_attempts_is_one_attempt() {
        assert_eq!(Retry::times(0).wait(1), None);
    }
}
