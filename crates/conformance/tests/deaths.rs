//! Steps that take their process down, in processes that really die (case 18).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use conformance::bed::Store;
use conformance::server::schema;
use conformance::worker::beside;
use passbook::{Client, Durable, Ended, Retry, Run, Scheduler as _, State, Worker, Workflow};
use passbook_postgres::Postgres;
use passbook_sqlite::Sqlite;

/// Set in the process that dies: the folder of the file of effects.
const FOLDER: &str = "PASSBOOK_TEST_FOLDER";
/// Set there as well when the store is on Postgres: the schema.
const SCHEMA: &str = "PASSBOOK_TEST_SCHEMA";

/// Long enough for a slow machine, and short enough to be waited for.
const LEASE: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 3;

/// A step, and one whose effect ends the process when it has happened and is not recorded yet.
struct Errand(PathBuf);

impl Errand {
    fn effect(&self, name: &str) {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.0.join("effects"));
        let mut file = file.expect("the file opens");
        file.write_all(format!("{name}\n").as_bytes()).expect("a line");
    }
}

impl<S: Durable> Workflow<S> for Errand {
    const NAME: &'static str = "errand";
    type Input = bool;
    type Output = ();
    type Error = String;

    async fn run(&self, run: &Run<S>, deadly: bool) -> Result<(), String> {
        run.step("packed", async || {
            self.effect(&format!("{} packed", run.workflow()));
            Ok::<_, String>(())
        })
        .await?;
        run.step("sent", async || {
            self.effect(&format!("{} sent", run.workflow()));
            if deadly {
                std::process::abort();
            }
            Ok(())
        })
        .await
    }
}

/// The process that dies.
async fn work<S: Store>(store: S, folder: &Path) {
    let retry = Retry::times(ATTEMPTS).first(Duration::from_millis(1));
    let worker = Worker::new(store.clone())
        .retry(retry)
        .register(Errand(folder.to_owned()));
    beside(worker, async {
        let client = Client::new(store);
        for workflow in ["deadly", "harmless"] {
            client.result::<Errand>(workflow).await.expect("an end");
        }
    })
    .await;
}

fn spawn(test: &str, folder: &Path, schema: Option<&str>) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this test has a path"));
    command.args(["--exact", test, "--nocapture"]).env(FOLDER, folder);
    if let Some(schema) = schema {
        command.env(SCHEMA, schema);
    }
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("the process starts").success()
}

/// Lets one process after another have a go, until one lives.
async fn dies_and_is_parked<S: Store>(store: S, folder: &Path, test: &'static str, schema: Option<String>) {
    store.scheduler().prepare().await.expect("a schema");
    let client = Client::new(store.clone());
    client.start::<Errand>("deadly", &true).await.expect("started");
    let mut died = 0;
    loop {
        let (folder, schema) = (folder.to_owned(), schema.clone());
        let process = tokio::task::spawn_blocking(move || spawn(test, &folder, schema.as_deref()));
        if died == 1 {
            // Beside what kills its worker, another workflow comes to its end.
            client.start::<Errand>("harmless", &false).await.expect("started");
        }
        if process.await.expect("it was waited for") {
            break;
        }
        died += 1;
        assert!(died < 20, "it goes on killing");
    }
    assert_eq!(died, ATTEMPTS, "as many processes died as the workflow has attempts");

    let effects = std::fs::read_to_string(folder.join("effects")).expect("there are effects");
    let times = |effect: &str| effects.lines().filter(|line| *line == effect).count();
    assert_eq!(
        times("deadly sent"),
        ATTEMPTS as usize,
        "as often as passes died inside it"
    );
    assert_eq!(times("deadly packed"), 1, "nobody died inside it");
    // It may have been inside its own step when the other ended the process under it.
    assert!((1..=died as usize).contains(&times("harmless packed")));

    let status = client.status("deadly").await.expect("a status").expect("it is known");
    assert_eq!(status.state, State::Failed);
    let error = status.error.expect("an error");
    assert!(error.contains("`sent`"), "{error}");
    let harmless = client.result::<Errand>("harmless").await.expect("a result");
    assert_eq!(harmless, Ended::Completed(()));
}

async fn sqlite(folder: &Path) -> Sqlite {
    let options = Sqlite::options().lease(LEASE);
    options.open(folder.join("store.db")).await.expect("a store")
}

async fn postgres(schema: &str) -> Postgres {
    let options = Postgres::options().schema(schema).lease(LEASE).connections(3);
    options.connect(&conformance::server::url()).await.expect("a store")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_ends_its_process_is_repeated_and_then_parked_on_sqlite() {
    if let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) {
        return work(sqlite(&folder).await, &folder).await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let test = "a_step_that_ends_its_process_is_repeated_and_then_parked_on_sqlite";
    dies_and_is_parked(sqlite(folder.path()).await, folder.path(), test, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_ends_its_process_is_repeated_and_then_parked_on_postgres() {
    if let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) {
        let schema = std::env::var(SCHEMA).expect("the schema is named");
        return work(postgres(&schema).await, &folder).await;
    }
    let (folder, schema) = (tempfile::tempdir().expect("a folder"), schema());
    let test = "a_step_that_ends_its_process_is_repeated_and_then_parked_on_postgres";
    let name = Some(schema.name().to_owned());
    dies_and_is_parked(postgres(schema.name()).await, folder.path(), test, name).await;
}
