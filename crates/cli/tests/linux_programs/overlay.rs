//! An overlay network of five routers, each of them a slice with the code option `ipv4` and its slow path, between two hosts whose kernels send and
//! receive its packets.
//!
//! ```text
//!   west ─────── node 1 ─────── node 2 ─────── node 3 ─────── node 4 ─────── node 5 ─────── east
//!   10.1.0.1                                     (MTU 1300)                                  10.2.0.1
//!        172.16.0.0/24  172.16.1.0/24  172.16.2.0/24  172.16.3.0/24  172.16.4.0/24  172.16.5.0/24
//! ```
//!
//! The hosts have an interface of the overlay (TUN), whose packets a program puts into UDP. Meta-interface 0 of a node leads west, and 1 leads east; node
//! N has the addresses 10.0.N.1 and 10.0.N.2 in the overlay.

use crate::daemons::Process;
use crate::network::{is_permitted, run_in, wait};
use crate::rig::{Router, TestDirectory};
use io::netns::{Lab, LabHost};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::Command;

const NODES: usize = 5;
/// The port of all nodes and hosts.
const PORT: u16 = 20_000;
/// The link behind this node has a small MTU.
const NARROW: usize = 3;
/// IPv4 and UDP.
const OUTER: usize = 28;

/// Puts the packets of a new TUN interface into UDP, and those of UDP into the interface. Arguments: the own address, and that of the first node.
const TUNNEL: &str = "
import fcntl, os, select, socket, struct, sys
tun = os.open('/dev/net/tun', os.O_RDWR)
# IFF_TUN without further information in front of packets; TUNSETIFF.
fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH22x', b'overlay', 0x1001))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((sys.argv[1], 20000))
while True:
    for ready in select.select([tun, udp], [], [])[0]:
        if ready == tun:
            udp.sendto(os.read(tun, 65535), (sys.argv[2], 20000))
        else:
            packet = udp.recv(65535)
            if packet[:1] and packet[0] >> 4 == 4:
                os.write(tun, packet)
";

/// A node: its router, and the program of its slice's slow path.
struct Node {
    place: TestDirectory,
    program: Option<(Process, u32)>,
    router: Router,
}

struct Overlay {
    // Dropped in this order: the programs before their routers.
    nodes: Vec<Node>,
    tunnels: Vec<Process>,
    west: LabHost,
    _others: Vec<LabHost>,
}

fn place_of(link: usize, side: usize) -> String {
    format!("172.16.{link}.{side}")
}

/// The routes of a node. `without` leaves one destination out.
fn routes(node: usize, without: &str) -> String {
    let west = format!("via {}:{PORT} mi 0 queue 0", place_of(node - 1, 1));
    let east = format!("via {}:{PORT} mi 1 queue 1", place_of(node, 2));
    let mut lines = vec![
        format!("address 0 10.0.{node}.1"),
        format!("address 1 10.0.{node}.2"),
        format!("route 10.1.0.0/16 {west}"),
        format!("route 10.2.0.0/16 {east}"),
    ];
    let others = (1..=NODES).filter(|other| *other != node);
    lines.extend(others.map(|other| format!("route 10.0.{other}.0/24 {}", if other < node { &west } else { &east })));
    // The nodes behind have no route.
    lines.extend((node < NARROW).then(|| format!("route 10.3.0.0/16 {east}")));
    lines.retain(|line| without.is_empty() || !line.contains(without));
    lines.join("\n") + "\n"
}

impl Node {
    fn start(number: usize, host: &LabHost) -> Node {
        let place = TestDirectory::new(0);
        let port = |name: &str, link: usize, side: usize| {
            let mtu = if link == NARROW { "mtu = 1300\n" } else { "" };
            format!(
                "[port.{name}]\ndevice = 'packet:{name}'\naddress = ['{}/24']\n{mtu}scheme = 'share(rate=1gbit)'\n\
                 shares = ['engine rate 800mbit ceiling 800mbit']\n",
                place_of(link, side)
            )
        };
        let (west, east) = (place_of(number - 1, 2), place_of(number, 1));
        let ports = port("west", number - 1, 2) + &port("east", number, 1);
        let path = format!(
            "[[path]]\nname = 'slices'\nmatch = 'ip daddr {{ {west}, {east} }} udp dport {PORT}'\nfunctions = ['slice']\n"
        );
        place.write("run.toml", &format!("version = 1\n[router]\nframes = 4096\n{ports}{path}"));
        place.write("routes", &routes(number, ""));
        place.write(
            "slices",
            &format!(
                "create overlay code ipv4 rate 200mbit exceptions 1000\nmi add overlay 0 {west}:{PORT}\nmi add overlay 1 {east}:{PORT}\n\
                 reserve overlay west/engine rate 100mbit\nreserve overlay east/engine rate 100mbit\n\
                 queue set overlay 0 west/engine limit 200kb\nqueue set overlay 1 east/engine limit 200kb\n"
            ),
        );
        let router = place.start_by(place.command(&["run", "run.toml"]), |command| host.spawn(command));
        place.run_ok(&["slice", "batch", "slices"]);
        let mut node = Node { place, program: None, router };
        node.start_program();
        node
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.path("program.log")).unwrap_or_default()
    }

    /// Starts the slow path, and returns its report about the routes.
    fn start_program(&mut self) -> String {
        let mut command = self.place.command(&["slice", "router", "overlay", "--routes", "routes"]);
        let log = self.place.path("program.log");
        let here = io::netns::Namespace::of_this_thread().unwrap();
        let process = Process::start(&here, &mut command, &log);
        let id = process.id();
        self.program = Some((process, id));
        wait("the routes of a node", || self.log(), || self.log().ends_with("changed\n"));
        self.log()
    }

    /// Gives the node other routes while its program runs.
    fn set_routes(&self, text: &str) {
        self.place.write("routes", text);
        let before = self.log().len();
        let (_, id) = self.program.as_ref().unwrap();
        kill_process(Pid::from_raw(*id as i32).unwrap(), Signal::HUP).unwrap();
        wait("the new routes", || self.log(), || self.log()[before..].ends_with("changed\n"));
    }

    fn counter(&self, name: &str) -> u64 {
        self.place.json(&["slice", "list", "overlay"])["slices"][0]["counters"][name].as_u64().unwrap()
    }
}

impl Overlay {
    fn start() -> Option<Overlay> {
        let tools = ["/usr/bin/ping", "/usr/sbin/traceroute", "/usr/bin/python3", "/dev/net/tun"];
        // A device is no file.
        if !is_permitted(&tools[..3].iter().map(Path::new).collect::<Vec<_>>()) || !Path::new(tools[3]).exists() {
            return None;
        }
        let lab = Lab::new().ok()?;
        let [west, east] = ["west", "east"].map(|name| lab.host(name).unwrap());
        let hosts: Vec<LabHost> = (1..=NODES).map(|node| lab.host(&format!("node{node}")).unwrap()).collect();
        hosts.iter().for_each(|host| host.silence_kernel().unwrap());
        lab.cable(&west.plug("eth0"), &hosts[0].plug("west")).unwrap();
        for (left, right) in hosts.iter().zip(&hosts[1..]) {
            lab.cable(&left.plug("east"), &right.plug("west")).unwrap();
        }
        lab.cable(&hosts[NODES - 1].plug("east"), &east.plug("eth0")).unwrap();
        let nodes: Vec<Node> = hosts.iter().enumerate().map(|(index, host)| Node::start(index + 1, host)).collect();
        let mut tunnels = Vec::new();
        for (host, link, side, inner) in [(&west, 0, 1, "10.1.0.1/16"), (&east, NODES, 2, "10.2.0.1/16")] {
            let (own, node) = (place_of(link, side), place_of(link, 3 - side));
            run_in(host.namespace(), &format!("ip addr add {own}/24 dev eth0"));
            let mut command = Command::new("/usr/bin/python3");
            let log = nodes[0].place.path(host.name());
            tunnels.push(Process::start(host.namespace(), command.args(["-c", TUNNEL, &own, &node]), &log));
            let links = || run_in(host.namespace(), "ip -o link");
            wait("the interface of the overlay", || fs::read_to_string(&log).unwrap(), || links().contains("overlay"));
            for command in [
                format!("ip addr add {inner} dev overlay"),
                "ip link set overlay mtu 1400 up".to_owned(),
                "ip route add 10.0.0.0/8 dev overlay".to_owned(),
            ] {
                run_in(host.namespace(), &command);
            }
        }
        let others = hosts.into_iter().chain([east]).collect();
        Some(Overlay { nodes, tunnels, west, _others: others })
    }

    /// The output of a program on the western host, whether it succeeds or not.
    fn run(&self, line: &str) -> String {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        let output = self.west.namespace().run(|| command.args(words).env("LC_ALL", "C").output()).unwrap().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    fn report(&self) -> String {
        self.nodes.iter().map(|node| node.place.run_ok(&["slice", "list", "overlay"]) + &node.log()).collect()
    }

    /// Runs a program until its output has this text: a packet may be lost while a next hop is resolved, or on a slow machine.
    #[track_caller]
    fn until(&self, line: &str, expected: &str) -> String {
        let mut output = String::new();
        wait(
            &format!("{line}: {expected}"),
            || self.report(),
            || {
                output = self.run(line);
                output.contains(expected)
            },
        );
        output
    }
}

#[test]
fn overlay_of_five_nodes_forwards_and_explains() {
    let Some(overlay) = Overlay::start() else { return };
    let mut overlay = overlay;
    overlay.until("ping -n -c 1 -W 5 10.2.0.1", " bytes from 10.2.0.1: icmp_seq=1 ttl=59");
    // Each node answers for its addresses.
    overlay.until("ping -n -c 1 -W 5 10.0.1.1", " bytes from 10.0.1.1");
    overlay.until("ping -n -c 1 -W 5 10.0.5.2", " bytes from 10.0.5.2");
    // All hops are visible, and the host at the end.
    let nodes = ["10.0.1.1", "10.0.2.1", "10.0.3.1", "10.0.4.1", "10.0.5.1", "10.2.0.1"];
    let mut path = String::new();
    wait(
        "all hops",
        || overlay.report(),
        || {
            path = overlay.run("/usr/sbin/traceroute -n -q 3 -w 5 -N 1 10.2.0.1");
            // The number of the hop, and the first of three answers: a late one is a star.
            let answer = |line: &'_ str| line.split_whitespace().skip(1).find(|word| *word != "*").map(str::to_owned);
            path.lines().skip(1).filter_map(answer).eq(nodes.map(str::to_owned))
        },
    );
    println!("{path}");
    // A packet that may be fragmented is, and its answer on the way back.
    let fragmented = overlay.nodes[NARROW - 1].counter("reinjected_packets");
    overlay.until("ping -n -c 1 -W 5 -M dont -s 1372 10.2.0.1", "1380 bytes from 10.2.0.1");
    assert!(overlay.nodes[NARROW - 1].counter("reinjected_packets") >= fragmented + 2);
    // One that may not be is refused, with the MTU of the link within the overlay.
    let mtu = 1300 - OUTER;
    overlay.until(
        "ping -n -c 1 -W 5 -M do -s 1372 10.2.0.1",
        &format!("10.0.3.1 icmp_seq=1 Frag needed and DF set (mtu = {mtu})"),
    );
    // The kernel respects it from now on.
    overlay.until("ping -n -c 1 -W 5 -M do -s 1372 10.2.0.1", &format!("message too long, mtu={mtu}"));
    // Node 3 has no route.
    overlay.until("ping -n -c 1 -W 5 10.3.0.1", "From 10.0.3.1 icmp_seq=1 Destination Net Unreachable");
    // A new file of routes takes effect, and only what differs is changed.
    overlay.nodes[NARROW - 1].set_routes(&routes(NARROW, "10.2.0.0/16"));
    assert!(overlay.nodes[NARROW - 1].log().ends_with("slice overlay: 5 routes, 1 filters changed\n"));
    overlay.until("ping -n -c 1 -W 5 10.2.0.1", "From 10.0.3.1 icmp_seq=1 Destination Net Unreachable");
    overlay.nodes[NARROW - 1].set_routes(&routes(NARROW, ""));
    overlay.until("ping -n -c 1 -W 5 10.2.0.1", " bytes from 10.2.0.1");
    // Without its program a node forwards, and explains nothing. The next one finds the routes as they are.
    overlay.nodes[NARROW - 1].program = None;
    overlay.until("ping -n -c 1 -W 5 10.2.0.1", " bytes from 10.2.0.1");
    assert!(overlay.run("ping -n -c 1 -W 1 10.0.3.1").contains("0 received"));
    assert_eq!(overlay.nodes[NARROW - 1].start_program(), "slice overlay: 6 routes, 0 filters changed\n");
    overlay.until("ping -n -c 1 -W 5 10.0.3.1", " bytes from 10.0.3.1");
    // Each packet of each slice has one fate, once no packet is under way.
    for node in &overlay.nodes {
        wait(
            "the fates of all packets",
            || overlay.report(),
            || {
                let reply = node.place.json(&["slice", "list", "overlay"]);
                let counters = reply["slices"][0]["counters"].as_object().unwrap();
                let sum = |part: &str| -> u64 {
                    counters
                        .iter()
                        .filter(|(name, _)| name.ends_with(part))
                        .map(|(_, count)| count.as_u64().unwrap())
                        .sum()
                };
                let ended = sum("forwarded_packets") + sum("exception_packets") + sum("dropped_packets");
                sum("received_packets") == ended && sum("received_packets") > 0
            },
        );
    }
    drop(overlay.tunnels);
    overlay.nodes.into_iter().for_each(|node| {
        drop(node.program);
        node.router.stop();
    });
}
