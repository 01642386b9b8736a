//! `[port.NAME.ra]`: what IPv6 hosts are told.

use crate::Prefix;
use crate::advertise::{Preference, RaPlan, RaPrefix};
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section, Text};
use crate::keys::{MOST_DOMAIN_BYTES, MOST_PREFIXES, MOST_SERVERS, RA, RA_PREFIX};
use crate::text::{did_you_mean, quote};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use units::Nanos;

/// Lifetimes of prefixes and DNS servers have 32 bits of seconds (RFC 4861 4.6.2, RFC 8106 5.1); all ones is for ever.
const FOR_EVER: u64 = u32::MAX as u64;
/// The length of a prefix that hosts on Ethernet form addresses from (RFC 2464 4).
const AUTONOMOUS: u8 = 64;

pub(super) fn read(report: &mut Report<'_>, section: &Section<'_>, addresses: &[Prefix]) -> Option<RaPlan> {
    let node = section.node("ra")?;
    let span = node.span.clone();
    let ra = node.section(report, RA, "ra = { lifetime = \"1800s\" }")?;
    if !addresses.iter().any(|prefix| prefix.address.is_ipv6()) {
        report.error(span, ra.path, || {
            ("an interface without an IPv6 address has nothing to advertise".to_string(), "give it one".to_string())
        });
    }
    let interval = seconds(report, &ra, "interval", 4..=1800).unwrap_or(600);
    let lifetime = seconds(report, &ra, "lifetime", 0..=9000).unwrap_or((3 * interval).min(9000));
    if lifetime > 0 && lifetime < interval {
        let node = ra.node("lifetime").or_else(|| ra.node("interval"));
        report.error(node.map_or(ra.span.clone(), |node| node.span), Path::Key(&ra.path, "lifetime"), || {
            let reason = format!("a lifetime of {lifetime}s ends before the next advertisement, in {interval}s");
            (reason, "make it 0s, or no shorter than the interval; three intervals are usual".to_string())
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

/// A time of whole seconds within a range. None: left out or reported.
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

fn preference(report: &mut Report<'_>, section: &Section<'_>) -> Preference {
    let Some(text) = section.text(report, "preference") else { return Preference::default() };
    let found = Preference::ALL.into_iter().find(|preference| preference.name() == text.value);
    found.unwrap_or_else(|| {
        let hint = did_you_mean(text.value, Preference::ALL.into_iter().map(Preference::name));
        text.error(report, || (format!("no preference is called {}", quote(text.value)), hint));
        Preference::default()
    })
}

/// The elements of a list of strings, at most so many.
fn texts<T>(
    report: &mut Report<'_>,
    section: &Section<'_>,
    name: &'static str,
    most: usize,
    mut read: impl FnMut(&mut Report<'_>, &Text<'_>) -> Option<T>,
) -> Vec<T> {
    let parent = Path::Key(&section.path, name);
    let mut list = section.list(report, name);
    if let Some((_, span, _)) = list.get(most) {
        report.error(span.clone(), parent, || (format!("there are more than {most}"), format!("give at most {most}")));
        list.truncate(most);
    }
    let mut read_one = |(index, span, value)| {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(text) = node.text() else {
            node.no_text(report, "a string");
            return None;
        };
        read(report, &text)
    };
    list.into_iter().filter_map(&mut read_one).collect()
}

fn servers(report: &mut Report<'_>, section: &Section<'_>) -> Vec<Ipv6Addr> {
    texts(report, section, "dns", MOST_SERVERS, |report, text| match text.value.parse::<Ipv6Addr>() {
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
    texts(report, section, "search", MOST_DOMAIN_BYTES, |report, text| {
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
        // As in a message: a length before each label, and a zero.
        bytes += domain.len() + 2;
        if bytes > MOST_DOMAIN_BYTES {
            let reason = format!("the domains are longer than the {MOST_DOMAIN_BYTES} bytes there is room for");
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
        let reason = format!("{} is no prefix that hosts could be told", quote(text.value));
        text.error(report, || (reason, "write an IPv6 network, like '2001:db8:1::/64'".to_string()));
        return None;
    }
    let autonomous = section.boolean(report, "autonomous");
    if autonomous && prefix.length != AUTONOMOUS {
        report.warning(text.span.clone(), text.path, || {
            let reason = format!("no host on Ethernet forms addresses from a prefix of {} bits", prefix.length);
            (reason, "use one of 64, or autonomous = false".to_string())
        });
    }
    let valid = seconds(report, section, "valid", 0..=FOR_EVER).unwrap_or(2_592_000);
    let preferred = seconds(report, section, "preferred", 0..=FOR_EVER).unwrap_or(valid.min(604_800));
    if preferred > valid {
        let node = section.node("preferred").or_else(|| section.node("valid"));
        report.error(node.map_or(section.span.clone(), |node| node.span), section.path, || {
            let reason = format!("preferred for {preferred}s is longer than valid, for {valid}s");
            (reason, "make 'preferred' no longer than 'valid'".to_string())
        });
    }
    let on_link = section.boolean(report, "on_link");
    Some(RaPrefix { prefix, on_link, autonomous, valid: Nanos::secs(valid), preferred: Nanos::secs(preferred) })
}
