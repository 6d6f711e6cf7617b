//! Paths that cannot work, and durations that cannot.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use passbook::{Durable, Error, Scheduler};
use passbook_sqlite::{Sqlite, SqliteCheckpointer, SqliteScheduler};

use common::{Home, value};

async fn refused(path: impl AsRef<Path>) -> Error {
    match Sqlite::open(path).await {
        Ok(store) => panic!("opened {store:?}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn only_files_are_opened() {
    for path in [
        "",
        ":memory:",
        "sqlite::memory:",
        "sqlite://x.db",
        "file:x.db?mode=memory",
    ] {
        let error = refused(path).await;
        assert!(
            error.is_invalid() && error.to_string().contains("no path of a file"),
            "{path}: {error}"
        );
    }
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let home = Home::new();
    let error = refused(home.directory().join("no/such/work.db")).await;
    assert!(error.is_invalid(), "{error}");
    assert!(error.to_string().contains("no/such` does not exist"), "{error}");
    let error = refused(home.directory()).await;
    assert!(
        error.is_invalid() && error.to_string().contains("is a directory"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let home = Home::new();
    let text = "dear diary, ".repeat(1_000);
    fs::write(home.path(), &text).unwrap();
    let error = refused(home.path()).await;
    assert!(
        error.is_invalid() && error.to_string().contains("not a SQLite database"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(home.path()).unwrap(), text);
}

#[tokio::test]
async fn a_directory_in_which_nothing_can_be_created_is_told() {
    // Not even the superuser creates a file there.
    let error = refused("/proc/work.db").await;
    assert!(error.to_string().contains("its directory must exist"), "{error}");
}

/// Set in the process, without privileges, that `a_read_only_file_is_told` starts.
const READ_ONLY: &str = "PASSBOOK_TEST_READ_ONLY";

#[tokio::test]
async fn a_read_only_file_is_told() {
    if let Some(path) = std::env::var_os(READ_ONLY) {
        let error = match Sqlite::open(path).await {
            Err(error) => error,
            Ok(store) => store.start("orders", "w", &value("x")).await.unwrap_err(),
        };
        let told = error.to_string();
        assert!(
            told.contains("cannot be written") || told.contains("cannot be opened"),
            "{told}"
        );
        assert!(told.contains("directory"), "{told}");
        return;
    }

    let home = Home::new();
    home.prepared().await.file().close().await;
    let program = home.directory().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o444)).unwrap();
    for mode in [0o555, 0o777] {
        fs::set_permissions(home.directory(), fs::Permissions::from_mode(mode)).unwrap();
        let mut child = Command::new(&program);
        child
            .args(["--exact", "a_read_only_file_is_told", "--nocapture"])
            .env(READ_ONLY, home.path())
            .current_dir("/");
        // Mode bits mean nothing to the superuser, so the child is somebody else.
        if fs::metadata(home.path()).is_ok_and(|file| std::os::unix::fs::MetadataExt::uid(&file) == 0) {
            child.uid(65_534).gid(65_534);
        }
        assert!(child.status().unwrap().success(), "mode {mode:o}");
    }
    fs::set_permissions(home.directory(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn durations_of_nothing_are_refused_by_name() {
    let home = Home::new();
    let nothing = Duration::ZERO;
    for (name, options) in [
        ("lease", Sqlite::options().lease(nothing)),
        ("poll", Sqlite::options().poll(nothing)),
        ("patience", Sqlite::options().patience(nothing)),
        ("readers", Sqlite::options().readers(0)),
    ] {
        let error = options.open(home.path()).await.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(name), "{error}");
    }
    assert!(!home.path().exists());
}

#[tokio::test]
async fn a_lease_shorter_than_three_round_trips_is_refused() {
    let home = Home::new();
    let store = Sqlite::options()
        .lease(Duration::from_nanos(1))
        .open(home.path())
        .await
        .unwrap();
    let error = store.scheduler().prepare().await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("lease"), "{error}");
}

#[tokio::test]
async fn two_halves_over_two_handles_are_no_pair() {
    let home = Home::new();
    let (one, two) = (home.open().await, home.open().await);
    let pair = |checkpointer: &Sqlite, scheduler: &Sqlite| {
        Sqlite::new(
            SqliteCheckpointer::new(checkpointer.file()),
            SqliteScheduler::new(scheduler.file()),
        )
    };
    assert!(pair(&one, &two).unwrap_err().is_invalid());
    assert!(pair(&one, &one.clone()).is_ok());
}
