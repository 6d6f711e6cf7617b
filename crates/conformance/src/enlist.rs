//! Taking part in a transaction of the caller's own.

use std::time::Duration;

use passbook::{Checkpointer, Durable, Enlist, Error, INBOX, INPUT, Inspect};

use crate::fixture::{
    EnlistFixture, KIND, OTHER, acquired, bad_names, completed, encode, idle, keys, pass, records, settle, start,
    started, waiting,
};

/// A start in the caller's transaction is invisible before its commit, and there with everything else after it.
pub async fn a_start_is_invisible_before_the_commit(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    let mut open = fixture.begin().await;
    fixture.count(&mut open).await;
    let recorded = store
        .start_in(&mut open, KIND, "w", &encode(&1))
        .await
        .expect("a start");
    assert_eq!((recorded.value, recorded.first), (encode(&1), true));
    idle(store).await;
    assert_eq!(records(store.checkpointer(), "w").await, []);
    assert_eq!(store.status("w").await.expect("a status"), None);
    assert_eq!(fixture.counted().await, 0);

    fixture.commit(open).await;
    assert_eq!(fixture.counted().await, 1);
    let (pass, _) = pass(&fixture.second().await).await;
    assert_eq!(
        (pass.records[0].step.as_str(), &pass.records[0].value),
        (INPUT, &encode(&1))
    );
}

/// After a rollback nothing remains: no input, no wakeup, no kind.
pub async fn nothing_remains_after_a_rollback(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    let taken = started(store, "v").await;
    settle(store, &taken, &waiting("x")).await;
    let mut open = fixture.begin().await;
    fixture.count(&mut open).await;
    store
        .start_in(&mut open, OTHER, "w", &encode(&1))
        .await
        .expect("a start");
    store
        .arrive_in(&mut open, KIND, "v", "x", &encode(&1))
        .await
        .expect("an arrive");
    store
        .deliver_in(&mut open, KIND, "v", &encode(&1))
        .await
        .expect("a deliver");
    drop(open);

    idle(store).await;
    assert_eq!(fixture.counted().await, 0);
    assert_eq!(records(store.checkpointer(), "w").await, []);
    assert_eq!(keys(store.checkpointer(), "v").await, [INPUT]);
    start(store, "w").await;
    assert_eq!(pass(store).await.0.claim.workflow, "w");
}

/// An arrival in the caller's transaction wakes when it commits; the first writer wins, also within the transaction.
pub async fn an_arrival_wakes_when_it_commits(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &waiting("x")).await;
    store
        .checkpointer()
        .supply("w", "there", &encode(&0))
        .await
        .expect("a supply");
    let mut open = fixture.begin().await;
    let first = store
        .arrive_in(&mut open, KIND, "w", "x", &encode(&1))
        .await
        .expect("an arrive");
    assert_eq!((first.value, first.first), (encode(&1), true));
    let second = store
        .arrive_in(&mut open, KIND, "w", "x", &encode(&2))
        .await
        .expect("an arrive");
    assert_eq!((second.value, second.first), (encode(&1), false));
    let late = store
        .arrive_in(&mut open, KIND, "w", "there", &encode(&3))
        .await
        .expect("an arrive");
    assert_eq!((late.value, late.first), (encode(&0), false));
    idle(store).await;
    fixture.commit(open).await;

    let late = store.arrive(KIND, "w", "x", &encode(&4)).await.expect("an arrive");
    assert_eq!((late.value, late.first), (encode(&1), false));
    assert_eq!(pass(store).await.0.records.len(), 3);
}

/// Deliveries in the caller's transaction are filed in their order, and wake when it commits.
pub async fn deliveries_are_filed_when_they_commit(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &waiting(INBOX)).await;
    store.checkpointer().append("w", &encode(&0)).await.expect("an append");
    let mut open = fixture.begin().await;
    let mut returned = Vec::new();
    for at in 1..4 {
        returned.push(
            store
                .deliver_in(&mut open, KIND, "w", &encode(&at))
                .await
                .expect("a deliver"),
        );
    }
    idle(store).await;
    fixture.commit(open).await;
    let (pass, _) = pass(store).await;
    let values: Vec<_> = pass.records[1..].iter().map(|record| record.value.clone()).collect();
    assert_eq!(values, (0..4).map(|at| encode(&at)).collect::<Vec<_>>());
    let filed: Vec<_> = pass.records[2..].iter().map(|record| record.step.clone()).collect();
    assert_eq!(
        returned, filed,
        "each call returned the key under which its value is filed"
    );
}

/// A start twice in one transaction is one start.
pub async fn a_second_start_in_the_transaction_is_told(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    let mut open = fixture.begin().await;
    assert!(
        store
            .start_in(&mut open, KIND, "w", &encode(&1))
            .await
            .expect("a start")
            .first
    );
    let again = store
        .start_in(&mut open, KIND, "w", &encode(&2))
        .await
        .expect("a start");
    assert_eq!((again.value, again.first), (encode(&1), false));
    let refused = store
        .start_in(&mut open, OTHER, "w", &encode(&3))
        .await
        .expect_err("a start");
    assert!(refused.is_wrong_kind(), "{refused:?}");
    drop(open);
    idle(store).await;
}

/// What is refused is refused before anything is written, and the caller's transaction goes on.
pub async fn a_refusal_leaves_the_transaction_usable(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    start(store, "taken").await;
    let mut open = fixture.begin().await;
    fixture.count(&mut open).await;
    let value = encode(&1);
    for bad in bad_names() {
        let bad = bad.as_str();
        let refusals = [
            store.start_in(&mut open, KIND, bad, &value).await.expect_err("a start"),
            store.start_in(&mut open, bad, "w", &value).await.expect_err("a start"),
            store
                .arrive_in(&mut open, KIND, "w", bad, &value)
                .await
                .expect_err("an arrive"),
            store
                .deliver_in(&mut open, KIND, bad, &value)
                .await
                .map(drop)
                .expect_err("a deliver"),
        ];
        assert!(refusals.iter().all(Error::is_refused), "{refusals:?}");
    }
    let refusals = [
        store
            .start_in(&mut open, OTHER, "taken", &value)
            .await
            .map(drop)
            .expect_err("a start"),
        store
            .arrive_in(&mut open, OTHER, "taken", "x", &value)
            .await
            .map(drop)
            .expect_err("an arrive"),
        store
            .deliver_in(&mut open, OTHER, "taken", &value)
            .await
            .map(drop)
            .expect_err("a deliver"),
    ];
    assert!(refusals.iter().all(Error::is_wrong_kind), "{refusals:?}");
    store.start_in(&mut open, KIND, "w", &value).await.expect("a start");
    fixture.commit(open).await;

    assert_eq!(fixture.counted().await, 1);
    assert_eq!(acquired(store, 10).await.len(), 2);
    assert_eq!(keys(store.checkpointer(), "taken").await, [INPUT]);
    assert_eq!(keys(store.checkpointer(), "w").await, [INPUT]);
}

/// A value that arrives in a transaction at a workflow that is over is kept, and nothing runs.
pub async fn an_arrival_at_what_is_over_wakes_nobody(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &completed()).await;
    let mut open = fixture.begin().await;
    store
        .arrive_in(&mut open, KIND, "w", "late", &encode(&1))
        .await
        .expect("an arrive");
    fixture.commit(open).await;
    idle(store).await;
    assert!(keys(store.checkpointer(), "w").await.contains(&"late".to_owned()));
}

/// A value that was drawn first and commits last is not lost to a reader that came in between: it appears behind what
/// the reader saw, or the reader did not see the other yet.
pub async fn a_number_drawn_in_an_open_transaction_is_not_passed_over(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    start(store, "w").await;
    let mut open = fixture.begin().await;
    store
        .deliver_in(&mut open, KIND, "w", &encode("first drawn"))
        .await
        .expect("a deliver");
    let other = fixture.second().await;
    let mut second = tokio::spawn(async move { other.deliver(KIND, "w", &encode("second drawn")).await });
    // Gives the second delivery the time to overtake, if it can; it may as well wait for the first.
    let overtook = tokio::time::timeout(Duration::from_millis(150), &mut second).await;
    let read = keys(store.checkpointer(), "w").await;
    fixture.commit(open).await;
    match overtook {
        Ok(delivered) => drop(delivered.expect("what the test set up is there").expect("a deliver")),
        Err(_) => drop(second.await.expect("what the test set up is there").expect("a deliver")),
    }
    let after = keys(store.checkpointer(), "w").await;
    assert_eq!(after.len(), 3);
    assert!(after.starts_with(&read), "{after:?} goes on from {read:?}");
    assert!(after[1..].is_sorted_by(|one, next| one < next), "{after:?}");
}

/// Whatever draws first and whatever draws second: who was at the end of a workflow's records finds everything that
/// commits later behind it.
pub async fn no_kind_of_writer_passes_a_drawn_number_over(fixture: &impl EnlistFixture) {
    let store = fixture.store();
    let value = encode(&1);
    for first in ["arrive", "deliver"] {
        for second in ["arrive", "deliver", "append"] {
            let workflow = format!("{first} {second}");
            start(store, &workflow).await;
            let mut open = fixture.begin().await;
            if first == "arrive" {
                let drawn = store.arrive_in(&mut open, KIND, &workflow, "first", &value).await;
                assert!(drawn.expect("an arrive").first);
            } else {
                let drawn = store.deliver_in(&mut open, KIND, &workflow, &value).await;
                drop(drawn.expect("a deliver"));
            }
            let (other, to, sent) = (fixture.second().await, workflow.clone(), value.clone());
            let mut writing = tokio::spawn(async move {
                match second {
                    "arrive" => drop(other.arrive(KIND, &to, "second", &sent).await.expect("an arrive")),
                    "deliver" => drop(other.deliver(KIND, &to, &sent).await.expect("a deliver")),
                    _ => drop(other.checkpointer().append(&to, &sent).await.expect("an append")),
                }
            });
            // Gives the second the time to overtake, if it can; it may as well wait for the first.
            let overtook = tokio::time::timeout(Duration::from_millis(80), &mut writing).await;
            let read = records(store.checkpointer(), &workflow).await;
            fixture.commit(open).await;
            if overtook.is_err() {
                writing.await.expect("what the test set up is there");
            }
            let after = records(store.checkpointer(), &workflow).await;
            assert_eq!(after.len(), 3, "{workflow}");
            assert!(after.starts_with(&read), "{workflow}: {after:?} goes on from {read:?}");
            assert!(after.is_sorted_by(|one, next| one.seq < next.seq), "{after:?}");
        }
    }
}
