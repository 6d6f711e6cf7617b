//! Which store a database is.

use passbook::{Error, Result};
use passbook_postgres::Postgres;
use passbook_sqlite::Sqlite;

use crate::{Command, commands};

pub(crate) async fn open(database: Option<&str>, command: Command) -> Result<bool> {
    let Some(database) = database else {
        return Err(Error::invalid(
            "no database is named; give one with --database or DATABASE_URL, e.g. postgres://localhost/shop or sqlite:shop.db",
        ));
    };
    let postgres = database.starts_with("postgres://") || database.starts_with("postgresql://");
    let file = database.strip_prefix("sqlite:");
    match (file, command) {
        (None, _) if !postgres => Err(Error::invalid(format!(
            "`{database}` is neither a Postgres URL (postgres://…) nor a SQLite file (sqlite:FILE)"
        ))),
        (None, Command::Migrate { print: true }) => print(&passbook_postgres::migration_sql()),
        (Some(_), Command::Migrate { print: true }) => print(&passbook_sqlite::migration_sql()),
        (None, command) => commands::carry_out(Postgres::connect(database).await?, command).await,
        (Some(file), command) => {
            // SQLite would make the file; a slip in its name should not.
            if !matches!(command, Command::Migrate { .. }) && !std::path::Path::new(file).exists() {
                return Err(Error::not_found(format!(
                    "there is no file `{file}`; check the name, or make it with `passbook migrate`"
                )));
            }
            commands::carry_out(Sqlite::open(file).await?, command).await
        }
    }
}

fn print(sql: &str) -> Result<bool> {
    commands::line(sql.trim_end())
}
