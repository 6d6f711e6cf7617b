//! Passes that outlive their lease, on stores with a short lease and their own clocks.

use std::time::Duration;

use conformance::bed::Bed;
use conformance::worker::a_long_pass_is_kept_alive;
use passbook::{Clock, MemoryStore};
use passbook_postgres::Postgres;
use passbook_sqlite::Sqlite;

/// Long enough for a slow machine to renew in time, short enough to be outlived.
const LEASE: Duration = Duration::from_millis(900);

fn bed<S>(store: S) -> Bed<S> {
    let clock = Clock::store();
    Bed::new(store, clock)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_pass_is_kept_alive_in_memory() {
    let store = MemoryStore::with(LEASE, Clock::store()).expect("a store");
    a_long_pass_is_kept_alive(bed(store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_pass_is_kept_alive_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Sqlite::options()
        .lease(LEASE)
        .open(folder.path().join("store.db"))
        .await
        .expect("a store");
    passbook::Scheduler::prepare(passbook::Durable::scheduler(&store))
        .await
        .expect("a schema");
    a_long_pass_is_kept_alive(bed(store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_pass_is_kept_alive_on_postgres() {
    let schema = conformance::server::schema();
    let options = Postgres::options().schema(schema.name()).lease(LEASE);
    let store = options.connect(schema.url()).await.expect("a store");
    passbook::Scheduler::prepare(passbook::Durable::scheduler(&store))
        .await
        .expect("a schema");
    a_long_pass_is_kept_alive(bed(store)).await;
}
