//! `switchpath share`, `switchpath subscribers` and their views, and shares in `switchpath check`.

use crate::rig::{TestDirectory, config, until};
use std::io::Write;
use std::process::Stdio;

const TABLE: &str = "site,circuit,parent,address,down,up,title\nNorth,,,,1gbit,500mbit,\n\
                     ,10001,North,192.0.2.9,100mbit,20mbit,Jane\n,10002,North,192.0.2.8,50mbit,10mbit,\n";

const SUBSCRIBERS: &str = "[subscribers]\ninside = ['lan']\noutside = ['wan']\nfile = 'subscribers.csv'\n";

/// Both ports have shares; `of_wan` are further keys of the port `wan`, and `more` further sections.
fn sharing(of_wan: &str, more: &str) -> String {
    let scheme = "scheme = \"share(rate=1gbit){codel}\"\n";
    let text = config("1000pps", more);
    text.replace("[port.lan]\n", &format!("[port.lan]\n{scheme}"))
        .replace("[port.wan]\n", &format!("[port.wan]\n{scheme}{of_wan}"))
}

/// The first words of the lines, from the one that begins with `head` on.
fn column(text: &str, head: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.trim_start().starts_with(head)).skip(1);
    lines.map(|line| line.split_whitespace().next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn share_commands_change_tree_and_list_it() {
    let place = TestDirectory::new(10);
    let router = place.write("run.toml", &sharing("", "")).start();
    let said = place.run_ok(&["share", "add", "wan", "north tower", "rate", "100mbit", "ceiling", "200mbit"]);
    assert_eq!(said, "1 share changed, carried out; the port has 1 share\n");
    place.run_ok(&["share", "add", "wan", "Doe, Jane", "in", "north tower", "rate", "10mbit", "lease", "60s"]);
    place.run_ok(&["share", "set", "wan", "Doe, Jane", "weight", "7", "priority", "2"]);
    let mut piped = place.command(&["share", "batch", "wan"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"add b # comment\nadd a in b\n").unwrap();
    let output = piped.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2 shares changed, carried out; the port has 4 shares\n");
    place.run_ok(&["share", "move", "wan", "a", "in", "north tower"]);
    let tree = place.run_ok(&["show", "shares", "wan"]);
    assert!(tree.starts_with("wan: 4 shares, 3 leaves\n"), "{tree}");
    let header = tree.lines().nth(1).unwrap();
    assert!(header.contains("rate") && header.contains("sent") && header.contains("p99"), "{tree}");
    let jane = tree.lines().find(|line| line.contains("Doe, Jane")).unwrap();
    assert!(
        jane.starts_with("   Doe, Jane") && jane.contains("10.0mbit") && jane.trim_end().ends_with("59s"),
        "{tree}"
    );
    let sorted = place.run_ok(&["share", "list", "wan", "--leaves", "--sort", "bytes", "-n", "2"]);
    assert!(sorted.contains("2 of 3 shares; see -n and --sort"), "{sorted}");
    let listed = place.json(&["share", "list", "wan"]);
    let port = &listed["ports"][0];
    assert_eq!((port["total"].as_u64(), port["is_tree"].as_bool()), (Some(4), Some(true)));
    assert_eq!(port["shares"].as_array().unwrap().len(), 4);
    let said = place.run_failing(1, &["share", "remove", "wan", "north tower"]);
    assert!(said.contains("command line:1:1: error:") && said.contains("all"), "{said}");
    let removed = place.json(&["share", "remove", "wan", "north tower", "all"]);
    assert_eq!((removed["total"].as_u64(), removed["carried_out"].as_bool()), (Some(1), Some(true)));
    let said = place.run_failing(1, &["share", "add", "wan", "x", "rate", "10mbps"]);
    assert!(said.contains("command line:1:12: error:"), "{said}");
    let said = place.run_failing(2, &["share", "list", "wan", "--sort", "name"]);
    assert!(said.contains("bytes, drops, sojourn, rate or use"), "{said}");
    let events = place.run_ok(&["show", "events"]);
    assert!(events.contains("shares: 1 changed, 1 at the port; by "), "{events}");
    router.stop();
}

#[test]
fn subscribers_are_listed_and_reloaded() {
    let place = TestDirectory::new(10);
    let router = place.write("subscribers.csv", TABLE).write("run.toml", &sharing("", SUBSCRIBERS)).start();
    let listed = place.run_ok(&["show", "subscribers"]);
    assert_eq!(column(&listed, "subscriber")[..2], ["10001", "10002"], "{listed}");
    assert!(listed.contains("Jane") && listed.ends_with("2 subscribers; down at lan, up at wan\n"), "{listed}");
    let worst = place.run_ok(&["subscribers", "list", "--worst", "bytes", "-n", "1"]);
    assert!(worst.contains("1 of 2 subscribers"), "{worst}");
    let worst = place.run_ok(&["show", "subscribers", "--worst", "rtt"]);
    assert!(worst.lines().next().is_some_and(|head| head.contains("rtt p50") && head.contains("net p50")), "{worst}");
    let said = place.run_failing(2, &["show", "sites", "--worst", "delay"]);
    assert!(said.contains("rtt, bytes, drops, sojourn, rate or use"), "{said}");
    let sites = place.run_ok(&["show", "sites"]);
    assert_eq!(column(&sites, "site")[..2], ["North", "1"], "{sites}");
    assert!(sites.contains("heat") && sites.ends_with("1 site; down at lan, up at wan\n"), "{sites}");
    let sites = place.json(&["show", "sites", "--worst", "use"]);
    assert_eq!(sites["sites"][0]["subscribers"].as_u64(), Some(2), "{sites}");
    assert_eq!(sites["sites"][0]["rtt"]["subscriber"]["weight"].as_u64(), Some(0), "{sites}");
    let once = place.run_ok(&["top", "subscribers"]);
    assert!(once.contains("10002") && once.contains("2 subscribers; down at lan"), "{once}");
    place.write("subscribers.csv", &TABLE.replace("10002", "10003"));
    let read = place.json(&["subscribers", "reload"]);
    assert_eq!((read["added"].as_u64(), read["removed"].as_u64()), (Some(1), Some(1)));
    // The router sees by itself that the file has changed.
    place.write("subscribers.csv", &TABLE.replace("20mbit", "30mbit"));
    let up = || place.json(&["show", "subscribers"])["subscribers"][0]["up"]["ceiling_bps"].as_u64();
    until(|| (up() == Some(30_000_000)).then_some(()));
    place.write("subscribers.csv", &TABLE.replace("20mbit", "20mbps"));
    let said = place.run_failing(1, &["subscribers", "reload"]);
    assert!(said.contains("subscribers.csv:3:32: "), "{said}");
    assert_eq!(up(), Some(30_000_000));
    router.stop();
}

#[test]
fn check_reads_files_of_shares_and_subscribers() {
    let place = TestDirectory::new(1);
    place.write("wan.shares", "gold rate 100mbit\nvoice in gold # comment\n").write("subscribers.csv", TABLE);
    place.write("run.toml", &sharing("share_file = 'wan.shares'\n", SUBSCRIBERS));
    let said = place.run_ok(&["check", "run.toml"]);
    let subscribers =
        "subscribers: 2 with 2 addresses and other keys, 1 site; round-trip times: at most 4.3 MB of memory\n";
    assert!(said.contains(subscribers), "{said}");
    assert!(said.contains("shares of wan: 5 in 2 levels, 3 leaves, 100mbit guaranteed; at most "), "{said}");
    let checked = place.json(&["check", "run.toml"]);
    assert_eq!(checked["share_trees"][1]["shares"].as_u64(), Some(5), "{checked}");
    assert!(checked["share_trees"][1]["memory_bytes"].as_u64() > Some(5 * 400), "{checked}");
    assert_eq!(checked["subscribers"]["subscribers"].as_u64(), Some(2), "{checked}");
    place.write("wan.shares", "gold rate 100mbit\nvoice in silver\n");
    place.write("subscribers.csv", &TABLE.replace("192.0.2.8", "192.0.2.300").replace("North,192", "South,192"));
    let said = place.run_failing(1, &["check", "run.toml"]);
    assert!(said.contains("wan.shares:2:1") && said.contains("silver"), "{said}");
    assert!(said.contains("subscribers.csv:3:") && said.contains("subscribers.csv:4:"), "{said}");
    let output = place.command(&["check", "-j", "run.toml"]).output().unwrap();
    let checked: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((checked["ok"].as_bool(), checked["diagnostics"].as_array().unwrap().len() >= 3), (Some(false), true));
}
