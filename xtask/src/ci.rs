//! `cargo xtask ci`: all that must hold before a change goes in, in the order of its cost.

use std::env;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::child::{self, Interrupt};
use crate::failed::Failed;
use crate::{suite, tidy};

/// The crates that are published. All of them are packed in one go, because each needs the others'
/// new version, which no registry has yet.
const PUBLISHED: [&str; 4] = ["passbook", "passbook-postgres", "passbook-sqlite", "passbook-cli"];

type Stage = fn(&Interrupt) -> Result<()>;

const STAGES: [(&str, Stage); 6] = [
    ("fmt", fmt),
    ("clippy", clippy),
    ("doc", doc),
    ("tidy", tidy),
    ("test", test),
    ("package", package),
];

/// Runs the stages; the first that fails is the last that runs.
pub(crate) fn run(interrupt: &Interrupt) -> Result<()> {
    let begun = Instant::now();
    for (name, stage) in STAGES {
        let stage_begun = Instant::now();
        println!("\n== {name}");
        let result = stage(interrupt);
        let seconds = stage_begun.elapsed().as_secs_f64();
        let verdict = if result.is_ok() { "passed" } else { "failed" };
        println!("== {name}: {verdict} after {seconds:.1} s");
        result.with_context(|| format!("ci stops at stage `{name}`"))?;
    }
    println!("\n== ci: passed after {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn fmt(interrupt: &Interrupt) -> Result<()> {
    cargo(&["fmt", "--all", "--check"], &[], interrupt)
}

fn clippy(interrupt: &Interrupt) -> Result<()> {
    cargo(
        &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"],
        &[],
        interrupt,
    )
}

fn doc(interrupt: &Interrupt) -> Result<()> {
    cargo(
        &["doc", "--workspace", "--no-deps"],
        &[("RUSTDOCFLAGS", "--deny warnings")],
        interrupt,
    )
}

fn tidy(_: &Interrupt) -> Result<()> {
    tidy::run()
}

fn test(interrupt: &Interrupt) -> Result<()> {
    suite::run(&[], interrupt)
}

/// The earlier stages have compiled what is packed, so it is only checked that it can be packed:
/// that the metadata is complete and that no file lies outside the crate.
fn package(interrupt: &Interrupt) -> Result<()> {
    let mut arguments = vec!["package", "--no-verify"];
    for name in PUBLISHED {
        arguments.extend(["--package", name]);
    }
    // A person runs this before committing. CI works on a clean checkout and insists on it.
    if env::var_os("CI").is_none() {
        arguments.push("--allow-dirty");
    }
    cargo(&arguments, &[], interrupt)
}

fn cargo(arguments: &[&str], variables: &[(&str, &str)], interrupt: &Interrupt) -> Result<()> {
    let mut command = child::cargo();
    command.args(arguments).envs(variables.iter().copied());
    let status = child::run(&mut command, interrupt)?;
    Failed::unless_success(format!("`cargo {}`", arguments.join(" ")), status)
}
