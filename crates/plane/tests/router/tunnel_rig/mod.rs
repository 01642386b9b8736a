//! Routers with tunnels, and the packets that pass them.

use packet::DropReason;
use packet::wire::{Ethernet, Ipv4, Ipv4Spec, Ipv6, Ipv6Spec, ethernet, ethertype};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::net::IpAddr;
use units::Mac;

/// A router with the ports `lan` and `wan`, and the sections of `more`. The last byte of its addresses is `own` on the WAN, that of its networks on the
/// LAN `lan`. Both hosts and the other router are neighbours.
pub fn config((own, lan): (u8, u8), peer: u8, more: &str) -> String {
    format!(
        r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:{lan:02x}:01"
address = ["10.{lan}.0.1/16", "2001:db8:{lan}::1/64"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:{own:02x}"
address = ["198.51.100.{own}/24", "2001:db8:ffff::{own}/64"]
[[neighbour]]
address = "10.{lan}.0.7"
mac = "02:00:00:00:{lan:02x}:07"
port = "lan"
[[neighbour]]
address = "2001:db8:{lan}::7"
mac = "02:00:00:00:{lan:02x}:07"
port = "lan"
[[neighbour]]
address = "198.51.100.{peer}"
mac = "02:00:00:00:00:{peer:02x}"
port = "wan"
[[neighbour]]
address = "2001:db8:ffff::{peer}"
mac = "02:00:00:00:00:{peer:02x}"
port = "wan"
{more}"#
    )
}

/// A tunnel port `tun` of this kind between the ends of the family, with routes to the LAN of the other end.
pub fn tunnel(kind: &str, is_ipv4: bool, (own, peer): (u8, u8), peer_lan: u8, keys: &str) -> String {
    let end = |last: u8| if is_ipv4 { format!("198.51.100.{last}") } else { format!("2001:db8:ffff::{last}") };
    let (local, remote) = (end(own), end(peer));
    format!(
        r#"
[port.tun]
device = "{kind}:{remote}"
address = ["10.255.0.{own}/24", "2001:db8:255::{own}/64"]
[port.tun.tunnel]
local = "{local}"
{keys}
[[route]]
to = "10.{peer_lan}.0.0/16"
via = "10.255.0.{peer}"
[[route]]
to = "2001:db8:{peer_lan}::/64"
via = "2001:db8:255::{peer}"
"#
    )
}

/// Both ends of a tunnel: the LAN of the left router is number 1, that of the right one number 2.
pub fn ends(kind: &str, is_ipv4: bool, keys: &str) -> [Rig; 2] {
    let one = config((1, 1), 2, &tunnel(kind, is_ipv4, (1, 2), 2, keys));
    let two = config((2, 2), 1, &tunnel(kind, is_ipv4, (2, 1), 1, keys));
    [one, two].map(|config| Rig::running(4096, Layout::Three, &config))
}

/// An IP packet between two hosts with this traffic class.
pub fn packet(from: &str, to: &str, class: u8, dont_fragment: bool, length: usize) -> Vec<u8> {
    let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let mut bytes = vec![0; length];
    let written = match (from, to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ipv4Spec {
            type_of_service: class,
            identification: 99,
            dont_fragment,
            ttl: 9,
            protocol: 253,
            source,
            destination,
        }
        .write(&mut bytes, length - 20),
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Ipv6Spec { traffic_class: class, flow_label: 5, next_header: 253, hop_limit: 9, source, destination }
                .write(&mut bytes, length - 40)
        }
        _ => None,
    };
    let header = written.unwrap();
    bytes[header..].iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
    bytes
}

/// The frame of an IP packet to this MAC address.
pub fn frame(to: Mac, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14];
    let kind = if packet[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
    ethernet::write_header(&mut frame, to, Mac([2, 0, 0, 0, 9, 9]), None, kind).unwrap();
    frame.extend_from_slice(packet);
    frame
}

/// The MAC address of the LAN port of a router, by its number.
pub fn lan_mac(lan: u8) -> Mac {
    Mac([2, 0, 0, 0, lan, 1])
}

/// The MAC address of the WAN port of a router.
pub fn wan_mac(own: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, own])
}

/// A host of the router's LAN sends a packet.
pub fn send(rig: &mut Rig, lan: u8, packet: &[u8]) {
    rig.send("lan", &frame(lan_mac(lan), packet));
    rig.settle();
}

/// A packet arrives from the WAN.
pub fn arrive(rig: &mut Rig, own: u8, packet: &[u8]) {
    rig.send("wan", &frame(wan_mac(own), packet));
    rig.settle();
}

/// The IP packets that a host has received, without ARP. Each is checked.
pub fn received(rig: &mut Rig, wire: &str) -> Vec<Vec<u8>> {
    let l3 = |frame: &Vec<u8>| {
        let link = Ethernet::parse(frame).unwrap();
        let l3 = frame[link.payload..].to_vec();
        let length = match link.ethertype() {
            Some(ethertype::IPV4) => Ipv4::parse(&l3).unwrap().bytes.len(),
            Some(ethertype::IPV6) => Ipv6::parse(&l3).unwrap().bytes.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(length, l3.len());
        l3
    };
    let arp = ethertype::ARP.to_be_bytes();
    rig.received(wire).iter().filter(|frame| frame[12..14] != arp).map(l3).collect()
}

/// Carries all frames between the WANs of two routers until none is left.
pub fn exchange(rigs: &mut [Rig; 2]) {
    loop {
        let [left, right] = rigs;
        let (out, back) = (left.received("wan"), right.received("wan"));
        if out.is_empty() && back.is_empty() {
            return;
        }
        out.iter().for_each(|frame| right.send("wan", frame));
        back.iter().for_each(|frame| left.send("wan", frame));
        left.settle();
        right.settle();
    }
}

/// Packets that a router has dropped for a reason.
pub fn dropped(rig: &Rig, reason: DropReason) -> u64 {
    rig.report().ledger.dropped_for(reason)
}

/// The drops of a router by reason.
pub fn drops(rig: &Rig) -> Vec<(DropReason, u64)> {
    rig.report().ledger.drops().collect()
}
