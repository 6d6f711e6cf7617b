//! The file: one connection that writes, a few that read.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use passbook::{Clock, Endings, Error, Hints, Result, Timestamp, Wakeups};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Sqlite as Driver, SqliteConnection, SqlitePool};
use tokio::task::AbortHandle;

use crate::SqliteOptions;
use crate::batch::Batch;
use crate::error::{Doing, is_busy};
use crate::watch::{TICK, Watch};

/// A SQLite file, open for this process. Clones share its connections.
///
/// Open a file once per process and clone the handle: within a handle writers queue fairly, between handles they meet
/// at SQLite's lock, which is not fair.
#[derive(Clone, Debug)]
pub struct SqliteFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// One connection. The queue for it is first in, first out, so that no writer starves and none spins on the lock.
    writer: SqlitePool,
    /// Whether the writer was left in the middle of a transaction, and so must be looked at before its next use.
    unfinished: Arc<AtomicBool>,
    readers: SqlitePool,
    options: SqliteOptions,
    /// The writes that wait to go together.
    batch: Batch,
    /// Whether something was made ready that is not committed yet.
    waking: AtomicBool,
    hints: Hints,
    watch: Watch,
    watching: Mutex<Option<AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let watching = self.watching.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(watching) = watching.take() {
            watching.abort();
        }
    }
}

/// Looks at the log for as long as the file is in use. It cannot tell our own commits from others', so it also tells of those,
/// once in a tick at most.
async fn watch(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(TICK).await;
        let Some(inner) = inner.upgrade() else {
            return;
        };
        if inner.watch.has_changed() {
            inner.hints.tell_unsure();
        }
    }
}

impl SqliteFile {
    /// Opens the file with the default options, and creates it when it is not there.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path.as_ref(), SqliteOptions::default()).await
    }

    pub(crate) async fn open_with(path: &Path, options: SqliteOptions) -> Result<Self> {
        options.check()?;
        let path = checked_path(path)?;

        let connect = SqliteConnectOptions::new()
            .filename(&path)
            .busy_timeout(options.patience)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(false);
        make_wal(&path, &connect, options.patience).await?;

        let unfinished = Arc::new(AtomicBool::new(false));
        let suspect = Arc::clone(&unfinished);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(options.patience)
            .acquire_slow_threshold(options.patience)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .after_release(move |connection, _| {
                let suspect = Arc::clone(&suspect);
                Box::pin(async move {
                    // A connection that is not clean is closed, which rolls back whatever is open on it.
                    Ok(!suspect.swap(false, Ordering::SeqCst) || is_clean(connection).await)
                })
            })
            .connect_lazy_with(connect.clone());
        let readers = SqlitePoolOptions::new()
            .max_connections(options.readers)
            .acquire_timeout(options.patience)
            .acquire_slow_threshold(options.patience)
            .test_before_acquire(false)
            .connect_lazy_with(connect.pragma("query_only", "ON"));

        Ok(Self(Arc::new(Inner {
            watch: Watch::of(&path),
            path,
            writer,
            unfinished,
            readers,
            options,
            batch: Batch::default(),
            waking: AtomicBool::new(false),
            hints: Hints::new(),
            watching: Mutex::default(),
        })))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Opens a write transaction on the connection of the store, for application tables in the same file and
    /// [`Enlist`](passbook::Enlist).
    ///
    /// It holds the file's write lock until it is committed or dropped.
    pub async fn begin(&self) -> Result<Transaction> {
        let mut left = 3;
        loop {
            match self.0.writer.begin_with("BEGIN IMMEDIATE").await {
                Ok(inner) => {
                    self.0.unfinished.store(true, Ordering::SeqCst);
                    return Ok(Transaction {
                        inner,
                        // After the lock was granted: what was waited for must not be taken off a lease.
                        begun_at: self.now(),
                        file: self.clone(),
                    });
                }
                // Somebody leaked a savepoint through `Transaction`. The connection has just been given back, and is
                // replaced now that it is suspect.
                Err(sqlx::Error::InvalidSavePointStatement) if left > 0 => {
                    self.0.unfinished.store(true, Ordering::SeqCst);
                    left -= 1;
                }
                Err(error) => {
                    return Err(error).doing(|| format!("begin a write on `{}`", self.0.path.display()));
                }
            }
        }
    }

    pub(crate) async fn read(&self) -> Result<PoolConnection<Driver>> {
        self.0
            .readers
            .acquire()
            .await
            .doing(|| format!("read `{}`", self.0.path.display()))
    }

    pub(crate) fn lease(&self) -> Duration {
        self.0.options.lease
    }

    pub(crate) fn poll(&self) -> Duration {
        self.0.options.poll
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.options.clock
    }

    /// The time by which deadlines are judged.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock().bound().unwrap_or_else(wall_clock)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn batching(&self) -> bool {
        self.0.options.batching
    }

    pub(crate) fn batch(&self) -> &Batch {
        &self.0.batch
    }

    /// Notes that the transaction at hand makes something ready, so that its commit tells the idle workers.
    pub(crate) fn wakes(&self) {
        self.0.waking.store(true, Ordering::SeqCst);
    }

    pub(crate) fn hints(&self) -> &Hints {
        &self.0.hints
    }

    /// When something may be ready from now on, whoever made it so.
    pub(crate) fn wakeups(&self, namespaces: &[String]) -> Wakeups {
        self.watch();
        self.0.hints.wakeups(namespaces)
    }

    /// What ends from now on, whoever ended it.
    pub(crate) fn endings(&self) -> Endings {
        self.watch();
        self.0.hints.endings()
    }

    /// Makes sure that somebody sees what other processes write.
    fn watch(&self) {
        let mut watching = self.0.watching.lock().unwrap_or_else(PoisonError::into_inner);
        if watching.as_ref().is_none_or(AbortHandle::is_finished) {
            *watching = Some(tokio::spawn(watch(Arc::downgrade(&self.0))).abort_handle());
        }
    }

    /// Closes the connections, after the writes that are under way. Later calls fail as unavailable.
    ///
    /// Not needed for anything to be kept: it is for who moves or removes the file next.
    pub async fn close(&self) {
        self.0.writer.close().await;
        self.0.readers.close().await;
    }
}

/// The time of a record: always the machine's own, as on a server.
pub(crate) fn wall_clock() -> Timestamp {
    SystemTime::now().into()
}

/// An open write transaction on the file. It is a [`SqliteConnection`] to whoever writes through it.
///
/// Dropped without [`commit`](Self::commit), also in the middle of a statement, it is rolled back before the connection
/// is used again.
#[derive(Debug)]
pub struct Transaction {
    inner: sqlx::Transaction<'static, Driver>,
    begun_at: Timestamp,
    file: SqliteFile,
}

impl Transaction {
    /// Commits. Durable when it returns; whether it happened is unknown when it fails as unavailable or is dropped.
    pub async fn commit(self) -> Result<()> {
        let Self { inner, file, .. } = self;
        // From here the driver itself rolls back what it could not commit.
        file.0.unfinished.store(false, Ordering::SeqCst);
        inner
            .commit()
            .await
            .doing(|| format!("commit a write to `{}`", file.0.path.display()))?;
        if file.0.waking.swap(false, Ordering::SeqCst) {
            file.0.hints.tell_ready(None);
        }
        Ok(())
    }

    pub(crate) fn file(&self) -> &SqliteFile {
        &self.file
    }

    /// The store's time when the lock was granted.
    pub(crate) fn begun_at(&self) -> Timestamp {
        self.begun_at
    }
}

impl Deref for Transaction {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.inner
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.inner
    }
}

/// Whether no transaction is open, neither for the driver nor for SQLite.
async fn is_clean(connection: &mut SqliteConnection) -> bool {
    match connection.begin_with("BEGIN").await {
        Ok(transaction) => transaction.rollback().await.is_ok(),
        Err(_) => false,
    }
}

/// Absolute, so that it stays the same file when the process changes its directory, and so that SQLite takes it for no
/// address of another kind.
fn checked_path(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    let text = path.to_string_lossy();
    if text.is_empty() || text.contains(":memory:") || text.starts_with("sqlite:") || text.starts_with("file:") {
        return Err(Error::invalid(format!(
            "`{shown}` is no path of a file; several connections and processes must see one store, so give a file (for tests, one in a temporary directory, or use the memory store)"
        )));
    }
    let path = std::path::absolute(path)
        .map_err(|error| Error::invalid(format!("`{shown}` is no path of a file")).with_source(error))?;
    if path.is_dir() {
        return Err(Error::invalid(format!(
            "`{shown}` is a directory; name a file in it, e.g. `{}`",
            path.join("passbook.db").display()
        )));
    }
    if let Some(parent) = path.parent()
        && !parent.is_dir()
    {
        return Err(Error::invalid(format!(
            "the directory `{}` does not exist; create it first",
            parent.display()
        )));
    }
    Ok(path)
}

/// Creates the file if need be and puts it into WAL mode, which it keeps.
///
/// SQLite does not wait for other connections when it changes the mode, so a fleet that boots together meets "busy" here
/// and asks again.
async fn make_wal(path: &Path, connect: &SqliteConnectOptions, patience: Duration) -> Result<()> {
    let doing = || format!("open `{}`", path.display());
    let mut connection = connect.clone().create_if_missing(true).connect().await.doing(doing)?;
    let since = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        let mode = sqlx::query_scalar::<_, String>("PRAGMA journal_mode = WAL")
            .fetch_one(&mut connection)
            .await;
        match mode {
            Ok(mode) if mode == "wal" => break,
            Err(error) if is_busy(&error) && since.elapsed() < patience => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(error) => return Err(error).doing(doing),
            Ok(mode) => {
                return Err(Error::invalid(format!(
                    "`{}` stays in journal mode `{mode}`, and several processes need `wal`; choose a path on a local disk",
                    path.display()
                )));
            }
        }
    }
    connection.close().await.doing(doing)
}
