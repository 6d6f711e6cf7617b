//! Who may write: claims, tokens, leases, and what a claim tells of the passes before it.

use std::collections::HashSet;

use futures_util::future::join_all;
use passbook::{Checkpointer, Claim, Claimed, Durable, Error, Settlement};

use crate::fixture::{
    Fixture, LEASE, MICRO, claimed, completed, encode, failed, granted, keys, life, life_in, now, records, sleeping,
    waiting,
};

async fn claim(store: &impl Checkpointer, workflow: &str) -> Claimed {
    store.claim(workflow).await.expect("a claim succeeds")
}

async fn release(store: &impl Checkpointer, claim: &Claim, outcome: &Settlement) {
    assert!(store.release(claim, outcome).await.expect("a release succeeds"));
}

/// That a write under the claim is refused and changes nothing.
async fn is_fenced(store: &impl Checkpointer, claim: &Claim) {
    let before = records(store, &claim.workflow).await;
    let refused: [Error; 2] = [
        store.record(claim, "stale", &encode(&0)).await.expect_err("a record"),
        store.begin(claim, "stale").await.map(drop).expect_err("a transaction"),
    ];
    assert!(refused.iter().all(Error::is_fenced), "{refused:?}");
    assert_eq!(store.renew(&[life(claim)]).await.expect("a renewal"), [false]);
    assert!(!store.release(claim, &completed()).await.expect("a release"));
    assert!(!store.release(claim, &Settlement::HandedBack).await.expect("a release"));
    assert_eq!(records(store, &claim.workflow).await, before);
}

/// A workflow that was never seen is granted, with nothing to tell.
pub async fn a_workflow_that_was_never_seen_is_granted(fixture: &impl Fixture) {
    let granted = granted(fixture.store().checkpointer(), "w").await;
    assert_eq!(granted.claim.workflow, "w");
    assert_eq!((granted.attempts, granted.interrupted), (0, None));
}

/// `claim` says `Held` while somebody holds the workflow; others are free.
pub async fn a_held_workflow_is_not_granted(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let holder = claimed(store, "w").await;
    assert_eq!(claim(store, "w").await, Claimed::Held);
    assert_eq!(claim(fixture.second().await.checkpointer(), "w").await, Claimed::Held);
    assert_eq!(claimed(store, "v").await.workflow, "v");
    // The refused claims took nothing from the holder.
    assert!(store.record(&holder, "a", &encode(&1)).await.expect("a record").first);
}

/// Of claimers at once, exactly one is granted.
pub async fn of_concurrent_claimers_exactly_one_is_granted(fixture: &impl Fixture) {
    let handles = [fixture.store().clone(), fixture.second().await];
    let mut tokens = HashSet::new();
    for _ in 0..10 {
        let claimers = (0..16).map(|claimer| {
            let store = handles[claimer % 2].clone();
            tokio::spawn(async move { claim(store.checkpointer(), "w").await })
        });
        let granted: Vec<_> = join_all(claimers)
            .await
            .into_iter()
            .filter_map(|claimed| match claimed.expect("what the test set up is there") {
                Claimed::Granted(granted) => Some(granted),
                Claimed::Held => None,
                Claimed::Over => panic!("it is not over"),
            })
            .collect();
        assert_eq!(granted.len(), 1, "{granted:?}");
        assert!(tokens.insert(granted[0].claim.token), "a token never comes again");
        fixture.clock().advance(LEASE);
    }
}

/// Tokens strictly rise: over release, expiry, cancel, reopen and discard.
pub async fn tokens_rise_over_everything(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let mut tokens = Vec::new();
    for outcome in [
        waiting("x"),
        sleeping(now(fixture)),
        Settlement::HandedBack,
        failed(Some(now(fixture))),
    ] {
        let claim = claimed(store, "w").await;
        release(store, &claim, &outcome).await;
        tokens.push(claim.token);
    }
    tokens.push(claimed(store, "w").await.token);
    fixture.clock().advance(LEASE);
    tokens.push(claimed(store, "w").await.token);
    assert!(store.cancel("w").await.expect("a cancel"));
    assert!(store.reopen("w").await.expect("a reopen"));
    tokens.push(claimed(store, "w").await.token);
    store.discard("w").await.expect("a discard");
    tokens.push(claimed(store, "w").await.token);
    store.discard("w").await.expect("a discard");
    store.discard("w").await.expect("a discard");
    tokens.push(claimed(store, "w").await.token);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

/// A claim that is neither settled nor renewed may be taken over when its lease is over, and not a moment before.
pub async fn a_claim_is_taken_over_when_its_lease_is_over(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let dead = claimed(store, "w").await;
    fixture.clock().advance(LEASE - MICRO);
    assert_eq!(claim(store, "w").await, Claimed::Held);
    fixture.clock().advance(MICRO);
    let next = claimed(fixture.second().await.checkpointer(), "w").await;
    assert!(next.token > dead.token);
    is_fenced(store, &dead).await;
}

/// `release` hands back before the lease is over.
pub async fn a_released_workflow_is_granted_at_once(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let first = claimed(store, "w").await;
    release(store, &first, &waiting("x")).await;
    let next = claimed(store, "w").await;
    assert!(next.token > first.token);
    is_fenced(store, &first).await;
}

/// `release` keeps the token: the record that a pass was still writing when it was released is not refused.
pub async fn a_release_keeps_the_token(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let claim = claimed(store, "w").await;
    release(store, &claim, &waiting("x")).await;
    assert!(store.record(&claim, "a", &encode(&1)).await.expect("a record").first);
    assert_eq!(claimed(store, "w").await.token, claim.token + 1);
}

/// `renew` holds the workflow for another lease from now.
pub async fn a_renewal_holds_the_workflow_for_another_lease(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let holder = claimed(store, "w").await;
    for _ in 0..3 {
        fixture.clock().advance(LEASE - MICRO);
        assert_eq!(store.renew(&[life(&holder)]).await.expect("a renewal"), [true]);
        assert_eq!(claim(store, "w").await, Claimed::Held);
    }
    fixture.clock().advance(LEASE - MICRO);
    assert_eq!(claim(store, "w").await, Claimed::Held);
    fixture.clock().advance(MICRO);
    assert_eq!(granted(store, "w").await.attempts, 1);
}

/// `renew` says for each claim whether its pass still holds the workflow, in the order asked.
pub async fn a_renewal_says_of_each_whether_it_holds(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let stale = claimed(store, "taken").await;
    fixture.clock().advance(LEASE);
    let mut lives = vec![life(&stale)];
    for workflow in ["z", "cancelled", "a", "discarded", "m"] {
        lives.push(life(&claimed(store, workflow).await));
    }
    lives.push(life(&claimed(store, "taken").await));
    lives.push(life(&Claim {
        workflow: "unseen".to_owned(),
        token: 1,
    }));
    assert!(store.cancel("cancelled").await.expect("a cancel"));
    store.discard("discarded").await.expect("a discard");

    fixture.clock().advance(LEASE / 2);
    let alive = store.renew(&lives).await.expect("a renewal");
    assert_eq!(alive, [false, true, false, true, false, true, true, false]);
    fixture.clock().advance(LEASE / 2);
    for held in ["z", "a", "m", "taken"] {
        assert_eq!(claim(store, held).await, Claimed::Held, "{held}");
    }
    // A renewal of what was lost brought nothing to life.
    assert_eq!(claim(store, "cancelled").await, Claimed::Over);
    granted(store, "discarded").await;
    granted(store, "unseen").await;
    assert_eq!(store.renew(&[]).await.expect("a renewal"), [] as [bool; 0]);
}

/// A claim whose lease ran out but which nobody took over is renewed.
pub async fn a_claim_that_ran_out_and_was_not_taken_is_renewed(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let holder = claimed(store, "w").await;
    fixture.clock().advance(LEASE * 2);
    assert_eq!(store.renew(&[life(&holder)]).await.expect("a renewal"), [true]);
    assert_eq!(claim(store, "w").await, Claimed::Held);
    fixture.clock().advance(LEASE);
    assert!(claimed(store, "w").await.token > holder.token);
}

/// A renewal that comes after the release does not hold the workflow again.
pub async fn a_late_renewal_does_not_hold_a_released_workflow(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let first = claimed(store, "w").await;
    release(store, &first, &waiting("x")).await;
    store.renew(&[life_in(&first, "late")]).await.expect("a renewal");
    let next = granted(store, "w").await;
    assert_eq!((next.attempts, next.interrupted), (0, None));
}

/// A superseded pass's first write is refused, it changes nothing, and the new holder's lease is as it was.
pub async fn a_superseded_pass_cannot_record(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let stale = claimed(store, "w").await;
    assert!(store.record(&stale, "a", &encode(&1)).await.expect("a record").first);
    fixture.clock().advance(LEASE);
    let holder = claimed(store, "w").await;

    // Also where the key is taken: a stale pass is told that it is stale, not what stands there.
    let taken = store.record(&stale, "a", &encode(&2)).await.expect_err("a record");
    assert!(taken.is_fenced(), "{taken:?}");
    is_fenced(store, &stale).await;

    fixture.clock().advance(LEASE - MICRO);
    assert_eq!(claim(store, "w").await, Claimed::Held);
    assert!(store.record(&holder, "b", &encode(&3)).await.expect("a record").first);
    assert_eq!(keys(store, "w").await, ["a", "b"]);
    fixture.clock().advance(MICRO);
    assert!(claimed(store, "w").await.token > holder.token);
}

/// A superseded pass cannot hand back what another holds.
pub async fn a_superseded_pass_cannot_release(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let stale = claimed(store, "w").await;
    fixture.clock().advance(LEASE);
    let holder = claimed(store, "w").await;
    for outcome in [
        completed(),
        waiting("x"),
        failed(None),
        failed(Some(now(fixture))),
        Settlement::HandedBack,
    ] {
        assert!(!store.release(&stale, &outcome).await.expect("a release"));
        assert_eq!(claim(store, "w").await, Claimed::Held);
    }
    release(store, &holder, &waiting("x")).await;
    assert_eq!(granted(store, "w").await.attempts, 0);
}

/// A cancelled or discarded pass cannot write.
pub async fn a_cancelled_or_discarded_pass_cannot_write(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let cancelled = claimed(store, "cancelled").await;
    store.record(&cancelled, "a", &encode(&1)).await.expect("a record");
    assert!(store.cancel("cancelled").await.expect("a cancel"));
    is_fenced(store, &cancelled).await;
    assert_eq!(keys(store, "cancelled").await, ["a"]);
    assert!(store.reopen("cancelled").await.expect("a reopen"));
    is_fenced(store, &cancelled).await;

    let discarded = claimed(store, "discarded").await;
    store.record(&discarded, "a", &encode(&1)).await.expect("a record");
    assert_eq!(store.discard("discarded").await.expect("a discard"), 1);
    is_fenced(store, &discarded).await;
    assert_eq!(records(store, "discarded").await, []);
}

/// Of records and takeovers at once, no record of the old pass lands after the new pass has loaded.
pub async fn nothing_is_recorded_behind_the_back_of_a_new_pass(fixture: &impl Fixture) {
    let (one, other) = (fixture.store().clone(), fixture.second().await);
    for round in 0..20 {
        let workflow = format!("w-{round}");
        let stale = claimed(one.checkpointer(), &workflow).await;
        let writer = {
            let (store, stale) = (one.clone(), stale.clone());
            tokio::spawn(async move {
                let mut written = Vec::new();
                for at in 0.. {
                    let step = format!("step-{at:06}");
                    match store.checkpointer().record(&stale, &step, &encode(&at)).await {
                        Ok(_) => written.push(step),
                        Err(error) if error.is_fenced() => break,
                        Err(error) => panic!("{error}"),
                    }
                    tokio::task::yield_now().await;
                }
                written
            })
        };
        while keys(other.checkpointer(), &workflow).await.is_empty() {}
        fixture.clock().advance(LEASE);
        claimed(other.checkpointer(), &workflow).await;
        let loaded = keys(other.checkpointer(), &workflow).await;
        assert_eq!(
            writer.await.expect("what the test set up is there"),
            loaded,
            "what was recorded is what the new pass loaded"
        );
        assert_eq!(keys(other.checkpointer(), &workflow).await, loaded);
    }
}

/// A claim that nobody settled counts as a failed attempt.
pub async fn an_unsettled_claim_counts_as_a_failed_attempt(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    for attempts in 0..4 {
        assert_eq!(granted(store, "w").await.attempts, attempts);
        fixture.clock().advance(LEASE);
    }
}

/// A pass that got somewhere forgets the failures before it; one that was handed back neither adds nor forgets; one
/// that failed adds.
pub async fn attempts_count_the_failures_since_a_pass_got_somewhere(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let soon = now(fixture);
    let passes = [
        (failed(Some(soon)), 0),
        (failed(Some(soon)), 1),
        (Settlement::HandedBack, 2),
        (Settlement::HandedBack, 2),
        (waiting("x"), 2),
        (Settlement::HandedBack, 0),
        (failed(Some(soon)), 0),
        (sleeping(soon), 1),
    ];
    for (outcome, attempts) in passes {
        let granted = granted(store, "w").await;
        assert_eq!(granted.attempts, attempts, "before {outcome:?}");
        release(store, &granted.claim, &outcome).await;
    }
    // A failure and a death add up.
    let failing = granted(store, "w").await;
    assert_eq!(failing.attempts, 0);
    release(store, &failing.claim, &failed(Some(soon))).await;
    assert_eq!(granted(store, "w").await.attempts, 1);
    fixture.clock().advance(LEASE);
    assert_eq!(granted(store, "w").await.attempts, 2);
}

/// `interrupted` names the step that a renewal announced, when the claim was left unsettled.
pub async fn interrupted_names_the_step_that_a_renewal_announced(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let first = claimed(store, "w").await;
    store.renew(&[life_in(&first, "prepared")]).await.expect("a renewal");
    store.renew(&[life_in(&first, "charged")]).await.expect("a renewal");
    // A sign of life that names no step leaves what is there.
    store.renew(&[life(&first)]).await.expect("a renewal");
    fixture.clock().advance(LEASE);

    let second = granted(store, "w").await;
    assert_eq!((second.attempts, second.interrupted.as_deref()), (1, Some("charged")));
    store
        .renew(&[life_in(&second.claim, "charged")])
        .await
        .expect("a renewal");
    release(store, &second.claim, &waiting("x")).await;

    let third = granted(store, "w").await;
    assert_eq!((third.attempts, third.interrupted), (0, None));
    fixture.clock().advance(LEASE);
    let fourth = granted(store, "w").await;
    assert_eq!(
        (fourth.attempts, fourth.interrupted),
        (1, None),
        "the third announced nothing"
    );
}

/// A workflow that is completed, failed or cancelled is over: there is nothing to run.
pub async fn a_workflow_that_is_over_is_not_granted(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    for (workflow, outcome) in [("completed", completed()), ("failed", failed(None))] {
        let claim = claimed(store, workflow).await;
        release(store, &claim, &outcome).await;
    }
    store.supply("cancelled", "a", &encode(&1)).await.expect("a supply");
    assert!(store.cancel("cancelled").await.expect("a cancel"));
    for workflow in ["completed", "failed", "cancelled"] {
        assert_eq!(claim(store, workflow).await, Claimed::Over, "{workflow}");
        fixture.clock().advance(LEASE);
        assert_eq!(claim(store, workflow).await, Claimed::Over, "{workflow}");
    }
}

/// `cancel` says false of a workflow that is over or was never seen, and changes nothing.
pub async fn a_cancel_changes_nothing_of_what_is_over_or_unseen(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    assert!(!store.cancel("unseen").await.expect("a cancel"));
    granted(store, "unseen").await;

    let claim_of = claimed(store, "completed").await;
    release(store, &claim_of, &completed()).await;
    assert!(!store.cancel("completed").await.expect("a cancel"));
    assert!(
        !store.reopen("completed").await.expect("a reopen"),
        "it stays completed"
    );

    let claim_of = claimed(store, "failed").await;
    release(store, &claim_of, &failed(None)).await;
    assert!(!store.cancel("failed").await.expect("a cancel"));

    // Seen is what has a record or a claim, also when the pass is running.
    claimed(store, "running").await;
    assert!(store.cancel("running").await.expect("a cancel"));
    assert!(!store.cancel("running").await.expect("a cancel"));
    // What was discarded is as never seen.
    store.supply("discarded", "a", &encode(&1)).await.expect("a supply");
    claimed(store, "discarded").await;
    store.discard("discarded").await.expect("a discard");
    assert!(!store.cancel("discarded").await.expect("a cancel"));
}

/// `reopen` makes a failed or cancelled workflow claimable again, its attempts forgotten and its records kept.
pub async fn a_reopened_workflow_is_granted_with_its_attempts_forgotten(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    let first = claimed(store, "failed").await;
    store.record(&first, "a", &encode(&1)).await.expect("a record");
    release(store, &first, &failed(Some(now(fixture)))).await;
    let second = claimed(store, "failed").await;
    store.renew(&[life_in(&second, "b")]).await.expect("a renewal");
    release(store, &second, &failed(None)).await;
    claimed(store, "cancelled").await;
    assert!(store.cancel("cancelled").await.expect("a cancel"));

    for workflow in ["failed", "cancelled"] {
        assert!(store.reopen(workflow).await.expect("a reopen"));
        assert!(!store.reopen(workflow).await.expect("a reopen"), "it is open now");
        let granted = granted(store, workflow).await;
        assert_eq!((granted.attempts, granted.interrupted), (0, None), "{workflow}");
    }
    assert_eq!(keys(store, "failed").await, ["a"]);
}

/// `reopen` says false of a workflow that is neither failed nor cancelled.
pub async fn only_failed_and_cancelled_workflows_are_reopened(fixture: &impl Fixture) {
    let store = fixture.store().checkpointer();
    assert!(!store.reopen("unseen").await.expect("a reopen"));
    let holder = claimed(store, "w").await;
    assert!(!store.reopen("w").await.expect("a reopen"));
    assert_eq!(claim(store, "w").await, Claimed::Held);
    release(store, &holder, &waiting("x")).await;
    assert!(!store.reopen("w").await.expect("a reopen"));
    let last = claimed(store, "w").await;
    release(store, &last, &completed()).await;
    assert!(!store.reopen("w").await.expect("a reopen"));
    assert_eq!(claim(store, "w").await, Claimed::Over);
}
