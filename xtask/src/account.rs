//! The user that servers run as.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Candidates, best first. `nobody` is everywhere, and owns nothing worth protecting.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// A user other than root. Postgres and `PgBouncer` refuse to run as root.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) name: &'static str,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Account {
    /// `None` where this process is not root: then servers run as whoever we are.
    pub(crate) fn for_servers() -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        for name in CANDIDATES {
            if let (Some(uid), Some(gid)) = (id("-u", name), id("-g", name)) {
                return Ok(Some(Self { name, uid, gid }));
            }
        }
        bail!(
            "servers do not run as root, and this machine has neither a user `postgres` nor a user `nobody`; add one, or run this as an ordinary user"
        )
    }

    /// Lets `command` run as this account; its other groups are dropped too.
    pub(crate) fn adopt<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.uid(self.uid).gid(self.gid)
    }

    /// Gives this account the ownership of `path`.
    pub(crate) fn own(&self, path: &std::path::Path) -> Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .with_context(|| format!("cannot give `{}` to user `{}`", path.display(), self.name))
    }
}

/// Whether this process may do anything.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Asks `id`, because users need not stand in `/etc/passwd`.
fn id(flag: &str, name: &str) -> Option<u32> {
    let output = Command::new("id").args([flag, name]).output().ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
