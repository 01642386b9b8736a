//! Every key of the configuration, declared once: the reader, the JSON schema and the reference page follow from it.

#[path = "keys/advertise.rs"]
mod advertise;
#[path = "keys/cpu.rs"]
mod cpu;
#[path = "section/port/faults.rs"]
mod faults;
#[path = "section/port/link.rs"]
mod link;
#[path = "keys/multicast.rs"]
mod multicast;
#[path = "keys/nat.rs"]
mod nat;
#[path = "keys/passthrough.rs"]
mod passthrough;
#[path = "keys/path.rs"]
mod path;
#[path = "keys/policy.rs"]
mod policy;
#[path = "keys/route.rs"]
mod route;
#[path = "keys/router.rs"]
mod router;
#[path = "keys/state.rs"]
mod state;

pub(crate) use advertise::{RA, RA_PREFIX};
pub(crate) use cpu::{CPU, ESTIMATOR, TUNE};
pub(crate) use faults::FAULTS;
pub(crate) use link::LINK;
pub(crate) use multicast::{MOST_COPIES, MOST_GROUPS, MULTICAST};
pub(crate) use nat::NAT;
pub(crate) use passthrough::{MOST_PAIRS, PASSTHROUGH};
pub(crate) use path::PATH;
pub(crate) use policy::{MOST_POLICIES, OBJECTIVES, POLICY};
pub(crate) use route::{NEIGHBOUR, ROUTE};
pub(crate) use router::ROUTER;
pub(crate) use state::{INSTRUCTION, PORT_STATE, STATE};

use crate::cpu::Congestion;
use crate::model::SchemeChange;
use crate::reverse_path::ReversePath;

/// A key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    /// As written in the file; empty where there is none.
    pub default: &'static str,
    /// A value as written in the file.
    pub example: &'static str,
    /// One sentence for the operator.
    pub doc: &'static str,
}

/// What belongs behind a key.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A whole number.
    Integer {
        least: u64,
        most: u64,
    },
    Boolean,
    /// A number from 0 to 1.
    Probability,
    /// A string.
    Text(Form),
    /// A list of strings.
    Texts(Form),
    /// A string, or a list of them.
    OneOrMore(Form),
    /// A table.
    Table(&'static [Key]),
    /// Tables by name.
    Tables {
        name: &'static str,
        keys: &'static [Key],
    },
    /// A list of tables.
    List(&'static [Key]),
    /// True for a table of defaults, false for none, or the table.
    Switch(&'static [Key]),
    /// A list of so many whole numbers, of which none is higher than `highest`; empty where left out.
    Counts {
        least: usize,
        most: usize,
        highest: u64,
    },
}

/// What a string says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    RouterName,
    File,
    Device,
    Scheme,
    Function,
    Pace,
    Checksums,
    Mac,
    Address,
    /// An address with a length.
    InterfaceAddress,
    /// A destination: no bits behind the length.
    Destination,
    /// The same, or `default`.
    RouteDestination,
    Interface,
    Vrf,
    NextHop,
    PathName,
    Match,
    /// A time in whole seconds.
    Seconds,
    Time,
    Cores,
    Preference,
    Domain,
    /// One of these.
    Choice(&'static [&'static str]),
    CodePoint,
    Policy,
    Batching,
    /// A part of a whole.
    Part,
    PacketRate,
    /// Packets or bits a second.
    Reserve,
    Size,
    /// A time, or `none`.
    Wait,
    Cost,
    /// How an estimator's sleep changes.
    Law,
    FilterRule,
    DispatchRule,
    /// Two ports.
    PortRange,
    /// A port that leads inside.
    Forward,
    /// Bits a second.
    Rate,
    /// What an opportunity of a trace carries.
    TraceMode,
    /// Which packets a link loses.
    Loss,
    /// Bytes more or fewer.
    Overhead,
}

/// The version of the format that is read.
pub(crate) const VERSION: u64 = 1;
/// The largest file, in bytes.
pub(crate) const MOST_BYTES: usize = 64 << 20;
pub(crate) const MOST_PORTS: usize = 256;
pub(crate) const MOST_INTERFACES: usize = 4096;
/// Addresses of one interface.
pub(crate) const MOST_ADDRESSES: usize = 64;
pub(crate) const MOST_PATHS: usize = 250;
pub(crate) const MOST_FUNCTIONS: usize = 16;
pub(crate) const MOST_ROUTES: usize = 1_000_000;
pub(crate) const MOST_NEIGHBOURS: usize = 65_536;
/// Prefixes that an interface advertises, DNS servers, and bytes of domains: what fits in 1280 bytes beside the rest.
pub(crate) const MOST_PREFIXES: usize = 16;
pub(crate) const MOST_SERVERS: usize = 8;
pub(crate) const MOST_DOMAIN_BYTES: usize = 256;
/// VRFs besides the main one.
pub(crate) const MOST_VRFS: usize = 256;
/// Next hops of one route.
pub(crate) const MOST_NEXT_HOPS: usize = 64;
/// What the weights of the next hops of one route may add up to.
pub(crate) const MOST_WEIGHT: usize = 512;
/// The least MTU that IPv6 asks of a link (RFC 8200, section 5).
pub(crate) const IPV6_MTU: u64 = 1280;

const VRF_DOC: &str = "The VRF: packets that come in here are routed by its routes alone.";

const fn key(name: &'static str, kind: Kind, default: &'static str, example: &'static str, doc: &'static str) -> Key {
    Key { name, kind, required: false, default, example, doc }
}

const fn required(name: &'static str, kind: Kind, example: &'static str, doc: &'static str) -> Key {
    Key { name, kind, required: true, default: "", example, doc }
}

/// What ports and VLANs say alike.
const REDIRECTS: Key = key(
    "redirects",
    Kind::Boolean,
    "false",
    "true",
    "Whether senders on the link are told of a better first hop there (ICMP redirects). What leaves by the interface \
     it came by takes the slower general path then.",
);
/// What ports say, and VLANs where they say otherwise; `default` is that of a key where the port does not say it.
const fn reverse_path(default: &'static str) -> Key {
    key(
        "reverse_path",
        Kind::Text(Form::Choice(ReversePath::NAMES)),
        default,
        "\"strict\"",
        "Checks the source of each received packet against the routes (RFC 3704): `strict` wants the route to it to leave \
         by this interface, `loose` wants any route to it, the default route included; what fails is dropped for \
         `reverse_path`. `strict` is for interfaces whose hosts send and receive by them alone. In a VLAN by default as the \
         port says.",
    )
}
const ADVERTISES: Key = key(
    "ra",
    Kind::Table(RA),
    "",
    "{ lifetime = \"1800s\" }",
    "Router advertisements, by which IPv6 hosts configure themselves; without the table there are none.",
);

/// The least MTU is IPv4's (RFC 791), the most as well: what its length field can say.
const MTU: Kind = Kind::Integer { least: 68, most: 65_535 };
/// The largest MTU of which a frame of the pool that is no super-frame holds a packet, with link header and tag.
pub(crate) const FRAME_MTU: u64 = 2030;

pub(crate) const ROOT: &[Key] = &[
    required("version", Kind::Integer { least: VERSION, most: VERSION }, "1", "The version of this format."),
    key("router", Kind::Table(ROUTER), "", "{ workers = 1 }", "The router as a whole."),
    key("cpu", Kind::Table(CPU), "", "{ layout = 3 }", "How each worker divides its processor."),
    key(
        "port",
        Kind::Tables { name: crate::names::PORT_PATTERN, keys: PORT },
        "",
        "{ lan = { device = \"packet:eth0\" } }",
        "The ports by name; at least one.",
    ),
    key("route", Kind::List(ROUTE), "", "[{ to = \"10.0.0.0/8\", blackhole = true }]", "Static routes."),
    key(
        "neighbour",
        Kind::List(NEIGHBOUR),
        "",
        "[{ address = \"192.0.2.9\", mac = \"02:00:00:00:00:09\", port = \"lan\" }]",
        "Static neighbours.",
    ),
    multicast::LIST,
    passthrough::LIST,
    key(
        "path",
        Kind::List(PATH),
        "",
        "[{ name = \"voice\", match = \"ip dscp ef\" }]",
        "Switching paths, first match wins.",
    ),
    key(
        "objectives",
        Kind::Table(OBJECTIVES),
        "",
        "{ delay = [\"ef\"] }",
        "What code points ask for where they are trusted.",
    ),
    key(
        "policy",
        Kind::Tables { name: crate::names::PORT_PATTERN, keys: POLICY },
        "",
        "{ edge = { delay = \"drr{codel}\" } }",
        "Which schemes serve what is asked for, by name.",
    ),
    key(
        "nat",
        Kind::Table(NAT),
        "",
        "{ outside = \"wan\" }",
        "Address and port translation, for paths with the function `nat`.",
    ),
    key(
        "state",
        Kind::Table(STATE),
        "",
        "{ lifetime = \"10s\" }",
        "Ephemeral state: what packets may leave in the router for a while; without the table they may not.",
    ),
];

/// Rules of one packet filter.
pub(crate) const MOST_RULES: usize = 1024;
/// Interfaces that lead outside, and ports that lead inside.
pub(crate) const MOST_OUTSIDE: usize = 8;
pub(crate) const MOST_FORWARDS: usize = 256;

pub(crate) const PORT: &[Key] = &[
    required("device", Kind::Text(Form::Device), "\"packet:eth0\"", "What is behind the port: `KIND:TARGET`."),
    key(
        "address",
        Kind::Texts(Form::InterfaceAddress),
        "[]",
        "[\"192.0.2.1/24\"]",
        "The router's own addresses on the untagged interface, each with the length of its subnet.",
    ),
    key("mac", Kind::Text(Form::Mac), "", "\"02:00:00:00:00:01\"", "The MAC address; without it, the device's own."),
    key("vrf", Kind::Text(Form::Vrf), "\"main\"", "\"red\"", VRF_DOC),
    key("mtu", MTU, "1500", "1500", "The largest IP packet in bytes; at least 1280 with an IPv6 address."),
    REDIRECTS,
    ADVERTISES,
    key(
        "scheme",
        Kind::Text(Form::Scheme),
        "\"fifo\"",
        "\"fifo(limit=1000)\"",
        "The queueing scheme of the link; `priority` unless said where a reservation may leave by it.",
    ),
    key(
        "scheme_change",
        Kind::Text(Form::Choice(SchemeChange::NAMES)),
        "\"migrate\"",
        "\"drain\"",
        "What becomes of the packets that wait when another scheme takes the place of theirs: `migrate` hands them to the new \
         one in the order in which they came, `drain` lets the old one send them first, `flush` drops them. A scheme of the \
         same kind with other parameters takes nobody's place: it goes on with those.",
    ),
    key(
        "policy",
        Kind::Text(Form::Policy),
        "",
        "\"edge\"",
        "The policy that gives the port another scheme where what its packets want asks for one; `scheme` serves what no line of \
         it does.",
    ),
    reverse_path("\"off\""),
    policy::trust("false"),
    policy::objective("\"none\""),
    key(
        "share",
        Kind::Text(Form::Part),
        "",
        "\"20%\"",
        "The input task's part of the processor; with `input_share = \"explicit\"`.",
    ),
    key(
        "line_rate",
        Kind::Text(Form::PacketRate),
        "",
        "\"140kpps\"",
        "Packets a second that the line may bring; by default 64-byte frames at the device's rate, where it has one.",
    ),
    key(
        "congestion",
        Kind::Text(Form::Choice(Congestion::NAMES)),
        "\"drop\"",
        "\"throttle\"",
        "What becomes of packets whose path is full: `drop` drops them, `throttle` stops receiving, so that the line loses \
         them at no cost, and with them those of every other path.",
    ),
    key(
        "estimator",
        Kind::Switch(ESTIMATOR),
        "",
        "true",
        "Whether the input task sleeps until a batch is likely to have come, or is always ready. By default it does where \
         a path with a reservation may come in by the port.",
    ),
    key(
        "capture",
        Kind::Text(Form::File),
        "",
        "\"lan.pcapng\"",
        "A pcapng file that every frame of the port is written to.",
    ),
    key(
        "offloads",
        Kind::Boolean,
        "true",
        "false",
        "`packet` and `tap` only: whether super-frames and partial checksums are taken and handed over as they are.",
    ),
    key(
        "state",
        Kind::Table(PORT_STATE),
        "",
        "{ at = \"output\" }",
        "What the port does with ephemeral state, where there is `[state]`.",
    ),
    key(
        "faults",
        Kind::Table(FAULTS),
        "",
        "{ loss = 0.01, seed = 1 }",
        "Faults put upon the frames of the port, for tests.",
    ),
    key(
        "link",
        Kind::Table(LINK),
        "",
        "{ rate = \"15mbit\", delay = \"75ms\" }",
        "A link that what leaves by the port crosses first, as if it were there: its queueing scheme is asked when that would take a \
         packet. Without the table there is none.",
    ),
    key(
        "write",
        Kind::Text(Form::File),
        "",
        "\"out.pcapng\"",
        "`pcap` only: the pcapng file that transmitted frames go to.",
    ),
    key(
        "pace",
        Kind::Text(Form::Pace),
        "\"recorded\"",
        "\"10mbit\"",
        "`pcap` only: how fast frames are read: `recorded`, `fast`, a rate like `10mbit`, or packets a second like `100kpps`.",
    ),
    key(
        "checksums",
        Kind::Text(Form::Checksums),
        "",
        "\"complete\"",
        "`xdp` only: whether TCP and UDP checksums that a sender on this machine left to a network card are filled in \
         (`complete`), or all are taken as they come (`trust`). By default the former for interfaces that are no hardware.",
    ),
    key(
        "vlan",
        Kind::Tables { name: "[1-9][0-9]{0,3}", keys: VLAN },
        "",
        "{ 20 = { address = [\"198.51.100.1/24\"] } }",
        "The 802.1Q VLANs of the port by id, 1 to 4094; each is an interface `PORT.ID`.",
    ),
];

pub(crate) const VLAN: &[Key] = &[
    key(
        "address",
        Kind::Texts(Form::InterfaceAddress),
        "[]",
        "[\"198.51.100.1/24\"]",
        "The router's own addresses in the VLAN, each with the length of its subnet.",
    ),
    key("vrf", Kind::Text(Form::Vrf), "", "\"red\"", "The VRF; by default the port's."),
    key("mtu", MTU, "", "1500", "The largest IP packet in bytes; by default, and at most, the port's."),
    REDIRECTS,
    reverse_path(""),
    policy::trust(""),
    policy::objective(""),
    ADVERTISES,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What a key takes, for the reference page.
    fn takes(kind: &Kind) -> String {
        match kind {
            Kind::Integer { least, most } if least == most => format!("{least}"),
            Kind::Integer { least: 0, most } if *most == i64::MAX as u64 => "whole number".to_string(),
            Kind::Integer { least, most } => format!("{least} to {most}"),
            Kind::Boolean => "true, false".to_string(),
            Kind::Probability => "0 to 1".to_string(),
            Kind::Text(_) => "string".to_string(),
            Kind::Texts(_) => "list of strings".to_string(),
            Kind::OneOrMore(_) => "string, or list of strings".to_string(),
            Kind::Table(_) => "table".to_string(),
            Kind::Tables { .. } => "tables by name".to_string(),
            Kind::List(_) => "list of tables".to_string(),
            Kind::Switch(_) => "true, false, or table".to_string(),
            Kind::Counts { least, most, .. } => format!("list of {least} to {most} numbers"),
        }
    }

    fn row(key: &Key) -> String {
        let default = match (key.required, key.default) {
            (true, _) => "required".to_string(),
            (false, "") => "none".to_string(),
            (false, default) => format!("`{default}`"),
        };
        format!("| `{}` | {} | {default} | `{}` | {} |\n", key.name, takes(&key.kind), key.example, key.doc)
    }

    fn table(keys: &[Key]) -> String {
        let rows: String = keys.iter().map(row).collect();
        format!("\n| key | takes | default | example | what it does |\n|---|---|---|---|---|\n{rows}\n")
    }

    /// The tables of `docs/configuration.md` between their marks are made from the declarations; `UPDATE_EXPECT=1`
    /// writes them.
    #[test]
    fn the_reference_page_has_every_key() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let mut text = std::fs::read_to_string(page).unwrap();
        let sections =
            [("router", ROUTER), ("port", PORT), ("vlan", VLAN), ("faults", FAULTS), ("link", LINK), ("route", ROUTE)];
        let others = [("neighbour", NEIGHBOUR), ("path", PATH), ("ra", RA), ("ra prefix", RA_PREFIX)];
        let cpu = [("cpu", CPU), ("tune", TUNE), ("estimator", ESTIMATOR), ("nat", NAT)];
        let wanted = [("objectives", OBJECTIVES), ("policy", POLICY), ("state", STATE), ("port state", PORT_STATE)];
        let several = [("multicast", MULTICAST), ("passthrough", PASSTHROUGH)];
        for (name, keys) in sections.into_iter().chain(others).chain(cpu).chain(wanted).chain(several) {
            let (from, to) = (format!("<!-- keys: {name} -->\n"), "<!-- end -->");
            let start = text.find(&from).unwrap_or_else(|| panic!("the page has no mark for '{name}'")) + from.len();
            let end = start + text[start..].find(to).expect("the mark is closed");
            text.replace_range(start..end, &table(keys));
        }
        expect_test::expect_file![page].assert_eq(&text);
    }

    #[test]
    fn defaults_are_within_their_ranges() {
        let others = [RA, RA_PREFIX, CPU, TUNE, ESTIMATOR, NAT, OBJECTIVES, POLICY, LINK, STATE, PORT_STATE];
        for key in [ROOT, ROUTER, PORT, VLAN, FAULTS, ROUTE, NEIGHBOUR, PATH].into_iter().chain(others).flatten() {
            if let (Kind::Integer { least, most }, false) = (&key.kind, key.default.is_empty()) {
                assert!((*least..=*most).contains(&key.default.parse().unwrap()), "{}", key.name);
            }
        }
    }
}
