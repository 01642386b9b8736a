//! A network with five routers and a host: Switchpath with FRR as its routing daemons, two FRR routers behind it, and a BIRD router behind both.
//!
//! ```text
//!            10.0.1.0/24            10.0.11.0/24      10.0.13.0/24
//!   client ───────────── Switchpath ───────────── one ───────────── far (BIRD)
//!                            │      10.0.12.0/24      10.0.23.0/24   │
//!                            └─────────────────── two ───────────────┘
//! ```
//!
//! The link between Switchpath and `one` leads over a bridge, which is part of `one`. Without its port, neither end loses its carrier.

use crate::daemons::{Bird, Frr};
use crate::rig::{Router, TestDirectory};
use io::netns::{Lab, LabHost, Namespace};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use units::Nanos;

/// The network. Switchpath and the daemons are started one after the other by the test.
pub struct Network {
    pub place: TestDirectory,
    pub client: LabHost,
    pub far: LabHost,
    pub one: LabHost,
    pub two: LabHost,
    /// Holds the router's ends of the cables.
    pub router: LabHost,
    /// True if OSPF asks BFD whether its neighbours are alive.
    with_bfd: bool,
    /// The name of the namespace with the kernel's interfaces of the router.
    mirror: String,
}

/// Waits until `done` holds. After half a minute it fails with `details`.
#[track_caller]
pub fn wait(what: &str, details: impl Fn() -> String, mut done: impl FnMut() -> bool) {
    let end = io::clock::now() + Nanos::secs(30);
    while !done() {
        assert!(io::clock::now() < end, "{what}: not within 30 s\n{}", details());
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// False if this process may not create networks, or without these programs; then it says so.
#[expect(clippy::print_stderr, reason = "a test that had nothing to test says so")]
pub fn is_permitted(programs: &[&Path]) -> bool {
    let missing = programs.iter().find(|program| !program.is_file());
    if !rustix::process::getuid().is_root() || io::netns::probe().is_err() {
        eprintln!("skipped: network namespaces with names need root");
    } else if let Some(missing) = missing {
        eprintln!("skipped: {} is missing", missing.display());
    } else {
        return true;
    }
    false
}

/// Creates a network namespace with a name, before there is a laboratory: its hosts see the mounts of that time.
pub fn create_namespace(test: &str) -> String {
    let name = format!("sp-{test}-{}", std::process::id());
    Namespace::named(&name).unwrap();
    name
}

/// Removes a network namespace with a name.
pub fn remove_namespace(name: &str) {
    // The mounts of hosts that still exist keep the file busy for a moment.
    let _ = Command::new("ip").args(["netns", "delete", name]).stderr(Stdio::null()).status();
    let _ = fs::remove_file(format!("/run/netns/{name}"));
}

/// Runs a command of iproute2 in a namespace.
#[track_caller]
pub fn run_in(namespace: &Namespace, command: &str) -> String {
    let mut words = command.split(' ');
    let mut run = Command::new(words.next().unwrap());
    let output = namespace.run(|| run.args(words).output()).unwrap().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Network {
    /// None if the machine does not permit it, or without the daemons.
    pub fn new(test: &str, with_bfd: bool) -> Option<Network> {
        if !is_permitted(&crate::daemons::PROGRAMS.map(Path::new)) {
            return None;
        }
        let mirror = create_namespace(test);
        let lab = Lab::new().ok()?;
        let [router, client, one, two, far] =
            ["router", "client", "one", "two", "far"].map(|name| lab.host(name).unwrap());
        for host in [&one, &two, &far] {
            host.forward_in_kernel().unwrap();
        }
        router.silence_kernel().unwrap();
        for (port, host, link) in [("lan", &client, "eth0"), ("one", &one, "plug"), ("two", &two, "near")] {
            lab.cable(&router.plug(&format!("to-{port}")), &host.plug(link)).unwrap();
        }
        lab.cable(&one.plug("behind"), &far.plug("one")).unwrap();
        lab.cable(&two.plug("behind"), &far.plug("two")).unwrap();
        // With a MAC address of its own: the bridge's frames are not for its port.
        let bridge = "ip link add near address 02:00:00:00:11:02 type bridge";
        for command in [bridge, "ip link set plug master near", "ip link set near up"] {
            run_in(one.namespace(), command);
        }
        let addresses: [(&LabHost, &str, &str); 12] = [
            (&client, "eth0", "10.0.1.2/24"),
            (&one, "near", "10.0.11.2/24"),
            (&one, "behind", "10.0.13.1/24"),
            (&one, "lo", "10.255.0.11/32"),
            (&two, "near", "10.0.12.2/24"),
            (&two, "behind", "10.0.23.1/24"),
            (&two, "lo", "10.255.0.12/32"),
            (&far, "one", "10.0.13.2/24"),
            (&far, "two", "10.0.23.2/24"),
            (&far, "lo", "10.255.0.9/32"),
            (&far, "lo", "10.0.9.1/32"),
            // Known by BGP only.
            (&far, "lo", "198.51.100.1/32"),
        ];
        for (host, link, address) in addresses {
            run_in(host.namespace(), &format!("ip addr add {address} dev {link}"));
        }
        run_in(client.namespace(), "ip route add default via 10.0.1.1");
        // The routers between do not take part in the session of BGP between the loopback addresses.
        run_in(one.namespace(), "ip route add 198.51.100.0/24 via 10.0.13.2");
        run_in(two.namespace(), "ip route add 198.51.100.0/24 via 10.0.23.2");
        let place = TestDirectory::new(0);
        // FRR's daemons give up root's rights.
        fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
        let ports: String = [("lan", "10.0.1.1/24"), ("one", "10.0.11.1/24"), ("two", "10.0.12.1/24")]
            .iter()
            .map(|(port, address)| format!("[port.{port}]\ndevice = 'packet:to-{port}'\naddress = ['{address}']\n"))
            .collect();
        place.write("run.toml", &format!("version = 1\n{ports}[linux]\nnamespace = '{mirror}'\n"));
        Some(Network { place, client, far, one, two, router, with_bfd, mirror })
    }

    /// Starts Switchpath.
    pub fn start_router(&self) -> Router {
        let command = self.place.command(&["run", "run.toml"]);
        self.place.start_by(command, |command| self.router.spawn(command))
    }

    /// The namespace of the router's interfaces in the kernel.
    pub fn mirror(&self) -> Arc<Namespace> {
        Arc::new(Namespace::named(&self.mirror).unwrap())
    }

    /// Starts FRR on Switchpath, with a loopback address as most configurations have one.
    pub fn start_router_daemons(&self, bgp: &str) -> Frr {
        let namespace = self.mirror();
        run_in(&namespace, "ip link set lo up");
        run_in(&namespace, "ip addr replace 10.255.0.1/32 dev lo");
        let ospf = self.interfaces(&[("one", true), ("two", true), ("lan", false), ("lo", false)])
            + "interface two\n ip ospf cost 20\n"
            + &ospf("10.255.0.1");
        Frr::start(namespace, self.place.path("frr"), &[("bfdd", BFD.into()), ("ospfd", ospf), ("bgpd", bgp.into())])
    }

    /// Starts FRR on one of the routers behind.
    pub fn start_frr(&self, host: &LabHost, identifier: &str, bgp: &str) -> Frr {
        let ospf = self.interfaces(&[("near", true), ("behind", true), ("lo", false)]) + &ospf(identifier);
        let daemons = [("bfdd", BFD.into()), ("ospfd", ospf), ("bgpd", bgp.into())];
        Frr::start(host.namespace().clone(), self.place.path(host.name()), &daemons)
    }

    /// Starts BIRD on the far router. It sends to the client by `two`, because it finds another way only once a second.
    pub fn start_bird(&self, more: &str) -> Bird {
        let (bfd, dead) = (if self.with_bfd { "on" } else { "off" }, self.dead_interval());
        let text = format!(
            "router id 10.255.0.9;\nprotocol device {{}}\nprotocol direct {{ ipv4; interface \"one\", \"two\"; }}\n\
             protocol kernel {{ ipv4 {{ export all; }}; }}\n\
             protocol bfd {{ interface \"*\" {{ min rx interval 100 ms; min tx interval 100 ms; }}; }}\n\
             protocol ospf v2 {{ ipv4 {{ import all; export none; }}; area 0 {{\n\
             interface \"one\" {{ bfd {bfd}; type ptp; hello 1; dead {dead}; cost 50; }};\n\
             interface \"two\" {{ bfd {bfd}; type ptp; hello 1; dead {dead}; cost 10; }};\n\
             interface \"lo\" 10.0.0.0/8 {{ stub; }};\n}}; }}\n{more}"
        );
        fs::create_dir_all(self.place.path("bird")).unwrap();
        Bird::start(self.far.namespace(), &self.place.path("bird"), &text)
    }

    /// Starts BIRD on Switchpath, with the same protocols as [`Network::start_router_daemons`].
    pub fn start_router_bird(&self, more: &str) -> Bird {
        let namespace = self.mirror();
        run_in(&namespace, "ip link set lo up");
        run_in(&namespace, "ip addr replace 10.255.0.1/32 dev lo");
        let dead = self.dead_interval();
        let text = format!(
            "router id 10.255.0.1;\nprotocol device {{}}\nprotocol direct {{ ipv4; }}\n\
             protocol kernel {{ ipv4 {{ export where source ~ [ RTS_BGP, RTS_OSPF, RTS_OSPF_IA, RTS_OSPF_EXT1, RTS_OSPF_EXT2 ]; }}; merge paths off; }}\n\
             protocol ospf v2 {{ ipv4 {{ import all; export none; }}; area 0 {{\n\
             interface \"one\" {{ type ptp; hello 1; dead {dead}; cost 10; }};\n\
             interface \"two\" {{ type ptp; hello 1; dead {dead}; cost 20; }};\n\
             interface \"lan\", \"lo\" {{ stub; }};\n}}; }}\n{more}"
        );
        std::fs::create_dir_all(self.place.path("bird-router")).unwrap();
        Bird::start(&namespace, &self.place.path("bird-router"), &text)
    }

    /// The number of routes that the router has, of any origin.
    pub fn route_count(&self) -> u64 {
        self.place.json(&["show", "routes", "--limit", "1"])["total"].as_u64().unwrap()
    }

    /// The routes of the router that it has from the kernel, each as `prefix interface`.
    pub fn kernel_routes(&self) -> Vec<String> {
        let shown = self.place.json(&["show", "routes", "--origin", "kernel"]);
        let text = |route: &Value, key: &str| route[key].as_str().unwrap_or("-").to_owned();
        let routes = shown["routes"].as_array().unwrap();
        routes.iter().map(|route| format!("{} {}", text(route, "prefix"), text(route, "interface"))).collect()
    }

    /// Waits until the router has this route, as [`Network::kernel_routes`] writes it.
    #[track_caller]
    pub fn await_route(&self, wanted: &str) {
        let known = || {
            let kernel = run_in(&self.mirror(), "ip route");
            format!("routes {:#?}\nof the kernel:\n{kernel}", self.kernel_routes())
        };
        wait(wanted, known, || self.kernel_routes().iter().any(|route| route == wanted));
    }

    /// Pings a destination from the client a hundred times a second while `change` happens. Returns the answered and the sent packets, and the
    /// longest time without an answer, in milliseconds.
    pub fn ping_while(&self, to: &str, seconds: u32, change: impl FnOnce()) -> Pings {
        let count = seconds * 100;
        let one = || self.client.run(|| Command::new("ping").args(["-n", "-c", "1", "-W", "1", to]).output());
        let answers = || one().unwrap().unwrap().status.success();
        wait("an answer", || format!("{:#?}", self.kernel_routes()), answers);
        let mut ping = Command::new("ping");
        ping.args(["-n", "-i", "0.01", "-W", "1", "-c", &count.to_string(), to]);
        let log = self.place.path("ping.txt");
        ping.stdout(fs::File::create(&log).unwrap());
        let mut child = self.client.namespace().run(|| ping.spawn()).unwrap().unwrap();
        // The first answers prove that it worked before the change.
        let said = || fs::read_to_string(&log).unwrap();
        wait("pings", said, || said().lines().count() > 50);
        change();
        child.wait().unwrap();
        let text = fs::read_to_string(&log).unwrap();
        let sequence = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse::<u32>().ok();
        let answered: Vec<u32> =
            text.lines().filter(|line| line.contains(" bytes from ")).filter_map(sequence).collect();
        let all: Vec<u32> = [0].into_iter().chain(answered.iter().copied()).chain([count + 1]).collect();
        let longest = all.windows(2).map(|pair| pair[1].saturating_sub(pair[0] + 1)).max();
        Pings { answered: answered.len() as u32, sent: count, longest_gap_ms: longest.unwrap_or(0) * 10 }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove_namespace(&self.mirror);
    }
}

/// See [`Network::ping_while`].
#[derive(Debug)]
pub struct Pings {
    pub answered: u32,
    pub sent: u32,
    pub longest_gap_ms: u32,
}

const BFD: &str = "bfd\n profile fast\n  detect-multiplier 3\n  transmit-interval 100\n  receive-interval 100\n";

impl Network {
    /// Seconds without hello packets after which OSPF gives up a neighbour: the usual 40, or few where BFD notices earlier in any case. A daemon that
    /// installs a whole table sends none for some seconds.
    fn dead_interval(&self) -> u32 {
        if self.with_bfd { 4 } else { 40 }
    }

    /// The interfaces of an OSPF router: those with a neighbour, and those that are only announced.
    fn interfaces(&self, links: &[(&str, bool)]) -> String {
        let bfd = if self.with_bfd { " ip ospf bfd\n ip ospf bfd profile fast\n" } else { "" };
        let dead = self.dead_interval();
        let adjacent =
            format!(" ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval {dead}\n");
        let one = |(name, has_neighbour): &(&str, bool)| {
            let more = if *has_neighbour { format!("{adjacent}{bfd}") } else { " ip ospf passive\n".into() };
            format!("interface {name}\n ip ospf area 0\n{more}")
        };
        links.iter().map(one).collect()
    }
}

fn ospf(identifier: &str) -> String {
    format!(
        "router ospf\n ospf router-id {identifier}\n timers throttle spf 10 50 500\n timers throttle lsa all 100\n timers lsa min-arrival 50\n"
    )
}
