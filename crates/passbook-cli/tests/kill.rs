//! The demonstration, killed at random moments until it comes to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::{AssertSqlSafe, Connection as _, Row as _};

/// How often a run is killed before one is left alone.
const KILLS: usize = 12;

const ORDERS: &str = r#"[
    { "id": "order-1", "customer": "A", "items": [{ "sku": "a", "cents": 100 }, { "sku": "b", "cents": 200 }] },
    { "id": "order-2", "customer": "B", "items": [{ "sku": "c", "cents": 300 }] },
    { "id": "order-3", "customer": "C", "items": [{ "sku": "d", "cents": 60000 }, { "sku": "e", "cents": 5 }] }
]"#;

/// The example stands beside the tests, where cargo builds both.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let target = test.parent().and_then(Path::parent).expect("it is in deps/");
    let program = target
        .join("examples")
        .join(format!("payout{}", std::env::consts::EXE_SUFFIX));
    assert!(
        program.exists(),
        "{} is not built; run `cargo test -p passbook-cli`, which builds it",
        program.display()
    );
    program
}

/// What one process printed before it ended or was killed: the steps that began, and those that were recorded.
struct Run {
    ended_well: bool,
    began: BTreeSet<String>,
    recorded: BTreeSet<String>,
}

/// Runs the demonstration, and kills it after a while, if told to.
fn run(folder: &Path, database: Option<&str>, kill_after: Option<Duration>) -> Run {
    let mut command = Command::new(program());
    command
        .arg("--folder")
        .arg(folder)
        .arg("--orders")
        .arg(folder.join("orders.json"));
    command.env_remove("DATABASE_URL");
    if let Some(database) = database {
        command.arg("--database").arg(database);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = command.spawn().expect("the demonstration starts");
    let output = child.stdout.take().expect("its output is piped");
    let reader = std::thread::spawn(move || {
        let (mut began, mut recorded) = (BTreeSet::new(), BTreeSet::new());
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [order, verb, step @ ..] = words.as_slice() {
                // A charge has two words, and every other step one.
                let step = step.iter().take(if step.first() == Some(&"charged") { 2 } else { 1 });
                let name = format!("{order} {}", step.copied().collect::<Vec<_>>().join(" "));
                match *verb {
                    "begins" => drop(began.insert(name)),
                    "recorded" => drop(recorded.insert(name)),
                    _ => {}
                }
            }
        }
        (began, recorded)
    });
    if let Some(after) = kill_after {
        std::thread::sleep(after);
        // SIGKILL on Unix: nothing of the process runs after it.
        child.kill().expect("it can be killed");
    }
    let status = child.wait().expect("it ends");
    let (began, recorded) = reader.join().expect("its output was read");
    Run {
        ended_well: status.success(),
        began,
        recorded,
    }
}

/// Kills and runs again until the orders are paid, and counts what was done.
fn killed_again_and_again(folder: &Path, database: Option<&str>) {
    let seed = std::env::var("PASSBOOK_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
            since.as_secs() ^ u64::from(since.subsec_nanos())
        });
    println!("PASSBOOK_SEED={seed}");
    std::fs::write(folder.join("orders.json"), ORDERS).expect("the orders can be written");
    // xorshift, so that a seed tells all.
    let mut random = seed | 1;
    let mut died_inside: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..KILLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let killed = run(folder, database, Some(Duration::from_millis(60 + random % 1_500)));
        for step in killed.began.difference(&killed.recorded) {
            *died_inside.entry(step.clone()).or_default() += 1;
        }
    }
    assert!(
        run(folder, database, None).ended_well,
        "left alone, it comes to its end"
    );

    let effects = std::fs::read_to_string(folder.join("effects.txt")).expect("there are effects");
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for line in effects.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let step = match words.as_slice() {
            ["charged", order, sku, _] => format!("{order} charged {sku}"),
            ["paid", order, _] => format!("{order} paid"),
            other => panic!("an effect is half-written: {other:?}"),
        };
        *done.entry(step).or_default() += 1;
    }
    let steps = [
        "order-1 charged a",
        "order-1 charged b",
        "order-1 paid",
        "order-2 charged c",
        "order-2 paid",
        "order-3 charged d",
        "order-3 charged e",
        "order-3 paid",
    ];
    assert_eq!(
        done.keys().map(String::as_str).collect::<Vec<_>>(),
        steps,
        "each at least once, and no other"
    );
    for (step, times) in done {
        let died = died_inside.get(&step).copied().unwrap_or(0);
        assert!(
            times <= 1 + died,
            "{step} was done {times} times, and {died} processes died inside it"
        );
    }
}

const LINES: &str = "SELECT order_id, count(*) FROM ledger GROUP BY order_id ORDER BY order_id";

fn once_each() -> Vec<(String, i64)> {
    ["order-1", "order-2", "order-3"]
        .map(|order| (order.to_owned(), 1))
        .to_vec()
}

#[tokio::test]
async fn killed_again_and_again_it_pays_each_order_once_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    killed_again_and_again(folder.path(), None);
    let file = format!("sqlite:{}", folder.path().join("payout.db").display());
    let mut connection = sqlx::SqliteConnection::connect(&file).await.expect("the file opens");
    let lines = sqlx::query(LINES)
        .fetch_all(&mut connection)
        .await
        .expect("the ledger is there");
    let lines: Vec<(String, i64)> = lines.iter().map(|line| (line.get(0), line.get(1))).collect();
    assert_eq!(lines, once_each());
}

#[tokio::test]
async fn killed_again_and_again_it_pays_each_order_once_on_postgres() {
    let server = std::env::var("PASSBOOK_TEST_POSTGRES")
        .expect("this test needs a Postgres; `cargo xtask test` starts one for it and stops it again");
    let name = format!("killed_{}", std::process::id());
    let mut admin = sqlx::PgConnection::connect(&server).await.expect("the server answers");
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::query(create)
        .execute(&mut admin)
        .await
        .expect("a database can be made");
    let database = format!(
        "{}/{name}",
        server.rsplit_once('/').expect("the URL names a database").0
    );

    let folder = tempfile::tempdir().expect("a folder");
    killed_again_and_again(folder.path(), Some(&database));
    let mut connection = sqlx::PgConnection::connect(&database)
        .await
        .expect("the database answers");
    let lines = sqlx::query(LINES)
        .fetch_all(&mut connection)
        .await
        .expect("the ledger is there");
    let lines: Vec<(String, i64)> = lines.iter().map(|line| (line.get(0), line.get(1))).collect();
    assert_eq!(lines, once_each());

    connection.close().await.expect("it closes");
    let drop = AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
    sqlx::query(drop)
        .execute(&mut admin)
        .await
        .expect("the database can be dropped");
}

#[tokio::test]
async fn a_migration_killed_at_any_moment_leaves_the_schema_whole_on_postgres() {
    let server = std::env::var("PASSBOOK_TEST_POSTGRES")
        .expect("this test needs a Postgres; `cargo xtask test` starts one for it and stops it again");
    let name = format!("migrated_{}", std::process::id());
    let mut admin = sqlx::PgConnection::connect(&server).await.expect("the server answers");
    let database = format!(
        "{}/{name}",
        server.rsplit_once('/').expect("the URL names a database").0
    );
    for millis in [5, 15, 20, 25, 30, 35, 45, 60] {
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::query(create)
            .execute(&mut admin)
            .await
            .expect("a database can be made");
        let migrate = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_passbook"));
            command.args(["migrate", "--database", &database]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("the command starts")
        };
        let mut killed = migrate();
        std::thread::sleep(Duration::from_millis(millis));
        killed.kill().expect("it can be killed");
        killed.wait().expect("it ends");
        assert!(
            migrate().wait().expect("it ends").success(),
            "the next boot finds it done or does it"
        );
        let mut connection = sqlx::PgConnection::connect(&database)
            .await
            .expect("the database answers");
        let versions = sqlx::query("SELECT version FROM passbook_migration ORDER BY version");
        let versions = versions
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
}
