//! What a person is told when something is not as it should be.

use std::path::Path;
use std::process::{Command, Output};

use passbook::{Client, Durable, Inspect, Run, Scheduler as _, Shutdown, State, Worker};
use passbook_postgres::Postgres;
use passbook_sqlite::Sqlite;
use sqlx::{AssertSqlSafe, Connection as _};

fn server() -> String {
    std::env::var("PASSBOOK_TEST_POSTGRES")
        .expect("these tests need a Postgres; `cargo xtask test` starts one for them and stops it again")
}

fn passbook(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_passbook"));
    command.args(arguments).env_remove("DATABASE_URL");
    command.output().expect("the command runs")
}

/// Exits with 2 and one line that says all of this.
#[track_caller]
fn refused(arguments: &[&str], says: &[&str]) {
    let output = passbook(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(told.trim_end().lines().count(), 1, "{told}");
    for words in says {
        assert!(told.contains(words), "`{words}` is not in: {told}");
    }
}

#[test]
fn a_database_that_is_not_named_is_asked_for() {
    refused(&["list"], &["--database", "DATABASE_URL"]);
    refused(&["list", "--database", "mysql://x"], &["postgres://", "sqlite:"]);
}

#[test]
fn a_server_that_does_not_answer_is_named() {
    refused(
        &["list", "--database", "postgres://u:p@127.0.0.1:1/x"],
        &["127.0.0.1:1", "does not answer"],
    );
}

#[test]
fn a_wrong_password_and_an_unknown_database_are_told_apart() {
    let server = server();
    let (before, place) = server.rsplit_once('@').expect("the URL has a user");
    let user = before.rsplit_once(':').expect("the user has a password").0;
    refused(&["list", "--database", &format!("{user}:wrong@{place}")], &["password"]);
    let elsewhere = format!("{}/no_such_database", server.rsplit_once('/').expect("a database").0);
    refused(&["list", "--database", &elsewhere], &["no such database"]);
}

#[tokio::test]
async fn a_schema_that_is_missing_or_newer_says_what_to_do() {
    let name = format!("newer_{}", std::process::id());
    let mut admin = sqlx::PgConnection::connect(&server())
        .await
        .expect("the server answers");
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::query(create)
        .execute(&mut admin)
        .await
        .expect("a database can be made");
    let database = format!("{}/{name}", server().rsplit_once('/').expect("a database").0);
    refused(&["list", "--database", &database], &["passbook migrate"]);
    assert!(passbook(&["migrate", "--database", &database]).status.success());
    assert!(passbook(&["list", "--database", &database]).status.success());
    let mut connection = sqlx::PgConnection::connect(&database)
        .await
        .expect("the database answers");
    let newer = "INSERT INTO passbook_migration (version, name) VALUES (1000, 'of a later release')";
    sqlx::query(newer)
        .execute(&mut connection)
        .await
        .expect("a row can be written");
    connection.close().await.expect("it closes");
    refused(&["migrate", "--database", &database], &["1000", "newer release"]);
    let drop = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
    sqlx::query(drop)
        .execute(&mut admin)
        .await
        .expect("the database can be dropped");
}

#[tokio::test]
async fn a_file_or_a_workflow_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    refused(
        &["list", "--database", &at("missing.db")],
        &["missing.db", "passbook migrate"],
    );
    std::fs::write(
        folder.path().join("letter.db"),
        "Dear Sir or Madam, this is no database. ".repeat(40),
    )
    .expect("written");
    refused(&["list", "--database", &at("letter.db")], &["not a SQLite database"]);
    assert!(passbook(&["migrate", "--database", &at("new.db")]).status.success());
    refused(
        &["status", "nobody", "--database", &at("new.db")],
        &["`nobody`", "passbook list"],
    );
}

/// Ids are data: whatever is in them goes through as it is, up to the limit, which is named.
async fn odd_ids<S: Durable + Inspect>(store: S, database: &str) {
    store.scheduler().prepare().await.expect("a schema");
    let client = Client::new(store);
    let long = "x".repeat(1_024);
    for id in [
        "it's \"quoted\" {braced}\n$1 %s; DROP TABLE workflow_claim --",
        long.as_str(),
    ] {
        client.kind("odd").start(id, &1).await.expect("the id is data");
        let shown = passbook(&["status", id, "--database", database]);
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        assert!(String::from_utf8_lossy(&shown.stdout).contains("ready"));
        refused(
            &["arrive", id, "key", "not json", "--database", database],
            &["not json", "quotes"],
        );
    }
    let longer = "x".repeat(10_000);
    let error = client
        .kind("odd")
        .start(&longer, &1)
        .await
        .expect_err("it is over the limit");
    assert!(error.is_refused() && error.to_string().contains("1024"), "{error}");
}

async fn huge<S: Durable>(run: &Run<S>, huge: bool) -> Result<usize, String> {
    let bytes = if huge { 200 << 20 } else { 10 };
    run.step("fetched", async || Ok::<_, String>("x".repeat(bytes)))
        .await
        .map(|text| text.len())
}

/// A result that no store takes parks its workflow, says the limit, and holds nobody up.
async fn huge_results<S: Durable + Inspect>(store: S) {
    let client = Client::new(store.clone());
    let shutdown = Shutdown::new();
    let worker = tokio::spawn(Worker::new(store).serve("huge", huge::<S>).run(shutdown.clone()));
    let kind = client.kind("huge");
    kind.start("too-large", &true).await.expect("started");
    kind.start("small", &false).await.expect("started");
    kind.result::<usize>("small").await.expect("a result");
    kind.result::<usize>("too-large").await.expect("an end");
    let status = client
        .status("too-large")
        .await
        .expect("a status")
        .expect("it is known");
    assert_eq!((status.state, status.attempts), (State::Failed, 1));
    let error = status.error.expect("an error");
    assert!(error.contains("`fetched`") && error.contains("16777216"), "{error}");
    shutdown.begin();
    worker.await.expect("the worker ends").expect("and well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_ids_and_huge_results_end_well_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file: &Path = &folder.path().join("store.db");
    let store = Sqlite::open(file).await.expect("a store");
    odd_ids(store.clone(), &format!("sqlite:{}", file.display())).await;
    huge_results(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_ids_and_huge_results_end_well_on_postgres() {
    let name = format!("odd_{}", std::process::id());
    let mut admin = sqlx::PgConnection::connect(&server())
        .await
        .expect("the server answers");
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::query(create)
        .execute(&mut admin)
        .await
        .expect("a database can be made");
    let database = format!("{}/{name}", server().rsplit_once('/').expect("a database").0);
    let store = Postgres::connect(&database).await.expect("a store");
    odd_ids(store.clone(), &database).await;
    huge_results(store).await;
    let drop = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
    sqlx::query(drop)
        .execute(&mut admin)
        .await
        .expect("the database can be dropped");
}
