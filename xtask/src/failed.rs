//! A program that ran and said no.

use std::fmt;
use std::process::ExitStatus;

use anyhow::Result;

/// The error of a program that ended badly. Its exit code becomes ours.
#[derive(Debug)]
pub(crate) struct Failed {
    what: String,
    /// `None` when a signal ended it.
    code: Option<i32>,
}

impl Failed {
    /// An error naming `what`, unless `status` is that of a success.
    pub(crate) fn unless_success(what: impl Into<String>, status: ExitStatus) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        Err(Self {
            what: what.into(),
            code: status.code(),
        }
        .into())
    }

    /// What this process is to exit with; never 0.
    pub(crate) fn exit_code(&self) -> u8 {
        self.code
            .and_then(|code| u8::try_from(code).ok())
            .filter(|code| *code != 0)
            .unwrap_or(1)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{} failed with exit code {code}", self.what),
            None => write!(f, "{} ended by a signal", self.what),
        }
    }
}

impl std::error::Error for Failed {}
