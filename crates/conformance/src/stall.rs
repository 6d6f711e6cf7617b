//! What goes on beside an open transaction of the caller's. A store with one write lock for all keeps the others waiting,
//! and so has none of these to show.

use passbook::{Checkpointer, Durable, Enlist};

use crate::fixture::{EnlistFixture, KIND, acquired, completed, encode, idle, pass, settle, start, waiting};

/// A transaction that holds one workflow keeps only that workflow waiting: others are started, sent to, taken and
/// settled, in batches too.
pub async fn an_open_transaction_stalls_nobody_else(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    for workflow in ["held", "v", "w"] {
        start(store, workflow).await;
    }
    let mut open = fixture.begin().await;
    store
        .arrive_in(&mut open, KIND, "held", "x", &encode(&1))
        .await
        .expect("an arrive");

    start(store, "u").await;
    store.arrive(KIND, "v", "x", &encode(&1)).await.expect("an arrive");
    store.deliver(KIND, "w", &encode(&1)).await.expect("a deliver");
    let taken = acquired(store, 10).await;
    let mut names: Vec<&str> = taken.iter().map(|(pass, _)| pass.claim.workflow.as_str()).collect();
    names.sort_unstable();
    names.retain(|name| *name != "held");
    assert_eq!(names, ["u", "v", "w"]);
    let others = taken.iter().filter(|(pass, _)| pass.claim.workflow != "held");
    let settles = others.map(|taken| async move {
        let outcome = completed_or_waiting(&taken.1.workflow);
        settle(store, taken, &outcome).await;
    });
    futures_util::future::join_all(settles).await;
    fixture.commit(open).await;
    for (pass, delivery) in taken.iter().filter(|(pass, _)| pass.claim.workflow == "held") {
        settle(store, &(pass.clone(), delivery.clone()), &waiting("y")).await;
    }
    let (pass, _) = pass(store).await;
    assert_eq!((pass.claim.workflow.as_str(), pass.records.len()), ("held", 2));
}

fn completed_or_waiting(workflow: &str) -> passbook::Settlement {
    if workflow == "u" { completed() } else { waiting("y") }
}

/// A transaction that holds a workflow mid-pass delays that pass's end at most until it commits, and its value is not
/// lost.
pub async fn a_pass_that_ends_beside_an_open_arrival_is_woken(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    start(store, "w").await;
    let taken = pass(store).await;
    let mut open = fixture.begin().await;
    store
        .arrive_in(&mut open, KIND, "w", "x", &encode(&1))
        .await
        .expect("an arrive");
    let ending = {
        let (store, taken) = (store.clone(), taken.clone());
        tokio::spawn(async move { settle(&store, &taken, &waiting("x")).await })
    };
    // The records of the pass are not held up by it.
    let recorded = store.checkpointer().record(&taken.0.claim, "a", &encode(&1)).await;
    assert!(recorded.expect("a record").first);
    idle(store).await;
    fixture.commit(open).await;
    ending.await.unwrap();
    assert_eq!(acquired(store, 10).await.len(), 1);
}
