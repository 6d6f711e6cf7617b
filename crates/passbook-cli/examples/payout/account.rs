//! What a person sees, and the plain file that stands for the world outside.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Appends effects to a file, and tells on the terminal what happens.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    effects: PathBuf,
}

impl Account {
    pub(crate) fn new(effects: &Path) -> Self {
        Self {
            effects: effects.to_owned(),
        }
    }

    /// Does something to the world: one line in the file, in one write, so that a crash leaves all of it or nothing.
    pub(crate) async fn effect(&self, words: &[&str]) -> std::io::Result<()> {
        let line = format!("{}\n", words.join(" "));
        let path = self.effects.clone();
        let append = move || {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
            file.write_all(line.as_bytes())
        };
        tokio::task::spawn_blocking(append)
            .await
            .map_err(std::io::Error::other)?
    }

    /// How often each kind of effect stands in the file.
    pub(crate) fn count(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        let text = std::fs::read_to_string(&self.effects).unwrap_or_default();
        for word in text.lines().filter_map(|line| line.split(' ').next()) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
        counts
    }
}

/// One step of one order, as it is told.
#[derive(Debug)]
pub(crate) struct Told {
    order: String,
    name: String,
    ran: AtomicBool,
}

impl Told {
    pub(crate) fn new(order: &str, name: &str) -> Self {
        Self {
            order: order.to_owned(),
            name: name.to_owned(),
            ran: AtomicBool::new(false),
        }
    }

    pub(crate) fn begins(&self) {
        self.ran.store(true, Ordering::Relaxed);
        say(&self.order, "begins", &self.name, "");
    }

    /// The step has returned, so its record is there.
    pub(crate) fn recorded(&self, what: &str) {
        if self.ran.load(Ordering::Relaxed) {
            say(&self.order, "recorded", &self.name, what);
        } else {
            say(&self.order, "replayed", &self.name, "not done again");
        }
    }
}

/// One line of the account. Written at once, so that a kill shows what had happened by then.
pub(crate) fn say(order: &str, verb: &str, name: &str, what: &str) {
    let line = format!("  {order:<12} {verb:<9} {name:<20} {what}");
    let mut out = std::io::stdout().lock();
    // A closed pipe ends the listening, not the work.
    let _ = writeln!(out, "{}", line.trim_end());
    let _ = out.flush();
}

pub(crate) fn euros(cents: i64) -> String {
    format!("{}.{:02} EUR", cents / 100, cents % 100)
}
