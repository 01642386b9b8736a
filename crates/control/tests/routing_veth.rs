//! Policy routing beside the kernel's: the same rules, once as `[routing]` and once as `ip rule` with tables, and the same packets over real interfaces.
//! Each packet must take the same next hop, or none.

#![allow(clippy::print_stdout)]

use control::{Daemon, DaemonOptions};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use units::Nanos;

/// Networks 2 to 4 are those between the router and its next hops; the last is in another VRF, or has a table of its own in the kernel.
const UPLINKS: [(&str, u8); 3] = [("a", 2), ("b", 3), ("blue", 4)];
/// The numbers of the senders in network 1, and of the networks that they send to.
const SENDERS: [u8; 3] = [11, 12, 77];
const DESTINATIONS: [u8; 4] = [7, 8, 9, 20];
const PORTS: [u16; 2] = [5001, 5002];
/// The longest wait for a change to become effective.
const PATIENCE: Nanos = Nanos::secs(20);
/// How long a receiver waits for packets that may still come.
const QUIET: Duration = Duration::from_millis(150);

fn address(v6: bool, network: u8, host: u8) -> IpAddr {
    match v6 {
        false => Ipv4Addr::new(10, network, 0, host).into(),
        true => Ipv6Addr::new(0x2001, 0xdb8, network.into(), 0, 0, 0, 0, host.into()).into(),
    }
}

/// A network as a prefix.
fn prefix(v6: bool, network: u8) -> String {
    format!("{}/{}", address(v6, network, 0), if v6 { 48 } else { 16 })
}

/// A packet of a sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Probe {
    v6: bool,
    from: u8,
    to: u8,
    port: u16,
}

fn probes(destinations: &[u8]) -> Vec<Probe> {
    let mut all = Vec::new();
    for v6 in [false, true] {
        for from in SENDERS {
            for &to in destinations {
                all.extend(PORTS.map(|port| Probe { v6, from, to, port }));
            }
        }
    }
    all
}

/// A router with a sender and three next hops. Each next hop has all destinations as addresses.
struct Site {
    sender: LabHost,
    router: LabHost,
    uplinks: Vec<LabHost>,
    /// The sockets of each next hop: one for each family and port.
    receivers: Vec<Vec<UdpSocket>>,
}

impl Site {
    fn new(lab: &Lab, prepare: impl Fn(&LabHost)) -> Site {
        let (sender, router) = (lab.host("sender").unwrap(), lab.host("router").unwrap());
        prepare(&router);
        lab.cable(&router.plug("lan"), &sender.plug("eth0")).unwrap();
        for v6 in [false, true] {
            let length = if v6 { 48 } else { 16 };
            SENDERS.iter().for_each(|&host| sender.add_address("eth0", address(v6, 1, host), length).unwrap());
            sender.add_default_route(address(v6, 1, 1)).unwrap();
        }
        let uplinks: Vec<LabHost> =
            UPLINKS.iter().map(|(name, number)| Site::uplink(lab, &router, name, *number)).collect();
        let open = |host: &LabHost| {
            let bind = |v6: bool, port: u16| {
                let any: IpAddr = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
                let socket = UdpSocket::bind(SocketAddr::new(any, port)).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            };
            // IPv6 first for each port would also get IPv4 packets: the families have ports of their own.
            host.run(|| PORTS.iter().flat_map(|port| [bind(false, *port), bind(true, port + 1000)]).collect()).unwrap()
        };
        let receivers = uplinks.iter().map(open).collect();
        Site { sender, router, uplinks, receivers }
    }

    fn uplink(lab: &Lab, router: &LabHost, name: &str, number: u8) -> LabHost {
        let host = lab.host(name).unwrap();
        for links in ["all", "default"] {
            host.sysctl(&format!("net/ipv4/conf/{links}/rp_filter"), "0").unwrap();
        }
        lab.cable(&router.plug(name), &host.plug("eth0")).unwrap();
        for v6 in [false, true] {
            let (length, whole) = if v6 { (48, 128) } else { (16, 32) };
            host.add_address("eth0", address(v6, number, 2), length).unwrap();
            DESTINATIONS.iter().for_each(|&to| host.add_address("lo", address(v6, to, 9), whole).unwrap());
        }
        host
    }

    /// Sends each packet up to three times, until it has arrived or no more come. Returns the next hop of each packet that arrived.
    fn deliver(&self, probes: &[Probe]) -> BTreeMap<Probe, &'static str> {
        let mut found = BTreeMap::new();
        // A first packet may be lost while a next hop is resolved.
        for _ in 0..3 {
            let missing: Vec<Probe> = probes.iter().filter(|probe| !found.contains_key(*probe)).copied().collect();
            self.sender
                .run(|| {
                    for probe in &missing {
                        let socket = UdpSocket::bind(SocketAddr::new(address(probe.v6, 1, probe.from), 0)).unwrap();
                        let number = probes.iter().position(|known| known == probe).unwrap() as u16;
                        let port = probe.port + if probe.v6 { 1000 } else { 0 };
                        let to = SocketAddr::new(address(probe.v6, probe.to, 9), port);
                        // An error is the answer to an earlier packet: the router reports it as unreachable.
                        let _ = socket.send_to(&number.to_be_bytes(), to);
                    }
                })
                .unwrap();
            self.collect(probes, &mut found);
            if found.len() == probes.len() {
                break;
            }
        }
        found
    }

    fn collect(&self, probes: &[Probe], found: &mut BTreeMap<Probe, &'static str>) {
        let idle = UdpSocket::bind("127.0.0.1:0").unwrap();
        idle.set_read_timeout(Some(QUIET)).unwrap();
        loop {
            let mut any = false;
            for ((name, _), sockets) in UPLINKS.iter().zip(&self.receivers) {
                for socket in sockets {
                    let mut number = [0; 2];
                    while let Ok((2, _)) = socket.recv_from(&mut number) {
                        let probe = probes[usize::from(u16::from_be_bytes(number))];
                        let before = found.insert(probe, name);
                        assert!(before.is_none_or(|before| before == *name), "{probe:?} took {before:?} and {name}");
                        any = true;
                    }
                }
            }
            if !any {
                // Nothing is ever sent there: this waits.
                let _ = idle.recv_from(&mut [0; 1]);
                let more = self.receivers.iter().flatten().any(|socket| socket.peek_from(&mut [0; 2]).is_ok());
                if !more {
                    return;
                }
            }
        }
    }

    fn ip(&self, host: &LabHost, arguments: &[&str], lines: &str) {
        let mut command = Command::new("ip");
        command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped());
        let output = host.run(|| {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        });
        let output = output.unwrap();
        assert!(output.status.success(), "{lines}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A rule in both languages.
struct Rule {
    text: String,
    /// Without the family: `ip -4` and `ip -6` get it, or only one of them.
    kernel: String,
    families: &'static [bool],
}

struct Chance(u64);

impl Chance {
    /// Splitmix64.
    fn below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % bound) as usize
    }
}

fn random_rule(chance: &mut Chance) -> Rule {
    let v6 = chance.below(2) == 1;
    let ip = if v6 { "ip6" } else { "ip" };
    let (mut text, mut kernel, mut families): (String, String, &[bool]) =
        (String::new(), String::new(), &[false, true]);
    let own: &[bool] = if v6 { &[true] } else { &[false] };
    if chance.below(2) == 0 {
        let from = address(v6, 1, SENDERS[chance.below(3)]);
        (text, kernel, families) = (format!("{ip} saddr {from} "), format!("from {from} "), own);
    }
    if chance.below(2) == 0 {
        let to = prefix(v6, DESTINATIONS[chance.below(4)]);
        text += &format!("{ip} daddr {to} ");
        kernel += &format!("to {to} ");
        families = own;
    }
    if chance.below(3) == 0 {
        let port = PORTS[chance.below(2)];
        // The families have ports of their own.
        let port = port + if families == [true] { 1000 } else { 0 };
        text += &format!("udp dport {port} ");
        kernel += &format!("ipproto udp dport {port} ");
    }
    if chance.below(4) == 0 {
        text += "iif lan ";
        kernel += "iif lan ";
    }
    let (verdict, action) = match chance.below(8) {
        0 => ("accept".to_string(), "lookup main"),
        1 => ("drop".to_string(), "blackhole"),
        2 => ("unreachable".to_string(), "unreachable"),
        3..=5 => ("vrf blue".to_string(), "lookup 104"),
        other => {
            // A next hop has one family, and so the rule.
            families = if families.len() == 1 { families } else { own };
            let (number, table) = if other == 7 { (2, "lookup 102") } else { (3, "lookup 103") };
            (format!("via {}", address(families[0], number, 2)), table)
        }
    };
    Rule { text: text + &verdict, kernel: kernel + action, families }
}

fn config(rules: &[Rule]) -> String {
    let mut text = "version = 1\n".to_string();
    for (port, number) in [("lan", 1)].into_iter().chain(UPLINKS) {
        let vrf = if port == "blue" { "vrf = 'blue'\n" } else { "" };
        let (four, six) = (address(false, number, 1), address(true, number, 1));
        text += &format!("[port.{port}]\ndevice = 'packet:{port}'\n{vrf}address = ['{four}/16', '{six}/48']\n");
    }
    for v6 in [false, true] {
        let all = if v6 { "::/0" } else { "0.0.0.0/0" };
        let hop = |number| address(v6, number, 2);
        text += &format!("[[route]]\nto = '{all}'\nvia = '{}'\n", hop(2));
        text += &format!("[[route]]\nto = '{}'\nvia = '{}'\n", prefix(v6, 7), hop(3));
        text += &format!("[[route]]\nvrf = 'blue'\nto = '{}'\nvia = '{}'\n", prefix(v6, 8), hop(4));
        text += &format!("[[route]]\nvrf = 'blue'\nto = '{}'\nblackhole = true\n", prefix(v6, 9));
    }
    let rules: Vec<String> = rules.iter().map(|rule| format!("'{}'", rule.text)).collect();
    text + &format!("[routing]\nrules = [{}]\n", rules.join(", "))
}

impl Site {
    /// The kernel's routes and tables: those of the configuration.
    fn set_kernel_routes(&self) {
        for (port, number) in [("lan", 1)].into_iter().chain(UPLINKS) {
            for v6 in [false, true] {
                self.router.add_address(port, address(v6, number, 1), if v6 { 48 } else { 16 }).unwrap();
            }
        }
        for family in ["ipv4", "ipv6"] {
            for links in ["all", "default", "lan", "a", "b", "blue"] {
                let setting = format!("net/{family}/conf/{links}/ignore_routes_with_linkdown");
                self.router.sysctl(&setting, "1").unwrap();
            }
        }
        for v6 in [false, true] {
            let hop = |number| address(v6, number, 2);
            let (seven, eight, nine) = (prefix(v6, 7), prefix(v6, 8), prefix(v6, 9));
            let lines = format!(
                "route add default via {a}\nroute add {seven} via {b}\nroute add default via {a} table 102\n\
                 route add default via {b} table 103\nroute add {eight} via {blue} dev blue table 104\n\
                 route add blackhole {nine} table 104\n",
                a = hop(2),
                b = hop(3),
                blue = hop(4)
            );
            self.ip(&self.router, &[if v6 { "-6" } else { "-4" }, "-batch", "-"], &lines);
        }
    }

    fn set_kernel_rules(&self, rules: &[Rule]) {
        for v6 in [false, true] {
            let mut lines = "rule flush\nrule add pref 32766 lookup main\n".to_string();
            for (position, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.families.contains(&v6)) {
                lines += &format!("rule add pref {} {}\n", 100 + position, rule.kernel);
            }
            self.ip(&self.router, &[if v6 { "-6" } else { "-4" }, "-batch", "-"], &lines);
        }
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let (begun, idle) = (clock::now(), UdpSocket::bind("127.0.0.1:0").unwrap());
    idle.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while !done() {
        assert!(clock::now().since(begun) < PATIENCE, "{what}: not within {PATIENCE}");
        let _ = idle.recv_from(&mut [0; 1]);
    }
}

#[test]
fn packets_take_the_next_hops_of_the_same_rules_in_the_kernel() {
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(error) => return println!("skipped: {}", error.reason),
    };
    let kernel = Site::new(&lab, |router| router.forward_in_kernel().unwrap());
    let ours = Site::new(&lab, |router| router.silence_kernel().unwrap());
    kernel.set_kernel_routes();
    let plan = plan::check(&config(&[]), "t", &plane::catalogue()).unwrap();
    let devices = Devices::new(clock::epoch()).in_namespace(ours.router.namespace().clone());
    let daemon: Arc<Daemon> = Daemon::start(&plan, DaemonOptions::new(devices, &config(&[]), "t", |_| {})).unwrap();
    // The router's IPv6 addresses are tentative at first, and next hops are not resolved.
    let all = probes(&DESTINATIONS);
    for site in [&kernel, &ours] {
        wait("the first packets", || site.deliver(&all).len() == all.len());
    }
    let compare = |rules: &[Rule], destinations: &[u8]| {
        kernel.set_kernel_rules(rules);
        daemon.apply(&config(rules), "t").unwrap();
        let probes = probes(destinations);
        let expected = kernel.deliver(&probes);
        let found = ours.deliver(&probes);
        let list: String = rules.iter().map(|rule| format!("{}    # {}\n", rule.text, rule.kernel)).collect();
        for probe in &probes {
            assert_eq!(found.get(probe), expected.get(probe), "{probe:?}, by the rules\n{list}");
        }
        expected
    };
    let mut chance = Chance(75);
    let mut reached: BTreeMap<&str, usize> = BTreeMap::new();
    let mut packets = 0;
    let mut lists: Vec<Vec<Rule>> = Vec::new();
    for size in [0, 2, 3, 4, 5, 6, 10, 20] {
        let rules: Vec<Rule> = (0..size).map(|_| random_rule(&mut chance)).collect();
        let taken = compare(&rules, &DESTINATIONS);
        packets += probes(&DESTINATIONS).len();
        taken.values().for_each(|name| *reached.entry(name).or_default() += 1);
        lists.push(rules);
    }
    println!("{packets} packets, by next hop: {reached:?}");
    assert!(UPLINKS.iter().all(|(name, _)| reached.get(name).is_some_and(|count| *count > 5)), "{reached:?}");
    // The same rules while the link to `b` is down: rules that name its next hop do not apply. A route by it (network 7) is another matter: the kernel
    // takes the default route, the router drops.
    for site in [&kernel, &ours] {
        site.ip(&site.uplinks[1], &["-batch", "-"], "link set eth0 down\n");
    }
    wait("the link down", || daemon.ports().unwrap().ports.iter().any(|port| port.name == "b" && !port.up));
    for rules in &lists {
        let taken = compare(rules, &[8, 9, 20]);
        assert!(taken.values().all(|name| *name != "b"));
    }
    daemon.stop();
}
