//! Which crate may use which: `units <- {packet, plan} <- {schemes, cpu, nat, fib, classifier} <- {link, subscribers} <- stack <- plane <- {io, esp, ...} <- sim <-
//! control <- cli <- lab`.
//!
//! Two crates that depend on each other are really one. The rule includes tests: a test that needs a higher crate belongs to that crate.

use crate::workspace::Crate;

/// The layers, lowest first. A crate may use crates of lower layers.
const LAYERS: &[&[&str]] = &[
    &["units"],
    &["packet", "plan"],
    &["schemes", "cpu", "nat", "fib", "classifier"],
    &["link", "subscribers"],
    &["stack"],
    &["plane"],
    &["io", "esp", "cluster"],
    &["slice"],
    &["extension", "sim", "esp-c"],
    &["control"],
    &["cli"],
    &["lab"],
];

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

/// Returns crates that use a crate not below them, and crates without a layer.
pub fn reversed(crates: &[Crate]) -> Vec<String> {
    let mut complaints = Vec::new();
    for user in crates {
        let Some(own) = layer(&user.name) else {
            complaints.push(format!("{}: has no place in the layers of tests/house/crate_layers.rs", user.name));
            continue;
        };
        let ours = |name: &&String| crates.iter().any(|c| c.name == **name);
        let needs = user.needs.iter().map(|name| (name, "depends on"));
        let tests_need = user.tests_need.iter().filter(|&name| *name != user.name).map(|name| (name, "is tested with"));
        for (used, how) in needs.chain(tests_need).filter(|(name, _)| ours(name)) {
            if layer(used).is_some_and(|other| other >= own) {
                complaints.push(format!("{}: {how} {used}, which is not below it", user.name));
            }
        }
    }
    complaints
}

#[cfg(test)]
fn crate_with(name: &str, needs: &[&str], tests_need: &[&str]) -> Crate {
    let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
    Crate { name: name.into(), needs: owned(needs), tests_need: owned(tests_need), roots: Vec::new() }
}

#[test]
fn dependency_on_a_higher_layer_is_found() {
    let crates = [
        crate_with("units", &["serde", "packet"], &[]),
        crate_with("packet", &["units"], &["packet", "plan"]),
        crate_with("plan", &["units"], &["units"]),
        crate_with("attic", &[], &[]),
    ];
    assert_eq!(
        reversed(&crates),
        [
            "units: depends on packet, which is not below it",
            "packet: is tested with plan, which is not below it",
            "attic: has no place in the layers of tests/house/crate_layers.rs",
        ]
    );
}
