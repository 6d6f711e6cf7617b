//! Workers whose own clock is wrong: processes that `faketime` gives another wall clock than the server has.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conformance::server::{Schema, schema};
use conformance::worker::beside;
use passbook::{Client, Durable as _, Ended, Run, Scheduler as _, Worker, Workflow};
use passbook_postgres::Postgres;

/// Set in the process with the wrong clock: the schema that it works in.
const SHIFTED: &str = "PASSBOOK_TEST_SHIFTED";
const TEST: &str = "a_worker_whose_clock_is_wrong_sleeps_by_the_clock_of_the_server";

const NAP: Duration = Duration::from_secs(5);
/// How wrong the clock is, either way, in seconds.
const WRONG: u64 = 120;

struct Sleeper;

impl Workflow<Postgres> for Sleeper {
    const NAME: &'static str = "sleeper";
    type Input = ();
    /// What the worker's own clock says, in seconds.
    type Output = u64;
    type Error = String;

    async fn run(&self, run: &Run<Postgres>, (): ()) -> Result<u64, String> {
        run.step("before", async || Ok::<_, String>(())).await?;
        run.sleep("nap", NAP).await;
        run.step("after", async || Ok(seconds())).await
    }
}

fn seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is after 1970").as_secs()
}

async fn store(schema: &str) -> Postgres {
    let url = conformance::server::url();
    let options = Postgres::options().schema(schema).connections(3);
    options.connect(&url).await.expect("a store")
}

/// The process with the wrong clock: works until the workflow is over.
async fn work(schema: &str) {
    let store = store(schema).await;
    let client = Client::new(store.clone());
    let worked = beside(Worker::new(store).register(Sleeper), async {
        client.result::<Sleeper>("w").await.expect("a result")
    });
    tokio::time::timeout(Duration::from_mins(1), worked)
        .await
        .expect("the workflow comes to its end");
}

fn shifted(schema: &Schema, shift: &str) -> Child {
    let faketime = std::env::var_os("PASSBOOK_TEST_FAKETIME")
        .map(PathBuf::from)
        .expect("this test needs `faketime`; `cargo xtask test` finds it, or installs it, and names it to the tests");
    // Timers go by the monotonic clock, which no wrong wall clock changes.
    Command::new(faketime)
        .args(["--exclude-monotonic", "-f", shift])
        .arg(std::env::current_exe().expect("this test has a path"))
        .args(["--exact", TEST, "--nocapture"])
        .env(SHIFTED, schema.name())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("faketime starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_clock_is_wrong_sleeps_by_the_clock_of_the_server() {
    if let Some(schema) = std::env::var_os(SHIFTED) {
        return work(&schema.to_string_lossy()).await;
    }
    let mut workers = Vec::new();
    for sign in ["+", "-"] {
        let schema = schema();
        let store = store(schema.name()).await;
        store.scheduler().prepare().await.expect("a schema");
        let client = Client::new(store);
        client.start::<Sleeper>("w", &()).await.expect("started");
        let worker = shifted(&schema, &format!("{sign}{WRONG}s"));
        workers.push((sign, schema, client, worker));
    }
    for (sign, schema, client, mut worker) in workers {
        let ended = tokio::task::spawn_blocking(move || worker.wait().expect("it ends"));
        assert!(ended.await.expect("it was waited for").success(), "{sign}{WRONG} s");

        let Ended::Completed(theirs) = client.result::<Sleeper>("w").await.expect("a result") else {
            panic!("{sign}{WRONG} s: it should complete");
        };
        let (ours, wrong) = (seconds(), if sign == "+" { theirs } else { theirs + 2 * WRONG });
        let off = ours.abs_diff(wrong - WRONG);
        assert!(
            off < WRONG / 2,
            "{sign}{WRONG} s: the clock of the worker was not shifted"
        );

        let records = client.history("w").await.expect("records");
        let at = |step: &str| {
            let record = records.iter().find(|record| record.step == step);
            record.expect("it is recorded").recorded_at
        };
        assert!(
            at("before").after(NAP) <= at("after"),
            "{sign}{WRONG} s: by the server's clock it slept from {} to {} only",
            at("before"),
            at("after")
        );
        // Each pass has a token of its own, and no pass would be one more.
        let passes: i64 = sqlx::query_scalar("SELECT token FROM workflow_claim WHERE workflow = 'w'")
            .fetch_one(&mut schema.connection().await)
            .await
            .expect("a claim");
        assert!(
            passes <= 2,
            "{sign}{WRONG} s: a sleep costs a pass that falls asleep and one that goes on, not {passes}"
        );
    }
}
