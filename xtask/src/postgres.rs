//! A Postgres of our own: made in a temporary directory, gone when the value is dropped.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::account::Account;
use crate::child::Interrupt;

/// The keeper of the server process; see there for how it stops.
const KEEPER: &str = include_str!("postgres.sh");

/// How often another port is tried when somebody else took ours between the choice and the start.
const ATTEMPTS: usize = 5;

/// Lines of the server's log that are shown when it fails.
const LOG_TAIL: usize = 30;

/// Whether commits survive the loss of power.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fsync {
    /// For measuring: figures without it mean nothing.
    On,
    /// For tests. They check what a crash of a *process* leaves, and the kernel keeps what a dead
    /// process wrote. `synchronous_commit` stays on all the same, so that a commit returns only
    /// once it is written.
    Off,
}

/// A running throwaway server.
///
/// Dropping it stops the server and removes its data. If this process dies without dropping it,
/// the keeper does the same, because its stdin ends then.
#[derive(Debug)]
pub(crate) struct Postgres {
    keeper: Child,
    /// Stays readable after the directory is removed.
    log: File,
    bin: PathBuf,
    port: u16,
    password: String,
}

impl Postgres {
    /// Starts a server from the programs in `bin` and returns when it takes connections.
    pub(crate) fn start(bin: &Path, account: Option<&Account>, fsync: Fsync, interrupt: &Interrupt) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let mut server = Self::launch(bin, account, fsync)?;
            if server.wait_ready(interrupt)? {
                return Ok(server);
            }
            let log = server.log_tail()?;
            if !log.contains("Address already in use") {
                bail!(
                    "Postgres from `{}` did not start; its last words:\n\n{log}\n",
                    bin.display()
                );
            }
        }
        bail!("Postgres found no free port in {ATTEMPTS} attempts; is something taking all of them?")
    }

    fn launch(bin: &Path, account: Option<&Account>, fsync: Fsync) -> Result<Self> {
        let directory = directory(account)?;
        let log_path = directory.path().join("log");
        let log = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .open(&log_path)
            .with_context(|| format!("cannot create `{}`", log_path.display()))?;
        let port = free_port()?;
        let password = password()?;

        let mut command = Command::new("sh");
        command
            .args(["-c", KEEPER, "postgres.sh"])
            .arg(bin)
            .arg(directory.path())
            .arg(port.to_string())
            .arg(match fsync {
                Fsync::On => "on",
                Fsync::Off => "off",
            })
            // The account may not enter the directory that we stand in.
            .current_dir("/")
            // Its log is read here too, and macOS starts no server without a valid locale.
            .env("LC_ALL", "C")
            // Ctrl-C must not stop the server under the tests; the keeper decides when.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().context("cannot share the server's log")?)
            .stderr(log.try_clone().context("cannot share the server's log")?);
        without_libpq(&mut command);
        if let Some(account) = account {
            account.adopt(&mut command);
        }
        let mut keeper = command.spawn().context("cannot run `sh`")?;
        // From here on the keeper removes it.
        let _ = directory.keep();

        let stdin = keeper.stdin.as_mut().expect("stdin was asked for");
        // A keeper that is gone already shows as a server that is not ready, with its log.
        let _ = writeln!(stdin, "{password}");
        Ok(Self {
            keeper,
            log,
            bin: bin.to_owned(),
            port,
            password,
        })
    }

    /// `false` when the server ended instead. Asks with our password, so that another server that
    /// took the port is not mistaken for ours.
    fn wait_ready(&mut self, interrupt: &Interrupt) -> Result<bool> {
        loop {
            interrupt.pause()?;
            if self.ended()? {
                return Ok(false);
            }
            if self.answers()? {
                return Ok(true);
            }
        }
    }

    fn answers(&self) -> Result<bool> {
        let mut command = Command::new(self.bin.join("psql"));
        without_libpq(&mut command)
            .args(["--no-psqlrc", "--quiet", "--command=SELECT 1"])
            .arg(format!("--dbname={}", self.url()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let status = command
            .status()
            .with_context(|| format!("cannot run `psql` of `{}`", self.bin.display()))?;
        Ok(status.success())
    }

    fn ended(&mut self) -> Result<bool> {
        Ok(self
            .keeper
            .try_wait()
            .context("lost sight of the server's keeper")?
            .is_some())
    }

    /// The address of its `postgres` database, as the superuser.
    pub(crate) fn url(&self) -> String {
        format!("postgres://passbook:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }

    /// An error, with the end of the log, if the server has ended on its own.
    pub(crate) fn check(&mut self) -> Result<()> {
        if self.ended()? {
            let log = self.log_tail()?;
            bail!("Postgres ended while it was needed; its last words:\n\n{log}\n");
        }
        Ok(())
    }

    fn log_tail(&mut self) -> Result<String> {
        let mut log = Vec::new();
        self.log.rewind().context("cannot rewind the server's log")?;
        self.log.read_to_end(&mut log).context("cannot read the server's log")?;
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        Ok(lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The end of its stdin is the keeper's order to stop. Waiting for it means that nothing is
        // left when we return; there is nobody to tell if it fails.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Takes away the variables that libpq and its likes read, so that a person's own settings
/// (`PGSSLMODE`, `PGOPTIONS`) cannot change what is tested.
pub(crate) fn without_libpq(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    command
}

/// A fresh directory that belongs to the servers' account, and that it can reach.
fn directory(account: Option<&Account>) -> Result<TempDir> {
    let mut parents = vec![env::temp_dir()];
    // Root's temporary directory may lie below one that only root enters.
    if account.is_some() {
        parents.push(PathBuf::from("/tmp"));
    }
    for parent in &parents {
        let directory = tempfile::Builder::new()
            .prefix("passbook-postgres-")
            .tempdir_in(parent)
            .with_context(|| format!("cannot make a directory in `{}`", parent.display()))?;
        let Some(account) = account else {
            return Ok(directory);
        };
        account.own(directory.path())?;
        if reachable(directory.path(), account) {
            return Ok(directory);
        }
    }
    let parents: Vec<_> = parents.iter().map(|parent| format!("`{}`", parent.display())).collect();
    bail!(
        "user `postgres` or `nobody` can write in none of {}; point `TMPDIR` to a directory that everybody may enter",
        parents.join(", ")
    )
}

fn reachable(directory: &Path, account: &Account) -> bool {
    let mut command = Command::new("sh");
    command
        .args(["-c", "cd \"$1\" && test -w .", "sh"])
        .arg(directory)
        .current_dir("/")
        .stderr(Stdio::null());
    account
        .adopt(&mut command)
        .status()
        .is_ok_and(|status| status.success())
}

/// A port that was free a moment ago. Somebody may take it before the server does; see `start`.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr().context("no address of a bound port")?.port())
}

/// Sixteen random bytes in hexadecimal, which need no quoting anywhere.
fn password() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("cannot read `/dev/urandom`")?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
