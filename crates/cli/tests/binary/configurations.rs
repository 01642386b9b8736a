//! `check`, `diff` and `apply`, and the output generated from the declarations.

use crate::rig::{TestDirectory, config};
use std::process::Stdio;

const DNS: &str = "[[path]]\nname = 'dns'\nmatch = 'udp dport 53'";

#[test]
fn check_reports_every_error_with_its_position() {
    let place = TestDirectory::new(1);
    place.write("good.toml", &config("fast", DNS)).write("bad.toml", "version = 1\n[port.a]\nmtu = 5\n[port.b]\n");
    assert_eq!(place.run_ok(&["check", "good.toml"]), "good.toml: 2 ports, 1 route, 1 path\n");
    let said = place.run_failing(1, &["check", "bad.toml"]);
    assert!(said.contains("bad.toml:2:") && said.contains("bad.toml:4:") && said.contains("errors"), "{said}");
    let output = place.run(&["check", "-j", "bad.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let checked: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked["ok"], false);
    assert!(checked["diagnostics"].as_array().unwrap().iter().all(|d| d["line"].as_u64() > Some(0)));
    let said = place.run_failing(1, &["check", "absent.toml"]);
    assert!(said.contains("absent.toml"), "{said}");
}

#[test]
fn check_reads_a_configuration_from_standard_input() {
    let place = TestDirectory::new(1);
    place.write("good.toml", &config("fast", ""));
    let file = std::fs::File::open(place.path("good.toml")).unwrap();
    let output = place.command(&["check", "-"]).stdin(Stdio::from(file)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "standard input: 2 ports, 1 route, 0 paths\n");
}

#[test]
fn diff_needs_no_router_for_two_files() {
    let place = TestDirectory::new(1);
    place
        .write("a.toml", &config("fast", ""))
        .write("b.toml", &config("fast", &format!("[router]\nframes = 8192\n{DNS}")));
    let text = place.run_ok(&["diff", "a.toml", "b.toml"]);
    assert!(text.contains("+ path dns") && text.contains("needs a restart"), "{text}");
    assert_eq!(place.run_ok(&["diff", "a.toml", "a.toml"]), "no difference\n");
    assert_eq!(place.json(&["diff", "a.toml", "b.toml"])["restart_needed"], true);
    place.run_failing(1, &["diff", "a.toml"]);
}

#[test]
fn apply_changes_the_running_router_or_nothing() {
    let place = TestDirectory::new(60000);
    let router = place.write("run.toml", &config("1000pps", "")).start();
    let generation = || place.json(&["show", "status"])["generation"].clone();
    place.write("next.toml", &config("1000pps", DNS));
    assert!(place.run_ok(&["diff", "next.toml"]).starts_with("+ path dns"));
    assert!(place.run_ok(&["apply", "next.toml", "--dry-run"]).starts_with("+ path dns"));
    assert_eq!(generation(), 1);
    assert!(place.run_ok(&["apply", "next.toml"]).ends_with("generation 2 runs, 1 change\n"));
    assert!(place.run_ok(&["apply", "next.toml"]).ends_with("generation 2 runs; nothing to change\n"));
    assert_eq!(place.json(&["apply", "run.toml"])["generation"], 3);
    let ports = "[port.good]\ndevice = 'memory:x'\naddress = ['10.0.0.1/16']\n\
                 [port.none]\ndevice = 'pcap:none.pcap'\naddress = ['10.1.0.1/16']";
    for (text, said) in [
        ("version = 1\n[port", "bad.toml:2"),
        (&config("1000pps", ports), "port none: "),
        (&config("1000pps", "[router]\nworkers = 2"), "start it with the new configuration"),
    ] {
        let complaint = place.write("bad.toml", text).run_failing(1, &["apply", "bad.toml"]);
        assert!(complaint.contains(said), "{complaint}");
        assert_eq!(generation(), 3);
    }
    assert!(place.run_ok(&["show", "config"]).contains("# generation 3, from run.toml"));
    router.stop();
}

#[test]
fn wrong_usage_ends_with_2() {
    let place = TestDirectory::new(1);
    for arguments in
        [&["fly"][..], &["show", "wings"], &["show", "routes", "--prefix", "x"], &["capture", "-c", "0"], &[]]
    {
        place.run_failing(2, arguments);
    }
    let said = place.run_failing(2, &["capture", "udp", "dport", "http"]);
    assert!(said.contains("udp dport http") && said.contains('^'), "{said}");
}

#[test]
fn schema_man_pages_and_completions_are_printed() {
    let place = TestDirectory::new(1);
    let schema: serde_json::Value = serde_json::from_str(&place.run_ok(&["schema"])).unwrap();
    assert!(schema["properties"]["port"].is_object());
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.run_ok(&["completions", shell]).contains("neighbours"), "{shell}");
    }
    assert!(place.run_ok(&["man"]).contains(".TH switchpath 1"));
    place.run_ok(&["man", "pages"]);
    for page in ["switchpath.1", "switchpath-run.1", "switchpath-show-ports.1"] {
        assert!(place.path("pages").join(page).exists(), "{page}");
    }
    let findings: serde_json::Value = place.json(&["doctor"]);
    let kernel = findings.as_array().unwrap().iter().find(|finding| finding["what"] == "kernel").unwrap();
    assert!(kernel["found"].as_str().unwrap().contains("Linux"));
    assert!(place.run_ok(&["doctor"]).contains("kernel"));
}

/// Spec E-04.
#[test]
fn check_reports_the_bound_of_each_store() {
    let place = TestDirectory::new(1);
    let text = |more: &str| {
        format!(
            "version = 1\n[port.a]\ndevice = 'tap:a'\nline_rate = '1kpps'\n[port.b]\ndevice = 'tap:b'\n{more}[state]\n"
        )
    };
    place.write("all.toml", &text("line_rate = '2kpps'\n")).write("some.toml", &text(""));
    let checked = place.json(&["check", "all.toml"]);
    let bounds = |index: usize, key: &str| checked["stores"][index][key].clone();
    let told = |index| (bounds(index, "store"), bounds(index, "line_pps"), bounds(index, "bound_entries"));
    // Two entries a packet, for ten seconds.
    assert_eq!(told(0), ("a".into(), 1000.into(), 20_000.into()));
    assert_eq!(told(1), ("b".into(), 2000.into(), 40_000.into()));
    assert_eq!(told(2), ("central".into(), 3000.into(), 60_000.into()));
    let said = place.run_ok(&["check", "some.toml"]);
    assert!(said.contains("20000\n") && said.contains("write line_rate"), "{said}");
}
