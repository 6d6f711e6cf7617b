//! A fleet of processes that boot together over a database in which there is nothing yet.

use std::process::{Command, Stdio};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

/// Each needs one connection, and for a moment a second: far fewer in all than the server takes.
const PROCESSES: usize = 50;

#[tokio::test]
async fn fifty_processes_that_migrate_at_once_all_succeed_on_postgres() {
    let server = std::env::var("PASSBOOK_TEST_POSTGRES")
        .expect("this test needs a Postgres; `cargo xtask test` starts one for it and stops it again");
    let name = format!("fleet_{}", std::process::id());
    let mut admin = PgConnection::connect(&server).await.expect("the server answers");
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::query(create)
        .execute(&mut admin)
        .await
        .expect("a database can be made");
    let database = format!(
        "{}/{name}",
        server.rsplit_once('/').expect("the URL names a database").0
    );

    // Nobody gets past this lock before all have come to it: they meet in the migration itself, and not one by one.
    let mut gate = PgConnection::connect(&database).await.expect("the database answers");
    let lock = "SELECT pg_advisory_lock(hashtextextended('passbook_migration', 0))";
    sqlx::raw_sql(lock).execute(&mut gate).await.expect("the lock is free");
    let fleet: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_passbook"));
            command.args(["migrate", "--database", &database]);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(Stdio::piped()).spawn().expect("the command starts")
        })
        .collect();
    let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
         WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()";
    let all_there = async {
        loop {
            let row = sqlx::query(waiting).fetch_one(&mut gate).await.expect("a count");
            if row.get::<i64, _>(0) == i64::try_from(PROCESSES).expect("a few") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let all_there = tokio::time::timeout(std::time::Duration::from_mins(2), all_there).await;
    all_there.expect("all find an empty database, and stand in line");
    gate.close().await.expect("it closes, and the lock with it");

    for process in fleet {
        let ended = process.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{said}");
    }
    let mut connection = PgConnection::connect(&database).await.expect("the database answers");
    let versions = sqlx::query("SELECT version FROM passbook_migration ORDER BY version")
        .fetch_all(&mut connection)
        .await
        .expect("the versions are noted");
    let versions: Vec<i64> = versions.iter().map(|version| version.get(0)).collect();
    assert_eq!(versions, [1, 2], "each once");

    connection.close().await.expect("it closes");
    let drop = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
    sqlx::query(drop)
        .execute(&mut admin)
        .await
        .expect("the database can be dropped");
}
