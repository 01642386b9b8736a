//! A whole router with a filter of 10^4 rules beside the same router without, and the kernel with the same rules in nftables beside the kernel
//! without.
//!
//! All four routers forward the same packets of 64 bytes, one router after the other, load by load and round by round ([`loads`]). Seven of eight
//! packets are drawn from the rules, as ClassBench draws its traces; the eighth matches no rule. Rules and chains accept all of them, so that
//! routers differ in the cost of their rules alone.

use super::lane::{HostOffloads, Lane, LaneKind, LaneSide};
use super::loads::{self, LoadRounds, LoadUnit};
use super::packets::Packets;
use super::{BenchFigure, Progress, ROUNDS, Rounds, require_kernel};
use crate::bench::components::sequence;
use crate::bench::rules::lists::{self, ALL_PORTS, Rule, RuleList};
use anyhow::{Context, Result, bail};
use io::netns::{Lab, LabHost};
use io::thread_priority::RealtimePriority;
use io::traffic::PacketHeader;
use packet::wire::protocol::{TCP, UDP};
use plan::{Match, MatchFamily, MatchFields, NoSets};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

/// The number of rules, about.
const SIZE: usize = 10_000;
/// The least part of its rate that Switchpath keeps with that many rules.
const KEPT: f64 = 0.9;
/// Headers of a source, and every how many of them one matches no rule.
const HEADERS: usize = 1 << 16;
const UNMATCHED: usize = 8;
/// The lists of ClassBench that are measured, where they exist, beside generated rules.
const LISTS: [&str; 3] = ["acl3", "fw3", "generated"];
/// Protocols without ports.
const GRE: u8 = 47;
const ESP: u8 = 50;
/// Tries to find a packet that no rule matches.
const TRIES: usize = 1 << 12;

/// Measures all figures. Needs root.
pub fn measure(Rounds(rounds): Rounds, progress: &Progress) -> Result<Vec<BenchFigure>> {
    require_kernel("bench filters")?;
    let lab = Lab::new()?;
    lists::report_missing_lists();
    let _precedence = RealtimePriority::acquire().inspect_err(|error| {
        progress
            .note(&format!("filters: no real-time priority ({error}): the figures include the load of other programs"));
    });
    let mut figures = Vec::new();
    for list in lists::lists(SIZE).iter().filter(|list| LISTS.contains(&&*list.name)) {
        figures.extend(measure_list(&lab, list, rounds.min(ROUNDS), progress)?);
    }
    Ok(figures)
}

fn measure_list(lab: &Lab, list: &RuleList, rounds: usize, progress: &Progress) -> Result<Vec<BenchFigure>> {
    let rules: Vec<Variant> = list.rules.iter().flat_map(Variant::of).collect();
    let (headers, unmatched) = headers(&rules);
    progress.say(&format!(
        "filters: {}, {} rules; {} headers, of which {unmatched} match no rule",
        list.name,
        rules.len(),
        headers.len()
    ));
    let mut lanes = vec![
        ("xdp", Packets::with_headers(ours(lab, "")?, &headers)?),
        ("xdp with rules", Packets::with_headers(ours(lab, &filter_text(&rules))?, &headers)?),
        ("kernel", Packets::with_headers(kernel(lab)?, &headers)?),
    ];
    let filtered = kernel(lab)?;
    match load_nftables(filtered.router(), &nftables_text(&rules)) {
        Ok(()) => lanes.push(("kernel with rules", Packets::with_headers(filtered, &headers)?)),
        Err(error) => progress.note(&format!("filters: the kernel's rules are left out: {error:#}")),
    }
    let lanes: Vec<(&str, &Packets)> = lanes.iter().map(|(name, lane)| (*name, lane)).collect();
    let measured = loads::measure(&lanes, LoadUnit::EachLane, rounds, progress)?;
    let name = |what: &str| format!("{}, {} rules: {what}", list.name, rules.len());
    let figure = |what, lane: &LoadRounds, other: &LoadRounds, budget| {
        let rate = |lane: &LoadRounds| lane.maximum_rates().rate / 1e6;
        BenchFigure::at_least("filters", name(what), (rate(lane), rate(other), lane.ratio(other)), "Mpps", budget)
    };
    let mut figures = vec![
        figure("xdp, 64 B, beside xdp without rules", &measured[1], &measured[0], Some(KEPT)),
        figure("xdp without rules, 64 B, beside the kernel without", &measured[0], &measured[2], None),
    ];
    if let Some(filtered) = measured.get(3) {
        figures.push(figure("the kernel with nftables, 64 B, beside the kernel without", filtered, &measured[2], None));
        figures.push(figure("xdp, 64 B, beside the kernel with nftables", &measured[1], filtered, None));
    }
    Ok(figures)
}

/// A router of ours with one path for all packets, and its filter, unless that is empty.
fn ours(lab: &Lab, rules: &str) -> Result<Lane> {
    let (_, station) = LaneSide::Right.addresses();
    let mut tables = format!("[[route]]\nto = 'default'\nvia = '{station}'\n[[path]]\nname = 'all'\nmatch = 'any'\n");
    if rules.is_empty() {
        tables += "functions = ['ip']\n";
    } else {
        // Writing to a string cannot fail.
        let _ = write!(tables, "functions = ['filter', 'ip']\nfilter = {{ rules = '''\n{rules}''' }}\n");
    }
    Lane::with_tables(lab, LaneKind::Xdp, HostOffloads::Plain, tables)
}

/// The kernel's router with a default route to the right.
fn kernel(lab: &Lab) -> Result<Lane> {
    let lane = Lane::new(lab, LaneKind::Kernel, HostOffloads::Plain)?;
    lane.router().add_default_route(IpAddr::V4(LaneSide::Right.addresses().1))?;
    Ok(lane)
}

/// A rule that names a protocol if it names ports: nftables and Switchpath write them alike.
struct Variant {
    rule: Rule,
    matching: Match,
}

impl Variant {
    fn of(rule: &Rule) -> Vec<Variant> {
        let protocols = match rule.protocol {
            None if rule.flags.1 != 0 => vec![Some(TCP)],
            None if rule.needs_ports() => vec![Some(TCP), Some(UDP)],
            protocol => vec![protocol],
        };
        let variant = |protocol| Rule { protocol, ..rule.clone() };
        // Some lists have rules with ports or flags for protocols without: no packet matches those, and neither language has them. A rule for all
        // packets would leave none that matches no rule.
        let mut all = Match::default();
        all.family = MatchFamily::V4;
        let possible = |rule: &Rule| {
            (!rule.needs_ports() || matches!(rule.protocol, Some(TCP | UDP)))
                && (rule.flags.1 == 0 || rule.protocol == Some(TCP))
                && rule.matching() != all
        };
        let rules = protocols.into_iter().map(variant).filter(possible);
        rules.map(|rule| Variant { matching: rule.matching(), rule }).collect()
    }

    /// The rule for nftables.
    fn nftables(&self) -> String {
        let Rule { source, destination, sport, dport, protocol, flags: (value, mask) } = &self.rule;
        let mut text = String::new();
        for (field, prefix) in [("saddr", source), ("daddr", destination)].iter().filter(|(_, it)| it.length > 0) {
            text += &format!("ip {field} {}/{} ", prefix.address, prefix.length);
        }
        if let Some(protocol) = protocol {
            text += &format!("ip protocol {protocol} ");
        }
        let transport = if *protocol == Some(TCP) { "tcp" } else { "udp" };
        for (field, ports) in [("sport", sport), ("dport", dport)].iter().filter(|(_, ports)| **ports != ALL_PORTS) {
            text += &format!("{transport} {field} {}-{} ", ports.start(), ports.end());
        }
        if *mask != 0 {
            text += &format!("tcp flags & {mask:#x} == {:#x} ", value & mask);
        }
        text + "accept\n"
    }
}

fn filter_text(rules: &[Variant]) -> String {
    rules.iter().map(|rule| format!("{} accept\n", rule.matching)).collect()
}

fn nftables_text(rules: &[Variant]) -> String {
    let rules: String = rules.iter().map(Variant::nftables).collect();
    format!("table ip bench {{\nchain forward {{\ntype filter hook forward priority 0; policy accept;\n{rules}}}\n}}\n")
}

/// Loads a ruleset of nftables in a host.
fn load_nftables(host: &LabHost, ruleset: &str) -> Result<()> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = host.spawn(command).context("`nft -f -` (package nftables)")?;
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(ruleset.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`nft -f -`: {}", said.lines().next().unwrap_or("failed"));
    }
    written.context("`nft -f -`")
}

/// The headers of the packets, and how many of them match no rule.
fn headers(rules: &[Variant]) -> (Vec<PacketHeader>, usize) {
    let drawn: Vec<Rule> = rules.iter().map(|variant| variant.rule.clone()).collect();
    // More than needed: a part cannot be routed.
    let mut drawn = lists::packets(&drawn, 4 * HEADERS).into_iter().filter_map(|(fields, _)| header(&fields));
    let mut random = sequence(0x0ff);
    let mut headers = Vec::with_capacity(HEADERS);
    let (mut unmatched, mut tries) = (0, 0);
    while headers.len() < HEADERS {
        if headers.len() % UNMATCHED == 0 && tries < TRIES {
            let mut next = || random.next().unwrap_or(0) >> 16;
            let (addresses, ports) = (next(), next() as u32);
            let header = PacketHeader {
                network: (Ipv4Addr::from_bits(addresses as u32), Ipv4Addr::from_bits(next() as u32)),
                // Lists end with rules for all packets of TCP, UDP or ICMP.
                protocol: [TCP, UDP, GRE, ESP][addresses as usize >> 33 & 3],
                ports: ((ports >> 16) as u16, ports as u16),
                tcp_flags: 0x10,
            };
            tries += 1;
            let fields = fields(&header);
            if !is_routed(&header) || rules.iter().any(|rule| rule.matching.matches(&fields, &NoSets)) {
                continue;
            }
            (unmatched, tries) = (unmatched + 1, 0);
            headers.push(header);
            continue;
        }
        match drawn.next() {
            Some(header) => headers.push(header),
            None => break,
        }
    }
    (headers, unmatched)
}

/// The header of a packet that routers forward to the right.
fn header(fields: &MatchFields) -> Option<PacketHeader> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (fields.source, fields.destination) else { return None };
    let header = PacketHeader {
        network: (source, destination),
        protocol: fields.protocol,
        ports: fields.sport.zip(fields.dport).unwrap_or_default(),
        tcp_flags: fields.tcp_flags.unwrap_or_default(),
    };
    is_routed(&header).then_some(header)
}

/// The fields of a packet with this header, as rules see them.
fn fields(header: &PacketHeader) -> MatchFields {
    let (source, destination) = header.network;
    let ports = matches!(header.protocol, TCP | UDP).then_some(header.ports);
    let flags = (header.protocol == TCP).then_some(header.tcp_flags);
    lists::fields((source.into(), destination.into()), header.protocol, ports, flags)
}

/// True if both kinds of router forward a packet between these addresses: they are unicast, and not of the lane itself.
fn is_routed(header: &PacketHeader) -> bool {
    [header.network.0, header.network.1].iter().all(|address| {
        let [first, second, ..] = address.octets();
        !(matches!(first, 0 | 127 | 224..) || first == 198 && second & 0xfe == 18)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_written_alike_in_both_languages() {
        let line = "4.59.53.0/24 0.0.0.0/0 0-65535 25-30 6/255 512/4608";
        let rule = Rule::parse(line).unwrap();
        let [rule] = &Variant::of(&rule)[..] else { panic!("one protocol") };
        assert_eq!(
            rule.nftables(),
            "ip saddr 4.59.53.0/24 ip protocol 6 tcp dport 25-30 tcp flags & 0x12 == 0x2 accept\n"
        );
        assert_eq!(
            filter_text(std::slice::from_ref(rule)),
            "ip saddr 4.59.53.0/24 tcp dport 25-30 tcp flags syn/syn,ack accept\n"
        );
    }

    #[test]
    fn every_eighth_header_matches_no_rule_and_the_others_one() {
        let list = lists::lists(1000).pop().expect("generated rules are always there");
        let rules: Vec<Variant> = list.rules.iter().flat_map(Variant::of).collect();
        let (headers, unmatched) = headers(&rules);
        assert_eq!((headers.len(), unmatched), (HEADERS, HEADERS / UNMATCHED));
        for (number, header) in headers.iter().enumerate().step_by(17) {
            let fields = fields(header);
            let matches = rules.iter().any(|rule| rule.matching.matches(&fields, &NoSets));
            assert_eq!(matches, number % UNMATCHED != 0, "{header:?}");
        }
    }
}
