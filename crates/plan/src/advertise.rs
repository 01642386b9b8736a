//! What an interface tells IPv6 hosts about itself and the link: router advertisements (RFC 4861 6.2.1).

use crate::Prefix;
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::Ipv6Addr;
use units::Nanos;

/// The advertisements of an interface. Times are whole seconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RaPlan {
    /// The longest time between two; 4 to 1800 s.
    #[serde(serialize_with = "time_text")]
    pub interval: Nanos,
    /// For how long the sender is a default router; at most 9000 s, zero where it is none.
    #[serde(serialize_with = "time_text")]
    pub lifetime: Nanos,
    /// Whether hosts prefer it.
    pub preference: Preference,
    /// Whether addresses come by DHCPv6.
    pub managed: bool,
    /// Whether other settings come by DHCPv6.
    pub other: bool,
    /// Whether hosts are told the MTU.
    pub mtu: bool,
    /// The hop limit hosts are to use; zero leaves it to them.
    pub hop_limit: u8,
    /// The prefixes of the link, in the order of the file.
    #[serde(rename = "prefix")]
    pub prefixes: Vec<RaPrefix>,
    /// Recursive DNS servers.
    pub dns: Vec<Ipv6Addr>,
    /// Domains to search; lower case, without a point at their end.
    pub search: Vec<String>,
    /// For how long servers and domains may be used.
    #[serde(serialize_with = "time_text")]
    pub dns_lifetime: Nanos,
}

/// A prefix of the link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RaPrefix {
    /// The prefix; IPv6, no bit behind its length is set.
    pub prefix: Prefix,
    /// Whether its addresses are on the link.
    pub on_link: bool,
    /// Whether hosts may form addresses from it.
    pub autonomous: bool,
    /// For how long it is valid; at most 2^32 - 1 s, which is for ever.
    #[serde(serialize_with = "time_text")]
    pub valid: Nanos,
    /// For how long addresses from it are preferred; no longer than it is valid.
    #[serde(serialize_with = "time_text")]
    pub preferred: Nanos,
}

/// Which of several routers hosts prefer (RFC 4191 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// This one.
    High,
    /// As any.
    #[default]
    Medium,
    /// Another.
    Low,
}

impl Preference {
    /// All of them.
    pub const ALL: [Preference; 3] = [Preference::High, Preference::Medium, Preference::Low];

    /// As in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Preference::High => "high",
            Preference::Medium => "medium",
            Preference::Low => "low",
        }
    }
}

fn time_text<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

impl fmt::Display for RaPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RaPlan { interval, lifetime, preference, managed, other, mtu, hop_limit, dns_lifetime, .. } = self;
        write!(
            f,
            "interval {interval} lifetime {lifetime} preference {} managed {managed} other {other} ",
            preference.name()
        )?;
        write!(f, "mtu {mtu} hop_limit {hop_limit}")?;
        self.prefixes.iter().try_for_each(|prefix| write!(f, " {prefix}"))?;
        self.dns.iter().try_for_each(|server| write!(f, " dns {server}"))?;
        self.search.iter().try_for_each(|domain| write!(f, " search {domain}"))?;
        write!(f, " dns_lifetime {dns_lifetime}")
    }
}

impl fmt::Display for RaPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RaPrefix { prefix, on_link, autonomous, valid, preferred } = self;
        write!(f, "prefix {prefix} on_link {on_link} autonomous {autonomous} valid {valid} preferred {preferred}")
    }
}
