//! Rules about SQL: one explained statement per file, and the same files in both stores.

use std::collections::BTreeSet;

use super::{Complaints, Source};

/// Where the statements of the stores lie, as `(store, folder)`.
const STORES: [(&str, &str); 2] = [
    ("postgres", "crates/passbook-postgres/sql/"),
    ("sqlite", "crates/passbook-sqlite/sql/"),
];

/// Statements that one store has and the other has not, as `(store, file, reason)`.
///
/// A reader who knows one store finds the way in the other, so each exception says why it is one.
const ONLY_IN: &[(&str, &str, &str)] = &[
    (
        "postgres",
        "acquire.sql",
        "taking and claiming are one statement; SQLite takes with `take.sql` and claims with `claim.sql` in one transaction",
    ),
    (
        "postgres",
        "append.sql",
        "locks the workflow before it draws; SQLite holds its lock, and `supply.sql` draws the key",
    ),
    (
        "postgres",
        "arrive.sql",
        "one statement; SQLite sends with `supply.sql` and `wake.sql` in one transaction",
    ),
    (
        "postgres",
        "arrive_many.sql",
        "one statement for many callers; so is `supply.sql` on SQLite, for one too",
    ),
    (
        "postgres",
        "begin.sql",
        "reads fence and record before an effect; SQLite holds its lock and asks `enlisted.sql`",
    ),
    (
        "postgres",
        "claim_state.sql",
        "tells held from over after a refused claim, as `state.sql` does on SQLite",
    ),
    (
        "postgres",
        "deliver.sql",
        "one statement; SQLite files with `supply.sql` and `wake.sql` in one transaction",
    ),
    (
        "postgres",
        "deliver_many.sql",
        "one statement for many callers; SQLite has one writer, who needs none",
    ),
    (
        "postgres",
        "look_up.sql",
        "reads one record after a rollback; SQLite needs no second look under its lock",
    ),
    (
        "postgres",
        "next_ready.sql",
        "takes by a lock on each row; SQLite reads `due.sql` and takes with `take.sql`",
    ),
    (
        "postgres",
        "now.sql",
        "the server has a clock; SQLite's is the machine's",
    ),
    (
        "postgres",
        "notify.sql",
        "tells other processes; SQLite's look at the file itself",
    ),
    (
        "postgres",
        "record_many.sql",
        "one statement for many callers; so is `record.sql` on SQLite, for one too",
    ),
    (
        "postgres",
        "settle.sql",
        "one statement; SQLite ends a pass with `release.sql` and `done.sql` or `wake_at.sql` in one transaction",
    ),
    (
        "postgres",
        "start_claimed.sql",
        "on SQLite a start leaves the claim to the next transaction of the one writer",
    ),
    (
        "postgres",
        "settle_many.sql",
        "one statement for many callers; so is `release.sql` on SQLite, for one too",
    ),
    (
        "postgres",
        "start.sql",
        "one statement; SQLite starts with `supply.sql` and `wake.sql` in one transaction",
    ),
    (
        "postgres",
        "start_many.sql",
        "one statement for many callers; so is `supply.sql` on SQLite, for one too",
    ),
    (
        "postgres",
        "status.sql",
        "asks the function of the schema; SQLite has none, and `list.sql` serves for one workflow too",
    ),
    (
        "sqlite",
        "advance.sql",
        "moves the last number drawn in a table; Postgres has sequences",
    ),
    (
        "sqlite",
        "applied.sql",
        "notes a migration; Postgres notes it in the migration's own text",
    ),
    (
        "sqlite",
        "awaited.sql",
        "looks for what a pass waits for; part of `settle.sql` on Postgres",
    ),
    (
        "sqlite",
        "drawn.sql",
        "the last number, as a pass that ends is told it; part of `settle.sql` on Postgres",
    ),
    (
        "sqlite",
        "due.sql",
        "reads what may be taken; part of `acquire.sql` and `next_ready.sql` on Postgres",
    ),
    (
        "sqlite",
        "enlist.sql",
        "a statement that fails undoes itself on Postgres; on SQLite a savepoint spans the statements of one call",
    ),
    (
        "sqlite",
        "enlisted.sql",
        "a statement that fails undoes itself on Postgres; on SQLite a savepoint spans the statements of one call",
    ),
    (
        "sqlite",
        "forget.sql",
        "the half of `fence.sql`, which serves for both on Postgres",
    ),
    ("sqlite", "hurry.sql", "part of `done.sql` and `settle.sql` on Postgres"),
    (
        "sqlite",
        "kind.sql",
        "reads the kind of a workflow that another kind was named for; part of `start.sql` and `arrive.sql` on Postgres",
    ),
    (
        "sqlite",
        "mark.sql",
        "a savepoint shows whether an effect ended the transaction; on Postgres the driver knows",
    ),
    (
        "sqlite",
        "moot.sql",
        "finds deliveries that are of no use; part of `acquire.sql` and `load.sql` on Postgres",
    ),
    (
        "sqlite",
        "prolong.sql",
        "gives waiting time back after a long effect; on Postgres effects hold nobody up",
    ),
    (
        "sqlite",
        "receipt.sql",
        "reads a queue row under the file's lock; part of `settle.sql` on Postgres",
    ),
    (
        "sqlite",
        "release.sql",
        "the half of `settle.sql`, which serves for both on Postgres",
    ),
    ("sqlite", "state.sql", "`claim_state.sql` on Postgres"),
    (
        "sqlite",
        "take.sql",
        "part of `acquire.sql` and `next_ready.sql` on Postgres",
    ),
    (
        "sqlite",
        "unmark.sql",
        "a savepoint shows whether an effect ended the transaction; on Postgres the driver knows",
    ),
    (
        "sqlite",
        "version.sql",
        "reads the version of the schema; on Postgres the name of the schema stands in it, beside the migration",
    ),
    (
        "sqlite",
        "wake.sql",
        "part of `arrive.sql` and `deliver.sql` on Postgres",
    ),
    (
        "sqlite",
        "withdraw.sql",
        "a statement that fails undoes itself on Postgres; on SQLite a savepoint spans the statements of one call",
    ),
    (
        "sqlite",
        "woken.sql",
        "sees which ends are due again; part of `settle.sql` on Postgres",
    ),
];

/// A head comment, and one statement in a file under `sql/`. Migrations may hold several.
pub(super) fn check(source: &Source) -> Complaints {
    let mut complaints = Vec::new();
    if !source.text.starts_with("--") {
        complaints.push(format!(
            "{}: begins without a `--` comment that says what it guarantees and what it locks",
            source.path
        ));
    }
    if source.path.contains("/sql/") {
        let statements = statements(&source.text);
        if statements != 1 {
            complaints.push(format!("{}: holds {statements} statements, not one", source.path));
        }
    }
    complaints
}

/// Counts what stands between semicolons outside comments. No statement of ours has one in a string.
fn statements(text: &str) -> usize {
    let code: String = text
        .lines()
        .map(|line| line.split("--").next().unwrap_or(line))
        .collect();
    code.split(';').filter(|statement| !statement.trim().is_empty()).count()
}

/// Both stores have the same file names, but for those that are listed with a reason.
pub(super) fn parity(paths: &[&str]) -> Complaints {
    compare(paths, ONLY_IN)
}

fn compare(paths: &[&str], only_in: &[(&str, &str, &str)]) -> Complaints {
    let files: [BTreeSet<&str>; 2] =
        STORES.map(|(_, folder)| paths.iter().filter_map(|path| path.strip_prefix(folder)).collect());
    let mut complaints: Complaints = STORES
        .into_iter()
        .zip(&files)
        .filter(|(_, here)| here.is_empty())
        .map(|((_, folder), _)| format!("{folder}: holds no statements"))
        .collect();
    if !complaints.is_empty() {
        return complaints;
    }
    for (index, (store, folder)) in STORES.into_iter().enumerate() {
        let (here, there) = (&files[index], &files[1 - index]);
        let listed: BTreeSet<&str> = only_in
            .iter()
            .filter(|(name, ..)| *name == store)
            .map(|(_, file, _)| *file)
            .collect();
        let missing: BTreeSet<&str> = here.difference(there).copied().collect();
        for file in missing.difference(&listed) {
            complaints.push(format!(
                "{folder}{file}: the other store has no such file; name both alike, or give the reason in xtask/src/tidy/sql.rs"
            ));
        }
        for file in listed.difference(&missing) {
            complaints.push(format!(
                "xtask/src/tidy/sql.rs: `{file}` is no longer a statement that only the {store} store has"
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: [&str; 2] = [
        "crates/passbook-postgres/sql/claim.sql",
        "crates/passbook-sqlite/sql/claim.sql",
    ];

    fn complaints(path: &str, text: &str) -> Complaints {
        check(&Source {
            path: path.to_owned(),
            text: text.to_owned(),
        })
    }

    #[test]
    fn a_statement_explains_itself_first() {
        assert!(complaints("a/sql/b.sql", "-- Reads one; locks none.\nSELECT 1;\n").is_empty());
        assert_eq!(complaints("a/sql/b.sql", "SELECT 1;\n").len(), 1);
    }

    #[test]
    fn a_file_holds_one_statement() {
        assert_eq!(complaints("a/sql/b.sql", "-- Two.\nSELECT 1;\nSELECT 2\n").len(), 1);
        assert_eq!(complaints("a/sql/b.sql", "-- None; really.\n").len(), 1);
        assert!(complaints("a/migrations/1.sql", "-- Two.\nSELECT 1;\nSELECT 2;\n").is_empty());
    }

    #[test]
    fn both_stores_have_the_same_files() {
        assert!(compare(&CLAIM, &[]).is_empty());
        let with_draw = [CLAIM[0], CLAIM[1], "crates/passbook-sqlite/sql/draw.sql"];
        assert_eq!(compare(&with_draw, &[]).len(), 1);
        assert!(compare(&with_draw, &[("sqlite", "draw.sql", "it has no sequences")]).is_empty());
        assert_eq!(
            compare(&with_draw, &[("postgres", "draw.sql", "the wrong store")]).len(),
            2
        );
    }

    #[test]
    fn an_exception_that_is_none_any_more_is_told() {
        assert_eq!(compare(&CLAIM, &[("sqlite", "claim.sql", "was once alone")]).len(), 1);
    }

    #[test]
    fn a_store_without_statements_is_told() {
        assert_eq!(compare(&[], &[]).len(), 2);
    }
}
