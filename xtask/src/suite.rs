//! `cargo xtask test`: every test, against servers that this command starts and stops.

use anyhow::Result;

use crate::account::Account;
use crate::child::{self, Interrupt};
use crate::failed::Failed;
use crate::postgres::{Fsync, Postgres, without_libpq};
use crate::programs;

/// Runs `cargo test` with `arguments`, and fails with its exit code.
///
/// The tests learn of the servers through five variables: `PASSBOOK_TEST_POSTGRES` (a superuser's
/// URL), `PASSBOOK_TEST_PG_BIN` and `PASSBOOK_TEST_PGBOUNCER` (for tests that start servers of
/// their own), `PASSBOOK_TEST_FAKETIME` (for processes
/// whose clock is wrong), and `PASSBOOK_TEST_USER` (whom those must run as; empty where it is us).
pub(crate) fn run(arguments: &[String], interrupt: &Interrupt) -> Result<()> {
    let bin = programs::postgres(interrupt)?;
    let pgbouncer = programs::pgbouncer(interrupt)?;
    let faketime = programs::faketime(interrupt)?;
    let account = Account::for_servers()?;
    let mut server = Postgres::start(&bin, account.as_ref(), Fsync::Off, interrupt)?;

    let mut command = child::cargo();
    command.arg("test");
    if !names_packages(arguments) {
        command.arg("--workspace");
    }
    without_libpq(&mut command)
        .args(arguments)
        .env("PASSBOOK_TEST_POSTGRES", server.url())
        .env("PASSBOOK_TEST_PG_BIN", &bin)
        .env("PASSBOOK_TEST_PGBOUNCER", &pgbouncer)
        .env("PASSBOOK_TEST_FAKETIME", &faketime)
        .env(
            "PASSBOOK_TEST_USER",
            account.as_ref().map_or("", |account| account.name),
        );
    let status = child::run(&mut command, interrupt)?;
    server.check()?;
    Failed::unless_success("the tests", status)
}

/// With `--workspace`, cargo would run all packages whatever else it is told.
fn names_packages(arguments: &[String]) -> bool {
    arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--package" || argument.starts_with("--package=") || argument.starts_with("-p"))
}

#[cfg(test)]
mod tests {
    use super::names_packages;

    fn given(line: &str) -> bool {
        names_packages(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_package_is_named_in_every_way_that_cargo_takes() {
        assert!(given("-p passbook"));
        assert!(given("-ppassbook"));
        assert!(given("--package passbook"));
        assert!(given("--package=passbook claim"));
    }

    #[test]
    fn what_the_test_program_gets_names_no_package() {
        assert!(!given(""));
        assert!(!given("claim -- --nocapture -p"));
    }
}
