//! Plans do not depend on statistics: what was prepared on empty tables still uses the indexes when they are full.
//!
//! Of tables that were vacuumed while they held not one page this is not so: the server then believes that reading them
//! whole is free, whatever the statement says, until it is told otherwise by the next analyze.

mod common;
#[path = "common/wire.rs"]
mod wire;

use common::{Home, acquired, count, run, url};
use sqlx::{AssertSqlSafe, PgConnection};
use wire::Wire;

/// The statements whose pace matters, with the types and the values of their parameters.
const HOT: &[(&str, &str, &str)] = &[
    (
        "acquire",
        "text[], bigint, timestamptz, interval, timestamptz[]",
        "'{kind,other}', 50, NULL, '30 s', ARRAY[NULL, now()]",
    ),
    (
        "acquire_unshared",
        "text[], bigint, timestamptz, interval, timestamptz[]",
        "'{kind,other}', 50, NULL, '30 s', ARRAY[NULL, now()]",
    ),
    ("append", "text, text", "'w500', '1'"),
    (
        "arrive",
        "text, text, text, text, timestamptz",
        "'kind', 'w500', 'key', '1', NULL",
    ),
    ("begin", "text, text, bigint", "'w500', 'step', 1"),
    (
        "arrive_many",
        "text[], text[], text[], text[], timestamptz",
        "'{kind,kind}', '{w500,w501}', '{key,key}', '{1,1}', NULL",
    ),
    ("cancel", "text, text, timestamptz", "'kind', 'w500', NULL"),
    ("claim", "text, timestamptz, interval", "'w500', NULL, '30 s'"),
    ("claim_state", "text", "'w500'"),
    ("deliver", "text, text, text, timestamptz", "'kind', 'w500', '1', NULL"),
    (
        "deliver_many",
        "text[], text[], text[], timestamptz",
        "'{kind,kind}', '{w500,w501}', '{1,1}', NULL",
    ),
    ("dequeue", "text, text", "'kind', 'w500'"),
    ("discard", "text", "'w500'"),
    (
        "done",
        "text, text, timestamptz, timestamptz",
        "'kind', 'w500', now(), NULL",
    ),
    (
        "extend",
        "text[], text[], timestamptz[], timestamptz, interval",
        "'{kind,kind}', '{w500,w501}', ARRAY[now(), now()], NULL, '30 s'",
    ),
    ("fence", "text, text, timestamptz", "'kind', 'w500', NULL"),
    ("finished", "text[]", "'{w500,w501}'"),
    ("load", "text[], bigint[]", "'{w500,w501}', '{NULL,1}'"),
    ("look_up", "text, text", "'w500', 'step'"),
    ("make_ready", "text, text, timestamptz", "'kind', 'w500', NULL"),
    ("next_due", "text[], timestamptz", "'{kind,other}', NULL"),
    (
        "next_ready",
        "text[], bigint, timestamptz, interval",
        "'{kind,other}', 50, NULL, '30 s'",
    ),
    (
        "record_many",
        "text[], text[], text[], bigint[]",
        "'{w500,w501}', '{step,step}', '{1,1}', '{1,1}'",
    ),
    ("record", "text, text, text, bigint", "'w500', 'step', '1', 1"),
    (
        "renew",
        "text[], text[], bigint[], timestamptz[], text[], timestamptz, interval",
        "'{kind,kind}', '{w500,w501}', '{1,1}', ARRAY[now(), now()], ARRAY[NULL, 'step'], NULL, '30 s'",
    ),
    ("reopen", "text, text, timestamptz", "'kind', 'w500', NULL"),
    (
        "settle",
        "text, text, bigint, timestamptz, timestamptz, text, text[], timestamptz, text, text",
        "'kind', 'w500', 1, now(), NULL, 'completed', '{}', NULL, NULL, '1'",
    ),
    (
        "settle_many",
        "text[], text[], bigint[], timestamptz[], timestamptz, text[], text[], timestamptz[], text[], text[]",
        "'{kind,kind}', '{w500,w501}', '{1,1}', ARRAY[now(), now()], NULL, '{completed,waiting}', ARRAY[NULL, '[\"a\"]'], \
         ARRAY[NULL, NULL]::timestamptz[], ARRAY[NULL, NULL], ARRAY['1', NULL]",
    ),
    (
        "start_many",
        "text[], text[], text[], timestamptz",
        "'{kind,kind}', '{w500,w501}', '{1,1}', NULL",
    ),
    ("start", "text, text, text, timestamptz", "'kind', 'w500', '1', NULL"),
    (
        "start_claimed",
        "text, text, text, timestamptz, interval",
        "'kind', 'w500', '1', NULL, '30 s'",
    ),
    ("status", "text, timestamptz", "'w500', NULL"),
    ("supply", "text, text, text", "'w500', 'step', '1'"),
    (
        "wake_at",
        "text, text, timestamptz, timestamptz, timestamptz",
        "'kind', 'w500', now(), now(), NULL",
    ),
];

const FILL: &str = "
INSERT INTO workflow_queue SELECT 'kind', 'w' || n, now() + interval '1 day' + n * interval '1 second'
    FROM generate_series(1, 1000000) n ON CONFLICT DO NOTHING;
INSERT INTO workflow_checkpoint (workflow, step, value, arrived) SELECT 'w' || n % 100000, 'step-' || n, '1', n % 10 = 0
    FROM generate_series(1, 1000000) n;
INSERT INTO workflow_claim (workflow, token, held_until) SELECT 'w' || n, 1, now()
    FROM generate_series(1, 100000) n ON CONFLICT DO NOTHING;
UPDATE workflow_queue SET visible_at = now() WHERE workflow IN ('w500', 'w501');";

/// The statement that takes without sharing out, as it is sent.
async fn acquire_unshared(home: &Home) -> String {
    let (wire, url) = Wire::tap(&url()).await;
    let store = home.options().hints(false).connect(&url).await.unwrap();
    wire.executed();
    assert!(acquired(&store, 1).await.is_empty());
    let sent = wire.executed().pop().unwrap();
    assert!(
        sent.starts_with("WITH wanted") && !sent.contains("row_number()"),
        "{sent}"
    );
    sent.replace(&format!("\"{}\".", home.schema), "")
}

async fn explain(connection: &mut PgConnection, name: &str, values: &str) -> String {
    let sql = format!("EXPLAIN (COSTS OFF) EXECUTE {name}({values})");
    let lines: Vec<String> = sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_all(connection)
        .await
        .unwrap();
    lines.join("\n")
}

/// A statement without its comments.
fn statement(name: &str) -> String {
    let path = format!("{}/sql/{name}.sql", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect();
    lines.join("\n")
}

/// Where the tables are spread over servers by workflow, such statements run as one command on the server of the workflow: an
/// upsert whose update asks no clock, and a record without a `WITH`.
#[test]
fn the_claim_and_the_record_keep_the_shapes_that_travel() {
    let claim = statement("claim");
    let (insert, update) = claim.split_once("DO UPDATE").unwrap();
    assert!(insert.contains("VALUES") && !insert.contains("WITH"), "{insert}");
    assert!(update.contains("excluded.held_until - held.held_until >= "), "{update}");
    for asks in ["now()", "clock_timestamp()", "coalesce(", "nextval("] {
        assert!(!update.contains(asks), "{update}");
    }
    let record = statement("record");
    assert!(
        !record.contains("WITH") && record.contains("FOR NO KEY UPDATE"),
        "{record}"
    );
    assert!(record.contains("WHERE c.workflow = $1 AND c.token <= $4"), "{record}");
    for whole in ["claim", "record", "supply"] {
        assert!(!statement(whole).contains("JOIN"), "{whole} is about one workflow");
    }
}

// The only test of its program that has a schema: one that another test makes or drops has every session plan anew.
#[tokio::test]
async fn what_was_prepared_on_new_tables_searches_full_ones_by_index() {
    let home = Home::new();
    home.prepared().await;
    let mut session = home.foreign().await;
    // No other session may analyze the tables: that would plan anew.
    run(&mut session, "SET plan_cache_mode = force_generic_plan; SET jit = off").await;
    for table in ["checkpoint", "claim", "queue"] {
        let alone = format!("ALTER TABLE workflow_{table} SET (autovacuum_enabled = false)");
        run(&mut session, &alone).await;
    }
    let unshared = acquire_unshared(&home).await;
    for (name, types, values) in HOT {
        let sql = if *name == "acquire_unshared" {
            unshared.clone()
        } else {
            statement(name).replace("{schema}", "")
        };
        run(&mut session, &format!("PREPARE {name}({types}) AS {sql}")).await;
        run(&mut session, &format!("EXECUTE {name}({values})")).await;
    }
    for table in ["checkpoint", "claim", "queue"] {
        run(&mut session, &format!("DELETE FROM workflow_{table}")).await;
    }

    // Before the fill it is surely the plan of empty tables; after it, it must not have become another.
    searched_by_index(&mut session).await;
    run(&mut home.foreign().await, FILL).await;
    searched_by_index(&mut session).await;
    nobody_is_compared_with_everybody(&mut session).await;
    home.drop().await;
}

/// What a statement for many reads and writes grows with their number, and not with its square.
async fn nobody_is_compared_with_everybody(session: &mut PgConnection) {
    const MANY: usize = 100;
    let all = |of: &str| vec![of; MANY].join(",");
    let names: Vec<_> = (0..MANY).map(|at| format!("m{at}")).collect();
    let names = names.join(",");
    let (kind, step, one, none) = (all("kind"), all("step"), all("1"), all("NULL"));
    let mut receipts = "'{}'".to_owned();
    for statement in [
        "start_many",
        "arrive_many",
        "deliver_many",
        "acquire_unshared",
        "load",
        "record_many",
        "renew",
        "finished",
        "settle_many",
    ] {
        let values = match statement {
            "start_many" | "deliver_many" => {
                format!("'{{{kind}}}', '{{{names}}}', '{{{one}}}', now() - interval '1 hour'")
            }
            "arrive_many" => {
                format!("'{{{kind}}}', '{{{names}}}', '{{{step}}}', '{{{one}}}', now() - interval '1 hour'")
            }
            "acquire_unshared" => format!("'{{kind}}', {MANY}, NULL, '30 s', '{{NULL}}'"),
            "load" => format!("'{{{names}}}', '{{{none}}}'"),
            "record_many" => format!("'{{{names}}}', '{{{}}}', '{{{one}}}', '{{{one}}}'", all("new")),
            "renew" => format!("'{{{kind}}}', '{{{names}}}', '{{{one}}}', {receipts}, '{{{none}}}', NULL, '30 s'"),
            "finished" => format!("'{{{names}}}'"),
            _ => {
                let (states, waits) = (all("completed"), all("NULL"));
                format!(
                    "'{{{kind}}}', '{{{names}}}', '{{{one}}}', {receipts}, NULL, '{{{states}}}', '{{{waits}}}', \
                     '{{{none}}}', '{{{none}}}', '{{{one}}}'"
                )
            }
        };
        let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE {statement}({values})");
        let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain))
            .fetch_all(&mut *session)
            .await
            .unwrap();
        let plan = plan.join("\n");
        assert!(plan.contains(&format!("(actual rows={MANY} ")), "{statement}:\n{plan}");
        assert!(!plan.contains("Rows Removed by Join Filter"), "{statement}:\n{plan}");
        let read =
            "SELECT 'ARRAY[' || string_agg(quote_literal(visible_at), ',' ORDER BY workflow) || ']::timestamptz[]'
            FROM workflow_queue WHERE workflow LIKE 'm%'";
        let now: Option<String> = sqlx::query_scalar(read).fetch_one(&mut *session).await.unwrap();
        receipts = now.unwrap_or_default();
    }
    let ended = "SELECT count(*) FROM workflow_claim WHERE workflow LIKE 'm%' AND state = 'completed'";
    assert_eq!(count(session, ended).await, 100);
}

async fn searched_by_index(session: &mut PgConnection) {
    let mut scans = Vec::new();
    for (name, _, values) in HOT {
        let plan = explain(session, name, values).await;
        // The sequence is a table of one row.
        let plan = plan.replace("Seq Scan on workflow_checkpoint_seq", "");
        if plan.contains("Seq Scan on workflow_") {
            scans.push(format!("{name}:\n{plan}"));
        }
    }
    assert!(scans.is_empty(), "{}", scans.join("\n\n"));
}
