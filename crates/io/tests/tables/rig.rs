//! A host with two cables, and the tables of its kernel in memory.

#![allow(clippy::print_stdout)]

use io::clock;
use io::netlink::{
    ChangeKind, FollowedTables, KernelChange, KernelHop, KernelTables, Netlink, ResolvedRoute, RouteKind,
};
use io::netns::{Lab, LabHost};
use io::wait::{Sleeper, Waker};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use units::Nanos;

/// The time for events that the kernel delays: a carrier, an address that becomes usable.
const DEADLINE: Nanos = Nanos::secs(10);

pub struct Rig {
    pub host: LabHost,
    pub peer: LabHost,
    pub tables: KernelTables,
    /// The names of links.
    pub names: BTreeMap<u32, String>,
    _lab: Lab,
}

/// Hosts with the cables `a` (10.0.0.1/24, fd00:0::1/64) and `b` (10.0.1.1/24, fd00:1::1/64), and tables that are not updated yet. `None`, with a
/// message, if namespaces are forbidden.
pub fn rig() -> Option<Rig> {
    rig_with(|| KernelTables::open(FollowedTables::All).unwrap())
}

/// As [`rig`], with tables opened by `open`.
pub fn rig_with(open: impl FnOnce() -> KernelTables + Send) -> Option<Rig> {
    let lab = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()?;
    let (host, peer) = (lab.host("host").unwrap(), lab.host("peer").unwrap());
    for (net, link) in ["a", "b"].into_iter().enumerate() {
        lab.cable(&host.plug(link), &peer.plug(link)).unwrap();
        host.add_address(link, format!("10.0.{net}.1").parse().unwrap(), 24).unwrap();
        host.add_address(link, format!("fd00:{net}::1").parse().unwrap(), 64).unwrap();
    }
    wait_until_settled(&host);
    let links = host.run(|| Netlink::open().unwrap().links().unwrap()).unwrap();
    let names = links.into_iter().map(|link| (link.index, link.name)).collect();
    let tables = host.run(open).unwrap();
    Some(Rig { host, peer, tables, names, _lab: lab })
}

impl Rig {
    /// Executes commands of ip(8), one a line, in the host. Refused commands are left out.
    pub fn ip(&self, commands: &str) {
        batch(&self.host, commands);
    }

    /// The index of a link.
    pub fn index(&self, name: &str) -> u32 {
        *self.names.iter().find(|(_, known)| *known == name).expect("a link of the host").0
    }

    /// Updates the tables. Returns the differences of routes in text, sorted.
    pub fn update(&mut self) -> Vec<String> {
        self.differences(|change| matches!(change, KernelChange::Route { .. }))
    }

    /// Updates the tables. Returns the differences that meet a condition in text, sorted.
    pub fn differences(&mut self, is_wanted: impl Fn(&KernelChange<'_>) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        let names = &self.names;
        let result = self.tables.update(|change| {
            if is_wanted(&change) {
                found.push(describe(&change, names));
            }
        });
        assert!(result.unwrap().is_complete);
        found.sort();
        found
    }

    /// Executes commands and returns the differences of routes.
    #[track_caller]
    pub fn check(&mut self, commands: &str, expected: &[&str]) {
        self.ip(commands);
        assert_eq!(self.update(), expected, "{commands}");
        self.check_equal();
    }

    /// Updates the tables until they meet a condition.
    #[track_caller]
    pub fn wait_until(&mut self, condition: impl Fn(&KernelTables) -> bool) {
        let (begin, mut sleeper) = (clock::now(), Sleeper::new(Waker::new().unwrap()));
        while !condition(&self.tables) {
            assert!(clock::now().since(begin) < DEADLINE, "the kernel has not made the change");
            let _ = sleeper.sleep([self.tables.as_fd()], Nanos::millis(20));
            self.update();
        }
    }

    /// Updates the tables until they equal new ones of the same kernel.
    #[track_caller]
    pub fn check_equal(&mut self) {
        let begin = clock::now();
        let mut sleeper = Sleeper::new(Waker::new().unwrap());
        loop {
            let _ = self.tables.update(|_| {}).unwrap();
            let mut fresh = self.host.run(|| KernelTables::open(FollowedTables::All).unwrap()).unwrap();
            assert!(fresh.update(|_| {}).unwrap().is_complete);
            let (ours, kernels) = (contents(&self.tables, &self.names), contents(&fresh, &self.names));
            if ours == kernels {
                return;
            }
            if clock::now().since(begin) > DEADLINE {
                let missing: Vec<_> = kernels.iter().filter(|line| !ours.contains(line)).collect();
                let wrong: Vec<_> = ours.iter().filter(|line| !kernels.contains(line)).collect();
                panic!("the tables lack {missing:#?}\nand the kernel lacks {wrong:#?}");
            }
            let _ = sleeper.sleep([self.tables.as_fd()], Nanos::millis(20));
        }
    }
}

/// Waits until the kernel has given both links all addresses and routes.
fn wait_until_settled(host: &LabHost) {
    let mut netlink = host.run(Netlink::open).unwrap().unwrap();
    let (begin, mut sleeper) = (clock::now(), Sleeper::new(Waker::new().unwrap()));
    loop {
        let addresses = netlink.addresses().unwrap();
        let usable = addresses.iter().filter(|own| own.address.is_ipv6() && !own.flags.is_tentative()).count();
        let mut routes = 0;
        netlink.routes(Some(255), None, |route| routes += usize::from(route.destination.is_ipv6())).unwrap();
        // The loopback, and for each link an address, a link-local address, and the route of all multicast groups.
        if usable == 5 && routes >= 7 {
            return;
        }
        assert!(clock::now().since(begin) < DEADLINE, "{addresses:?}, {routes} routes");
        let _ = sleeper.sleep([], Nanos::millis(5));
    }
}

/// Executes commands of ip(8) in a host. The family follows from the addresses.
pub fn batch(host: &LabHost, commands: &str) {
    batch_with(host, &[], commands);
}

/// As [`batch`], with further options: `-6` for commands whose family does not follow from the addresses.
pub fn batch_with(host: &LabHost, options: &[&str], commands: &str) {
    let mut command = Command::new("ip");
    command
        .args(options)
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = host.spawn(command).unwrap();
    child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    child.wait().unwrap();
}

fn hop(hop: &KernelHop, names: &BTreeMap<u32, String>) -> String {
    let mut text = hop.gateway.map_or(String::new(), |gateway| gateway.to_string());
    if let Some(link) = hop.link {
        let _ = write!(text, "@{}", names.get(&link.get()).map_or("?", String::as_str));
    }
    if hop.weight != 1 {
        let _ = write!(text, "*{}", hop.weight);
    }
    for (is_set, name) in [
        (hop.flags.is_onlink(), " onlink"),
        (hop.flags.is_encapsulated(), " encapsulated"),
        (hop.flags.is_dead(), " dead"),
        (hop.flags.is_link_down(), " linkdown"),
    ] {
        text += if is_set { name } else { "" };
    }
    text
}

/// A route in text.
pub fn route(resolved: &ResolvedRoute<'_>, names: &BTreeMap<u32, String>) -> String {
    let route = resolved.route;
    let mut text = format!("{}/{}", route.destination, route.prefix);
    if route.table != 254 {
        let _ = write!(text, " table {}", route.table);
    }
    if let Some(source) = &route.source {
        let _ = write!(text, " from {}/{}", source.0, source.1);
    }
    if route.metric != 0 && route.metric != 1024 {
        let _ = write!(text, " metric {}", route.metric);
    }
    if route.tos != 0 {
        let _ = write!(text, " tos {}", route.tos);
    }
    if let Some(source) = route.preferred_source {
        let _ = write!(text, " src {source}");
    }
    if let Some(mtu) = route.mtu {
        let _ = write!(text, " mtu {mtu}");
    }
    if resolved.kind != RouteKind::Unicast {
        let _ = write!(text, " {:?}", resolved.kind);
    }
    let hops: Vec<String> = resolved.hops.iter().map(|h| hop(h, names)).collect();
    let _ = write!(text, " [{}]", hops.join(", "));
    text
}

fn describe(change: &KernelChange<'_>, names: &BTreeMap<u32, String>) -> String {
    let (kind, text) = match change {
        KernelChange::Link(kind, link) => (kind, format!("link {}", link.name)),
        KernelChange::Address(kind, address) => (kind, format!("address {}/{}", address.address, address.prefix)),
        KernelChange::Neighbour(kind, neighbour) => (kind, format!("neighbour {}", neighbour.address)),
        KernelChange::Rule(kind, rule) => (kind, format!("rule {}", rule.priority)),
        KernelChange::Route { change, route: changed, .. } => (change, route(changed, names)),
    };
    let sign = match kind {
        ChangeKind::Added => '+',
        ChangeKind::Changed => '~',
        ChangeKind::Removed => '-',
    };
    format!("{sign} {text}")
}

/// All objects of the tables in text, sorted, and the route in use for each destination.
fn contents(tables: &KernelTables, names: &BTreeMap<u32, String>) -> Vec<String> {
    let mut all: Vec<String> = tables.links().map(|link| format!("{link:?}")).collect();
    all.extend(tables.addresses().map(|address| format!("{address:?}")));
    all.extend(tables.neighbours().map(|neighbour| format!("{neighbour:?}")));
    all.extend(tables.next_hops().map(|object| format!("{object:?}")));
    for resolved in tables.routes() {
        all.push(format!("{} {:?}", route(&resolved, names), resolved.route));
        let (table, destination, prefix) = (resolved.route.table, resolved.route.destination, resolved.route.prefix);
        let effective = tables.effective_route(table, destination, prefix);
        all.push(format!("for {destination}/{prefix} in {table}: {:?}", effective.map(|used| route(&used, names))));
    }
    all.sort();
    all.extend(tables.rules().iter().map(|rule| format!("{rule:?}")));
    assert_eq!(tables.routes().count(), tables.route_count());
    all
}
