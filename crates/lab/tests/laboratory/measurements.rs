//! Port measurements beside the kernel. The figures' budgets are not checked, because they need a machine without other load.

#![allow(clippy::print_stdout)]

use crate::rig::{TestDirectory, program};
use serde_json::Value;
use std::process::Command;

#[test]
fn every_kind_of_port_is_measured_beside_the_kernel() {
    let output = TestDirectory::new(1).run(&["bench", "io", "--quick", "-j"]);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("this machine cannot measure io") {
        return println!("skipped: {said}");
    }
    let figures: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    for kind in ["xdp", "packet", "tap"].into_iter().filter(|kind| !said.contains(&format!("{kind} is left out"))) {
        let named = |part: &str| {
            let wanted = |figure: &&Value| {
                figure["name"].as_str().is_some_and(|name| name.starts_with(&format!("{kind}, {part}")))
            };
            figures.iter().find(wanted).unwrap_or_else(|| panic!("{kind}, {part}: {figures:?}"))
        };
        for part in ["64 B", "one TCP connection"] {
            let figure = named(part);
            let [value, reference, ratio] = ["value", "reference", "ratio"].map(|key| figure[key].as_f64().unwrap());
            assert!(value > 0.0 && (ratio - value / reference).abs() < 1e-9, "one round: {figure}");
        }
        for part in ["lost", "overtaken", "ping", "of a processor"] {
            assert!(named(part)["met"].is_boolean(), "{part} has a budget");
        }
    }
}

#[test]
fn measurement_without_root_says_that_it_needs_root() {
    let place = TestDirectory::new(1);
    let mut command = Command::new("unshare");
    place.prepare(&mut command);
    command.args(["--user", "--map-root-user", &program("switchpath").to_string_lossy(), "bench", "io"]);
    let said = match command.output() {
        Ok(output) if output.stdout.is_empty() => String::from_utf8(output.stderr).unwrap(),
        other => return println!("skipped: unshare(1): {other:?}"),
    };
    if said.contains("unshare") {
        return println!("skipped: {said}");
    }
    assert!(said.contains("this machine cannot measure io: it needs root"), "{said}");
}
