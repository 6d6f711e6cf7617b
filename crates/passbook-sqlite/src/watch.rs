//! Sees that somebody has written to the file, without asking the database.
//!
//! Every commit, of whichever process, goes through the write-ahead log. To look at its size and time takes a microsecond or
//! two and no lock. To open it would be dangerous: closing a file gives up the locks that this process has on it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How often somebody who waits looks. An idle process pays some hundred looks a second.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// A commit is written to the log before it is flushed, and there for others only after that. So one look is not enough: it is
/// looked again when what was written last has this age, and twice that, and so on. It also covers file systems that give two
/// writes one time when they come within a tick of the kernel.
const AGAIN: Duration = Duration::from_millis(20);

/// No disk takes longer, or the poll finds it.
const LAST: Duration = Duration::from_secs(10);

/// The write-ahead log, as it was when somebody last looked.
#[derive(Debug)]
pub(crate) struct Watch {
    log: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// `None` when there is no log: it goes with the last connection.
    log: Option<(u64, SystemTime)>,
    /// At which age of the last write it is to be looked again.
    again: Duration,
}

impl Watch {
    /// Of the database at this path.
    pub(crate) fn of(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = PathBuf::from(log);
        Self {
            seen: Mutex::new(Seen {
                log: look(&log),
                again: AGAIN,
            }),
            log,
        }
    }

    /// Whether the file may have been written to since somebody last asked, by this process or another.
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed_by(SystemTime::now())
    }

    fn has_changed_by(&self, now: SystemTime) -> bool {
        let found = look(&self.log);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // A time in the future says that the clock was set back, and nothing more.
        let age = found.map_or(Duration::MAX, |(_, at)| now.duration_since(at).unwrap_or(Duration::MAX));
        let changed = found != seen.log;
        let again = if changed { AGAIN } else { seen.again };
        let due = again <= age.min(LAST);
        *seen = Seen {
            log: found,
            again: if due { again.max(age).saturating_mul(2) } else { again },
        };
        changed || due
    }
}

fn look(log: &Path) -> Option<(u64, SystemTime)> {
    let found = std::fs::metadata(log).ok()?;
    Some((found.len(), found.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_shows_at_once_and_again_as_it_ages() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let watch = Watch::of(&folder.path().join("work.db"));
        watch.has_changed_by(now);
        assert!(!watch.has_changed_by(now), "there is no log");

        let log = std::fs::File::create(folder.path().join("work.db-wal")).unwrap();
        log.set_modified(now).unwrap();
        let shows = |from: u32, to: u32| -> Vec<u32> {
            let ages = (from..to).filter(|age| watch.has_changed_by(now + Duration::from_millis(u64::from(*age))));
            ages.collect()
        };
        assert_eq!(shows(5, 1_000), [5, 20, 40, 80, 160, 320, 640]);
        assert_eq!(shows(1_000, 60_000), [1_280, 2_560, 5_120]);

        log.set_modified(now + Duration::from_mins(1)).unwrap();
        assert_eq!(shows(60_000, 60_030), [60_000, 60_020], "it was written over");
        log.set_len(1).unwrap();
        log.set_modified(now + Duration::from_mins(1)).unwrap();
        // The first look comes late, so the next comes later still.
        assert_eq!(shows(60_050, 60_250), [60_050, 60_100, 60_200], "it has grown");
    }
}
