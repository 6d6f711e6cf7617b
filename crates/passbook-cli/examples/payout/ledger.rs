//! The application's own table, in the same database: what a `transact` step writes.

use passbook::{Durable, Enlist, Inspect, Tx};
use passbook_postgres::Postgres;
use passbook_sqlite::Sqlite;
use sqlx::{Connection as _, Row as _};

/// A store with a ledger beside it. There is no unique key: a line posted twice would be there twice.
pub(crate) trait Ledger: Durable + Inspect + Enlist {
    /// Adds a line, inside the transaction of a step.
    fn post(tx: &mut Tx<Self>, order: &str, cents: i64) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Creates the table.
    fn create(database: &str) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// How many lines there are, and their sum.
    fn total(database: &str) -> impl Future<Output = Result<(i64, i64), sqlx::Error>> + Send;
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS ledger (order_id text NOT NULL, cents bigint NOT NULL)";
const TOTAL: &str = "SELECT count(*), CAST(coalesce(sum(cents), 0) AS bigint) FROM ledger";

impl Ledger for Sqlite {
    async fn post(tx: &mut Tx<Self>, order: &str, cents: i64) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO ledger (order_id, cents) VALUES (?, ?)")
            .bind(order)
            .bind(cents)
            .execute(tx)
            .await?;
        Ok(())
    }

    async fn create(database: &str) -> Result<(), sqlx::Error> {
        let mut connection = sqlx::SqliteConnection::connect(database).await?;
        sqlx::query(CREATE).execute(&mut connection).await?;
        connection.close().await
    }

    async fn total(database: &str) -> Result<(i64, i64), sqlx::Error> {
        let mut connection = sqlx::SqliteConnection::connect(database).await?;
        let row = sqlx::query(TOTAL).fetch_one(&mut connection).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }
}

impl Ledger for Postgres {
    async fn post(tx: &mut Tx<Self>, order: &str, cents: i64) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO ledger (order_id, cents) VALUES ($1, $2)")
            .bind(order)
            .bind(cents)
            .execute(tx)
            .await?;
        Ok(())
    }

    async fn create(database: &str) -> Result<(), sqlx::Error> {
        let mut connection = sqlx::PgConnection::connect(database).await?;
        sqlx::query(CREATE).execute(&mut connection).await?;
        connection.close().await
    }

    async fn total(database: &str) -> Result<(i64, i64), sqlx::Error> {
        let mut connection = sqlx::PgConnection::connect(database).await?;
        let row = sqlx::query(TOTAL).fetch_one(&mut connection).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }
}
