//! `switchpath convert`: a Linux router becomes a Switchpath that sends packets where the kernel sent them.

#![allow(clippy::print_stdout)]

use crate::interfaces::lab;
use crate::rig::TestDirectory;
use io::netns::LabHost;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

const RULES: &str = "\
table ip nat {
    chain post {
        type nat hook postrouting priority srcnat;
        oifname \"eth0\" masquerade
    }
}
table inet filter {
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        iifname \"eth1\" accept
    }
}
";

/// The commands that configure a Linux router.
const COMMANDS: &str = "\
address add 203.0.113.2/30 dev eth0
address add 192.168.1.1/24 dev eth1
address add 2001:db8:1::1/64 dev eth1 nodad
route add default via 203.0.113.1
route add 10.0.0.0/8 via 192.168.1.9
route add 10.2.0.0/16 via 192.168.1.10 proto static
route add 10.2.3.0/24 via 203.0.113.1 metric 7
route add 10.2.3.4/32 via 192.168.1.11
route add blackhole 172.16.0.0/12
route add unreachable 198.18.0.0/15
route add 198.18.5.0/24 via 192.168.1.12
route add 2001:db8:2::/48 via 2001:db8:1::9
route add 2001:db8:2:1::/64 via 2001:db8:1::a
route add unreachable 2001:db8:3::/48
";

/// Destinations in, at the borders of and between these routes, and the router itself.
const DESTINATIONS: [&str; 24] = [
    "8.8.8.8",
    "203.0.113.1",
    "203.0.113.2",
    "192.168.1.1",
    "192.168.1.77",
    "10.0.0.1",
    "10.1.255.255",
    "10.2.0.0",
    "10.2.2.255",
    "10.2.3.0",
    "10.2.3.4",
    "10.2.3.5",
    "10.2.4.0",
    "10.255.255.254",
    "11.0.0.1",
    "172.15.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "198.18.0.1",
    "198.18.5.9",
    "198.19.255.255",
    "2001:db8:1::77",
    "2001:db8:2:1::5",
    "2001:db8:3::1",
];

/// Runs a command in a namespace. Returns whether it succeeded, and its output.
fn run(host: &LabHost, program: &str, words: &[&str]) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(words).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = host.spawn(command).ok()?.wait_with_output().unwrap();
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The interface and the gateway that the kernel uses: `eth0 203.0.113.1`; `local` for its own addresses, `dropped` without a route.
fn of_kernel(host: &LabHost, destination: &str) -> String {
    let (succeeded, printed) = run(host, "ip", &["-j", "route", "get", destination]).unwrap();
    let Some(route) = serde_json::from_str::<Value>(&printed).ok().filter(|_| succeeded) else {
        return "dropped".into();
    };
    let (route, text) = (&route[0], |value: &Value| value.as_str().unwrap_or("").to_owned());
    match route["type"].as_str() {
        Some("local") => "local".into(),
        Some("blackhole" | "unreachable" | "prohibit") => "dropped".into(),
        _ => format!("{} {}", text(&route["dev"]), route["gateway"].as_str().unwrap_or(destination)),
    }
}

/// The same of the running router: `explain` finds the route, and `show routes` has its interface and gateway.
fn of_router(place: &TestDirectory, routes: &Value, destination: &str) -> String {
    let source = if destination.contains(':') { "2001:db8:1::50" } else { "192.168.1.50" };
    let explained = place.json(&["explain", "in", "eth1", "saddr", source, "daddr", destination]);
    let Some(prefix) = explained["prefix"].as_str() else { return "dropped".into() };
    let mut same = routes["routes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|route| route["prefix"] == prefix && route["active"] != false);
    let route = same.next_back().unwrap_or_else(|| panic!("no route {prefix}: {explained}"));
    match route["action"].as_str().unwrap() {
        "local" => "local".into(),
        "blackhole" | "unreachable" => {
            assert_eq!(explained["verdict"], "dropped", "{explained}");
            "dropped".into()
        }
        _ => format!("{} {}", route["interface"].as_str().unwrap(), route["gateway"].as_str().unwrap_or(destination)),
    }
}

#[test]
fn converted_router_sends_packets_where_the_kernel_sent_them() {
    let Some(lab) = lab() else { return };
    let [machine, others] = ["machine", "others"].map(|name| lab.host(name).unwrap());
    for link in ["eth0", "eth1"] {
        lab.cable(&machine.plug(link), &others.plug(link)).unwrap();
    }
    if run(&machine, "ip", &["-V"]).is_none() {
        return println!("skipped: ip is not installed");
    }
    for words in COMMANDS.lines() {
        let is_v6 = words.contains("2001:db8");
        let words: Vec<&str> = is_v6.then_some("-6").into_iter().chain(words.split(' ')).collect();
        assert_eq!(run(&machine, "ip", &words).map(|(succeeded, _)| succeeded), Some(true), "ip {words:?}");
    }
    let place = TestDirectory::new(1);
    place.write("rules.nft", RULES);
    let has_rules =
        run(&machine, "nft", &["-f", place.path("rules.nft").to_str().unwrap()]).is_some_and(|(loaded, _)| loaded);
    if !has_rules {
        println!("without nftables: it is not installed, or the kernel has none");
    }
    let converted = machine.run(|| place.run(&["convert", "--live", "-j", "--output", "run.toml"])).unwrap();
    let printed = String::from_utf8_lossy(&converted.stdout);
    let converted: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let text = fs::read_to_string(place.path("run.toml")).unwrap();
    assert_eq!(converted["text"].as_str(), Some(&*text));
    if has_rules {
        assert_eq!(converted["left_out"], serde_json::json!([]), "{text}");
        assert!(text.contains("outside = [\"eth0\"]") && text.contains("\"iif eth1 accept\","), "{text}");
    }
    place.run_ok(&["check", "run.toml"]);
    let wanted: Vec<(&str, String)> = DESTINATIONS.iter().map(|to| (*to, of_kernel(&machine, to))).collect();
    assert!(
        wanted.iter().any(|(_, way)| way == "local") && wanted.iter().any(|(_, way)| way == "dropped"),
        "{wanted:?}"
    );
    let router = machine.run(|| place.start()).unwrap();
    let routes = place.json(&["show", "routes"]);
    let found: Vec<(&str, String)> = DESTINATIONS.iter().map(|to| (*to, of_router(&place, &routes, to))).collect();
    assert_eq!(found, wanted);
    router.stop();
}

#[test]
fn parts_without_a_counterpart_are_listed_with_their_place() {
    let place = TestDirectory::new(1);
    let addr = r#"[{"ifname":"eth0","link_type":"ether","mtu":1500,"addr_info":[{"family":"inet","local":"10.0.0.1","prefixlen":24}]}]"#;
    let rule = r#"[{"priority":0,"src":"all","table":"local"},{"priority":9,"src":"10.0.0.7","table":"5"}]"#;
    place.write("addr.json", addr).write("rule.json", rule);
    let said = place.run_failing(1, &["convert", "--addr", "addr.json", "--rule", "rule.json"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("left out: rule.json: rule with priority 9: policy routing is not converted"), "{said}");
    // Without the rule nothing is left out, and the output is the configuration.
    place.write("a.toml", &place.run_ok(&["convert", "--addr", "addr.json"]));
    place.run_ok(&["check", "a.toml"]);
    let said = place.run_failing(2, &["convert"]);
    assert!(said.contains("no dump of interfaces") && said.contains("--live"), "{said}");
    place.write("addr.json", "eth0 UP");
    let said = place.run_failing(1, &["convert", "--addr", "addr.json"]);
    assert!(said.contains("'addr.json' is no JSON") && said.contains("ip -j addr"), "{said}");
}
