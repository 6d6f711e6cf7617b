//! Long transactions hold every connection of the pool, and thousands wait for results beside them (case 13).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conformance::server::schema;
use conformance::worker::beside;
use passbook::{Client, Durable as _, Ended, Run, Scheduler as _, Worker, Workflow};
use passbook_postgres::Postgres;
use sqlx::AssertSqlSafe;

const LEASE: Duration = Duration::from_millis(1500);
/// As many bodies as connections: nothing is left for anybody else while they run.
const BODIES: u32 = 4;
const WAITERS: u32 = 2_000;

/// Posts one line in a transaction that lasts two leases.
struct Long {
    insert: String,
    passes: Arc<AtomicU32>,
    effects: Arc<AtomicU32>,
}

impl Workflow<Postgres> for Long {
    const NAME: &'static str = "long";
    type Input = ();
    type Output = String;
    type Error = sqlx::Error;

    async fn run(&self, run: &Run<Postgres>, (): ()) -> Result<String, sqlx::Error> {
        self.passes.fetch_add(1, Ordering::SeqCst);
        run.transact("posted", async |tx| {
            self.effects.fetch_add(1, Ordering::SeqCst);
            sqlx::query(AssertSqlSafe(self.insert.clone()))
                .bind(run.workflow())
                .execute(&mut *tx)
                .await?;
            tokio::time::sleep(LEASE * 2).await;
            Ok(run.workflow().to_owned())
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_on_every_connection_outlive_their_leases_and_commit_once() {
    let schema = schema();
    let options = Postgres::options().schema(schema.name()).connections(BODIES);
    let store = options.lease(LEASE).connect(schema.url()).await.expect("a store");
    let mut beholder = schema.connection().await;
    sqlx::raw_sql("CREATE TABLE line (workflow text NOT NULL)")
        .execute(&mut beholder)
        .await
        .expect("a table");

    let (passes, effects) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let worker = Worker::new(store.clone()).register(Long {
        insert: format!("INSERT INTO {}.line (workflow) VALUES ($1)", schema.name()),
        passes: passes.clone(),
        effects: effects.clone(),
    });
    store.scheduler().prepare().await.expect("a schema");
    let starter = Client::new(store.clone());
    for body in 0..BODIES {
        starter.start::<Long>(&format!("w{body}"), &()).await.expect("started");
    }
    beside(worker, async {
        // Several clients, so that several polls want connections; each shares its poll among its waiters.
        let clients: Vec<_> = (0..10).map(|_| Client::new(store.clone())).collect();
        let waiters = (0..WAITERS).map(async |waiter| {
            let workflow = format!("w{}", waiter % BODIES);
            let client = &clients[waiter as usize % clients.len()];
            let ended = client.result::<Long>(&workflow).await.expect("a result");
            assert_eq!(ended, Ended::Completed(workflow));
        });
        futures_util::future::join_all(waiters).await;
    })
    .await;

    let once = (BODIES, BODIES);
    let ran = (passes.load(Ordering::SeqCst), effects.load(Ordering::SeqCst));
    assert_eq!(ran, once, "each body and each effect ran once");
    let lines: Vec<String> = sqlx::query_scalar("SELECT workflow FROM line ORDER BY workflow")
        .fetch_all(&mut beholder)
        .await
        .expect("lines");
    assert_eq!(lines, ["w0", "w1", "w2", "w3"], "each committed once");
    let highest: i64 = sqlx::query_scalar("SELECT max(token)::bigint FROM workflow_claim")
        .fetch_one(&mut beholder)
        .await
        .expect("a token");
    assert_eq!(highest, 1, "nobody took a workflow over");
}
