//! Two handles on one file, as two processes have.

mod common;

use std::collections::HashMap;

use passbook::{Checkpointer, Claimed, Durable, Settlement};

use common::{Home, LEASE, acquired, claimed, value};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handles_never_both_claim() {
    let home = Home::new();
    let stores = [home.prepared().await, home.prepared().await];
    for round in 0..20 {
        let workflow = format!("w{round}");
        let claims: Vec<_> = (0..8)
            .map(|n| {
                let (store, workflow) = (stores[n % 2].clone(), workflow.clone());
                tokio::spawn(async move { store.checkpointer().claim(&workflow).await.unwrap() })
            })
            .collect();
        let mut granted = 0;
        for claim in claims {
            granted += usize::from(matches!(claim.await.unwrap(), Claimed::Granted(_)));
        }
        assert_eq!(granted, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handles_share_out_what_is_ready() {
    let home = Home::new();
    let stores = [home.prepared().await, home.prepared().await];
    for n in 0..60 {
        stores[n % 2]
            .start("orders", &format!("w{n:02}"), &value("x"))
            .await
            .unwrap();
    }
    let workers: Vec<_> = stores
        .iter()
        .cloned()
        .map(|store| {
            tokio::spawn(async move {
                let mut ran = Vec::new();
                loop {
                    let passes = acquired(&store, "orders", 7).await;
                    if passes.is_empty() {
                        return ran;
                    }
                    for (pass, delivery) in passes {
                        assert_eq!(pass.records.len(), 1);
                        let result = Settlement::Completed { result: value("done") };
                        assert!(store.settle(&pass.claim, &delivery, &result).await.unwrap().is_held());
                        ran.push(pass.claim.workflow);
                    }
                }
            })
        })
        .collect();
    let mut passes: HashMap<String, u32> = HashMap::new();
    for worker in workers {
        for workflow in worker.await.unwrap() {
            *passes.entry(workflow).or_default() += 1;
        }
    }
    assert_eq!(passes.len(), 60);
    assert!(passes.values().all(|passes| *passes == 1), "{passes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waited_for_the_lock_counts_its_lease_from_when_it_was_granted() {
    let home = Home::new();
    let (one, two) = (home.prepared().await, home.prepared().await);
    let held = one.file().begin().await.unwrap();
    let waiting = tokio::spawn({
        let two = two.clone();
        async move { claimed(&two, "w").await }
    });
    home.clock.advance(LEASE * 2);
    held.commit().await.unwrap();
    waiting.await.unwrap();
    assert_eq!(one.checkpointer().claim("w").await.unwrap(), Claimed::Held);
}
