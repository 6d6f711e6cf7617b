//! No sentence is forgotten: each that is written is also run.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Every function of the tests and sentences of the repository.
fn functions(folder: &Path, into: &mut HashSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1);
            into.extend(
                names
                    .filter_map(|rest| rest.split(['(', '<']).next())
                    .map(str::to_owned),
            );
        }
    }
}

#[test]
fn every_test_that_the_protocol_names_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut known = HashSet::new();
    for each in fs::read_dir(crates).unwrap() {
        for folder in ["src", "tests"] {
            let folder = each.as_ref().unwrap().path().join(folder);
            if folder.is_dir() {
                functions(&folder, &mut known);
            }
        }
    }
    let page = fs::read_to_string(crates.with_file_name("docs").join("protocol.md")).unwrap();
    // A sentence has several words; columns, statements and verbs have fewer.
    let named = page.split('`').skip(1).step_by(2);
    let named: Vec<&str> = named.filter(|name| name.matches('_').count() > 2).collect();
    assert!(named.len() > 50, "{named:?}");
    let missing: Vec<&&str> = named.iter().filter(|name| !known.contains(**name)).collect();
    assert!(missing.is_empty(), "no test is called so: {missing:?}");
}

#[test]
fn every_sentence_is_in_a_suite() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("src");
    let mut runners = vec![source.join("suite.rs"), source.join("sentences.rs")];
    // Some need a store of another make than the suites give, and are run from a file of their own.
    let tests = fs::read_dir(source.with_file_name("tests")).unwrap();
    runners.extend(tests.map(|file| file.unwrap().path()).filter(|path| path.is_file()));
    let suites: Vec<String> = runners.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let listed: HashSet<&str> = suites
        .iter()
        .flat_map(|text| text.split(|at: char| !at.is_alphanumeric() && at != '_'))
        .collect();
    let mut missing = Vec::new();
    for file in fs::read_dir(&source).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // What is no sentence: the moves that the sentences are made of, and the stores.
        if path.is_dir() || matches!(name.as_str(), "bed" | "fixture" | "faulty" | "server") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("pub async fn ") else {
                continue;
            };
            let sentence = rest.split(['(', '<']).next().unwrap().to_owned();
            if !listed.contains(sentence.as_str()) {
                missing.push(format!("{name}::{sentence}"));
            }
        }
    }
    assert_eq!(missing, [] as [&str; 0], "list them");
}
