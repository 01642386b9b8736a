//! Valid sources and destinations: every class of source addresses with every class of destination addresses, in both families.
//! The rules are RFC 1812 5.3.7, RFC 3927 2.7, RFC 4291 2.5, and RFC 3704 for reverse paths.

use packet::DropReason;
use packet::wire::{Ipv4Spec, Ipv6Spec, checksum, ethernet, ethertype};
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::Mac;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["10.1.0.1/16", "2001:db8:1::1/64"]
[port.lan.vlan.20]
address = ["10.3.0.1/16", "169.254.3.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["10.2.0.1/16", "2001:db8:2::1/64"]
[[neighbour]]
address = "10.2.0.7"
mac = "02:00:00:00:00:99"
port = "wan"
[[neighbour]]
address = "2001:db8:2::7"
mac = "02:00:00:00:00:99"
port = "wan"
[[neighbour]]
address = "10.1.0.7"
mac = "02:00:00:00:00:98"
port = "lan"
[[neighbour]]
address = "2001:db8:1::7"
mac = "02:00:00:00:00:98"
port = "lan"
[[route]]
to = "0.0.0.0/0"
via = "10.2.0.7"
[[route]]
to = "::/0"
via = "2001:db8:2::7"
"#;

const LAN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 0xaa]);
/// An experimental protocol, unknown to the router (RFC 3692).
const NOTHING: u8 = 253;

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Sent,
    Dropped(DropReason),
}

use DropReason::{
    Broadcast, LinkLocal, LocalProtocol, MartianDestination, MartianSource, Multicast, NoRoute, ReversePath,
};
use Fate::{Dropped, Sent};

/// The destinations that a source of this kind may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    /// Every destination.
    Sender,
    /// Its own link and the router.
    LinkLocal,
    /// None: no host may send from this address.
    Nobody,
    /// Only the router (IPv6).
    Unspecified,
    /// A local address of the router: only the local protocols see the packet.
    Ours,
}

/// Sources of packets that come in by `lan`.
const SOURCES: [(&str, From); 31] = [
    ("10.1.0.9", From::Sender),
    ("203.0.113.9", From::Sender),
    ("0.0.0.0", From::Nobody),
    ("0.1.2.3", From::Nobody),
    ("127.0.0.1", From::Nobody),
    ("127.255.0.1", From::Nobody),
    ("169.254.7.7", From::LinkLocal),
    ("169.253.7.7", From::Sender),
    ("224.0.0.9", From::Nobody),
    ("239.1.1.1", From::Nobody),
    ("240.0.0.1", From::Nobody),
    ("255.255.255.255", From::Nobody),
    ("10.1.0.1", From::Nobody),
    ("10.2.0.1", From::Nobody),
    ("10.1.255.255", From::Nobody),
    ("10.1.0.0", From::Nobody),
    ("10.2.255.255", From::Nobody),
    ("10.2.0.0", From::Nobody),
    ("10.3.255.255", From::Nobody),
    ("2001:db8:1::9", From::Sender),
    ("2001:db8:77::9", From::Sender),
    ("::", From::Unspecified),
    ("::1", From::Nobody),
    ("fe80::9", From::LinkLocal),
    ("febf::9", From::LinkLocal),
    ("fd00::9", From::Sender),
    ("ff02::9", From::Nobody),
    ("::ffff:10.1.0.9", From::Nobody),
    ("2001:db8:1::1", From::Ours),
    ("2001:db8:2::1", From::Ours),
    ("fe80::ff:fe00:1", From::Ours),
];

/// Destinations, and the fate of a valid sender's packet.
const DESTINATIONS: [(&str, Fate); 26] = [
    ("10.2.0.7", Sent),
    ("198.18.0.1", Sent),
    ("10.1.0.7", Sent),
    ("10.1.0.1", Dropped(LocalProtocol)),
    ("10.2.0.1", Dropped(LocalProtocol)),
    ("169.254.3.1", Dropped(LocalProtocol)),
    ("169.254.3.9", Dropped(LinkLocal)),
    ("169.254.9.9", Dropped(LinkLocal)),
    ("0.1.2.3", Dropped(MartianDestination)),
    ("127.0.0.1", Dropped(MartianDestination)),
    ("240.0.0.1", Dropped(MartianDestination)),
    ("255.255.255.255", Dropped(Broadcast)),
    ("10.2.255.255", Dropped(Broadcast)),
    ("10.1.0.0", Dropped(Broadcast)),
    ("239.9.9.9", Dropped(Multicast)),
    ("2001:db8:2::7", Sent),
    ("2001:db8:88::1", Sent),
    ("2001:db8:1::7", Sent),
    ("2001:db8:1::1", Dropped(LocalProtocol)),
    ("2001:db8:2::1", Dropped(LocalProtocol)),
    ("fe80::9", Dropped(LinkLocal)),
    ("::", Dropped(NoRoute)),
    ("::1", Dropped(MartianDestination)),
    ("::ffff:10.2.0.7", Dropped(MartianDestination)),
    ("ff3e::9", Dropped(Multicast)),
    ("ff01::9", Dropped(Multicast)),
];

/// The fate of a packet by the rules, in order.
fn expected((source, from): (&str, From), (destination, fate): (&str, Fate)) -> Fate {
    let to_us = fate == Dropped(LocalProtocol);
    let own_link = ["10.1.0.7", "2001:db8:1::7"].contains(&destination);
    let v6 = source.contains(':');
    match from {
        // DHCP: a host without an address broadcasts from a reserved source.
        From::Nobody if destination == "255.255.255.255" && is_reserved(source) => fate,
        From::Nobody => Dropped(MartianSource),
        From::Sender => fate,
        _ if to_us => {
            // No valid sender could receive an ICMP error.
            fate
        }
        // Some invalid destinations are recognised by the address alone, before the source is checked.
        _ if [Dropped(MartianDestination), Dropped(Broadcast)].contains(&fate) && !is_subnets(destination) => fate,
        _ if v6 && fate != Sent => fate,
        From::LinkLocal if v6 && own_link => Sent,
        From::LinkLocal if fate == Dropped(Multicast) => fate,
        From::LinkLocal => Dropped(LinkLocal),
        From::Unspecified | From::Ours => Dropped(MartianSource),
    }
}

fn is_reserved(source: &str) -> bool {
    source.starts_with("0.") || source == "240.0.0.1"
}

fn is_subnets(destination: &str) -> bool {
    ["10.2.255.255", "10.1.0.0"].contains(&destination)
}

fn packet(tag: Option<u16>, (source, destination): (IpAddr, IpAddr)) -> Vec<u8> {
    let mut network = vec![0; 40];
    let kind = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            network.truncate(20);
            let (type_of_service, identification, dont_fragment, ttl, protocol) = (0, 1, true, 64, NOTHING);
            let spec = Ipv4Spec { type_of_service, identification, dont_fragment, ttl, protocol, source, destination };
            spec.write(&mut network, 8).unwrap();
            ethertype::IPV4
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let (traffic_class, flow_label, next_header, hop_limit) = (0, 0, NOTHING, 64);
            let spec = Ipv6Spec { traffic_class, flow_label, next_header, hop_limit, source, destination };
            spec.write(&mut network, 8).unwrap();
            ethertype::IPV6
        }
        _ => unreachable!("of one family"),
    };
    let mut bytes = vec![0; ethernet::header_length(tag)];
    ethernet::write_header(&mut bytes, LAN, HOST, tag, kind).unwrap();
    bytes.extend(network);
    bytes.extend([7; 8]);
    bytes
}

/// The same packet with a no-operation option, which `classify::general` handles.
fn with_option(frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    bytes.splice(34..34, [1, 1, 1, 1]);
    bytes[14] = 0x46;
    bytes[17] += 4;
    bytes[24..26].fill(0);
    let sum = checksum::checksum(&bytes[14..38]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn drops(rig: &Rig) -> Vec<(DropReason, u64)> {
    rig.report().ledger.drops().collect()
}

/// The fate of a packet between two forwarded ones, so that a result reused from the packet before would show.
fn fate(rig: &mut Rig, frame: &[u8], good: &[u8]) -> Result<Fate, String> {
    let before = drops(rig);
    for frame in [good, frame, good] {
        rig.send("lan", frame);
    }
    rig.settle();
    let mut sent = rig.received("wan").len() + rig.received("lan").len();
    // ICMP errors are the router's own packets and do not count.
    let after = drops(rig);
    let new: Vec<DropReason> = after.iter().filter(|drop| !before.contains(drop)).map(|&(reason, _)| reason).collect();
    match new[..] {
        [] if sent == 3 => Ok(Sent),
        [reason] => {
            sent = sent.min(3);
            if sent >= 2 { Ok(Dropped(reason)) } else { Err(format!("{reason}, and {sent} sent")) }
        }
        _ => Err(format!("{new:?}, {sent} sent")),
    }
}

#[test]
fn every_source_and_destination_pair_has_the_expected_fate() {
    let mut failures = Vec::new();
    let mut rig = Rig::running(4096, Layout::Three, CONFIG);
    for source in SOURCES {
        for destination in DESTINATIONS {
            let ends: (IpAddr, IpAddr) = (source.0.parse().unwrap(), destination.0.parse().unwrap());
            if ends.0.is_ipv4() != ends.1.is_ipv4() {
                continue;
            }
            let good = match ends.0 {
                IpAddr::V4(_) => packet(None, (Ipv4Addr::new(10, 1, 0, 9).into(), Ipv4Addr::new(10, 2, 0, 7).into())),
                IpAddr::V6(_) => packet(None, ("2001:db8:1::9".parse().unwrap(), "2001:db8:2::7".parse().unwrap())),
            };
            // ICMP errors are rate-limited, and wait until their receiver is resolved.
            rig.advance(units::Nanos::millis(50));
            rig.received("lan");
            rig.received("wan");
            let plain = packet(None, ends);
            let mut frames = vec![("plain", plain.clone())];
            if ends.0.is_ipv4() {
                frames.push(("with an option", with_option(&plain)));
            }
            for (name, frame) in frames {
                let wanted = expected(source, destination);
                let found = fate(&mut rig, &frame, &good);
                if found != Ok(wanted) {
                    failures.push(format!("{} to {}, {name}: {found:?} for {wanted:?}", source.0, destination.0));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Sources, and true if they pass: with `loose`, with `strict`.
const REVERSE: [(&str, bool, bool); 15] = [
    ("10.1.0.9", true, true),
    ("10.2.0.9", true, false),
    ("10.50.0.1", true, true),
    ("10.60.0.1", true, false),
    ("10.70.0.1", true, true),
    ("10.71.0.1", true, false),
    ("10.80.0.1", false, false),
    ("10.81.0.1", false, false),
    ("8.8.8.8", false, false),
    ("2001:db8:1::9", true, true),
    ("2001:db8:2::9", true, false),
    ("2001:db8:50::1", true, true),
    ("2001:db8:60::1", true, false),
    ("2001:db8:80::1", false, false),
    ("2001:4860::8", false, false),
];

const ROUTES: &str = r#"
[[route]]
to = "10.50.0.0/16"
via = "10.1.0.7"
[[route]]
to = "10.60.0.0/16"
via = "10.2.0.7"
[[route]]
to = "10.70.0.0/16"
via = ["10.1.0.7", "10.2.0.7"]
[[route]]
to = "10.71.0.0/16"
via = ["10.2.0.7", "10.2.0.8"]
[[route]]
to = "10.80.0.0/16"
blackhole = true
[[route]]
to = "10.81.0.0/16"
unreachable = true
[[route]]
to = "2001:db8:50::/48"
via = "2001:db8:1::7"
[[route]]
to = "2001:db8:60::/48"
via = "2001:db8:2::7"
[[route]]
to = "2001:db8:80::/48"
blackhole = true
"#;

/// `CONFIG` with other default routes and with this check at `lan`.
fn checking(check: &str) -> String {
    let start = CONFIG.find("[[route]]").unwrap();
    let at_lan = format!("mac = \"02:00:00:00:00:01\"\nreverse_path = \"{check}\"");
    CONFIG[..start].replace("mac = \"02:00:00:00:00:01\"", &at_lan) + ROUTES
}

#[test]
fn reverse_path_check_follows_the_mode_of_the_interface() {
    for (check, strict) in [("off", None), ("loose", Some(false)), ("strict", Some(true))] {
        let mut rig = Rig::running(4096, Layout::Three, &checking(check));
        for (source, loosely, strictly) in REVERSE {
            let passes = strict.is_none_or(|strict| if strict { strictly } else { loosely });
            let source: IpAddr = source.parse().unwrap();
            let (good, to): (IpAddr, IpAddr) = match source {
                IpAddr::V4(_) => (Ipv4Addr::new(10, 1, 0, 10).into(), Ipv4Addr::new(10, 2, 0, 7).into()),
                IpAddr::V6(_) => ("2001:db8:1::10".parse().unwrap(), "2001:db8:2::7".parse().unwrap()),
            };
            let good = packet(None, (good, to));
            let plain = packet(None, (source, to));
            let mut frames = vec![plain.clone()];
            if source.is_ipv4() {
                frames.push(with_option(&plain));
            }
            for frame in frames {
                let wanted = if passes { Sent } else { Dropped(ReversePath) };
                assert_eq!(fate(&mut rig, &frame, &good), Ok(wanted), "{check}: {source}");
            }
        }
    }
}

#[test]
fn vlan_inherits_the_reverse_path_mode_of_its_port() {
    for (port, vlan, passes) in [
        ("strict", "", false),
        ("strict", "reverse_path = \"off\"\n", true),
        ("off", "reverse_path = \"strict\"\n", false),
    ] {
        let config = checking(port).replace("[port.lan.vlan.20]\n", &format!("[port.lan.vlan.20]\n{vlan}"));
        let mut rig = Rig::running(4096, Layout::Three, &config);
        let (own, elsewhere, to) = (Ipv4Addr::new(10, 3, 0, 9), Ipv4Addr::new(10, 1, 0, 9), Ipv4Addr::new(10, 2, 0, 7));
        let good = packet(Some(20), (own.into(), to.into()));
        let wanted = if passes { Sent } else { Dropped(ReversePath) };
        let frame = packet(Some(20), (elsewhere.into(), to.into()));
        assert_eq!(fate(&mut rig, &frame, &good), Ok(wanted), "{port} {vlan}");
    }
}

#[test]
fn neighbour_discovery_passes_reverse_path_checks() {
    let mut rig = Rig::running(4096, Layout::Three, &checking("strict"));
    // Duplicate address detection takes a second.
    rig.advance(units::Nanos::secs(5));
    rig.received("lan");
    for source in ["fe80::9", "::", "2001:db8:1::9"] {
        let source: Ipv6Addr = source.parse().unwrap();
        let router: Ipv6Addr = "2001:db8:1::1".parse().unwrap();
        let group = packet::wire::ipv6::solicited_node(router);
        let mut bytes = vec![0; 128];
        let length = packet::wire::ndp::write_neighbour_solicitation(&mut bytes, source, group, router, HOST).unwrap();
        let mut frame = vec![0; 14];
        let to = packet::wire::ipv6::multicast_mac(group);
        ethernet::write_header(&mut frame, to, HOST, None, ethertype::IPV6).unwrap();
        frame.extend(&bytes[..length]);
        rig.send("lan", &frame);
        rig.settle();
        assert!(!rig.received("lan").is_empty(), "{source} is answered");
        assert_eq!(rig.report().ledger.dropped_for(ReversePath), 0);
    }
}
