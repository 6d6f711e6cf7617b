//! The statements, with the name of the schema put in once.
//!
//! Lists are read as `unnest((SELECT $1::text[]))`, and limits and moments alike, so that the planner sees a list of unknown
//! length: then the plan that is made for all costs as much as one made for these, and the server keeps it. Seeing the list it
//! would plan anew at every call, which takes longer than the statement.

use std::sync::Arc;

use sqlx::AssertSqlSafe;

macro_rules! statements {
    ($($name:ident),+ $(,)?) => {
        /// Every statement of the store, ready to be sent.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(crate) $name: Arc<str>,)+
            pub(crate) acquire_unshared: Arc<str>,
        }

        impl Statements {
            /// `schema` has been validated; `None` leaves it to the connection's search path.
            pub(crate) fn new(schema: Option<&str>) -> Self {
                let sent = |file: &str| in_schema(bare(file), schema);
                Self {
                    $($name: sent(include_str!(concat!("../sql/", stringify!($name), ".sql"))).into(),)+
                    acquire_unshared: unshared(&sent(include_str!("../sql/acquire.sql"))).into(),
                }
            }
        }

        #[cfg(test)]
        const FILES: &[&str] = &[$(stringify!($name)),+];
    };
}

statements!(
    acquire,
    append,
    arrive,
    arrive_many,
    begin,
    cancel,
    claim,
    claim_state,
    deliver,
    deliver_many,
    dequeue,
    discard,
    done,
    extend,
    fence,
    finished,
    list,
    load,
    look_up,
    make_ready,
    next_due,
    next_ready,
    notify,
    now,
    record,
    record_many,
    renew,
    reopen,
    settle,
    settle_many,
    start,
    start_claimed,
    start_many,
    status,
    supply,
    wake_at,
);

/// `acquire.sql` without the sharing out, which is two thirds of what a take of one workflow costs the server.
fn unshared(acquire: &str) -> String {
    let (Some(share), Some(due)) = (acquire.find(SHARE), acquire.find(DUE)) else {
        return acquire.to_owned();
    };
    let all = "SELECT wanted.namespace, wanted.since, (SELECT $2::bigint) AS share FROM wanted";
    format!("{}{SHARE}\n    {all}\n{}", &acquire[..share], &acquire[due..])
}

const SHARE: &str = "), share AS MATERIALIZED (";
const DUE: &str = "), due AS MATERIALIZED (";

/// Puts the schema's name in front of the tables.
pub(crate) fn in_schema(sql: &str, schema: Option<&str>) -> String {
    let prefix = schema.map_or_else(String::new, |schema| format!("\"{schema}\"."));
    sql.replace("{schema}", &prefix)
}

/// A statement without the comment at its head, so that who looks at the server's activity sees the statement.
fn bare(file: &str) -> &str {
    let mut rest = file;
    while let Some((line, after)) = rest.split_once('\n')
        && line.starts_with("--")
    {
        rest = after;
    }
    rest
}

/// A statement of ours: text from this crate's files, with a validated name in it and values only as parameters.
pub(crate) fn safe(sql: &Arc<str>) -> AssertSqlSafe<Arc<str>> {
    AssertSqlSafe(sql.clone())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_take_whose_room_is_not_shared_out_differs_in_nothing_else() {
        let statements = super::Statements::new(None);
        let (shared, unshared) = (&statements.acquire, &statements.acquire_unshared);
        assert!(
            shared.contains("row_number()") && !unshared.contains("row_number()"),
            "{unshared}"
        );
        let (head, tail) = unshared.split_once(super::DUE).expect("it takes");
        assert!(shared.ends_with(tail), "{tail}");
        assert!(
            shared.starts_with(head.split_once(super::SHARE).expect("it shares").0),
            "{head}"
        );
    }

    #[test]
    fn every_file_is_a_statement() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| {
                entry
                    .expect("it can be read")
                    .file_name()
                    .into_string()
                    .expect("a name")
            })
            .map(|name| name.trim_end_matches(".sql").to_owned())
            .collect();
        files.sort();
        assert_eq!(files, super::FILES);
    }
}
