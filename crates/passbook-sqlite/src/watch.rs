//! Sees that somebody has written to the file, without asking the database.
//!
//! Every commit, of whichever process, goes through the write-ahead log. To look at its size and time takes a microsecond or
//! two and no lock. To open it would be dangerous: closing a file gives up the locks that this process has on it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How often somebody who waits looks. An idle process pays some hundred looks a second.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// File systems may give two writes one time when they come within a tick of the kernel, ten milliseconds at most.
const GRAIN: Duration = Duration::from_millis(20);

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
    /// Whether a later write would show.
    settled: bool,
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
                settled: false,
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
        let age = found.map(|(_, at)| now.duration_since(at).unwrap_or(Duration::MAX));
        let settled = age.is_none_or(|age| age > GRAIN);
        // What was written in the same moment as what was seen cannot be told from it, so it is taken to be there.
        let changed = found != seen.log || (settled && !seen.settled);
        *seen = Seen { log: found, settled };
        changed
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
    fn a_write_shows_once_and_once_more_when_its_moment_has_passed() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let watch = Watch::of(&folder.path().join("work.db"));
        watch.has_changed_by(now);
        assert!(!watch.has_changed_by(now), "there is no log");

        let log = std::fs::File::create(folder.path().join("work.db-wal")).unwrap();
        log.set_modified(now).unwrap();
        assert!(watch.has_changed_by(now + GRAIN * 2));
        assert!(!watch.has_changed_by(now + GRAIN * 2));
        log.set_modified(now + GRAIN * 2).unwrap();
        assert!(watch.has_changed_by(now + GRAIN * 2), "it was written over");
        assert!(!watch.has_changed_by(now + GRAIN * 2));
        assert!(!watch.has_changed_by(now + GRAIN * 3));
        assert!(watch.has_changed_by(now + GRAIN * 4), "once more");
        assert!(!watch.has_changed_by(now + GRAIN * 5));

        log.set_len(1).unwrap();
        log.set_modified(now + GRAIN * 2).unwrap();
        assert!(watch.has_changed_by(now + GRAIN * 5), "it has grown");
        assert!(!watch.has_changed_by(now + GRAIN * 6));
    }
}
