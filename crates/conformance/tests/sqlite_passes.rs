//! The sentences about passes, on a SQLite file.

use std::time::Duration;

use conformance::bed::{Bed, MORNING};
use passbook::{Clock, Durable as _, Scheduler as _};
use passbook_sqlite::Sqlite;
use tempfile::TempDir;

async fn sqlite() -> (Bed<Sqlite>, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Clock::manual(MORNING);
    let options = Sqlite::options().lease(Duration::from_secs(30)).clock(clock.clone());
    let store = options.open(folder.path().join("store.db")).await.expect("a store");
    store.scheduler().prepare().await.expect("a schema");
    (Bed::new(store, clock), folder)
}

conformance::pass_sentences!(super::sqlite);
