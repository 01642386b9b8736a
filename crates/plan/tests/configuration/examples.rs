//! The example configurations are valid and have the documented meaning.

use crate::catalogue::catalogue;
use expect_test::expect;
use plan::{Plan, Severity, examine_file};
use std::path::{Path, PathBuf};

/// Examples with schemes of the router, which the catalogue here lacks. They are the output of `switchpath init`, whose tests check them.
const OF_INIT: [&str; 4] = ["home.toml", "branch.toml", "isp-edge.toml", "lab.toml"];

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        file.extension().is_some_and(|e| e == "toml") && !OF_INIT.iter().any(|name| file.ends_with(name))
    });
    files.sort();
    assert!(files.len() >= 3);
    files
}

fn example(name: &str) -> Plan {
    let file = examples().into_iter().find(|file| file.ends_with(name)).unwrap();
    plan::load(&file, &catalogue()).unwrap()
}

#[test]
fn every_example_is_accepted_without_a_warning() {
    for file in examples() {
        let checked = examine_file(&file, &catalogue());
        assert!(checked.plan.is_some() && checked.diagnostics.is_empty(), "{}", checked.diagnostics.render(false));
    }
}

#[test]
fn example_fills_in_every_default() {
    let printed = serde_json::to_string_pretty(&example("edge.toml")).unwrap();
    expect![[r#"
        {
          "name": "switchpath",
          "workers": 1,
          "cores": [],
          "busy_poll": 50000,
          "cpu": {
            "layout": 3,
            "scheduler": "wf2q+",
            "flow_scheduler": "spfq",
            "receive": "polling",
            "input": "timeslice(packets=256,slice=100us)",
            "forwarding": "timeslice(packets=256,slice=100us)",
            "output": "timeslice(packets=256,slice=100us)",
            "vector": null,
            "charge": "none",
            "switch_cost": null,
            "strict": false,
            "work_conserving": true,
            "max_wait": null,
            "tune": null,
            "input_share": "auto",
            "balance": [
              0,
              0,
              0
            ],
            "best_effort": "per_function",
            "admission": "refuse",
            "classify_budget": null,
            "inline": false
          },
          "frames": 16384,
          "super_frames": 256,
          "route_cache": 0,
          "icmp_rate": 100,
          "icmp_burst": 10,
          "ports": [
            {
              "name": "lan",
              "device": {
                "kind": "packet",
                "target": "eth0",
                "write": null,
                "pace": "recorded",
                "offloads": true
              },
              "mac": null,
              "interfaces": [
                {
                  "name": "lan",
                  "vlan": null,
                  "addresses": [
                    "192.0.2.1/24",
                    "2001:db8:1::1/64"
                  ],
                  "vrf": null,
                  "mtu": 1500,
                  "redirects": false,
                  "reverse_path": "off",
                  "ra": null,
                  "trust": false,
                  "objective": "none"
                }
              ],
              "scheme": {
                "name": "fifo",
                "options": {
                  "limit": 1000
                },
                "text": "fifo(limit=1000)"
              },
              "scheme_change": "migrate",
              "policy": null,
              "capture": null,
              "faults": null,
              "cpu": {
                "share": null,
                "line_rate": null,
                "congestion": "drop",
                "estimator": null,
                "greedy": false
              }
            },
            {
              "name": "wan",
              "device": {
                "kind": "packet",
                "target": "eth1",
                "write": null,
                "pace": "recorded",
                "offloads": true
              },
              "mac": null,
              "interfaces": [
                {
                  "name": "wan",
                  "vlan": null,
                  "addresses": [
                    "203.0.113.2/30",
                    "2001:db8:ffff::2/64"
                  ],
                  "vrf": null,
                  "mtu": 1500,
                  "redirects": false,
                  "reverse_path": "off",
                  "ra": null,
                  "trust": false,
                  "objective": "none"
                }
              ],
              "scheme": {
                "name": "fifo",
                "options": {
                  "limit": 1000
                },
                "text": "fifo(limit=1000)"
              },
              "scheme_change": "migrate",
              "policy": null,
              "capture": null,
              "faults": null,
              "cpu": {
                "share": null,
                "line_rate": null,
                "congestion": "drop",
                "estimator": null,
                "greedy": false
              }
            }
          ],
          "routes": [
            {
              "vrf": null,
              "to": "0.0.0.0/0",
              "action": {
                "via": {
                  "gateway": "203.0.113.1",
                  "interface": "wan"
                }
              }
            },
            {
              "vrf": null,
              "to": "::/0",
              "action": {
                "via": {
                  "gateway": "2001:db8:ffff::1",
                  "interface": "wan"
                }
              }
            }
          ],
          "neighbours": [],
          "paths": [],
          "nat": null
        }"#]]
    .assert_eq(&printed);
}

#[test]
fn vlans_are_interfaces_of_their_port() {
    let plan = example("vlan.toml");
    let names: Vec<String> =
        plan.interfaces().map(|(port, i)| format!("{}/{}/{:?}/{}", port.name, i.name, i.vlan, i.mtu)).collect();
    expect![[r#"
        trunk/trunk/None/1500
        trunk/trunk.20/Some(20)/1500
        trunk/trunk.30/Some(30)/1400
        uplink/uplink/None/1500"#]]
    .assert_eq(&names.join("\n"));
}

#[test]
fn scheme_limit_of_one_gets_a_warning() {
    let source = "version = 1\n[port.lan]\ndevice = \"packet:eth0\"\nscheme = \"fifo(limit=1)\"\n";
    let checked = plan::examine(source, "f", &catalogue());
    assert!(checked.plan.is_some());
    assert!(checked.diagnostics.list().iter().all(|d| d.severity == Severity::Warning));
    assert_eq!(checked.diagnostics.summary(), "1 warning\n");
}

#[test]
fn order_of_tables_matters_only_for_paths() {
    let one = r#"version = 1
        [port.b]
        device = "packet:eth1"
        address = ["198.51.100.1/24"]
        [port.a]
        device = "packet:eth0"
        scheme = "fifo"
        [port.a.vlan.100]
        [port.a.vlan.20]
        [[route]]
        to = "10.0.0.0/8"
        blackhole = true
        [[route]]
        to = "0.0.0.0/0"
        via = "198.51.100.2"
        [[path]]
        name = "x"
        match = "tcp  dport 0x50"
    "#
    .replace("0x50", "80-80");
    let other = r#"version = 1
        route = [{ via = "198.51.100.2", to = "0.0.0.0/0" }, { to = "10.0.0.0/8", blackhole = true, unreachable = false }]
        path = [{ name = "x", match = "tcp dport 80", functions = ["ip"] }]
        port.a = { device = "packet:eth0", scheme = "fifo( limit = 1000 )", vlan = { 20 = {}, 100 = {} } }
        port.b = { device = "packet:eth1", address = ["198.51.100.1/24"], mtu = 0x5dc }
    "#;
    let read = |text: &str| plan::check(text, "f", &catalogue()).unwrap_or_else(|e| panic!("{}", e.render(false)));
    let (one, other) = (read(&one), read(other));
    assert_eq!(one, other);
    assert_eq!(one.ports[0].interfaces.iter().map(|i| i.vlan).collect::<Vec<_>>(), [None, Some(20), Some(100)]);
}

/// The code blocks of a language on the reference page.
fn blocks(language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let text = std::fs::read_to_string(page).unwrap();
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

#[test]
fn examples_of_the_reference_page_are_valid() {
    let (toml, text) = (blocks("toml"), blocks("text"));
    let first = &toml[0];
    assert_eq!(first.lines().count(), 10, "a router in ten lines");
    let taken = |source: &str| {
        let checked = plan::examine(source, "edge.toml", &catalogue());
        assert!(checked.diagnostics.is_empty(), "{}\n{}", source, checked.diagnostics.render(false));
    };
    taken(first);
    // Fragments of a file are checked after the first example: tables as they are, keys as those of its last port.
    let tables: Vec<&String> =
        toml[1..].iter().filter(|block| block.starts_with("[[") || block.starts_with("[nat]")).collect();
    assert!(tables.len() >= 2);
    tables.iter().for_each(|block| taken(&format!("{first}{block}")));
    let faults = toml.iter().find(|block| block.starts_with("faults")).unwrap();
    taken(&first.replace("[[route]]", &format!("{faults}[[route]]")));
    let wrong = plan::examine(&first.replace("203.0.113.1\"", "203.0.113.9\""), "edge.toml", &catalogue());
    assert!(wrong.diagnostics.render(false).starts_with(&text[0]), "{}", wrong.diagnostics.render(false));
}

#[test]
fn function_named_twice_is_refused() {
    let text = "version = 1\n[port.lan]\ndevice = \"memory:lan\"\naddress = [\"192.0.2.1/24\"]\n\
                [[path]]\nname = \"p\"\nmatch = \"udp\"\nfunctions = [\"ip\", \"ip\"]\n";
    let error = plan::check(text, "t.toml", &crate::catalogue::catalogue()).unwrap_err().to_string();
    assert!(error.contains("t.toml:8:") && error.contains("'ip' is in the list already"), "{error}");
}

/// The guide's name of an experiment's configuration, by its scheme.
fn configuration(scheme: &plan::Call) -> &'static str {
    match (scheme.name, scheme.inner.first().map(|inner| inner.name)) {
        ("codel", None) => "A",
        ("fq" | "drr" | "sfq", Some("codel")) => "B",
        ("fq" | "drr" | "sfq", Some("fifo")) => "C",
        other => panic!("{other:?} is none of the experiments"),
    }
}

#[test]
fn guide_to_queues_and_example_policies_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (guide, example_text) = (root.join("docs/operate/choosing-a-scheme.md"), root.join("examples/policy.toml"));
    let text = std::fs::read_to_string(&guide).unwrap();
    // The guide contains the policies of the example literally.
    let whole = std::fs::read_to_string(example_text).unwrap();
    let policies = &whole[whole.find("[objectives]").unwrap()..whole.find("\n[port.").unwrap()];
    let (before, rest) = text.split_once("<!-- policy -->").expect("a place for the policy");
    let (_, after) = rest.split_once("<!-- end -->").expect("its end");
    let wanted = format!("{before}<!-- policy -->\n\n```toml\n{policies}```\n\n<!-- end -->{after}");
    expect_test::expect_file![guide].assert_eq(&wanted);
    // And the policies have the schemes of the guide's table.
    let plan = example("policy.toml");
    let port = |name: &str| plan.ports.iter().find(|port| &*port.name == name).unwrap();
    let mut rows = 0;
    for line in text.lines().filter(|line| line.starts_with("| ") && line.contains("(`")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let port = port(if cells[2] == "steady" { "wan" } else { "lte" });
        for objective in cells[1].split('`').skip(1).step_by(2) {
            let objective = plan::Objective::ALL.iter().copied().find(|known| known.name() == objective).unwrap();
            let policy = plan.policy(port).unwrap();
            match policy.schemes.get(&objective) {
                Some(scheme) => assert_eq!(configuration(scheme), cells[3], "{line}"),
                None => assert_eq!(cells[3], "what the port has", "{line}"),
            }
            rows += 1;
        }
    }
    assert_eq!(rows, 10, "five objectives on each kind of link");
}
