//! `replay`: captures through configurations, without a running router.

use crate::rig::{TestDirectory, config};
use std::fs;

/// A place with a capture of 1000 packets, of which every tenth has an expired time to live, and two configurations.
fn place() -> TestDirectory {
    let place = TestDirectory::new(1000);
    place.write("old.toml", &config("fast", ""));
    place.write("new.toml", &config("fast", "[[route]]\nto = '203.0.113.0/29'\nblackhole = true\n"));
    place
}

const OLD: [&str; 6] = ["replay", "in.pcapng", "--config", "old.toml", "--port", "lan"];

#[test]
fn replay_reports_and_writes_the_same_fates_each_time() {
    let place = place();
    let said = place.run_ok(&[&OLD[..], &["--write", "one.pcapng"]].concat());
    for wanted in ["1000 packets of in.pcapng", "sent     wan", "900", "ttl_expired", "A traceroute or a routing loop"]
    {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert_eq!(place.run_ok(&[&OLD[..], &["-w", "two.pcapng"]].concat()), said);
    assert_eq!(fs::read(place.path("one.pcapng")).unwrap(), fs::read(place.path("two.pcapng")).unwrap());
    let written = place.read("one.pcapng");
    assert_eq!(written.iter().filter(|(_, comment)| comment.starts_with("packet ")).count(), 900);
    assert_eq!(written[0], (0, "packet 1".to_owned()));
    assert!(!place.path("out.pcapng").exists(), "no device of the configuration is touched");
    let told = place.json(&[&OLD[..], &["--loop", "3", "--speed", "max"]].concat());
    assert_eq!((&told["packets"], &told["sent"]["wan"]), (&3000.into(), &2700.into()), "{told}");
}

#[test]
fn replay_compares_two_configurations() {
    let place = place();
    let new = ["replay", "in.pcapng", "--config", "new.toml", "--port", "lan", "--against", "old.toml"];
    let output = place.run(&new);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("1000 packets have another fate than with old.toml, 0 the same"), "{said}");
    for line in ["sent wan", "dropped ttl_expired"] {
        let line = said.lines().find(|text| text.trim_start().starts_with(line)).unwrap();
        assert!(line.contains("dropped blackhole"), "{said}");
    }
    let why = said.lines().find_map(|line| line.strip_prefix("Why: switchpath ")).unwrap();
    assert!(place.run_ok(&why.split(' ').collect::<Vec<_>>()).contains("blackhole"), "{why}");
    let said = place.run_ok(&[&OLD[..], &["--against", "old.toml"]].concat());
    assert!(said.contains("All 1000 packets have the same fate with old.toml."), "{said}");
}

/// A configuration whose path has the sources of a set file, and the rules of a file.
fn filtering(hosts: &str, rules: &str) -> String {
    let path = format!(
        "[set.hosts]\nfile = '{hosts}'\n[[path]]\nname = 'all'\nmatch = 'ip saddr @hosts'\nfunctions = ['filter', 'ip']\n\
         filter = {{ file = '{rules}' }}\n"
    );
    config("fast", &path)
}

#[test]
fn replay_compares_configurations_that_differ_in_one_of_a_thousand_rules_or_in_a_set_file() {
    let place = TestDirectory::new(1000);
    let mut rules: Vec<String> = (2000..3000).map(|port| format!("udp sport {port} drop")).collect();
    rules.push("accept".to_owned());
    place.write("old.rules", &rules.join("\n"));
    rules[500] = "ip saddr @hosts udp sport 100-119 drop".to_owned();
    place.write("new.rules", &rules.join("\n"));
    // Packets come from 192.0.2.9.
    place.write("hosts.txt", "192.0.2.8/30\n").write("others.txt", "192.0.2.0/29\n");
    place.write("old.toml", &filtering("hosts.txt", "old.rules"));
    place.write("new.toml", &filtering("hosts.txt", "new.rules"));
    place.write("others.toml", &filtering("others.txt", "new.rules"));
    let compared = |new: &str, old: &str| {
        let output = place.run(&["replay", "in.pcapng", "--port", "lan", "--config", new, "--against", old, "-j"]);
        assert_eq!(output.status.code(), Some(1));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        told["against"].clone()
    };
    // The time to live of packets 110 and 120 has expired before they reach the rules.
    let expected: Vec<u64> = (101..=120).filter(|packet| packet % 10 != 0).collect();
    for (new, old, before, after) in [
        ("new.toml", "old.toml", "sent wan", "dropped filtered"),
        ("others.toml", "new.toml", "dropped filtered", "sent wan"),
    ] {
        let told = compared(new, old);
        let changed: Vec<u64> =
            told["changed"].as_array().unwrap().iter().map(|it| it["packet"].as_u64().unwrap()).collect();
        assert_eq!(changed, expected, "{told}");
        assert_eq!((&told["same_packets"], &told["changed_packets"]), (&982.into(), &18.into()));
        let group = &told["groups"][0];
        assert_eq!((&group["before"], &group["after"], &group["packets"]), (&before.into(), &after.into(), &18.into()));
    }
    // The lines at the end explain the first packet with both configurations.
    let output = place.run(&["replay", "in.pcapng", "--port", "lan", "--config", "new.toml", "--against", "old.toml"]);
    let said = String::from_utf8(output.stdout).unwrap();
    for (when, fate) in [("Why", "dropped: filtered"), ("Before", "sent")] {
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("{when}: switchpath "))).unwrap();
        let explained = place.run_ok(&line.split(' ').collect::<Vec<_>>());
        assert!(explained.contains(fate), "{line}: {explained}");
    }
}

#[test]
fn replay_without_judged_packets_fails() {
    let place = place();
    place.write("moved.toml", &config("fast", "").replace("02:00:00:00:00:01", "02:00:00:00:01:01"));
    let replay = ["replay", "in.pcapng", "--port", "lan", "--config", "moved.toml", "--against", "moved.toml"];
    let output = place.run(&replay);
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("No packet could be compared with moved.toml; 1000 not judged."), "{said}");
    assert!(complaint.contains("The replay could judge no packet"), "{complaint}");
    assert!(place.run_ok(&[&replay[..], &["--as-ours"]].concat()).contains("All 1000 packets"));
}

#[test]
fn a_failed_replay_leaves_no_file() {
    let place = place();
    let said = place.run_failing(1, &["replay", "in.pcapng", "--config", "old.toml", "-w", "x.pcapng"]);
    assert!(said.contains("packets of the interface 'x'") && said.contains("--port: lan, wan"), "{said}");
    place.write("broken.toml", "version = 1\n[port.lan]\n");
    let broken = ["replay", "in.pcapng", "--config", "broken.toml", "--port", "lan", "-w", "x.pcapng"];
    assert!(place.run_failing(1, &broken).contains("device"));
    place.write("text.pcap", "this is no capture, whatever it is called");
    let said =
        place.run_failing(1, &["replay", "text.pcap", "--config", "old.toml", "--port", "lan", "-w", "x.pcapng"]);
    assert!(said.contains("'text.pcap' cannot be replayed") && said.contains("nothing was done"), "{said}");
    let said = place.run_failing(2, &[&OLD[..], &["-w", "in.pcapng"]].concat());
    assert!(said.contains("both the capture to read and the file to write"), "{said}");
    assert!(place.run_failing(2, &[&OLD[..], &["--speed", "fast"]].concat()).contains("10x or 0.5x"));
    assert!(!place.path("x.pcapng").exists());
}

#[test]
fn live_replay_counts_only_packets_of_the_capture() {
    let place = place();
    // The router itself generates ten packets a second.
    let router = place.write("run.toml", &config("10pps", "")).start();
    let replay = ["replay", "in.pcapng", "--port", "lan", "--write", "live.pcapng"];
    let said = place.run_ok(&[&replay[..], &["--speed", "0.001x"]].concat());
    for wanted in ["1000 packets of in.pcapng", "(generation 1)", "900", "100", "ttl_expired", "A traceroute"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert_eq!(place.read("live.pcapng").len(), 900);
    let told = place.json(&["replay", "in.pcapng", "--port", "lan", "--loop", "2", "--as-ours"]);
    assert_eq!((&told["sent"]["wan"], &told["lost_packets"]), (&1800.into(), &0.into()), "{told}");
    let ports = place.json(&["show", "ports"]);
    assert!(ports["ports"][0]["received_packets"].as_u64() >= Some(3000), "{ports}");
    let said = place.run_failing(1, &["replay", "in.pcapng", "--port", "dmz"]);
    assert!(said.contains("there is no port 'dmz'") && said.contains("lan, wan"), "{said}");
    assert!(place.run_failing(2, &["replay", "in.pcapng"]).contains("--config"));
    router.stop();
    assert!(place.run_failing(1, &replay).contains("cannot connect to a router at"));
}
