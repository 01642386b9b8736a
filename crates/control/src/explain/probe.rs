//! A packet in words, as the user of `explain` writes it.
//!
//! ```text
//! packet = { "in" INTERFACE | "eth" | "ip" | "ip6" | "tcp" | "udp" | "icmp" | "icmpv6" | "df" | field VALUE }
//! field  = "smac" | "dmac" | "saddr" | "daddr" | "dscp" | "ecn" | "ttl" | "len" | "proto" | "sport" | "dport"
//! ```
//!
//! Everything has a default: a packet of 60 bytes with a time to live of 64, from the first host of the interface's prefix to the router itself. A
//! field may follow its header, or be written alone.

use packet::wire::{Ipv4Spec, Ipv6Spec, complete_checksum, ethernet, ethertype, icmp4, icmp6, protocol, transport};
use plan::{TextError, did_you_mean, dscp_number, protocol_number, quote};
use plane::snapshot::Snapshot;
use stack::Interface;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Mac, PortId};

/// The known words.
const WORDS: &[&str] = &[
    "in", "iif", "eth", "ip", "ip6", "tcp", "udp", "icmp", "icmpv6", "df", "smac", "dmac", "saddr", "daddr", "dscp",
    "ecn", "ttl", "hoplimit", "len", "proto", "sport", "dport",
];
/// The longest packet in bytes.
const LONGEST: u16 = u16::MAX;

/// A packet in words. Missing fields have defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Probe {
    interface: Option<String>,
    smac: Option<Mac>,
    dmac: Option<Mac>,
    is_ipv6: Option<bool>,
    saddr: Option<IpAddr>,
    daddr: Option<IpAddr>,
    dscp: u8,
    ecn: u8,
    ttl: Option<u8>,
    length: Option<u16>,
    protocol: Option<u8>,
    sport: Option<u16>,
    dport: Option<u16>,
    dont_fragment: bool,
}

/// Why a packet cannot arrive here: the reason, and a remedy.
pub(crate) type ProbeError = (String, String);

impl Probe {
    /// Parses a packet in words.
    pub fn parse(text: &str) -> Result<Probe, TextError> {
        let mut probe = Probe::default();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let at = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
            let wrong = |part: &str, reason: String, hint: &str| TextError {
                offset: at(part),
                length: part.len(),
                reason,
                hint: hint.to_owned(),
            };
            match word {
                "eth" => {}
                "df" => probe.dont_fragment = true,
                "ip" => probe.is_ipv6 = Some(false),
                "ip6" => probe.is_ipv6 = Some(true),
                "tcp" => probe.protocol = Some(protocol::TCP),
                "udp" => probe.protocol = Some(protocol::UDP),
                "icmp" => (probe.is_ipv6, probe.protocol) = (Some(false), Some(protocol::ICMP)),
                "icmpv6" => (probe.is_ipv6, probe.protocol) = (Some(true), Some(protocol::ICMPV6)),
                known if WORDS.contains(&known) => {
                    let end = TextError {
                        offset: text.trim_end().len(),
                        length: 0,
                        reason: format!("'{word}' is not followed by its value"),
                        hint: "add it".to_owned(),
                    };
                    let value = words.next().ok_or(end)?;
                    let taken = probe.set(known, value);
                    taken.map_err(|hint| wrong(value, format!("{} is no value for '{known}'", quote(value)), hint))?;
                }
                other => {
                    let hint = did_you_mean(other, WORDS.iter().copied());
                    return Err(wrong(other, format!("{} says nothing of a packet", quote(other)), &hint));
                }
            }
        }
        probe.check_families(text)?;
        Ok(probe)
    }

    /// Sets a field; returns a hint if the value is invalid.
    fn set(&mut self, word: &str, value: &str) -> Result<(), &'static str> {
        fn number<T: std::str::FromStr>(value: &str, hint: &'static str) -> Result<T, &'static str> {
            value.parse().map_err(|_| hint)
        }
        match word {
            "in" | "iif" => self.interface = Some(value.to_owned()),
            "smac" => self.smac = Some(number(value, "write a MAC address: 02:00:00:00:00:01")?),
            "dmac" => self.dmac = Some(number(value, "write a MAC address: 02:00:00:00:00:01")?),
            "saddr" => self.saddr = Some(number(value, "write an address: 192.0.2.7")?),
            "daddr" => self.daddr = Some(number(value, "write an address: 192.0.2.7")?),
            "dscp" => self.dscp = dscp_number(value).ok_or("write a class or a number from 0 to 63: ef, af41, 46")?,
            "ecn" => {
                self.ecn =
                    number(value, "write 0 to 3").and_then(|ecn| if ecn < 4 { Ok(ecn) } else { Err("write 0 to 3") })?
            }
            "ttl" | "hoplimit" => self.ttl = Some(number(value, "write 0 to 255")?),
            "len" => self.length = Some(number(value, "write the length of the IP packet in bytes: 1400")?),
            "proto" => self.protocol = Some(protocol_number(value).ok_or("write a protocol: tcp, udp, gre, 89")?),
            "sport" => self.sport = Some(number(value, "write a port: 5060")?),
            "dport" => self.dport = Some(number(value, "write a port: 5060")?),
            _ => unreachable!("every word of the table is dealt with"),
        }
        Ok(())
    }

    /// Checks that addresses and headers belong to one family.
    fn check_families(&mut self, text: &str) -> Result<(), TextError> {
        let families = [self.is_ipv6, self.saddr.map(|a| a.is_ipv6()), self.daddr.map(|a| a.is_ipv6())];
        let mut said = families.into_iter().flatten();
        let first = said.next();
        if said.any(|other| Some(other) != first) {
            let reason = "IPv4 and IPv6 are mixed".to_owned();
            let hint = "a packet has one IP version: write addresses of one family".to_owned();
            return Err(TextError { offset: 0, length: text.len(), reason, hint });
        }
        self.is_ipv6 = first;
        Ok(())
    }

    /// Returns the ingress port and the frame.
    pub(crate) fn frame(&self, snapshot: &Snapshot) -> Result<(PortId, Vec<u8>), ProbeError> {
        let interface = self.interface_of(snapshot)?;
        let is_ipv6 = self.is_ipv6.unwrap_or(interface.ipv4.is_empty() && !interface.ipv6.is_empty());
        let l4 = self.l4();
        let header = if is_ipv6 { 40 } else { 20 };
        let length = self.length.map_or(60.max(header + l4.len()), usize::from);
        let Some(payload) = length.checked_sub(header).filter(|payload| *payload >= l4.len()) else {
            let least = header + l4.len();
            return Err((
                format!("{length} bytes are too few for its headers"),
                format!("write 'len {least}' or more"),
            ));
        };
        let mut l3 = vec![0; length];
        l3[header..header + l4.len()].copy_from_slice(&l4);
        if self.protocol.unwrap_or(protocol::UDP) == protocol::UDP {
            l3[header + 4..header + 6].copy_from_slice(&(payload as u16).to_be_bytes());
        }
        if is_ipv6 {
            self.write6(interface, &mut l3, payload)
        } else {
            self.write4(interface, &mut l3, payload)
        };
        let fits = "the length was checked";
        match self.protocol {
            Some(protocol::ICMP) => {
                let sum = packet::wire::checksum::checksum(&l3[header..]);
                l3[header + 2..header + 4].copy_from_slice(&sum.to_be_bytes());
            }
            _ => complete_checksum(&mut l3).expect(fits),
        }
        let ethernet = ethernet::header_length(interface.vlan);
        let mut frame = vec![0; ethernet];
        let kind = if is_ipv6 { ethertype::IPV6 } else { ethertype::IPV4 };
        let source = self.smac.unwrap_or(Mac([2, 0, 0, 0, 0, 1]));
        let destination = self.dmac.unwrap_or(interface.mac);
        ethernet::write_header(&mut frame, destination, source, interface.vlan, kind).expect(fits);
        frame.extend(l3);
        // The minimum length of an Ethernet frame, without its check sequence.
        frame.resize(frame.len().max(60), 0);
        Ok((interface.port, frame))
    }

    fn interface_of<'s>(&self, snapshot: &'s Snapshot) -> Result<&'s Interface, ProbeError> {
        let names: Vec<&str> = snapshot.interfaces.iter().map(|interface| interface.name.as_str()).collect();
        if let Some(name) = &self.interface {
            let unknown = || {
                let reason = format!("there is no interface {}", quote(name));
                (reason, format!("the interfaces are {}", names.join(", ")))
            };
            return snapshot.interface_named(name).ok_or_else(unknown);
        }
        let covers = |interface: &&Interface| match self.saddr {
            Some(IpAddr::V4(address)) => interface.ipv4.iter().any(|own| own.covers(address)),
            Some(IpAddr::V6(address)) => interface.ipv6.iter().any(|own| own.covers(address)),
            None => false,
        };
        let with_addresses = |interface: &&Interface| !interface.ipv4.is_empty() || !interface.ipv6.is_empty();
        let interfaces = || snapshot.interfaces.iter();
        let found =
            interfaces().find(covers).or_else(|| interfaces().find(with_addresses)).or_else(|| interfaces().next());
        found.ok_or_else(|| ("the router has no interface".to_owned(), "configure a port".to_owned()))
    }

    /// Builds the transport header: its ports and its mandatory fields.
    fn l4(&self) -> Vec<u8> {
        let ports = |header: &mut Vec<u8>| {
            header[..2].copy_from_slice(&self.sport.unwrap_or(40_000).to_be_bytes());
            header[2..4].copy_from_slice(&self.dport.unwrap_or(9).to_be_bytes());
        };
        match self.protocol.unwrap_or(protocol::UDP) {
            protocol::UDP => {
                let mut header = vec![0; transport::UDP_HEADER];
                ports(&mut header);
                header
            }
            protocol::TCP => {
                let mut header = vec![0; transport::TCP_HEADER];
                ports(&mut header);
                // A header of five words, SYN, a full window.
                (header[12], header[13]) = (5 << 4, 2);
                header[14..16].fill(0xff);
                header
            }
            protocol::ICMP => vec![icmp4::ECHO_REQUEST, 0, 0, 0, 0, 1, 0, 1],
            protocol::ICMPV6 => vec![icmp6::ECHO_REQUEST, 0, 0, 0, 0, 1, 0, 1],
            _ => Vec::new(),
        }
    }

    fn write4(&self, interface: &Interface, l3: &mut [u8], payload: usize) {
        let own = interface.ipv4.first().map_or(Ipv4Addr::UNSPECIFIED, |own| own.address);
        // An address next to it, but not the first or the last of its prefix.
        let beside = |bits: u32| Ipv4Addr::from_bits(own.to_bits() ^ bits);
        let ends =
            |address| interface.ipv4.first().is_some_and(|a| [a.network(), a.broadcast()].contains(&Some(address)));
        let host = if ends(beside(1)) { beside(3) } else { beside(1) };
        let v4 = |address: Option<IpAddr>| match address {
            Some(IpAddr::V4(address)) => Some(address),
            _ => None,
        };
        let spec = Ipv4Spec {
            type_of_service: self.dscp << 2 | self.ecn,
            identification: 1,
            dont_fragment: self.dont_fragment,
            ttl: self.ttl.unwrap_or(64),
            protocol: self.protocol.unwrap_or(protocol::UDP),
            source: v4(self.saddr).unwrap_or(host),
            destination: v4(self.daddr).unwrap_or(own),
        };
        spec.write(l3, payload).expect("a length of 16 bits fits");
    }

    fn write6(&self, interface: &Interface, l3: &mut [u8], payload: usize) {
        let own = interface.ipv6.first().map_or(Ipv6Addr::UNSPECIFIED, |own| own.address);
        let v6 = |address: Option<IpAddr>| match address {
            Some(IpAddr::V6(address)) => Some(address),
            _ => None,
        };
        let spec = Ipv6Spec {
            traffic_class: self.dscp << 2 | self.ecn,
            flow_label: 0,
            next_header: self.protocol.unwrap_or(protocol::UDP),
            hop_limit: self.ttl.unwrap_or(64),
            source: v6(self.saddr).unwrap_or(Ipv6Addr::from_bits(own.to_bits() ^ 3)),
            destination: v6(self.daddr).unwrap_or(own),
        };
        spec.write(l3, payload.min(LONGEST.into())).expect("a length of 16 bits fits");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::wire::{PacketFields, summary, transport::verify_checksum};
    use plane::rig::Rig;
    use plane::snapshot::Layout;
    use proptest::prelude::*;

    const CONFIG: &str = r#"
        version = 1
        [port.lan]
        device = "memory:lan"
        mac = "02:00:00:00:00:01"
        address = ["192.0.2.1/24", "2001:db8::1/64"]
        [port.wan]
        device = "memory:wan"
        [port.wan.vlan.7]
        address = ["10.7.0.1/24"]
    "#;

    fn told(text: &str) -> String {
        let rig = Rig::running(64, Layout::Three, CONFIG);
        let frame = Probe::parse(text).map_err(|e| e.to_string()).and_then(|probe| {
            let (port, frame) =
                probe.frame(rig.router.snapshot()).map_err(|(reason, hint)| format!("{reason}; {hint}"))?;
            let name = rig.router.snapshot().port(port).map(|view| view.name.to_string()).unwrap_or_default();
            if PacketFields::of(&frame).is_some_and(|f| f.protocol != protocol::ICMP) {
                let l3 = PacketFields::of(&frame).map_or(14, |fields| fields.l3_offset);
                assert_ne!(verify_checksum(&frame[l3..]), Ok(Some(false)), "{text}");
            }
            Ok(format!("{name}: {}", summary(&frame)))
        });
        frame.unwrap_or_else(|error| error)
    }

    #[test]
    fn packet_description_builds_matching_frame() {
        let cases = [
            "in lan ip saddr 192.0.2.5 daddr 198.51.100.9 udp dport 5060 dscp ef len 1400 ttl 64",
            "",
            "tcp dport 443 daddr 203.0.113.9",
            "saddr 10.7.0.9 icmp daddr 192.0.2.1",
            "ip6 daddr 2001:db8:9::1 udp",
            "in wan.7 proto gre daddr 8.8.8.8 ttl 1",
            "in nowhere",
            "ip daddr 2001:db8::1",
            "len 10",
            "udp dport",
            "udp dport x",
            "upd dport 5",
        ];
        let lines: Vec<String> = cases.iter().map(|case| told(case)).collect();
        expect_test::expect![[r#"
            lan: 192.0.2.5.40000 > 198.51.100.9.5060 UDP 1372 bytes ttl 64
            lan: 192.0.2.2.40000 > 192.0.2.1.9 UDP 32 bytes ttl 64
            lan: 192.0.2.2.40000 > 203.0.113.9.443 TCP [S] seq 0 win 65535 20 bytes ttl 64
            wan: vlan 7 10.7.0.9 > 192.0.2.1 ICMP echo request id 1 seq 1 32 bytes ttl 64
            lan: 2001:db8::2.40000 > 2001:db8:9::1.9 UDP 12 bytes hlim 64
            wan: vlan 7 10.7.0.2 > 8.8.8.8 protocol 47 40 bytes ttl 1
            there is no interface 'nowhere'; the interfaces are lan, wan, wan.7
            IPv4 and IPv6 are mixed (at character 1); a packet has one IP version: write addresses of one family
            10 bytes are too few for its headers; write 'len 28' or more
            'dport' is not followed by its value (at character 10); add it
            'x' is no value for 'dport' (at character 11); write a port: 5060
            'upd' says nothing of a packet (at character 1); did you mean 'udp'?"#]]
        .assert_eq(&lines.join("\n"));
    }

    proptest! {
        #[test]
        fn probe_parser_accepts_any_words(words in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(WORDS).prop_map(str::to_owned),
                "[0-9]{1,6}", "[0-9a-f:.]{1,20}", Just("lan".to_owned()), Just("2001:db8::9".to_owned()), any::<String>(),
            ], 0..12,
        )) {
            let rig = Rig::new(64, Layout::Three, Box::new(packet::event::Silent));
            if let Ok(probe) = Probe::parse(&words.join(" ")) {
                let _ = probe.frame(rig.router.snapshot());
            }
        }
    }
}
