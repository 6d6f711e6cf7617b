//! A program that knows only the base columns works beside the store, by plain SQL.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{Home, KIND, acquired, claimed, run, steps, value};
use passbook::{
    Acquire, Checkpointer as _, Claimed, Client, Durable as _, Ended, Inspect as _, Life, Outcome, Run, Scheduler as _,
    Settlement, Shutdown, State, Worker, Workflow, resume,
};
use passbook_postgres::Postgres;
use sqlx::{Connection as _, PgConnection};

/// The other program. Each of its moves is what `docs/schema.md` tells its author to write.
struct Neighbour(PgConnection);

impl Neighbour {
    async fn of(home: &Home) -> Self {
        Self(home.foreign().await)
    }

    /// Two inserts in a transaction, the queue row first.
    async fn send(&mut self, workflow: &str, step: &str, value: &str) -> bool {
        let mut transaction = self.0.begin().await.unwrap();
        sqlx::query(
            "INSERT INTO workflow_queue AS q (namespace, workflow, visible_at) VALUES ($1, $2, now())
             ON CONFLICT (namespace, workflow) DO UPDATE SET visible_at = least(q.visible_at, excluded.visible_at)",
        )
        .bind(KIND)
        .bind(workflow)
        .execute(&mut *transaction)
        .await
        .unwrap();
        let recorded = sqlx::query(
            "INSERT INTO workflow_checkpoint (workflow, step, value) VALUES ($1, $2, $3::text::jsonb)
             ON CONFLICT DO NOTHING",
        )
        .bind(workflow)
        .bind(step)
        .bind(value)
        .execute(&mut *transaction)
        .await
        .unwrap();
        transaction.commit().await.unwrap();
        recorded.rows_affected() == 1
    }

    /// The token, unless somebody holds it.
    async fn claim(&mut self, workflow: &str) -> Option<i64> {
        sqlx::query_scalar(
            "INSERT INTO workflow_claim AS c (workflow, token, held_until) VALUES ($1, 1, now() + interval '1 hour')
             ON CONFLICT (workflow) DO UPDATE SET token = c.token + 1, held_until = excluded.held_until
             WHERE c.held_until <= now() RETURNING token",
        )
        .bind(workflow)
        .fetch_optional(&mut self.0)
        .await
        .unwrap()
    }

    /// Whether it still held the workflow.
    async fn record(&mut self, workflow: &str, token: i64, step: &str, value: &str) -> bool {
        let recorded = sqlx::query(
            "INSERT INTO workflow_checkpoint (workflow, step, value)
             SELECT c.workflow, $3, $4::text::jsonb FROM workflow_claim c WHERE c.workflow = $1 AND c.token <= $2
             FOR NO KEY UPDATE ON CONFLICT DO NOTHING",
        )
        .bind(workflow)
        .bind(token)
        .bind(step)
        .bind(value)
        .execute(&mut self.0)
        .await
        .unwrap();
        recorded.rows_affected() == 1
    }

    async fn take(&mut self) -> Option<String> {
        sqlx::query_scalar(
            "WITH due AS MATERIALIZED (
                 SELECT namespace, workflow FROM workflow_queue WHERE namespace = $1 AND visible_at <= now()
                 ORDER BY visible_at LIMIT 1 FOR UPDATE SKIP LOCKED)
             UPDATE workflow_queue q SET visible_at = now() + interval '1 hour' FROM due
             WHERE q.namespace = due.namespace AND q.workflow = due.workflow RETURNING q.workflow",
        )
        .bind(KIND)
        .fetch_optional(&mut self.0)
        .await
        .unwrap()
    }

    async fn done(&mut self, workflow: &str, token: i64) {
        let released = sqlx::query("UPDATE workflow_claim SET held_until = now() WHERE workflow = $1 AND token = $2")
            .bind(workflow)
            .bind(token)
            .execute(&mut self.0)
            .await
            .unwrap();
        assert_eq!(released.rows_affected(), 1);
        let answered = sqlx::query("DELETE FROM workflow_queue WHERE namespace = $1 AND workflow = $2")
            .bind(KIND)
            .bind(workflow)
            .execute(&mut self.0)
            .await
            .unwrap();
        assert_eq!(answered.rows_affected(), 1);
    }

    async fn steps(&mut self, workflow: &str) -> Vec<String> {
        sqlx::query_scalar("SELECT step FROM workflow_checkpoint WHERE workflow = $1 ORDER BY step")
            .bind(workflow)
            .fetch_all(&mut self.0)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn a_workflow_that_a_neighbour_starts_is_run_here() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    assert!(neighbour.send("w", ":input", "\"two books\"").await);
    assert_eq!(store.status("w").await.unwrap().unwrap().state, State::Ready);

    let (pass, delivery) = acquired(&store, 10).await.pop().expect("it is taken");
    let claim = pass.claim.clone();
    let input = pass.records[0].value.clone();
    assert_eq!((pass.records.len(), input.as_str()), (1, "\"two books\""));
    let outcome = resume(pass, &store, async |run| {
        run.step("packed", async || Ok::<_, String>(2)).await.unwrap()
    })
    .await;
    assert!(matches!(outcome, Outcome::Completed(2)), "{outcome:?}");
    let settled = Settlement::Completed { result: value("sent") };
    assert!(store.settle(&claim, &delivery, &settled).await.unwrap().is_held());

    assert_eq!(neighbour.steps("w").await, [":input", ":result", "packed"]);
    assert_eq!(neighbour.take().await, None, "nothing is left to run");
    home.drop().await;
}

#[tokio::test]
async fn a_start_here_is_run_by_a_neighbour_to_its_end() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();

    assert_eq!(neighbour.take().await.as_deref(), Some("w"));
    let token = neighbour.claim("w").await.expect("nobody holds it");
    assert!(neighbour.record("w", token, "z", "1").await);
    assert!(neighbour.record("w", token, "a", "2").await);
    assert!(
        !neighbour.record("w", token, "a", "3").await,
        "the first writer has won"
    );
    assert_eq!(store.status("w").await.unwrap().unwrap().state, State::Running);
    neighbour.done("w", token).await;

    assert_eq!(
        steps(&store, "w").await,
        [":input", "z", "a"],
        "in the order of the writes"
    );
    let records = store.checkpointer().load("w").await.unwrap();
    assert_eq!(records[2].value.as_str(), "2");
    assert!(records.is_sorted_by_key(|record| (record.seq, record.recorded_at)));
    assert_eq!(acquired(&store, 10).await.len(), 0);
    home.drop().await;
}

#[tokio::test]
async fn a_claim_of_a_neighbour_is_respected() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let token = neighbour.claim("w").await.expect("nobody holds it");

    assert_eq!(store.checkpointer().claim("w").await.unwrap(), Claimed::Held);
    assert_eq!(
        acquired(&store, 10).await.len(),
        0,
        "the delivery is taken, the claim is not"
    );
    assert!(
        neighbour.record("w", token, "step", "1").await,
        "its token is as it was"
    );

    run(&mut neighbour.0, "UPDATE workflow_claim SET held_until = now()").await;
    let claim = claimed(&store, "w").await;
    assert_eq!(claim.token, token + 1);
    home.drop().await;
}

#[tokio::test]
async fn a_claim_of_ours_is_respected_by_a_neighbour() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let (pass, delivery) = acquired(&store, 1).await.pop().expect("it is due");

    assert_eq!(neighbour.take().await, None, "the delivery is hidden");
    assert_eq!(neighbour.claim("w").await, None, "the claim is held");
    let handed_back = store.settle(&pass.claim, &delivery, &Settlement::HandedBack).await;
    assert!(handed_back.unwrap().is_held());
    assert_eq!(
        neighbour.take().await.as_deref(),
        Some("w"),
        "what is handed back is due at once"
    );
    assert_eq!(
        neighbour.claim("w").await,
        Some(pass.claim.token + 1),
        "and free at once"
    );
    home.drop().await;
}

#[tokio::test]
async fn a_neighbour_that_took_a_workflow_over_fences_the_pass_here() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let (pass, delivery) = acquired(&store, 1).await.pop().expect("it is due");
    let claim = pass.claim;
    run(&mut neighbour.0, "UPDATE workflow_claim SET held_until = now()").await;
    let token = neighbour.claim("w").await.expect("the lease ran out");

    let store_half = store.checkpointer();
    let refused = store_half.record(&claim, "step", &value("ours")).await.unwrap_err();
    assert!(refused.is_fenced(), "{refused}");
    let refused = store_half.begin(&claim, "transacted").await.unwrap_err();
    assert!(refused.is_fenced(), "{refused}");
    let life = Life {
        claim: claim.clone(),
        running: None,
    };
    assert_eq!(store_half.renew(&[life]).await.unwrap(), [false]);
    let completed = Settlement::Completed { result: value("ours") };
    assert!(!store.settle(&claim, &delivery, &completed).await.unwrap().is_held());

    assert!(neighbour.record("w", token, "step", "\"theirs\"").await);
    assert_eq!(neighbour.steps("w").await, [":input", "step"]);
    assert_eq!(neighbour.claim("w").await, None, "its lease is as it was");
    home.drop().await;
}

#[tokio::test]
async fn a_workflow_taken_over_here_fences_a_neighbour() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let stale = neighbour.claim("w").await.expect("nobody holds it");
    run(&mut neighbour.0, "UPDATE workflow_claim SET held_until = now()").await;
    let (pass, _) = acquired(&store, 1).await.pop().expect("it is due");

    assert_eq!(pass.claim.token, stale + 1);
    assert_eq!(pass.attempts, 0, "only claims of ours are known to be left unsettled");
    assert!(!neighbour.record("w", stale, "step", "1").await);
    assert!(
        store
            .checkpointer()
            .record(&pass.claim, "step", &value("ours"))
            .await
            .unwrap()
            .first
    );
    home.drop().await;
}

#[tokio::test]
async fn a_delete_here_fences_a_neighbour() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let stale = neighbour.claim("w").await.expect("nobody holds it");
    assert_eq!(store.delete(KIND, "w").await.unwrap(), 1);
    assert!(!neighbour.record("w", stale, "step", "1").await);
    assert_eq!(neighbour.take().await, None);
    assert_eq!(neighbour.claim("w").await, Some(stale + 2), "a token never comes again");
    home.drop().await;
}

#[tokio::test]
async fn a_value_from_a_neighbour_wakes_the_workflow_that_waits_for_it() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let (pass, delivery) = acquired(&store, 1).await.pop().expect("it is due");
    let waits = Settlement::Suspended {
        wake_at: None,
        waits_for: vec!["approved".to_owned()],
    };
    assert!(store.settle(&pass.claim, &delivery, &waits).await.unwrap().is_held());
    assert_eq!(acquired(&store, 1).await.len(), 0);

    assert!(neighbour.send("w", "approved", "true").await);
    let (pass, _) = acquired(&store, 1).await.pop().expect("it is due again");
    let steps: Vec<_> = pass.records.iter().map(|record| record.step.as_str()).collect();
    assert_eq!(steps, [":input", "approved"]);
    assert!(!store.arrive(KIND, "w", "approved", &value("no")).await.unwrap().first);
    home.drop().await;
}

#[tokio::test]
async fn a_wakeup_of_a_neighbour_in_the_middle_of_a_pass_is_kept() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let (pass, delivery) = acquired(&store, 1).await.pop().expect("it is due");

    assert!(neighbour.send("w", "approved", "true").await);
    let waits = Settlement::Suspended {
        wake_at: None,
        waits_for: vec!["approved".to_owned()],
    };
    assert!(store.settle(&pass.claim, &delivery, &waits).await.unwrap().is_held());
    assert_eq!(acquired(&store, 1).await.len(), 1, "ready now");
    home.drop().await;
}

#[tokio::test]
async fn a_row_that_a_neighbour_holds_is_skipped() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    for workflow in ["a", "b", "c"] {
        store.start(KIND, workflow, &value("input")).await.unwrap();
    }
    let mut transaction = neighbour.0.begin().await.unwrap();
    sqlx::query("SELECT FROM workflow_queue WHERE workflow = 'b' FOR UPDATE")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let mut taken: Vec<_> = acquired(&store, 10)
        .await
        .into_iter()
        .map(|(pass, _)| pass.claim.workflow)
        .collect();
    taken.sort();
    assert_eq!(taken, ["a", "c"]);
    transaction.rollback().await.unwrap();

    let namespaces = [KIND.to_owned()];
    let request = Acquire::new(&namespaces, 10);
    assert_eq!(store.acquire(&request).await.unwrap().passes[0].0.claim.workflow, "b");
    assert!(store.scheduler().next_due(&namespaces).await.unwrap().is_some());
    home.drop().await;
}

/// Waits for one value, then for the other; counts how often it began.
struct Both(Arc<AtomicU32>);

impl Workflow<Postgres> for Both {
    const NAME: &'static str = KIND;
    type Input = String;
    type Output = (u64, u64);
    type Error = String;

    async fn run(&self, run: &Run<Postgres>, _: String) -> Result<(u64, u64), String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let one = run.awaiting("one").await;
        Ok((one, run.awaiting("two").await))
    }
}

/// The neighbour draws the number of its record first and commits last. A body that was kept meanwhile has seen a higher
/// one, and must not pass the lower one over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_a_neighbour_drew_early_reaches_a_body_that_is_kept() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut neighbour = Neighbour::of(&home).await;
    let client = Client::new(store.clone());
    let began = Arc::new(AtomicU32::new(0));
    let shutdown = Shutdown::new();
    let worker = Worker::new(store.clone()).register(Both(began.clone()));
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    client.start::<Both>("w", &String::new()).await.unwrap();
    waits_for(&client, "one").await;

    let mut transaction = neighbour.0.begin().await.unwrap();
    let two = "INSERT INTO workflow_checkpoint (workflow, step, value) VALUES ('w', 'two', '2')";
    sqlx::query(two).execute(&mut *transaction).await.unwrap();
    assert!(client.arrive::<Both>("w", "one", &1).await.unwrap().first);
    waits_for(&client, "two").await;
    sqlx::query("INSERT INTO workflow_queue VALUES ($1, 'w', now())")
        .bind(KIND)
        .execute(&mut *transaction)
        .await
        .unwrap();
    transaction.commit().await.unwrap();

    let ended = tokio::time::timeout(Duration::from_mins(1), client.result::<Both>("w")).await;
    assert_eq!(ended.expect("it is not stuck").unwrap(), Ended::Completed((1, 2)));
    assert!(
        began.load(Ordering::SeqCst) >= 2,
        "it replayed to see what was passed over"
    );
    shutdown.begin();
    worker.await.unwrap().unwrap();
    home.drop().await;
}

async fn waits_for(client: &Client<Postgres>, key: &str) {
    loop {
        let status = client.status("w").await.unwrap().expect("it is known");
        if status.state == State::Waiting && status.waits_for == [key] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
