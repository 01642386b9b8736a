//! `switchpath set`: named sets of a running router.

use crate::rig::{TestDirectory, config, until};
use std::fmt::Write as _;
use std::io::Write;
use std::process::Stdio;

const BAD: &str = "[set.bad]\nelements = ['10.0.0.0/8', '2001:db8::/32']\n[set.web]\nelements = ['80', '8000-8080']\n";

fn elements(place: &TestDirectory, set: &str) -> Vec<String> {
    let listed = place.json(&["set", "list", set])["elements"].clone();
    listed.as_array().unwrap().iter().map(|element| element["element"].as_str().unwrap().to_owned()).collect()
}

/// The numbers of added, renewed, removed and unchanged elements.
fn counts(edited: &serde_json::Value) -> [u64; 4] {
    ["added", "renewed", "removed", "unchanged"].map(|name| edited[name].as_u64().unwrap())
}

#[test]
fn set_command_adds_lists_and_removes_elements() {
    let place = TestDirectory::new(10);
    let router = place.write("run.toml", &config("1000pps", BAD)).start();
    assert_eq!(elements(&place, "bad"), ["10.0.0.0/8", "2001:db8::/32"]);
    assert_eq!(elements(&place, "web"), ["80", "8000-8080"]);
    let said = place.run_ok(&["set", "add", "bad", "10.1.0.0/16", "192.0.2.1", "10.0.0.0/8"]);
    assert_eq!(said, "2 added, 1 unchanged; the set has 4 elements\n");
    let edited = place.json(&["set", "remove", "bad", "10.0.0.0/8", "10.2.0.0/16"]);
    assert_eq!(counts(&edited), [0, 0, 1, 1]);
    // The overlapping prefix stays.
    assert_eq!(elements(&place, "bad"), ["10.1.0.0/16", "192.0.2.1", "2001:db8::/32"]);
    let page = place.json(&["set", "list", "bad", "--limit", "1", "--first", "10.2.0.0/16"]);
    assert_eq!(
        (page["elements"][0]["element"].as_str(), page["next"].as_str()),
        (Some("192.0.2.1"), Some("2001:db8::/32"))
    );
    let sets = place.run_ok(&["show", "sets"]);
    assert!(sets.contains("bad") && sets.contains("address") && sets.contains("port"), "{sets}");
    let events = place.run_ok(&["show", "events"]);
    assert!(events.contains("elements: 2 added, 0 renewed, 0 removed, 4 in the set; by "), "{events}");
    let mut piped = place.command(&["set", "replace", "web", "--file", "-"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"443 # only this\n").unwrap();
    let output = piped.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 added, 2 removed; the set has 1 element\n");
    assert_eq!(counts(&place.json(&["set", "flush", "web"])), [0, 0, 1, 0]);
    router.stop();
}

#[test]
fn wrong_set_commands_change_nothing_and_say_why() {
    let place = TestDirectory::new(10);
    let more = format!("{BAD}[set.small]\nelements = ['1']\nsize = 2\n");
    let router = place.write("run.toml", &config("1000pps", &more)).start();
    let said = place.run_failing(1, &["set", "add", "bda", "10.0.0.1"]);
    assert!(said.contains("there is no set 'bda'") && said.contains("did you mean 'bad'?"), "{said}");
    let said = place.run_failing(1, &["set", "add", "bad", "10.0.0.1", "80"]);
    assert!(said.contains("command line:2:1: error: 80 does not fit a set of type 'address'"), "{said}");
    let said = place.run_failing(1, &["set", "add", "web", "http"]);
    assert!(said.contains("'http' is no element of a set"), "{said}");
    let said = place.run_failing(1, &["set", "add", "bad", "10.0.0.1/8"]);
    assert!(said.contains("write 10.0.0.0/8 for the network, or 10.0.0.1 for the address"), "{said}");
    let said = place.run_failing(1, &["set", "add", "small", "2", "3"]);
    assert!(said.contains("the set would have 3 elements, more than its limit of 2"), "{said}");
    assert_eq!(elements(&place, "bad"), ["10.0.0.0/8", "2001:db8::/32"]);
    assert_eq!(elements(&place, "small"), ["1"]);
    router.stop();
}

#[test]
fn expired_element_leaves_its_set() {
    let place = TestDirectory::new(10);
    let router = place.write("run.toml", &config("1000pps", BAD)).start();
    place.run_ok(&["set", "add", "bad", "192.0.2.1", "--expires", "1h"]);
    let left = place.json(&["set", "list", "bad", "--first", "192.0.2.1"])["elements"][0]["left_ns"].as_u64().unwrap();
    assert!((3_500_000_000_000..=3_600_000_000_000).contains(&left), "{left}");
    let edited = place.json(&["set", "add", "bad", "192.0.2.1", "--expires", "1s"]);
    assert_eq!(counts(&edited), [0, 1, 0, 0]);
    until(|| (elements(&place, "bad") == ["10.0.0.0/8", "2001:db8::/32"]).then_some(()));
    router.stop();
}

#[test]
fn apply_replaces_only_sets_that_changed() {
    let place = TestDirectory::new(10);
    let router = place.write("run.toml", &config("1000pps", BAD)).start();
    place.run_ok(&["set", "add", "bad", "192.0.2.1"]);
    place.run_ok(&["set", "add", "web", "443"]);
    let changed = BAD.replace("'80', ", "").replace("[set.web]", "[set.new]\nfile = 'new.txt'\n[set.web]");
    place.write("new.txt", "203.0.113.0/24\n").write("other.toml", &config("1000pps", &changed));
    let applied = place.run_ok(&["apply", "other.toml"]);
    assert!(applied.contains("+ set new: ") && applied.contains("~ set web: elements "), "{applied}");
    assert_eq!(elements(&place, "bad"), ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"], "the API's element stays");
    assert_eq!(elements(&place, "web"), ["8000-8080"]);
    assert_eq!(elements(&place, "new"), ["203.0.113.0/24"]);
    // Only the content of the file differs.
    place.write("new.txt", "203.0.113.0/24\n198.51.100.1\n");
    place.run_ok(&["apply", "other.toml"]);
    assert_eq!(elements(&place, "new"), ["198.51.100.1", "203.0.113.0/24"]);
    // Without the file the apply is refused, but a rollback to a configuration with it is not.
    place.run_ok(&["apply", "run.toml"]);
    assert!(place.run_failing(1, &["set", "list", "new"]).contains("there is no set 'new'"));
    std::fs::remove_file(place.path("new.txt")).unwrap();
    let said = place.run_failing(1, &["apply", "other.toml"]);
    assert!(said.contains("set new") && said.contains("new.txt' cannot be read"), "{said}");
    let said = String::from_utf8(place.run(&["rollback"]).stderr).unwrap();
    assert!(said.contains("it has only the elements of the configuration itself"), "{said}");
    assert_eq!(elements(&place, "new"), [""; 0]);
    router.stop();
    let router = place.start();
    assert_eq!(elements(&place, "bad"), ["10.0.0.0/8", "2001:db8::/32"], "the API's elements end with the router");
    router.stop();
}

#[test]
fn file_of_a_million_elements_is_read_and_a_wrong_line_refused() {
    let place = TestDirectory::new(10);
    let mut lines = String::from("# a million hosts\n");
    for n in 0..1_000_000u32 {
        let n = n.wrapping_mul(0x9e37_79b1);
        writeln!(lines, "{}", std::net::Ipv4Addr::from_bits(n)).unwrap();
    }
    let wrong: String = lines
        .lines()
        .enumerate()
        .map(|(n, line)| if n == 70_000 { "  10.0.0.300\n".to_string() } else { format!("{line}\n") })
        .collect();
    place.write("many.txt", &lines).write("wrong.txt", &wrong);
    let with = |file: &str| config("1000pps", &format!("[set.bad]\nfile = '{file}'\n"));
    let router = place.write("run.toml", &with("many.txt")).write("wrong.toml", &with("wrong.txt")).start();
    let checked = place.run_ok(&["check", "run.toml"]);
    assert!(checked.contains("set bad: 1000000 of type address, with those of "), "{checked}");
    let said = place.run_failing(1, &["check", "wrong.toml"]);
    assert!(said.contains("wrong.txt:70001:3") && said.contains("'10.0.0.300' is no address"), "{said}");
    let listed = place.json(&["set", "list"])["sets"][0].clone();
    assert_eq!(listed["elements"].as_u64(), Some(1_000_000));
    assert!(listed["memory_bytes"].as_u64().unwrap() < 40_000_000, "{listed}");
    let said = place.run_failing(1, &["apply", "wrong.toml"]);
    assert!(said.contains("wrong.txt:70001:3: '10.0.0.300' is no address"), "{said}");
    let said = place.run_failing(1, &["set", "replace", "bad", "--file", "wrong.txt"]);
    assert!(said.contains("wrong.txt:70001:3: error: '10.0.0.300' is no address"), "{said}");
    assert_eq!(place.json(&["set", "list"])["sets"][0]["elements"].as_u64(), Some(1_000_000));
    let edited = place.json(&["set", "replace", "bad", "--file", "many.txt"]);
    assert_eq!(counts(&edited), [1_000_000, 0, 1_000_000, 0]);
    router.stop();
}
