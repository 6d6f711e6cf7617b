//! What each transition costs, counted on the wire.

mod common;
#[path = "common/wire.rs"]
mod wire;

use std::time::Duration;

use common::{Home, KIND, acquired, claimed, in_time, run, url, value};
use passbook::{
    Checkpointer as _, Client, Durable as _, Ended, Life, Outcome, Run, Scheduler as _, Settlement, Shutdown,
    Timestamp, Worker, resume,
};
use passbook_postgres::Postgres;
use wire::Wire;

/// A store of one connection whose statements have all been sent once.
async fn warm(home: &Home) -> (Postgres, Wire) {
    let (wire, url) = Wire::tap(&url()).await;
    // What others are told comes after the commit, at its own pace.
    let options = home.options().connections(1).hints(false);
    let store = options.connect(&url).await.unwrap();
    store.scheduler().prepare().await.unwrap();
    let half = store.checkpointer();
    store.start(KIND, "warm", &value("input")).await.unwrap();
    store.arrive(KIND, "warm", "key", &value("sent")).await.unwrap();
    store.deliver(KIND, "warm", &value("sent")).await.unwrap();
    half.supply("warm", "supplied", &value("sent")).await.unwrap();
    half.append("warm", &value("sent")).await.unwrap();
    let (pass, delivery) = acquired(&store, 1).await.pop().unwrap();
    half.record(&pass.claim, "step", &value("done")).await.unwrap();
    let life = Life {
        claim: pass.claim.clone(),
        running: None,
    };
    store.renew(&[(life, delivery.clone())]).await.unwrap();
    store.scheduler().extend(std::slice::from_ref(&delivery)).await.unwrap();
    drop(half.begin(&pass.claim, "transacted").await.unwrap());
    store
        .settle(&pass.claim, &delivery, &Settlement::HandedBack)
        .await
        .unwrap();
    store.scheduler().make_ready(KIND, "warm").await.unwrap();
    store
        .scheduler()
        .wake_at(&delivery, Timestamp::from_micros(1))
        .await
        .unwrap();
    store.scheduler().done(&delivery).await.unwrap();
    store.cancel(KIND, "warm").await.unwrap();
    store.reopen(KIND, "warm").await.unwrap();
    claimed(&store, "warm").await;
    store.delete(KIND, "warm").await.unwrap();
    wire.executed();
    (store, wire)
}

/// One statement, which commits by itself, and one round trip, beside the one by which the driver takes a connection back
/// while nobody waits for it.
#[track_caller]
fn one_commit(wire: &Wire, what: &str) {
    let trips = wire.trips();
    assert!(trips <= 2, "{what}: {trips} round trips");
    let executed = wire.executed();
    assert_eq!(executed.len(), 1, "{what}: {executed:#?}");
    let first = executed[0].trim_start().to_uppercase();
    assert!(
        !first.starts_with("BEGIN") && !first.starts_with("COMMIT"),
        "{what}: {first}"
    );
}

#[tokio::test]
async fn every_transition_is_one_statement_and_one_commit() {
    let home = Home::new();
    let (store, wire) = warm(&home).await;
    let half = store.checkpointer();

    store.start(KIND, "w", &value("input")).await.unwrap();
    one_commit(&wire, "start");
    store.start(KIND, "w", &value("input")).await.unwrap();
    one_commit(&wire, "start again");
    store.arrive(KIND, "w", "key", &value("sent")).await.unwrap();
    one_commit(&wire, "arrive");
    store.arrive(KIND, "w", "key", &value("late")).await.unwrap();
    one_commit(&wire, "arrive late");
    store.deliver(KIND, "w", &value("sent")).await.unwrap();
    one_commit(&wire, "deliver");
    half.supply("w", "supplied", &value("sent")).await.unwrap();
    one_commit(&wire, "supply");
    half.append("w", &value("sent")).await.unwrap();
    one_commit(&wire, "append");
    store.scheduler().make_ready(KIND, "w").await.unwrap();
    one_commit(&wire, "make ready");

    let (pass, delivery) = acquired(&store, 1).await.pop().unwrap();
    wire.executed();
    half.record(&pass.claim, "step", &value("done")).await.unwrap();
    one_commit(&wire, "record");
    let life = Life {
        claim: pass.claim.clone(),
        running: None,
    };
    let renewed = store.renew(&[(life, delivery)]).await.unwrap().pop().unwrap();
    one_commit(&wire, "renew");
    let completed = Settlement::Completed { result: value("done") };
    assert!(
        store
            .settle(&pass.claim, &renewed.delivery, &completed)
            .await
            .unwrap()
            .is_held()
    );
    one_commit(&wire, "settle");

    let claim = claimed(&store, "by hand").await;
    one_commit(&wire, "claim");
    assert!(half.release(&claim, &Settlement::HandedBack).await.unwrap());
    one_commit(&wire, "release");

    store.start(KIND, "v", &value("input")).await.unwrap();
    wire.executed();
    assert!(store.cancel(KIND, "v").await.unwrap());
    one_commit(&wire, "cancel");
    assert!(store.reopen(KIND, "v").await.unwrap());
    one_commit(&wire, "reopen");
    home.drop().await;
}

#[tokio::test]
async fn a_settle_costs_the_same_however_the_pass_ended() {
    let home = Home::new();
    let (store, wire) = warm(&home).await;
    let later = Timestamp::from_micros(4_000_000_000_000_000);
    let endings = [
        Settlement::Completed { result: value("done") },
        Settlement::Suspended {
            wake_at: Some(later),
            waits_for: Vec::new(),
        },
        Settlement::Suspended {
            wake_at: None,
            waits_for: vec!["key".to_owned()],
        },
        Settlement::Failed {
            error: "no".to_owned(),
            retry_at: Some(later),
        },
        Settlement::Failed {
            error: "no".to_owned(),
            retry_at: None,
        },
        Settlement::HandedBack,
    ];
    for (number, ending) in endings.iter().enumerate() {
        store.start(KIND, &format!("w{number}"), &value("input")).await.unwrap();
        let (pass, delivery) = acquired(&store, 1).await.pop().unwrap();
        wire.executed();
        assert!(store.settle(&pass.claim, &delivery, ending).await.unwrap().is_held());
        one_commit(&wire, &format!("{ending:?}"));
    }
    home.drop().await;
}

#[tokio::test]
async fn an_acquire_is_one_statement_or_two_however_many_it_takes() {
    let home = Home::new();
    let (store, wire) = warm(&home).await;
    for number in 0..51 {
        store.start(KIND, &format!("w{number}"), &value("input")).await.unwrap();
    }
    wire.executed();
    let mut all = acquired(&store, 1).await;
    assert_eq!(all.len(), 1);
    one_commit(&wire, "take, claim and load what is new");
    all.extend(acquired(&store, 1_000).await);
    assert_eq!(all.len(), 51);
    one_commit(&wire, "take, claim and load what is new");
    for (pass, delivery) in &all {
        assert_eq!(pass.records.len(), 1, "the input of {}", pass.claim.workflow);
        let back = Settlement::HandedBack;
        assert!(store.settle(&pass.claim, delivery, &back).await.unwrap().is_held());
    }
    store.start(KIND, "new", &value("input")).await.unwrap();
    wire.executed();
    let all = acquired(&store, 1_000).await;
    assert_eq!(wire.executed().len(), 2, "take and claim; load what was claimed before");
    assert_eq!(all.len(), 52);
    assert!(all.iter().all(|(pass, _)| pass.records.len() == 1));
    assert_eq!(acquired(&store, 1_000).await.len(), 0);
    one_commit(&wire, "there is nothing to load");
    home.drop().await;
}

#[tokio::test]
async fn a_step_costs_one_statement_and_its_replay_none() {
    let home = Home::new();
    let (store, wire) = warm(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    for statements in [3, 0] {
        let (pass, delivery) = acquired(&store, 1).await.pop().unwrap();
        let claim = pass.claim.clone();
        wire.executed();
        let outcome = resume(pass, &store, async |run| {
            let mut sum = 0;
            for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
                sum += run.step(name, async || Ok::<_, String>(number)).await.unwrap();
            }
            sum
        })
        .await;
        assert!(matches!(outcome, Outcome::Completed(6)), "{outcome:?}");
        assert_eq!(wire.executed().len(), statements);
        assert!(
            store
                .settle(&claim, &delivery, &Settlement::HandedBack)
                .await
                .unwrap()
                .is_held()
        );
    }
    home.drop().await;
}

#[tokio::test]
async fn a_transact_adds_two_statements_beside_begin_and_commit_and_its_replay_none() {
    let home = Home::new();
    let (store, wire) = warm(&home).await;
    run(&mut home.foreign().await, "CREATE TABLE ledger (amount bigint)").await;
    let pay = format!("INSERT INTO {}.ledger VALUES (5)", home.schema);
    store.start(KIND, "w", &value("input")).await.unwrap();
    for first in [true, false] {
        let (pass, delivery) = acquired(&store, 1).await.pop().unwrap();
        let claim = pass.claim.clone();
        wire.executed();
        let outcome = resume(pass, &store, async |run| {
            let effect = async |tx: &mut sqlx::PgConnection| {
                sqlx::raw_sql(sqlx::AssertSqlSafe(pay.clone())).execute(tx).await?;
                Ok::<_, sqlx::Error>(5)
            };
            run.transact("paid", effect).await.unwrap()
        })
        .await;
        assert!(matches!(outcome, Outcome::Completed(5)), "{outcome:?}");
        let executed = wire.executed();
        if first {
            assert_eq!(executed.len(), 5, "{executed:#?}");
            assert_eq!(
                (&*executed[0], &*executed[2], &*executed[4]),
                ("BEGIN", &*pay, "COMMIT")
            );
            assert!(
                executed[1].contains("AS holds"),
                "the fence is read before: {}",
                executed[1]
            );
            assert!(
                executed[3].contains("FOR NO KEY UPDATE"),
                "and compared in the record: {}",
                executed[3]
            );
        } else {
            assert_eq!(executed, [""; 0]);
        }
        assert!(
            store
                .settle(&claim, &delivery, &Settlement::HandedBack)
                .await
                .unwrap()
                .is_held()
        );
    }
    home.drop().await;
}

#[tokio::test]
async fn a_delete_is_two_statements_and_one_commit() {
    let home = Home::new();
    let (store, wire) = warm(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    wire.executed();
    assert_eq!(store.delete(KIND, "w").await.unwrap(), 1);
    let executed = wire.executed();
    assert_eq!(executed.len(), 4, "{executed:#?}");
    assert_eq!((&*executed[0], &*executed[3]), ("BEGIN", "COMMIT"));
    home.drop().await;
}

#[tokio::test]
async fn a_connection_serves_one_statement_after_the_other_and_then_goes_back_to_its_pool() {
    const RECORDS: usize = 20;
    let home = Home::new();
    let (wire, url) = Wire::tap(&url()).await;
    let options = home.options().connections(4).hints(false);
    let store = options.connect(&url).await.unwrap();
    store.scheduler().prepare().await.unwrap();
    let claim = claimed(&store, "w").await;
    wire.executed();
    for at in 0..RECORDS {
        let step = format!("step-{at}");
        store
            .checkpointer()
            .record(&claim, &step, &value("done"))
            .await
            .unwrap();
    }
    let trips = wire.trips();
    // Through the pool each would cost a second one.
    assert!(trips < 2 * RECORDS, "{trips} round trips");
    let pool = store.pool();
    let all_back = async {
        while pool.num_idle() < usize::try_from(pool.size()).unwrap() {
            tokio::task::yield_now().await;
        }
    };
    in_time(all_back).await;
    home.drop().await;
}

/// Beside a worker that waits in its process: the start, which claims, the record and the end. Nobody asks for the result.
#[tokio::test]
async fn a_workflow_of_one_step_is_three_statements_from_its_start_to_its_result() {
    async fn body(run: &Run<Postgres>, (): ()) -> Result<(), String> {
        run.step("step", async || Ok(())).await
    }
    let home = Home::new();
    let (wire, url) = Wire::tap(&url()).await;
    let options = home.options().poll(Duration::from_hours(1)).hints(false);
    let store = options.connect(&url).await.unwrap();
    store.scheduler().prepare().await.unwrap();
    let (client, shutdown) = (Client::new(store.clone()), Shutdown::new());
    let worker = tokio::spawn(Worker::new(store).serve(KIND, body).run(shutdown.clone()));
    let kind = client.kind(KIND);
    let mut executed = Vec::new();
    in_time(async {
        let mut at = 0;
        // What comes while the worker takes the one before is taken too.
        while executed.len() != 3 {
            at += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
            let workflow = format!("w{at}");
            wire.executed();
            kind.start(&workflow, &()).await.unwrap();
            assert_eq!(kind.result::<()>(&workflow).await.unwrap(), Ended::Completed(()));
            executed = wire.executed();
        }
    })
    .await;
    let all = executed.join("\n\n");
    for (statement, part) in executed.iter().zip(["granted AS", "FOR NO KEY UPDATE", "answered AS"]) {
        assert!(statement.contains(part), "{part} in:\n{all}");
    }
    shutdown.begin();
    worker.await.unwrap().unwrap();
    home.drop().await;
}

#[test]
fn a_store_may_outlive_its_runtime() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let home = Home::new();
    let made = runtime();
    let store = made.block_on(async {
        let store = home.prepared().await;
        store.start(KIND, "w", &value("input")).await.unwrap();
        store
    });
    drop(made);
    drop(store);
    runtime().block_on(home.drop());
}
