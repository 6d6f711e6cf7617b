//! Writes that are asked for while others are in flight go together.

mod common;

use std::collections::BTreeSet;

use common::{Home, KIND, value};
use passbook::{Batches, Checkpointer as _, Durable as _};
use passbook_postgres::Postgres;
use tokio::task::JoinSet;

const WRITES: u64 = 300;

fn counted(store: &Postgres, kind: &str) -> Batches {
    let found = store.batches().into_iter().find(|(name, _)| *name == kind);
    found.expect("it is a kind of write").1
}

/// Delivers many values to a few workflows at once, and returns what they were filed under.
async fn deliver(store: &Postgres) -> BTreeSet<String> {
    let mut sends = JoinSet::new();
    for n in 0..WRITES {
        let store = store.clone();
        sends.spawn(async move {
            let workflow = format!("w{}", n % 7);
            let key = store.deliver(KIND, &workflow, &value(&n.to_string())).await.unwrap();
            format!("{workflow} {key}")
        });
    }
    sends.join_all().await.into_iter().collect()
}

#[tokio::test]
async fn writes_that_wait_together_go_together_and_none_is_lost() {
    let home = Home::new();
    let store = home.prepared().await;
    let filed = deliver(&store).await;
    assert_eq!(filed.len() as u64, WRITES, "each has a key of its own");
    let counted = counted(&store, "deliver");
    assert_eq!((counted.requests, counted.waiting), (WRITES, 0));
    assert!(counted.statements < WRITES / 3 && counted.largest > 3, "{counted:?}");
    let mut there = BTreeSet::new();
    for n in 0..7 {
        let workflow = format!("w{n}");
        let records = store.checkpointer().load(&workflow).await.unwrap();
        there.extend(records.into_iter().map(|record| format!("{workflow} {}", record.step)));
    }
    assert_eq!(there, filed);
    home.drop().await;
}

#[tokio::test]
async fn without_batching_each_write_goes_by_itself() {
    let home = Home::new();
    home.prepared().await;
    let store = home.options().batching(false).connect(&common::url()).await.unwrap();
    deliver(&store).await;
    let counted = counted(&store, "deliver");
    assert_eq!(
        (counted.requests, counted.statements, counted.largest),
        (WRITES, WRITES, 1)
    );
    home.drop().await;
}

#[tokio::test]
async fn large_values_do_not_go_together() {
    let home = Home::new();
    let store = home.prepared().await;
    let large = value(&"x".repeat(300 << 10));
    let mut sends = JoinSet::new();
    for n in 0..20 {
        let (store, large) = (store.clone(), large.clone());
        sends.spawn(async move { store.deliver(KIND, &format!("w{n}"), &large).await.unwrap() });
    }
    sends.join_all().await;
    let counted = counted(&store, "deliver");
    assert_eq!((counted.requests, counted.statements, counted.largest), (20, 20, 1));
    home.drop().await;
}
