//! Rules for every source file: short, compiled, documented and finished.

use crate::lines::words;
use crate::rust::Source;
use std::collections::{BTreeMap, BTreeSet};

/// A file with more lines has more than one subject.
const LINES: usize = 600;
/// Files that may be longer, each with the reason.
pub const LONG: &[(&str, &str)] =
    &[("crates/plan/tests/configuration/diagnostics.rs", "one list: each mistake beside the message it gets")];

/// Returns files over the limit, and exceptions that are no longer needed.
pub fn too_long(sources: &[Source], exceptions: &[(&str, &str)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let lines = source.text.lines().count();
        let exception = exceptions.iter().find(|(path, _)| *path == source.path);
        match exception {
            None if lines > LINES => complaints.push(format!("{}: {lines} lines, over {LINES}", source.path)),
            Some(_) if lines <= LINES => complaints.push(format!("{}: {lines} lines need no exception", source.path)),
            _ => {}
        }
    }
    let gone = exceptions.iter().filter(|(path, _)| !sources.iter().any(|s| s.path == *path));
    complaints.extend(gone.map(|(path, _)| format!("{path}: has an exception and is gone")));
    complaints
}

/// Returns files that no `mod` leads to: they look like code, but are not compiled.
pub fn unreached(sources: &[Source]) -> Vec<String> {
    sources.iter().filter(|s| !s.reached).map(|s| format!("{}: in no target", s.path)).collect()
}

/// Returns files that do not begin with a comment on their purpose. A test file of a module under `src` shares the comment of the module.
pub fn undocumented(sources: &[Source]) -> Vec<String> {
    let of_module = |s: &&Source| s.path.contains("/src/") && s.tests.contains(&(0..s.text.len()));
    let silent = |s: &&Source| !s.text.lines().find(|l| !l.trim().is_empty()).is_some_and(|l| l.starts_with("//! "));
    sources
        .iter()
        .filter(|s| !of_module(s))
        .filter(silent)
        .map(|s| format!("{}: does not begin with `//! `", s.path))
        .collect()
}

/// Returns marks of postponed work, in code and in comments.
pub fn unfinished(sources: &[Source]) -> Vec<String> {
    let in_code = ["todo!", "unimplemented!", "#[ignore"];
    let in_comments = ["TODO", "FIXME", "XXX", "HACK"];
    let mut complaints = Vec::new();
    for source in sources {
        let code = in_code.iter().map(|mark| (mark, &source.code));
        for (mark, text) in code.chain(in_comments.iter().map(|mark| (mark, &source.comments))) {
            let places = words(text, mark).into_iter();
            complaints.extend(places.map(|at| format!("{}:{}: `{mark}`", source.path, source.line(at))));
        }
    }
    complaints
}

/// Returns fuzz targets without a binary, or without a corpus to start from and to replay.
pub fn fuzz_targets_left_out(texts: &BTreeMap<String, String>, paths: &BTreeSet<String>) -> Vec<String> {
    let manifest = texts.get("fuzz/Cargo.toml").map_or("", String::as_str);
    let mut complaints = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| path.starts_with("fuzz/targets/")) {
        if !manifest.contains(&format!("path = \"{}\"", path.trim_start_matches("fuzz/"))) {
            complaints.push(format!("{path}: not in fuzz/Cargo.toml"));
        }
        match text.lines().find_map(|line| line.strip_prefix("//! corpus: ")) {
            None => complaints.push(format!("{path}: names no corpus")),
            Some(corpus) if !paths.contains(corpus) => complaints.push(format!("{path}: corpus {corpus} is not there")),
            Some(_) => {}
        }
    }
    complaints
}

#[test]
fn a_long_file_is_found_and_a_stale_exception_too() {
    let long = "\n".repeat(LINES + 1);
    let sources = [Source::new("a.rs", &long), Source::new("b.rs", &long), Source::new("c.rs", "")];
    assert_eq!(
        too_long(&sources, &[("b.rs", "a table"), ("c.rs", "was long"), ("d.rs", "was there")]),
        ["a.rs: 601 lines, over 600", "c.rs: 0 lines need no exception", "d.rs: has an exception and is gone"]
    );
}

#[test]
fn unreached_and_undocumented_files_are_found() {
    let texts = [
        ("crates/x/src/lib.rs", "//! Why.\nmod a;\n#[cfg(test)]\nmod tests;"),
        ("crates/x/src/a.rs", "fn a() {}"),
        ("crates/x/src/b.rs", "//! Why."),
        ("crates/x/src/tests.rs", "fn a() {}"),
    ];
    let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    let sources = Source::all(&texts, &["crates/x/src/lib.rs".into()]);
    assert_eq!(unreached(&sources), ["crates/x/src/b.rs: in no target"]);
    assert_eq!(undocumented(&sources), ["crates/x/src/a.rs: does not begin with `//! `"]);
}

#[test]
fn unfinished_work_is_found() {
    let text = "fn a() {\n    todo!()\n}\n// TODO: later\n#[test]\n#[ignore = \"slow\"]\nfn b() {}\nlet c = \"TODO\";";
    assert_eq!(unfinished(&[Source::new("a.rs", text)]), ["a.rs:2: `todo!`", "a.rs:6: `#[ignore`", "a.rs:4: `TODO`"]);
}

#[test]
fn a_forgotten_fuzz_target_is_found() {
    let texts = [
        ("fuzz/Cargo.toml", "[[bin]]\npath = \"targets/a.rs\"\n"),
        ("fuzz/targets/a.rs", "//! A.\n//! corpus: crates/x/corpus/a\n"),
        ("fuzz/targets/b.rs", "//! B.\n//! corpus: crates/x/corpus/b\n"),
        ("fuzz/targets/c.rs", "//! C.\n"),
    ];
    let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    assert_eq!(
        fuzz_targets_left_out(&texts, &["crates/x/corpus/a".to_owned()].into()),
        [
            "fuzz/targets/b.rs: not in fuzz/Cargo.toml",
            "fuzz/targets/b.rs: corpus crates/x/corpus/b is not there",
            "fuzz/targets/c.rs: not in fuzz/Cargo.toml",
            "fuzz/targets/c.rs: names no corpus",
        ]
    );
}
