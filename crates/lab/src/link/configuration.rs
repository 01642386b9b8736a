//! The configuration of the router between a command and its far end.

use anyhow::{Result, ensure};
use cli::arguments::LinkArguments;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Mac, Rate};

/// How deep links may be nested.
const DEEPEST: u8 = 8;
/// Environment variables that report the nesting level and the far end's addresses to commands inside.
const LEVEL: &str = "SWITCHPATH_LEVEL";
const FAR: &str = "SWITCHPATH_FAR";
const FAR_V6: &str = "SWITCHPATH_FAR6";
/// The prefix lengths of an interface, and of all addresses of a link, of both families.
const PREFIXES: [u8; 2] = [24, 64];
const OWN: [u8; 2] = [16, 56];

/// One of the two directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkDirection {
    /// To the command.
    Down,
    /// From the command.
    Up,
}

impl LinkDirection {
    /// Both directions.
    pub const BOTH: [LinkDirection; 2] = [LinkDirection::Down, LinkDirection::Up];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            LinkDirection::Down => "down",
            LinkDirection::Up => "up",
        }
    }

    /// The port that emulates the link.
    pub fn port(self) -> &'static str {
        match self {
            LinkDirection::Down => "inside",
            LinkDirection::Up => "far",
        }
    }

    /// The opposite direction.
    pub fn other(self) -> LinkDirection {
        match self {
            LinkDirection::Down => LinkDirection::Up,
            LinkDirection::Up => LinkDirection::Down,
        }
    }

    /// Its link's description; `None` for a link without limit.
    pub fn of(self, options: &LinkArguments) -> Option<&str> {
        match self {
            LinkDirection::Down => options.down.as_deref(),
            LinkDirection::Up => options.up.as_deref(),
        }
    }

    /// The queueing scheme before the link.
    pub fn scheme_of(self, options: &LinkArguments) -> &str {
        let own = options.up_scheme.as_deref().filter(|_| self == LinkDirection::Up);
        own.unwrap_or(&options.scheme)
    }
}

/// An address of each family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DualAddress {
    /// Of IPv4.
    pub v4: Ipv4Addr,
    /// Of IPv6.
    pub v6: Ipv6Addr,
}

impl DualAddress {
    /// Both, IPv4 first.
    pub fn each(self) -> [IpAddr; 2] {
        [self.v4.into(), self.v6.into()]
    }

    /// Both, each with the length of its interface's prefix.
    pub fn on_link(self) -> impl Iterator<Item = (IpAddr, u8)> {
        self.each().into_iter().zip(PREFIXES)
    }
}

/// The nesting level of a link and its addresses. They belong to no one else: they are from the range of carrier-grade NAT (RFC 6598) and from a
/// randomly chosen unique local prefix (RFC 4193).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NestingLevel {
    depth: u8,
    /// True if the far end is the network in which the command was started.
    pub outside: bool,
    /// The addresses of the far end: those of the outermost link.
    pub far: DualAddress,
}

impl NestingLevel {
    /// The level of this process.
    pub fn current(options: &LinkArguments) -> Result<NestingLevel> {
        let depth: u8 = environment_value(LEVEL).map_or(0, |level: u8| level + 1);
        ensure!(depth < DEEPEST, "{DEEPEST} links are nested already; use fewer");
        let outside = options.outside || depth > 0 && options.far.is_none();
        let own = DualAddress { v4: address(depth, 1, 2), v6: address_v6(depth, 1, 2) };
        let beyond = outside && depth > 0;
        let far = match beyond {
            true => DualAddress {
                v4: environment_value(FAR).unwrap_or(own.v4),
                v6: environment_value(FAR_V6).unwrap_or(own.v6),
            },
            false => own,
        };
        Ok(NestingLevel { depth, outside, far })
    }

    /// The level of a link that is not nested.
    pub fn outermost() -> NestingLevel {
        NestingLevel { depth: 0, outside: false, far: DualAddress { v4: address(0, 1, 2), v6: address_v6(0, 1, 2) } }
    }

    /// True if it is nested in another link.
    pub fn is_inside(&self) -> bool {
        self.depth > 0
    }

    /// The environment variables for commands inside.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        [(LEVEL, self.depth.to_string()), (FAR, self.far.v4.to_string()), (FAR_V6, self.far.v6.to_string())]
    }

    fn both(&self, net: u8, host: u8) -> DualAddress {
        DualAddress { v4: address(self.depth, net, host), v6: address_v6(self.depth, net, host) }
    }

    /// The command's addresses.
    pub fn inside_host(&self) -> DualAddress {
        self.both(0, 2)
    }

    /// The router's addresses on the command's side.
    pub fn inside_router(&self) -> DualAddress {
        self.both(0, 1)
    }

    /// The addresses at the far end.
    pub fn far_host(&self) -> DualAddress {
        self.both(1, 2)
    }

    /// The router's addresses on the far side.
    pub fn far_router(&self) -> DualAddress {
        self.both(1, 1)
    }

    /// The networks of links nested in this one, of each family, with their prefix lengths.
    pub fn deeper(&self) -> impl Iterator<Item = [(IpAddr, u8); 2]> {
        (self.depth + 1..DEEPEST).map(network)
    }

    /// This link's own networks.
    pub fn networks(&self) -> [(IpAddr, u8); 2] {
        network(self.depth)
    }

    /// The MAC addresses of the command's host and of the far end. They are configured statically, so no ARP or ND crosses the link.
    pub fn macs(&self) -> [Mac; 2] {
        [2, 3].map(|last| Mac([0x02, 0x53, 0x50, 0, self.depth, last]))
    }

    /// The router's MAC addresses towards each of them.
    pub fn router_macs(&self) -> [Mac; 2] {
        [18, 19].map(|last| Mac([0x02, 0x53, 0x50, 0, self.depth, last]))
    }
}

/// The value of an environment variable.
fn environment_value<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn address(depth: u8, net: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(100, 64 + depth, net, host)
}

fn address_v6(depth: u8, net: u8, host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd6b, 0x9c3e, 0x417a, u16::from_be_bytes([depth, net]), 0, 0, 0, u16::from(host))
}

fn network(depth: u8) -> [(IpAddr, u8); 2] {
    [(address(depth, 0, 0).into(), OWN[0]), (address_v6(depth, 0, 0).into(), OWN[1])]
}

/// A text quoted for TOML, with the rules of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The keys of a link.
fn keys(options: &LinkArguments, of: Option<&str>, seed: u64) -> String {
    let mut keys = format!("{{ hold = {}, seed = {seed}", options.packets);
    let mut add = |key: &str, value: &str| _ = write!(keys, ", {key} = {}", quoted(value));
    match of {
        // A rate with a trace follows the trace's mode.
        Some(of) if of.parse::<Rate>().is_err() => {
            add("trace", of);
            add("mode", &options.mode);
            add("end", &options.end);
        }
        rate => {
            rate.into_iter().for_each(|rate| add("rate", rate));
            add("overhead", "-14b");
        }
    }
    add("delay", &options.delay);
    let given = [
        ("jitter", &options.jitter),
        ("loss", &options.loss),
        ("duplicate", &options.duplicate),
        ("reorder", &options.reorder),
    ];
    given.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).for_each(|(key, value)| add(key, value));
    keys + " }"
}

/// The whole configuration.
pub fn text(options: &LinkArguments, level: &NestingLevel) -> String {
    let seed = u64::from(options.seed) * 2;
    let [down, up] = [(LinkDirection::Down, seed), (LinkDirection::Up, seed + 1)]
        .map(|(side, seed)| keys(options, side.of(options), seed));
    let [scheme, up_scheme] = LinkDirection::BOTH.map(|side| side.scheme_of(options));
    let [inside_mac, far_mac] = level.macs();
    let addresses = |of: DualAddress| {
        let [v4, v6] = [0, 1].map(|family| format!("\"{}/{}\"", of.each()[family], PREFIXES[family]));
        format!("[{v4}, {v6}]")
    };
    let mut text = format!(
        "version = 1\n[router]\nname = \"link\"\nworkers = 1\nframes = {}\nsuper_frames = 0\nbusy_poll = \"200us\"\n\
         [port.inside]\ndevice = \"packet:inside\"\naddress = {}\nscheme = {}\noffloads = false\nlink = {down}\n\
         [port.far]\ndevice = \"packet:far\"\naddress = {}\nscheme = {}\noffloads = false\nlink = {up}\n",
        2 * options.packets + 8192,
        addresses(level.inside_router()),
        quoted(scheme),
        addresses(level.far_router()),
        quoted(up_scheme),
    );
    for (port, mac, host) in [("inside", inside_mac, level.inside_host()), ("far", far_mac, level.far_host())] {
        for address in host.each() {
            _ = write!(text, "[[neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\nport = \"{port}\"\n");
        }
    }
    for (everywhere, via) in ["0.0.0.0/0", "::/0"].into_iter().zip(level.far_host().each()) {
        _ = write!(text, "[[route]]\nto = \"{everywhere}\"\nvia = \"{via}\"\n");
    }
    for networks in level.deeper() {
        for ((network, length), via) in networks.into_iter().zip(level.inside_host().each()) {
            _ = write!(text, "[[route]]\nto = \"{network}/{length}\"\nvia = \"{via}\"\n");
        }
    }
    text
}
