//! The schema comes to be, and grows, whatever stands there already.

mod common;

use common::{Home, KIND, acquired, count, run, steps, url, value};
use passbook::{Acquire, Checkpointer as _, Durable as _, Outcome, Scheduler as _, Settlement, resume};
use passbook_postgres::{SCHEMA, migration_sql};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::task::JoinSet;

/// The tables as every program of the field knows them, and nothing else.
const BASE: &str = "
CREATE TABLE workflow_checkpoint (workflow text NOT NULL, step text NOT NULL, value jsonb NOT NULL, PRIMARY KEY (workflow, step));
CREATE TABLE workflow_claim (workflow text PRIMARY KEY, token bigint NOT NULL, held_until timestamptz NOT NULL);
CREATE TABLE workflow_queue (namespace text NOT NULL, workflow text NOT NULL, visible_at timestamptz NOT NULL, PRIMARY KEY (namespace, workflow));
CREATE INDEX workflow_queue_visible_at ON workflow_queue (namespace, visible_at);
";

/// Every column of a schema, as text that can be compared.
async fn columns(home: &Home) -> Vec<String> {
    let mut connection = home.foreign().await;
    sqlx::query_scalar(
        "SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable,
                replace(column_default, table_schema || '.', ''))
         FROM information_schema.columns WHERE table_schema = current_schema()
         ORDER BY table_name, column_name",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_programs_that_boot_at_once_all_find_the_schema() {
    let home = Home::new();
    let mut fleet = JoinSet::new();
    for _ in 0..50 {
        let options = home.options().connections(1);
        fleet.spawn(async move { options.connect(&url()).await.unwrap().scheduler().prepare().await });
    }
    let booted = fleet.join_all().await;
    assert_eq!(booted.len(), 50);
    for one in booted {
        one.unwrap();
    }
    let mut connection = home.foreign().await;
    assert_eq!(
        count(&mut connection, "SELECT count(*) FROM passbook_migration").await,
        2
    );
    home.drop().await;
}

#[tokio::test]
async fn a_database_of_the_base_tables_alone_is_upgraded_in_place() {
    let home = Home::new();
    let mut connection = home.foreign().await;
    run(&mut connection, BASE).await;
    run(
        &mut connection,
        "INSERT INTO workflow_checkpoint VALUES ('w', ':input', '{\"books\": 2}'), ('w', 'z', '\"last\"'), ('w', 'a', '1.50');
         INSERT INTO workflow_claim VALUES ('w', 41, now() - interval '1 hour'), ('held', 7, now() + interval '1 hour');
         INSERT INTO workflow_queue VALUES ('kind', 'w', now() - interval '1 minute'), ('kind', 'later', now() + interval '1 hour');",
    )
    .await;

    let store = home.prepared().await;
    let records = store.checkpointer().load("w").await.unwrap();
    let kept: Vec<_> = records
        .iter()
        .map(|each| (each.step.as_str(), each.value.as_str()))
        .collect();
    assert_eq!(
        kept,
        [(":input", "{\"books\": 2}"), ("z", "\"last\""), ("a", "1.50")],
        "rows are kept as they were, in the order in which they stood"
    );

    let (pass, delivery) = acquired(&store, 10).await.pop().expect("the workflow can be run");
    assert_eq!((pass.claim.workflow.as_str(), pass.claim.token), ("w", 42));
    assert_eq!(pass.attempts, 0, "a claim of the old days was not left unsettled");
    let claim = pass.claim.clone();
    let ran = resume(pass, &store, async |run| {
        run.step("z", async || Ok::<_, String>("again".to_owned()))
            .await
            .unwrap()
    })
    .await;
    assert!(matches!(ran, Outcome::Completed(ref z) if z == "last"), "{ran:?}");
    let completed = Settlement::Completed { result: value("done") };
    assert!(store.settle(&claim, &delivery, &completed).await.unwrap().is_held());
    assert_eq!(steps(&store, "w").await, [":input", "z", "a", ":result"]);

    assert_eq!(
        count(
            &mut connection,
            "SELECT token FROM workflow_claim WHERE workflow = 'held' AND held_until > now()"
        )
        .await,
        7
    );
    assert_eq!(
        count(
            &mut connection,
            "SELECT count(*) FROM workflow_queue WHERE workflow = 'later' AND visible_at > now()"
        )
        .await,
        1
    );
    home.drop().await;
}

#[tokio::test]
async fn the_published_schema_is_made_of_the_base_tables() {
    let (ours, base) = (Home::new(), Home::new());
    run(&mut ours.foreign().await, &SCHEMA.replace("{schema}", "")).await;
    run(&mut base.foreign().await, BASE).await;
    assert_eq!(columns(&ours).await, columns(&base).await);
    ours.drop().await;
    base.drop().await;
}

/// What a program of the field relies on: columns with their types, keys and indexes, and that it need name no other column.
#[tokio::test]
async fn the_base_tables_stay_as_they_are_and_every_other_column_has_a_default() {
    let (ours, base) = (Home::new(), Home::new());
    ours.prepared().await;
    run(&mut base.foreign().await, BASE).await;
    let known = columns(&base).await;
    let mut mine = columns(&ours).await;
    for column in &known {
        assert!(mine.contains(column), "{column} is not in {mine:#?}");
    }
    mine.retain(|column| !known.contains(column) && column.starts_with("workflow_") && !column.contains("status"));
    assert!(!mine.is_empty());
    for column in mine {
        let words: Vec<&str> = column.split_whitespace().collect();
        let default = words.last().is_some_and(|last| *last != "NO");
        assert!(words.contains(&"YES") || default, "{column} has to be given");
    }

    let mut both = Vec::new();
    for home in [&ours, &base] {
        let mut connection = home.foreign().await;
        let indexes: Vec<String> = sqlx::query_scalar(
            "SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes
             WHERE schemaname = current_schema() AND tablename LIKE 'workflow%' ORDER BY indexname",
        )
        .fetch_all(&mut connection)
        .await
        .unwrap();
        both.push(indexes);
    }
    for index in &both[1] {
        assert!(both[0].contains(index), "{index} is not in {both:#?}");
    }
    ours.drop().await;
    base.drop().await;
}

#[tokio::test]
async fn migrating_twice_does_nothing() {
    let home = Home::new();
    let store = home.prepared().await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    let before = columns(&home).await;
    let mut connection = home.foreign().await;
    let written = "SELECT sum(xmin::text::bigint)::bigint FROM passbook_migration";
    let first = count(&mut connection, written).await;

    store.scheduler().prepare().await.unwrap();
    home.open().await.scheduler().prepare().await.unwrap();

    assert_eq!(columns(&home).await, before);
    assert_eq!(count(&mut connection, written).await, first);
    assert_eq!(steps(&store, "w").await, [":input"]);
    home.drop().await;
}

#[tokio::test]
async fn a_schema_of_its_own_lives_beside_the_migrations_of_the_application() {
    let home = Home::new();
    let mut connection = home.foreign().await;
    run(
        &mut connection,
        "CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, description text NOT NULL);
         INSERT INTO _sqlx_migrations VALUES (1, 'of the application'), (99, 'of the application')",
    )
    .await;
    // The application's own migrator left a row whose versions are not ours.
    let store = home.prepared().await;
    store.start(KIND, "w", &value("input")).await.unwrap();
    assert_eq!(acquired(&store, 1).await.len(), 1);
    assert_eq!(count(&mut connection, "SELECT count(*) FROM _sqlx_migrations").await, 2);
    assert_eq!(
        count(
            &mut connection,
            "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()"
        )
        .await,
        6,
        "three tables, a view, a ledger of ours and one of theirs"
    );
    home.drop().await;
}

#[tokio::test]
async fn without_a_schema_the_first_of_the_search_path_is_taken() {
    let home = Home::new();
    drop(home.foreign().await);
    let url = format!("{}?options=-c%20search_path%3D{}", url(), home.schema);
    let store = passbook_postgres::Postgres::options()
        .connections(2)
        .connect(&url)
        .await
        .unwrap();
    store.scheduler().prepare().await.unwrap();
    store.start(KIND, "w", &value("input")).await.unwrap();
    let mut connection = home.foreign().await;
    assert_eq!(count(&mut connection, "SELECT count(*) FROM workflow_queue").await, 1);
    home.drop().await;
}

#[tokio::test]
async fn a_schema_of_a_newer_release_is_refused() {
    let home = Home::new();
    let store = home.prepared().await;
    let mut connection = home.foreign().await;
    run(
        &mut connection,
        "INSERT INTO passbook_migration (version, name) VALUES (1000, 'of the future')",
    )
    .await;

    let refused = store.scheduler().prepare().await.unwrap_err();
    assert!(refused.is_invalid(), "{refused}");
    let message = refused.to_string();
    assert!(message.contains("version 1000"), "{message}");
    assert!(message.contains("deploy the newer release"), "{message}");
    home.drop().await;
}

#[tokio::test]
async fn the_printed_sql_gives_what_prepare_gives() {
    let (printed, prepared, upgraded) = (Home::new(), Home::new(), Home::new());
    run(&mut printed.foreign().await, &migration_sql()).await;
    let mut base = upgraded.foreign().await;
    run(&mut base, BASE).await;
    run(&mut base, &migration_sql()).await;
    let store = prepared.prepared().await;
    assert_eq!(columns(&printed).await, columns(&prepared).await);
    assert_eq!(columns(&upgraded).await, columns(&prepared).await);

    let store_of_printed = printed.open().await;
    store_of_printed.scheduler().prepare().await.unwrap();
    store_of_printed.start(KIND, "w", &value("input")).await.unwrap();
    assert_eq!(acquired(&store_of_printed, 1).await.len(), 1);
    drop(store);
    for home in [printed, prepared, upgraded] {
        home.drop().await;
    }
}

#[tokio::test]
async fn every_statement_can_be_prepared_against_the_schema() {
    let home = Home::new();
    home.prepared().await;
    let mut connection = PgConnection::connect(&url()).await.unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql");
    let mut prepared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let sql = std::fs::read_to_string(&path).unwrap();
        let sql = sql.replace("{schema}", &format!("\"{}\".", home.schema));
        let sql: sqlx::SqlStr = sqlx::SqlSafeStr::into_sql_str(AssertSqlSafe(sql));
        if let Err(error) = connection.prepare(sql).await {
            panic!("{}: {error}", path.display());
        }
        prepared += 1;
    }
    assert!(prepared > 0);
    home.drop().await;
}

#[tokio::test]
async fn a_schema_that_is_not_there_names_the_command_that_makes_it() {
    let home = Home::new();
    let store = home.open().await;
    let namespaces = [KIND.to_owned()];
    let request = Acquire::new(&namespaces, 1);
    let missing = store.acquire(&request).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    assert!(missing.to_string().contains("`passbook migrate`"), "{missing}");
    home.drop().await;
}
