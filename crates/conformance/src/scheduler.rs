//! The right to run.

use std::collections::HashSet;
use std::time::Duration;

pub use crate::moments::waking_and_reclaiming_lose_nothing;
pub use crate::naming::{names_are_queued_as_they_are, names_that_no_queue_keeps_are_refused};

use futures_util::future::join_all;
use passbook::{Delivery, Durable, Scheduler};

use crate::fixture::{Fixture, KIND, LEASE, MICRO, OTHER, kinds, now};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn ready(store: &impl Scheduler, workflow: &str) {
    store
        .make_ready(KIND, workflow)
        .await
        .expect("a workflow is made ready");
}

pub(crate) async fn take(store: &impl Scheduler, limit: usize) -> Vec<Delivery> {
    store.next_ready(&kinds(&[KIND]), limit).await.expect("a take succeeds")
}

/// The one delivery that is due.
async fn one(store: &impl Scheduler) -> Delivery {
    let mut taken = take(store, 10).await;
    assert_eq!(taken.len(), 1, "{taken:?}");
    taken.remove(0)
}

async fn none(store: &impl Scheduler) {
    assert_eq!(take(store, 10).await, []);
}

pub(crate) async fn due(store: &impl Scheduler) -> Option<Duration> {
    store.next_due(&kinds(&[KIND])).await.expect("a look succeeds")
}

pub(crate) async fn done(store: &impl Scheduler, delivery: &Delivery) {
    store.done(delivery).await.expect("an answer succeeds");
}

async fn extend(store: &impl Scheduler, delivery: &Delivery) -> Vec<Delivery> {
    store
        .extend(std::slice::from_ref(delivery))
        .await
        .expect("an extension")
}

/// What was made ready is yielded, by any handle, once.
pub async fn what_was_made_ready_is_yielded(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    none(store).await;
    ready(store, "w").await;
    let delivery = one(fixture.second().await.scheduler()).await;
    assert_eq!((delivery.namespace.as_str(), delivery.workflow.as_str()), (KIND, "w"));
    none(store).await;
    done(store, &delivery).await;
    fixture.clock().advance(LEASE * 10);
    none(store).await;
    assert_eq!(due(store).await, None);
}

/// Making ready twice is the same as once.
pub async fn made_ready_twice_is_as_once(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    fixture.clock().advance(SECOND);
    ready(store, "w").await;
    done(store, &one(store).await).await;
    fixture.clock().advance(LEASE);
    none(store).await;
}

/// A delivery whose worker died is yielded again when its lease is over, and not a moment before.
pub async fn a_delivery_of_a_dead_worker_is_yielded_again(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    let mut receipts = HashSet::new();
    for _ in 0..3 {
        assert!(receipts.insert(one(store).await.receipt), "a receipt never comes again");
        fixture.clock().advance(LEASE - MICRO);
        none(store).await;
        assert_eq!(due(store).await, Some(MICRO));
        fixture.clock().advance(MICRO);
    }
}

/// `wake_at` makes the workflow due at that moment, and not a moment before.
pub async fn a_sleeper_is_yielded_on_time(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    let delivery = one(store).await;
    let when = now(fixture).after(LEASE * 100);
    store.wake_at(&delivery, when).await.expect("an answer succeeds");
    assert_eq!(due(store).await, Some(LEASE * 100));
    fixture.clock().advance(LEASE * 100 - MICRO);
    none(store).await;
    fixture.clock().advance(MICRO);
    one(store).await;
}

/// `wake_at` a moment that has passed makes the workflow due now.
pub async fn a_sleep_until_the_past_is_over_at_once(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    let before = now(fixture);
    fixture.clock().advance(SECOND);
    ready(store, "w").await;
    let delivery = one(store).await;
    store.wake_at(&delivery, before).await.expect("an answer succeeds");
    assert_eq!(due(store).await, Some(Duration::ZERO));
    one(store).await;
}

/// A sleeper that is made ready is due at once, and its sleep is forgotten.
pub async fn a_sleeper_that_is_made_ready_is_due_at_once(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    let delivery = one(store).await;
    store
        .wake_at(&delivery, now(fixture).after(LEASE * 2))
        .await
        .expect("an answer succeeds");
    ready(store, "w").await;
    done(store, &one(store).await).await;
    fixture.clock().advance(LEASE * 4);
    none(store).await;
}

/// A wakeup that comes while a pass runs survives `done`.
pub async fn a_wakeup_mid_pass_survives_done(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    let delivery = one(store).await;
    ready(store, "w").await;
    done(store, &delivery).await;
    done(store, &one(store).await).await;
    none(store).await;
}

/// A wakeup that comes while a pass runs survives `wake_at`: the workflow is ready now.
pub async fn a_wakeup_mid_pass_survives_wake_at(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    let delivery = one(store).await;
    fixture.clock().advance(SECOND);
    ready(store, "w").await;
    store
        .wake_at(&delivery, now(fixture).after(LEASE * 9))
        .await
        .expect("an answer succeeds");
    assert_eq!(due(store).await, Some(Duration::ZERO));
    one(store).await;
}

/// A wakeup that comes while a pass runs, and was taken by another, survives the answer of the first.
pub async fn a_wakeup_taken_by_another_survives_the_answer_of_the_first(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    let first = one(store).await;
    fixture.clock().advance(SECOND);
    ready(store, "w").await;
    one(store).await;
    done(store, &first).await;
    // The other worker dies; it is yielded all the same.
    fixture.clock().advance(LEASE);
    one(store).await;
}

/// `extend` hides the delivery for another lease from now, under a new receipt that answers.
pub async fn an_extension_hides_for_another_lease(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    let mut delivery = one(store).await;
    for _ in 0..3 {
        fixture.clock().advance(LEASE - MICRO);
        let extended = extend(store, &delivery).await;
        assert_eq!(extended.len(), 1);
        assert_eq!(
            (&extended[0].namespace, &extended[0].workflow),
            (&delivery.namespace, &delivery.workflow)
        );
        assert!(extended[0].receipt > delivery.receipt);
        delivery = extended[0].clone();
        none(store).await;
    }
    fixture.clock().advance(LEASE - MICRO);
    none(store).await;
    done(store, &delivery).await;
    assert_eq!(due(store).await, None);
}

/// After an extension the old receipt no longer answers.
pub async fn an_old_receipt_no_longer_answers(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    let old = one(store).await;
    fixture.clock().advance(SECOND);
    let extended = extend(store, &old).await;
    assert_eq!(extended.len(), 1);
    assert_eq!(extend(store, &old).await, []);
    done(store, &old).await;
    assert!(due(store).await.is_some(), "it is still queued");
    fixture.clock().advance(LEASE);
    one(store).await;
}

/// `extend` is silent about deliveries that are not held any more, and does nothing to them.
pub async fn an_extension_is_silent_about_what_is_lost(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    for workflow in ["cancelled", "done", "expired", "held", "slept", "woken"] {
        ready(store, workflow).await;
    }
    let taken = take(store, 6).await;
    assert_eq!(taken.len(), 6);
    let of = |name: &str| {
        taken
            .iter()
            .find(|delivery| delivery.workflow == name)
            .expect("it was taken")
    };
    fixture.clock().advance(SECOND);
    store.cancel(KIND, "cancelled").await.expect("a cancel");
    done(store, of("done")).await;
    let later = now(fixture).after(LEASE * 3);
    store.wake_at(of("slept"), later).await.expect("an answer succeeds");
    ready(store, "woken").await;

    let extended = store.extend(&taken).await.expect("an extension");
    let mut names: Vec<&str> = extended.iter().map(|delivery| delivery.workflow.as_str()).collect();
    names.sort_unstable();
    // Nobody took the workflow whose worker is slow, so it is still held.
    assert_eq!(names, ["expired", "held"]);
    assert_eq!(one(store).await.workflow, "woken");

    fixture.clock().advance(LEASE * 2 - SECOND);
    let mut left: Vec<String> = take(store, 10)
        .await
        .into_iter()
        .map(|delivery| delivery.workflow)
        .collect();
    left.sort();
    assert_eq!(left, ["expired", "held", "woken"]);
    assert_eq!(
        store.extend(&extended).await.expect("an extension"),
        [],
        "others hold them now"
    );
    assert_eq!(store.extend(&[]).await.expect("an extension"), []);
    assert_eq!(due(store).await, Some(LEASE.min(now(fixture).until(later))));
}

/// Many deliveries are extended in one call, and each is returned once.
pub async fn a_batch_of_deliveries_is_extended(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    for at in 0..50 {
        ready(store, &format!("w-{at:02}")).await;
    }
    let taken = take(store, 50).await;
    fixture.clock().advance(LEASE / 2);
    let extended = store.extend(&taken).await.expect("an extension");
    let names = |deliveries: &[Delivery]| -> HashSet<String> {
        deliveries.iter().map(|delivery| delivery.workflow.clone()).collect()
    };
    assert_eq!(extended.len(), 50);
    assert_eq!(names(&extended), names(&taken));
    fixture.clock().advance(LEASE / 2);
    none(store).await;
    for delivery in &extended {
        done(store, delivery).await;
    }
    assert_eq!(due(store).await, None);
}

/// No answer of an earlier delivery brings a cancelled workflow back.
pub async fn no_answer_brings_a_cancelled_workflow_back(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    for answer in 0..3 {
        ready(store, "w").await;
        let delivery = one(store).await;
        store.cancel(KIND, "w").await.expect("a cancel");
        match answer {
            0 => store
                .wake_at(&delivery, now(fixture))
                .await
                .expect("an answer succeeds"),
            1 => done(store, &delivery).await,
            _ => assert_eq!(extend(store, &delivery).await, []),
        }
        fixture.clock().advance(LEASE);
        none(store).await;
        assert_eq!(due(store).await, None);
    }
}

/// `cancel` takes a workflow out of the queue that nobody has taken yet, and no other.
pub async fn a_cancelled_workflow_is_not_yielded(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    for workflow in ["v", "w"] {
        ready(store, workflow).await;
    }
    store.make_ready(OTHER, "w").await.expect("it is made ready");
    store.cancel(KIND, "w").await.expect("a cancel");
    store.cancel(KIND, "unseen").await.expect("a cancel");
    assert_eq!(one(store).await.workflow, "v");
    let others = store.next_ready(&kinds(&[OTHER]), 10).await.expect("a take succeeds");
    assert_eq!(others.len(), 1);
    // It may be made ready again.
    ready(store, "w").await;
    assert_eq!(one(store).await.workflow, "w");
}

/// A take yields no more than was asked for, and what is left is yielded next.
pub async fn a_take_yields_no_more_than_was_asked_for(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    for at in 0..25 {
        ready(store, &format!("w-{at:02}")).await;
    }
    let mut taken = HashSet::new();
    for expected in [10, 10, 5, 0] {
        let deliveries = take(store, 10).await;
        assert_eq!(deliveries.len(), expected);
        for delivery in deliveries {
            assert!(taken.insert(delivery.workflow));
        }
    }
    fixture.clock().advance(LEASE);
    assert_eq!(take(store, 0).await, []);
    assert_eq!(store.next_ready(&[], 10).await.expect("a take succeeds"), []);
    assert_eq!(take(store, 1_000).await.len(), 25);
}

/// A take yields of the kinds that were asked for, and of no other.
pub async fn a_take_yields_only_the_kinds_asked_for(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    ready(store, "w").await;
    store.make_ready(OTHER, "w").await.expect("it is made ready");
    store.make_ready("third", "w").await.expect("it is made ready");
    assert_eq!(
        store
            .next_ready(&kinds(&["unknown"]), 10)
            .await
            .expect("a take succeeds"),
        []
    );
    assert_eq!(one(store).await.namespace, KIND);
    let both = store
        .next_ready(&kinds(&[OTHER, "third", KIND]), 10)
        .await
        .expect("a take succeeds");
    let names: HashSet<&str> = both.iter().map(|delivery| delivery.namespace.as_str()).collect();
    assert_eq!((both.len(), names), (2, HashSet::from([OTHER, "third"])));
}

/// A kind with much to do does not starve one with little, in any order of asking.
pub async fn no_kind_starves_another(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    for at in 0..40 {
        ready(store, &format!("w-{at:02}")).await;
    }
    fixture.clock().advance(SECOND);
    for at in 0..4 {
        store
            .make_ready(OTHER, &format!("v-{at:02}"))
            .await
            .expect("it is made ready");
    }
    for order in [[KIND, OTHER], [OTHER, KIND]] {
        let taken = store.next_ready(&kinds(&order), 10).await.expect("a take succeeds");
        let others = taken.iter().filter(|delivery| delivery.namespace == OTHER).count();
        assert_eq!((taken.len(), others), (10, 4), "{order:?}");
        fixture.clock().advance(LEASE);
    }
    // With room for one, the kind in front is served; the caller rotates.
    for first in [OTHER, KIND] {
        let mut order = kinds(&[KIND, OTHER]);
        order.sort_by_key(|name| name != first);
        let taken = store.next_ready(&order, 1).await.expect("a take succeeds");
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].namespace, first);
    }
}

/// Takers at once never get the same delivery, and together they get all.
pub async fn takers_at_once_never_get_the_same_delivery(fixture: &impl Fixture) {
    const WORKFLOWS: usize = 120;
    let handles = [fixture.store().clone(), fixture.second().await];
    for at in 0..WORKFLOWS {
        ready(handles[0].scheduler(), &format!("w-{at:03}")).await;
    }
    let takers = (0..8).map(|taker| {
        let store = handles[taker % 2].clone();
        tokio::spawn(async move {
            let mut taken = Vec::new();
            let mut misses = 0;
            // A taker may find all rows locked by the others and come home with nothing; it asks again.
            while misses < 50 {
                let deliveries = take(store.scheduler(), 7).await;
                misses = if deliveries.is_empty() { misses + 1 } else { 0 };
                taken.extend(deliveries.into_iter().map(|delivery| delivery.workflow));
            }
            taken
        })
    });
    let taken: Vec<String> = join_all(takers).await.into_iter().flat_map(Result::unwrap).collect();
    let different: HashSet<&String> = taken.iter().collect();
    assert_eq!((taken.len(), different.len()), (WORKFLOWS, WORKFLOWS));
}

/// Of wakeups and answers at once, no wakeup is lost.
pub async fn no_wakeup_is_lost_to_an_answer_at_the_same_time(fixture: &impl Fixture) {
    let (one_handle, other) = (fixture.store().clone(), fixture.second().await);
    for round in 0..30 {
        let workflow = format!("w-{round}");
        ready(one_handle.scheduler(), &workflow).await;
        let delivery = one(one_handle.scheduler()).await;
        let waker = {
            let (store, workflow) = (other.clone(), workflow.clone());
            tokio::spawn(async move { ready(store.scheduler(), &workflow).await })
        };
        if round % 2 == 0 {
            done(one_handle.scheduler(), &delivery).await;
        } else {
            let later = now(fixture).after(LEASE * 1_000);
            one_handle
                .scheduler()
                .wake_at(&delivery, later)
                .await
                .expect("an answer succeeds");
        }
        waker.await.expect("what the test set up is there");
        let again = one(one_handle.scheduler()).await;
        assert_eq!(again.workflow, workflow);
        done(one_handle.scheduler(), &again).await;
    }
}

/// `next_due` says how long it is until the next workflow of these kinds is due.
pub async fn the_next_due_is_the_earliest_of_the_kinds_asked_for(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    assert_eq!(due(store).await, None);
    assert_eq!(store.next_due(&[]).await.expect("a look succeeds"), None);
    for (workflow, seconds) in [("a", 50), ("b", 40)] {
        ready(store, workflow).await;
        let delivery = one(store).await;
        let when = now(fixture).after(SECOND * seconds);
        store.wake_at(&delivery, when).await.expect("an answer succeeds");
    }
    store.make_ready(OTHER, "c").await.expect("it is made ready");
    assert_eq!(due(store).await, Some(SECOND * 40));
    let both = store.next_due(&kinds(&[KIND, OTHER])).await.expect("a look succeeds");
    assert_eq!(both, Some(Duration::ZERO));
    fixture.clock().advance(SECOND * 45);
    assert_eq!(due(store).await, Some(Duration::ZERO));
    one(store).await;
    assert_eq!(due(store).await, Some(SECOND * 5));
}

/// `now` is the time of the clock that deadlines are judged by.
pub async fn now_is_the_time_of_the_clock(fixture: &impl Fixture) {
    let store = fixture.store().scheduler();
    assert_eq!(store.now().await.expect("the time"), now(fixture));
    fixture.clock().advance(LEASE + MICRO);
    assert_eq!(store.now().await.expect("the time"), now(fixture));
    assert_eq!(store.clock().bound(), Some(now(fixture)));
    assert_eq!(store.lease(), LEASE);
}

/// A whole fleet may prepare at once, and again, and nothing is lost.
pub async fn a_fleet_may_prepare_at_once(fixture: &impl Fixture) {
    ready(fixture.store().scheduler(), "w").await;
    let mut fleet = Vec::new();
    for _ in 0..4 {
        fleet.push(fixture.second().await);
    }
    let prepared = fleet.iter().map(|store| store.scheduler().prepare());
    for prepared in join_all(prepared).await {
        prepared.expect("a schema");
    }
    assert_eq!(one(fleet[0].scheduler()).await.workflow, "w");
}
