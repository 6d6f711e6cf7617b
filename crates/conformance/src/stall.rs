//! What goes on beside an open transaction of the caller's. A store with one write lock for all keeps the others waiting,
//! and so has none of these to show.

use std::time::Duration;

use passbook::{Begun, Checkpointer, Durable, Enlist};

use crate::fixture::{
    EnlistFixture, KIND, OTHER, acquired, claimed, completed, encode, idle, keys, pass, settle, start, waiting,
};

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

/// What is written together waits for no workflow that a transaction holds: of passes that end at once, of starts, arrivals
/// and deliveries, all others are through while it is open, and the one follows when it is over.
pub async fn a_batch_waits_for_no_workflow_that_is_held(fixture: &impl EnlistFixture) {
    const WORKFLOWS: usize = 16;
    const HELD: usize = 5;
    let store = fixture.store();
    for what in ["start", "arrive", "deliver", "settle"] {
        let names: Vec<String> = (0..WORKFLOWS).map(|at| format!("{what} {at:02}")).collect();
        let mut taken = Vec::new();
        if what == "settle" {
            for name in &names {
                start(store, name).await;
            }
            taken = acquired(store, WORKFLOWS).await;
            taken.sort_by(|one, next| one.1.workflow.cmp(&next.1.workflow));
            assert_eq!(taken.len(), WORKFLOWS);
        }
        let mut open = fixture.begin().await;
        let held = &names[HELD];
        if what == "start" {
            let started = store.start_in(&mut open, KIND, held, &encode(held)).await;
            assert!(started.expect("a start").first);
        } else {
            let arrived = store.arrive_in(&mut open, KIND, held, "held", &encode(&1)).await;
            assert!(arrived.expect("an arrive").first);
        }
        let mut writes: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let (store, name, taken) = (store.clone(), name.clone(), taken.get(at).cloned());
                tokio::spawn(async move {
                    match taken {
                        Some(taken) => settle(&store, &taken, &waiting("y")).await,
                        None if what == "start" => {
                            drop(store.start(KIND, &name, &encode(&name)).await.expect("a start"));
                        }
                        None if what == "deliver" => {
                            drop(store.deliver(KIND, &name, &encode(&1)).await.expect("a deliver"));
                        }
                        None => drop(store.arrive(KIND, &name, "x", &encode(&1)).await.expect("an arrive")),
                    }
                })
            })
            .collect();
        let one = writes.remove(HELD);
        let others = futures_util::future::join_all(writes);
        let others = tokio::time::timeout(Duration::from_secs(30), others).await;
        for other in others.expect("nobody waits for the one that is held") {
            other.expect("what the test set up is there");
        }
        fixture.commit(open).await;
        one.await.expect("what the test set up is there");
        let ready = acquired(store, WORKFLOWS * 2).await;
        let expected = if what == "settle" { 1 } else { WORKFLOWS };
        assert_eq!(ready.len(), expected, "{what}: what was sent is there, and wakes");
        assert!(ready.iter().any(|(pass, _)| pass.claim.workflow == *held));
        for taken in ready {
            settle(store, &taken, &completed()).await;
        }
    }
}

/// Nor does anything wait behind writes that came one by one to workflows which a transaction holds.
pub async fn writes_to_workflows_that_are_held_hold_nobody_up(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    for what in ["start", "arrive", "deliver", "settle"] {
        let names: Vec<String> = (0..5).map(|at| format!("{what} {at}")).collect();
        let mut taken = Vec::new();
        if what == "settle" {
            for name in &names {
                start(store, name).await;
            }
            taken = acquired(store, names.len()).await;
            taken.sort_by(|one, next| one.1.workflow.cmp(&next.1.workflow));
        }
        let write = async |at: usize| {
            let (store, name, taken) = (store.clone(), names[at].clone(), taken.get(at).cloned());
            let mut writing = tokio::spawn(async move {
                match taken {
                    Some(taken) => settle(&store, &taken, &waiting("y")).await,
                    None if what == "start" => {
                        drop(store.start(KIND, &name, &encode(&name)).await.expect("a start"));
                    }
                    None if what == "deliver" => {
                        drop(store.deliver(KIND, &name, &encode(&1)).await.expect("a deliver"));
                    }
                    None => drop(store.arrive(KIND, &name, "x", &encode(&1)).await.expect("an arrive")),
                }
            });
            // Gives it the time to be on its way, and to be held up.
            let ended = tokio::time::timeout(Duration::from_millis(40), &mut writing).await;
            (writing, ended)
        };
        let mut open = fixture.begin().await;
        let mut held = Vec::new();
        for (at, name) in names.iter().enumerate().skip(1) {
            if what == "start" {
                let started = store.start_in(&mut open, KIND, name, &encode(name)).await;
                assert!(started.expect("a start").first);
            } else {
                let arrived = store.arrive_in(&mut open, KIND, name, "held", &encode(&1)).await;
                assert!(arrived.expect("an arrive").first);
            }
            held.push(write(at).await);
        }
        let (writing, ended) = write(0).await;
        if ended.is_err() {
            let ended = tokio::time::timeout(Duration::from_secs(30), writing).await;
            ended
                .unwrap_or_else(|_| panic!("{what}: nobody waits for those that are held"))
                .expect("what the test set up is there");
        }
        fixture.commit(open).await;
        for (writing, ended) in held {
            if ended.is_err() {
                writing.await.expect("what the test set up is there");
            }
        }
        for taken in acquired(store, names.len() * 2).await {
            settle(store, &taken, &completed()).await;
        }
    }
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
    ending.await.expect("what the test set up is there");
    assert_eq!(acquired(store, 10).await.len(), 1);
}

/// An effect that starts a workflow which somebody starts as another kind meanwhile is all there or not at all, with its
/// record.
pub async fn an_effect_that_starts_a_workflow_is_all_there_or_not_at_all(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    let claim = claimed(store.checkpointer(), "parent").await;
    let begun = store.checkpointer().begin(&claim, "ledger").await.expect("a begin");
    let Begun::Open(mut open) = begun else {
        panic!("nothing is recorded");
    };
    fixture.count(&mut open).await;
    let child = store.start_in(&mut open, KIND, "child", &encode(&1)).await;
    assert!(child.expect("a start").first);
    let other = fixture.second().await;
    let mut rival = tokio::spawn(async move { other.start(OTHER, "child", &encode(&2)).await });
    // Gives the rival the time to win, if it can; it may as well wait for the transaction.
    let won = tokio::time::timeout(Duration::from_millis(150), &mut rival).await;
    let committed = store
        .checkpointer()
        .commit(open, &claim, "ledger", &encode(&1))
        .await
        .is_ok();
    let rival = match won {
        Ok(rival) => rival.expect("what the test set up is there"),
        Err(_) => rival.await.expect("what the test set up is there"),
    };
    assert_ne!(rival.is_ok(), committed, "one of them wins");
    assert_eq!(fixture.counted().await, u64::from(committed));
    let recorded = keys(store.checkpointer(), "parent").await;
    assert_eq!(
        !recorded.is_empty(),
        committed,
        "the record is there with the effect: {recorded:?}"
    );
}
