//! Sleeping by the real clocks of the stores: the server's for Postgres, the machine's for SQLite (case 6).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conformance::bed::Store;
use conformance::server::schema;
use conformance::worker::beside;
use passbook::{Client, Durable, Ended, Run, Scheduler as _, Timestamp, Worker, Workflow};
use passbook_postgres::Postgres;
use passbook_sqlite::Sqlite;

const SLEEP: Duration = Duration::from_millis(1500);

struct Sleeper(Arc<AtomicU32>);

impl<S: Durable> Workflow<S> for Sleeper {
    const NAME: &'static str = "sleeper";
    type Input = ();
    type Output = (Timestamp, Timestamp);
    type Error = String;

    async fn run(&self, run: &Run<S>, (): ()) -> Result<(Timestamp, Timestamp), String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let before = run.now("before").await;
        run.sleep("nap", SLEEP).await;
        Ok((before, run.now("after").await))
    }
}

async fn sleeps<S: Store>(store: S) {
    let passes = Arc::new(AtomicU32::new(0));
    let worker = Worker::new(store.clone()).register(Sleeper(passes.clone()));
    let client = Client::new(store.clone());
    store.scheduler().prepare().await.expect("a schema");
    client.start::<Sleeper>("w", &()).await.expect("started");
    let ended = beside(worker, async { client.result::<Sleeper>("w").await.expect("a result") }).await;
    let Ended::Completed((before, after)) = ended else {
        panic!("it should complete, and came to {ended:?}");
    };
    // Both moments are recorded by the clock that the sleep is judged by.
    assert!(before.after(SLEEP) <= after, "it slept from {before} to {after} only");
    let passes = passes.load(Ordering::SeqCst);
    assert!(
        passes <= 2,
        "a sleep costs one pass that falls asleep and one that goes on, not {passes}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleep_by_the_clock_of_the_server_costs_two_passes_and_does_not_end_early() {
    let schema = schema();
    let options = Postgres::options().schema(schema.name());
    sleeps(options.connect(schema.url()).await.expect("a store")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleep_by_the_clock_of_the_machine_costs_two_passes_and_does_not_end_early() {
    let folder = tempfile::tempdir().expect("a folder");
    sleeps(Sqlite::open(folder.path().join("store.db")).await.expect("a store")).await;
}
