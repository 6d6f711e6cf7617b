//! `cargo xtask tidy`: what no compiler checks. It is a test too, so `cargo test` alone finds it.
//!
//! Each rule is a function from text to complaints; only this file walks the disk.

mod code;
mod dependencies;
mod markdown;
mod sql;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Files that a reader, a packager or a lawyer looks for first.
const REQUIRED: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "DESIGN.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

/// This folder names what it forbids.
const RULES: &str = "xtask/src/tidy/";

/// A file of the repository.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root, with `/` between the parts.
    path: String,
    text: String,
}

/// Complaints, each beginning with the path it is about, and the line where there is one.
type Complaints = Vec<String>;

/// Applies every rule, and lists all complaints before it fails.
pub(crate) fn run() -> Result<()> {
    let complaints = complaints(&root())?;
    if complaints.is_empty() {
        return Ok(());
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    bail!("tidy has {} complaints", complaints.len())
}

fn complaints(root: &Path) -> Result<Complaints> {
    let sources = sources(root)?;
    let mut complaints = Vec::new();
    for required in REQUIRED {
        if !root.join(required).is_file() {
            complaints.push(format!("{required}: is missing"));
        }
    }
    for source in &sources {
        complaints.extend(code::leftovers(source));
        match extension(&source.path) {
            "rs" => complaints.extend(code::check(source)),
            "sql" => complaints.extend(sql::check(source)),
            "md" => complaints.extend(markdown::check(source, root)),
            _ => {}
        }
        if source.path == "README.md" {
            complaints.extend(markdown::first_commands(source));
        }
    }
    let paths: Vec<_> = sources.iter().map(|source| source.path.as_str()).collect();
    complaints.extend(sql::parity(&paths));
    complaints.extend(dependencies::check()?);
    Ok(complaints)
}

/// The root of the repository, wherever the command was called.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root")
        .to_owned()
}

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// The text files that rules look at, in order of their paths.
fn sources(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = folder
            .read_dir()
            .with_context(|| format!("cannot list `{}`", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list `{}`", folder.display()))?;
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry
                .file_type()
                .with_context(|| format!("cannot look at `{}`", path.display()))?;
            if kind.is_dir() {
                // What is built, and what belongs to git and to editors.
                if name != "target" && (!name.as_encoded_bytes().starts_with(b".") || name == ".ci") {
                    folders.push(path);
                }
            } else if kind.is_file() && ["rs", "sql", "md", "toml", "sh"].contains(&extension(&name.to_string_lossy()))
            {
                let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
                let path = path.strip_prefix(root).expect("the walk began there");
                sources.push(Source {
                    path: path.to_string_lossy().into_owned(),
                    text,
                });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let complaints = complaints(&root()).expect("the repository can be read");
        assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    }

    #[test]
    fn an_empty_repository_is_told_what_is_missing() {
        let root = tempfile::tempdir().expect("a temporary directory can be made");
        let complaints = complaints(root.path()).expect("an empty directory can be read");
        assert!(
            complaints.contains(&"README.md: is missing".to_owned()),
            "{complaints:?}"
        );
        assert!(
            complaints.contains(&"LICENSE-MIT: is missing".to_owned()),
            "{complaints:?}"
        );
    }
}
