//! Two commits with a crash between them: asking again always repairs.

use passbook::{Acquire, Durable, Error, INBOX, INPUT, Inspect, RESULT, Scheduler, SplitDurable, State};

use crate::faulty::{Faults, Faulty, Side};
use crate::fixture::{
    Fixture, KIND, LEASE, acquired, claimed, completed, encode, failed, idle, keys, kinds, now, pass, records, settle,
    sleeping, start, started, state, waiting,
};

type Halves<S> = SplitDurable<Faulty<<S as Durable>::Checkpointer>, Faulty<<S as Durable>::Scheduler>>;

/// More calls than any transition has.
const CALLS: u64 = 6;

fn halves<S: Durable>(store: &S, faults: &Faults) -> Halves<S> {
    let checkpointer = Faulty::new(store.checkpointer().clone(), faults);
    let scheduler = Faulty::new(store.scheduler().clone(), faults);
    SplitDurable::new(checkpointer, scheduler).expect("the halves have one lease")
}

/// Each place at which a transition can fail, with a workflow of its own.
fn windows(what: &str) -> Vec<(String, u64, Side)> {
    let calls = (0..CALLS).flat_map(|call| [(call, Side::Before), (call, Side::After)]);
    calls
        .map(|(call, side)| (format!("{what}-{call}-{side:?}"), call, side))
        .collect()
}

/// That the transition failed when a call of it did, and only then; returns whether it did.
fn failed_when_told<T: std::fmt::Debug>(faults: &Faults, before: u64, call: u64, outcome: &Result<T, Error>) -> bool {
    let reached = faults.calls() > before + call;
    faults.heal();
    match outcome {
        Err(error) => assert!(reached && error.is_unavailable(), "{error:?}"),
        Ok(_) => assert!(!reached, "a failure was swallowed"),
    }
    reached
}

async fn queue_is_empty(store: &impl Durable) {
    assert_eq!(store.scheduler().next_due(&kinds(&[KIND])).await.expect("a look"), None);
}

/// An arrival that failed anywhere is complete after it was asked again: one value, and the workflow runs.
pub async fn an_arrival_asked_again_is_complete(fixture: &impl Fixture) {
    let (store, faults) = (fixture.store(), Faults::none());
    let split = halves(store, &faults);
    let mut failures = 0;
    for (workflow, call, side) in windows("arrive") {
        let taken = started(store, &workflow).await;
        settle(store, &taken, &waiting("x")).await;
        let before = faults.calls();
        faults.fail_at(call, side);
        let outcome = split.arrive(KIND, &workflow, "x", &encode(&1)).await;
        failures += u64::from(failed_when_told(&faults, before, call, &outcome));
        let again = split
            .arrive(KIND, &workflow, "x", &encode(&1))
            .await
            .expect("an arrive");
        assert_eq!(again.value, encode(&1));
        assert_eq!(keys(store.checkpointer(), &workflow).await, [INPUT, "x"]);
        let taken = pass(store).await;
        assert_eq!(taken.0.records.len(), 2);
        settle(store, &taken, &completed()).await;
        queue_is_empty(store).await;
    }
    assert_eq!(failures, 4, "two calls, on either side");
}

/// A start that failed anywhere is complete after it was asked again.
pub async fn a_start_asked_again_is_complete(fixture: &impl Fixture) {
    let (store, faults) = (fixture.store(), Faults::none());
    let split = halves(store, &faults);
    let mut failures = 0;
    for (workflow, call, side) in windows("start") {
        let before = faults.calls();
        faults.fail_at(call, side);
        let outcome = split.start(KIND, &workflow, &encode(&1)).await;
        failures += u64::from(failed_when_told(&faults, before, call, &outcome));
        split.start(KIND, &workflow, &encode(&1)).await.expect("a start");
        let taken = pass(store).await;
        assert_eq!(taken.0.records.len(), 1);
        settle(store, &taken, &completed()).await;
        idle(store).await;
    }
    assert_eq!(failures, 4, "two calls, on either side");
}

/// A delivery that failed anywhere is there after it was asked again, once or twice, and the workflow runs.
pub async fn a_delivery_asked_again_is_there(fixture: &impl Fixture) {
    let (store, faults) = (fixture.store(), Faults::none());
    let split = halves(store, &faults);
    let mut failures = 0;
    for (workflow, call, side) in windows("deliver") {
        let taken = started(store, &workflow).await;
        settle(store, &taken, &waiting(INBOX)).await;
        let before = faults.calls();
        faults.fail_at(call, side);
        let outcome = split.deliver(KIND, &workflow, &encode(&1)).await;
        failures += u64::from(failed_when_told(&faults, before, call, &outcome));
        split.deliver(KIND, &workflow, &encode(&1)).await.expect("a deliver");
        let filed = keys(store.checkpointer(), &workflow).await.len() - 1;
        let lost = call == 0 && side == Side::Before;
        assert_eq!(filed, if lost { 1 } else { 2 }, "{workflow}");
        let taken = pass(store).await;
        settle(store, &taken, &completed()).await;
    }
    assert_eq!(failures, 4, "two calls, on either side");
}

/// A delete that failed anywhere leaves nothing after it was asked again.
pub async fn a_delete_asked_again_is_complete(fixture: &impl Fixture) {
    let (store, faults) = (fixture.store(), Faults::none());
    let split = halves(store, &faults);
    let mut failures = 0;
    for (workflow, call, side) in windows("delete") {
        start(store, &workflow).await;
        let before = faults.calls();
        faults.fail_at(call, side);
        let outcome = split.delete(KIND, &workflow).await;
        failures += u64::from(failed_when_told(&faults, before, call, &outcome));
        // The window holds records without a wakeup, never a wakeup without records.
        if records(store.checkpointer(), &workflow).await.is_empty() {
            queue_is_empty(store).await;
        }
        split.delete(KIND, &workflow).await.expect("a delete");
        assert_eq!(records(store.checkpointer(), &workflow).await, []);
        idle(store).await;
        queue_is_empty(store).await;
        assert_eq!(store.status(&workflow).await.expect("a status"), None);
    }
    assert_eq!(failures, 4, "two calls, on either side");
}

/// A cancel and a reopen that failed anywhere are complete after they were asked again.
pub async fn a_cancel_and_a_reopen_asked_again_are_complete(fixture: &impl Fixture) {
    let (store, faults) = (fixture.store(), Faults::none());
    let split = halves(store, &faults);
    let mut failures = 0;
    for (workflow, call, side) in windows("cancel") {
        start(store, &workflow).await;
        let before = faults.calls();
        faults.fail_at(call, side);
        let outcome = split.cancel(KIND, &workflow).await;
        failures += u64::from(failed_when_told(&faults, before, call, &outcome));
        split.cancel(KIND, &workflow).await.expect("a cancel");
        assert_eq!(state(store, &workflow).await, State::Cancelled);
        idle(store).await;
        queue_is_empty(store).await;

        let before = faults.calls();
        faults.fail_at(call, side);
        let outcome = split.reopen(KIND, &workflow).await;
        failures += u64::from(failed_when_told(&faults, before, call, &outcome));
        split.reopen(KIND, &workflow).await.expect("a reopen");
        let taken = pass(store).await;
        settle(store, &taken, &completed()).await;
        queue_is_empty(store).await;
    }
    assert_eq!(failures, 8, "two calls each, on either side");
}

/// How a pass that could not settle goes on.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// Its worker asks again.
    AskAgain,
    /// Its worker dies, and another takes the workflow when the lease is over.
    Die,
}

/// A settle that failed anywhere is complete after its worker asked again, or after the next worker ran the pass again.
pub async fn a_settle_asked_again_is_complete(fixture: &impl Fixture) {
    let (store, faults) = (fixture.store(), Faults::none());
    let split = halves(store, &faults);
    let mut failures = 0;
    for then in [Then::AskAgain, Then::Die] {
        for kind in ["completed", "sleeping", "waiting", "parked"] {
            let who = if then == Then::Die { "dead" } else { "alive" };
            for (workflow, call, side) in windows(&format!("{who}-{kind}")) {
                let outcome = match kind {
                    "completed" => completed(),
                    "sleeping" => sleeping(now(fixture).after(LEASE * 2)),
                    "waiting" => waiting("x"),
                    _ => failed(None),
                };
                let taken = started(store, &workflow).await;
                let before = faults.calls();
                faults.fail_at(call, side);
                let ended = split.settle(&taken.0.claim, &taken.1, &outcome).await;
                failures += u64::from(failed_when_told(&faults, before, call, &ended));
                if ended.is_err() {
                    if then == Then::AskAgain {
                        // It may be told that the pass is over: the first call had released the claim.
                        let again = split.settle(&taken.0.claim, &taken.1, &outcome).await;
                        again.expect("a settle");
                    }
                    fixture.clock().advance(LEASE);
                    // Whoever comes next finds it over, asleep with its deadline to come, or runs the pass once more.
                    for again in acquired(store, 10).await {
                        settle(store, &again, &outcome).await;
                    }
                }
                is_settled(store, &workflow, kind).await;
                // Away with it, so that the next window sees its own workflow only.
                store.delete(KIND, &workflow).await.expect("a delete");
            }
        }
    }
    // Two calls each, and one more for the result; on either side; by either way on.
    assert_eq!(failures, 2 * 2 * (2 * 4 + 1));
}

async fn is_settled<S: Durable + Inspect>(store: &S, workflow: &str, kind: &str) {
    let expected = match kind {
        "completed" => State::Completed,
        "sleeping" => State::Sleeping,
        "waiting" => State::Waiting,
        _ => State::Failed,
    };
    assert_eq!(state(store, workflow).await, expected, "{workflow}");
    let mut steps = vec![INPUT.to_owned()];
    steps.extend((kind == "completed").then(|| RESULT.to_owned()));
    assert_eq!(keys(store.checkpointer(), workflow).await, steps, "{workflow}");
    let due = store.scheduler().next_due(&kinds(&[KIND])).await.expect("a look");
    assert_eq!(due.is_some(), kind == "sleeping", "{workflow}");
    if kind == "waiting" {
        let recorded = store.arrive(KIND, workflow, "x", &encode(&1)).await.expect("an arrive");
        assert!(recorded.first);
        assert_eq!(pass(store).await.0.claim.workflow, workflow);
    }
}

/// An acquire that failed anywhere loses nobody: every workflow runs when the leases are over.
pub async fn an_acquire_that_failed_loses_nobody(fixture: &impl Fixture) {
    let (store, faults) = (fixture.store(), Faults::none());
    let split = halves(store, &faults);
    let namespaces = kinds(&[KIND]);
    let request = Acquire::new(&namespaces, 3);
    for workflow in ["u", "v", "w"] {
        start(store, workflow).await;
    }
    let mut call = 0;
    loop {
        let before = faults.calls();
        faults.fail_at(call / 2, if call % 2 == 0 { Side::Before } else { Side::After });
        let outcome = split.acquire(&request).await;
        let failure = failed_when_told(&faults, before, call / 2, &outcome);
        fixture.clock().advance(LEASE);
        assert_eq!(
            acquired(store, 10).await.len(),
            3,
            "after a failure at call {}",
            call / 2
        );
        fixture.clock().advance(LEASE);
        if !failure {
            break;
        }
        call += 1;
    }
    assert!(call > 8, "there are calls to fail in it");
    // A held claim that nobody settles is taken over, by hand as well.
    assert!(claimed(store.checkpointer(), "w").await.token > 0);
}

/// A pair of two datastores writes the record before the wakeup, and cancels before it discards: what a crash between the
/// two leaves is never a pass that finds nothing, and asking again repairs it.
pub async fn a_crash_between_two_commits_leaves_what_asking_again_repairs(fixture: &impl Fixture) {
    let (store, faults) = (fixture.store(), Faults::none());
    let split = halves(store, &faults);
    let half_of = async |transition: &str, workflow: &str| {
        // The second commit is never made.
        faults.fail_at(1, Side::Before);
        let failed = match transition {
            "start" => split.start(KIND, workflow, &encode(&1)).await.map(drop),
            "arrive" => split.arrive(KIND, workflow, "x", &encode(&1)).await.map(drop),
            "deliver" => split.deliver(KIND, workflow, &encode(&1)).await.map(drop),
            _ => split.delete(KIND, workflow).await.map(drop),
        };
        assert!(failed.expect_err("the second half").is_unavailable());
        faults.heal();
        queue_is_empty(store).await;
        keys(store.checkpointer(), workflow).await
    };
    assert_eq!(half_of("start", "s").await, [INPUT]);
    assert_eq!(half_of("arrive", "a").await, ["x"]);
    let filed = half_of("deliver", "d").await;
    assert!(filed.len() == 1 && filed[0].starts_with(INBOX), "{filed:?}");
    start(store, "gone").await;
    assert_eq!(half_of("delete", "gone").await, [INPUT], "the records are still there");
    assert_eq!(split.delete(KIND, "gone").await.expect("a delete"), 1);
    split.start(KIND, "s", &encode(&1)).await.expect("a start");
    assert_eq!(pass(store).await.0.claim.workflow, "s");
}
