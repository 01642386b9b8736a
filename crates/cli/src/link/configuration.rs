//! The configuration of the router between a command and its far end.

use crate::arguments::Link;
use anyhow::{Result, ensure};
use std::fmt::Write;
use std::net::Ipv4Addr;
use units::{Mac, Rate};

/// How many links may be inside of one another.
const DEEPEST: u8 = 8;
/// Says to commands inside how deep they are, and where the far end is.
const LEVEL: &str = "SWITCHPATH_LEVEL";
const FAR: &str = "SWITCHPATH_FAR";

/// One of the two directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// To the command.
    Down,
    /// From it.
    Up,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::Down, Side::Up];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Side::Down => "down",
            Side::Up => "up",
        }
    }

    /// The port that has the link.
    pub fn port(self) -> &'static str {
        match self {
            Side::Down => "inside",
            Side::Up => "far",
        }
    }

    /// The way back.
    pub fn other(self) -> Side {
        match self {
            Side::Down => Side::Up,
            Side::Up => Side::Down,
        }
    }

    /// What its link is to be; none where it has no limit.
    pub fn of(self, options: &Link) -> Option<&str> {
        match self {
            Side::Down => options.down.as_deref(),
            Side::Up => options.up.as_deref(),
        }
    }

    /// The queueing scheme before it.
    pub fn scheme_of(self, options: &Link) -> &str {
        let own = options.up_scheme.as_deref().filter(|_| self == Side::Up);
        own.unwrap_or(&options.scheme)
    }
}

/// How deep a link is inside of others, and the addresses that follow from that: of the range that carriers use behind
/// translation (RFC 6598), so that they are nobody's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Level {
    depth: u8,
    /// The far end is the network that this is started in.
    pub outside: bool,
    /// The address of the far end: that of the outermost link.
    pub far: Ipv4Addr,
}

impl Level {
    /// Where this process is.
    pub fn here(options: &Link) -> Result<Level> {
        let depth: u8 = std::env::var(LEVEL).ok().and_then(|level| level.parse().ok()).map_or(0, |level: u8| level + 1);
        ensure!(depth < DEEPEST, "{DEEPEST} links are inside of one another already");
        let outside = options.outside || depth > 0 && options.far.is_none();
        let beyond = std::env::var(FAR).ok().and_then(|far| far.parse().ok()).filter(|_| outside && depth > 0);
        let level = Level { depth, outside, far: Ipv4Addr::UNSPECIFIED };
        let far = beyond.unwrap_or(level.far_host());
        Ok(Level { far, ..level })
    }

    /// With nothing around it.
    pub fn outermost() -> Level {
        let level = Level { depth: 0, outside: false, far: Ipv4Addr::UNSPECIFIED };
        Level { far: level.far_host(), ..level }
    }

    /// What commands inside are told.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [(LEVEL, self.depth.to_string()), (FAR, self.far.to_string())]
    }

    fn net(&self) -> u8 {
        64 + self.depth
    }

    /// The command's address, of 24 bits of network.
    pub fn inside_host(&self) -> Ipv4Addr {
        Ipv4Addr::new(100, self.net(), 0, 2)
    }

    /// The router's address there.
    pub fn inside_router(&self) -> Ipv4Addr {
        Ipv4Addr::new(100, self.net(), 0, 1)
    }

    /// The address at the far end, of 24 bits of network.
    pub fn far_host(&self) -> Ipv4Addr {
        Ipv4Addr::new(100, self.net(), 1, 2)
    }

    /// The router's address there.
    pub fn far_router(&self) -> Ipv4Addr {
        Ipv4Addr::new(100, self.net(), 1, 1)
    }

    /// Networks of 16 bits behind the command's: its own and those of links inside of this one.
    pub fn deeper(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        (self.depth + 1..DEEPEST).map(|depth| Ipv4Addr::new(100, 64 + depth, 0, 0))
    }

    /// This link's own network of 16 bits.
    pub fn own(&self) -> Ipv4Addr {
        Ipv4Addr::new(100, self.net(), 0, 0)
    }

    /// The stations' link addresses: the command's and the far end's. Known beforehand, nobody has to ask for them.
    pub fn macs(&self) -> [Mac; 2] {
        [2, 3].map(|last| Mac([0x02, 0x53, 0x50, 0, self.depth, last]))
    }

    /// The router's, on the way to each.
    pub fn router_macs(&self) -> [Mac; 2] {
        [18, 19].map(|last| Mac([0x02, 0x53, 0x50, 0, self.depth, last]))
    }
}

/// A text as TOML has it: as JSON has it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What a link is like.
fn keys(options: &Link, of: Option<&str>, seed: u64) -> String {
    let mut keys = format!("{{ hold = {}, seed = {seed}", options.packets);
    let mut add = |key: &str, value: &str| _ = write!(keys, ", {key} = {}", quoted(value));
    match of {
        // A trace counts as its mode says.
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

/// The configuration.
pub fn text(options: &Link, level: &Level) -> String {
    let seed = u64::from(options.seed) * 2;
    let [down, up] =
        [(Side::Down, seed), (Side::Up, seed + 1)].map(|(side, seed)| keys(options, side.of(options), seed));
    let [scheme, up_scheme] = Side::BOTH.map(|side| side.scheme_of(options));
    let [inside_mac, far_mac] = level.macs();
    let (inside_host, far_host) = (level.inside_host(), level.far_host());
    let mut text = format!(
        "version = 1\n[router]\nname = \"link\"\nworkers = 1\nframes = {}\nsuper_frames = 0\nspin = \"200us\"\n\
         [port.inside]\ndevice = \"packet:inside\"\naddress = [\"{}/24\"]\nscheme = {}\noffloads = false\nlink = {down}\n\
         [port.far]\ndevice = \"packet:far\"\naddress = [\"{}/24\"]\nscheme = {}\noffloads = false\nlink = {up}\n\
         [[neighbour]]\naddress = \"{inside_host}\"\nmac = \"{inside_mac}\"\nport = \"inside\"\n\
         [[neighbour]]\naddress = \"{far_host}\"\nmac = \"{far_mac}\"\nport = \"far\"\n\
         [[route]]\nto = \"0.0.0.0/0\"\nvia = \"{far_host}\"\n",
        2 * options.packets + 8192,
        level.inside_router(),
        quoted(scheme),
        level.far_router(),
        quoted(up_scheme),
    );
    for network in level.deeper() {
        _ = write!(text, "[[route]]\nto = \"{network}/16\"\nvia = \"{inside_host}\"\n");
    }
    text
}
