//! Keeps docs/operate/simulation.md up to date. The keys of an experiment must be those of its declaration, the keys of a world those that are parsed, and
//! the examples the files that run.
//!
//! `UPDATE_EXPECT=1` writes the table of keys and the examples anew.

use sim::WorldPlan;
use sim::experiment::{Agreement, CompletedRun, Experiment, Parameters, Runner, Simulation};
use std::path::{Path, PathBuf};

/// The declarations of an experiment's keys, with their doc comments.
const DECLARATION: &str =
    concat!(include_str!("../src/experiment/file.rs"), include_str!("../src/experiment/parameters.rs"));

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The headings of a file's tables, by the name of their declaration.
const PLACES: &[(&str, &str, &str)] = &[
    ("Document", "", "At the top"),
    ("RunOverrides", "quick", "`[quick]`, and `[real]` likewise for `--real`"),
    ("Variant", "variant", "`[[variant]]`, whose name is itself the parameter `variant`"),
    ("Claim", "claim", "`[[claim]]`"),
    ("OnRealPackets", "claim.real", "Its `real`"),
    ("TableDefinition", "table", "`[[table]]`"),
    ("Column", "table.columns", "Each of its `columns`"),
    ("Plot", "plot", "`[[plot]]`"),
    ("Axis", "plot.x", "Its `x` and `y`"),
    ("Line", "plot.line", "Each `[[plot.line]]`"),
    ("Reference", "plot.reference", "Each `[[plot.reference]]`"),
];

/// The keys of a declaration: the name, true if it is optional, and the doc comment.
fn keys(declaration: &str) -> Vec<(String, bool, String)> {
    let start = DECLARATION.find(&format!("pub struct {declaration} {{")).expect(declaration);
    let body = &DECLARATION[start..start + DECLARATION[start..].find("\n}").unwrap()];
    let (mut keys, mut says, mut renamed, mut optional) = (Vec::new(), String::new(), None, false);
    for line in body.lines().skip(1).map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            says = if says.is_empty() { text.to_owned() } else { format!("{says} {text}") };
        } else if line.starts_with("#[serde(") {
            optional |= line.contains("default");
            renamed = line.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next()).or(renamed);
        } else if let Some((name, of)) = line.strip_prefix("pub ").and_then(|line| line.split_once(": ")) {
            let optional = optional || of.starts_with("Option<");
            keys.push((renamed.unwrap_or(name).to_owned(), optional, says.clone()));
            (says, renamed) = (String::new(), None);
        }
        if line.ends_with(',') {
            optional = false;
        }
    }
    keys
}

fn table() -> String {
    let mut out = String::new();
    for (declaration, _, head) in PLACES {
        out += &format!("{head}:\n\n| key | | meaning |\n|---|---|---|\n");
        for (name, optional, says) in keys(declaration) {
            let needed = if optional { "" } else { "required" };
            out += &format!("| `{name}` | {needed} | {says} |\n");
        }
        out.push('\n');
    }
    out.trim_end().to_owned()
}

/// The document with the text between `before` and `after` replaced.
fn with(document: &str, (before, after): (&str, &str), content: &str) -> String {
    let start = document.find(before).unwrap_or_else(|| panic!("the document has no {before}")) + before.len();
    let end = start + document[start..].find(after).unwrap_or_else(|| panic!("nothing ends {before}"));
    format!("{}{content}{}", &document[..start], &document[end..])
}

fn run_example() -> sim::experiment::ExperimentReport {
    let file = "examples/worlds/queue-length.toml";
    let experiment = Experiment::read(file, &read(file), &|name| Ok(read(&format!("examples/worlds/{name}")))).unwrap();
    let run = |job| CompletedRun {
        parameters: sim::experiment::Job::clone(job).parameters,
        measured: Simulation::default().run(job).unwrap_or_else(|error| panic!("{error}")),
    };
    let runs = experiment.jobs(&Parameters::new(), false).unwrap().iter().map(run).collect();
    experiment.report(runs, &Simulation::default())
}

#[test]
fn document_lists_experiment_keys_and_examples() {
    let text = read("docs/operate/simulation.md");
    let world = read("examples/worlds/slow-link.toml");
    let example = read("examples/worlds/queue-length.toml");
    let first = world.lines().next().unwrap();
    let document = with(&text, (&format!("```toml\n{first}\n"), "```"), &world[first.len() + 1..]);
    let first = "paper = \"examples\"";
    let document = with(&document, (&format!("```toml\n{first}\n"), "```"), &example[first.len() + 1..]);
    let document = with(&document, ("<!-- keys: experiment -->\n\n", "\n\n<!-- end -->"), &table());
    expect_test::expect_file![root().join("docs/operate/simulation.md")].assert_eq(&document);
}

#[test]
fn documented_keys_are_those_parsed() {
    for (declaration, place, _) in PLACES {
        let known: Vec<String> = keys(declaration).into_iter().map(|(name, ..)| name).collect();
        // The error about a wrong key lists the valid ones.
        let document = match place.split_once('.') {
            None if place.is_empty() => "wrong = 1\n".to_owned(),
            None if *place == "quick" => "[quick]\nwrong = 1\n".to_owned(),
            None => format!("[[{place}]]\nwrong = 1\n"),
            Some((outer, "line" | "reference" | "columns")) => {
                format!("[[{outer}]]\n[[{place}]]\nwrong = 1\n")
            }
            Some((outer, _)) => format!("[[{outer}]]\n[{place}]\nwrong = 1\n"),
        };
        let error = Experiment::read("e.toml", &document, &|_| unreachable!()).unwrap_err();
        for name in &known {
            assert!(error.contains(&format!("`{name}`")), "{declaration}: `{name}` is not read: {error}");
        }
        let answered = error.split("expected").nth(1).unwrap_or(&error);
        assert_eq!(answered.matches('`').count() / 2, known.len(), "{declaration}: {error}");
    }
}

#[test]
fn document_lists_world_keys() {
    let wrong = WorldPlan::parse("wrong = 1", "w.toml").unwrap_err().to_string();
    let text = read("docs/operate/simulation.md");
    let keys = text.split("<!-- keys: world -->").nth(1).unwrap().split("<!-- end -->").next().unwrap();
    let known: Vec<&str> = wrong.split("expected one of").nth(1).expect(&wrong).split('`').skip(1).step_by(2).collect();
    assert!(known.len() > 5, "{wrong}");
    for name in known {
        assert!(keys.contains(&format!("\n| `{name}` |")), "docs/operate/simulation.md says nothing of `{name}`");
    }
}

#[test]
fn documented_example_holds() {
    let report = run_example();
    assert!(report.verdicts.iter().all(|verdict| verdict.verdict == Agreement::Matches), "{:#?}", report.verdicts);
}
