//! A workflow over a store that fails at every boundary, before and after the call: what is done is counted to the one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conformance::bed::{Bed, KIND, MORNING, Store, encode};
use conformance::faulty::{Faults, FaultyDurable, Side};
use passbook::{
    Acquire, Checkpointer as _, Clock, Durable, MemoryStore, Outcome, Run, Scheduler as _, Settlement, State, resume,
};
use passbook_postgres::Postgres;
use passbook_sqlite::Sqlite;

const NAP: Duration = Duration::from_mins(1);

/// How often each effect has run.
#[derive(Clone, Debug, Default)]
struct Counts {
    first: Arc<AtomicU32>,
    ledger: Arc<AtomicU32>,
    last: Arc<AtomicU32>,
}

fn one(count: &AtomicU32) -> u32 {
    count.fetch_add(1, Ordering::SeqCst)
}

/// A step, a step of its own SQL, a sleep, a wait, and a step.
async fn body<S: Durable>(run: &Run<S>, counts: &Counts) -> Result<u32, String> {
    run.step("first", async || Ok::<_, String>(one(&counts.first))).await?;
    run.transact("ledger", async |_| Ok::<_, String>(one(&counts.ledger)))
        .await?;
    run.sleep("nap", NAP).await;
    let value = run.awaiting::<u32>("value").await;
    run.step("last", async || Ok::<_, String>(one(&counts.last))).await?;
    Ok(value)
}

/// One pass as a worker makes it, but for patience: what fails is left as a process leaves it that dies there.
async fn pass<S: Durable>(store: &S, counts: &Counts) -> passbook::Result<()> {
    let namespaces = [KIND.to_owned()];
    let request = Acquire::new(&namespaces, 1);
    for (pass, delivery) in store.acquire(&request).await?.passes {
        let claim = pass.claim.clone();
        let settlement = match resume(pass, store, async |run| body(run, counts).await).await {
            Outcome::Completed(Ok(value)) => Settlement::Completed { result: encode(&value) },
            Outcome::Suspended { wake_at, waits_for } => Settlement::Suspended { wake_at, waits_for },
            Outcome::Lost(_) => continue,
            other => panic!("neither the body nor the driver fails by itself: {other:?}"),
        };
        store.settle(&claim, &delivery, &settlement).await?;
    }
    Ok(())
}

/// Brings one workflow to its end over a store that fails once, and asks again as its callers do.
async fn to_its_end<S: Store>(bed: &Bed<S>, faults: &Faults, workflow: &str, call: u64, side: Side) -> (Counts, u64) {
    let store = FaultyDurable::new(bed.store.clone(), faults);
    let counts = Counts::default();
    let before = faults.calls();
    faults.fail_at(call, side);
    let started = store.start(KIND, workflow, &encode(&())).await;
    if started.is_err() {
        store.start(KIND, workflow, &encode(&())).await.expect("asking again");
    }
    let mut sent = false;
    for _ in 0..40 {
        let _ = pass(&store, &counts).await;
        let status = bed.status(workflow).await;
        if status.state == State::Completed {
            faults.heal();
            return (counts, faults.calls() - before);
        }
        if status.state == State::Waiting && !sent {
            sent = store.arrive(KIND, workflow, "value", &encode(&7)).await.is_ok();
        }
        // Past the nap, and past the lease of a pass that died.
        bed.clock.advance(NAP + bed.store.scheduler().lease());
    }
    panic!(
        "`{workflow}` does not come to its end: {:?}",
        bed.status(workflow).await
    );
}

async fn every_boundary<S: Store>(bed: Bed<S>) {
    let faults = Faults::none();
    let (counts, calls) = to_its_end(&bed, &faults, "unharmed", u64::MAX / 2, Side::Before).await;
    for count in [&counts.first, &counts.ledger, &counts.last] {
        assert_eq!(count.load(Ordering::SeqCst), 1, "without a failure");
    }
    assert!(calls > 10, "there are boundaries to fail at");
    let mut repeated = 0;
    for call in 0..calls {
        for side in [Side::Before, Side::After] {
            let workflow = format!("{call} {side:?}");
            let (counts, _) = to_its_end(&bed, &faults, &workflow, call, side).await;
            for count in [&counts.first, &counts.last] {
                let times = count.load(Ordering::SeqCst);
                assert!(
                    (1..=2).contains(&times),
                    "{workflow}: one failure repeats a step once at most, not {times}"
                );
                repeated += times - 1;
            }
            let records = bed.store.checkpointer().load(&workflow).await.expect("records");
            let ledger = records.iter().filter(|record| record.step == "ledger").count();
            assert_eq!(ledger, 1, "{workflow}");
            assert_eq!(bed.status(&workflow).await.state, State::Completed);
        }
    }
    println!("{calls} boundaries, {repeated} effects repeated");
}

#[tokio::test]
async fn a_failure_at_any_boundary_loses_and_doubles_nothing_in_memory() {
    let clock = Clock::manual(MORNING);
    let store = MemoryStore::with(Duration::from_secs(30), clock.clone()).expect("a store");
    every_boundary(Bed::new(store, clock)).await;
}

#[tokio::test]
async fn a_failure_at_any_boundary_loses_and_doubles_nothing_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Clock::manual(MORNING);
    let options = Sqlite::options().clock(clock.clone());
    let store = options.open(folder.path().join("store.db")).await.expect("a store");
    store.scheduler().prepare().await.expect("a schema");
    every_boundary(Bed::new(store, clock)).await;
}

#[tokio::test]
async fn a_failure_at_any_boundary_loses_and_doubles_nothing_on_postgres() {
    let schema = conformance::server::schema();
    let clock = Clock::manual(MORNING);
    let options = Postgres::options().schema(schema.name()).clock(clock.clone());
    let store = options.connect(schema.url()).await.expect("a store");
    store.scheduler().prepare().await.expect("a schema");
    every_boundary(Bed::new(store, clock)).await;
}
