//! The server that all systems are measured on.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{Connection, PgConnection, Row};

use crate::Result;

/// A server, ours or a given one. A server of our own is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    url: String,
    child: Option<Child>,
    databases: AtomicU32,
}

impl Server {
    /// The given server, or a throwaway one with fsync on.
    pub(crate) fn open(url: Option<String>) -> Result<Self> {
        let databases = AtomicU32::new(0);
        if let Some(url) = url {
            let child = None;
            return Ok(Self { url, child, databases });
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let mut child = Command::new("cargo")
            .args(["xtask", "postgres", "--fsync"])
            .current_dir(root)
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the server's stdout was not piped")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url)?;
        let server = Self {
            url: url.trim().to_owned(),
            child: Some(child),
            databases,
        };
        if server.url.is_empty() {
            return Err("no throwaway Postgres could be started; see what `cargo xtask postgres --fsync` says".into());
        }
        Ok(server)
    }

    /// A fresh database, and nothing of an earlier measure left to be written.
    pub(crate) async fn fresh(&self) -> Result<Fresh> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("peers_{}_{number}", std::process::id());
        self.execute(format!("CREATE DATABASE {name}")).await?;
        self.execute("CHECKPOINT".to_owned()).await?;
        let (address, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let server = address.rsplit_once('/').ok_or("the database URL names no database")?.0;
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("?{query}")
        };
        let url = format!("{server}/{name}{query}");
        Ok(Fresh { url, name })
    }

    /// Removes a database, whoever is still connected.
    pub(crate) async fn remove(&self, fresh: Fresh) -> Result<()> {
        self.execute(format!("DROP DATABASE {} WITH (FORCE)", fresh.name)).await
    }

    async fn execute(&self, statement: String) -> Result<()> {
        let mut connection = PgConnection::connect(&self.url).await?;
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(&mut connection)
            .await?;
        connection.close().await?;
        Ok(())
    }

    /// Today, and the version and the settings that figures depend on.
    pub(crate) async fn describe(&self) -> Result<(String, String)> {
        let mut connection = PgConnection::connect(&self.url).await?;
        let today = sqlx::query_scalar("SELECT to_char(now() AT TIME ZONE 'utc', 'YYYY-MM-DD')")
            .fetch_one(&mut connection)
            .await?;
        let rows = sqlx::query(
            "SELECT name, current_setting(name) AS value FROM unnest(ARRAY['server_version', 'fsync', \
             'synchronous_commit', 'shared_buffers', 'max_connections']) AS name",
        )
        .fetch_all(&mut connection)
        .await?;
        connection.close().await?;
        let settings = rows
            .iter()
            .map(|row| format!("{} {}", row.get::<String, _>("name"), row.get::<String, _>("value")));
        Ok((today, settings.collect::<Vec<_>>().join(", ")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Asked as by Ctrl-C, so that it removes its data before it ends.
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            let _ = child.wait();
        }
    }
}

/// A database for one measure.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) url: String,
    name: String,
}
