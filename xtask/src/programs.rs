//! The programs of this machine that the tests need: where they are, and what to do when they are not there.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::account::is_root;
use crate::child::Interrupt;

/// What has to be in one directory for a Postgres to be started from it and asked whether it is up.
const POSTGRES: [&str; 3] = ["initdb", "postgres", "psql"];

/// Installs everything; stands in a file so that it can be read, and run, by itself.
const INSTALL: &str = include_str!("install.sh");

/// Directories that hold many versions, one each, and where in each the programs are.
const VERSIONED: [(&str, &str, &str); 4] = [
    // Debian
    ("/usr/lib/postgresql", "", "bin"),
    // Red Hat, packages of the Postgres project
    ("/usr", "pgsql-", "bin"),
    // Homebrew, on Apple's processors and on Intel's
    ("/opt/homebrew/opt", "postgresql@", "bin"),
    ("/usr/local/opt", "postgresql@", "bin"),
];

/// Directories that hold one version, or none.
const PLAIN: [&str; 4] = [
    "/usr/local/pgsql/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/usr/bin",
];

/// Where poolers live beside the directories of `PATH`: an ordinary user's often lacks these.
const SYSTEM: [&str; 5] = [
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/usr/bin",
];

/// The directory of the Postgres programs, installing them if that is possible.
pub(crate) fn postgres(interrupt: &Interrupt) -> Result<PathBuf> {
    find_or_install("a Postgres server", interrupt, find_postgres)
}

/// The `PgBouncer` program, installing it if that is possible.
pub(crate) fn pgbouncer(interrupt: &Interrupt) -> Result<PathBuf> {
    find_or_install("PgBouncer", interrupt, find_pgbouncer)
}

/// The `faketime` program, installing it if that is possible.
pub(crate) fn faketime(interrupt: &Interrupt) -> Result<PathBuf> {
    find_or_install("faketime", interrupt, find_faketime)
}

fn find_or_install(what: &str, interrupt: &Interrupt, find: fn() -> Result<Option<PathBuf>>) -> Result<PathBuf> {
    if let Some(found) = find()? {
        return Ok(found);
    }
    if let Some(mut install) = installer() {
        eprintln!("xtask: {what} is not installed; installing it: {}", install_line());
        // Out of reach of Ctrl-C: a package manager that is killed halfway leaves the machine broken.
        let status = install
            .stdin(Stdio::null())
            .process_group(0)
            .status()
            .context("cannot run the installation")?;
        interrupt.check()?;
        if status.success()
            && let Some(found) = find()?
        {
            return Ok(found);
        }
        bail!(
            "{what} could not be installed; the tests need it, so install it with\n\n    {}\n",
            install_line()
        );
    }
    bail!(
        "{what} is not installed, and the tests need it; install it with\n\n    {}\n",
        install_line()
    )
}

/// The command that installs, where this process may: on Debian's kin, as root or through a `sudo`
/// that asks nothing.
fn installer() -> Option<Command> {
    on_path("apt-get")?;
    let mut command = if is_root() {
        Command::new("sh")
    } else if sudo_asks_nothing() {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "sh"]);
        sudo
    } else {
        return None;
    };
    command.args(["-c", INSTALL]);
    Some(command)
}

fn sudo_asks_nothing() -> bool {
    Command::new("sudo")
        .args(["-n", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What a person types to install all of it here.
fn install_line() -> String {
    let sudo = if is_root() { "" } else { "sudo " };
    let apt = format!(
        "{sudo}apt-get update && {sudo}apt-get install -y --no-install-recommends postgresql pgbouncer faketime"
    );
    let dnf = format!("{sudo}dnf install -y postgresql-server postgresql pgbouncer libfaketime");
    let brew = "brew install postgresql@17 pgbouncer libfaketime".to_owned();
    if on_path("apt-get").is_some() {
        apt
    } else if on_path("dnf").is_some() {
        dnf
    } else if on_path("brew").is_some() {
        brew
    } else {
        [apt, dnf, brew].join("\n    ")
    }
}

fn find_postgres() -> Result<Option<PathBuf>> {
    // A directory that was named is meant: falling back to another version would test the wrong one.
    if let Some(named) = env::var_os("PASSBOOK_PG_BIN").map(PathBuf::from) {
        if let Some(missing) = POSTGRES.iter().find(|program| !named.join(program).is_file()) {
            bail!(
                "`PASSBOOK_PG_BIN` names `{}`, which holds no `{missing}`; unset it, or name the directory of `initdb` and `postgres`",
                named.display()
            );
        }
        return Ok(Some(named));
    }
    let versioned = VERSIONED
        .iter()
        .flat_map(|(parent, prefix, inner)| versions(Path::new(parent), prefix, inner));
    Ok(pg_config_bindir()
        .into_iter()
        .chain(versioned)
        .chain(PLAIN.iter().map(PathBuf::from))
        .chain(path_directories())
        .find(|directory| POSTGRES.iter().all(|program| directory.join(program).is_file())))
}

/// `pg_config` also comes with the client's headers, so its answer may hold no server.
fn pg_config_bindir() -> Option<PathBuf> {
    let output = Command::new("pg_config")
        .arg("--bindir")
        .stderr(Stdio::null())
        .output()
        .ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

/// The `inner` directories of the children of `parent` that are named by `prefix` and a version,
/// the highest version first.
fn versions(parent: &Path, prefix: &str, inner: &str) -> Vec<PathBuf> {
    let Ok(entries) = parent.read_dir() else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = version(path.file_name()?.to_str()?.strip_prefix(prefix)?)?;
            Some((version, path.join(inner)))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// Versions compare as numbers: 9.6 comes before 15.
fn version(text: &str) -> Option<Vec<u32>> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

fn find_pgbouncer() -> Result<Option<PathBuf>> {
    if let Some(named) = named("PASSBOOK_PGBOUNCER", "pgbouncer")? {
        return Ok(Some(named));
    }
    Ok(on_path("pgbouncer").or_else(|| {
        SYSTEM
            .iter()
            .map(|directory| Path::new(directory).join("pgbouncer"))
            .find(|path| path.is_file())
    }))
}

fn find_faketime() -> Result<Option<PathBuf>> {
    let named = named("PASSBOOK_FAKETIME", "faketime")?;
    Ok(named.or_else(|| on_path("faketime")))
}

/// The program that a person named by a variable. What was named is meant: nothing else will do.
fn named(variable: &str, program: &str) -> Result<Option<PathBuf>> {
    let Some(named) = env::var_os(variable).map(PathBuf::from) else {
        return Ok(None);
    };
    if !named.is_file() {
        bail!(
            "`{variable}` names `{}`, which is no file; unset it, or name the `{program}` program",
            named.display()
        );
    }
    Ok(Some(named))
}

fn on_path(program: &str) -> Option<PathBuf> {
    path_directories()
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

fn path_directories() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_highest_version_comes_first() {
        let parent = tempfile::tempdir().expect("a temporary directory can be made");
        for name in [
            "postgresql@9.6",
            "postgresql@15",
            "postgresql@17",
            "postgresql@next",
            "redis@20",
        ] {
            fs::create_dir(parent.path().join(name)).expect("a fresh directory takes any name");
        }
        let found = versions(parent.path(), "postgresql@", "bin");
        let expected = ["postgresql@17/bin", "postgresql@15/bin", "postgresql@9.6/bin"];
        assert_eq!(found, expected.map(|name| parent.path().join(name)));
    }

    #[test]
    fn a_directory_that_is_not_there_has_no_versions() {
        assert!(versions(Path::new("/nowhere/at/all"), "", "bin").is_empty());
    }
}
