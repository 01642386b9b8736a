//! Multicast routing by programs of the machine: PIM with a rendezvous point on the neighbour, and static routes of smcroute.
//!
//! ```text
//!          10.0.1.0/24             10.0.2.0/24            10.0.3.0/24
//!   client ───────────── Switchpath ────────── neighbour ───────────── server
//!                        FRR: pimd             FRR: pimd, the rendezvous point
//! ```

use crate::daemons::{Frr, PROGRAMS, Process};
use crate::home::{Home, TWO_LINKS};
use crate::network::{run_in, wait};
use io::netns::{Lab, LabHost, Namespace};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const SMCROUTED: &str = "/usr/sbin/smcrouted";

/// The way to sources behind the neighbour.
const ROUTE: &str = "[[route]]
to = '10.0.3.0/24'
via = '10.0.2.2'
";

/// Sends numbers to a group, or writes those that it receives.
const SCRIPT: &str = "
import socket, sys, time
role, group, interface = sys.argv[1:4]
six = ':' in group
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
index = socket.if_nametoindex(interface)
if role == 'send':
    if six: s.setsockopt(41, socket.IPV6_MULTICAST_HOPS, 8); s.setsockopt(41, socket.IPV6_MULTICAST_IF, index)
    else: s.setsockopt(0, socket.IP_MULTICAST_TTL, 8); s.setsockopt(0, socket.IP_MULTICAST_IF, bytes(8) + index.to_bytes(4, sys.byteorder))
    number = 0
    while True:
        s.sendto(b'%d' % number, (group, 5000)); number += 1; time.sleep(0.02)
s.bind(('', 5000))
address = socket.inet_pton(s.family, group)
if six: s.setsockopt(41, socket.IPV6_JOIN_GROUP, address + index.to_bytes(4, sys.byteorder))
else: s.setsockopt(0, socket.IP_ADD_MEMBERSHIP, address + socket.inet_aton('0.0.0.0'))
while True:
    print(int(s.recv(99)), flush=True)
";

/// A running sender or receiver.
fn start(home: &Home, namespace: &Namespace, role: &str, group: &str, interface: &str) -> Process {
    let mut command = Command::new("python3");
    command.args(["-c", SCRIPT, role, group, interface]);
    Process::start(namespace, &mut command, &home.place.path(&format!("{role}-{group}.log")))
}

/// The numbers that the receiver of a group has written.
fn received(home: &Home, group: &str) -> Vec<u64> {
    let text = fs::read_to_string(home.place.path(&format!("receive-{group}.log"))).unwrap();
    // Without the line that it is writing.
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    complete.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{text}"))).collect()
}

/// The router's entry for a group with this source.
fn entry(home: &Home, group: &str, source: &str) -> Option<Value> {
    let shown = home.place.json(&["show", "multicast"]);
    let is_wanted = |one: &&Value| one["group"] == group && one["source"] == source && one["origin"] == "kernel";
    shown["groups"].as_array().unwrap().iter().find(is_wanted).cloned()
}

/// FRR's PIM between `wan` and another interface, on which hosts are members of groups.
fn pim(other: &str) -> Vec<(&'static str, String)> {
    let text = format!(
        "ip pim rp 10.0.2.2 239.0.0.0/8\ninterface wan\n ip pim\n ip pim hello 1\n\
         interface {other}\n ip pim\n ip igmp\n ip igmp query-interval 5\n ip igmp last-member-query-interval 5\n"
    );
    vec![("pimd", text)]
}

/// Configures the neighbour, between its interface `wan` and the host behind.
fn configure(home: &Home, server: &LabHost) {
    home.provider.forward_in_kernel().unwrap();
    let (neighbour, client) = (home.provider.namespace(), home.client.namespace());
    for (namespace, commands) in [
        (
            neighbour,
            &[
                "ip link set dev eth0 down name wan",
                "ip link set wan up",
                "ip addr add 10.0.2.2/24 dev wan",
                "ip addr add 2001:db8:2::2/64 dev wan nodad",
                "ip addr add 10.0.3.1/24 dev behind",
                "ip route add 10.0.1.0/24 via 10.0.2.1",
            ][..],
        ),
        (server.namespace(), &["ip addr add 10.0.3.2/24 dev eth0", "ip route add default via 10.0.3.1"]),
        (
            client,
            &[
                "ip addr add 10.0.1.2/24 dev eth0",
                "ip addr add 2001:db8:1::2/64 dev eth0 nodad",
                "ip route add default via 10.0.1.1",
            ],
        ),
    ] {
        commands.iter().for_each(|command| drop(run_in(namespace, command)));
    }
}

#[test]
fn groups_of_pim_are_forwarded_in_both_directions() {
    let Some(home) = Home::new("pim", &PROGRAMS, &format!("{TWO_LINKS}{ROUTE}")) else { return };
    let server = Lab::new().unwrap().host("server").unwrap();
    Lab::new().unwrap().cable(&home.provider.plug("behind"), &server.plug("eth0")).unwrap();
    configure(&home, &server);
    let router = home.start_router();
    let mirror = Arc::new(home.mirror());
    let (client, server) = (home.client.namespace(), server.namespace());
    let here = Frr::start(mirror.clone(), home.place.path("frr"), &pim("lan"));
    let there = Frr::start(home.provider.namespace().clone(), home.place.path("neighbour"), &pim("behind"));
    let neighbours = || here.ask("show ip pim neighbor") + &there.ask("show ip pim neighbor");
    wait("PIM", neighbours, || neighbours().contains("10.0.2.2") && neighbours().contains("10.0.2.1"));
    // The router of the receivers, which finds the source by the tree of the rendezvous point; and that of a source, which registers it there.
    let ways = [("239.1.2.3", "10.0.3.2", "wan", "lan"), ("239.4.5.6", "10.0.1.2", "lan", "wan")];
    let receiver = start(&home, client, "receive", ways[0].0, "eth0");
    let _other_receiver = start(&home, server, "receive", ways[1].0, "eth0");
    let joined = || there.ask("show ip pim state") + &there.ask("show ip igmp groups");
    wait("members", joined, || ways.iter().all(|way| joined().contains(way.0)));
    let _sender = start(&home, server, "send", ways[0].0, "eth0");
    let _other_sender = start(&home, client, "send", ways[1].0, "eth0");
    for (group, source, from, to) in ways {
        let details = || {
            let kernel = run_in(&mirror, "ip -s mroute");
            let linux = home.place.run_ok(&["show", "linux"]);
            let shown = home.place.run_ok(&["show", "multicast"]);
            format!("{shown}\n{linux}\n{kernel}\n{}\n{}", here.ask("show ip mroute"), home.logs())
        };
        let is_used = |entry: &Value| entry["packets"].as_u64() > Some(100);
        wait(group, details, || entry(&home, group, source).is_some_and(|entry| is_used(&entry)));
        let entry = entry(&home, group, source).unwrap();
        assert_eq!((&entry["from"], &entry["to"]), (&from.into(), &vec![to].into()), "{entry}");
        let numbers = received(&home, group);
        // While routes change, the kernel forwards the packets, and a few that it cannot keep are lost.
        let (first, last) = (numbers[0], *numbers.last().unwrap());
        let lost = last - first + 1 - numbers.len() as u64;
        println!("{group}: {} packets, from number {first}, {lost} lost", numbers.len());
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]) && lost <= 25, "{numbers:?}\n{}", details());
        // The kernel does not get these packets any more, but still takes the route for used.
        let counted = || {
            let shown = run_in(&mirror, "ip -s mroute");
            let mut lines = shown.lines().skip_while(|line| !line.starts_with(&format!("({source},{group})")));
            lines.nth(1).and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        };
        let before = counted();
        wait("a count of the kernel", details, || counted() > before);
    }
    let shown = home.place.json(&["show", "linux"]);
    let of_groups = shown["protocols"].as_array().unwrap().iter().find(|one| one["protocol"] == "multicast").unwrap();
    assert!(of_groups["punted_packets"].as_u64() < Some(200), "the kernel forwards: {of_groups}");
    // The receiver leaves, and the branch of the tree ends.
    drop(receiver);
    let kernel = || run_in(&mirror, "ip mroute");
    let is_pruned = || entry(&home, ways[0].0, ways[0].1).is_none_or(|entry| entry["to"] != serde_json::json!(["lan"]));
    wait("a pruned branch", kernel, is_pruned);
    router.stop();
}

#[test]
fn groups_of_smcroute_are_forwarded() {
    let Some(home) = Home::new("smcroute", &[SMCROUTED], TWO_LINKS) else { return };
    let server = Lab::new().unwrap().host("server").unwrap();
    Lab::new().unwrap().cable(&home.provider.plug("behind"), &server.plug("eth0")).unwrap();
    configure(&home, &server);
    let router = home.start_router();
    let mirror = home.mirror();
    // For one source, and for those that the kernel reports.
    let text = "phyint wan enable\nphyint lan enable\nmroute from wan source 2001:db8:2::2 group ff3e::99 to lan\n\
                mroute from wan group 239.7.7.8 to lan\n";
    home.place.write("smcroute.conf", text);
    let mut command = Command::new(SMCROUTED);
    command.arg("-n").arg("-f").arg(home.place.path("smcroute.conf"));
    command.arg("-P").arg(home.place.path("smcroute.pid")).arg("-u").arg(home.place.path("smcroute.sock"));
    let _smcroute = Process::start(&mirror, &mut command, &home.place.path("smcroute.log"));
    let (client, neighbour) = (home.client.namespace(), home.provider.namespace());
    wait("smcroute", || home.logs(), || Path::new(&home.place.path("smcroute.sock")).exists());
    for (group, source) in [("ff3e::99", "2001:db8:2::2"), ("239.7.7.8", "10.0.2.2")] {
        let _receiver = start(&home, client, "receive", group, "eth0");
        let _sender = start(&home, neighbour, "send", group, "wan");
        let details = || home.place.run_ok(&["show", "multicast"]) + &run_in(&mirror, "ip mroute") + &home.logs();
        let is_used = |entry: &Value| entry["packets"].as_u64() > Some(50);
        wait(group, details, || entry(&home, group, source).is_some_and(|entry| is_used(&entry)));
        wait("packets", details, || received(&home, group).len() > 50);
        let numbers = received(&home, group);
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    }
    router.stop();
}
