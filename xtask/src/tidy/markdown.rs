//! Rules about prose: links lead somewhere, and the README's commands are the ones we keep working.

use std::path::Path;

use super::{Complaints, Source};

/// The command that runs all tests, as the README promises it.
const TEST_COMMAND: &str = "cargo xtask test";

/// Every relative link leads to a file, and to a heading in it where it names one.
pub(super) fn check(source: &Source, root: &Path) -> Complaints {
    let folder = Path::new(&source.path).parent().unwrap_or(Path::new(""));
    let mut complaints = Vec::new();
    for (number, target) in links(&source.text) {
        let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
        if target.contains(':') {
            continue;
        }
        let file = if path.is_empty() {
            root.join(&source.path)
        } else {
            root.join(folder).join(path)
        };
        if !file.exists() {
            complaints.push(format!(
                "{}:{number}: links to `{path}`, which is not there",
                source.path
            ));
        } else if !anchor.is_empty()
            && file.extension().is_some_and(|extension| extension == "md")
            && !std::fs::read_to_string(&file).is_ok_and(|text| anchors(&text).any(|found| found == anchor))
        {
            complaints.push(format!(
                "{}:{number}: links to `{target}`, which has no such heading",
                source.path
            ));
        }
    }
    complaints
}

/// The README's first two `sh` blocks are one command each: what to add, and how to test.
pub(super) fn first_commands(readme: &Source) -> Complaints {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    let mut inside = false;
    for line in readme.text.lines() {
        if inside && line.trim_end() == "```" {
            inside = false;
        } else if inside {
            blocks.last_mut().expect("a block was opened").push(line);
        } else if line.trim_end() == "```sh" {
            inside = true;
            blocks.push(Vec::new());
        }
    }
    let mut complaints = Vec::new();
    for (index, which) in ["first", "second"].into_iter().enumerate() {
        match blocks.get(index).map(Vec::as_slice) {
            Some([command]) if index == 0 && !command.trim().is_empty() => {}
            Some([command]) if index == 1 && command.trim() == TEST_COMMAND => {}
            Some([_]) if index == 1 => {
                complaints.push(format!(
                    "{}: its second `sh` block is not `{TEST_COMMAND}`",
                    readme.path
                ));
            }
            Some(_) => complaints.push(format!(
                "{}: its {which} `sh` block is not one command line",
                readme.path
            )),
            None => complaints.push(format!("{}: has no {which} `sh` block", readme.path)),
        }
    }
    complaints
}

/// The lines outside fenced blocks, numbered, with what stands in backticks taken out.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        let spoken = || line.split('`').step_by(2).collect();
        (!fence && !inside).then(|| (index + 1, spoken()))
    })
}

/// The targets of `[text](target)` and of `[label]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or(rest);
            links.push((number, target.to_owned()));
        }
        if line.starts_with('[')
            && let Some((_, target)) = line.split_once("]: ")
        {
            links.push((number, target.split(' ').next().unwrap_or(target).to_owned()));
        }
    }
    links
}

/// The names that GitHub gives to headings.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let mut inside = false;
    text.lines().filter_map(move |line| {
        inside ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        (!inside && line.starts_with('#') && title.starts_with(' ')).then(|| anchor(title.trim()))
    })
}

fn anchor(title: &str) -> String {
    title
        .chars()
        .filter(|character| character.is_alphanumeric() || [' ', '-', '_'].contains(character))
        .map(|character| if character == ' ' { '-' } else { character })
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn complaints(text: &str) -> Complaints {
        let root = tempfile::tempdir().expect("a temporary directory can be made");
        fs::create_dir(root.path().join("docs")).expect("a fresh directory takes any name");
        fs::write(root.path().join("docs/protocol.md"), "# Crash windows, `settle` too\n")
            .expect("a fresh directory takes any file");
        let source = Source {
            path: "docs/page.md".to_owned(),
            text: text.to_owned(),
        };
        fs::write(root.path().join(&source.path), text).expect("a fresh directory takes any file");
        check(&source, root.path())
    }

    fn readme(text: &str) -> Complaints {
        first_commands(&Source {
            path: "README.md".to_owned(),
            text: text.to_owned(),
        })
    }

    #[test]
    fn a_relative_link_leads_to_a_file() {
        assert!(complaints("[a](protocol.md) [b](../docs/protocol.md \"title\")\n[c]: protocol.md\n").is_empty());
        assert_eq!(complaints("[a](nowhere.md), [b](protocol.md)\n").len(), 1);
        assert_eq!(complaints("[a]: nowhere.md\n").len(), 1);
    }

    #[test]
    fn an_anchor_names_a_heading() {
        assert!(complaints("# Here\n[a](protocol.md#crash-windows-settle-too) [b](#here)\n").is_empty());
        assert_eq!(complaints("[a](protocol.md#settle) [b](#there)\n").len(), 2);
    }

    #[test]
    fn what_is_absolute_or_code_is_no_relative_link() {
        assert!(complaints("[a](https://example.org/x) `[b](c)`\n```text\n[d](e)\n```\n").is_empty());
    }

    #[test]
    fn the_readme_begins_with_two_commands() {
        assert!(readme("```sh\ncargo add passbook\n```\n\n```sh\ncargo xtask test\n```\n").is_empty());
    }

    #[test]
    fn the_readmes_commands_stand_alone() {
        assert_eq!(readme("").len(), 2);
        assert_eq!(readme("```sh\na\nb\n```\n```sh\ncargo xtask test\n```\n").len(), 1);
        assert_eq!(readme("```sh\na\n```\n```sh\ncargo test\n```\n").len(), 1);
        assert_eq!(readme("```sh\na\n```\n```sh\ncargo xtask test\necho\n```\n").len(), 1);
    }
}
