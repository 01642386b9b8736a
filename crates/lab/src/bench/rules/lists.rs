//! Lists of rules, and packets for them: those of ClassBench in the directory `rules` of `SWITCHPATH_DATA`, and generated ones.

use crate::bench::components::sequence;
use crate::bench::figure::Progress;
use flate2::read::GzDecoder;
use plan::import::classbench::ClassbenchRule;
use plan::{AddressMatch, Match, MatchFamily, MatchFields, MatchFragment, PortMatch, Prefix};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

const FAMILIES: [&str; 5] = ["acl2", "acl3", "fw2", "fw3", "ipc2"];
pub(in crate::bench) const ALL_PORTS: RangeInclusive<u16> = 0..=u16::MAX;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A list of rules, first match first.
pub(in crate::bench) struct RuleList {
    pub name: String,
    pub rules: Vec<Rule>,
}

/// An IPv4 rule in the five fields of an access list, and TCP flags.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::bench) struct Rule {
    pub source: Prefix,
    pub destination: Prefix,
    pub sport: RangeInclusive<u16>,
    pub dport: RangeInclusive<u16>,
    /// `None` for every protocol.
    pub protocol: Option<u8>,
    /// TCP flags, and the mask of those that matter.
    pub flags: (u8, u8),
}

/// Says once that there are no lists of ClassBench.
pub(in crate::bench) fn report_missing_lists() {
    let directory = directory();
    if !directory.is_dir() {
        let remark = format!(
            "only generated rules are measured: set SWITCHPATH_DATA to a directory with rules/acl2_1000.txt.gz and others ({} is missing)",
            directory.display()
        );
        Progress { quiet: false }.note(&remark);
    }
}

fn directory() -> PathBuf {
    std::env::var_os("SWITCHPATH_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from).join("rules")
}

/// All lists of about `size` rules. Lists of less than 1000 rules are parts of those of 1000, and have the order of these.
pub(in crate::bench) fn lists(size: usize) -> Vec<RuleList> {
    let whole = size.max(1000);
    let stored = FAMILIES.into_iter().filter_map(|family| {
        let path = directory().join(format!("{family}_{whole}.txt.gz"));
        if !path.is_file() {
            return None;
        }
        match read(&path) {
            Ok(rules) => Some(RuleList { name: family.to_owned(), rules }),
            Err(error) => {
                Progress { quiet: false }.note(&format!("{} is left out: {error}", path.display()));
                None
            }
        }
    });
    let mut lists: Vec<RuleList> = stored.collect();
    lists.push(RuleList { name: "generated".to_owned(), rules: generated(whole) });
    if size < whole {
        for list in &mut lists {
            let step = list.rules.len() / size;
            list.rules = list.rules.iter().step_by(step).take(size).cloned().collect();
        }
    }
    lists
}

fn read(path: &Path) -> io::Result<Vec<Rule>> {
    let mut text = String::new();
    GzDecoder::new(File::open(path)?).read_to_string(&mut text)?;
    let rule = |(number, line)| {
        Rule::parse(line).map_err(|error| io::Error::other(format!("line {number} is no rule of ClassBench: {error}")))
    };
    (1..).zip(text.lines()).map(rule).collect()
}

impl Rule {
    pub(in crate::bench) fn parse(line: &str) -> Result<Rule, String> {
        let ClassbenchRule { source, destination, sport, dport, protocol, flags } = ClassbenchRule::parse(line)?;
        let protocol = if protocol.1 == 0 { None } else { Some(protocol.0) };
        let flags = ((flags.0 >> 8) as u8, (flags.1 >> 8) as u8);
        Ok(Rule { source, destination, sport, dport, protocol, flags })
    }

    /// The rule as the router has it.
    pub fn matching(&self) -> Match {
        let addresses =
            |prefix: Prefix| AddressMatch::prefixes(if prefix.length == 0 { Vec::new() } else { vec![prefix] });
        let ports = |range: &RangeInclusive<u16>| {
            PortMatch::ranges(if *range == ALL_PORTS { Vec::new() } else { vec![range.clone()] })
        };
        let mut matching = Match::default();
        matching.family = MatchFamily::V4;
        (matching.source, matching.destination) = (addresses(self.source), addresses(self.destination));
        (matching.sport, matching.dport) = (ports(&self.sport), ports(&self.dport));
        matching.protocol = self.protocol;
        matching.tcp_flags = Some(self.flags).filter(|(_, mask)| *mask != 0);
        matching
    }

    /// True if only packets with ports match.
    pub fn needs_ports(&self) -> bool {
        self.sport != ALL_PORTS || self.dport != ALL_PORTS
    }

    /// A packet that the rule matches.
    fn packet(&self, random: &mut impl Iterator<Item = u64>) -> MatchFields {
        let mut next = || random.next().unwrap_or(0) >> 16;
        let mut address = |prefix: Prefix| {
            let within = next() as u32 & u32::MAX.checked_shr(prefix.length.into()).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(bits(prefix) | within))
        };
        let (source, destination) = (address(self.source), address(self.destination));
        let mut port = |range: &RangeInclusive<u16>| {
            let number = u64::from(range.end() - range.start()) + 1;
            range.start() + (next() % number) as u16
        };
        let (sport, dport) = (port(&self.sport), port(&self.dport));
        let needs_flags = self.flags.1 != 0;
        let either = if needs_flags || next() & 1 == 0 { TCP } else { UDP };
        let protocol = self.protocol.unwrap_or(either);
        let has_ports = matches!(protocol, TCP | UDP) || self.needs_ports();
        let flags = self.flags.0 | next() as u8 & !self.flags.1;
        let flags = (protocol == TCP || needs_flags).then_some(flags);
        fields((source, destination), protocol, has_ports.then_some((sport, dport)), flags)
    }
}

/// The fields of a whole packet of 46 bytes.
pub(in crate::bench) fn fields(
    (source, destination): (IpAddr, IpAddr),
    protocol: u8,
    ports: Option<(u16, u16)>,
    tcp_flags: Option<u8>,
) -> MatchFields {
    MatchFields {
        source,
        destination,
        protocol,
        dscp: 0,
        sport: ports.map(|ports| ports.0),
        dport: ports.map(|ports| ports.1),
        tcp_flags,
        icmp_type: None,
        icmp_code: None,
        fragment: MatchFragment::Whole,
        vlan: None,
        flow_label: 0,
        length: 46,
        state: 0,
    }
}

/// The address of an IPv4 prefix.
pub(super) fn bits(prefix: Prefix) -> u32 {
    match prefix.address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(_) => unreachable!("all rules are of IPv4"),
    }
}

/// The fields of a packet, and the position of a rule that matches it.
pub(in crate::bench) type Packet = (MatchFields, u32);

/// `count` packets, each with the position of a rule that matches it. As in the traces of ClassBench, a header of a random rule has a number of copies
/// with a Pareto distribution (a = 1, b = 0.1).
pub(in crate::bench) fn packets(rules: &[Rule], count: usize) -> Vec<Packet> {
    let mut random = sequence(0x5eed);
    let mut packets = Vec::with_capacity(count);
    while packets.len() < count {
        let mut next = || random.next().unwrap_or(0) >> 11;
        let (number, uniform) = (next() as usize % rules.len(), next() as f64 / (1u64 << 53) as f64);
        let copies = (0.1 / (1.0 - uniform)).ceil() as usize;
        let packet = rules[number].packet(&mut random);
        packets.extend(std::iter::repeat_n((packet, number as u32), copies.min(count - packets.len())));
    }
    packets
}

/// Different rules between some networks and hosts, as a firewall has them: specific rules first, most of them for one service.
pub(super) fn generated(size: usize) -> Vec<Rule> {
    let mut random = sequence(0xf1e1d);
    let mut next = move || random.next().unwrap_or(0) >> 16;
    let any = Prefix { address: Ipv4Addr::UNSPECIFIED.into(), length: 0 };
    let networks: Vec<Prefix> = (0..size / 8 + 16)
        .map(|_| {
            let length = match next() % 8 {
                0 => 16,
                1..=3 => 20 + (next() % 5) as u8,
                _ => 28 + (next() % 5) as u8,
            };
            Prefix { address: Ipv4Addr::from_bits(next() as u32).into(), length }.network()
        })
        .collect();
    let services: Vec<u16> = (0..64).map(|_| (next() % 10_000) as u16).collect();
    let mut rules = HashSet::new();
    let mut list = Vec::with_capacity(size);
    while list.len() < size {
        let mut network = |anywhere| if anywhere { any } else { networks[next() as usize % networks.len()] };
        let (source, destination) = (network(list.len() % 8 < 2), network(list.len() % 8 == 2));
        let service = services[next() as usize % services.len()];
        let (first, more) = (next() as u16, next() as u16);
        let dport = match next() % 8 {
            0..=4 => service..=service,
            5 => 1024..=u16::MAX,
            6 => first..=first.saturating_add(more % 1000),
            _ => ALL_PORTS,
        };
        let sport = if next() % 16 == 0 { 1024..=u16::MAX } else { ALL_PORTS };
        let protocol = [Some(TCP), Some(TCP), Some(UDP), None][next() as usize % 4];
        let rule = Rule { source, destination, sport, dport, protocol, flags: (0, 0) };
        if rules.insert(rule.clone()) {
            list.push(rule);
        }
    }
    list.sort_by_key(|rule| Reverse(rule.source.length + rule.destination.length));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::NoSets;

    #[test]
    fn line_of_classbench_is_a_rule_with_the_flags_of_the_high_byte() {
        let rule = Rule::parse("4.59.53.11/32 4.59.46.196/31 0-65535 25-25 6/255 512/512").unwrap();
        assert_eq!(
            rule.matching().to_string(),
            "ip saddr 4.59.53.11 ip daddr 4.59.46.196/31 tcp dport 25 tcp flags syn"
        );
        let error = Rule::parse("4.59.53.11/32 4.59.46.196/31 0-65535 25 6/255 0/512").expect_err("25 is no range");
        assert_eq!(error, "'25' is no range of ports");
    }

    #[test]
    fn packets_match_the_rules_that_they_are_drawn_from() {
        let rules = generated(1000);
        for (packet, number) in packets(&rules, 1 << 14) {
            assert_eq!(rules[number as usize].matching().unmet(&packet, &NoSets), None, "{packet:?}");
        }
    }
}
