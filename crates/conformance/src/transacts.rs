//! A step whose own writes commit with its record, as a body sees it.

use std::cell::Cell;

use passbook::{Outcome, Run, Tx};
use tokio::sync::Notify;

use crate::bed::{Bed, KIND, Store, completed, encode, failed, suspended};

/// What stands for the application's own writes: a workflow that is started in the same commit.
const CHILD: &str = "child";

async fn write<S: Store>(bed: &Bed<S>, tx: &mut Tx<S>) {
    let started = bed.store.start_in(tx, KIND, CHILD, &encode(&1)).await;
    assert!(started.expect("a start succeeds").first);
}

async fn written<S: Store>(bed: &Bed<S>) -> bool {
    let status = bed.store.status(CHILD).await;
    status.expect("a status can be read").is_some()
}

/// `transact` runs its effect once over all passes: later ones return what is recorded.
pub async fn an_effect_is_run_once_over_all_passes<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let count = Cell::new(0);
    let effect = async |run: &Run<S>| {
        let posted: Result<u32, String> = run
            .transact("posted", async |tx| {
                count.set(count.get() + 1);
                write(&bed, tx).await;
                Ok(count.get())
            })
            .await;
        (posted, run.awaiting::<u32>("go").await)
    };
    suspended(bed.pass(effect).await);
    assert!(written(&bed).await, "it is there with the record");
    assert_eq!(bed.steps("w").await, ["posted"]);
    assert_eq!(bed.take().await.expect("the child is due").0.claim.workflow, CHILD);
    bed.arrive("w", "go", &7).await;
    let effect = async |run: &Run<S>| {
        let posted: Result<u32, String> = run.transact("posted", async |_| Ok(99)).await;
        (posted, run.awaiting::<u32>("go").await)
    };
    assert_eq!(completed(bed.pass(effect).await), (Ok(1), 7));
    assert_eq!(count.get(), 1);
}

/// The error of an effect goes to the body; what it wrote is rolled back, and nothing is recorded.
pub async fn an_effect_that_fails_leaves_nothing<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        run.transact("posted", async |tx| {
            write(&bed, tx).await;
            Err::<(), _>("no ink".to_owned())
        })
        .await
    });
    assert_eq!(completed(outcome.await), Err("no ink".to_owned()));
    assert!(!written(&bed).await);
    assert!(bed.steps("w").await.is_empty());
}

/// An effect that panics leaves nothing, and its pass is failed with the message.
pub async fn an_effect_that_panics_leaves_nothing<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        run.transact("posted", async |tx| -> Result<(), String> {
            write(&bed, tx).await;
            panic!("out of ink")
        })
        .await
    });
    let (message, permanent) = failed(outcome.await);
    assert!(
        message.contains("out of ink") && message.contains("`posted`"),
        "{message}"
    );
    assert!(!permanent);
    assert!(!written(&bed).await);
    assert!(bed.steps("w").await.is_empty());
}

/// A value that the store refuses rolls its effect back: nothing has happened, and the workflow is parked.
pub async fn an_effect_whose_value_is_refused_leaves_nothing<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        run.transact("posted", async |tx| {
            write(&bed, tx).await;
            Ok::<_, String>(f64::NAN)
        })
        .await
    });
    let (message, permanent) = failed(outcome.await);
    assert!(message.contains("`posted`") && message.contains("`w`"), "{message}");
    assert!(permanent);
    assert!(!written(&bed).await);
    assert!(bed.steps("w").await.is_empty());
}

/// A superseded pass performs nothing, and its body never sees why.
pub async fn a_superseded_pass_performs_no_effect<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let (stale, _) = bed.take().await.expect("due");
    bed.clock.advance(stale.lease);
    bed.take().await.expect("taken over");
    let (ran, after) = (Cell::new(false), Cell::new(false));
    let outcome = passbook::resume(stale, &bed.store, async |run| {
        let posted: Result<(), String> = run
            .transact("posted", async |tx| {
                ran.set(true);
                write(&bed, tx).await;
                Ok(())
            })
            .await;
        after.set(true);
        posted
    });
    assert!(matches!(outcome.await, Outcome::Lost(error) if error.is_fenced()));
    assert!(!ran.get() && !after.get());
    assert!(!written(&bed).await);
}

/// A value that was supplied under the name is what `transact` returns; the effect does not run.
pub async fn a_value_supplied_for_an_effect_is_returned<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let (pass, delivery) = bed.take().await.expect("due");
    // After the checkpoint was loaded: only the store can know of it.
    assert!(bed.arrive("w", "posted", &5).await);
    let outcome = bed.run(pass, &delivery, async |run| {
        run.transact("posted", async |_| -> Result<u32, String> { panic!("it would run") })
            .await
    });
    assert_eq!(completed(outcome.await), Ok(5));
}

/// Once an effect has returned it is committed with its record, even if nobody waits for the step any more.
pub async fn an_effect_that_returned_commits_though_its_step_was_dropped<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let returned = Notify::new();
    let outcome = bed.pass(async |run| {
        let posting = run.transact("posted", async |tx| {
            write(&bed, tx).await;
            returned.notify_one();
            Ok::<_, String>(())
        });
        tokio::select! {
            biased;
            _ = posting => false,
            () = returned.notified() => true,
        }
    });
    assert!(completed(outcome.await), "the step lost the race");
    assert!(written(&bed).await);
    assert!(bed.steps("w").await.contains(&"posted".to_owned()));
}

/// Two effects side by side in one pass both commit, each with its record.
pub async fn two_effects_side_by_side_both_commit<S: Store>(bed: Bed<S>) {
    bed.start("w").await;
    let outcome = bed.pass(async |run| {
        let one = run.transact("one", async |tx| {
            tokio::task::yield_now().await;
            let started = bed.store.start_in(tx, KIND, "child 1", &encode(&1)).await;
            Ok::<_, String>(started.expect("a start succeeds").first)
        });
        let other = run.transact("other", async |tx| {
            tokio::task::yield_now().await;
            let started = bed.store.start_in(tx, KIND, "child 2", &encode(&2)).await;
            Ok::<_, String>(started.expect("a start succeeds").first)
        });
        tokio::join!(one, other)
    });
    assert_eq!(completed(outcome.await), (Ok(true), Ok(true)));
    let mut steps = bed.steps("w").await;
    steps.sort_unstable();
    assert_eq!(steps, ["one", "other"]);
    for child in ["child 1", "child 2"] {
        assert_eq!(bed.status(child).await.records, 1);
    }
}
