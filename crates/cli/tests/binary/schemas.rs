//! `schema`: independent validators read it, accept every configuration that the router accepts, and refuse simple mistakes.

#![allow(clippy::print_stdout)]

use crate::rig::TestDirectory;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Mistakes in a single value, appended to a correct port.
const WRONG: &[&str] = &[
    "colour = 1",
    "router.workers = 65",
    "router.workers = '2'",
    "router.frames = -1",
    "port.Lan = { device = 'packet:eth0' }",
    "port.wan = {}",
    "port.wan = { device = 'eth0' }",
    "port.wan = { device = 'memory:a', mtu = 90000 }",
    "port.wan = { device = 'memory:a', scheme = 'fifi' }",
    "port.wan = { device = 'memory:a', mac = '02:00' }",
    "port.wan = { device = 'memory:a', address = ['192.0.2.1'] }",
    "port.wan = { device = 'memory:a', address = '192.0.2.1/24' }",
    "port.wan = { device = 'memory:a', faults = { loss = 2 } }",
    "port.wan = { device = 'memory:a', vlan.x = {} }",
    "port.wan = { device = 'memory:a', congestion = 'stop' }",
    "route = [{ via = '192.0.2.1' }]",
    "route = [{ to = '10.0.0.0' }]",
    "path = [{ name = 'x', match = 'dport 3' }]",
    "path = [{ name = 'control', match = 'any' }]",
    "path = [{ name = 'x', match = 'any', functions = ['route'] }]",
    "path = [{ name = 'x', match = 'any', reserve = 'fast' }]",
    "neighbour = [{}]",
    "cpu.layout = 4",
    "cpu.scheduler = 'wfq'",
    "cpu.balance = [5, -1, 5]",
    "objectives.delay = ['0y12']",
    "objectives.delay = ['a b']",
];

const BASE: &str = "version = 1\nport.lan = { device = 'packet:eth0' }\n";

/// Returns the configurations of the repository: examples, and those of tests.
fn configurations() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["examples", "crates/plan/corpus"].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|it| it == "toml")).collect();
    files.sort();
    files
}

/// Returns whether a tool is installed. In CI it has to be.
fn is_here(what: &str, probe: &mut Command) -> bool {
    let here = probe.output().is_ok_and(|output| output.status.success());
    assert!(here || std::env::var_os("CI").is_none(), "{what} is missing: .ci/setup test");
    if !here {
        println!("left out: {what}; .ci/setup test installs it");
    }
    here
}

#[test]
fn independent_validators_agree_with_the_router() {
    let place = TestDirectory::new(0);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/binary");
    place.write("schema.json", &place.run_ok(&["schema"]));
    let mut files: Vec<(String, bool)> = Vec::new();
    for file in configurations() {
        let name = file.display().to_string();
        if place.run(&["check", &name]).status.success() {
            files.push((name, true));
        }
    }
    assert!(files.len() >= 10, "{files:?}");
    for (number, wrong) in WRONG.iter().enumerate() {
        let name = format!("wrong-{number}.toml");
        place.write(&name, &format!("{BASE}{wrong}\n"));
        let said = place.run(&["check", &name]);
        assert_eq!(said.status.code(), Some(1), "the router is no laxer: {wrong}");
        files.push((name, false));
    }
    place.write("right.toml", BASE);
    place.run_ok(&["check", "right.toml"]);
    files.push(("right.toml".into(), true));

    let mut probe = Command::new("python3");
    if !is_here("Python's jsonschema", probe.args(["-c", "import jsonschema, tomllib"])) {
        return;
    }
    let mut python = Command::new("python3");
    place.prepare(&mut python);
    python.arg(tests.join("schemas.py")).arg("schema.json").args(files.iter().map(|(name, _)| name));
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place.write("instances.json", std::str::from_utf8(&output.stdout).unwrap());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    judge("jsonschema", &files, |name| found[name]["wrong"].as_array().unwrap().clone());

    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ajv");
    let mut probe = Command::new("node");
    if !is_here("Ajv", probe.args(["-e", "require(process.argv[1] + '/node_modules/ajv')"]).arg(&modules)) {
        return;
    }
    let mut node = Command::new("node");
    place.prepare(&mut node);
    node.arg(tests.join("schemas.cjs")).arg(&modules).args(["schema.json", "instances.json"]);
    let output = node.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    judge("Ajv", &files, |name| found[name].as_array().unwrap().clone());
}

fn judge(validator: &str, files: &[(String, bool)], wrong: impl Fn(&str) -> Vec<Value>) {
    for (name, good) in files {
        let wrong = wrong(name);
        assert_eq!(wrong.is_empty(), *good, "{validator} of {name}: {wrong:?}");
    }
}
