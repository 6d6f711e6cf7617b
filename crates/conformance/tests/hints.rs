//! Hints between processes: each store here is one of its own, as another process has one, and polls once an hour.

use std::time::Duration;

use conformance::bed::KIND;
use conformance::server::{Schema, schema};
use conformance::worker::beside;
use passbook::{Client, Durable as _, Ended, Enlist as _, Run, Scheduler as _, Worker};
use passbook_postgres::{Postgres, PostgresOptions};
use sqlx::AssertSqlSafe;

async fn doubled(run: &Run<Postgres>, n: u64) -> Result<u64, String> {
    run.step("doubled", async || Ok(n * 2)).await
}

fn options(schema: &Schema) -> PostgresOptions {
    let hour = Duration::from_hours(1);
    Postgres::options().schema(schema.name()).connections(4).poll(hour)
}

async fn store(schema: &Schema, options: PostgresOptions) -> Postgres {
    let url = format!("{}?application_name={}", schema.url(), schema.name());
    let store = options.connect(&url).await.expect("a store");
    store.scheduler().prepare().await.expect("a schema");
    store
}

/// Comes to its result although nobody polls, or the test fails.
async fn comes_to_its_result(client: &Client<Postgres>, workflow: &str, n: u64) {
    let kind = client.kind(KIND);
    let told = tokio::time::timeout(Duration::from_mins(1), kind.result::<u64>(workflow)).await;
    let ended = told.unwrap_or_else(|_| panic!("nobody was told of `{workflow}`"));
    assert_eq!(ended.expect("a result"), Ended::Completed(n * 2));
}

/// The worker has looked, found this, and has nothing more to do.
async fn idle(client: &Client<Postgres>) {
    client.kind(KIND).start("first", &1).await.expect("started");
    comes_to_its_result(client, "first", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_is_told_of_what_another_process_makes_ready() {
    let schema = schema();
    let working = store(&schema, options(&schema)).await;
    let client = Client::new(store(&schema, options(&schema)).await);
    beside(Worker::new(working).serve(KIND, doubled), async {
        idle(&client).await;
        for n in 2..6 {
            let workflow = format!("w{n}");
            client.kind(KIND).start(&workflow, &n).await.expect("started");
            comes_to_its_result(&client, &workflow, n).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_died_listens_again_and_has_missed_nothing() {
    let schema = schema();
    let working = store(&schema, options(&schema)).await;
    let client = Client::new(store(&schema, options(&schema)).await);
    let mut beholder = schema.connection().await;
    beside(Worker::new(working).serve(KIND, doubled), async {
        idle(&client).await;
        for n in 2..5 {
            let ended = async {
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'LISTEN%'";
                while sqlx::query(end)
                    .bind(schema.name())
                    .execute(&mut beholder)
                    .await
                    .expect("sessions end")
                    .rows_affected()
                    == 0
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let ended = tokio::time::timeout(Duration::from_mins(1), ended).await;
            ended.expect("somebody listens again");
            let workflow = format!("w{n}");
            client.kind(KIND).start(&workflow, &n).await.expect("started");
            comes_to_its_result(&client, &workflow, n).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_the_callers_own_is_told_when_the_caller_says_so() {
    let schema = schema();
    let working = store(&schema, options(&schema)).await;
    let starting = store(&schema, options(&schema)).await;
    let client = Client::new(starting.clone());
    beside(Worker::new(working).serve(KIND, doubled), async {
        idle(&client).await;
        let mut transaction = starting.pool().begin().await.expect("a transaction");
        let started = client.kind(KIND).start_in(&mut transaction, "w", &4).await;
        assert!(started.expect("started").first);
        transaction.commit().await.expect("a commit");
        starting.committed();
        comes_to_its_result(&client, "w", 4).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_program_may_say_that_it_has_written() {
    let schema = schema();
    let working = store(&schema, options(&schema)).await;
    let client = Client::new(store(&schema, options(&schema)).await);
    let mut other = schema.connection().await;
    beside(Worker::new(working).serve(KIND, doubled), async {
        idle(&client).await;
        let wrote = format!(
            "INSERT INTO workflow_queue VALUES ('{KIND}', 'w', now());
             INSERT INTO workflow_checkpoint (workflow, step, value) VALUES ('w', ':input', '21');
             SELECT pg_notify('passbook:{}', '')",
            schema.name()
        );
        sqlx::raw_sql(AssertSqlSafe(wrote))
            .execute(&mut other)
            .await
            .expect("it is written");
        comes_to_its_result(&client, "w", 21).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_hints_the_poll_finds_the_work() {
    let schema = schema();
    let quick = || options(&schema).poll(Duration::from_millis(50)).hints(false);
    let working = store(&schema, quick()).await;
    let client = Client::new(store(&schema, quick()).await);
    beside(Worker::new(working).serve(KIND, doubled), async {
        idle(&client).await;
        client.kind(KIND).start("w", &4).await.expect("started");
        comes_to_its_result(&client, "w", 4).await;
    })
    .await;
}
