//! The sentences about passes, on Postgres.

use std::time::Duration;

use conformance::bed::{Bed, MORNING};
use conformance::server::{Schema, schema};
use passbook::{Clock, Durable as _, Scheduler as _};
use passbook_postgres::Postgres;

async fn postgres() -> (Bed<Postgres>, Schema) {
    let schema = schema();
    let clock = Clock::manual(MORNING);
    let options = Postgres::options()
        .schema(schema.name())
        .connections(4)
        .clock(clock.clone());
    let store = options
        .lease(Duration::from_secs(30))
        .connect(schema.url())
        .await
        .expect("a store");
    store.scheduler().prepare().await.expect("a schema");
    (Bed::new(store, clock), schema)
}

conformance::pass_sentences!(super::postgres);
