//! What the store says so that a worker may go on where a pass stood: that nothing came meanwhile, and what came since.

use passbook::{Acquire, Checkpointer, Durable, Pass, RESULT, Settled, Settlement};

use crate::fixture::{Fixture, KIND, LEASE, encode, idle, kinds, now, pass, records, sleeping, started, waiting};

async fn end(store: &impl Durable, taken: &(Pass, passbook::Delivery), outcome: &Settlement) -> Settled {
    let settled = store.settle(&taken.0.claim, &taken.1, outcome).await;
    settled.expect("a settle succeeds")
}

/// When nothing came while a pass ran, its end says up to where it has seen the records: its own and those it was given
/// stand before that place, and what is sent later stands after it.
pub async fn a_quiet_end_has_seen_everything(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    for step in ["a", "b"] {
        let recorded = store.checkpointer().record(&taken.0.claim, step, &encode(step)).await;
        assert!(recorded.expect("a record").first);
    }
    let Settled::Quiet { seen } = end(store, &taken, &waiting("approved")).await else {
        panic!("nothing came meanwhile");
    };
    let before = records(store.checkpointer(), "w").await;
    assert!(
        before.iter().all(|record| record.seq <= seen),
        "{before:?} before {seen}"
    );
    store
        .arrive(KIND, "w", "approved", &encode(&1))
        .await
        .expect("an arrive");
    store.deliver(KIND, "w", &encode(&2)).await.expect("a delivery");
    let after = records(store.checkpointer(), "w").await;
    assert!(
        after[before.len()..].iter().all(|record| record.seq > seen),
        "{after:?} after {seen}"
    );
}

/// The end of a pass says when something came meanwhile: then the workflow is due at once.
pub async fn an_end_says_that_something_came_meanwhile(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    store.arrive(KIND, "w", "early", &encode(&1)).await.expect("an arrive");
    assert_eq!(end(store, &taken, &waiting("approved")).await, Settled::Woken);
    let taken = pass(store).await;
    assert_eq!(end(store, &taken, &Settlement::HandedBack).await, Settled::Woken);
    let taken = pass(store).await;
    store.deliver(KIND, "w", &encode(&1)).await.expect("a delivery");
    let later = now(fixture).after(LEASE * 9);
    assert_eq!(end(store, &taken, &sleeping(later)).await, Settled::Woken);
    let taken = pass(store).await;
    assert!(matches!(
        end(store, &taken, &sleeping(later)).await,
        Settled::Quiet { .. }
    ));
    idle(store).await;
}

/// A pass that waits for a value which is there already, and which it has not seen, is due at once, also when nobody made
/// the workflow ready: no wait outlives its value.
pub async fn a_wait_for_what_is_recorded_is_due_at_once(fixture: &impl Fixture) {
    let store = fixture.store();
    let later = now(fixture).after(LEASE * 9);
    let limited = Settlement::Suspended {
        wake_at: Some(later),
        waits_for: vec!["refused".to_owned(), "approved".to_owned()],
    };
    for (workflow, outcome) in [("plain", waiting("approved")), ("limited", limited)] {
        let taken = started(store, workflow).await;
        let supplied = store.checkpointer().supply(workflow, "approved", &encode(&1)).await;
        assert!(supplied.expect("a supply").first);
        assert_eq!(end(store, &taken, &outcome).await, Settled::Woken, "{workflow}");
        let again = pass(store).await;
        assert_eq!(again.0.claim.workflow, workflow);
        let ended = end(store, &again, &waiting("another")).await;
        assert!(matches!(ended, Settled::Quiet { .. }), "{workflow}: {ended:?}");
    }
    idle(store).await;
}

/// Of a workflow that the caller knows up to some place, an acquire reads what was sent since; of all others, everything.
pub async fn an_acquire_reads_no_more_than_what_came_since(fixture: &impl Fixture) {
    let store = fixture.store();
    let mut places = Vec::new();
    for workflow in ["known", "unknown"] {
        let taken = started(store, workflow).await;
        let recorded = store.checkpointer().record(&taken.0.claim, "a", &encode("a")).await;
        assert!(recorded.expect("a record").first);
        let Settled::Quiet { seen } = end(store, &taken, &waiting("approved")).await else {
            panic!("nothing came meanwhile");
        };
        places.push(seen);
    }
    for workflow in ["known", "unknown"] {
        store
            .deliver(KIND, workflow, &encode("first"))
            .await
            .expect("a delivery");
        store
            .arrive(KIND, workflow, "approved", &encode("second"))
            .await
            .expect("an arrive");
    }
    let namespaces = kinds(&[KIND]);
    let known = |workflow: &str| (workflow == "known").then_some(places[0]);
    let request = Acquire {
        known: &known,
        ..Acquire::new(&namespaces, 10)
    };
    let passes = store.acquire(&request).await.expect("an acquire").passes;
    assert_eq!(passes.len(), 2);
    for (pass, _) in passes {
        let values: Vec<String> = pass.records.iter().map(|each| each.value.to_string()).collect();
        match pass.claim.workflow.as_str() {
            "known" => {
                assert_eq!(pass.since, Some(places[0]));
                assert_eq!(values, ["\"first\"", "\"second\""]);
            }
            _ => {
                assert_eq!(pass.since, None);
                assert_eq!(values, ["\"unknown\"", "\"a\"", "\"first\"", "\"second\""]);
            }
        }
        assert!(pass.records.iter().all(|record| record.step != RESULT));
    }
}
