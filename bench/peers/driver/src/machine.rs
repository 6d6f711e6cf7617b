//! What the figures were measured on.

use std::fs;
use std::thread::available_parallelism;

use crate::server::Server;
use crate::{Arguments, Result};

/// What belongs under every table and chart.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) hardware: String,
    pub(crate) postgres: String,
    /// Of the last minute, before anything was measured. More than a little means that others were at work.
    pub(crate) load: String,
    pub(crate) runs: usize,
    pub(crate) workflows: usize,
}

impl Machine {
    pub(crate) async fn look(server: &Server, arguments: &Arguments) -> Result<Self> {
        let (date, postgres) = server.describe().await?;
        let cores = available_parallelism().map_or(0, usize::from);
        let processor = line("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Ok(Self {
            date,
            hardware: format!("{cores} cores, {processor}"),
            postgres,
            load: load.split(' ').next().unwrap_or_default().to_owned(),
            runs: arguments.runs,
            workflows: arguments.workflows,
        })
    }
}

/// The value of the first line of that name.
fn line(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
