//! The schema and its versions.

use passbook::{Error, Result};
use sqlx::SqliteConnection;

use crate::SqliteFile;
use crate::error::Doing;

/// Every version of the schema, in order. Forward only: one that was released is never edited.
const MIGRATIONS: [(i64, &str, &str); 2] = [
    (1, "tables", include_str!("../migrations/0001_tables.sql")),
    (
        2,
        "order and state",
        include_str!("../migrations/0002_order_and_state.sql"),
    ),
];

const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

const LEDGER: &str = "CREATE TABLE IF NOT EXISTS passbook_migration (
    version INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL
)";

const VERSION: &str = include_str!("../sql/version.sql");
const APPLIED: &str = include_str!("../sql/applied.sql");

/// The SQL of the whole schema, for who applies it with a tool of their own. Run on an empty file, or on one that holds
/// only the base tables, it leaves what [`prepare`](passbook::Scheduler::prepare) leaves.
pub fn migration_sql() -> String {
    let versions = MIGRATIONS.map(|(version, name, sql)| {
        format!(
            "-- Version {version}: {name}.\n{sql}\nINSERT INTO passbook_migration (version, name, applied_at)\nVALUES ({version}, '{name}', CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000);\n"
        )
    });
    format!("BEGIN IMMEDIATE;\n\n{LEDGER};\n\n{}\nCOMMIT;\n", versions.join("\n"))
}

/// Brings the file to the latest version, all of it in one transaction. Whoever gets the file's lock first does it, the
/// others find it done; a process that dies inside leaves what was there before.
pub(crate) async fn migrate(file: &SqliteFile) -> Result<()> {
    // Most boots find it done, and need no lock to see that.
    let mut reader = file.read().await?;
    if version(&mut reader, file).await? == LATEST {
        return Ok(());
    }
    drop(reader);

    let doing = || format!("migrate `{}`", file.path().display());
    let mut transaction = file.begin().await?;
    sqlx::query(LEDGER).execute(&mut *transaction).await.doing(doing)?;
    let found = version(&mut transaction, file).await?;
    for (version, name, sql) in MIGRATIONS {
        if version <= found {
            continue;
        }
        sqlx::raw_sql(sql)
            .execute(&mut *transaction)
            .await
            .doing(|| format!("migrate `{}` to version {version} ({name})", file.path().display()))?;
        sqlx::query(APPLIED)
            .bind(version)
            .bind(name)
            .bind(crate::connection::wall_clock().as_micros())
            .execute(&mut *transaction)
            .await
            .doing(doing)?;
    }
    transaction.commit().await?;
    if found < LATEST {
        tracing::info!(path = %file.path().display(), from = found, to = LATEST, "migrated");
    }
    Ok(())
}

/// The version of the file's schema, 0 for none. Refuses one that this release does not know.
async fn version(connection: &mut SqliteConnection, file: &SqliteFile) -> Result<i64> {
    let doing = || format!("read the schema version of `{}`", file.path().display());
    let there: Option<i64> =
        sqlx::query_scalar("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'passbook_migration'")
            .fetch_optional(&mut *connection)
            .await
            .doing(doing)?;
    if there.is_none() {
        return Ok(0);
    }
    let version: i64 = sqlx::query_scalar(VERSION).fetch_one(connection).await.doing(doing)?;
    if version > LATEST {
        return Err(Error::invalid(format!(
            "`{}` has schema version {version}, and this release knows versions up to {LATEST}; deploy the newer release here too",
            file.path().display()
        )));
    }
    Ok(version)
}
