//! What is shown to a person or a waiter.

use passbook::{Checkpointer, Durable, Filter, INPUT, Inspect, State};

use crate::fixture::{
    Fixture, KIND, LEASE, completed, encode, failed, life_in, now, odd_names, pass, settle, sleeping, start, started,
    state, status, waiting,
};

async fn list(store: &impl Inspect, filter: Filter) -> Vec<String> {
    let listed = store.list(&filter).await.expect("a list");
    listed.into_iter().map(|status| status.workflow).collect()
}

fn page(limit: usize) -> Filter {
    Filter {
        limit,
        ..Filter::default()
    }
}

/// Of a workflow that nobody wrote of there is no status, and none after it was deleted.
pub async fn what_nobody_wrote_of_has_no_status(fixture: &impl Fixture) {
    let store = fixture.store();
    assert_eq!(store.status("w").await.expect("a status"), None);
    let taken = started(store, "w").await;
    settle(store, &taken, &completed()).await;
    store.delete(KIND, "w").await.expect("a delete");
    assert_eq!(store.status("w").await.expect("a status"), None);
    assert_eq!(list(store, page(10)).await, [] as [&str; 0]);
    assert_eq!(store.finished(&["w".to_owned()]).await.expect("a look"), []);
}

/// A workflow that a pass holds is running.
pub async fn a_held_workflow_is_running(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    let shown = status(store, "w").await;
    assert_eq!((shown.workflow.as_str(), shown.state), ("w", State::Running));
    assert_eq!((shown.records, shown.attempts), (1, 0));
    let input = store.checkpointer().load("w").await.expect("a load").remove(0);
    assert_eq!(shown.started_at, Some(input.recorded_at));
    assert_eq!((shown.finished_at, shown.error, shown.wake_at), (None, None, None));
    settle(store, &taken, &completed()).await;
    assert_ne!(state(store, "w").await, State::Running);
}

/// A workflow that goes on at a known moment is sleeping, until that moment.
pub async fn a_sleeping_workflow_says_until_when(fixture: &impl Fixture) {
    let store = fixture.store();
    let until = now(fixture).after(LEASE * 3);
    let taken = started(store, "w").await;
    settle(store, &taken, &sleeping(until)).await;
    let shown = status(store, "w").await;
    assert_eq!((shown.state, shown.wake_at), (State::Sleeping, Some(until)));
    assert_eq!(shown.waits_for, [] as [&str; 0]);
}

/// A workflow that goes on when a value arrives is waiting, and says for which.
pub async fn a_waiting_workflow_says_for_what(fixture: &impl Fixture) {
    let store = fixture.store();
    let until = now(fixture).after(LEASE * 3);
    let taken = started(store, "w").await;
    let names = odd_names();
    let wait = passbook::Settlement::Suspended {
        wake_at: Some(until),
        waits_for: names.clone(),
    };
    settle(store, &taken, &wait).await;
    let shown = status(store, "w").await;
    assert_eq!((shown.state, shown.wake_at), (State::Waiting, Some(until)));
    assert_eq!(shown.waits_for, names);
}

/// A workflow that is completed shows when, and nothing of what went before.
pub async fn a_completed_workflow_says_when(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &failed(Some(now(fixture)))).await;
    let taken = pass(store).await;
    fixture.clock().advance(LEASE / 2);
    settle(store, &taken, &completed()).await;
    let shown = status(store, "w").await;
    assert_eq!((shown.state, shown.finished_at), (State::Completed, Some(now(fixture))));
    assert_eq!((shown.attempts, shown.error, shown.records), (0, None, 2));
    assert_eq!((shown.wake_at, shown.running), (None, None));
}

/// A workflow whose pass failed shows why, how often, and when it tries again.
pub async fn a_failing_workflow_says_why_and_when_it_tries_again(fixture: &impl Fixture) {
    let store = fixture.store();
    let again = now(fixture).after(LEASE);
    let taken = started(store, "w").await;
    let life = [(life_in(&taken.0.claim, "charged"), taken.1)];
    let renewed = store.renew(&life).await.expect("a renewal").remove(0);
    assert_eq!(status(store, "w").await.running.as_deref(), Some("charged"));
    let taken = (taken.0, renewed.delivery);
    settle(store, &taken, &failed(Some(again))).await;
    let shown = status(store, "w").await;
    assert_eq!((shown.state, shown.wake_at), (State::Sleeping, Some(again)));
    assert_eq!((shown.error.as_deref(), shown.attempts), (Some("no paper"), 1));
    assert_eq!(shown.finished_at, None);
}

/// A parked workflow is failed; reopened, it has forgotten why.
pub async fn a_parked_workflow_is_failed_until_it_is_reopened(fixture: &impl Fixture) {
    let store = fixture.store();
    let taken = started(store, "w").await;
    settle(store, &taken, &failed(None)).await;
    let shown = status(store, "w").await;
    assert_eq!((shown.state, shown.finished_at), (State::Failed, Some(now(fixture))));
    assert!(store.reopen(KIND, "w").await.expect("a reopen"));
    let shown = status(store, "w").await;
    assert!(!shown.state.is_over(), "{shown:?}");
    assert_eq!((shown.error, shown.attempts, shown.finished_at), (None, 0, None));
}

/// A cancelled workflow is cancelled, whether it ran or not.
pub async fn a_cancelled_workflow_is_shown_as_such(fixture: &impl Fixture) {
    let store = fixture.store();
    started(store, "running").await;
    start(store, "queued").await;
    for workflow in ["running", "queued"] {
        assert!(store.cancel(KIND, workflow).await.expect("a cancel"));
        let shown = status(store, workflow).await;
        assert_eq!((shown.state, shown.finished_at), (State::Cancelled, Some(now(fixture))));
        assert_eq!((shown.wake_at, shown.waits_for.len()), (None, 0));
    }
}

/// A list comes in the order of the ids, page by page, each id once.
pub async fn a_list_comes_page_by_page(fixture: &impl Fixture) {
    let store = fixture.store();
    let mut names = odd_names();
    for name in &names {
        start(store, name).await;
    }
    assert_eq!(list(store, page(0)).await, [] as [&str; 0]);
    let mut listed: Vec<String> = Vec::new();
    loop {
        let mut filter = page(3);
        filter.after = listed.last().cloned();
        let page = list(store, filter).await;
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed.len(), names.len(), "each is listed once");
    // In the order of the bytes on every store, whatever the collation of the database.
    names.sort();
    assert_eq!(listed, names);
}

/// A list may be of one state.
pub async fn a_list_may_be_of_one_state(fixture: &impl Fixture) {
    let store = fixture.store();
    let ends = [
        ("a", waiting("x")),
        ("b", completed()),
        ("c", sleeping(now(fixture).after(LEASE))),
        ("d", failed(None)),
        ("e", completed()),
    ];
    for (workflow, outcome) in ends {
        let taken = started(store, workflow).await;
        settle(store, &taken, &outcome).await;
    }
    start(store, "f").await;
    assert!(store.cancel(KIND, "f").await.expect("a cancel"));
    started(store, "g").await;
    for (state, expected) in [
        (State::Waiting, vec!["a"]),
        (State::Completed, vec!["b", "e"]),
        (State::Sleeping, vec!["c"]),
        (State::Failed, vec!["d"]),
        (State::Cancelled, vec!["f"]),
        (State::Running, vec!["g"]),
    ] {
        let filter = Filter {
            state: Some(state),
            ..page(10)
        };
        assert_eq!(list(store, filter).await, expected, "{state}");
    }
}

/// `finished` tells of those that are over how they ended, and of no other.
pub async fn finished_tells_how_they_ended(fixture: &impl Fixture) {
    let store = fixture.store();
    for (workflow, outcome) in [
        ("completed", completed()),
        ("failed", failed(None)),
        ("waiting", waiting("x")),
    ] {
        let taken = started(store, workflow).await;
        settle(store, &taken, &outcome).await;
    }
    start(store, "cancelled").await;
    assert!(store.cancel(KIND, "cancelled").await.expect("a cancel"));
    assert!(store.reopen(KIND, "failed").await.expect("a reopen"));
    let taken = pass(store).await;
    settle(store, &taken, &failed(None)).await;

    let asked = ["cancelled", "completed", "failed", "unseen", "waiting"].map(str::to_owned);
    let mut finished = store.finished(&asked).await.expect("a look");
    finished.sort_by(|one, next| one.workflow.cmp(&next.workflow));
    let told: Vec<_> = finished
        .iter()
        .map(|one| {
            (
                one.workflow.as_str(),
                one.state,
                one.result.clone(),
                one.error.as_deref(),
            )
        })
        .collect();
    let expected = [
        ("cancelled", State::Cancelled, None, None),
        ("completed", State::Completed, Some(encode("done")), None),
        ("failed", State::Failed, None, Some("no paper")),
    ];
    assert_eq!(told, expected);
    assert_eq!(store.finished(&[]).await.expect("a look"), []);
}

/// A value from outside is counted among the records, and shown before any pass has run.
pub async fn what_was_only_sent_to_is_shown(fixture: &impl Fixture) {
    let store = fixture.store();
    store.arrive(KIND, "w", "early", &encode(&1)).await.expect("an arrive");
    let shown = status(store, "w").await;
    assert_eq!((shown.records, shown.started_at), (1, None));
    start(store, "w").await;
    let shown = status(store, "w").await;
    assert_eq!(shown.records, 2);
    let records = store.checkpointer().load("w").await.expect("a load");
    let input = records.iter().find(|record| record.step == INPUT).expect("an input");
    assert_eq!(shown.started_at, Some(input.recorded_at));
}
