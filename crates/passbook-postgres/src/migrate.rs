//! The schema and its versions.

use passbook::{Error, Result};
use sqlx::{AssertSqlSafe, PgConnection};

use crate::connection::Link;
use crate::error::Doing;
use crate::statements::in_schema;

/// The tables as every program of the field may know them. Further columns come with the later versions; see
/// [`migration_sql`].
pub const SCHEMA: &str = include_str!("../migrations/0001_tables.sql");

/// Every version of the schema, in order. Forward only: one that was released is never edited.
const MIGRATIONS: [(i64, &str, &str); 2] = [
    (1, "tables", SCHEMA),
    (
        2,
        "order and state",
        include_str!("../migrations/0002_order_and_state.sql"),
    ),
];

const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// A fleet that boots at once stands in line here. Held to the end of the transaction, so it works through a pooler.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('passbook_migration', 0))";

/// A table of our own, so that we do not meet the application's migrations in the same schema.
const LEDGER: &str = "CREATE TABLE IF NOT EXISTS {schema}passbook_migration (
    version bigint PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)";

/// The SQL of the whole schema, for who applies it with a tool of their own. Run on an empty schema, or on one that holds only
/// the base tables, it leaves what [`prepare`](passbook::Scheduler::prepare) leaves. The schema is the first of the search
/// path.
pub fn migration_sql() -> String {
    let versions = MIGRATIONS.map(|(version, name, sql)| {
        format!(
            "-- Version {version}: {name}.\n{sql}\nINSERT INTO {{schema}}passbook_migration (version, name) VALUES ({version}, '{name}') ON CONFLICT DO NOTHING;\n"
        )
    });
    in_schema(
        &format!("BEGIN;\n{LOCK};\n\n{LEDGER};\n\n{}\nCOMMIT;\n", versions.join("\n")),
        None,
    )
}

/// Brings the schema to the latest version, all of it in one transaction. A process that dies inside leaves what was there
/// before.
pub(crate) async fn migrate(link: &Link) -> Result<()> {
    let schema = link.schema.as_deref();
    let what = || match schema {
        Some(schema) => format!("migrate schema `{schema}`"),
        None => "migrate the schema".to_owned(),
    };
    // Most boots find it done, and need no lock to see that. In a transaction all the same: behind a pooler, parsing and
    // binding reach the same server only within one.
    let mut look = link.pool.begin().await.doing(what)?;
    let found = version(&mut look, link).await?;
    look.rollback().await.doing(what)?;
    if found == LATEST {
        return Ok(());
    }

    let mut transaction = link.pool.begin().await.doing(what)?;
    let schema_sql = schema.map(|schema| format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\""));
    for sql in [Some(LOCK.to_owned()), schema_sql, Some(in_schema(LEDGER, schema))]
        .into_iter()
        .flatten()
    {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut *transaction)
            .await
            .doing(what)?;
    }
    let found = version(&mut transaction, link).await?;
    for (version, name, sql) in MIGRATIONS {
        if version <= found {
            continue;
        }
        let applied = format!("INSERT INTO {{schema}}passbook_migration (version, name) VALUES ({version}, '{name}')");
        for sql in [sql, &applied] {
            sqlx::raw_sql(AssertSqlSafe(in_schema(sql, schema)))
                .execute(&mut *transaction)
                .await
                .doing(|| format!("{} to version {version} ({name})", what()))?;
        }
    }
    transaction.commit().await.doing(what)?;
    if found < LATEST {
        tracing::info!(schema, from = found, to = LATEST, "migrated");
    }
    Ok(())
}

/// The version of the schema, 0 for none. Refuses one that this release does not know.
async fn version(connection: &mut PgConnection, link: &Link) -> Result<i64> {
    let schema = link.schema.as_deref();
    let what = || "read the version of the schema".to_owned();
    let table = in_schema("{schema}passbook_migration", schema);
    let there: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(&table)
        .persistent(link.persistent())
        .fetch_one(&mut *connection)
        .await
        .doing(what)?;
    if !there {
        return Ok(0);
    }
    let version: Option<i64> = sqlx::query_scalar(AssertSqlSafe(format!("SELECT max(version) FROM {table}")))
        .persistent(link.persistent())
        .fetch_one(connection)
        .await
        .doing(what)?;
    match version {
        Some(version) if version > LATEST => Err(Error::invalid(format!(
            "the schema has version {version}, and this release knows versions up to {LATEST}; deploy the newer release here too"
        ))),
        version => Ok(version.unwrap_or(0)),
    }
}
