//! What was done, and who may write it.

use std::collections::HashSet;

pub use crate::moments::a_record_tells_when_its_winning_write_was_made;

use futures_util::future::join_all;
use passbook::{Checkpointer, Claim, Claimed, Durable, INBOX};

use crate::fixture::{
    Fixture, LEASE, MICRO, bad_names, claimed, encode, granted, keys, life, odd_names, records, waiting,
};

/// `load` is empty for a workflow that never ran.
pub async fn a_workflow_that_never_ran_has_no_records(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    assert_eq!(records(store, "w").await, []);
}

/// `load` returns what was recorded, in first-recorded order, with rising places.
pub async fn records_come_in_the_order_of_their_first_writes(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let claim = claimed(store, "w").await;
    for step in ["c", "a", "b"] {
        store.record(&claim, step, &encode(step)).await.expect("a record");
        // Another workflow's records in between change nothing.
        store.supply("v", step, &encode(step)).await.expect("a supply");
    }
    store.supply("w", "0", &encode("0")).await.expect("a supply");

    let records = records(store, "w").await;
    let steps: Vec<&str> = records.iter().map(|record| record.step.as_str()).collect();
    assert_eq!(steps, ["c", "a", "b", "0"]);
    assert!(records.is_sorted_by(|one, next| one.seq < next.seq), "{records:?}");
    assert!(records.is_sorted_by_key(|record| record.recorded_at), "{records:?}");
    assert!(records.iter().all(|record| record.value == encode(&record.step)));
}

/// A losing write moves neither the order, nor the time, nor the value.
pub async fn a_losing_write_moves_nothing(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let claim = claimed(store, "w").await;
    for step in ["a", "b", "c"] {
        store.record(&claim, step, &encode(&1)).await.expect("a record");
    }
    let before = records(store, "w").await;

    fixture.clock().advance(MICRO * 1_000);
    store.record(&claim, "a", &encode(&2)).await.expect("a record");
    store.supply("w", "b", &encode(&2)).await.expect("a supply");
    store.record(&claim, "c", &encode(&1)).await.expect("a record");
    assert_eq!(records(store, "w").await, before);
}

/// `record` and `supply` return the value that stands, and whether it is this call's.
pub async fn a_write_says_who_won(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let claim = claimed(store, "w").await;
    let mine = store.record(&claim, "a", &encode(&1)).await.expect("a record");
    assert_eq!((mine.value, mine.first), (encode(&1), true));
    let theirs = store.supply("w", "a", &encode(&2)).await.expect("a supply");
    assert_eq!((theirs.value, theirs.first), (encode(&1), false));
    let again = store.record(&claim, "a", &encode(&1)).await.expect("a record");
    assert_eq!((again.value, again.first), (encode(&1), false));

    let supplied = store.supply("w", "b", &encode(&3)).await.expect("a supply");
    assert_eq!((supplied.value, supplied.first), (encode(&3), true));
    let late = store.record(&claim, "b", &encode(&4)).await.expect("a record");
    assert_eq!((late.value, late.first), (encode(&3), false));
}

/// Of writers at once under one key, exactly one is the first, and all are told its value.
pub async fn of_concurrent_writers_exactly_one_is_first(fixture: &impl Fixture) {
    let handles = [fixture.store().clone(), fixture.second().await];
    let claim = claimed(handles[0].checkpointer(), "w").await;
    for round in 0..10 {
        let step = format!("step-{round}");
        let writers = (0..16).map(|writer| {
            let (store, claim, step) = (handles[writer % 2].clone(), claim.clone(), step.clone());
            tokio::spawn(async move {
                let store = store.checkpointer();
                if writer % 4 < 2 {
                    store.record(&claim, &step, &encode(&writer)).await.expect("a record")
                } else {
                    store.supply("w", &step, &encode(&writer)).await.expect("a supply")
                }
            })
        });
        let recorded: Vec<_> = join_all(writers).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(recorded.iter().filter(|recorded| recorded.first).count(), 1);
        let values: HashSet<String> = recorded
            .into_iter()
            .map(|recorded| recorded.value.to_string())
            .collect();
        assert_eq!(values.len(), 1, "all are told the same");
    }
}

/// What a call returned as recorded, every other process reads.
pub async fn what_one_handle_recorded_another_reads(fixture: &impl Fixture) {
    let (one, other) = (fixture.store(), fixture.second().await);
    let claim = claimed(one.checkpointer(), "w").await;
    one.checkpointer()
        .record(&claim, "a", &encode(&1))
        .await
        .expect("a record");
    assert_eq!(
        records(other.checkpointer(), "w").await,
        records(one.checkpointer(), "w").await
    );
    assert_eq!(keys(other.checkpointer(), "w").await, ["a"]);
    let held = other.checkpointer().claim("w").await.expect("a claim succeeds");
    assert_eq!(held, Claimed::Held);
}

/// Ids and steps are parameters: never parsed, never folded, never trimmed.
pub async fn names_are_kept_as_they_are(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let names = odd_names();
    for name in &names {
        let claim = claimed(store, name).await;
        assert_eq!(&claim.workflow, name);
        for step in &names {
            let recorded = store.record(&claim, step, &encode(step)).await.expect("a record");
            assert!(recorded.first, "`{step}` of `{name}` is a key of its own");
        }
        assert!(store.release(&claim, &waiting("x")).await.expect("a release"));
    }
    for name in &names {
        let records = records(store, name).await;
        assert!(records.iter().map(|record| &record.step).eq(&names), "{records:?}");
        assert!(records.iter().all(|record| record.value == encode(&record.step)));
        assert_eq!(store.discard(name).await.expect("a discard"), names.len() as u64);
    }
}

/// An empty name, one with a NUL and one over the limit are refused, and nothing is written.
pub async fn names_that_no_store_keeps_are_refused(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let claim = claimed(store, "w").await;
    let value = encode(&1);
    for name in bad_names() {
        let name = name.as_str();
        let refusals = [
            store.claim(name).await.expect_err("a claim"),
            store.record(&claim, name, &value).await.expect_err("a record"),
            store.supply("w", name, &value).await.expect_err("a supply"),
            store.supply(name, "a", &value).await.expect_err("a supply"),
            store.append(name, &value).await.expect_err("an append"),
            store.begin(&claim, name).await.map(drop).expect_err("a transaction"),
        ];
        for refusal in refusals {
            assert!(refusal.is_refused(), "{refusal:?}");
        }
        if !name.contains('\0') {
            assert_eq!(records(store, name).await, []);
        }
    }
    assert_eq!(records(store, "w").await, []);
}

/// A value comes back as it was given, to the byte: in the answer of the call, and in every load.
pub async fn a_value_comes_back_to_the_byte(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let claim = claimed(store, "w").await;
    let nested = (0..64).fold(encode(&0), |inner, _| {
        passbook::Value::parse(&format!("[{inner}]")).expect("a value")
    });
    let values = [
        encode(&()),
        encode(&true),
        encode(&u64::MAX),
        encode(&i128::MIN),
        encode(&u128::MAX),
        encode(&0.1),
        encode(&-0.0),
        encode(&f64::MAX),
        encode(&f64::MIN_POSITIVE),
        encode(&5e-324),
        encode(&1e23),
        encode(&9_007_199_254_740_993_u64),
        encode(""),
        encode("\u{1}\u{7f}\u{2028}\u{fffd}\u{1f980} \\ \" / \n"),
        encode("\\u0000 is only text"),
        encode(&[[1, 2], [3, 4]]),
        encode(&std::collections::BTreeMap::from([
            ("b", 1),
            ("aa", 2),
            ("a", 3),
            ("", 4),
            ("ä", 5),
        ])),
        encode(&"x".repeat(100_000)),
        nested,
    ];
    for (at, value) in values.iter().enumerate() {
        let step = format!("step-{at:02}");
        let recorded = store.record(&claim, &step, value).await.expect("a record");
        assert_eq!(recorded.value.as_str(), value.as_str());
        let again = store.supply("w", &step, &encode("late")).await.expect("a supply");
        assert_eq!(again.value.as_str(), value.as_str());
    }
    let records = records(store, "w").await;
    assert!(
        records
            .iter()
            .map(|record| record.value.as_str())
            .eq(values.iter().map(passbook::Value::as_str))
    );
}

/// `supply` is not fenced: an approval does not fail because a worker is mid-pass, or because none ever was.
pub async fn a_value_is_supplied_while_a_pass_runs(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    assert!(store.supply("w", "early", &encode(&1)).await.expect("a supply").first);
    let claim = claimed(store, "w").await;
    assert!(
        store
            .supply("w", "approved", &encode(&2))
            .await
            .expect("a supply")
            .first
    );
    // And it takes nothing from the pass.
    assert_eq!(store.renew(&[life(&claim)]).await.expect("a renewal"), [true]);
    assert!(store.record(&claim, "a", &encode(&3)).await.expect("a record").first);
    assert_eq!(keys(store, "w").await, ["early", "approved", "a"]);
}

/// Keys of the inbox sort in append order, whatever else is recorded in between.
pub async fn entries_sort_in_append_order(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let mut appended = Vec::new();
    for at in 0..12 {
        appended.push(store.append("w", &encode(&at)).await.expect("an append"));
        store.append("v", &encode(&at)).await.expect("an append");
        store
            .supply("w", &format!("step-{at}"), &encode(&at))
            .await
            .expect("a supply");
    }
    assert!(appended.iter().all(|key| key.starts_with(INBOX)), "{appended:?}");
    assert!(appended.is_sorted_by(|one, next| one < next), "{appended:?}");
    let records = records(store, "w").await;
    let entries = records.iter().filter(|record| record.step.starts_with(INBOX));
    let entries: Vec<_> = entries
        .map(|record| (record.step.clone(), record.value.clone()))
        .collect();
    let expected: Vec<_> = appended.into_iter().zip((0..12).map(|at| encode(&at))).collect();
    assert_eq!(entries, expected);
}

/// An entry of the inbox is an ordinary record: loaded, never overwritten, discarded.
pub async fn an_entry_is_an_ordinary_record(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let key = store.append("w", &encode("hello")).await.expect("an append");
    let late = store.supply("w", &key, &encode("late")).await.expect("a supply");
    assert_eq!((late.value, late.first), (encode("hello"), false));
    assert_eq!(keys(store, "w").await, [key]);
    assert_eq!(store.discard("w").await.expect("a discard"), 1);
    assert_eq!(records(store, "w").await, []);
}

/// Appends at once lose nothing, and whoever has seen a key never sees a smaller one appear.
pub async fn concurrent_appends_lose_nothing_and_come_in_order(fixture: &impl Fixture) {
    const WRITERS: usize = 8;
    const EACH: usize = 20;
    let handles = [fixture.store().clone(), fixture.second().await];
    let writers = (0..WRITERS).map(|writer| {
        let store = handles[writer % 2].clone();
        tokio::spawn(async move {
            let mut keys = Vec::new();
            for at in 0..EACH {
                let value = encode(&(writer, at));
                keys.push(store.checkpointer().append("w", &value).await.expect("an append"));
            }
            keys
        })
    });
    let writing = tokio::spawn(join_all(writers.collect::<Vec<_>>()));

    let mut seen: Vec<String> = Vec::new();
    loop {
        let last = writing.is_finished();
        let now = keys(fixture.store().checkpointer(), "w").await;
        assert!(
            now.starts_with(&seen),
            "an entry appeared before one that was seen: {seen:?} {now:?}"
        );
        assert!(now.is_sorted_by(|one, next| one < next), "{now:?}");
        seen = now;
        if last {
            break;
        }
    }
    let written: Vec<Vec<String>> = writing
        .await
        .expect("what the test set up is there")
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert!(written.iter().all(|keys| keys.is_sorted()), "{written:?}");
    let mut written: Vec<String> = written.into_iter().flatten().collect();
    written.sort();
    assert_eq!(written.len(), WRITERS * EACH);
    assert_eq!(seen, written);
}

/// `discard` removes the records and returns how many there were.
pub async fn a_discard_removes_the_records_and_counts_them(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    assert_eq!(store.discard("w").await.expect("a discard"), 0);
    let claim = claimed(store, "w").await;
    store.record(&claim, "a", &encode(&1)).await.expect("a record");
    store.supply("w", "b", &encode(&2)).await.expect("a supply");
    store.append("w", &encode(&3)).await.expect("an append");
    store.supply("v", "a", &encode(&4)).await.expect("a supply");

    assert_eq!(store.discard("w").await.expect("a discard"), 3);
    assert_eq!(records(store, "w").await, []);
    assert_eq!(keys(store, "v").await, ["a"]);
    assert_eq!(store.discard("w").await.expect("a discard"), 0);
    // It begins anew, and nobody waits for the lease of the pass that lost it.
    let anew = granted(store, "w").await;
    assert!(anew.claim.token > claim.token);
    assert_eq!((anew.attempts, anew.interrupted), (0, None));
}

/// A pass whose lease ran out while nobody took the workflow over may still write: the token decides, not the clock.
pub async fn a_late_pass_that_nobody_superseded_may_write(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let claim: Claim = claimed(store, "w").await;
    fixture.clock().advance(LEASE * 3);
    assert!(store.record(&claim, "a", &encode(&1)).await.expect("a record").first);
    assert!(store.release(&claim, &waiting("x")).await.expect("a release"));
}
