use super::frames::{MAC, PEER};
use crate::wire::ipv6::{ALL_NODES, ALL_ROUTERS, link_local, solicited_node};
use crate::wire::ndp::{
    NdpOption, NdpOptions, NeighbourFlags, Preference, PrefixInformation, RouterParameters,
    write_neighbour_advertisement, write_neighbour_solicitation, write_redirect, write_router_solicitation,
};
use crate::wire::transport::complete_checksum;
use crate::wire::{Ipv6, Ipv6Header, Mac, Ndp, NdpError, RouterAdvertisement};
use etherparse::{Icmpv6Slice, Icmpv6Type};
use proptest::prelude::*;
use std::net::Ipv6Addr;

const TARGET: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
const OWN: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

fn written(write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut buffer = [0; 1280];
    let length = write(&mut buffer).unwrap();
    buffer[..length].to_vec()
}

fn solicitation(source: Ipv6Addr) -> Vec<u8> {
    written(|buffer| write_neighbour_solicitation(buffer, source, solicited_node(TARGET), TARGET, MAC))
}

fn advertisement(destination: Ipv6Addr, flags: NeighbourFlags) -> Vec<u8> {
    written(|buffer| write_neighbour_advertisement(buffer, TARGET, destination, TARGET, flags, PEER))
}

fn router(source: Ipv6Addr, prefixes: &[PrefixInformation]) -> Vec<u8> {
    let says =
        RouterParameters { hop_limit: 64, other: true, lifetime_s: 1800, reachable_ms: 30_000, ..Default::default() };
    let all = RouterAdvertisement { parameters: says, mac: Some(MAC), mtu: Some(1400), prefixes, ..Default::default() };
    written(|buffer| all.write(buffer, source, ALL_NODES))
}

/// Parses a message with etherparse, which verifies the checksum, and with this crate.
fn kind(packet: &[u8]) -> Icmpv6Type {
    let header = Ipv6Header::of(packet).unwrap();
    let message = Icmpv6Slice::from_slice(&packet[40..]).unwrap();
    assert!(message.is_checksum_valid(header.source().octets(), header.destination().octets()));
    message.icmp_type()
}

fn read(packet: &[u8]) -> Result<Ndp<'_>, NdpError> {
    Ndp::of(&Ipv6::parse(packet).unwrap())
}

#[test]
fn solicitation_has_the_senders_link_address() {
    let packet = solicitation(OWN);
    assert_eq!(kind(&packet), Icmpv6Type::NeighborSolicitation);
    let Ok(Ndp::NeighbourSolicitation { target, options }) = read(&packet) else { panic!("a solicitation") };
    assert_eq!((target, options.source_mac(), options.target_mac()), (TARGET, Some(MAC), None));
    assert_eq!(Ipv6Header::of(&packet).unwrap().destination(), "ff02::1:ff00:9".parse::<Ipv6Addr>().unwrap());
}

#[test]
fn solicitation_from_unspecified_address_has_no_link_address() {
    let packet = solicitation(Ipv6Addr::UNSPECIFIED);
    let Ok(Ndp::NeighbourSolicitation { target, options }) = read(&packet) else { panic!("a solicitation") };
    assert_eq!((target, options.source_mac()), (TARGET, None));
    assert_eq!(packet.len(), 40 + 24);
}

#[test]
fn neighbour_advertisement_flags_are_parsed() {
    for bits in 0..8u8 {
        let flags = NeighbourFlags { router: bits & 4 != 0, solicited: bits & 2 != 0, overrides: bits & 1 != 0 };
        let packet = advertisement(OWN, flags);
        let Icmpv6Type::NeighborAdvertisement(theirs) = kind(&packet) else { panic!("an advertisement") };
        assert_eq!(
            (theirs.router, theirs.solicited, theirs.r#override),
            (flags.router, flags.solicited, flags.overrides)
        );
        let Ok(Ndp::NeighbourAdvertisement { flags: ours, target, options }) = read(&packet) else {
            panic!("an advertisement")
        };
        assert_eq!((ours, target, options.target_mac()), (flags, TARGET, Some(PEER)));
    }
}

#[test]
fn router_advertisement_has_parameters_and_prefixes() {
    let prefix = PrefixInformation {
        address: "2001:db8:1::".parse().unwrap(),
        length: 64,
        on_link: true,
        autonomous: true,
        valid_s: 86_400,
        preferred_s: 14_400,
    };
    let packet = router(link_local(MAC), &[prefix]);
    assert!(matches!(kind(&packet), Icmpv6Type::RouterAdvertisement(theirs) if theirs.router_lifetime == 1800));
    let Ok(Ndp::RouterAdvertisement { parameters: says, options }) = read(&packet) else { panic!("an advertisement") };
    assert_eq!((says.hop_limit, says.managed, says.other), (64, false, true));
    assert_eq!((says.lifetime_s, says.reachable_ms, says.retransmit_ms), (1800, 30_000, 0));
    let all: Vec<_> = options.into_iter().collect();
    assert_eq!(all, [NdpOption::SourceMac(MAC), NdpOption::Mtu(1400), NdpOption::Prefix(prefix)]);
}

#[test]
fn router_advertisement_has_preference_and_dns() {
    let servers = [TARGET, OWN];
    let search = ["example.org".to_string(), "a.b".to_string()];
    for (preference, bits) in [(Preference::High, 0x08), (Preference::Medium, 0), (Preference::Low, 0x18)] {
        let says = RouterParameters { managed: true, preference, ..Default::default() };
        let all = RouterAdvertisement {
            parameters: says,
            servers: &servers,
            search: &search,
            dns_lifetime_s: 600,
            ..Default::default()
        };
        let packet = written(|buffer| all.write(buffer, link_local(MAC), ALL_NODES));
        assert_eq!(packet[45], 0x80 | bits);
        let Ok(Ndp::RouterAdvertisement { parameters: read, options }) = read(&packet) else {
            panic!("an advertisement")
        };
        assert_eq!(read, says);
        let options: Vec<_> = options.into_iter().collect();
        let addresses = servers.map(|server| server.octets());
        let domains = b"\x07example\x03org\0\x01a\x01b\0\0\0\0\0\0\0";
        assert_eq!(
            options,
            [
                NdpOption::DnsServers { lifetime_s: 600, addresses: &addresses },
                NdpOption::DnsSearch { lifetime_s: 600, domains },
            ]
        );
    }
    // The reserved value means medium (RFC 4191 2.2).
    let mut packet = router(link_local(MAC), &[]);
    packet[45] |= 0x10;
    complete_checksum(&mut packet).unwrap();
    assert!(
        matches!(read(&packet), Ok(Ndp::RouterAdvertisement { parameters, .. }) if parameters.preference == Preference::Medium)
    );
}

#[test]
fn router_solicitation_parses_as_built() {
    let packet = written(|buffer| write_router_solicitation(buffer, link_local(MAC), MAC));
    assert_eq!(kind(&packet), Icmpv6Type::RouterSolicitation);
    let Ok(Ndp::RouterSolicitation { options }) = read(&packet) else { panic!("a solicitation") };
    assert_eq!(options.source_mac(), Some(MAC));
    assert_eq!(Ipv6Header::of(&packet).unwrap().destination(), ALL_ROUTERS);
}

#[test]
fn a_redirect_quotes_what_fits_in_1280_bytes() {
    for (length, expected) in [(41, 40), (48, 48), (1500, 1280 - 40 - 40 - 8 - 8)] {
        let mut original = vec![7; length];
        let spec = crate::wire::Ipv6Spec {
            traffic_class: 0,
            flow_label: 0,
            next_header: 59,
            hop_limit: 64,
            source: OWN,
            destination: TARGET,
        };
        spec.write(&mut original, length - 40).unwrap();
        let quoted = Ipv6::parse(&original).unwrap();
        let packet = written(|buffer| write_redirect(buffer, &quoted, link_local(MAC), link_local(PEER), Some(PEER)));
        let Ok(Ndp::Redirect { target, destination, options }) = read(&packet) else { panic!("a redirect") };
        assert_eq!((target, destination, options.target_mac()), (link_local(PEER), TARGET, Some(PEER)));
        let redirected = options.into_iter().find_map(|option| match option {
            NdpOption::Redirected(bytes) => Some(bytes),
            _ => None,
        });
        assert_eq!(redirected, Some(&original[..expected]), "{length}");
    }
}

#[test]
fn invalid_ndp_messages_have_their_errors() {
    let flags = |solicited| NeighbourFlags { router: true, solicited, overrides: true };
    let ask = || solicitation(OWN);
    // (name, packet, change, true to recompute the checksum, error)
    type Case = (&'static str, Vec<u8>, fn(&mut Vec<u8>), bool, NdpError);
    let cases: Vec<Case> = vec![
        ("forwarded", ask(), |p| p[7] = 254, true, NdpError::HopLimit),
        ("corrupt", ask(), |p| p[60] ^= 1, false, NdpError::Checksum),
        ("code 1", ask(), |p| p[41] = 1, true, NdpError::Code),
        ("echo", ask(), |p| p[40] = 128, true, NdpError::Kind),
        ("target a group", ask(), |p| p[48] = 0xff, true, NdpError::Target),
        ("option of no length", ask(), |p| p[65] = 0, true, NdpError::Options),
        ("option too long", ask(), |p| p[65] = 2, true, NdpError::Options),
        ("half a target", ask(), |p| shorten(p, 23), true, NdpError::Truncated),
        ("seven bytes", ask(), |p| shorten(p, 7), true, NdpError::Truncated),
        ("probe with a link address", ask(), |p| p[8..24].fill(0), true, NdpError::Source),
        (
            "probe to one host",
            solicitation(Ipv6Addr::UNSPECIFIED),
            |p| p[24..40].copy_from_slice(&TARGET.octets()),
            true,
            NdpError::Destination,
        ),
        ("solicited to a group", advertisement(ALL_NODES, flags(true)), |_| {}, true, NdpError::Destination),
        ("router from afar", router(OWN, &[]), |_| {}, true, NdpError::Source),
        ("short router", router(link_local(MAC), &[]), |p| shorten(p, 12), true, NdpError::Truncated),
    ];
    for (name, mut packet, change, resum, error) in cases {
        change(&mut packet);
        if resum {
            let _ = complete_checksum(&mut packet);
        }
        assert_eq!(read(&packet), Err(error), "{name}");
    }
    assert!(read(&advertisement(ALL_NODES, flags(false))).is_ok());
}

/// Truncates the message to this many bytes.
fn shorten(packet: &mut Vec<u8>, message: u8) {
    packet.truncate(40 + usize::from(message));
    packet[5] = message;
}

#[test]
fn invalid_redirects_have_their_errors() {
    let original = solicitation(OWN);
    let good = written(|buffer| {
        write_redirect(buffer, &Ipv6::parse(&original).unwrap(), link_local(MAC), link_local(PEER), None)
    });
    // The original was sent to a group, for which redirects are not allowed.
    assert_eq!(read(&good), Err(NdpError::Destination));
    let with = |source: Ipv6Addr, target: Ipv6Addr, destination: Ipv6Addr| {
        let mut packet = good.clone();
        packet[8..24].copy_from_slice(&source.octets());
        packet[48..64].copy_from_slice(&target.octets());
        packet[64..80].copy_from_slice(&destination.octets());
        complete_checksum(&mut packet).unwrap();
        read(&packet).map(|_| ())
    };
    let (router, better) = (link_local(MAC), link_local(PEER));
    assert_eq!(with(router, better, TARGET), Ok(()));
    assert_eq!(with(router, TARGET, TARGET), Ok(()), "the destination is on the link");
    assert_eq!(with(router, OWN, TARGET), Err(NdpError::Target));
    assert_eq!(with(OWN, better, TARGET), Err(NdpError::Source));
}

#[test]
fn options_of_other_lengths_are_unknown() {
    let bytes = [&[1, 2][..], &[0; 14], &[5, 2], &[0; 14], &[3, 1], &[0; 6], &[200, 1], &[7; 6]].concat();
    let all: Vec<_> = NdpOptions::checked(&bytes).unwrap().into_iter().collect();
    assert_eq!(
        all,
        [
            NdpOption::Unknown { kind: 1, data: &[0; 14] },
            NdpOption::Unknown { kind: 5, data: &[0; 14] },
            NdpOption::Unknown { kind: 3, data: &[0; 6] },
            NdpOption::Unknown { kind: 200, data: &[7; 6] },
        ]
    );
}

proptest! {
    #[test]
    fn ndp_message_larger_than_the_buffer_is_not_written(room in 0usize..200, source: [u8; 16], mac: [u8; 6]) {
        let mut buffer = vec![0; room];
        let source = Ipv6Addr::from(source);
        let wants = if source.is_unspecified() { 64 } else { 72 };
        let written = write_neighbour_solicitation(&mut buffer, source, solicited_node(TARGET), TARGET, Mac(mac));
        prop_assert_eq!(written, (room >= wants).then_some(wants));
        let flags = NeighbourFlags::default();
        let written = write_neighbour_advertisement(&mut buffer, source, OWN, TARGET, flags, Mac(mac));
        prop_assert_eq!(written, (room >= 72).then_some(72));
    }
}
