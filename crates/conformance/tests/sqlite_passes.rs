//! The sentences about passes, on a SQLite file.

use std::time::Duration;

use conformance::bed::{Bed, MORNING};
use passbook::{Clock, Durable as _, Scheduler as _};
use passbook_sqlite::Sqlite;
use tempfile::TempDir;

async fn file(batching: bool) -> (Bed<Sqlite>, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Clock::manual(MORNING);
    let options = Sqlite::options().lease(Duration::from_secs(30)).clock(clock.clone());
    let options = options.batching(batching);
    let store = options.open(folder.path().join("store.db")).await.expect("a store");
    store.scheduler().prepare().await.expect("a schema");
    (Bed::new(store, clock), folder)
}

async fn sqlite() -> (Bed<Sqlite>, TempDir) {
    file(true).await
}

async fn unbatched() -> (Bed<Sqlite>, TempDir) {
    file(false).await
}

conformance::pass_sentences!(super::sqlite);

mod each_write_by_itself {
    conformance::pass_sentences!(super::super::unbatched);
}
