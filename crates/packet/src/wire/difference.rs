//! The differences between two states of a frame, by field: the effect of a packet function.

use super::{Arp, Ethernet, Ipv4, Ipv6, LengthOrType, ethertype, transport};
use std::collections::BTreeMap;

/// A field that changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldDifference {
    /// The name of the field in matches and captures: `ip ttl`, `eth daddr`.
    pub field: &'static str,
    /// Its value before, a dash if it had none.
    pub before: String,
    /// Its value after, a dash if it has none.
    pub after: String,
}

/// The fields in which two frames differ, outer headers first. Bytes without a named field are reported as `payload`, with the number of different
/// bytes.
pub fn differences(before: &[u8], after: &[u8]) -> Vec<FieldDifference> {
    let (old, new) = (fields(before), fields(after));
    let value = |fields: &NamedFields, key| fields.get(&key).cloned().unwrap_or_else(|| "-".to_owned());
    let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).copied().collect();
    let differs = |key: &Key| old.get(key) != new.get(key);
    let mut found: Vec<FieldDifference> = keys
        .into_iter()
        .filter(differs)
        .map(|key| FieldDifference { field: key.1, before: value(&old, key), after: value(&new, key) })
        .collect();
    let (a, b) = (after_headers(before), after_headers(after));
    let changed = a.iter().zip(b).filter(|(a, b)| a != b).count() + a.len().abs_diff(b.len());
    if changed > 0 {
        let after = format!("{} bytes, {changed} of them other", b.len());
        found.push(FieldDifference { field: "payload", before: format!("{} bytes", a.len()), after });
    }
    if found.is_empty() && before != after {
        // A change without a named field: a flag, a priority.
        let at = before.iter().zip(after).take_while(|(a, b)| a == b).count();
        let from = |frame: &[u8]| hex(frame.get(at..frame.len().min(at + 4)).unwrap_or_default());
        found.push(FieldDifference { field: "header", before: from(before), after: from(after) });
    }
    found
}

/// The position of a field in the report, and its name.
type Key = (u8, &'static str);
type NamedFields = BTreeMap<Key, String>;

fn fields(frame: &[u8]) -> NamedFields {
    let mut named = NamedFields::new();
    let Ok(link) = Ethernet::parse(frame) else { return named };
    named.insert((0, "eth daddr"), link.destination.to_string());
    named.insert((1, "eth saddr"), link.source.to_string());
    if let Some(vlan) = link.vlan {
        named.insert((2, "vlan id"), vlan.id.to_string());
    }
    let l3 = frame.get(link.payload..).unwrap_or_default();
    match link.length_or_type {
        LengthOrType::Ethertype(ethertype::IPV4) => ipv4(l3, &mut named),
        LengthOrType::Ethertype(ethertype::IPV6) => ipv6(l3, &mut named),
        LengthOrType::Ethertype(ethertype::ARP) => arp(l3, &mut named),
        LengthOrType::Ethertype(_) | LengthOrType::Length(_) | LengthOrType::SecondTag(_) => {}
    }
    let kind = match link.length_or_type {
        LengthOrType::Ethertype(kind) => format!("0x{kind:04x}"),
        LengthOrType::Length(length) => format!("{length} bytes of 802.3"),
        LengthOrType::SecondTag(_) => "a second tag".to_owned(),
    };
    named.insert((3, "ethertype"), kind);
    named
}

fn ipv4(l3: &[u8], named: &mut NamedFields) {
    let Ok(packet) = Ipv4::parse_without_checksum(l3) else { return };
    let header = packet.header;
    named.insert((10, "ip saddr"), header.source().to_string());
    named.insert((11, "ip daddr"), header.destination().to_string());
    named.insert((12, "ip dscp"), header.dscp().to_string());
    named.insert((13, "ip ecn"), header.ecn().to_string());
    named.insert((14, "ip ttl"), header.ttl().to_string());
    named.insert((15, "ip length"), packet.bytes.len().to_string());
    named.insert((16, "ip id"), header.identification().to_string());
    named.insert(
        (17, "ip fragment"),
        format!("{}{}", header.fragment_offset(), if header.more_fragments() { "+" } else { "" }),
    );
    named.insert((18, "ip protocol"), header.protocol().to_string());
    if !packet.options.is_empty() {
        named.insert((19, "ip options"), hex(packet.options));
    }
    let sum = packet.bytes.get(10..).and_then(|rest| rest.first_chunk::<2>()).map(|sum| u16::from_be_bytes(*sum));
    named.insert((20, "ip checksum"), format!("0x{:04x}", sum.unwrap_or(0)));
    if header.is_first() {
        ports(header.protocol(), packet.payload, named);
    }
}

fn ipv6(l3: &[u8], named: &mut NamedFields) {
    let Ok(packet) = Ipv6::parse(l3) else { return };
    let header = packet.header;
    named.insert((10, "ip6 saddr"), header.source().to_string());
    named.insert((11, "ip6 daddr"), header.destination().to_string());
    named.insert((12, "ip6 dscp"), header.dscp().to_string());
    named.insert((13, "ip6 ecn"), header.ecn().to_string());
    named.insert((14, "ip6 hoplimit"), header.hop_limit().to_string());
    named.insert((15, "ip6 length"), packet.bytes.len().to_string());
    named.insert((18, "ip6 nexthdr"), header.next_header().to_string());
    if let Some((protocol, at)) = packet.chain().ok().and_then(|chain| Some((chain.protocol, chain.offset?))) {
        ports(protocol, packet.bytes.get(at..).unwrap_or_default(), named);
    }
}

fn ports(protocol: u8, l4: &[u8], named: &mut NamedFields) {
    if let Some((source, destination)) = transport::ports(protocol, l4) {
        named.insert((30, "sport"), source.to_string());
        named.insert((31, "dport"), destination.to_string());
    }
}

fn arp(l3: &[u8], named: &mut NamedFields) {
    let Ok(arp) = Arp::parse(l3) else { return };
    named.insert((10, "arp operation"), format!("{:?}", arp.operation).to_lowercase());
    named.insert((11, "arp sender"), format!("{} {}", arp.sender_ip, arp.sender_mac));
    named.insert((12, "arp target"), format!("{} {}", arp.target_ip, arp.target_mac));
}

/// The bytes after the headers with named fields, without the ports.
fn after_headers(frame: &[u8]) -> &[u8] {
    let Ok(link) = Ethernet::parse(frame) else { return frame };
    let l3 = frame.get(link.payload..).unwrap_or_default();
    let of_ports = |protocol: u8, l4: &[u8]| if transport::ports(protocol, l4).is_some() { 4 } else { 0 };
    let at = match link.length_or_type {
        LengthOrType::Ethertype(ethertype::IPV4) => Ipv4::parse_without_checksum(l3).ok().map(|packet| {
            let first = packet.header.is_first();
            packet.header_length() + if first { of_ports(packet.header.protocol(), packet.payload) } else { 0 }
        }),
        LengthOrType::Ethertype(ethertype::IPV6) => Ipv6::parse(l3).ok().map(|packet| {
            let chain = packet.chain().ok().and_then(|chain| Some((chain.protocol, chain.offset?)));
            chain.map_or(super::ipv6::HEADER, |(protocol, at)| {
                at + of_ports(protocol, packet.bytes.get(at..).unwrap_or_default())
            })
        }),
        LengthOrType::Ethertype(ethertype::ARP) => Arp::parse(l3).ok().map(|_| l3.len()),
        _ => None,
    };
    l3.get(at.unwrap_or(0)..).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Ipv4Spec, ethernet, ipv4, protocol};
    use std::net::Ipv4Addr;
    use units::Mac;

    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 60];
        ethernet::write_header(
            &mut frame[..14],
            Mac([2, 0, 0, 0, 0, 1]),
            Mac([2, 0, 0, 0, 0, 2]),
            None,
            ethertype::IPV4,
        );
        let spec = Ipv4Spec {
            type_of_service: 0,
            identification: 7,
            dont_fragment: true,
            ttl: 64,
            protocol: protocol::UDP,
            source: Ipv4Addr::new(192, 0, 2, 7),
            destination: Ipv4Addr::new(198, 51, 100, 9),
        };
        spec.write(&mut frame[14..], 26).unwrap();
        frame
    }

    fn changed_fields(before: &[u8], after: &[u8]) -> Vec<String> {
        let tell = |d: FieldDifference| format!("{} {} -> {}", d.field, d.before, d.after);
        differences(before, after).into_iter().map(tell).collect()
    }

    #[test]
    fn forwarding_changes_macs_ttl_and_checksum() {
        let before = frame();
        let mut after = before.clone();
        after[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        ipv4::decrement_ttl(after[14..].first_chunk_mut().unwrap());
        let sum = |frame: &[u8]| format!("0x{:02x}{:02x}", frame[24], frame[25]);
        let expected = [
            "eth daddr 02:00:00:00:00:01 -> 02:00:00:00:00:09".to_owned(),
            "ip ttl 64 -> 63".to_owned(),
            format!("ip checksum {} -> {}", sum(&before), sum(&after)),
        ];
        assert_eq!(changed_fields(&before, &after), expected);
        assert!(changed_fields(&before, &before).is_empty());
    }

    #[test]
    fn every_changed_byte_is_reported() {
        let before = frame();
        for at in 0..before.len() {
            for bit in 0..8 {
                let mut after = before.clone();
                after[at] ^= 1 << bit;
                assert!(!differences(&before, &after).is_empty(), "byte {at}, bit {bit}");
            }
        }
        let longer = [&before[..], &[1; 10]].concat();
        assert_eq!(changed_fields(&before, &longer), ["payload 22 bytes -> 32 bytes, 10 of them other"]);
    }
}
