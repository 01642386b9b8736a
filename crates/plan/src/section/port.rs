//! `[port.NAME]` and its VLANs: devices, addresses, links.

use super::advertise;
use super::connected::{Connected, InterfaceIndex, MAIN, VrfIndex, edge_of, no_host};
use super::cpu;
use super::policy::Policies;
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section, Text};
use crate::keys::{
    FAULTS, FRAME_MTU, IPV6_MTU, Kind, LINK, MOST_ADDRESSES, MOST_INTERFACES, MOST_PORTS, MOST_VRFS, PORT, VLAN,
};
use crate::names::{self, PORT_PATTERN};
use crate::text::{TextError, did_you_mean, quote};
use crate::{
    Call, Catalogue, Congestion, DevicePlan, FaultsPlan, InterfacePlan, LinkPlan, MediumPlan, MediumText, Name,
    Objective, Pace, PortPlan, Prefix, ReversePath, SchemeChange,
};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use units::Mac;

/// The scheme of a link that names none.
const DEFAULT_SCHEME: &str = "fifo";

/// The kinds whose devices are network interfaces of the kernel.
const INTERFACES: [&str; 3] = ["packet", "tap", "xdp"];

/// Keys of a port that only devices of some kinds have.
const OPTIONS: [(&str, &[&str]); 4] =
    [("write", &["pcap"]), ("pace", &["pcap"]), ("checksums", &["xdp"]), ("offloads", &["packet", "tap"])];

/// The longest IP packet of ports of some kinds, and why; those of other kinds carry whatever the pool has frames for.
const MOST_MTU: [(&str, u64, &str); 3] = [
    ("xdp", FRAME_MTU, "the kernel receives into the frames of the router"),
    ("memif", FRAME_MTU, "the buffers of the link are as long as the frames of the router"),
    ("tap", 65_521, "a tap device has no larger MTU"),
];

/// What the ports are read by.
pub(super) struct Shared<'c> {
    pub catalogue: &'c Catalogue,
    /// Whether the pool has frames for packets longer than [`FRAME_MTU`].
    pub jumbo: bool,
    /// Workers that the router has.
    pub workers: u16,
    /// Packets that an input task takes at once.
    pub batch: Option<u16>,
    /// What is said of objectives.
    pub policies: &'c Policies,
}

/// What is shared between the ports while they are read.
struct Ports<'c> {
    by: Shared<'c>,
    connected: Connected,
    /// Devices by what their names are names of, and name; and the port that has each.
    devices: HashMap<(String, String), Name>,
    /// Files that are written, and the key that names each.
    files: HashMap<PathBuf, String>,
    /// Captures that are read: the file, and the key that names it with its place.
    reads: Vec<(PathBuf, String, Range<usize>)>,
}

pub(super) fn read(report: &mut Report<'_>, root: &Section<'_>, by: Shared<'_>) -> (Vec<PortPlan>, Connected) {
    let mut ports = Ports {
        by,
        connected: Connected::default(),
        devices: HashMap::new(),
        files: HashMap::new(),
        reads: Vec::new(),
    };
    ports.connected.incomplete = report.has_syntax_errors();
    let before = report.error_count();
    let mut tables = root.tables(report, "port");
    if tables.is_empty() && report.error_count() == before {
        let span = root.node("port").map_or(0..0, |node| node.span);
        report.absent(span, "port", || {
            ("there is no port".to_string(), "add [port.lan] with device = \"packet:eth0\"".to_string())
        });
    }
    ports.connected.incomplete |= tables.is_empty();
    if let Some((span, _, _)) = tables.get(MOST_PORTS) {
        too_many(report, span.clone(), "port", "ports", MOST_PORTS);
        ports.connected.incomplete = true;
        tables.truncate(MOST_PORTS);
    }
    // In the order of the file, so that of two that clash the later is reported.
    tables.sort_by_key(|(span, _, _)| span.start);
    let parent = Path::Key(&root.path, "port");
    let mut plans = Vec::with_capacity(tables.len());
    for (name_span, name, value) in tables {
        let path = Path::Key(&parent, name);
        if !names::is_port(name) {
            report.error(name_span, path, || {
                let hint = format!("use a letter, then letters, digits, '_' and '-', 15 at most: {PORT_PATTERN}");
                (format!("{} is no name for a port", quote(name)), hint)
            });
        }
        let node = Node::new(value.get_ref(), value.span(), path);
        match node.section(report, PORT, &format!("[port.{name}]")) {
            Some(section) => plans.push(ports.port(report, &section, Name::from(name))),
            None => ports.connected.incomplete = true,
        }
    }
    ports.connected.settle(report);
    for (file, path, span) in &ports.reads {
        if let Some(writer) = ports.files.get(file) {
            report.error(span.clone(), path, || {
                (format!("the file is written by {writer}, and would be lost"), "write to another file".to_string())
            });
        }
    }
    plans.sort_by(|a, b| a.name.cmp(&b.name));
    (plans, ports.connected)
}

fn too_many(report: &mut Report<'_>, span: Range<usize>, path: impl std::fmt::Display, what: &str, most: usize) {
    report.error(span, path, || (format!("there are more than {most} {what}"), format!("use at most {most}")));
}

impl Ports<'_> {
    /// The link that a port pretends to have: one worker's, for it is one.
    fn link(&self, report: &mut Report<'_>, section: &Section<'_>) -> Option<LinkPlan> {
        let node = section.node("link")?;
        let span = node.span.clone();
        let section = node.section(report, LINK, "link = { rate = \"15mbit\", delay = \"75ms\" }")?;
        if self.by.workers > 1 {
            report.error(span, section.path, || {
                let reason = format!("a link is one, and there are {} workers", self.by.workers);
                (reason, "let the router have workers = 1".to_string())
            });
        }
        let hold = section.integer(report, "hold").unwrap_or(8192) as u32;
        let seed = section.integer(report, "seed").unwrap_or(1);
        let keys = LINK.iter().filter(|key| matches!(key.kind, Kind::Text(_)));
        let texts: Vec<(&'static str, Text<'_>)> =
            keys.filter_map(|key| Some((key.name, section.text(report, key.name)?))).collect();
        let texts: Vec<MediumText<'_>> =
            texts.iter().map(|(key, text)| MediumText { key, text: text.value, span: text.span.clone() }).collect();
        let medium = MediumPlan::read(report, &section.path.to_string(), &texts, &MediumPlan::default());
        Some(LinkPlan { medium, hold, seed })
    }

    fn port(&mut self, report: &mut Report<'_>, section: &Section<'_>, name: Name) -> PortPlan {
        let device = self.device(report, section, &name);
        let mtu = section.integer(report, "mtu").unwrap_or(1500);
        if mtu > FRAME_MTU && !self.by.jumbo {
            let span = section.node("mtu").map_or(section.span.clone(), |node| node.span);
            report.error(span, Path::Key(&section.path, "mtu"), || {
                let reason = format!("packets of {mtu} bytes take super-frames, and super_frames is 0");
                (reason, format!("give [router] some super_frames, or an mtu of {FRAME_MTU} at most"))
            });
        }
        if let Some((_, most, why)) = MOST_MTU.iter().find(|(kind, most, _)| *kind == device.kind && mtu > *most) {
            let span = section.node("mtu").map_or(section.span.clone(), |node| node.span);
            report.error(span, Path::Key(&section.path, "mtu"), || {
                let reason = format!("{} ports carry packets of {most} bytes at most, not {mtu}: {why}", device.kind);
                let other = if device.kind == "xdp" { ", or device = \"packet:...\"" } else { "" };
                (reason, format!("write mtu = {most} or less{other}"))
            });
        }
        let vrf = self.vrf(report, section, MAIN);
        let mut interfaces = vec![self.interface(report, section, name.clone(), (None, vrf), mtu)];
        (interfaces[0].trust, interfaces[0].objective) = wants(report, section, (false, Objective::None));
        interfaces[0].reverse_path = reverse_path(report, section, ReversePath::Off);
        self.vlans(report, section, (&name, vrf), mtu, &mut interfaces);
        let mut cpu = cpu::port(report, section, self.by.batch);
        // A file that is read as fast as the router takes it has nothing to lose: it waits for room, unless somebody asks for drops.
        if device.pace == Pace::Fast && section.node("congestion").is_none() {
            cpu.congestion = Congestion::Throttle;
        }
        PortPlan {
            mac: section.text(report, "mac").and_then(|text| mac(report, &text)),
            interfaces,
            scheme: self.scheme(report, section),
            policy: self.policy(report, section),
            scheme_change: section.choice(report, "scheme_change", SchemeChange::ALL).unwrap_or_default(),
            capture: self.file(report, section, "capture"),
            faults: faults(report, section),
            state: super::state::of_port(report, section),
            link: self.link(report, section),
            cpu,
            device,
            name,
        }
    }

    fn device(&mut self, report: &mut Report<'_>, section: &Section<'_>, port: &Name) -> DevicePlan {
        let write = self.file(report, section, "write");
        let pace = section.parsed(report, "pace").unwrap_or_default();
        let checksums = section.parsed(report, "checksums");
        let offloads = section.boolean(report, "offloads");
        let mut plan = DevicePlan { kind: String::new(), target: String::new(), write, pace, checksums, offloads };
        let Some(text) = section.text(report, "device") else { return plan };
        let Some((kind, target)) = text.value.split_once(':') else {
            let kinds: Vec<String> = self.by.catalogue.devices.iter().map(|d| format!("{}:...", d.name)).collect();
            text.error(report, || {
                (
                    format!("{} does not say what kind of device it is", quote(text.value)),
                    format!("write one of {}", kinds.join(", ")),
                )
            });
            return plan;
        };
        if !self.by.catalogue.devices.iter().any(|declared| declared.name == kind) {
            let hint = did_you_mean(kind, self.by.catalogue.devices.iter().map(|d| d.name));
            let reason = format!("no kind of device is called {}", quote(kind));
            text.wrong(report, TextError { offset: 0, length: kind.len(), reason, hint });
            return plan;
        }
        (plan.kind, plan.target) = (kind.to_string(), target.to_string());
        if let Err((reason, hint)) = target_of(&plan) {
            text.wrong(report, TextError { offset: kind.len() + 1, length: target.len(), reason, hint });
            return plan;
        }
        for (name, kinds) in OPTIONS {
            if let Some(node) = section.node(name).filter(|_| !kinds.contains(&kind)) {
                report.error(node.span, node.path, || {
                    let owners: Vec<String> = kinds.iter().map(|kind| quote(kind)).collect();
                    let owners = owners.join(" and ");
                    (format!("'{name}' belongs to {owners} devices, and this is '{kind}'"), "remove it".to_string())
                });
            }
        }
        if kind == "pcap" && !target.is_empty() {
            self.reads.push((plain(target), text.path.to_string(), text.span.clone()));
        }
        if !target.is_empty() {
            // An interface is one device, whatever kind of port is put on it.
            let namespace = if INTERFACES.contains(&kind) { "interface" } else { kind };
            let first = self.devices.entry((namespace.to_string(), target.to_string())).or_insert_with(|| port.clone());
            if first != port {
                text.error(report, || {
                    (
                        format!("the device is the one of '{first}' already"),
                        "give each port a device of its own".to_string(),
                    )
                });
            }
        }
        plan
    }

    /// A file that is written; no two keys may name the same.
    fn file(&mut self, report: &mut Report<'_>, section: &Section<'_>, key: &'static str) -> Option<String> {
        let text = section.text(report, key)?;
        if text.value.is_empty() || text.value.contains(char::is_control) {
            text.error(report, || {
                (format!("{} is no name of a file", quote(text.value)), "write \"out.pcapng\"".to_string())
            });
            return None;
        }
        let path = text.path.to_string();
        let first = self.files.entry(plain(text.value)).or_insert_with(|| path.clone());
        if *first != path {
            text.error(report, || {
                (format!("the file is written by {first} already"), "give each a file of its own".to_string())
            });
        }
        Some(text.value.to_string())
    }

    fn scheme(&self, report: &mut Report<'_>, section: &Section<'_>) -> Call {
        let catalogue = &self.by.catalogue;
        let Some(text) = section.text(report, "scheme") else {
            return Call::scheme(DEFAULT_SCHEME, catalogue).unwrap_or_else(|error| {
                report.error(section.span.clone(), section.path, || {
                    (error.reason, format!("name a scheme: {}", error.hint))
                });
                Call::nothing()
            });
        };
        scheme(report, &text, catalogue).unwrap_or_else(Call::nothing)
    }

    /// The name of its policy. None: left out or reported.
    fn policy(&self, report: &mut Report<'_>, section: &Section<'_>) -> Option<Name> {
        let text = section.text(report, "policy")?;
        let mut names = self.by.policies.names();
        let found = names.clone().find(|name| ***name == *text.value);
        if found.is_none() {
            text.error(report, || {
                let hint = match names.next() {
                    None => format!("add [policy.{}]", text.value),
                    Some(_) => did_you_mean(text.value, self.by.policies.names().map(|name| &**name)),
                };
                (format!("no policy is called {}", quote(text.value)), hint)
            });
        }
        found.cloned()
    }

    fn vlans(
        &mut self,
        report: &mut Report<'_>,
        section: &Section<'_>,
        (port, port_vrf): (&Name, VrfIndex),
        port_mtu: u64,
        interfaces: &mut Vec<InterfacePlan>,
    ) {
        let parent = Path::Key(&section.path, "vlan");
        let port_wants = (interfaces[0].trust, interfaces[0].objective);
        let port_sources = interfaces[0].reverse_path;
        for (span, id, value) in section.tables(report, "vlan") {
            let path = Path::Key(&parent, id);
            let Some(vlan) = names::vlan_id(id) else {
                report.error(span, path, || {
                    (format!("{} is no VLAN id", quote(id)), "use a number from 1 to 4094".to_string())
                });
                self.connected.incomplete = true;
                continue;
            };
            if self.connected.interface_count() >= MOST_INTERFACES {
                self.connected.incomplete = true;
                return too_many(report, span, path, "interfaces", MOST_INTERFACES);
            }
            let node = Node::new(value.get_ref(), value.span(), path);
            let Some(section) = node.section(report, VLAN, &format!("[port.{port}.vlan.{id}]")) else {
                self.connected.incomplete = true;
                continue;
            };
            let mtu = section.integer(report, "mtu").unwrap_or(port_mtu);
            if mtu > port_mtu {
                let span = section.node("mtu").map_or(section.span.clone(), |node| node.span);
                report.error(span, Path::Key(&section.path, "mtu"), || {
                    (
                        format!("an MTU of {mtu} is more than {port_mtu}, the port's"),
                        "raise the port's mtu or lower this one".to_string(),
                    )
                });
            }
            let name = Name::from(format!("{port}.{vlan}"));
            let vrf = self.vrf(report, &section, port_vrf);
            let mut interface = self.interface(report, &section, name, (Some(vlan), vrf), mtu);
            (interface.trust, interface.objective) = wants(report, &section, port_wants);
            interface.reverse_path = reverse_path(report, &section, port_sources);
            interfaces.push(interface);
        }
        interfaces.sort_by_key(|interface| interface.vlan);
    }

    fn interface(
        &mut self,
        report: &mut Report<'_>,
        section: &Section<'_>,
        name: Name,
        (vlan, vrf): (Option<u16>, VrfIndex),
        mtu: u64,
    ) -> InterfacePlan {
        let index = self.connected.add_interface(name.clone(), vrf);
        let addresses = self.addresses(report, section, index);
        if mtu < IPV6_MTU && addresses.iter().any(|prefix| prefix.address.is_ipv6()) {
            let span = section.node("mtu").map_or(section.span.clone(), |node| node.span);
            report.error(span, Path::Key(&section.path, "mtu"), || {
                (
                    format!("an MTU of {mtu} is too small for IPv6"),
                    format!("use at least {IPV6_MTU}, or no IPv6 address"),
                )
            });
        }
        let redirects = section.boolean(report, "redirects");
        let ra = advertise::read(report, section, &addresses);
        let vrf = self.connected.vrf_name(vrf).cloned();
        let (trust, objective) = (false, Objective::None);
        let reverse_path = ReversePath::Off;
        InterfacePlan { name, vlan, vrf, addresses, mtu: mtu as u16, redirects, reverse_path, ra, trust, objective }
    }

    /// The VRF of an interface, `default` where none is named.
    fn vrf(&mut self, report: &mut Report<'_>, section: &Section<'_>, default: VrfIndex) -> VrfIndex {
        let Some(text) = section.text(report, "vrf") else { return default };
        if !names::is_vrf(text.value) {
            text.error(report, || {
                let hint = format!("use a letter, then letters, digits, '_' and '-', 15 at most: {PORT_PATTERN}");
                (format!("{} is no name for a VRF", quote(text.value)), hint)
            });
            self.connected.incomplete = true;
            return default;
        }
        if self.connected.vrf(text.value).is_none() && self.connected.vrf_count() >= MOST_VRFS {
            too_many(report, text.span.clone(), text.path, "VRFs", MOST_VRFS);
            self.connected.incomplete = true;
            return default;
        }
        self.connected.add_vrf(text.value)
    }

    fn addresses(&mut self, report: &mut Report<'_>, section: &Section<'_>, interface: InterfaceIndex) -> Vec<Prefix> {
        let before = report.error_count();
        let mut list = section.list(report, "address");
        let parent = Path::Key(&section.path, "address");
        if let Some((_, span, _)) = list.get(MOST_ADDRESSES) {
            too_many(report, span.clone(), parent, "addresses on the interface", MOST_ADDRESSES);
            list.truncate(MOST_ADDRESSES);
        }
        let mut addresses = Vec::with_capacity(list.len());
        for (index, span, value) in list {
            let node = Node::new(value, span, Path::Index(&parent, index));
            let Some(text) = node.text() else {
                node.no_text(report, "\"192.0.2.1/24\"");
                continue;
            };
            match own_address(text.value) {
                Ok(prefix) => {
                    self.connected.add_address(report, prefix, interface, &text);
                    addresses.push(prefix);
                }
                Err((reason, hint)) => text.error(report, || (reason, hint)),
            }
        }
        self.connected.incomplete |= report.error_count() > before;
        addresses
    }
}

/// The scheme that a text names. None: reported.
pub(super) fn scheme(report: &mut Report<'_>, text: &Text<'_>, catalogue: &Catalogue) -> Option<Call> {
    let call = Call::scheme(text.value, catalogue).map_err(|error| text.wrong(report, error)).ok()?;
    if call.is_anywhere(&|call| call.inner.is_empty() && call.option("limit") == Some(1)) {
        report.warning(text.span.clone(), text.path, || {
            let reason = "with a limit of 1 every burst loses all but one packet".to_string();
            (reason, "give a limit of a hundred or more".to_string())
        });
    }
    Some(call)
}

/// How an interface checks sources; as `inherited` where it does not say.
fn reverse_path(report: &mut Report<'_>, section: &Section<'_>, inherited: ReversePath) -> ReversePath {
    section.choice(report, "reverse_path", ReversePath::ALL).unwrap_or(inherited)
}

/// Whether an interface trusts what comes in, and what everything else wants; as `inherited` where it does not say.
fn wants(report: &mut Report<'_>, section: &Section<'_>, inherited: (bool, Objective)) -> (bool, Objective) {
    let said = section.node("trust").is_some();
    let trust = if said { section.boolean(report, "trust") } else { inherited.0 };
    (trust, section.choice(report, "objective", Objective::ALL).unwrap_or(inherited.1))
}

/// A file's name with `./a` and `a//b` made what they mean; links are left alone.
fn plain(file: &str) -> PathBuf {
    std::path::Path::new(file).components().filter(|part| *part != std::path::Component::CurDir).collect()
}

/// An address the router may have on an interface.
fn own_address(text: &str) -> Result<Prefix, (String, String)> {
    let prefix: Prefix = match text.parse::<Prefix>() {
        Ok(prefix) => prefix,
        Err(_) if !text.contains('/') && text.parse::<std::net::IpAddr>().is_ok() => {
            let example = if text.contains(':') { 64 } else { 24 };
            let reason = format!("{} does not say how large its subnet is", quote(text));
            return Err((reason, format!("add the length of the subnet, like '{text}/{example}'")));
        }
        Err(error) => {
            return Err((
                error.reason,
                "write an address and the length of its subnet, like '192.0.2.1/24'".to_string(),
            ));
        }
    };
    if let Some(kind) = no_host(prefix.address) {
        return Err((
            format!("{} is {kind}, and no interface can have it", prefix.address),
            "write a unicast address".to_string(),
        ));
    }
    if prefix.length == 0 {
        return Err((
            format!("with the length 0 the subnet of {prefix} is the whole Internet"),
            "write the length of the subnet; a default route goes to [[route]]".to_string(),
        ));
    }
    if let Some(kind) = edge_of(prefix, prefix.address) {
        let reason = format!("{} is the {kind} of {}", prefix.address, prefix.network());
        return Err((reason, "write the router's own address on the subnet".to_string()));
    }
    Ok(prefix)
}

/// Whether a device of the kind can have the target.
fn target_of(device: &DevicePlan) -> Result<(), (String, String)> {
    let target = device.target.as_str();
    let wrong = |hint: &str| Err((format!("'{}:' cannot open {}", device.kind, quote(target)), hint.to_string()));
    if target.contains(char::is_control) {
        return wrong("write a name without control characters");
    }
    match device.kind.as_str() {
        // What the kernel takes as a name: net/core/dev.c, dev_valid_name.
        "packet" | "xdp" | "tap" => {
            let odd = |c: char| c == '/' || c == ':' || c.is_ascii_whitespace() || c == '\u{b}';
            if target.is_empty() || target.len() > 15 || target == "." || target == ".." || target.contains(odd) {
                let example = if device.kind == "tap" { "tap0" } else { "eth0" };
                return wrong(&format!(
                    "write the name of an interface of the kernel, like '{}:{example}'",
                    device.kind
                ));
            }
        }
        "memory" if !names::is_port(target) => return wrong("write a name, like 'memory:a'"),
        "pcap" if target.is_empty() && device.write.is_none() => {
            return wrong("write 'pcap:FILE', or add write = \"out.pcapng\" for a port that only writes");
        }
        "pcap" => {}
        // sockaddr_un: 108 bytes with the zero at the end.
        "memif" => {
            let path = target.split_once(':').filter(|(end, _)| matches!(*end, "listen" | "connect"));
            if path.is_none_or(|(_, path)| path.is_empty() || path.len() > 107) {
                return wrong(
                    "write 'memif:listen:PATH' at one end and 'memif:connect:PATH' at the other, PATH a socket's",
                );
            }
        }
        _ if target.is_empty() => return wrong("write what it opens behind the colon"),
        _ => {}
    }
    Ok(())
}

/// A MAC address that one station can have.
pub(crate) fn mac(report: &mut Report<'_>, text: &Text<'_>) -> Option<Mac> {
    let (reason, hint) = match text.value.parse::<Mac>() {
        Ok(mac) if mac.is_group() => (format!("{mac} is a multicast address"), "make the first byte even, like '02'"),
        Ok(mac) if mac.number() == 0 => {
            (format!("{mac} is no address"), "write a unicast address, like '02:00:00:00:00:01'")
        }
        Ok(mac) => return Some(mac),
        Err(_) => (
            format!("{} is no MAC address", quote(text.value)),
            "write six bytes in hexadecimal, like '02:00:00:00:00:01'",
        ),
    };
    text.error(report, || (reason, hint.to_string()));
    None
}

fn faults(report: &mut Report<'_>, section: &Section<'_>) -> Option<FaultsPlan> {
    let node = section.node("faults")?;
    let section = node.section(report, FAULTS, "faults = { loss = 0.01 }")?;
    let mut part = |name| section.probability(report, name);
    let (loss, corrupt, duplicate, truncate) = (part("loss"), part("corrupt"), part("duplicate"), part("truncate"));
    let seed = section.integer(report, "seed").unwrap_or(1);
    if loss == 1_000_000 {
        report.warning(section.span.clone(), section.path, || {
            ("every frame is lost".to_string(), "give a loss below 1".to_string())
        });
    }
    Some(FaultsPlan { loss, corrupt, duplicate, truncate, seed })
}
