//! Rows as the library knows them.

use passbook::{Delivery, Error, Finished, Record, Recorded, Result, State, Status, Timestamp, Value};
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::error::Doing;

/// A moment as the driver binds it.
pub(crate) fn moment(at: Timestamp) -> OffsetDateTime {
    let at = at.min(Timestamp::MAX);
    // Within four digits of a year, so it always fits.
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.as_micros()) * 1_000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

pub(crate) fn timestamp(row: &PgRow, column: &str) -> sqlx::Result<Timestamp> {
    Ok(from_moment(row.try_get(column)?))
}

pub(crate) fn maybe_timestamp(row: &PgRow, column: &str) -> sqlx::Result<Option<Timestamp>> {
    Ok(row.try_get::<Option<OffsetDateTime>, _>(column)?.map(from_moment))
}

fn from_moment(at: OffsetDateTime) -> Timestamp {
    Timestamp::from_micros(i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX))
}

/// Reads all rows.
pub(crate) fn all<T>(rows: &[PgRow], read: impl Fn(&PgRow) -> sqlx::Result<T>, what: &str) -> Result<Vec<T>> {
    rows.iter()
        .map(read)
        .collect::<sqlx::Result<_>>()
        .doing(|| what.to_owned())
}

/// Reads the one row of a statement that always has one.
pub(crate) fn one<T>(rows: &[PgRow], read: impl Fn(&PgRow) -> sqlx::Result<T>, what: &str) -> Result<T> {
    let row = rows
        .first()
        .ok_or_else(|| Error::store(format!("could not {what}: the server answered with no row")))?;
    read(row).doing(|| what.to_owned())
}

/// A row of `load.sql`.
pub(crate) fn record(row: &PgRow) -> sqlx::Result<Record> {
    Ok(Record {
        step: row.try_get("step")?,
        value: Value::stored(row.try_get::<&str, _>("value")?),
        seq: row.try_get("seq")?,
        recorded_at: timestamp(row, "recorded_at")?,
    })
}

/// A row that tells who was first, and what stands there when it was another. What is stored is the very text that was sent,
/// so it is not sent back.
pub(crate) fn recorded(row: &PgRow, sent: &Value) -> sqlx::Result<Recorded> {
    let stored: Option<&str> = row.try_get("value")?;
    Ok(Recorded {
        value: stored.map_or_else(|| sent.clone(), Value::stored),
        first: row.try_get("first")?,
    })
}

/// A row of the queue.
pub(crate) fn delivery(row: &PgRow) -> sqlx::Result<Delivery> {
    Ok(Delivery {
        namespace: row.try_get("namespace")?,
        workflow: row.try_get("workflow")?,
        receipt: timestamp(row, "visible_at")?,
    })
}

/// A count that cannot be negative, whatever another program has written.
pub(crate) fn attempts(stored: i32) -> u32 {
    u32::try_from(stored).unwrap_or(0)
}

/// A row of `status.sql` or `list.sql`.
pub(crate) fn status(row: &PgRow) -> sqlx::Result<Status> {
    Ok(Status {
        workflow: row.try_get("workflow")?,
        namespace: row.try_get("namespace")?,
        state: state(row)?,
        waits_for: row.try_get("waits_for")?,
        wake_at: maybe_timestamp(row, "wake_at")?,
        attempts: attempts(row.try_get("attempts")?),
        error: row.try_get("error")?,
        running: row.try_get("running")?,
        records: u64::try_from(row.try_get::<i64, _>("records")?).unwrap_or(0),
        started_at: maybe_timestamp(row, "started_at")?,
        finished_at: maybe_timestamp(row, "finished_at")?,
    })
}

/// A row of `finished.sql`.
pub(crate) fn finished(row: &PgRow) -> sqlx::Result<Finished> {
    let state = state(row)?;
    Ok(Finished {
        workflow: row.try_get("workflow")?,
        state,
        result: row.try_get::<Option<&str>, _>("value")?.map(Value::stored),
        error: row
            .try_get::<Option<String>, _>("error")?
            .filter(|_| state == State::Failed),
    })
}

fn state(row: &PgRow) -> sqlx::Result<State> {
    row.try_get::<&str, _>("state")?
        .parse()
        .map_err(|error: Error| sqlx::Error::Decode(error.into()))
}
