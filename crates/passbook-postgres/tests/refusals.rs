//! What a store refuses at its construction, and what it says.

mod common;

use std::time::Duration;

use common::url;
use passbook::Error;
use passbook_postgres::{Postgres, PostgresCheckpointer, PostgresOptions, PostgresScheduler};
use sqlx::postgres::PgPoolOptions;

#[track_caller]
fn invalid(refused: &Error, says: &[&str]) {
    assert!(refused.is_invalid(), "{refused}");
    for words in says {
        assert!(refused.to_string().contains(words), "`{words}` is not in: {refused}");
    }
}

#[tokio::test]
async fn two_pools_are_not_one_store() {
    let pool = || PgPoolOptions::new().connect_lazy(&url()).expect("the URL can be read");
    let (one, other) = (pool(), pool());
    let options = PostgresOptions::default();
    let checkpointer = PostgresCheckpointer::new(one.clone(), &options).expect("a checkpointer");
    let scheduler = PostgresScheduler::new(other, &options).expect("a scheduler");
    let refused = Postgres::new(checkpointer.clone(), scheduler).expect_err("they are two");
    invalid(&refused, &["two pools", "SplitDurable"]);
    let scheduler = PostgresScheduler::new(one, &options).expect("a scheduler");
    Postgres::new(checkpointer, scheduler).expect("they share one pool");
}

#[tokio::test]
async fn halves_with_two_leases_or_schemas_are_not_one_store() {
    let pool = PgPoolOptions::new().connect_lazy(&url()).expect("the URL can be read");
    let options = PostgresOptions::default();
    let checkpointer = PostgresCheckpointer::new(pool.clone(), &options).expect("a checkpointer");
    for other in [
        Postgres::options().lease(Duration::from_secs(7)),
        Postgres::options().schema("elsewhere"),
    ] {
        let scheduler = PostgresScheduler::new(pool.clone(), &other).expect("a scheduler");
        let refused = Postgres::new(checkpointer.clone(), scheduler).expect_err("they differ");
        invalid(&refused, &["schema or lease"]);
    }
}

#[tokio::test]
async fn a_duration_of_zero_is_refused_by_its_name() {
    let zero = Duration::ZERO;
    for (name, options) in [
        ("lease", Postgres::options().lease(zero)),
        ("poll", Postgres::options().poll(zero)),
        ("patience", Postgres::options().patience(zero)),
    ] {
        let refused = options.connect(&url()).await.expect_err("it is zero");
        invalid(&refused, &[name]);
    }
}

#[tokio::test]
async fn a_schema_that_is_no_name_is_refused() {
    for name in ["", "1st", "a b", "x\"; DROP TABLE workflow_claim --", &"x".repeat(64)] {
        let refused = Postgres::options()
            .schema(name)
            .connect(&url())
            .await
            .expect_err("it is no name");
        invalid(&refused, &["schema"]);
    }
}

#[tokio::test]
async fn a_lease_shorter_than_three_round_trips_is_refused() {
    let options = Postgres::options().lease(Duration::from_nanos(1));
    let refused = options
        .clone()
        .connect(&url())
        .await
        .expect_err("no sign of life could keep up with it");
    invalid(&refused, &["lease", "three round trips"]);
}

#[tokio::test]
async fn a_url_that_cannot_be_read_says_what_one_looks_like() {
    let refused = Postgres::connect("postgres://[not a host")
        .await
        .expect_err("it is no URL");
    invalid(&refused, &["postgres://user:password@host"]);
}
