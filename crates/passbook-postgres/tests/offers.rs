//! Starts that find a waiting worker in their process, claim in the same commit and hand their pass over.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Home, KIND, acquired, blocked, claimed, in_time, run, url, value};
use passbook::{
    Checkpointer as _, Client, Durable as _, Ended, Inspect as _, Run, Scheduler as _, Sent, Shutdown, State, Worker,
    Workflow,
};
use passbook_postgres::{Postgres, PostgresOptions};
use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Nobody finds anything by the poll, and no other process is told.
fn alone(home: &Home) -> PostgresOptions {
    home.options().poll(Duration::from_hours(1)).hints(false)
}

async fn opened(home: &Home, options: PostgresOptions) -> Postgres {
    let application = &home.schema;
    let address = format!("{}?application_name={application}", url());
    let store = options.connect(&address).await.unwrap();
    store.scheduler().prepare().await.unwrap();
    store
}

/// Goes on only when the gate is opened.
struct Gated(Arc<Semaphore>);

impl Workflow<Postgres> for Gated {
    const NAME: &'static str = KIND;
    type Input = ();
    type Output = String;
    type Error = String;

    async fn run(&self, run: &Run<Postgres>, (): ()) -> Result<String, String> {
        drop(self.0.acquire().await);
        run.step("step", async || Ok("ours".to_owned())).await
    }
}

/// A store with a worker that waits, and the gate of its workflows.
struct Bench {
    home: Home,
    store: Postgres,
    client: Client<Postgres>,
    gate: Arc<Semaphore>,
    shutdown: Shutdown,
    worker: JoinHandle<passbook::Result<()>>,
}

impl Bench {
    async fn new(grace: Duration) -> Self {
        let home = Home::new();
        let store = opened(&home, alone(&home)).await;
        let (gate, shutdown) = (Arc::new(Semaphore::new(0)), Shutdown::new());
        let worker = Worker::new(store.clone())
            .slots(10_000)
            .grace(grace)
            .register(Gated(gate.clone()));
        Self {
            home,
            client: Client::new(store.clone()),
            store,
            gate,
            worker: tokio::spawn(worker.run(shutdown.clone())),
            shutdown,
        }
    }

    async fn start(&self, workflow: &str) -> Sent {
        self.client.start::<Gated>(workflow, &()).await.unwrap()
    }

    /// Whether one transaction wrote the input, the queue row and the claim. The gate is closed, so nothing has come since.
    async fn is_claimed_by_its_start(&self, workflow: &str) -> bool {
        let sql = format!(
            "SELECT count(*) = 1 FROM {0}.workflow_checkpoint r, {0}.workflow_queue q, {0}.workflow_claim c
             WHERE r.workflow = $1 AND q.workflow = $1 AND c.workflow = $1 AND r.xmin = q.xmin AND q.xmin = c.xmin",
            self.home.schema
        );
        sqlx::query_scalar(AssertSqlSafe(sql))
            .bind(workflow)
            .fetch_one(self.store.pool())
            .await
            .unwrap()
    }

    /// A start that claims for the worker, held up by a program that starts the same workflow by plain SQL and will think
    /// better of it.
    async fn held_up(&self) -> (String, JoinHandle<Sent>, PgConnection) {
        let (mut observer, mut foreign) = (self.home.foreign().await, self.home.foreign().await);
        for at in 0.. {
            // Or each comes while the one before is being taken.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let workflow = format!("w{at}");
            let insert = format!(
                "BEGIN; INSERT INTO workflow_checkpoint (workflow, step, value, namespace) VALUES ('{workflow}', ':input', 'null', '{KIND}')"
            );
            run(&mut foreign, &insert).await;
            let (client, id) = (self.client.clone(), workflow.clone());
            let starting = tokio::spawn(async move { client.start::<Gated>(&id, &()).await.unwrap() });
            blocked(&mut observer, &self.home.schema, 1).await;
            let waiting = "SELECT query FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
            let waiting: String = sqlx::query_scalar(waiting)
                .bind(&self.home.schema)
                .fetch_one(&mut observer)
                .await
                .unwrap();
            if waiting.contains("fresh AS") {
                return (workflow, starting, foreign);
            }
            // The worker was not waiting just then.
            run(&mut foreign, "ROLLBACK").await;
            starting.await.unwrap();
        }
        unreachable!("it tries for ever");
    }

    async fn end(self) {
        self.gate.close();
        self.shutdown.begin();
        in_time(self.worker).await.unwrap().unwrap();
        self.home.drop().await;
    }

    async fn result(&self, workflow: &str) -> String {
        match in_time(self.client.result::<Gated>(workflow)).await.unwrap() {
            Ended::Completed(result) => result,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_beside_a_waiting_worker_is_claimed_in_its_commit_and_run() {
    let bench = Bench::new(Duration::from_secs(10)).await;
    let (mut started, mut claimed) = (Vec::new(), 0);
    in_time(async {
        while claimed < 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let workflow = format!("w{}", started.len());
            assert!(bench.start(&workflow).await.first);
            claimed += usize::from(bench.is_claimed_by_its_start(&workflow).await);
            started.push(workflow);
        }
    })
    .await;
    for workflow in &started {
        assert!(!bench.start(workflow).await.first, "it is there");
    }
    bench.gate.close();
    for workflow in &started {
        assert_eq!(bench.result(workflow).await, "ours");
        let status = bench.store.status(workflow).await.unwrap().unwrap();
        assert_eq!(
            (status.state, status.attempts, status.records),
            (State::Completed, 0, 3)
        );
    }
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_whose_caller_has_gone_is_run_all_the_same() {
    let bench = Bench::new(Duration::from_secs(10)).await;
    let (workflow, starting, mut foreign) = in_time(bench.held_up()).await;
    starting.abort();
    assert!(starting.await.unwrap_err().is_cancelled());
    run(&mut foreign, "ROLLBACK").await;
    bench.gate.close();
    assert_eq!(bench.result(&workflow).await, "ours");
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_waits_for_what_is_being_started_for_it() {
    let bench = Bench::new(Duration::from_mins(1)).await;
    let (workflow, starting, mut foreign) = in_time(bench.held_up()).await;
    bench.gate.close();
    bench.shutdown.begin();
    run(&mut foreign, "ROLLBACK").await;
    assert!(in_time(starting).await.unwrap().first);
    in_time(bench.worker).await.unwrap().unwrap();
    let status = bench.store.status(&workflow).await.unwrap().unwrap();
    assert_eq!((status.state, status.attempts), (State::Completed, 0));
    bench.home.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_started_for_a_worker_that_has_gone_is_handed_back() {
    let bench = Bench::new(Duration::ZERO).await;
    let (workflow, starting, mut foreign) = in_time(bench.held_up()).await;
    bench.shutdown.begin();
    in_time(bench.worker).await.unwrap().unwrap();
    run(&mut foreign, "ROLLBACK").await;
    assert!(in_time(starting).await.unwrap().first);
    let (pass, _) = in_time(async {
        loop {
            let taken = acquired(&bench.store, 100).await;
            if let Some(taken) = taken.into_iter().find(|(pass, _)| pass.claim.workflow == workflow) {
                return taken;
            }
        }
    })
    .await;
    assert_eq!((pass.claim.token, pass.attempts, pass.records.len()), (2, 0, 1));
    bench.home.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_waits_for_an_open_transaction_keeps_no_slot() {
    let home = Home::new();
    let store = opened(&home, alone(&home).connections(8).batching(false)).await;
    let (client, shutdown) = (Client::new(store.clone()), Shutdown::new());
    let gate = Arc::new(Semaphore::new(0));
    gate.close();
    let worker = Worker::new(store.clone()).slots(2).register(Gated(gate));
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let mut foreign = home.foreign().await;
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('workflow:held', 0))";
    run(&mut foreign, lock).await;
    let mut starting = Vec::new();
    for _ in 0..4 {
        // So that each finds the worker waiting.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let client = client.clone();
        starting.push(tokio::spawn(async move {
            client.start::<Gated>("held", &()).await.unwrap()
        }));
    }
    blocked(&mut home.foreign().await, &home.schema, 4).await;
    for at in 0..10 {
        let workflow = format!("w{at}");
        client.start::<Gated>(&workflow, &()).await.unwrap();
        let ended = in_time(client.result::<Gated>(&workflow)).await.unwrap();
        assert_eq!(ended, Ended::Completed("ours".to_owned()));
    }
    run(&mut foreign, "COMMIT").await;
    let mut first = 0;
    for starting in starting {
        first += usize::from(in_time(starting).await.unwrap().first);
    }
    assert_eq!(first, 1);
    in_time(client.result::<Gated>("held")).await.unwrap();
    shutdown.begin();
    worker.await.unwrap().unwrap();
    home.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_given_no_more_than_it_has_slots() {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    async fn slow(run: &Run<Postgres>, (): ()) -> Result<(), String> {
        run.step("step", async || {
            MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        })
        .await
    }
    let home = Home::new();
    // Each start is made by itself, so that each may be handed over.
    let store = opened(&home, alone(&home).batching(false)).await;
    let (client, shutdown) = (Client::new(store.clone()), Shutdown::new());
    let worker = Worker::new(store.clone()).slots(3).serve(KIND, slow);
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let submitted = (0..60).map(|at| {
        let client = client.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(at)).await;
            let workflow = format!("w{at}");
            client.kind(KIND).start(&workflow, &()).await.unwrap();
            in_time(client.kind(KIND).result::<()>(&workflow)).await.unwrap()
        })
    });
    for one in submitted.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap(), Ended::Completed(()));
    }
    assert_eq!(MOST.load(Ordering::SeqCst), 3);
    shutdown.begin();
    worker.await.unwrap().unwrap();
    home.drop().await;
}

/// `start_claimed.sql` by itself, with a lease of half a second, as a process sends it that dies before it reads the answer:
/// whether it was the first, and the token.
async fn started_and_claimed(session: &mut PgConnection, workflow: &str) -> (bool, Option<i64>) {
    let sql = include_str!("../sql/start_claimed.sql").replace("{schema}", "");
    let sql = sql.replace("$4", "NULL::timestamptz").replace("$5", "'500 ms'");
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(KIND)
        .bind(workflow)
        .bind("null")
        .fetch_one(session)
        .await
        .unwrap();
    (row.get("first"), row.get("token"))
}

#[tokio::test]
async fn only_what_nobody_has_written_of_is_claimed_by_its_start() {
    let home = Home::new();
    let store = opened(&home, alone(&home)).await;
    let mut session = home.foreign().await;
    assert_eq!(started_and_claimed(&mut session, "new").await, (true, Some(1)));
    assert_eq!(started_and_claimed(&mut session, "new").await, (false, None));

    store.arrive(KIND, "sent to", "key", &value("sent")).await.unwrap();
    store
        .checkpointer()
        .supply("supplied", "step", &value("theirs"))
        .await
        .unwrap();
    store.scheduler().make_ready(KIND, "made ready").await.unwrap();
    let held = claimed(&store, "held").await;
    store.start(KIND, "deleted", &value("input")).await.unwrap();
    claimed(&store, "deleted").await;
    store.delete(KIND, "deleted").await.unwrap();
    for workflow in ["sent to", "supplied", "made ready", "held", "deleted"] {
        let (first, token) = started_and_claimed(&mut session, workflow).await;
        assert_eq!((first, token), (true, None), "{workflow}");
    }
    let mut taken: Vec<_> = acquired(&store, 10).await;
    taken.sort_by(|(one, _), (other, _)| one.claim.workflow.cmp(&other.claim.workflow));
    let taken: Vec<_> = taken
        .iter()
        .map(|(pass, _)| (pass.claim.workflow.as_str(), pass.records.len()))
        .collect();
    assert_eq!(
        taken,
        [("deleted", 1), ("made ready", 1), ("sent to", 2), ("supplied", 2)],
        "{held:?} is held"
    );
    home.drop().await;
}

#[tokio::test]
async fn what_a_process_started_for_itself_and_died_is_taken_up_when_its_lease_is_over() {
    let home = Home::new();
    let store = opened(&home, alone(&home)).await;
    let mut session = home.foreign().await;

    // Inside: its transaction goes with it.
    let mut dies = home.foreign().await;
    run(&mut dies, "BEGIN").await;
    assert_eq!(started_and_claimed(&mut dies, "inside").await, (true, Some(1)));
    drop(dies);

    // After.
    assert_eq!(started_and_claimed(&mut session, "after").await, (true, Some(1)));
    assert!(acquired(&store, 10).await.is_empty(), "the lease runs");
    let mut taken = in_time(async {
        loop {
            let taken = acquired(&store, 10).await;
            if !taken.is_empty() {
                return taken;
            }
        }
    })
    .await;
    let (pass, _) = taken.pop().unwrap();
    assert!(taken.is_empty());
    assert_eq!(
        (pass.claim.workflow.as_str(), pass.claim.token, pass.attempts),
        ("after", 2, 1)
    );
    assert_eq!(
        started_and_claimed(&mut session, "inside").await,
        (true, Some(1)),
        "nothing was written"
    );
    home.drop().await;
}
