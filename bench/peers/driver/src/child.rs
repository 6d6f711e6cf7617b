//! A program that measures, run as a process of its own.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::Result;

/// A program, and the arguments that come first.
#[derive(Clone, Debug)]
pub(crate) struct Program(pub(crate) Vec<OsString>);

impl Program {
    /// Runs it to its end and returns the JSON lines that it printed. Fails with the last of what it wrote to stderr.
    pub(crate) async fn run(&self, arguments: &[String], patience: Duration) -> Result<Vec<Value>> {
        let (name, first) = self.0.split_first().ok_or("there is no program")?;
        let child = Command::new(name)
            .args(first)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("`{}` cannot be run: {error}", name.display()))?;
        let output = tokio::time::timeout(patience, child.wait_with_output())
            .await
            .map_err(|_| format!("not done after {} s", patience.as_secs()))??;
        if !output.status.success() {
            return Err(last_words(&String::from_utf8_lossy(&output.stderr)).into());
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        let lines = stdout.lines().filter(|line| line.starts_with('{'));
        Ok(lines.map(serde_json::from_str).collect::<std::result::Result<_, _>>()?)
    }
}

/// The last line that says something.
fn last_words(stderr: &str) -> String {
    let line = stderr.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it failed and said nothing").trim().to_owned()
}
