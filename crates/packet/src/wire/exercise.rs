//! Runs every parser on one frame and checks the invariants of its results: the entry point of fuzzing, corpora and soak runs.

use super::application;
use super::ipv6_extensions::check_hop_by_hop;
use super::{Arp, Cast, Error4, Error6, Ethernet, Icmp4, Icmp6, Ipv4, Ipv6, Ndp, PacketFields, summary};
use super::{Gre, vxlan_vni};
use super::{Segmenter, offload};
use super::{flow_hash, icmp4, icmp6, ipv4, ipv4_options, ipv6, may_answer_with_error4, may_answer_with_error6};
use super::{mld, ndp, transport};
use crate::pool::{Offload, PartialChecksum, Segmentation};
use std::fmt::{self, Write};
use std::net::Ipv4Addr;

/// The source address of replies.
const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Longer frames are truncated to this length, so that the copies fit on the stack.
const LONGEST: usize = 2048;

/// Runs every parser and every modifying operation on `frame`. It is used as an Ethernet frame, and its bytes from 14 on as each of the protocols
/// above, regardless of the ethertype.
///
/// # Panics
///
/// If a result breaks an invariant, which is a bug in `wire` for any input.
pub fn exercise(frame: &[u8]) {
    let frame = &frame[..frame.len().min(LONGEST)];
    link(frame);
    let l3 = frame.get(super::ethernet::HEADER..).unwrap_or(&[]);
    if let Ok(arp) = Arp::parse(l3) {
        assert_eq!(Arp::parse(&arp.to_bytes()), Ok(arp), "an ARP packet reads as it was written");
    }
    v4(l3);
    v6(l3);
    tunnels(l3);
    upper_layers(l3);
    transports(l3);
    applications(l3);
    offloads(frame);
}

/// Parses every tail of the packet as a header of a tunnel.
fn tunnels(l3: &[u8]) {
    for at in [0, 20, 40] {
        let payload = l3.get(at..).unwrap_or_default();
        if let Ok((gre, length)) = Gre::parse(payload) {
            assert!(gre.length() <= length && length <= payload.len(), "a header is within the packet");
        }
        assert!(vxlan_vni(payload).is_none_or(|vni| vni < 1 << 24), "an identifier has 24 bits");
    }
}

/// Parses every tail of the packet as the beginning of a connection.
fn applications(l3: &[u8]) {
    let mut text = [0; application::MOST_NAME];
    for at in [0, 8, 20, 28, 40, 48, 60] {
        let payload = l3.get(at..).unwrap_or_default();
        let names = [application::tls_server_name(payload), application::http_host(payload)];
        for name in names.into_iter().chain([application::dns_question(payload, &mut text)]).flatten() {
            assert!((1..=application::MOST_NAME).contains(&name.len()) && name.is_ascii(), "a name is one");
        }
        for protocol in [super::protocol::TCP, super::protocol::UDP] {
            let inside = application::payload(protocol, payload).is_none_or(|inner| inner.len() < payload.len());
            assert!(inside, "a header has a length");
        }
    }
}

/// Parses the frame as a super-frame of each kind: the segments must have the payload of the whole.
fn offloads(frame: &[u8]) {
    const KINDS: [Segmentation; 3] = [Segmentation::Tcp4, Segmentation::Tcp6, Segmentation::Udp];
    let sizes = [1, 100, u16::MAX];
    for (segmentation, size) in KINDS.into_iter().flat_map(|kind| sizes.map(|size| (kind, size))) {
        let l3 = super::ethernet::HEADER;
        let offload = Offload { segmentation, size, checksum: None };
        let Ok(mut cut) = Segmenter::new(frame, l3, offload) else { continue };
        assert_eq!(offload::wire_length(frame, l3, offload), cut.wire_length(), "one length");
        let (mut segments, mut bytes) = (0, 0);
        let mut segment = [0; LONGEST];
        while cut.next_length() > 0 {
            let length = cut.next_length();
            assert!(length - l3 <= cut.longest(), "no segment is longer than the longest");
            assert_eq!(cut.write(frame, &mut segment[..length]), Some(()), "the buffer has the length asked for");
            (segments, bytes) = (segments + 1, bytes + length);
        }
        assert_eq!((segments, bytes), (cut.segments(), cut.wire_length()), "as many as said");
    }
    let mut copy = Scratch::of(frame);
    for (start, offset) in [(0, 0), (34, 16), (40, u16::MAX), (u16::MAX, 6)] {
        let inside = usize::from(start) + usize::from(offset) + 2 <= frame.len();
        assert_eq!(offload::complete(copy.get(), PartialChecksum { start, offset }), inside, "inside or not");
    }
}

fn link(frame: &[u8]) {
    if let Ok(link) = Ethernet::parse(frame) {
        assert!(link.payload <= frame.len(), "the payload begins inside the frame");
    }
    if let Some(fields) = PacketFields::of(frame) {
        assert!(fields.l3_offset < frame.len(), "the IP header lies inside the frame");
        assert!(fields.l4_offset.is_none_or(|at| at <= frame.len()), "the upper layer begins inside the frame");
        assert_eq!(fields.sport.is_some(), fields.dport.is_some(), "ports come in pairs");
        assert!(fields.sport.is_none() || fields.l4_offset.is_some(), "ports have a place");
        assert_eq!(fields.source.is_ipv4(), fields.destination.is_ipv4(), "both addresses are of one family");
    }
    for at in [0, 14, 18, frame.len(), usize::MAX] {
        let (one, other) = (flow_hash(frame, at, 1), flow_hash(frame, at, 1));
        assert_eq!(one, other, "a hash is a function");
    }
    let mut line = OneLine(0);
    assert!(write!(line, "{}", summary(frame)).is_ok(), "a summary is one line");
    assert!(line.0 > 0, "a summary says something");
}

/// Counts characters and rejects a second line.
struct OneLine(usize);

impl Write for OneLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        if text.contains('\n') { Err(fmt::Error) } else { Ok(()) }
    }
}

/// A copy of a packet's bytes that may be changed.
struct Scratch {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Scratch {
    fn of(l3: &[u8]) -> Self {
        let mut bytes = [0; LONGEST];
        bytes[..l3.len()].copy_from_slice(l3);
        Self { bytes, length: l3.len() }
    }

    fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

fn v4(l3: &[u8]) {
    let walked = ipv4_options::options(l3).count();
    assert!(walked <= 40, "every option has a byte of its own");
    if let Ok(quoted) = Ipv4::parse_quoted(l3) {
        assert!(quoted.bytes.len() <= l3.len() && quoted.header_length() <= quoted.bytes.len(), "a quote is inside");
    }
    let Ok(packet) = Ipv4::parse(l3) else { return };
    assert_eq!(packet.bytes.len(), packet.header.total_length(), "the packet has its total length");
    assert_eq!(packet.header_length() + packet.payload.len(), packet.bytes.len(), "header and payload are the packet");
    if let Err(error) = ipv4_options::validate(packet.options) {
        let pointer = usize::from(error.pointer);
        assert!((ipv4::HEADER..packet.header_length()).contains(&pointer), "the pointer points at an option");
    }
    if may_answer_with_error4(Cast::Unicast, &packet).is_ok() {
        let mut buffer = [0; icmp4::LONGEST_ERROR];
        let written = Error4::TimeExceeded.write(&mut buffer, &packet, ROUTER, 64, 0);
        answers4(&packet, written.and_then(|length| buffer.get(..length)));
    }
    let mut copy = Scratch::of(l3);
    if let Some(header) = copy.get().first_chunk_mut::<{ ipv4::HEADER }>() {
        let forwarded = ipv4::decrement_ttl(header);
        assert_eq!(forwarded, packet.header.ttl() > 1, "only what has hops left is forwarded");
        assert!(Ipv4::parse(copy.get()).is_ok(), "decrementing keeps the checksum right");
    }
    let mut copy = Scratch::of(l3);
    if ipv4_options::record(copy.get(), ROUTER, 1, |address| address == ROUTER).is_ok() {
        assert!(Ipv4::parse(copy.get()).is_ok(), "recording keeps the checksum right");
    }
    let mut copy = Scratch::of(l3);
    match icmp4::reply_to_echo(copy.get(), 64, 1) {
        Err(_) => assert_eq!(copy.get(), l3, "what is refused is not changed"),
        Ok(length) => {
            let reply = Ipv4::parse(&copy.get()[..length]).expect("a reply is a packet");
            assert!(matches!(Icmp4::parse(reply.payload), Ok(Icmp4::EchoReply(_))), "a reply is a reply");
            assert_eq!(reply.header.destination(), packet.header.source(), "a reply goes back");
        }
    }
}

fn answers4(packet: &Ipv4<'_>, error: Option<&[u8]>) {
    let error = Ipv4::parse(error.expect("576 bytes hold every error")).expect("an error is a packet");
    let message = Icmp4::parse(error.payload).expect("its checksum is right");
    let Icmp4::TimeExceeded { original, .. } = message else { panic!("an error is of its type") };
    assert!(packet.bytes.starts_with(original), "an error quotes the original");
    assert!(may_answer_with_error4(Cast::Unicast, &error).is_err(), "an error is never answered with an error");
}

fn v6(l3: &[u8]) {
    let _ = Ipv6::parse_quoted(l3).map(|quoted| quoted.chain());
    let Ok(packet) = Ipv6::parse(l3) else { return };
    assert_eq!(packet.bytes.len(), ipv6::HEADER + packet.payload.len(), "header and payload are the packet");
    if let Ok(chain) = packet.chain() {
        assert!(chain.named_at < packet.bytes.len(), "the next-header field lies inside");
        assert!(
            chain.offset.is_none_or(|at| (ipv6::HEADER..=packet.bytes.len()).contains(&at)),
            "the upper layer begins inside"
        );
        assert!(chain.offset.is_some() || chain.is_fragment(), "only a fragment has no upper layer");
        assert_eq!(chain.hop_by_hop, matches!(packet.hop_by_hop(), Ok(Some(_))), "options are where the chain says");
    }
    if let Ok(Some(options)) = packet.hop_by_hop() {
        for option in options.clone().flatten() {
            assert!(option.offset + option.data.len() < packet.bytes.len(), "an option lies inside");
        }
        let _ = check_hop_by_hop(options);
    }
    let source = ipv6::link_local(super::Mac([2, 0, 0, 0, 0, 1]));
    let mut buffer = [0; ipv6::MINIMUM_MTU];
    let error = Error6::HopLimitExceeded;
    if may_answer_with_error6(Cast::Unicast, &packet, error).is_ok() {
        let length = error.write(&mut buffer, &packet, source, 255).expect("1280 bytes hold every error");
        answers6(&packet, &buffer[..length]);
    }
    if let Some(length) = ndp::write_redirect(&mut buffer, &packet, source, source, None)
        && !packet.header.destination().is_multicast()
    {
        let redirect = Ipv6::parse(&buffer[..length]).expect("a redirect is a packet");
        assert!(matches!(Ndp::of(&redirect), Ok(Ndp::Redirect { .. })), "a redirect is a redirect");
    }
    let mut copy = Scratch::of(l3);
    match icmp6::reply_to_echo(copy.get(), source, 64) {
        Err(_) => assert_eq!(copy.get(), l3, "what is refused is not changed"),
        Ok(length) => {
            let reply = Ipv6::parse(&copy.get()[..length]).expect("a reply is a packet");
            let message = Icmp6::parse(reply.header, reply.payload);
            assert!(matches!(message, Ok(Icmp6::EchoReply(_))), "a reply is a reply");
            assert_eq!(reply.header.destination(), packet.header.source(), "a reply goes back");
        }
    }
}

fn answers6(packet: &Ipv6<'_>, error: &[u8]) {
    let error = Ipv6::parse(error).expect("an error is a packet");
    let Ok(Icmp6::TimeExceeded { original, .. }) = Icmp6::parse(error.header, error.payload) else {
        panic!("an error is of its type")
    };
    assert!(packet.bytes.starts_with(original), "an error quotes the original");
    let again = may_answer_with_error6(Cast::Unicast, &error, Error6::HopLimitExceeded);
    assert!(again.is_err(), "an error is never answered with an error");
}

/// Parses the bytes as every upper layer. If there is an IPv6 header, also as its payload.
fn upper_layers(l3: &[u8]) {
    let _ = (Icmp4::parse(l3), Icmp4::parse_without_checksum(l3), Icmp6::parse_without_checksum(l3));
    if let Ok(options) = ndp::NdpOptions::checked(l3) {
        assert!(options.into_iter().count() <= l3.len() / 8, "every option has eight bytes of its own");
    }
    if let Ok(packet) = Ipv6::parse(l3) {
        if let Ok(query) =
            mld::MldQuery::parse(&packet, packet.upper().ok().flatten().map_or(&[], |(_, message)| message))
        {
            assert!(query.group.is_unspecified() || query.group.is_multicast(), "a query is about groups");
            assert_eq!(packet.header.hop_limit(), mld::HOP_LIMIT, "a query stays on its link");
        }
        let (whole, part) = (Ndp::of(&packet), Ndp::parse(packet.header, packet.payload));
        if packet.header.next_header() == super::protocol::ICMPV6 {
            assert_eq!(whole, part, "without extension headers the payload is the message");
        }
    }
}

fn transports(l3: &[u8]) {
    if let Ok(Some(found)) = transport::find_checksummed(l3) {
        assert!(found.range.end <= l3.len(), "the message lies inside");
        let mut copy = Scratch::of(l3);
        assert_eq!(transport::complete_checksum(copy.get()), Ok(()), "what is found is completed");
        assert_eq!(transport::verify_checksum(copy.get()), Ok(Some(true)), "what is completed is right");
        transport::complete_partial_checksum(copy.get());
        assert_eq!(transport::verify_checksum(copy.get()), Ok(Some(true)), "what is right stays so");
    } else {
        let mut copy = Scratch::of(l3);
        let _ = transport::complete_checksum(copy.get());
        assert_eq!(copy.get(), l3, "what is not found is not changed");
    }
}
