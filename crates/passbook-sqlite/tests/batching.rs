//! Writes that wait for the file together.

mod common;

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use passbook::{Checkpointer, Delivery, Durable, Pass, Result, Settled, Settlement};
use passbook_sqlite::Sqlite;
use sqlx::Executor;

use common::{Home, acquired, claimed, value};

type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asks for all of it while the file is held, lets go of the file, and returns what each was answered.
async fn together<T>(store: &Sqlite, mut asked: Vec<Asked<'_, T>>) -> Vec<T> {
    let held = store.file().begin().await.unwrap();
    let mut answers: Vec<Option<T>> = asked.iter().map(|_| None).collect();
    let mut held = Some(held);
    std::future::poll_fn(|context| {
        for (answer, asked) in answers.iter_mut().zip(&mut asked) {
            if answer.is_none()
                && let Poll::Ready(told) = asked.as_mut().poll(context)
            {
                *answer = Some(told);
            }
        }
        held.take();
        if answers.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}

/// How many commits are in the write-ahead log, by the frames that end one.
fn commits(home: &Home) -> usize {
    const HEADER: usize = 32;
    const FRAME: usize = 24;

    let log = std::fs::read(home.directory().join("work.db-wal")).unwrap();
    let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let page = usize::try_from(word(8)).unwrap();
    let salt = &log[16..24];
    let frames = (HEADER..)
        .step_by(FRAME + page)
        .take_while(|at| at + FRAME + page <= log.len());
    // Frames of an earlier run through the log bear another salt.
    let frames = frames.filter(|at| log[at + 8..at + 16] == *salt);
    frames.filter(|at| word(at + 4) != 0).count()
}

/// Starts, arrivals, deliveries, records and settlements, so many of each.
async fn of_every_kind(store: &Sqlite, each: usize, passes: &[(Pass, Delivery)]) -> Vec<Result<()>> {
    let mut asked: Vec<Asked<'_, Result<()>>> = Vec::new();
    for (n, (pass, delivery)) in passes.iter().enumerate() {
        let (claim, nothing) = (&pass.claim, value("x"));
        let (new, settles) = (format!("new-{n}"), n < each);
        asked.push(Box::pin(async move {
            let start = store.start("orders", &new, &nothing).await?;
            assert!(start.first);
            Ok(())
        }));
        asked.push(Box::pin(async move {
            let arrived = store.arrive("orders", &claim.workflow, "key", &value("x")).await?;
            assert!(arrived.first);
            Ok(())
        }));
        asked.push(Box::pin(async move {
            store.deliver("orders", &claim.workflow, &value("x")).await?;
            Ok(())
        }));
        asked.push(Box::pin(async move {
            let recorded = store.checkpointer().record(claim, "step", &value("x")).await?;
            assert!(recorded.first);
            Ok(())
        }));
        if settles {
            asked.push(Box::pin(async move {
                let outcome = Settlement::Completed { result: value("x") };
                assert!(store.settle(claim, delivery, &outcome).await?.is_held());
                Ok(())
            }));
        }
    }
    together(store, asked).await
}

async fn taken(store: &Sqlite, how_many: usize) -> Vec<(Pass, Delivery)> {
    for n in 0..how_many {
        store.start("orders", &format!("w-{n:03}"), &value("x")).await.unwrap();
    }
    let taken = acquired(store, "orders", how_many).await;
    assert_eq!(taken.len(), how_many);
    taken
}

#[tokio::test]
async fn what_waits_together_is_one_commit() {
    let home = Home::new();
    let store = home.prepared().await;
    let passes = taken(&store, 20).await;
    let before = commits(&home);
    let answers = of_every_kind(&store, 20, &passes).await;
    assert_eq!(answers.len(), 100);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(commits(&home), before + 1);
}

#[tokio::test]
async fn without_batching_each_write_is_a_commit() {
    let home = Home::new();
    home.prepared().await;
    let options = Sqlite::options().clock(home.clock.clone()).batching(false);
    let store = options.open(home.path()).await.unwrap();
    let passes = taken(&store, 5).await;
    let before = commits(&home);
    // A settlement may be written before the record of its pass, which would be fenced; so none of them.
    let answers = of_every_kind(&store, 0, &passes).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(commits(&home), before + 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_concurrent_records_are_far_fewer_commits() {
    let home = Home::new();
    let store = home.prepared().await;
    let claim = claimed(&store, "w").await;
    let before = commits(&home);
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let (store, claim) = (store.clone(), claim.clone());
            tokio::spawn(async move { store.checkpointer().record(&claim, &format!("{n}"), &value("x")).await })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap().unwrap().first);
    }
    let made = commits(&home) - before;
    assert!(made <= 50, "{made} commits");
}

#[tokio::test]
async fn a_write_of_a_batch_that_is_refused_fails_alone() {
    let home = Home::new();
    let store = home.prepared().await;
    let claim = claimed(&store, "w").await;
    store.start("invoices", "i", &value("x")).await.unwrap();
    let before = commits(&home);

    let mut stale = claim.clone();
    stale.token -= 1;
    let (checkpointer, x) = (store.checkpointer(), value("x"));
    let asked: Vec<Asked<'_, Result<bool>>> = vec![
        Box::pin(async {
            checkpointer
                .record(&claim, "a", &x)
                .await
                .map(|recorded| recorded.first)
        }),
        Box::pin(async {
            checkpointer
                .record(&stale, "b", &x)
                .await
                .map(|recorded| recorded.first)
        }),
        Box::pin(async {
            checkpointer
                .record(&claim, "a", &x)
                .await
                .map(|recorded| recorded.first)
        }),
        Box::pin(async { store.start("orders", "i", &x).await.map(|recorded| recorded.first) }),
        Box::pin(async {
            store
                .arrive("orders", "i", "key", &x)
                .await
                .map(|recorded| recorded.first)
        }),
        Box::pin(async { store.deliver("orders", "i", &x).await.map(|_| true) }),
        Box::pin(async { store.start("invoices", "i", &x).await.map(|recorded| recorded.first) }),
        Box::pin(async { store.deliver("invoices", "i", &x).await.map(|_| true) }),
    ];
    let answers = together(&store, asked).await;
    assert!(matches!(answers[0], Ok(true)), "{answers:?}");
    assert!(answers[1].as_ref().unwrap_err().is_fenced(), "{answers:?}");
    assert!(matches!(answers[2], Ok(false)), "{answers:?}");
    for wrong in &answers[3..6] {
        assert!(wrong.as_ref().unwrap_err().is_wrong_kind(), "{answers:?}");
    }
    assert!(matches!(answers[6], Ok(false)), "{answers:?}");
    assert!(matches!(answers[7], Ok(true)), "{answers:?}");
    assert_eq!(commits(&home), before + 1);
    assert_eq!(checkpointer.load("w").await.unwrap().len(), 1);
    assert_eq!(checkpointer.load("i").await.unwrap().len(), 2);
    assert!(acquired(&store, "orders", 1).await.is_empty());
}

#[tokio::test]
async fn a_write_that_the_database_refuses_fails_alone() {
    let home = Home::new();
    let store = home.prepared().await;
    let claim = claimed(&store, "w").await;
    let refusing = "CREATE TRIGGER refusing BEFORE INSERT ON workflow_checkpoint WHEN NEW.step = 'bad' BEGIN SELECT raise(ABORT, 'not this one'); END";
    home.foreign().await.execute(refusing).await.unwrap();
    let before = commits(&home);

    let steps = ["a", "b", "bad", "c"];
    let records = steps.map(|step| -> Asked<'_, Result<bool>> {
        let (store, claim) = (&store, &claim);
        Box::pin(async move {
            let recorded = store.checkpointer().record(claim, step, &value(step)).await?;
            Ok(recorded.first)
        })
    });
    let mut asked = Vec::from(records);
    asked.push(Box::pin(async {
        store
            .start("orders", "new", &value("x"))
            .await
            .map(|recorded| recorded.first)
    }));
    let answers = together(&store, asked).await;
    for (place, answer) in answers.iter().enumerate() {
        if place == 2 {
            let error = answer.as_ref().unwrap_err().to_string();
            assert!(
                error.contains("step `bad` of workflow `w`") && error.contains("not this one"),
                "{error}"
            );
        } else {
            assert!(matches!(answer, Ok(true)), "{place}: {answers:?}");
        }
    }
    // Each by itself, in its order.
    assert_eq!(commits(&home), before + 4);
    let records = store.checkpointer().load("w").await.unwrap();
    let kept: Vec<&str> = records.iter().map(|record| record.step.as_str()).collect();
    assert_eq!(kept, ["a", "b", "c"]);
}

#[tokio::test]
async fn what_waits_together_keeps_its_order() {
    let home = Home::new();
    let store = home.prepared().await;
    let claims = [claimed(&store, "v").await, claimed(&store, "w").await];
    let mut asked: Vec<Asked<'_, Result<()>>> = Vec::new();
    for n in 0..30_u32 {
        let (store, claim) = (&store, &claims[n as usize % 2]);
        asked.push(Box::pin(async move {
            let key = store.deliver("orders", "inbox", &value(&n.to_string())).await?;
            assert!(key.starts_with("inbox:"));
            Ok(())
        }));
        asked.push(Box::pin(async move {
            // Descending, so that no sort by name gives the order.
            let step = format!("{:02}", 99 - n);
            store
                .checkpointer()
                .record(claim, &step, &value(&n.to_string()))
                .await?;
            Ok(())
        }));
    }
    for answer in together(&store, asked).await {
        answer.unwrap();
    }
    for (workflow, from, by) in [("v", 0, 2), ("w", 1, 2), ("inbox", 0, 1)] {
        let records = store.checkpointer().load(workflow).await.unwrap();
        let values: Vec<String> = records.iter().map(|record| record.value.decode().unwrap()).collect();
        let asked: Vec<String> = (from..30).step_by(by).map(|n: u32| n.to_string()).collect();
        assert_eq!(values, asked, "{workflow}");
        assert!(records.is_sorted_by(|one, next| one.seq < next.seq));
        if workflow == "inbox" {
            assert!(records.is_sorted_by(|one, next| one.step < next.step));
        }
    }
}

#[tokio::test]
async fn of_two_ends_of_one_pass_the_first_counts() {
    let home = Home::new();
    let store = home.prepared().await;
    let passes = taken(&store, 1).await;
    let (pass, delivery) = &passes[0];
    let ends = [
        Settlement::Completed { result: value("x") },
        Settlement::Failed {
            error: "a NUL \0 in it".to_owned(),
            retry_at: None,
        },
    ];
    let asked = ends
        .iter()
        .map(|end| -> Asked<'_, Result<Settled>> { Box::pin(store.settle(&pass.claim, delivery, end)) });
    let answers = together(&store, asked.collect()).await;
    assert!(
        matches!(answers[..], [Ok(Settled::Quiet { .. }), Ok(Settled::Lost)]),
        "{answers:?}"
    );
    let records = store.checkpointer().load(&pass.claim.workflow).await.unwrap();
    assert_eq!(records.last().unwrap().step, passbook::RESULT);
}

#[tokio::test]
async fn all_who_wait_are_told_that_the_file_is_not_to_be_had() {
    let home = Home::new();
    home.prepared().await;
    let options = Sqlite::options().patience(Duration::from_millis(50));
    let store = options.open(home.path()).await.unwrap();
    let held = store.file().begin().await.unwrap();
    let starts = (0..3).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.start("orders", &format!("w{n}"), &value("x")).await })
    });
    for start in starts.collect::<Vec<_>>() {
        let error = start.await.unwrap().unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
    drop(held);
    // Not left in the queue to be written later.
    store.checkpointer().append("next", &value("x")).await.unwrap();
    assert!(acquired(&store, "orders", 3).await.is_empty());
}

#[tokio::test]
async fn names_and_values_of_any_characters_come_back() {
    let home = Home::new();
    let store = home.prepared().await;
    let odd = "\u{1}\u{1f}\"\\/\t\r\n'`é\u{7f}\u{2028}\u{fffd}\u{ffff}\u{10ffff}𝄞";
    let claim = claimed(&store, odd).await;
    store.checkpointer().record(&claim, odd, &value(odd)).await.unwrap();
    let records = store.checkpointer().load(odd).await.unwrap();
    assert_eq!((records[0].step.as_str(), &records[0].value), (odd, &value(odd)));
    store.start(odd, "w", &value(odd)).await.unwrap();
    let (pass, delivery) = acquired(&store, odd, 1).await.pop().unwrap();
    let end = Settlement::Completed { result: value(odd) };
    assert!(store.settle(&pass.claim, &delivery, &end).await.unwrap().is_held());
    assert_eq!(store.checkpointer().load("w").await.unwrap()[1].value, value(odd));
}
