//! Rules about Rust, and about what is left behind in any code.

use super::{Complaints, RULES, Source, extension};

/// Beyond it, a file holds a second noun.
const MAX_LINES: usize = 500;

/// Marks of unfinished work, and of tests that do not run.
const LEFTOVERS: [&str; 5] = ["todo!", "unimplemented!", "#[ignore", "TODO", "FIXME"];

/// A size, and `unwrap` where a user's process would pay for it.
pub(super) fn check(source: &Source) -> Complaints {
    let mut complaints = Vec::new();
    let count = source.text.lines().count();
    if count > MAX_LINES {
        complaints.push(format!(
            "{}: has {count} lines, more than {MAX_LINES}; look for the second noun",
            source.path
        ));
    }
    if !belongs_to_tests(&source.path) && !source.path.starts_with(RULES) {
        complaints.extend(unwraps(source));
    }
    complaints
}

/// Nothing unfinished is committed. Prose may speak of it.
pub(super) fn leftovers(source: &Source) -> Complaints {
    if extension(&source.path) == "md" || source.path.starts_with(RULES) {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (number, line) in numbered(&source.text) {
        if let Some(leftover) = LEFTOVERS.iter().find(|leftover| line.contains(**leftover)) {
            complaints.push(format!("{}:{number}: has a leftover `{leftover}`", source.path));
        }
    }
    complaints
}

/// Files of tests: a folder `tests`, or a module that is declared under `#[cfg(test)]`, which is
/// called `tests` by custom.
fn belongs_to_tests(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// Complains about `unwrap()` outside comments and outside `#[cfg(test)]` items.
///
/// The code is formatted, so an item that is opened on one line ends at the brace which stands
/// alone under its first column.
fn unwraps(source: &Source) -> Complaints {
    let mut complaints = Vec::new();
    let mut lines = numbered(&source.text);
    while let Some((number, line)) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
            // Attributes and the first line of the item; one that opens nothing is over already.
            let item = lines.by_ref().find(|(_, line)| !line.trim_start().starts_with("#["));
            if item.is_some_and(|(_, line)| line.ends_with('{')) {
                lines.by_ref().find(|(_, line)| *line == end);
            }
        } else if without_comment(line).contains(".unwrap()") {
            complaints.push(format!(
                "{}:{number}: `unwrap()` outside tests; return the error, or `expect` the invariant",
                source.path
            ));
        }
    }
    complaints
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        ""
    } else {
        line.split(" // ").next().unwrap_or(line)
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_file_may_have_five_hundred_lines_and_no_more() {
        assert!(check(&source("a.rs", &"\n".repeat(500))).is_empty());
        assert_eq!(check(&source("a.rs", &"\n".repeat(501))).len(), 1);
    }

    #[test]
    fn unwrap_is_for_tests() {
        let text = "fn a() {\n    b.unwrap();\n}\n";
        assert_eq!(check(&source("src/a.rs", text)).len(), 1);
        assert!(check(&source("crates/a/tests/b.rs", text)).is_empty());
        assert!(check(&source("crates/a/src/b/tests.rs", text)).is_empty());
    }

    #[test]
    fn unwrap_in_a_comment_is_no_call() {
        assert!(check(&source("a.rs", "/// a.unwrap()\nfn a() {} // b.unwrap()\n")).is_empty());
    }

    #[test]
    fn a_test_module_ends_at_its_brace() {
        let text =
            "#[cfg(test)]\nmod tests {\n    fn a() {\n        b.unwrap();\n    }\n}\n\nfn c() {\n    d.unwrap();\n}\n";
        let complaints = check(&source("a.rs", text));
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("a.rs:9:"), "{complaints:?}");
    }

    #[test]
    fn a_test_module_elsewhere_hides_nothing_here() {
        let text = "#[cfg(test)]\n#[allow(unused)]\nmod tests;\n\nfn a() {\n    b.unwrap();\n}\n";
        assert_eq!(check(&source("a.rs", text)).len(), 1);
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_not_in_prose() {
        for leftover in LEFTOVERS {
            assert_eq!(leftovers(&source("a.rs", leftover)).len(), 1);
            assert_eq!(leftovers(&source("a.sql", leftover)).len(), 1);
            assert!(leftovers(&source("a.md", leftover)).is_empty());
        }
    }
}
