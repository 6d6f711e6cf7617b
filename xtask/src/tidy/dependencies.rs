//! Rules about what may depend on what, and under which licences.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Complaints, root};
use crate::child::cargo;

/// Crates that speak to a database, or that stand above the core: `passbook` names none of them.
const ABOVE_THE_CORE: [&str; 12] = [
    "sqlx",
    "sqlx-core",
    "sqlx-postgres",
    "sqlx-sqlite",
    "tokio-postgres",
    "postgres",
    "diesel",
    "rusqlite",
    "libsqlite3-sys",
    "passbook-postgres",
    "passbook-sqlite",
    "passbook-cli",
];

/// What one database's users would link of the other's.
const SQLITE: [&str; 4] = ["sqlx-sqlite", "rusqlite", "libsqlite3-sys", "passbook-sqlite"];
const POSTGRES: [&str; 4] = ["sqlx-postgres", "tokio-postgres", "postgres", "passbook-postgres"];

/// Arrows that must not exist, as `(crate, what it may not reach)`.
const FORBIDDEN: [(&str, &[&str]); 3] = [
    ("passbook", &ABOVE_THE_CORE),
    ("passbook-postgres", &SQLITE),
    ("passbook-sqlite", &POSTGRES),
];

/// Licences that ask for no more than a notice.
const LICENCES: [&str; 11] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "Unicode-3.0",
    "CDLA-Permissive-2.0",
];

/// Follows the arrows of the published crates, as cargo resolves them.
pub(super) fn check() -> Result<Complaints> {
    let mut complaints = Vec::new();
    for (name, forbidden) in FORBIDDEN {
        complaints.extend(reached(
            name,
            &tree(&["--package", name, "--format", "{p}"])?,
            forbidden,
        ));
    }
    complaints.extend(licences(&tree(&[
        "--workspace",
        "--all-features",
        "--format",
        "{p}|{l}",
    ])?));
    Ok(complaints)
}

/// What is built into the libraries: not what only their tests use.
fn tree(arguments: &[&str]) -> Result<String> {
    let mut command: Command = cargo();
    command.args(["tree", "--edges", "normal,build", "--prefix", "none"]);
    let output = command
        .args(arguments)
        .current_dir(root())
        .output()
        .context("cannot run `cargo tree`")?;
    if !output.status.success() {
        bail!(
            "`cargo tree {}` failed:\n{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).context("`cargo tree` wrote something else than text")
}

fn reached(name: &str, tree: &str, forbidden: &[&str]) -> Complaints {
    let mut found: Vec<_> = names(tree).filter(|found| forbidden.contains(found)).collect();
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .map(|found| format!("crates/{name}/Cargo.toml: depends on `{found}`; arrows point downwards only"))
        .collect()
}

/// The first word of each line.
fn names(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines().filter_map(|line| line.split(' ').next())
}

fn licences(tree: &str) -> Complaints {
    let mut complaints: Vec<_> = tree
        .lines()
        // The mark of a package whose dependencies were listed before.
        .filter_map(|line| line.trim_end_matches(" (*)").split_once('|'))
        .filter(|(_, licence)| !permits(licence))
        .map(|(package, licence)| {
            format!("Cargo.lock: `{package}` has the licence `{licence}`, which is not one of those in xtask/src/tidy/dependencies.rs")
        })
        .collect();
    complaints.sort_unstable();
    complaints.dedup();
    complaints
}

/// Whether an SPDX expression can be met with our list: every side of an `AND`, one of each `OR`.
fn permits(expression: &str) -> bool {
    // Before SPDX, cargo took a slash for `OR`.
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    expression.split(" AND ").all(|side| {
        side.split(" OR ").any(|licence| {
            let licence = licence.split(" WITH ").next().unwrap_or(licence).trim();
            LICENCES.contains(&licence)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_upwards_is_found_wherever_it_starts() {
        let tree = "passbook v0.1.0 (/somewhere/passbook)\nhelpful v1.0.0\nsqlx v0.9.0\nsqlx v0.9.0 (*)\n";
        assert_eq!(reached("passbook", tree, &ABOVE_THE_CORE).len(), 1);
        assert!(reached("passbook", "passbook v0.1.0\ntokio v1.0.0\n", &ABOVE_THE_CORE).is_empty());
    }

    #[test]
    fn a_licence_may_be_chosen_but_not_left_out() {
        assert!(permits("MIT OR Apache-2.0"));
        assert!(permits("MIT/Apache-2.0"));
        assert!(permits("MPL-2.0 OR MIT"));
        assert!(permits("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(permits("Apache-2.0 WITH LLVM-exception"));
        assert!(!permits("MIT AND GPL-3.0-only"));
        assert!(!permits("AGPL-3.0-or-later"));
        assert!(!permits(""));
    }

    #[test]
    fn a_foreign_licence_is_told_once() {
        assert_eq!(
            licences("a v1|GPL-2.0-only\na v1|GPL-2.0-only (*)\nb v1|MIT (*)\n").len(),
            1
        );
    }
}
