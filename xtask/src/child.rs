//! Running other programs so that an interrupt ends all of them.

use std::env;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How often a running child and the interrupt are looked at: fast for a person, free for the machine.
const GLANCE: Duration = Duration::from_millis(50);

/// How long a group has between the polite signal and the one that cannot be refused.
const GRACE: Duration = Duration::from_millis(500);

/// The request to stop: Ctrl-C, SIGTERM or a closed terminal.
///
/// Once made it stays made. Every wait in this program looks at it and returns [`Interrupted`], so
/// that values are dropped in the ordinary way, the server with them.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

/// The error of a run that was asked to stop.
#[derive(Debug)]
pub(crate) struct Interrupted {
    /// The signal's number; a shell expects 128 more as the exit code.
    pub(crate) signal: usize,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped by signal {}", self.signal)
    }
}

impl std::error::Error for Interrupted {}

impl Interrupt {
    /// Takes over the three signals for the rest of this process.
    pub(crate) fn listen() -> Result<Self> {
        let flag = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal).expect("signal numbers are positive");
            signal_hook::flag::register_usize(signal, Arc::clone(&flag), number)
                .context("cannot listen for signals")?;
        }
        Ok(Self(flag))
    }

    /// An error once somebody asked to stop.
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.load(Ordering::SeqCst) {
            0 => Ok(()),
            signal => Err(Interrupted { signal }.into()),
        }
    }

    /// Sleeps for one glance, then checks.
    pub(crate) fn pause(&self) -> Result<()> {
        sleep(GLANCE);
        self.check()
    }
}

/// The cargo that runs this program: the toolchain that was chosen for it is kept.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs `command` to its end, or kills it and everything it started when interrupted.
///
/// The child leads a process group of its own: `cargo test` starts test programs, which start
/// workers and poolers, and a signal to the group reaches all of them. A group in the background
/// must not read from the terminal, hence no stdin.
pub(crate) fn run(command: &mut Command, interrupt: &Interrupt) -> Result<ExitStatus> {
    interrupt.check()?;
    let program = command.get_program().display().to_string();
    let mut child = command
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run `{program}`"))?;
    loop {
        if let Some(status) = child.try_wait().with_context(|| format!("lost sight of `{program}`"))? {
            return Ok(status);
        }
        if let Err(interrupted) = interrupt.pause() {
            end_group(&mut child);
            return Err(interrupted);
        }
    }
}

/// Kills the group that `child` leads.
///
/// The child is reaped last: until then its number cannot be given to somebody else's process. A
/// failure to signal means that the group is gone already.
fn end_group(child: &mut Child) {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    sleep(GRACE);
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}
