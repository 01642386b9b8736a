//! `tests/dumps/linux` has dumps of a network namespace: iproute2 6.1, nftables 1.0.6. The kernel that made them lacks most queueing disciplines, so
//! `tests/dumps/tc` has the forms that the printers of iproute2 document (tc/q_*.c), with values of our own.

use super::*;
use crate::convert::dumps::DumpObject;
use expect_test::expect;
use std::path::PathBuf;

fn options(words: &[&str]) -> ConvertArguments {
    use crate::arguments::{Arguments, CliCommand};
    use clap::Parser;
    let words = ["switchpath", "convert"].iter().chain(words);
    let CliCommand::Convert(options) = Arguments::try_parse_from(words).unwrap().command else { panic!("no convert") };
    options
}

fn folder(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/dumps", name].iter().collect()
}

fn read(name: &str) -> Dumps {
    Dumps::read(&options(&[folder(name).to_str().unwrap()])).unwrap()
}

/// The conversion with the problems in lines, without the path of the folder.
fn shown(reply: &ConvertReply, name: &str) -> String {
    let folder = format!("{}/", folder(name).display());
    let lines = |kind: &str, list: &[ConvertProblem]| -> String {
        list.iter().map(|one| format!("{kind}: {}\n", one.to_string().replace(&folder, ""))).collect()
    };
    format!("{}---\n{}{}", reply.text, lines("warning", &reply.warnings), lines("left out", &reply.left_out))
}

fn assert_valid(reply: &ConvertReply) {
    let checked = plan::examine(&reply.text, "converted", &plane::catalogue());
    assert!(checked.plan.is_some(), "{}\n{}", reply.text, checked.diagnostics.render(false));
    for problem in reply.left_out.iter().chain(&reply.warnings) {
        assert!(
            !problem.reason.is_empty() && !problem.place.source.is_empty() && !problem.place.object.is_empty(),
            "{problem:?}"
        );
    }
}

#[test]
fn a_namespace_with_routes_translation_and_a_filter_is_converted() {
    let reply = converted(&read("linux"), &plane::catalogue());
    assert_valid(&reply);
    expect![[r##"
        # Converted from Linux by `switchpath convert`. Check the parts that it has reported as left out.
        version = 1

        [port.eth0]
        device = "packet:eth0"
        address = [
          "203.0.113.2/30",
        ]
        scheme = "shape(rate=10mbit, burst=4095b){fifo(bytes=504095b)}"

        [port.eth1]
        device = "packet:eth1"
        address = [
          "192.168.1.1/24",
          "2001:db8:1::1/64",
        ]
        mtu = 1400
        scheme = "fifo(limit=200)"

        [[route]]
        to = "0.0.0.0/0"
        via = "203.0.113.1"
        port = "eth0"

        [[route]]
        to = "10.0.0.0/8"
        via = "192.168.1.9"
        port = "eth1"

        [[route]]
        to = "10.2.0.0/16"
        via = [
          "192.168.1.9 port eth1 weight 2",
          "192.168.1.10 port eth1 weight 1",
        ]

        [[route]]
        to = "172.16.0.0/12"
        blackhole = true

        [[route]]
        to = "198.18.0.0/15"
        unreachable = true

        [[route]]
        to = "::/0"
        via = "fe80::1"
        port = "eth0"

        [[route]]
        to = "2001:db8:2::/48"
        via = "2001:db8:1::9"
        port = "eth1"

        [nat]
        outside = ["eth0"]
        forward = [
          "tcp 8080 to 192.168.1.20:80",
          "tcp 443 to 192.168.1.20:443",
          "tcp 8443 to 192.168.1.20:8443",
        ]

        [[path]]
        name = "forwarded"
        match = "any"
        functions = ["nat", "filter", "ip"]
        filter = [
          "ct state established,related accept",
          "iif eth1 accept",
          "iif eth0 tcp dport { 80, 443 } accept",
          "drop",
        ]
        ---
        left out: addr.json: interface lo, address 192.0.2.77: the router has no loopback interface: give the address to a port
        left out: addr.json: interface p1, address 10.250.0.9: it expires: DHCP or autoconfiguration has set it. With [linux] the client can set it on the interface of the port
        left out: addr.json: interface p0: it has no static address, and no route or VLAN uses it
        left out: addr.json: interface p1: it has no static address, and no route or VLAN uses it
        left out: route.json: route 10.3.0.0/16: 'bird' maintains it: with [linux] the router takes it over from the kernel's table
        left out: route.json: route 10.250.0.0/24: it has no gateway, and the router reaches only the networks of its addresses directly: give the port an address there
        left out: route.json: route 100.64.0.0/10: it has no gateway, and the router reaches only the networks of its addresses directly: give the port an address there
        left out: route.json: route 10.0.0.0/8: another route to the same prefix has a lower metric; the router has one for each prefix
        left out: rule.json: rule with priority 1000: policy routing is not converted: `vrf` of a port selects a table by the input interface
        left out: nft.json: table ip nat, chain post, rule with handle 4: it names no output interface (oifname), which becomes `outside` of [nat]
        left out: nft.json: table ip nat, chain post, rule with handle 5: its range of ports has no counterpart: `ports` of [nat] is for all
        left out: nft.json: table ip nat, chain pre, rule with handle 9: 'redirect' has no counterpart: the router's own ports belong to the kernel's programs
        left out: nft.json: table inet filter, chain input: it filters packets of the machine itself: with [linux] the kernel still applies it to them
        left out: nft.json: table inet filter, chain forward, rule with handle 5: a condition on ' ' has no counterpart here
    "##]].assert_eq(&shown(&reply, "linux"));
}

#[test]
fn queueing_disciplines_become_schemes_and_shares() {
    let reply = converted(&read("tc"), &plane::catalogue());
    assert_valid(&reply);
    expect![[r##"
        # Converted from Linux by `switchpath convert`. Check the parts that it has reported as left out.
        version = 1

        [port.eth0]
        device = "packet:eth0"
        address = [
          "10.0.0.1/24",
        ]
        scheme = "cake(rate=20mbit, tins=four, hosts=source, overhead=4b, minimum=64b){codel(target=2500us, interval=50ms)}"

        [port.eth1]
        device = "packet:eth1"
        address = [
          "10.1.0.1/24",
        ]
        scheme = "fq(flows=1024, quantum=1514b, limit=10240){codel(target=5ms, interval=100ms, ecn=on)}"

        [port.eth2]
        device = "packet:eth2"
        address = [
          "10.2.0.1/24",
        ]
        scheme = "sfq(flows=1024, limit=127)"

        [port.eth3]
        device = "packet:eth3"
        address = [
          "10.3.0.1/24",
        ]
        scheme = "red(min=30, max=90, limit=240, ecn=on)"

        [port.eth4]
        device = "packet:eth4"
        address = [
          "10.4.0.1/24",
        ]
        scheme = "pie(limit=1000, target=15ms, update=15ms)"

        [port.eth5]
        device = "packet:eth5"
        address = [
          "10.5.0.1/24",
        ]
        scheme = "codel(target=5ms, interval=100ms)"

        [port.eth6]
        device = "packet:eth6"
        address = [
          "10.6.0.1/24",
        ]
        scheme = "share(rate=100mbit){fq(flows=64, quantum=1514b, limit=10240){codel(target=5ms, interval=100ms, ecn=on)}}"
        shares = [
          "1:10 rate 30mbit ceiling 100mbit",
          "1:30 rate 10mbit ceiling 20mbit priority 3",
          "1:20 rate 20mbit ceiling 100mbit priority 1",
        ]

        [port.eth7]
        device = "packet:eth7"
        address = [
          "10.7.0.1/24",
        ]
        scheme = "fq(flows=1024, quantum=1514b, limit=10240){codel(target=5ms, interval=100ms, ecn=on)}"

        [port.eth8]
        device = "packet:eth8"
        address = [
          "10.8.0.1/24",
        ]

        [port.eth9]
        device = "packet:eth9"
        address = [
          "10.9.0.1/24",
        ]
        link = { rate = "20mbit", delay = "50000us", jitter = "10000us", loss = "1.0000%" }

        [port.eth10]
        device = "packet:eth10"
        address = [
          "10.10.0.1/24",
        ]
        scheme = "shape(rate=100mbit, burst=65536b){sfq(flows=1024, limit=127)}"

        [port.eth11]
        device = "packet:eth11"
        address = [
          "10.11.0.1/24",
        ]
        scheme = "fifo"
        ---
        warning: qdisc.json: qdisc cake 8001: of eth0: its hosts behind translation has no counterpart
        warning: qdisc.json: qdisc tbf 800a: of eth10: a turn is one packet here, not `quantum` bytes
        warning: qdisc.json: qdisc pfifo_fast 0: of eth11: its three bands by TOS become one queue
        warning: qdisc.json: qdisc sfq 8003: of eth2: a turn is one packet here, not `quantum` bytes
        warning: qdisc.json: qdisc red 8004: of eth3: its thresholds in bytes became packets of 1000 bytes; its probability and weight are the defaults
        warning: qdisc.json: qdisc cake 8009: of ifb0: without a bandwidth it does not shape: `fq` has fair queues without tins and hosts
        left out: qdisc.json: qdisc ingress ffff: of eth0: filters and actions of tc are not converted; rules of paths and filters are their counterpart
        left out: qdisc.json: qdisc sfq 130: of eth6: all leaves of a port have one scheme, which is fq(flows=64, quantum=1514b, limit=10240){codel(target=5ms, interval=100ms, ecn=on)}
        left out: qdisc.json: filters of eth6: the filters of tc are not converted: give paths `link_share = "CLASS"`, or subscribers their addresses. Packets without a share use the default leaf
        left out: qdisc.json: qdisc prio 8007: of eth8: its bands by TOS have no counterpart: give paths a `class`, and the port `priority` or `tree`
        left out: qdisc.json: qdisc cake 8009: of ifb0: its interface is no port
    "##]].assert_eq(&shown(&reply, "tc"));
}

#[test]
fn files_of_other_contents_are_refused_with_a_hint() {
    let mut dumps = Dumps::default();
    for (content, reason) in [
        ("eth0 UP 10.0.0.1/24", "is no JSON"),
        ("[{\"a\":1}]", "is no dump of ip, tc or nft"),
        ("{\"ifname\":\"eth0\"}", "is no dump of ip, tc or nft"),
    ] {
        let error = dumps.add("x.json", content, None, None).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(dumps.add("x.json", "[{},{}]", None, None).is_ok(), "an empty list");
    assert!(dumps.add("x.json", "", None, None).is_ok(), "no output");
    let error = Dumps::read(&options(&[])).unwrap_err().to_string();
    assert!(error.contains("no dump of interfaces"), "{error}");
}

/// A generator of repeatable numbers (Steele et al., SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % bound as u64) as usize
    }
}

/// Values that a dump should not have, or that are at a limit.
fn strange(numbers: &mut Numbers) -> serde_json::Value {
    let all = serde_json::json!([
        null, true, 0, 1, -1, 65536, 4294967295u64, 18446744073709551615u64, 1e300, "", "default", "10.0.0.0/8", "2001:db8::1", "::/0", "fe80::1",
        "255.255.255.255", "eth0", "eth0\"\n[port.x]", "a b", "\u{202e}", "[", "{", [], {}, [[1]], {"set": [1]}, "1:10", "accept", "ö", "1:1 in 1:1"
    ]);
    all[numbers.below(all.as_array().unwrap().len())].clone()
}

/// Changes a random part of a value: replaces, removes or doubles it.
fn mutate(value: &mut serde_json::Value, numbers: &mut Numbers) {
    let is_deeper = numbers.below(8) != 0;
    match value {
        serde_json::Value::Array(list) if is_deeper && !list.is_empty() => {
            let at = numbers.below(list.len());
            match numbers.below(12) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                _ => mutate(&mut list[at], numbers),
            }
        }
        serde_json::Value::Object(members) if is_deeper && !members.is_empty() => {
            let key = members.keys().nth(numbers.below(members.len())).unwrap().clone();
            match numbers.below(12) {
                0 => drop(members.remove(&key)),
                _ => mutate(&mut members[&key], numbers),
            }
        }
        value => *value = strange(numbers),
    }
}

#[test]
fn converted_text_is_valid_whatever_the_dumps_contain() {
    let cases: u64 = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    let originals = [read("linux"), read("tc")];
    let (mut converted_ports, mut left_out, mut empty) = (0, 0, 0);
    for case in 0..cases {
        let mut numbers = Numbers(case);
        let mut dumps = originals[case as usize % originals.len()].clone();
        for _ in 0..=numbers.below(4) {
            let lists: [&mut Vec<DumpObject>; 5] =
                [&mut dumps.interfaces, &mut dumps.routes, &mut dumps.rules, &mut dumps.qdiscs, &mut dumps.classes];
            let mut lists: Vec<&mut Vec<DumpObject>> = lists.into_iter().filter(|list| !list.is_empty()).collect();
            let which = numbers.below(lists.len() + 1);
            match lists.get_mut(which) {
                Some(list) => {
                    let at = numbers.below(list.len());
                    mutate(&mut list[at].value, &mut numbers);
                }
                None => {
                    for (_, content) in &mut dumps.rulesets {
                        let mut json: serde_json::Value = serde_json::from_str(content).unwrap();
                        mutate(&mut json, &mut numbers);
                        *content = json.to_string();
                    }
                }
            }
        }
        let reply = converted(&dumps, &plane::catalogue());
        // Without any port there is no configuration: the command reports that, and writes nothing.
        if reply.text == HEADER {
            assert!(reply.left_out.iter().any(|one| one.place.object.starts_with("interface")), "{:?}", reply.left_out);
            empty += 1;
            continue;
        }
        assert_valid(&reply);
        converted_ports += reply.text.matches("\n[port.").count();
        left_out += reply.left_out.len();
    }
    // The mutations must not destroy everything, or the test would show nothing.
    assert!(
        converted_ports as u64 > cases && left_out as u64 > cases && empty < cases / 20 + 5,
        "{converted_ports} ports, {left_out} parts left out, {empty} without ports"
    );
}
