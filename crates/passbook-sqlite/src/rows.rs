//! Rows as the library knows them.

use passbook::{Error, Finished, Record, Result, State, Status, Timestamp, Value};
use serde::{Serialize, Serializer as _};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// A row of `load.sql`.
pub(crate) fn record(row: &SqliteRow) -> sqlx::Result<Record> {
    Ok(Record {
        step: row.try_get("step")?,
        value: Value::stored(row.try_get::<String, _>("value")?),
        seq: row.try_get("seq")?,
        recorded_at: Timestamp::from_micros(row.try_get("recorded_at")?),
    })
}

/// A row of `list.sql`.
pub(crate) fn status(row: &SqliteRow) -> sqlx::Result<Status> {
    let moment = |column: &str| -> sqlx::Result<Option<Timestamp>> {
        Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp::from_micros))
    };
    Ok(Status {
        workflow: row.try_get("workflow")?,
        namespace: row.try_get("namespace")?,
        state: state(row)?,
        waits_for: Value::stored(row.try_get::<String, _>("waits_for")?)
            .decode()
            .map_err(|error| sqlx::Error::Decode(error.into()))?,
        wake_at: moment("wake_at")?,
        attempts: attempts(row.try_get("attempts")?),
        error: row.try_get("error")?,
        running: row.try_get("running")?,
        records: u64::try_from(row.try_get::<i64, _>("records")?).unwrap_or(0),
        started_at: moment("started_at")?,
        finished_at: moment("finished_at")?,
    })
}

/// A row of `finished.sql`.
pub(crate) fn finished(row: &SqliteRow) -> sqlx::Result<Finished> {
    let state = state(row)?;
    Ok(Finished {
        workflow: row.try_get("workflow")?,
        state,
        result: row.try_get::<Option<String>, _>("value")?.map(Value::stored),
        error: row
            .try_get::<Option<String>, _>("error")?
            .filter(|_| state == State::Failed),
    })
}

fn state(row: &SqliteRow) -> sqlx::Result<State> {
    row.try_get::<String, _>("state")?
        .parse()
        .map_err(|error: Error| sqlx::Error::Decode(error.into()))
}

/// A count that cannot be negative, whatever another program has written.
pub(crate) fn attempts(stored: i64) -> u32 {
    u32::try_from(stored.max(0)).unwrap_or(u32::MAX)
}

/// Rows as a JSON array, for `json_each`.
pub(crate) fn array<R: Serialize>(rows: impl IntoIterator<Item = R>) -> Result<String> {
    let mut json = Vec::new();
    let written = serde_json::Serializer::new(&mut json).collect_seq(rows);
    let unwritten = |error: serde_json::Error| Error::refused("a row cannot be written").with_source(error);
    written.map_err(unwritten)?;
    String::from_utf8(json).map_err(|error| Error::refused("a row cannot be written").with_source(error))
}

/// Names as a JSON array, for a column or for `json_each`.
pub(crate) fn list_of_names(names: &[String]) -> Result<Value> {
    Value::encode(names).map_err(|error| Error::refused("a name cannot be stored").with_source(error))
}
