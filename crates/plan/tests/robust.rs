//! No text makes the parser panic or slow.

#[path = "configuration/catalogue/mod.rs"]
mod catalogue;

use catalogue::catalogue;
use plan::admission::{Costs, admit};
use plan::{CheckResult, MOST_DIAGNOSTICS, SetEntry, SetKind, examine, set_entries};
use proptest::prelude::*;
use std::fmt::Write;
use std::path::Path;
use units::Parts;

fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(files.len() >= 10, "the corpus is there");
    let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|file| (name(file), std::fs::read_to_string(file).unwrap())).collect()
}

/// Rules that hold for every text.
fn check_invariants(source: &str) -> CheckResult {
    let checked = examine(source, "f", &catalogue());
    let diagnostics = &checked.diagnostics;
    assert_eq!(checked.plan.is_none(), diagnostics.errors().next().is_some(), "no plan just where there is an error");
    assert!(diagnostics.list().len() <= MOST_DIAGNOSTICS);
    let lines = source.split('\n').count();
    for d in diagnostics.list() {
        assert!((1..=lines).contains(&d.line), "{d}");
        let line = source.split('\n').nth(d.line - 1).unwrap();
        assert!((1..=line.chars().count() + 1).contains(&d.column), "{d}");
        assert!(!d.reason.is_empty() && !d.hint.is_empty(), "{d:?}");
        assert!(d.reason.chars().count() < 600 && !d.to_string().contains(['\n', '\u{1b}']), "{d}");
    }
    if let Some(plan) = &checked.plan
        && let Ok(allotment) = admit(plan, &Costs::assumed(plan))
    {
        assert!(allotment.best_effort.share.as_f64() <= 1.0 && allotment.demand <= Parts::ONE, "{allotment:?}");
    }
    let _ = diagnostics.render(true);
    assert!(!diagnostics.render(false).contains('\u{1b}'));
    checked
}

#[test]
fn corpus_files_are_judged_as_named() {
    for (name, source) in corpus() {
        let checked = check_invariants(&source);
        assert_eq!(checked.plan.is_some(), name.starts_with("good-"), "{name}: {}", checked.diagnostics);
    }
}

/// Rules that hold for every file of a set.
fn check_set_file(text: &str) -> usize {
    let lines = text.split('\n').count();
    let read = [SetKind::Address, SetKind::Port].map(|kind| match set_entries(text, "f", kind) {
        Ok(entries) => {
            assert!(entries.iter().all(|entry| entry.value.kind() == kind));
            let back = entries.iter().map(|entry| entry.to_string().parse::<SetEntry>().unwrap());
            assert!(back.eq(entries.iter().copied()), "{entries:?}");
            entries.len()
        }
        Err(diagnostics) => {
            assert!(diagnostics.errors().next().is_some() && diagnostics.list().len() <= MOST_DIAGNOSTICS);
            assert!(diagnostics.list().iter().all(|it| (1..=lines).contains(&it.line) && it.column >= 1));
            assert!(!diagnostics.render(false).contains('\u{1b}'));
            0
        }
    });
    read.iter().sum()
}

#[test]
fn corpus_of_set_files_is_read_or_refused_with_positions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/sets");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let read: usize = files.iter().map(|file| check_set_file(&std::fs::read_to_string(file).unwrap())).sum();
    assert_eq!((files.len(), read), (3, 7));
}

/// Valid fragments, to be inserted in wrong places.
const PIECES: &[&str] = &[
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\"",
    "\"\"\"",
    "'",
    "\n",
    "\r",
    "\\",
    "#",
    "é",
    "\u{1b}",
    "\u{202e}",
    "-1",
    "0",
    "99999999999999999999",
    "1e400",
    "nan",
    "true",
    "1979-05-27",
    "0.0.0.0/0",
    "::/0",
    "fe80::1",
    "/",
    ":",
    "version = 2\n",
    "[port.x]\n",
    "[port.lan.vlan.3]\n",
    "[[route]]\n",
    "[[path]]\n",
    "any",
    "iif lan",
    "fifo(",
    ")",
    "cpu_limit=1",
    "memory:",
    "pcap:",
    "router",
    "port",
    "route",
    "vlan",
    "address",
    "via",
    "match",
];

fn mutated() -> impl Strategy<Value = String> {
    let files = corpus();
    let edit = (any::<prop::sample::Index>(), 0usize..12, prop::sample::select(PIECES), 0u8..4);
    (prop::sample::select(files), prop::collection::vec(edit, 1..6)).prop_map(|((_, mut text), edits)| {
        for (place, length, piece, kind) in edits {
            let at = text.floor_char_boundary(place.index(text.len() + 1));
            let end = text.floor_char_boundary((at + length).min(text.len())).max(at);
            match kind {
                0 => text.replace_range(at..end, ""),
                1 => text.insert_str(at, piece),
                2 => text.replace_range(at..end, piece),
                _ => {
                    let copy =
                        text[at..text.floor_char_boundary((at + 40 * length).min(text.len())).max(at)].to_string();
                    text.insert_str(at, &copy);
                }
            }
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutated_configuration_never_panics(source in mutated()) {
        check_invariants(&source);
    }

    #[test]
    fn arbitrary_text_never_panics(source in "\\PC{0,60}|[ -~\n]{0,80}") {
        check_invariants(&source);
    }
}

/// A file with `count` valid routes.
fn routes(count: u32) -> String {
    let mut source = String::from("version = 1\n[port.lan]\ndevice = \"packet:eth0\"\naddress = [\"192.0.2.1/24\"]\n");
    for i in 0..count {
        let (a, b, c) = (1 + (i >> 16), (i >> 8) & 255, i & 255);
        let _ = write!(source, "[[route]]\nto = \"{a}.{b}.{c}.0/24\"\nvia = \"192.0.2.{}\"\n", 2 + i % 200);
    }
    source
}

/// A million in `make soak`, which sets the number of frames in the environment.
fn many() -> u32 {
    let frames = std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("a number of frames"));
    (frames / 5u32).clamp(20_000, 1_000_000)
}

#[test]
fn many_routes_are_parsed_and_compared() {
    let count = many();
    let mut old = check_invariants(&routes(count)).plan.unwrap();
    assert_eq!(old.routes.len(), count as usize);
    assert!(old.routes.is_sorted_by_key(|r| r.to));
    let new = old.clone();
    old.routes.iter_mut().step_by(2).for_each(|r| r.action = plan::RouteAction::Blackhole);
    assert_eq!(plan::diff(&old, &new).len(), count as usize / 2);
    old.routes.truncate(10_000);
    let lost = count as usize - 10_000;
    assert_eq!(plan::diff(&old, &new).len(), lost + 5_000);
    assert_eq!(plan::diff(&new, &old).len(), lost + 5_000);
}

#[test]
fn many_errors_are_counted() {
    let count = many() / 4;
    let source = routes(count).replace("via = \"192.0.2.", "via = \"198.51.100.");
    let checked = check_invariants(&source);
    assert_eq!(checked.diagnostics.list().len() + checked.diagnostics.omitted(), count as usize);
}

#[test]
fn suggestions_among_many_names_are_fast() {
    let mut source = String::from("version = 1\n[port.lan]\ndevice = \"packet:eth0\"\n");
    (1..=4090).for_each(|id| writeln!(source, "[port.lan.vlan.{id}]").unwrap());
    let route =
        |i| format!("[[route]]\nto = \"10.{}.{}.0/24\"\nvia = \"fe80::1\"\nport = \"lam.{i}\"\n", i >> 8, i & 255);
    (0..5000u32).for_each(|i| source.push_str(&route(i)));
    let checked = check_invariants(&source);
    assert_eq!(checked.diagnostics.list().len(), MOST_DIAGNOSTICS);
}
