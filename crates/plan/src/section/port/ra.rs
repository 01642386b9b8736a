//! `[port.NAME.ra]`: router advertisements of an interface to IPv6 hosts (RFC 4861 6.2.1).

use crate::Prefix;
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section};
use crate::key::{ADDRESS, Form, Key, Kind, PREFIX, TIME, key, required};
use crate::named::as_text;
use crate::text::{did_you_mean, quote};
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use units::Nanos;

// Limits of advertised prefixes, DNS servers, and bytes of search domains: all of them fit into 1280 bytes together.
const MOST_PREFIXES: usize = 16;
const MOST_SERVERS: usize = 8;
const MOST_DOMAIN_BYTES: usize = 256;
/// Lifetimes of prefixes and DNS servers are 32-bit seconds (RFC 4861 4.6.2, RFC 8106 5.1); all ones is infinite.
const FOR_EVER: u64 = u32::MAX as u64;
/// The prefix length with which hosts on Ethernet form addresses (RFC 2464 4).
const AUTONOMOUS: u8 = 64;

pub(super) const ADVERTISES: Key = key(
    "ra",
    Kind::Table(RA),
    "",
    "{ lifetime = \"1800s\" }",
    "Router advertisements, with which IPv6 hosts configure themselves. Without the table none are sent.",
);

/// Router advertisements of an interface (RFC 4861 6.2.1, with its names in brackets).
const RA: &[Key] = &[
    key(
        "interval",
        Kind::Text(TIME),
        "\"600s\"",
        "\"200s\"",
        "The longest interval between advertisements, 4s to 1800s (MaxRtrAdvInterval). The shortest is a third of it.",
    ),
    key(
        "lifetime",
        Kind::Text(TIME),
        "",
        "\"1800s\"",
        "How long hosts use the router as a default router, up to 9000s; 0s if they should not (AdvDefaultLifetime). \
         The default is three intervals.",
    ),
    key(
        "preference",
        Kind::Text(Form::Pattern("^(high|medium|low)$")),
        "\"medium\"",
        "\"high\"",
        "The router's preference among default routers: `high`, `medium`, `low` (RFC 4191).",
    ),
    key("managed", Kind::Boolean, "false", "true", "Whether hosts get addresses by DHCPv6 (AdvManagedFlag)."),
    key("other", Kind::Boolean, "false", "true", "Whether hosts get other settings by DHCPv6 (AdvOtherConfigFlag)."),
    key("mtu", Kind::Boolean, "true", "false", "Whether the interface's MTU is advertised (AdvLinkMTU)."),
    key(
        "hop_limit",
        Kind::Integer { least: 0, most: 255 },
        "64",
        "64",
        "The hop limit that hosts should use; 0 leaves it to them (AdvCurHopLimit).",
    ),
    key(
        "prefix",
        Kind::List(RA_PREFIX),
        "",
        "[{ prefix = \"2001:db8:1::/64\" }]",
        "The prefixes of the link (AdvPrefixList). The default is the interface's own IPv6 subnets.",
    ),
    key(
        "dns",
        Kind::Texts { form: ADDRESS, most: MOST_SERVERS },
        "[]",
        "[\"2001:db8::53\"]",
        "IPv6 addresses of recursive DNS servers (RFC 8106).",
    ),
    key(
        "search",
        Kind::Texts { form: Form::Pattern(r"^[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*\.?$"), most: MOST_DOMAIN_BYTES },
        "[]",
        "[\"example.org\"]",
        "DNS search domains (RFC 8106).",
    ),
    key(
        "dns_lifetime",
        Kind::Text(TIME),
        "",
        "\"1800s\"",
        "The lifetime of DNS servers and search domains. The default is three intervals.",
    ),
];

/// A prefix of the link.
const RA_PREFIX: &[Key] = &[
    required("prefix", Kind::Text(PREFIX), "\"2001:db8:1::/64\"", "The prefix."),
    key("on_link", Kind::Boolean, "true", "false", "Whether hosts treat its addresses as on-link (AdvOnLinkFlag)."),
    key(
        "autonomous",
        Kind::Boolean,
        "true",
        "false",
        "Whether hosts may form addresses from it (AdvAutonomousFlag). On Ethernet this requires a /64.",
    ),
    key(
        "valid",
        Kind::Text(TIME),
        "\"2592000s\"",
        "\"86400s\"",
        "The valid lifetime (AdvValidLifetime); 4294967295s is infinite.",
    ),
    key(
        "preferred",
        Kind::Text(TIME),
        "\"604800s\"",
        "\"14400s\"",
        "The preferred lifetime of addresses from it (AdvPreferredLifetime).",
    ),
];

/// The advertisements of an interface. Times are whole seconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RaPlan {
    /// The longest time between two advertisements; 4 to 1800 s.
    #[serde(serialize_with = "as_text")]
    pub interval: Nanos,
    /// How long hosts use the router as a default router; at most 9000 s, zero if it is none.
    #[serde(serialize_with = "as_text")]
    pub lifetime: Nanos,
    /// Its preference among default routers.
    pub preference: RouterPreference,
    /// True if hosts get addresses by DHCPv6.
    pub managed: bool,
    /// True if hosts get other settings by DHCPv6.
    pub other: bool,
    /// True if the MTU is advertised.
    pub mtu: bool,
    /// The advertised hop limit; zero for none.
    pub hop_limit: u8,
    /// The prefixes of the link, in the order of the file.
    #[serde(rename = "prefix")]
    pub prefixes: Vec<RaPrefix>,
    /// Recursive DNS servers.
    pub dns: Vec<Ipv6Addr>,
    /// Search domains; lower case, without a trailing dot.
    pub search: Vec<String>,
    /// The lifetime of DNS servers and search domains.
    #[serde(serialize_with = "as_text")]
    pub dns_lifetime: Nanos,
}

/// A prefix of the link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RaPrefix {
    /// The prefix; IPv6, no bit behind its length is set.
    pub prefix: Prefix,
    /// True if its addresses are on the link.
    pub on_link: bool,
    /// True if hosts may form addresses from it (SLAAC).
    pub autonomous: bool,
    /// The valid lifetime; at most 2^32 - 1 s, which is infinite.
    #[serde(serialize_with = "as_text")]
    pub valid: Nanos,
    /// The preferred lifetime of addresses from it; at most the valid lifetime.
    #[serde(serialize_with = "as_text")]
    pub preferred: Nanos,
}

/// The preference of a default router (RFC 4191 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterPreference {
    /// Preferred over others.
    High,
    /// The default.
    #[default]
    Medium,
    /// Used only if there is no other.
    Low,
}

impl RouterPreference {
    /// All of them.
    pub const ALL: [RouterPreference; 3] = [RouterPreference::High, RouterPreference::Medium, RouterPreference::Low];

    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            RouterPreference::High => "high",
            RouterPreference::Medium => "medium",
            RouterPreference::Low => "low",
        }
    }
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

pub(super) fn check(report: &mut Report<'_>, section: &Section<'_>, addresses: &[Prefix]) -> Option<RaPlan> {
    let node = section.node("ra")?;
    let span = node.span.clone();
    let ra = node.section(report, RA, "ra = { lifetime = \"1800s\" }")?;
    if !addresses.iter().any(|prefix| prefix.address.is_ipv6()) {
        report.error(span, ra.path, || {
            ("router advertisements need an IPv6 address on the interface".to_string(), "give it one".to_string())
        });
    }
    let interval = seconds(report, &ra, "interval", 4..=1800).unwrap_or(600);
    let lifetime = seconds(report, &ra, "lifetime", 0..=9000).unwrap_or((3 * interval).min(9000));
    if lifetime > 0 && lifetime < interval {
        let node = ra.node("lifetime").or_else(|| ra.node("interval"));
        report.error(node.map_or(ra.span.clone(), |node| node.span), Path::Key(&ra.path, "lifetime"), || {
            let reason = format!("a lifetime of {lifetime}s expires before the next advertisement, after {interval}s");
            (reason, "write 0s, or at least the interval; the default is three intervals".to_string())
        });
    }
    let search = domains(report, &ra);
    Some(RaPlan {
        interval: Nanos::secs(interval),
        lifetime: Nanos::secs(lifetime),
        preference: preference(report, &ra),
        managed: ra.boolean(report, "managed"),
        other: ra.boolean(report, "other"),
        mtu: ra.boolean(report, "mtu"),
        hop_limit: ra.integer(report, "hop_limit").unwrap_or(64) as u8,
        prefixes: prefixes(report, &ra, addresses),
        dns: servers(report, &ra),
        search,
        dns_lifetime: Nanos::secs(seconds(report, &ra, "dns_lifetime", 0..=FOR_EVER).unwrap_or(3 * interval)),
    })
}

/// A time of whole seconds within a range. `None` if it is missing or was reported.
fn seconds(
    report: &mut Report<'_>,
    section: &Section<'_>,
    name: &'static str,
    range: RangeInclusive<u64>,
) -> Option<u64> {
    const SECOND: u64 = 1_000_000_000;
    let text = section.text(report, name)?;
    let (least, most) = (*range.start(), *range.end());
    let hint = format!("write whole seconds, {least}s to {most}s");
    match text.value.parse::<Nanos>() {
        Err(error) => text.error(report, || (error.reason, hint)),
        Ok(time) if !time.get().is_multiple_of(SECOND) => {
            text.error(report, || (format!("{} is no whole number of seconds", quote(text.value)), hint));
        }
        Ok(time) if !range.contains(&(time.get() / SECOND)) => {
            text.error(report, || (format!("{time} is out of range"), hint));
        }
        Ok(time) => return Some(time.get() / SECOND),
    }
    None
}

fn preference(report: &mut Report<'_>, section: &Section<'_>) -> RouterPreference {
    let Some(text) = section.text(report, "preference") else { return RouterPreference::default() };
    let found = RouterPreference::ALL.into_iter().find(|preference| preference.name() == text.value);
    found.unwrap_or_else(|| {
        let hint = did_you_mean(text.value, RouterPreference::ALL.into_iter().map(RouterPreference::name));
        text.error(report, || (format!("no preference is called {}", quote(text.value)), hint));
        RouterPreference::default()
    })
}

fn at_most(most: usize) -> (String, String) {
    (format!("there are more than {most}"), format!("give at most {most}"))
}

fn servers(report: &mut Report<'_>, section: &Section<'_>) -> Vec<Ipv6Addr> {
    section.texts(report, "dns", at_most, "a string", |report, text| match text.value.parse::<Ipv6Addr>() {
        Ok(address) if !address.is_multicast() && !address.is_unspecified() && !address.is_loopback() => Some(address),
        _ => {
            let reason = format!("{} is no IPv6 address of a server", quote(text.value));
            text.error(report, || (reason, "write one like '2001:db8::53'".to_string()));
            None
        }
    })
}

fn domains(report: &mut Report<'_>, section: &Section<'_>) -> Vec<String> {
    let mut bytes = 0;
    section.texts(report, "search", at_most, "a string", |report, text| {
        let domain = text.value.strip_suffix('.').unwrap_or(text.value);
        let label = |label: &str| {
            (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if !domain.split('.').all(label) || domain.len() > 253 {
            let hint =
                "write labels of letters, digits and hyphens with points between, like 'example.org'".to_string();
            text.error(report, || (format!("{} is no domain", quote(text.value)), hint));
            return None;
        }
        // The length in a message: a length byte before each label, and a zero at the end.
        bytes += domain.len() + 2;
        if bytes > MOST_DOMAIN_BYTES {
            let reason = format!("the domains are longer than {MOST_DOMAIN_BYTES} bytes");
            text.error(report, || (reason, "give fewer".to_string()));
            return None;
        }
        Some(domain.to_ascii_lowercase())
    })
}

/// The configured prefixes; by default the interface's own subnets.
fn prefixes(report: &mut Report<'_>, section: &Section<'_>, addresses: &[Prefix]) -> Vec<RaPrefix> {
    if section.node("prefix").is_none() {
        return own(addresses);
    }
    let parent = Path::Key(&section.path, "prefix");
    let mut list = section.list(report, "prefix");
    if let Some((_, span, _)) = list.get(MOST_PREFIXES) {
        let most = MOST_PREFIXES;
        report.error(span.clone(), parent, || (format!("there are more than {most}"), format!("give at most {most}")));
        list.truncate(MOST_PREFIXES);
    }
    let mut found: Vec<RaPrefix> = Vec::with_capacity(list.len());
    for (index, span, value) in list {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, RA_PREFIX, "{ prefix = \"2001:db8:1::/64\" }") else { continue };
        let Some(one) = prefix(report, &section) else { continue };
        if found.iter().any(|other| other.prefix == one.prefix) {
            report.error(section.span.clone(), section.path, || {
                (format!("the prefix {} is given twice", one.prefix), "remove one of the two".to_string())
            });
            continue;
        }
        found.push(one);
    }
    found
}

fn own(addresses: &[Prefix]) -> Vec<RaPrefix> {
    let mut subnets: Vec<Prefix> = addresses.iter().map(|address| address.network()).collect();
    subnets.retain(|subnet| matches!(subnet.address, IpAddr::V6(address) if !address.is_unicast_link_local()));
    subnets.sort_unstable();
    subnets.dedup();
    subnets.truncate(MOST_PREFIXES);
    let advertised = |prefix: Prefix| RaPrefix {
        prefix,
        on_link: true,
        autonomous: prefix.length == AUTONOMOUS,
        valid: Nanos::secs(2_592_000),
        preferred: Nanos::secs(604_800),
    };
    subnets.into_iter().map(advertised).collect()
}

fn prefix(report: &mut Report<'_>, section: &Section<'_>) -> Option<RaPrefix> {
    let text = section.text(report, "prefix")?;
    let prefix = match text.value.parse::<Prefix>() {
        Ok(prefix) => prefix,
        Err(error) => {
            text.wrong(report, error);
            return None;
        }
    };
    let of_hosts = matches!(prefix.address, IpAddr::V6(a) if !a.is_multicast() && !a.is_unicast_link_local());
    if !of_hosts || !prefix.is_network() {
        let reason = format!("{} is not a prefix that can be advertised", quote(text.value));
        text.error(report, || (reason, "write an IPv6 network, like '2001:db8:1::/64'".to_string()));
        return None;
    }
    let autonomous = section.boolean(report, "autonomous");
    if autonomous && prefix.length != AUTONOMOUS {
        report.warning(text.span.clone(), text.path, || {
            let reason = format!("hosts on Ethernet form addresses only from a /64, not a /{}", prefix.length);
            (reason, "use a /64, or autonomous = false".to_string())
        });
    }
    let valid = seconds(report, section, "valid", 0..=FOR_EVER).unwrap_or(2_592_000);
    let preferred = seconds(report, section, "preferred", 0..=FOR_EVER).unwrap_or(valid.min(604_800));
    if preferred > valid {
        let node = section.node("preferred").or_else(|| section.node("valid"));
        report.error(node.map_or(section.span.clone(), |node| node.span), section.path, || {
            let reason = format!("preferred, {preferred}s, is longer than valid, {valid}s");
            (reason, "make 'preferred' no longer than 'valid'".to_string())
        });
    }
    let on_link = section.boolean(report, "on_link");
    Some(RaPrefix { prefix, on_link, autonomous, valid: Nanos::secs(valid), preferred: Nanos::secs(preferred) })
}
