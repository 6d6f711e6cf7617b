//! All sentences, through a PgBouncer in transaction mode.
//!
//! Every statement may meet another session of the server, and PgBouncer before 1.21 knows nothing of prepared
//! statements: whatever the store kept in a session would be missing or in the way here.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use conformance::bed::{Bed, MORNING};
use conformance::server::{Schema, schema, url};
use passbook::{Clock, Durable as _, Scheduler as _};
use passbook_postgres::Postgres;
use sqlx::{Connection as _, PgConnection};

/// Fewer than the connections of the stores that share it.
const SESSIONS: u32 = 4;
/// Where tests hold transactions open and wait beside them: enough for many such tests at once. The pooler goes round them,
/// so that what follows still meets another session.
const MANY_SESSIONS: u32 = 64;

/// Ends the pooler and removes its folder when the test program is gone, however it went: its standard input, a pipe
/// that only we hold, ends then.
const KEEPER: &str = r#"
"$1" -q "$2/pgbouncer.ini" &
read -r nothing
kill $!
wait $!
rm -r "$2"
"#;

struct Pooler {
    url: String,
    /// The same database, with many sessions.
    wide: String,
    _keeper: Child,
}

/// The one of this test program.
fn pooler() -> &'static Pooler {
    static POOLER: OnceLock<Pooler> = OnceLock::new();
    POOLER.get_or_init(|| {
        // Somebody may take the port between our look and the pooler's.
        (0..5)
            .find_map(|_| Pooler::start())
            .expect("PgBouncer starts; its log is in a folder `passbook-pooler-*` of the temporary directory")
    })
}

impl Pooler {
    fn start() -> Option<Self> {
        let program = std::env::var_os("PASSBOOK_TEST_PGBOUNCER")
            .map(PathBuf::from)
            .expect("these tests need a PgBouncer; `cargo xtask test` finds one and names it to them");
        let account = account();
        let folder = tempfile::Builder::new()
            .prefix("passbook-pooler-")
            .tempdir_in(if account.is_some() {
                // Root's temporary directory may be closed to others.
                PathBuf::from("/tmp")
            } else {
                std::env::temp_dir()
            })
            .expect("a folder can be made")
            .keep();
        let port = TcpListener::bind(("127.0.0.1", 0))
            .and_then(|listener| listener.local_addr())
            .expect("a port is free")
            .port();
        let (url, wide) = settle_in(&folder, port);

        let mut command = Command::new("sh");
        command
            .args(["-c", KEEPER, "sh"])
            .args([&program, &folder])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some((uid, gid)) = account {
            for path in [folder.clone(), folder.join("pgbouncer.ini"), folder.join("users.txt")] {
                std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("root may give files away");
            }
            command.uid(uid).gid(gid);
        }
        let keeper = command.spawn().expect("`sh` runs");
        answers(&url).then_some(Self {
            url,
            wide,
            _keeper: keeper,
        })
    }
}

/// Writes what the pooler reads, and returns the URLs of our database through it, with few sessions and with many.
fn settle_in(folder: &Path, port: u16) -> (String, String) {
    let direct = url();
    let (user, password, host, database) = direct
        .strip_prefix("postgres://")
        .and_then(|rest| rest.split_once('@'))
        .and_then(|(who, place)| {
            let (user, password) = who.split_once(':')?;
            let (host, database) = place.split_once('/')?;
            Some((user, password, host, database))
        })
        .expect("PASSBOOK_TEST_POSTGRES is postgres://user:password@host:port/database");
    let (host, server_port) = host.split_once(':').unwrap_or((host, "5432"));
    let ini = format!(
        "[databases]
{database} = host={host} port={server_port}
wide = host={host} port={server_port} dbname={database} pool_size={MANY_SESSIONS}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
logfile = {folder}/pgbouncer.log
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {SESSIONS}
server_round_robin = 1
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits
",
        folder = folder.display()
    );
    let users = format!("\"{user}\" \"{password}\"\n");
    for (name, text) in [("pgbouncer.ini", ini), ("users.txt", users)] {
        std::fs::File::create(folder.join(name))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .expect("the folder can be written");
    }
    let through = |name: &str| format!("postgres://{user}:{password}@127.0.0.1:{port}/{name}");
    (through(database), through("wide"))
}

/// The user and group that the pooler runs as, where it is not us.
fn account() -> Option<(u32, u32)> {
    let name = std::env::var("PASSBOOK_TEST_USER").unwrap_or_default();
    if name.is_empty() {
        return None;
    }
    let id = |flag: &str| {
        let output = Command::new("id").args([flag, &name]).output().expect("`id` runs");
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    Some((
        id("-u").expect("PASSBOOK_TEST_USER is a user of this machine"),
        id("-g").expect("PASSBOOK_TEST_USER has a group"),
    ))
}

/// Whether the pooler leads to our server within a few seconds.
fn answers(url: &str) -> bool {
    let url = url.to_owned();
    // A runtime of its own: this is called from within a test's.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            for _ in 0..100 {
                if let Ok(mut connection) = PgConnection::connect(&url).await {
                    return sqlx::raw_sql("SELECT 1").execute(&mut connection).await.is_ok();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            false
        })
    })
    .join()
    .expect("it does not panic")
}

async fn pooled() -> (Bed<Postgres>, Schema) {
    let schema = schema();
    let clock = Clock::manual(MORNING);
    let options = Postgres::options()
        .schema(schema.name())
        .connections(4)
        .clock(clock.clone())
        .pooler(true);
    let store = options
        .lease(Duration::from_secs(30))
        .connect(&pooler().url)
        .await
        .expect("a store");
    store.scheduler().prepare().await.expect("a schema");
    (Bed::new(store, clock), schema)
}

conformance::pass_sentences!(super::pooled);

mod stores {
    use conformance::conformance_suite;
    use conformance::fixture::{EnlistFixture, Fixture};
    use conformance::stores::Database;
    use passbook::Clock;
    use passbook_postgres::Postgres;
    use sqlx::PgConnection;

    /// [`Database`] behind the pooler.
    struct Pooled(Database);

    impl Fixture for Pooled {
        type Store = Postgres;

        async fn open_under(clock: Clock) -> Self {
            Self(Database::behind(&super::pooler().wide, clock).await)
        }

        fn store(&self) -> &Postgres {
            self.0.store()
        }

        async fn second(&self) -> Postgres {
            self.0.second().await
        }

        fn clock(&self) -> &Clock {
            self.0.clock()
        }

        async fn count(&self, tx: &mut PgConnection) {
            self.0.count(tx).await;
        }

        async fn counted(&self) -> u64 {
            self.0.counted().await
        }

        async fn write_row(&self, tx: &mut PgConnection, workflow: &str, step: &str) {
            self.0.write_row(tx, workflow, step).await;
        }

        async fn close(self) {
            self.0.close().await;
        }
    }

    impl EnlistFixture for Pooled {
        type Open = <Database as EnlistFixture>::Open;

        async fn begin(&self) -> Self::Open {
            self.0.begin().await
        }

        async fn commit(&self, open: Self::Open) {
            self.0.commit(open).await;
        }
    }

    conformance_suite!(
        Pooled: checkpointer, claims, transact, beside, scheduler, durable, settles, fused, inspect, enlist, stall, repairs
    );
}
