//! Every statement against a migrated file.

mod common;

use sqlx::{AssertSqlSafe, Executor, SqlSafeStr};

#[tokio::test]
async fn every_statement_prepares_against_a_migrated_file() {
    let home = common::Home::new();
    let store = home.prepared().await;

    let mut seen = 0;
    let mut transaction = store.file().begin().await.unwrap();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap() {
        let path = entry.unwrap().path();
        let sql = std::fs::read_to_string(&path).unwrap();
        assert!(sql.starts_with("-- "), "{} has no head comment", path.display());
        let prepared = (*transaction).prepare(AssertSqlSafe(sql).into_sql_str()).await;
        assert!(prepared.is_ok(), "{}: {:?}", path.display(), prepared.err());
        seen += 1;
    }
    assert!(seen > 0);
}

#[tokio::test]
async fn every_statement_that_looks_for_rows_uses_an_index() {
    let home = common::Home::new();
    let store = home.prepared().await;

    let mut transaction = store.file().begin().await.unwrap();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap() {
        let path = entry.unwrap().path();
        let sql = std::fs::read_to_string(&path).unwrap();
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
            .fetch_all(&mut *transaction)
            .await
            .unwrap();
        let mut before = String::new();
        for (.., step) in plan {
            // Else it is read again for each row of a table.
            let outermost = before.is_empty() || before.ends_with("SUBQUERY 1");
            assert!(
                outermost || !step.starts_with("SCAN asked"),
                "{}: {step} inside {before}",
                path.display()
            );
            // One row, and the index of the live claims alone: both are bounds of their own.
            let bounded = step.contains("workflow_sequence") || step.contains("USING INDEX workflow_claim_open");
            assert!(
                bounded || !step.starts_with("SCAN workflow_"),
                "{}: {step}",
                path.display()
            );
            before = step;
        }
    }
}
