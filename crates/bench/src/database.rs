//! The database that is measured, and what it counts.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Row};

use crate::Result;

/// A server, ours or a given one. A server of our own is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    server: Option<Child>,
}

impl Database {
    /// The given server, or a throwaway one with fsync on.
    pub(crate) fn open(url: Option<String>) -> Result<Self> {
        if let Some(url) = url {
            return Ok(Self { url, server: None });
        }
        let mut server = Command::new("cargo")
            .args(["xtask", "postgres", "--fsync"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = server.stdout.take().ok_or("the server's stdout was not piped")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url)?;
        let database = Self {
            url: url.trim().to_owned(),
            server: Some(server),
        };
        if database.url.is_empty() {
            return Err("no throwaway Postgres could be started; see what `cargo xtask postgres --fsync` says".into());
        }
        Ok(database)
    }

    /// Connections of the measure's own.
    pub(crate) async fn pool(&self, connections: u32) -> Result<PgPool> {
        let options = PgPoolOptions::new()
            .max_connections(connections)
            .min_connections(connections);
        Ok(options.connect(&self.url).await?)
    }

    /// Version and the settings that figures depend on.
    pub(crate) async fn describe(&self) -> Result<String> {
        let pool = self.pool(1).await?;
        let rows = sqlx::query(
            "SELECT name, current_setting(name) AS value FROM unnest(ARRAY['server_version', 'fsync', \
             'synchronous_commit', 'shared_buffers', 'max_wal_size', 'wal_level', 'full_page_writes', 'max_connections']) AS name",
        )
        .fetch_all(&pool)
        .await?;
        let settings = rows
            .iter()
            .map(|row| format!("{} {}", row.get::<String, _>("name"), row.get::<String, _>("value")));
        Ok(settings.collect::<Vec<_>>().join(", "))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // Asked as by Ctrl-C, so that it removes its data before it ends.
            let _ = Command::new("kill").args(["-INT", &server.id().to_string()]).status();
            let _ = server.wait();
        }
    }
}

/// What was counted up to one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) commits: f64,
    pub(crate) wal: f64,
    /// Row versions that an update or a delete left dead.
    pub(crate) dead: f64,
    /// Those of the updates that needed no index entry.
    pub(crate) hot: f64,
    pub(crate) own_cpu: f64,
    pub(crate) server_cpu: Option<f64>,
}

impl Counts {
    /// Reads the counters. Sessions that ran statements must be closed, since only then have they told everything.
    pub(crate) async fn read(pool: &PgPool) -> Result<Self> {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let row = sqlx::query(
            "SELECT pg_backend_pid() AS pid, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 AS wal, \
             (SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = current_database()) AS commits, \
             (SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::float8 FROM pg_stat_user_tables) AS dead, \
             (SELECT coalesce(sum(n_tup_hot_upd), 0)::float8 FROM pg_stat_user_tables) AS hot",
        )
        .fetch_one(pool)
        .await?;
        Ok(Self {
            commits: row.get("commits"),
            wal: row.get("wal"),
            dead: row.get("dead"),
            hot: row.get("hot"),
            own_cpu: stat("self").map_or(0.0, |stat| stat.own),
            server_cpu: server_cpu(row.get("pid")),
        })
    }
}

/// What the kernel says of a process: its parent, its CPU seconds, and those of children that ended.
struct Stat {
    parent: i32,
    own: f64,
    ended: f64,
}

fn stat(process: &str) -> Option<Stat> {
    /// Of `/proc`, on every Linux that we know.
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may hold spaces.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: (ticks(11)? + ticks(12)?) / TICKS,
        ended: (ticks(13)? + ticks(14)?) / TICKS,
    })
}

/// CPU seconds of the whole server, when it runs on this machine.
fn server_cpu(backend: i32) -> Option<f64> {
    let postmaster = stat(&backend.to_string())?.parent;
    let head = stat(&postmaster.to_string())?;
    let children = fs::read_dir("/proc").ok()?.filter_map(|entry| {
        let stat = stat(entry.ok()?.file_name().to_str()?)?;
        (stat.parent == postmaster).then_some(stat.own)
    });
    Some(head.own + head.ended + children.sum::<f64>())
}
