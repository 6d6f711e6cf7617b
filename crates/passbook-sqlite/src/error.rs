//! What the driver can fail with, told in our words.

use passbook::Error;

/// Names the operation that a driver error belongs to.
pub(crate) trait Doing<T> {
    /// `what` says the operation and its object in backticks, e.g. "record step `a` of workflow `w`".
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, sqlx::Error> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| classify(&what(), error))
    }
}

// Primary result codes, https://www.sqlite.org/rescode.html. The extended ones carry them in the low byte.
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NOMEM: i32 = 7;
const READONLY: i32 = 8;
const INTERRUPT: i32 = 9;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const PROTOCOL: i32 = 15;
const TOOBIG: i32 = 18;
const NOTADB: i32 = 26;

/// The primary result code of SQLite, where it is SQLite that failed.
pub(crate) fn code(error: &sqlx::Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// Whether the file was locked by another connection for longer than SQLite waited.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(BUSY | LOCKED | PROTOCOL))
}

/// The one place where errors of the driver become errors of the library.
pub(crate) fn classify(what: &str, error: sqlx::Error) -> Error {
    use sqlx::Error as Driver;

    let classified = match (&error, code(&error)) {
        (_, Some(BUSY | LOCKED | PROTOCOL)) => Error::unavailable(format!(
            "could not {what}: another process kept the file locked; ask again, and keep `transact` effects short"
        )),
        (Driver::PoolTimedOut, _) => Error::unavailable(format!(
            "could not {what}: all connections stayed in use; ask again, keep `transact` effects short, and let an effect use the store only through its own transaction"
        )),
        (_, Some(FULL)) => Error::unavailable(format!("could not {what}: the disk is full; free some space")),
        (_, Some(IOERR | NOMEM | INTERRUPT))
        | (Driver::Io(_) | Driver::PoolClosed | Driver::WorkerCrashed | Driver::Protocol(_), _) => {
            Error::unavailable(format!("could not {what}; ask again"))
        }
        (_, Some(READONLY)) => Error::store(format!(
            "could not {what}: the file cannot be written; give this process write permission on it and on its directory"
        )),
        (_, Some(CANTOPEN)) => Error::store(format!(
            "could not {what}: the file cannot be opened; its directory must exist, and this process must be allowed to create files in it"
        )),
        (_, Some(NOTADB)) => Error::invalid(format!(
            "could not {what}: the file is not a SQLite database; choose another path"
        )),
        (_, Some(CORRUPT)) => Error::store(format!(
            "could not {what}: the file is damaged; restore it from a backup"
        )),
        (_, Some(TOOBIG)) => Error::refused(format!(
            "could not {what}: the value is larger than SQLite takes; keep it elsewhere and record where"
        )),
        (Driver::Database(database), _) if database.message().starts_with("no such table") => Error::not_found(
            format!("could not {what}: the schema is not there; call `prepare` first"),
        ),
        (Driver::ColumnDecode { .. } | Driver::Decode(_), _) => Error::store(format!(
            "could not {what}: a row holds what this library does not write; correct it"
        )),
        _ => Error::store(format!("could not {what}")),
    };
    classified.with_source(error)
}
