//! The sentences about stores and about passes, on stores behind a codec; and what becomes of a value that the codec
//! cannot read.

use std::time::Duration;

use conformance::bed::{Bed, KIND, MORNING, encode};
use conformance::stores::{Database, File, Memory, Seal, Sealed};
use passbook::{
    Checkpointer as _, Client, Clock, Coded, Durable as _, Ended, MemoryStore, Run, Shutdown, State, Value, Worker,
};

mod memory {
    use super::*;
    conformance::conformance_suite!(
        Sealed<Memory>: checkpointer, claims, transact, beside, scheduler, durable, settles, fused, known, inspect, enlist, stall, repairs
    );
}

// The groups in which values cross the store.
mod sqlite {
    use super::*;
    conformance::conformance_suite!(Sealed<File>: checkpointer, transact, durable, fused, known, enlist);
}

mod postgres {
    use super::*;
    conformance::conformance_suite!(Sealed<Database>: checkpointer, transact, beside, durable, fused, known, enlist);
}

fn coded() -> Coded<MemoryStore, Seal> {
    let store = MemoryStore::with(Duration::from_secs(30), Clock::manual(MORNING)).expect("a store");
    Coded::new(store, Seal::default())
}

#[expect(
    clippy::unused_async,
    reason = "the beds of other stores are made by asking a server"
)]
async fn sealed() -> (Bed<Coded<MemoryStore, Seal>>, ()) {
    let store = coded();
    let clock = passbook::Scheduler::clock(store.scheduler()).clone();
    (Bed::new(store, clock), ())
}

conformance::pass_sentences!(super::sealed);

async fn greeting(run: &Run<Coded<MemoryStore, Seal>>, name: String) -> Result<String, String> {
    run.step("greeted", async || Ok(format!("good day, {name}"))).await
}

#[tokio::test]
async fn a_codec_keeps_every_value_of_a_workflow_from_the_store() {
    let store = coded();
    let client = Client::new(store.clone());
    client
        .kind("greeting")
        .start("ada", "ada's secret")
        .await
        .expect("a start");
    client
        .kind("greeting")
        .arrive("ada", "note", "a secret too")
        .await
        .expect("an arrive");
    let shutdown = Shutdown::new();
    let worker = tokio::spawn(
        Worker::new(store.clone())
            .serve("greeting", greeting)
            .run(shutdown.clone()),
    );
    let ended = client.kind("greeting").result::<String>("ada").await.expect("a result");
    assert_eq!(ended, Ended::Completed("good day, ada's secret".to_owned()));
    shutdown.begin();
    worker.await.expect("no panic").expect("it worked");

    let kept = store.store().checkpointer().load("ada").await.expect("a load");
    assert_eq!(kept.len(), 4, "input, note, step and result: {kept:?}");
    for record in kept {
        assert!(record.value.as_str().starts_with("\"sealed "), "{record:?}");
    }
}

#[tokio::test]
async fn a_value_that_the_codec_cannot_read_parks_its_workflow_and_no_other() {
    let store = coded();
    let client = Client::new(store.clone());
    // Written under a key that is gone.
    let foreign = Value::encode("sealed 0!").expect("a value");
    store
        .store()
        .start("greeting", "lost", &foreign)
        .await
        .expect("a start");
    client.kind("greeting").start("ada", "ada").await.expect("a start");
    let shutdown = Shutdown::new();
    let worker = tokio::spawn(
        Worker::new(store.clone())
            .serve("greeting", greeting)
            .run(shutdown.clone()),
    );
    let greetings = client.kind("greeting");
    let (ada, lost) = tokio::join!(greetings.result::<String>("ada"), greetings.result::<String>("lost"));
    assert_eq!(ada.expect("a result"), Ended::Completed("good day, ada".to_owned()));
    let why = "a value of workflow `lost` was sealed with another key".to_owned();
    assert_eq!(lost.expect("an end"), Ended::Failed(why));
    let status = client.status("lost").await.expect("a status").expect("it is known");
    assert_eq!((status.state, status.records), (State::Failed, 1), "its record stays");
    shutdown.begin();
    worker.await.expect("no panic").expect("it worked");
}

#[tokio::test]
async fn a_result_that_the_codec_cannot_read_is_an_error_to_its_waiter_alone() {
    let store = coded();
    let bed = Bed::new(store.clone(), Clock::manual(MORNING));
    for workflow in ["good", "bad"] {
        bed.start(workflow).await;
        let (pass, delivery) = bed.take().await.expect("it is due");
        let result = match workflow {
            "bad" => Value::encode("sealed 0!").expect("a value"),
            _ => passbook::Codec::encode(&Seal::default(), workflow, &encode("well")).expect("a value"),
        };
        let outcome = passbook::Settlement::Completed { result };
        assert!(
            store
                .store()
                .settle(&pass.claim, &delivery, &outcome)
                .await
                .expect("a settle")
                .is_held()
        );
    }
    let client = Client::new(store);
    let (good, bad) = (
        client.kind(KIND).result::<String>("good").await,
        client.kind(KIND).result::<String>("bad").await,
    );
    assert_eq!(good.expect("a result"), Ended::Completed("well".to_owned()));
    let error = bad.expect_err("nobody can read it");
    assert!(error.is_undecodable() && error.to_string().contains("`bad`"), "{error}");
}
