//! Who waits for whom on the server, moment by moment.

mod common;

use common::{Home, KIND, acquired, blocked, claimed, count, in_time, run, steps, url, value};
use passbook::{
    Checkpointer as _, Claim, Delivery, Durable as _, Life, Outcome, Pass, Scheduler as _, Settlement, resume,
};
use passbook_postgres::Postgres;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

/// A store whose sessions bear the name of the schema.
async fn named(home: &Home) -> Postgres {
    let url = format!("{}?application_name={}", url(), home.schema);
    let store = home.options().connect(&url).await.unwrap();
    store.scheduler().prepare().await.unwrap();
    store
}

/// That the row of the claim has not been written since.
async fn claim_row(connection: &mut PgConnection) -> i64 {
    count(
        connection,
        "SELECT xmin::text::bigint FROM workflow_claim WHERE workflow = 'w'",
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_waits_for_a_claim_in_flight_and_is_then_refused() {
    let home = Home::new();
    let store = named(&home).await;
    let stale = claimed(&store, "w").await;
    let (mut neighbour, mut observer) = (home.foreign().await, home.foreign().await);
    // Another worker's claim, with an update that `FOR KEY SHARE` would not wait for.
    let mut claiming = neighbour.begin().await.unwrap();
    run(
        &mut claiming,
        "UPDATE workflow_claim SET token = token + 1, held_until = now() + interval '30 s' WHERE workflow = 'w'",
    )
    .await;
    let recording = {
        let (store, stale) = (store.clone(), stale.clone());
        tokio::spawn(async move { store.checkpointer().record(&stale, "a", &value("stale")).await })
    };
    blocked(&mut observer, &home.schema, 1).await;
    claiming.commit().await.unwrap();
    let refused = in_time(recording).await.unwrap().unwrap_err();
    assert!(refused.is_fenced(), "{refused}");
    assert_eq!(
        count(&mut observer, "SELECT count(*) FROM workflow_checkpoint").await,
        0
    );
    home.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_records_sent_together_those_of_a_claim_in_flight_are_refused() {
    let home = Home::new();
    let store = named(&home).await;
    let (mut first, mut second) = (home.foreign().await, home.foreign().await);
    let mut observer = home.foreign().await;
    let record = |claim: Claim| {
        let store = store.clone();
        tokio::spawn(async move { store.checkpointer().record(&claim, "a", &value("x")).await })
    };
    let (stale, other) = (claimed(&store, "stale").await, claimed(&store, "other").await);
    let mut busy = first.begin().await.unwrap();
    let mut flying = Vec::new();
    for workflow in ["one", "two"] {
        let claim = claimed(&store, workflow).await;
        let lock = format!("SELECT FROM workflow_claim WHERE workflow = '{workflow}' FOR UPDATE");
        run(&mut busy, &lock).await;
        flying.push(record(claim));
        // Each goes alone and is held up; what comes while these are on their way goes together.
        blocked(&mut observer, &home.schema, flying.len().try_into().unwrap()).await;
    }
    let mut claiming = second.begin().await.unwrap();
    run(
        &mut claiming,
        "UPDATE workflow_claim SET token = token + 1, held_until = now() + interval '30 s' WHERE workflow = 'stale'",
    )
    .await;
    let (stale, other) = (record(stale), record(other));
    tokio::task::yield_now().await;
    busy.rollback().await.unwrap();
    for flown in flying {
        assert!(in_time(flown).await.unwrap().unwrap().first);
    }
    blocked(&mut observer, &home.schema, 1).await;
    claiming.commit().await.unwrap();
    assert!(in_time(stale).await.unwrap().unwrap_err().is_fenced());
    assert!(in_time(other).await.unwrap().unwrap().first);
    assert_eq!(steps(&store, "stale").await, [] as [&str; 0]);
    home.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_last_holder_was_just_recording_is_loaded_with_the_claim() {
    let home = Home::new();
    let store = named(&home).await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let (mut neighbour, mut observer) = (home.foreign().await, home.foreign().await);
    run(
        &mut neighbour,
        "INSERT INTO workflow_claim VALUES ('w', 7, now() - interval '1 s')",
    )
    .await;
    // The last holder is late, and nobody superseded it yet: it holds the claim row and its record is not committed.
    let mut recording = neighbour.begin().await.unwrap();
    run(
        &mut recording,
        "SELECT FROM workflow_claim WHERE workflow = 'w' FOR NO KEY UPDATE;
         INSERT INTO workflow_checkpoint VALUES ('w', 'charged', '1')",
    )
    .await;
    let taking = {
        let store = store.clone();
        tokio::spawn(async move { acquired(&store, 1).await })
    };
    blocked(&mut observer, &home.schema, 1).await;
    recording.commit().await.unwrap();
    let (pass, _) = in_time(taking).await.unwrap().pop().expect("it is granted");
    let loaded: Vec<_> = pass.records.iter().map(|record| record.step.as_str()).collect();
    assert_eq!((loaded, pass.claim.token), (vec![":input", "charged"], 8));
    home.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_just_before_a_workflow_was_locked_is_not_taken_for_read() {
    let home = Home::new();
    let store = named(&home).await;
    for workflow in ["quiet", "sent-to"] {
        store.start(KIND, workflow, &value("input")).await.unwrap();
    }
    // The statement as it is sent, except that it waits between its snapshot and its first look at the queue.
    let acquire = include_str!("../sql/acquire.sql").replace("{schema}", "");
    let begin = (
        "WITH wanted AS",
        "WITH paused AS MATERIALIZED (SELECT pg_advisory_lock_shared(7)), wanted AS",
    );
    let first = ("    FROM unnest(", "    FROM paused, unnest(");
    assert!(acquire.contains(begin.0) && acquire.contains(first.0), "{acquire}");
    let acquire = acquire.replacen(begin.0, begin.1, 1).replacen(first.0, first.1, 1);
    let (mut session, mut holder, mut observer) = (home.foreign().await, home.foreign().await, home.foreign().await);
    run(&mut holder, "SELECT pg_advisory_lock(7)").await;
    run(&mut session, &format!("SET application_name = '{}'", home.schema)).await;
    let taking = tokio::spawn(async move {
        let rows = sqlx::query(AssertSqlSafe(acquire))
            .bind(&[KIND][..])
            .bind(10_i64)
            .bind(None::<time::OffsetDateTime>)
            .bind(sqlx::postgres::types::PgInterval {
                months: 0,
                days: 0,
                microseconds: 30_000_000,
            })
            .bind(&[None::<time::OffsetDateTime>][..])
            .fetch_all(&mut session)
            .await
            .unwrap();
        let read = |row: &PgRow| (row.get("workflow"), row.get("loaded"), row.get("step"));
        let mut taken: Vec<(String, bool, Option<String>)> = rows.iter().map(read).collect();
        taken.sort();
        taken
    });
    blocked(&mut observer, &home.schema, 1).await;
    store.arrive(KIND, "sent-to", "key", &value("sent")).await.unwrap();
    run(&mut holder, "SELECT pg_advisory_unlock(7)").await;
    let taken = in_time(taking).await.unwrap();
    let quiet = ("quiet".to_owned(), true, Some(":input".to_owned()));
    assert_eq!(taken, [quiet, ("sent-to".to_owned(), false, None)]);
    home.drop().await;
}

#[tokio::test]
async fn a_record_leaves_the_claim_row_as_it_is() {
    let home = Home::new();
    let store = home.prepared().await;
    let claim = claimed(&store, "w").await;
    let mut observer = home.foreign().await;
    let before = claim_row(&mut observer).await;
    for step in ["a", "b", "a"] {
        store.checkpointer().record(&claim, step, &value("x")).await.unwrap();
    }
    store.checkpointer().supply("w", "c", &value("x")).await.unwrap();
    assert_eq!(
        claim_row(&mut observer).await,
        before,
        "the worker renews, and no record does"
    );
    home.drop().await;
}

#[tokio::test]
async fn a_statement_that_collides_with_another_is_sent_again() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut observer = home.foreign().await;
    // Refuses two of three writes as the server does when it ends one of two transactions. A sequence is not rolled back.
    run(
        &mut observer,
        "CREATE SEQUENCE tried;
         CREATE FUNCTION collides() RETURNS trigger LANGUAGE plpgsql AS $$
         DECLARE tries bigint := nextval(TG_ARGV[0] || '.tried');
         BEGIN
             IF tries % 3 = 1 THEN RAISE EXCEPTION 'a deadlock' USING ERRCODE = 'deadlock_detected'; END IF;
             IF tries % 3 = 2 THEN RAISE EXCEPTION 'a collision' USING ERRCODE = 'serialization_failure'; END IF;
             RETURN NULL;
         END $$;",
    )
    .await;
    for table in ["workflow_checkpoint", "workflow_claim", "workflow_queue"] {
        let trigger = format!(
            "CREATE TRIGGER collides AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION collides('{}')",
            home.schema
        );
        run(&mut observer, &trigger).await;
        store.start(KIND, table, &value("input")).await.unwrap();
        store.arrive(KIND, table, "arrived", &value("x")).await.unwrap();
        store.deliver(KIND, table, &value("x")).await.unwrap();
        store.checkpointer().append(table, &value("x")).await.unwrap();
        let (pass, delivery) = acquired(&store, 1).await.pop().expect("it is due");
        let recorded = store.checkpointer().record(&pass.claim, "a", &value("x")).await;
        assert!(recorded.unwrap().first);
        let life = Life {
            claim: pass.claim.clone(),
            running: None,
        };
        let renewed = store.renew(&[(life, delivery)]).await;
        let renewed = renewed.unwrap().remove(0);
        assert!(renewed.alive);
        let end = Settlement::Completed { result: value("done") };
        assert!(
            store
                .settle(&pass.claim, &renewed.delivery, &end)
                .await
                .unwrap()
                .is_held()
        );
        assert_eq!(steps(&store, table).await.len(), 6, "each once");
        run(&mut observer, &format!("DROP TRIGGER collides ON {table}")).await;
    }
    assert!(count(&mut observer, "SELECT last_value FROM tried").await > 20);
    home.drop().await;
}

/// A database of its own counts its own deadlocks, and finds them quickly.
async fn database(name: &str) -> (PgConnection, String) {
    let mut admin = PgConnection::connect(&url()).await.unwrap();
    run(&mut admin, &format!("CREATE DATABASE {name}")).await;
    run(
        &mut admin,
        &format!("ALTER DATABASE {name} SET deadlock_timeout = '20ms'"),
    )
    .await;
    let theirs = url();
    let url = format!("{}/{name}", theirs.rsplit_once('/').unwrap().0);
    (admin, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_come_in_opposite_orders_do_not_deadlock() {
    const WORKFLOWS: usize = 24;
    let name = format!("opposite_{}", std::process::id());
    let (mut admin, url) = database(&name).await;
    let mut stores = Vec::new();
    for _ in 0..2 {
        stores.push(Postgres::options().connections(6).connect(&url).await.unwrap());
    }
    stores[0].scheduler().prepare().await.unwrap();
    let names: Vec<String> = (0..WORKFLOWS).map(|n| format!("w{n:02}")).collect();
    for round in 0..12 {
        // Starts and arrivals of one round meet in batches, from both ends.
        let sends = stores.iter().enumerate().map(|(side, store)| {
            let mut order = names.clone();
            if side == 1 {
                order.reverse();
            }
            let store = store.clone();
            tokio::spawn(async move {
                let sends = order.iter().map(async |workflow| {
                    store.start(KIND, workflow, &value("input")).await.unwrap();
                    let key = format!("{side} {round}");
                    store.arrive(KIND, workflow, &key, &value("x")).await.unwrap();
                });
                join(sends).await;
            })
        });
        for sent in sends.collect::<Vec<_>>() {
            in_time(sent).await.unwrap();
        }
        // Both give signs of life for all, and end all, in opposite orders; of each pair, one says true.
        let taken = taken(&stores[round % 2], WORKFLOWS).await;
        let ends = stores.iter().enumerate().map(|(side, store)| {
            let (store, mut taken) = (store.clone(), taken.clone());
            if side == 1 {
                taken.reverse();
            }
            tokio::spawn(async move {
                let lives: Vec<_> = taken
                    .iter()
                    .map(|(pass, delivery)| {
                        let life = Life {
                            claim: pass.claim.clone(),
                            running: None,
                        };
                        (life, delivery.clone())
                    })
                    .collect();
                for _ in 0..10 {
                    store.renew(&lives).await.unwrap();
                }
                let writes = taken.iter().map(async |(pass, _)| {
                    let step = format!("step {round}");
                    store
                        .checkpointer()
                        .record(&pass.claim, &step, &value("x"))
                        .await
                        .unwrap();
                });
                join(writes).await;
                let ends = taken.iter().map(async |(pass, delivery)| {
                    let wait = Settlement::Suspended {
                        wake_at: None,
                        waits_for: vec!["x".to_owned()],
                    };
                    store.settle(&pass.claim, delivery, &wait).await.unwrap();
                });
                join(ends).await;
            })
        });
        for ended in ends.collect::<Vec<_>>() {
            in_time(ended).await.unwrap();
        }
    }
    for store in stores {
        store.pool().close().await;
    }
    // A session tells what it counted when it ends.
    let gone = async {
        loop {
            let sessions: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE datname = $1")
                .bind(&name)
                .fetch_one(&mut admin)
                .await
                .unwrap();
            if sessions == 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    in_time(gone).await;
    let deadlocks: i64 = sqlx::query_scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = $1")
        .bind(&name)
        .fetch_one(&mut admin)
        .await
        .unwrap();
    assert_eq!(deadlocks, 0);
    run(&mut admin, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
}

async fn join(all: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        all.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        if all.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

async fn taken(store: &Postgres, limit: usize) -> Vec<(Pass, Delivery)> {
    let mut taken = Vec::new();
    while taken.len() < limit {
        taken.extend(acquired(store, limit).await);
    }
    taken
}

#[tokio::test]
async fn an_effect_may_use_savepoints() {
    let home = Home::new();
    let store = home.prepared().await;
    run(&mut home.foreign().await, "CREATE TABLE line (what text NOT NULL)").await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let (pass, _) = acquired(&store, 1).await.pop().unwrap();
    let insert = format!("INSERT INTO {}.line (what) VALUES ($1)", home.schema);
    let outcome = resume(pass, &store, async |run| {
        run.transact("posted", async |tx| {
            for (what, keeps) in [("kept", true), ("given up", false), ("kept too", true)] {
                let mut savepoint = tx.begin().await?;
                sqlx::query(AssertSqlSafe(insert.clone()))
                    .bind(what)
                    .execute(&mut *savepoint)
                    .await?;
                if keeps {
                    savepoint.commit().await?;
                } else {
                    // What fails inside a savepoint leaves the transaction as it was.
                    let wrong = sqlx::raw_sql("SELECT 1 / 0").execute(&mut *savepoint).await;
                    assert!(wrong.is_err());
                    savepoint.rollback().await?;
                }
            }
            Ok::<_, sqlx::Error>(())
        })
        .await
    })
    .await;
    assert!(matches!(outcome, Outcome::Completed(Ok(()))), "{outcome:?}");
    let mut observer = home.foreign().await;
    let lines: Vec<String> = sqlx::query_scalar("SELECT what FROM line ORDER BY what")
        .fetch_all(&mut observer)
        .await
        .unwrap();
    assert_eq!(lines, ["kept", "kept too"]);
    assert_eq!(steps(&store, "w").await, [":input", "posted"]);
    home.drop().await;
}
