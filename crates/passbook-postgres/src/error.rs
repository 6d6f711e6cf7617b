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

fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

/// Whether the statement may be sent again as it is: it lost against another transaction and did nothing.
pub(crate) fn is_collision(error: &sqlx::Error) -> bool {
    // deadlock_detected, serialization_failure
    matches!(code(error).as_deref(), Some("40P01" | "40001"))
}

/// The one place where errors of the driver become errors of the library. Codes are those of the appendix "PostgreSQL Error
/// Codes" of the server's manual.
pub(crate) fn classify(what: &str, error: sqlx::Error) -> Error {
    use sqlx::Error as Driver;

    let code = code(&error);
    let code = code.as_deref().unwrap_or_default();
    let class = code.get(..2).unwrap_or_default();
    let classified = match (&error, class, code) {
        (_, _, "28P01" | "28000") => Error::invalid(format!(
            "could not {what}: the server refuses the user or the password; correct the database URL"
        )),
        (_, _, "3D000") => Error::invalid(format!(
            "could not {what}: there is no such database; create it, or correct the database URL"
        )),
        (_, _, "42P01" | "42703" | "3F000" | "42883") => Error::not_found(format!(
            "could not {what}: the schema is not there or not up to date; run `passbook migrate`, or call `prepare` first"
        )),
        (_, _, "42501") => Error::store(format!(
            "could not {what}: the user may not do that; grant it the right on the tables of this schema"
        )),
        (_, _, "25006") => Error::store(format!(
            "could not {what}: the database is read-only; connect to the primary, or make it writable"
        )),
        (_, _, "53100") => Error::unavailable(format!("could not {what}: the server's disk is full; free some space")),
        // Resources, operator intervention, connection, collisions, and a transaction that the server ended for its age.
        (_, "53" | "57" | "08" | "40", _) | (_, _, "55P03" | "25P03" | "25P02") => {
            Error::unavailable(format!("could not {what}: the server cannot do it now; ask again"))
        }
        (Driver::PoolTimedOut, ..) => Error::unavailable(format!(
            "could not {what}: all connections stayed in use; allow more, or keep `transact` effects short"
        )),
        (Driver::Io(_), ..) => Error::unavailable(format!(
            "could not {what}: the server does not answer; see that it runs and that the database URL names it"
        )),
        (Driver::PoolClosed | Driver::WorkerCrashed | Driver::Protocol(_), ..) => {
            Error::unavailable(format!("could not {what}; ask again"))
        }
        (Driver::Tls(_), ..) => Error::invalid(format!(
            "could not {what}: the encrypted connection failed; build with the feature `rustls`, and check `sslmode` in the database URL"
        )),
        (_, "22" | "54", _) => Error::refused(format!(
            "could not {what}: Postgres cannot keep that value; make it smaller or keep it elsewhere"
        )),
        (Driver::ColumnDecode { .. } | Driver::Decode(_), ..) => Error::store(format!(
            "could not {what}: a row holds what this library does not write; correct it"
        )),
        _ => Error::store(format!("could not {what}")),
    };
    classified.with_source(error)
}
