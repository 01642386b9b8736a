//! `switchpath route` and `neighbour`: changes while a router runs.

use crate::rig::{TestDirectory, config, until};
use std::io::Write;
use std::process::Stdio;

const RED: &str = "[port.red]\ndevice = 'memory:red'\nvrf = 'red'\naddress = ['192.0.2.1/24']\n";

fn prefixes(place: &TestDirectory, arguments: &[&str]) -> Vec<String> {
    let routes = place.json(arguments)["routes"].clone();
    let told =
        |r: &serde_json::Value| format!("{} {}", r["vrf"].as_str().unwrap_or("main"), r["prefix"].as_str().unwrap());
    routes.as_array().unwrap().iter().map(told).collect()
}

#[test]
fn route_command_adds_lists_and_removes_routes() {
    let place = TestDirectory::new(10);
    let router = place.write("run.toml", &config("1000pps", RED)).start();
    assert_eq!(place.run_ok(&["route", "add", "10.0.0.0/8", "via", "198.51.100.9"]), "1 route set\n");
    place.run_ok(&["route", "add", "10.1.0.0/16", "via", "198.51.100.9", "weight", "3", "via", "192.0.2.9"]);
    place.run_ok(&["route", "add", "vrf", "red", "10.0.0.0/8", "blackhole"]);
    assert_eq!(prefixes(&place, &["route", "list"]), ["main 10.0.0.0/8", "main 10.1.0.0/16", "red 10.0.0.0/8"]);
    assert_eq!(prefixes(&place, &["show", "routes", "--origin", "api", "--vrf", "red"]), ["red 10.0.0.0/8"]);
    let listed = place.run_ok(&["route", "list"]);
    assert!(listed.contains("75.0%") && listed.contains("25.0%") && listed.contains("blackhole"), "{listed}");
    let shadowed = place.run_ok(&["route", "add", "0.0.0.0/0", "blackhole"]);
    assert!(shadowed.contains("the configuration has routes to their destinations"), "{shadowed}");
    // Options may follow the words.
    let deleted = place.run_ok(&["route", "del", "10.0.0.0/8", "--json"]);
    assert!(deleted.contains("\"routes_removed\": 1"), "{deleted}");
    assert_eq!(place.run_ok(&["route", "flush", "--vrf", "red"]), "1 route taken away\n");
    assert_eq!(prefixes(&place, &["route", "list"]), ["main 0.0.0.0/0", "main 10.1.0.0/16"]);
    let said = place.run_failing(1, &["route", "del", "10.0.0.0/8"]);
    assert!(said.contains("command line:1:1") && said.contains("switchpath route list"), "{said}");
    let said = place.run_failing(1, &["route", "add", "10.0.0.0/8", "via", "203.0.113.1"]);
    assert!(
        said.contains("is on no connected subnet") && said.contains("the running configuration is unchanged"),
        "{said}"
    );
    place.run_ok(&["neighbour", "add", "198.51.100.7", "02:00:00:00:00:07", "--port", "wan"]);
    let known = until(|| {
        let neighbours = place.json(&["show", "neighbours"]);
        neighbours["neighbours"].as_array().unwrap().iter().find(|n| n["address"] == "198.51.100.7").cloned()
    });
    assert_eq!((known["state"].as_str(), known["mac"].as_str()), (Some("static"), Some("02:00:00:00:00:07")));
    place.run_ok(&["neighbour", "del", "198.51.100.7", "--port", "wan"]);
    let said = place.run_failing(1, &["neighbour", "del", "198.51.100.9", "--port", "wan"]);
    assert!(said.contains("no neighbour 198.51.100.9 was added"), "{said}");
    router.stop();
}

#[test]
fn route_batch_is_atomic() {
    let place = TestDirectory::new(10);
    let router = place.write("run.toml", &config("1000pps", "")).start();
    let lines: String = (0..20_000u32)
        .map(|n| format!("add 10.{}.{}.0/24 via 198.51.100.9\n", n >> 8, n & 255))
        .chain(["del 10.0.7.0/24 # but not this one\n".into()])
        .collect();
    place.write("many.txt", &lines).write("wrong.txt", "add 172.16.0.0/12 blackhole\nadd 10.0.0.0/8 via 10.9.9.9\n");
    let edited = place.json(&["route", "batch", "many.txt"]);
    assert_eq!((edited["routes_added"].as_u64(), edited["routes_removed"].as_u64()), (Some(20_000), Some(1)));
    assert_eq!(place.json(&["route", "list", "--limit", "100000"])["routes"].as_array().unwrap().len(), 19_999);
    let said = place.run_failing(1, &["route", "batch", "wrong.txt"]);
    assert!(said.contains("wrong.txt:2:20: error: 10.9.9.9 is on no connected subnet"), "{said}");
    assert_eq!(prefixes(&place, &["show", "routes", "--prefix", "172.16.0.0/12"]), [""; 0]);
    let mut piped =
        place.command(&["route", "batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"flush\n").unwrap();
    let output = piped.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "19999 routes taken away\n");
    assert!(place.run_failing(1, &["route", "batch", "none.txt"]).contains("none.txt cannot be read"));
    router.stop();
}

#[test]
fn added_routes_survive_apply_but_not_restart() {
    let place = TestDirectory::new(10);
    let router = place.write("run.toml", &config("1000pps", "")).start();
    place.run_ok(&["route", "add", "10.0.0.0/8", "via", "198.51.100.9"]);
    place.write("other.toml", &config("1000pps", "[[path]]\nname = 'dns'\nmatch = 'udp dport 53'\n"));
    place.run_ok(&["apply", "other.toml"]);
    assert_eq!(prefixes(&place, &["route", "list"]), ["main 10.0.0.0/8"]);
    let events = place.run_ok(&["show", "events"]);
    assert!(events.contains("routes: 1 added, 0 removed"), "{events}");
    router.stop();
    let router = place.start();
    assert_eq!(prefixes(&place, &["route", "list"]), [""; 0]);
    router.stop();
}
