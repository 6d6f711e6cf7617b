//! The server ends every session of the store, again and again, while workflows run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conformance::server::schema;
use conformance::worker::beside;
use passbook::{Client, Durable as _, Ended, Run, Scheduler as _, Worker, Workflow};
use passbook_postgres::Postgres;
use sqlx::AssertSqlSafe;

const WORKFLOWS: usize = 30;
const STEPS: usize = 6;
const OUTAGES: usize = 8;

/// Several steps, then a line in a table of the application, then some more.
struct Errand {
    insert: String,
    effects: Arc<Mutex<HashMap<String, usize>>>,
}

impl Workflow<Postgres> for Errand {
    const NAME: &'static str = "errand";
    type Input = ();
    type Output = usize;
    type Error = sqlx::Error;

    async fn run(&self, run: &Run<Postgres>, (): ()) -> Result<usize, sqlx::Error> {
        for step in 0..STEPS {
            let name = format!("step {step}");
            run.step(&name, async || {
                tokio::time::sleep(Duration::from_millis(60)).await;
                let key = format!("{} {name}", run.workflow());
                *self.effects.lock().expect("nobody panicked").entry(key).or_default() += 1;
                Ok::<_, sqlx::Error>(())
            })
            .await?;
            if step % 2 == 0 {
                let name = format!("line {step}");
                run.transact(&name, async |tx| {
                    sqlx::query(AssertSqlSafe(self.insert.clone()))
                        .bind(format!("{} {name}", run.workflow()))
                        .execute(&mut *tx)
                        .await?;
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    Ok::<_, sqlx::Error>(())
                })
                .await?;
            }
            run.sleep(&format!("nap {step}"), Duration::from_millis(10)).await;
        }
        Ok(STEPS)
    }
}

/// Keeps each attempt that is ever counted, however soon it is forgotten again.
const WATCH: &str = "
CREATE TABLE line (what text NOT NULL);
CREATE TABLE counted (workflow text NOT NULL, attempts integer NOT NULL, error text);
CREATE FUNCTION count_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.counted VALUES (NEW.workflow, NEW.attempts, NEW.error);
    RETURN NULL;
END $$;
CREATE TRIGGER count_attempt AFTER UPDATE ON workflow_claim
    FOR EACH ROW WHEN (NEW.attempts > 0) EXECUTE FUNCTION count_attempt();
";
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_the_server_ends_cost_no_attempt_and_nothing_twice() {
    let schema = schema();
    let url = format!("{}?application_name={}", schema.url(), schema.name());
    let options = Postgres::options().schema(schema.name()).connections(6);
    let store = options.connect(&url).await.expect("a store");
    store.scheduler().prepare().await.expect("a schema");
    let mut beholder = schema.connection().await;
    sqlx::raw_sql(AssertSqlSafe(WATCH.replace("{schema}", schema.name())))
        .execute(&mut beholder)
        .await
        .expect("a trigger");

    let effects = Arc::new(Mutex::new(HashMap::new()));
    let worker = Worker::new(store.clone()).slots(10).register(Errand {
        insert: format!("INSERT INTO {}.line (what) VALUES ($1)", schema.name()),
        effects: effects.clone(),
    });
    let client = Client::new(store.clone());
    for workflow in 0..WORKFLOWS {
        client
            .start::<Errand>(&format!("w{workflow}"), &())
            .await
            .expect("started");
    }
    let ended = beside(worker, async {
        for _ in 0..OUTAGES {
            tokio::time::sleep(Duration::from_millis(230)).await;
            sqlx::query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1")
                .bind(schema.name())
                .execute(&mut beholder)
                .await
                .expect("the sessions end");
        }
        // Asked when the outages are over: a client tells its caller of an unreachable store, and does not wait it out.
        let mut ended = Vec::new();
        for workflow in 0..WORKFLOWS {
            ended.push(
                client
                    .result::<Errand>(&format!("w{workflow}"))
                    .await
                    .expect("a result"),
            );
        }
        ended
    })
    .await;

    assert!(ended.iter().all(|ended| *ended == Ended::Completed(STEPS)), "{ended:?}");
    assert_eq!(
        effects.lock().expect("nobody panicked").len(),
        WORKFLOWS * STEPS,
        "each step ran at least once"
    );
    let (lines, kinds): (i64, i64) = sqlx::query_as("SELECT count(*), count(DISTINCT what) FROM line")
        .fetch_one(&mut beholder)
        .await
        .expect("lines");
    let expected = i64::try_from(WORKFLOWS * STEPS.div_ceil(2)).expect("a few");
    assert_eq!((lines, kinds), (expected, expected), "each line was posted once");
    let counted: Vec<(String, i32, Option<String>)> = sqlx::query_as("SELECT workflow, attempts, error FROM counted")
        .fetch_all(&mut beholder)
        .await
        .expect("attempts");
    assert!(counted.is_empty(), "an outage was counted as an attempt: {counted:?}");
}
