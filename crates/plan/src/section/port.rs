//! `[port.NAME]`: devices, interfaces, links.

pub(crate) mod cpu;
pub(crate) mod device;
pub(crate) mod dfq_wire;
pub(crate) mod faults;
pub(crate) mod interface;
pub(crate) mod link;
pub(crate) mod ra;
pub(crate) mod shares;
pub(crate) mod state;
pub(crate) mod tunnel;

use crate::address::optional_mac_text;
use crate::connected::{Connected, mac};
use crate::diagnostic::{Diagnostics, Report, more_than};
use crate::diff::{PropertyChange, Step, edit, file, or_none, steps};
use crate::document::{Node, Path, Section};
use crate::key::{FILE, Form, Key, Kind, MAC, NAME, PACKET_RATE, PART, PREFIX, key, required};
use crate::named::named;
use crate::names::{self, Name, PORT_PATTERN};
use crate::scheme::scheme;
use crate::section::policy::Policies;
use crate::share::CYCLE_SCHEME;
use crate::share_tree::ShareTree;
use crate::text::{did_you_mean, quote};
use crate::{Call, Catalogue};
use cpu::{Congestion, ESTIMATOR, PortCpu};
use device::{DevicePlan, Devices, ReplayPace};
use dfq_wire::{DFQ_WIRE, DfqWirePlan};
use faults::{FAULTS, FaultsPlan};
use interface::{InterfacePlan, MTU, REDIRECTS, VLAN, VRF_DOC, objective, reverse_path, trust};
use link::{LINK, LinkPlan};
use ra::ADVERTISES;
use serde::Serialize;
use shares::{SHARE_FILE, SHARES, SharesPlan};
use state::{PORT_STATE, PortStatePlan};
use tunnel::TUNNEL;
use units::{Mac, Nanos};

pub(crate) const KEY: Key = key(
    "port",
    Kind::Tables { name: crate::names::PORT_PATTERN, keys: KEYS },
    "",
    "{ lan = { device = \"packet:eth0\" } }",
    "The ports by name; at least one.",
);

const MOST_PORTS: usize = 256;
/// The default scheme of a link.
const DEFAULT_SCHEME: &str = "fifo";
/// The largest MTU whose packets fit a normal frame of the pool, with link header and VLAN tag.
const FRAME_MTU: u64 = 2030;

/// The longest IP packet by kind of port, and why. Other kinds carry all lengths for which the pool has frames.
const MOST_MTU: [(&str, u64, &str); 3] = [
    ("xdp", FRAME_MTU, "the kernel receives into the frames of the router"),
    ("memif", FRAME_MTU, "the buffers of the link are as long as the frames of the router"),
    ("tap", 65_521, "a tap device has no larger MTU"),
];

const KEYS: &[Key] = &[
    required("device", Kind::Text(Form::Device), "\"packet:eth0\"", "The device of the port: `KIND:TARGET`."),
    key(
        "address",
        Kind::Texts { form: PREFIX, most: interface::MOST_ADDRESSES },
        "[]",
        "[\"192.0.2.1/24\"]",
        "The router's own addresses on the untagged interface, each with its prefix length.",
    ),
    key("mac", Kind::Text(MAC), "", "\"02:00:00:00:00:01\"", "The MAC address. The default is that of the device."),
    key("vrf", Kind::Text(NAME), "\"main\"", "\"red\"", VRF_DOC),
    key(
        "mtu",
        MTU,
        "1500",
        "1500",
        "The MTU in bytes. At least 1280 if the port has an IPv6 address. The default of a tunnel is 1500 without its outer headers.",
    ),
    REDIRECTS,
    ADVERTISES,
    key(
        "scheme",
        Kind::Text(Form::Scheme),
        "\"fifo\"",
        "\"fifo(limit=1000)\"",
        "The queueing scheme of the link. The default is `priority` for ports by which a path with a reservation may \
         leave.",
    ),
    SHARES,
    SHARE_FILE,
    key(
        "scheme_change",
        Kind::Text(Form::Choice(SchemeChange::NAMES)),
        "\"migrate\"",
        "\"drain\"",
        "How queued packets are handled when the scheme changes. `migrate` moves them to the new scheme in arrival \
         order. `drain` lets the old scheme send them first. `flush` drops them. If only parameters of the scheme \
         change, its queues stay.",
    ),
    key(
        "policy",
        Kind::Text(NAME),
        "",
        "\"edge\"",
        "The policy that selects the scheme by the objectives of the port's packets. `scheme` is used for objectives \
         without a scheme in the policy.",
    ),
    reverse_path("\"off\""),
    trust("false"),
    objective("\"none\""),
    key(
        "share",
        Kind::Text(PART),
        "",
        "\"20%\"",
        "The processor share of the input task, with `input_share = \"explicit\"`.",
    ),
    key(
        "line_rate",
        Kind::Text(PACKET_RATE),
        "",
        "\"140kpps\"",
        "The line rate in packets a second. The default is that of 64-byte frames at the device's rate, if it has \
         one.",
    ),
    key(
        "congestion",
        Kind::Text(Form::Choice(Congestion::NAMES)),
        "\"drop\"",
        "\"throttle\"",
        "How packets are handled if the queue of their path is full. `drop` drops them after they have been \
         received. `throttle` stops receiving, so that the card drops packets of all paths at no cost.",
    ),
    key(
        "estimator",
        Kind::Switch(ESTIMATOR),
        "",
        "true",
        "Whether the input task sleeps until a batch has probably arrived, or always polls. The default is to sleep \
         if packets of a path with a reservation may enter by the port.",
    ),
    key(
        "capture",
        Kind::Text(FILE),
        "",
        "\"lan.pcapng\"",
        "A pcapng file to which all frames of the port are captured.",
    ),
    key(
        "offloads",
        Kind::Boolean,
        "true",
        "false",
        "`packet` and `tap` only: whether super-frames and partial checksums are exchanged with the kernel as they \
         are.",
    ),
    key(
        "state",
        Kind::Table(PORT_STATE),
        "",
        "{ at = \"output\" }",
        "Ephemeral state at the port. Requires `[state]`.",
    ),
    key(
        "faults",
        Kind::Table(FAULTS),
        "",
        "{ loss = 0.01, seed = 1 }",
        "Fault injection on the frames of the port, for tests.",
    ),
    key(
        "link",
        Kind::Table(LINK),
        "",
        "{ rate = \"15mbit\", delay = \"75ms\" }",
        "The link that the port emulates for departing packets. The queueing scheme is asked for a packet when this \
         link can send one. Without the table no link is emulated.",
    ),
    key(
        "dfq_wire",
        Kind::Switch(DFQ_WIRE),
        "false",
        "true",
        "Packets to a Switchpath at the other end, whose port has this key too, travel as quanta of their shares, \
         several in a frame. Beside other neighbours the key has no effect. Requires the scheme `dfq` or `share`.",
    ),
    key(
        "tunnel",
        Kind::Table(TUNNEL),
        "",
        "{ local = \"192.0.2.1\" }",
        "`gre`, `ipip` and `vxlan` only: the outer header of the packets.",
    ),
    key("write", Kind::Text(FILE), "", "\"out.pcapng\"", "`pcap` only: the pcapng file for transmitted frames."),
    key(
        "pace",
        Kind::Text(Form::Pattern("^(recorded|fast|[0-9.]+ *[kmKM]?[pP][pP][sS]|[0-9.]+ *[kmgtKMGT]?[bB][iI][tT])$")),
        "\"recorded\"",
        "\"10mbit\"",
        "`pcap` only: how fast frames are read: `recorded`, `fast`, a rate like `10mbit`, or packets a second like `100kpps`.",
    ),
    key(
        "checksums",
        Kind::Text(Form::Pattern("^(complete|trust)$")),
        "",
        "\"complete\"",
        "`xdp` only: whether partial TCP and UDP checksums, which a sender on this machine left to a network card, \
         are completed (`complete`), or all checksums are left as they are (`trust`). The default is `complete` for \
         virtual interfaces.",
    ),
    key(
        "vlan",
        Kind::Tables { name: "[1-9][0-9]{0,3}", keys: VLAN },
        "",
        "{ 20 = { address = [\"198.51.100.1/24\"] } }",
        "The 802.1Q VLANs of the port by id, 1 to 4094; each is an interface `PORT.ID`.",
    ),
];

/// A port: a device that packets arrive from and leave by.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PortPlan {
    /// Its name.
    pub name: Name,
    /// Its device.
    pub device: DevicePlan,
    /// Its MAC address; `None`: the device has one or generates it.
    #[serde(serialize_with = "optional_mac_text")]
    pub mac: Option<Mac>,
    /// Its interfaces: the untagged one first (it may have no address), then its VLANs by id.
    pub interfaces: Vec<InterfacePlan>,
    /// The queueing scheme of its link.
    pub scheme: Call,
    /// The shares of its link, for the schemes `share` and `dfq`.
    #[serde(skip_serializing_if = "SharesPlan::is_empty")]
    pub shares: SharesPlan,
    /// The treatment of queued packets when the scheme changes.
    pub scheme_change: SchemeChange,
    /// The policy that may change its scheme.
    pub policy: Option<Name>,
    /// The capture file for all of its frames.
    pub capture: Option<String>,
    /// Fault injection on its frames.
    pub faults: Option<FaultsPlan>,
    /// Its ephemeral-state settings.
    #[serde(skip_serializing_if = "PortStatePlan::is_default")]
    pub state: PortStatePlan,
    /// The link that it emulates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkPlan>,
    /// Its wire that multiplexes quanta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dfq_wire: Option<DfqWirePlan>,
    /// Its processor settings.
    pub cpu: PortCpu,
}

impl PortPlan {
    /// The tree of the port's shares: those of the configuration, then those of its file, given as text and name. Errors are those of the file.
    pub fn share_tree(&self, file: Option<(&str, &str)>) -> Result<ShareTree, Diagnostics> {
        self.shares.tree(&self.scheme, file)
    }

    /// Its MAC address: the configured one, that of the device, or one that follows from its name.
    pub fn mac_address(&self, device: Option<Mac>) -> Mac {
        self.mac.or(device).unwrap_or_else(|| {
            // FNV-1a over the name; locally administered, unicast (IEEE 802 8.4).
            let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            let hash = self.name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
            Mac::from_number((hash & 0xffff_ffff) | 0x0253_0000_0000)
        })
    }

    /// The cycle of its scheme; zero if it has none.
    pub fn cycle(&self) -> Nanos {
        let cycle = if self.scheme.name == CYCLE_SCHEME { self.scheme.option("cycle") } else { None };
        Nanos::new(cycle.unwrap_or(0))
    }
}

/// The treatment of packets queued at a scheme that is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SchemeChange {
    /// They move to the new scheme in their arrival order.
    #[default]
    Migrate,
    /// The old scheme serves all of them before any later packet.
    Drain,
    /// They are dropped.
    Flush,
}

named! { SchemeChange { Migrate "migrate", Drain "drain", Flush "flush" } }

/// Properties of the router that affect all ports.
pub(crate) struct PortContext<'c> {
    pub catalogue: &'c Catalogue,
    /// True if the pool has frames for packets longer than [`FRAME_MTU`].
    pub jumbo: bool,
    /// The number of workers.
    pub workers: u16,
    /// Packets that an input task processes at once.
    pub batch: Option<u16>,
    pub policies: &'c Policies,
    /// The name of the configuration file.
    pub file_name: &'c str,
}

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>, by: &PortContext<'_>) -> (Vec<PortPlan>, Connected) {
    let (mut connected, mut devices) = (Connected::default(), Devices::default());
    connected.incomplete = report.has_syntax_errors();
    let before = report.error_count();
    let mut tables = root.tables(report, "port");
    if tables.is_empty() && report.error_count() == before {
        let span = root.node("port").map_or(0..0, |node| node.span);
        report.missing(span, "port", || {
            ("there is no port".to_string(), "add [port.lan] with device = \"packet:eth0\"".to_string())
        });
    }
    connected.incomplete |= tables.is_empty();
    if let Some((span, _, _)) = tables.get(MOST_PORTS) {
        report.error(span.clone(), "port", || more_than(MOST_PORTS, "ports"));
        connected.incomplete = true;
        tables.truncate(MOST_PORTS);
    }
    // In the order of the file, so that of two conflicting ports the later is reported.
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
        match node.section(report, KEYS, &format!("[port.{name}]")) {
            Some(section) => plans.push(port(report, &section, Name::from(name), by, (&mut connected, &mut devices))),
            None => connected.incomplete = true,
        }
    }
    connected.index_subnets(report);
    devices.check_read_files(report);
    plans.sort_by(|a, b| a.name.cmp(&b.name));
    (plans, connected)
}

fn port(
    report: &mut Report<'_>,
    section: &Section<'_>,
    name: Name,
    by: &PortContext<'_>,
    (connected, devices): (&mut Connected, &mut Devices),
) -> PortPlan {
    let device = devices.check(report, section, &name, (&by.catalogue.devices, &mut connected.tunnels));
    let own_mtu = section.integer(report, "mtu").unwrap_or(1500);
    let mtu = match &device.tunnel {
        Some(tunnel) if section.node("mtu").is_none() => tunnel.default_mtu().into(),
        _ => own_mtu,
    };
    if mtu > FRAME_MTU && !by.jumbo {
        report.error(section.place("mtu"), Path::Key(&section.path, "mtu"), || {
            let reason = format!("packets of {mtu} bytes need super-frames, but super_frames is 0");
            (reason, format!("set super_frames in [router], or an mtu of at most {FRAME_MTU}"))
        });
    }
    if let Some((_, most, why)) = MOST_MTU.iter().find(|(kind, most, _)| *kind == device.kind && mtu > *most) {
        report.error(section.place("mtu"), Path::Key(&section.path, "mtu"), || {
            let reason = format!("{} ports carry packets of at most {most} bytes, not {mtu}: {why}", device.kind);
            let other = if device.kind == "xdp" { ", or device = \"packet:...\"" } else { "" };
            (reason, format!("write mtu = {most} or less{other}"))
        });
    }
    let interfaces = interface::check(report, section, connected, &name, mtu);
    let mut cpu = cpu::check(report, section, by.batch);
    // A file that is read as fast as possible should lose nothing: it waits for room, unless the user asks for drops.
    if device.pace == ReplayPace::Fast && section.node("congestion").is_none() {
        cpu.congestion = Congestion::Throttle;
    }
    let scheme = own_scheme(report, section, by.catalogue);
    if device.tunnel.is_some() {
        tunnel::check_port(report, section, &scheme);
    }
    PortPlan {
        mac: section.text(report, "mac").and_then(|text| mac(report, &text)),
        interfaces,
        shares: shares::check(report, section, &scheme, by.file_name),
        dfq_wire: dfq_wire::check(report, section, &scheme),
        scheme,
        policy: policy(report, section, by.policies),
        scheme_change: section.choice(report, "scheme_change", SchemeChange::ALL).unwrap_or_default(),
        capture: devices.file(report, section, "capture"),
        faults: faults::check(report, section),
        state: state::check(report, section),
        link: link::check(report, section, by.workers),
        cpu,
        device,
        name,
    }
}

fn own_scheme(report: &mut Report<'_>, section: &Section<'_>, catalogue: &Catalogue) -> Call {
    let Some(text) = section.text(report, "scheme") else {
        return Call::scheme(DEFAULT_SCHEME, catalogue).unwrap_or_else(|error| {
            report
                .error(section.span.clone(), section.path, || (error.reason, format!("name a scheme: {}", error.hint)));
            Call::placeholder()
        });
    };
    scheme(report, &text, catalogue).unwrap_or_else(Call::placeholder)
}

/// The name of its policy. `None` if it is missing or was reported.
fn policy(report: &mut Report<'_>, section: &Section<'_>, policies: &Policies) -> Option<Name> {
    let text = section.text(report, "policy")?;
    let names = policies.names.iter().map(|(name, _)| name);
    let found = names.clone().find(|name| ***name == *text.value);
    if found.is_none() {
        text.error(report, || {
            let hint = match policies.names.is_empty() {
                true => format!("add [policy.{}]", text.value),
                false => did_you_mean(text.value, names.map(|name| &**name)),
            };
            (format!("no policy is called {}", quote(text.value)), hint)
        });
    }
    found.cloned()
}

pub(crate) fn diff<'p>(old: &'p [PortPlan], new: &'p [PortPlan]) -> Vec<Step<'p, PortPlan>> {
    steps(old, new, |port| &port.name)
}

/// The edits between two ports, without those of their interfaces.
pub(crate) fn edits(old: &PortPlan, new: &PortPlan) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    device::edits(&old.device, &new.device, &mut what);
    edit(&mut what, "mac", or_none(&old.mac), or_none(&new.mac));
    edit(&mut what, "scheme", old.scheme.brief(), new.scheme.brief());
    if old.scheme.text == new.scheme.text {
        // The guest may have been rebuilt.
        edit(&mut what, "build", old.scheme.guest_digest(), new.scheme.guest_digest());
    }
    shares::edits(&old.shares, &new.shares, &mut what);
    edit(&mut what, "scheme_change", old.scheme_change, new.scheme_change);
    edit(&mut what, "policy", or_none(&old.policy), or_none(&new.policy));
    edit(&mut what, "share", or_none(&old.cpu.share), or_none(&new.cpu.share));
    edit(&mut what, "line_rate", or_none(&old.cpu.line_rate), or_none(&new.cpu.line_rate));
    edit(&mut what, "congestion", old.cpu.congestion, new.cpu.congestion);
    edit(&mut what, "estimator", old.cpu.estimator_text(), new.cpu.estimator_text());
    edit(&mut what, "capture", file(&old.capture), file(&new.capture));
    edit(&mut what, "faults", or_none(&old.faults), or_none(&new.faults));
    edit(&mut what, "state", &old.state, &new.state);
    edit(&mut what, "link", or_none(&old.link), or_none(&new.link));
    edit(&mut what, "dfq_wire", or_none(&old.dfq_wire), or_none(&new.dfq_wire));
    what
}

/// `device packet:eth0 scheme fifo, lan address 192.0.2.1/24 mtu 1500`.
pub(crate) fn summary(port: &PortPlan) -> String {
    let policy = port.policy.as_ref().map_or_else(String::new, |policy| format!(" policy {policy}"));
    let interfaces = port.interfaces.iter().map(|i| format!(", {} {}", i.name, interface::summary(i)));
    format!("device {} scheme {}{policy}{}", port.device, port.scheme.brief(), interfaces.collect::<String>())
}
