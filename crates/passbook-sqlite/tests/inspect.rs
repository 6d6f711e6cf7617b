//! Lists and states.

mod common;

use passbook::{Durable, Filter, Inspect, Settlement, State};
use passbook_sqlite::Sqlite;

use common::{Home, acquired, value};

async fn ids(store: &Sqlite, filter: Filter) -> Vec<String> {
    let page = store.list(&filter).await.unwrap();
    page.into_iter().map(|status| status.workflow).collect()
}

#[tokio::test]
async fn a_list_goes_by_id_and_page() {
    let home = Home::new();
    let store = home.prepared().await;
    for n in (0..25).rev() {
        let kind = if n % 2 == 0 { "even" } else { "odd" };
        store.start(kind, &format!("w{n:02}"), &value("x")).await.unwrap();
    }
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let filter = Filter {
            after: after.take(),
            limit: 10,
            ..Filter::default()
        };
        let page = ids(&store, filter).await;
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        seen.extend(page);
    }
    assert_eq!(seen, (0..25).map(|n| format!("w{n:02}")).collect::<Vec<_>>());

    let odd = Filter {
        namespace: Some("odd".to_owned()),
        after: Some("w20".to_owned()),
        limit: 10,
        ..Filter::default()
    };
    assert_eq!(ids(&store, odd).await, ["w21", "w23"]);
}

#[tokio::test]
async fn a_state_is_shown_for_every_place_a_workflow_can_be_in() {
    let home = Home::new();
    let store = home.prepared().await;
    let later = Some(home.clock.bound().unwrap().after(common::LEASE));
    let outcomes = [
        (
            "completed",
            State::Completed,
            Settlement::Completed { result: value("r") },
        ),
        (
            "failed",
            State::Failed,
            Settlement::Failed {
                error: "no".to_owned(),
                retry_at: None,
            },
        ),
        (
            "retried",
            State::Sleeping,
            Settlement::Failed {
                error: "not yet".to_owned(),
                retry_at: later,
            },
        ),
        (
            "sleeping",
            State::Sleeping,
            Settlement::Suspended {
                wake_at: later,
                waits_for: Vec::new(),
            },
        ),
        (
            "waiting",
            State::Waiting,
            Settlement::Suspended {
                wake_at: later,
                waits_for: vec!["k\"ey".to_owned(), "b".to_owned()],
            },
        ),
        ("handed back", State::Ready, Settlement::HandedBack),
    ];
    for (workflow, state, outcome) in &outcomes {
        store.start("orders", workflow, &value("x")).await.unwrap();
        assert_eq!(store.status(workflow).await.unwrap().unwrap().state, State::Ready);
        let (pass, delivery) = acquired(&store, "orders", 1).await.pop().unwrap();
        assert_eq!(&pass.claim.workflow, workflow);
        assert_eq!(store.status(workflow).await.unwrap().unwrap().state, State::Running);
        assert!(store.settle(&pass.claim, &delivery, outcome).await.unwrap().is_held());
        let status = store.status(workflow).await.unwrap().unwrap();
        assert_eq!(status.state, *state, "{workflow}");
        assert_eq!((status.namespace.as_str(), status.records > 0), ("orders", true));
    }
    let waiting = store.status("waiting").await.unwrap().unwrap();
    assert_eq!(
        (waiting.waits_for, waiting.wake_at),
        (vec!["k\"ey".to_owned(), "b".to_owned()], later)
    );
    let retried = store.status("retried").await.unwrap().unwrap();
    assert_eq!((retried.attempts, retried.error.as_deref()), (1, Some("not yet")));

    store.start("orders", "cancelled", &value("x")).await.unwrap();
    assert!(store.cancel("orders", "cancelled").await.unwrap());
    let only = |state| Filter {
        state: Some(state),
        limit: 10,
        ..Filter::default()
    };
    assert_eq!(ids(&store, only(State::Cancelled)).await, ["cancelled"]);
    assert_eq!(ids(&store, only(State::Sleeping)).await, ["retried", "sleeping"]);

    let asked: Vec<String> = outcomes.iter().map(|(workflow, ..)| (*workflow).to_owned()).collect();
    let mut finished = store.finished(&asked).await.unwrap();
    finished.sort_by(|a, b| a.workflow.cmp(&b.workflow));
    assert_eq!(finished.len(), 2);
    assert_eq!((&finished[0].result, &finished[0].error), (&Some(value("r")), &None));
    assert_eq!((&finished[1].result, finished[1].error.as_deref()), (&None, Some("no")));

    store.delete("orders", "completed").await.unwrap();
    assert_eq!(store.status("completed").await.unwrap(), None);
    assert!(store.reopen("orders", "failed").await.unwrap());
    assert_eq!(store.status("failed").await.unwrap().unwrap().state, State::Ready);
}
