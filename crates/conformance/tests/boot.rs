//! A worker at boot, on a database in which there is nothing yet.

use conformance::bed::Store;
use conformance::worker::beside;
use passbook::{Client, Durable, Ended, Run, Shutdown, Worker};
use passbook_postgres::Postgres;
use passbook_sqlite::Sqlite;

async fn doubled<S: Durable>(run: &Run<S>, n: u64) -> Result<u64, String> {
    run.step("doubled", async || Ok(n * 2)).await
}

async fn boots<S: Store>(store: S) {
    let client = Client::new(store.clone());
    let missing = client.kind("kind").start("w", &21_u64).await;
    assert!(missing.expect_err("there is no schema").is_not_found());
    let over = Shutdown::new();
    over.begin();
    let booted = Worker::new(store.clone()).serve("kind", doubled::<S>).run(over).await;
    booted.expect("it boots, and is told to stop");
    assert!(client.kind("kind").start("w", &21_u64).await.expect("a schema").first);
    beside(Worker::new(store).serve("kind", doubled::<S>), async {
        let ended = client.kind("kind").result::<u64>("w").await;
        assert_eq!(ended.expect("a result"), Ended::Completed(42));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_makes_sure_of_the_schema_at_boot_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    boots(Sqlite::open(folder.path().join("store.db")).await.expect("a store")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_makes_sure_of_the_schema_at_boot_on_postgres() {
    let schema = conformance::server::schema();
    let options = Postgres::options().schema(schema.name()).connections(3);
    boots(options.connect(schema.url()).await.expect("a store")).await;
}
