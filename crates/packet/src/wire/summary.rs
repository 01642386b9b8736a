//! A one-line summary of a frame for the operator, in the style of tcpdump. Accepts any bytes.

use super::icmp4::Echo;
use super::ndp::NdpOptions;
use super::{Arp, ArpOperation, Chain, Error6, Ethernet, Icmp4, Icmp6, Ipv4, Ipv6, LengthOrType, Mac, Ndp};
use super::{ethertype, icmp6, mld, protocol, transport};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A frame that displays as one line: `192.0.2.1.5060 > 198.51.100.9.53 UDP 120 bytes ttl 64`.
///
/// The byte count is that of the bytes after the last parsed header. Malformed headers are reported with the reason.
#[derive(Clone, Copy, Debug)]
pub struct FrameSummary<'a>(&'a [u8]);

/// The summary of an Ethernet frame.
pub fn summary(frame: &[u8]) -> FrameSummary<'_> {
    FrameSummary(frame)
}

/// The same for an IP packet without a link header.
#[derive(Clone, Copy, Debug)]
pub struct IpSummary<'a>(&'a [u8]);

/// The summary of an IP packet of either version.
pub fn ip_summary(packet: &[u8]) -> IpSummary<'_> {
    IpSummary(packet)
}

impl fmt::Display for IpSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first().map(|byte| byte >> 4) {
            Some(4) => ipv4(f, self.0),
            Some(6) => ipv6(f, self.0),
            _ => write!(f, "no IP packet, {} bytes", self.0.len()),
        }
    }
}

impl fmt::Display for FrameSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = self.0;
        let Ok(link) = Ethernet::parse(frame) else { return write!(f, "truncated frame, {} bytes", frame.len()) };
        let payload = frame.get(link.payload..).unwrap_or(&[]);
        if let Some(vlan) = link.vlan {
            write!(f, "vlan {} ", vlan.id)?;
        }
        match link.length_or_type {
            LengthOrType::Ethertype(ethertype::IPV4) => ipv4(f, payload),
            LengthOrType::Ethertype(ethertype::IPV6) => ipv6(f, payload),
            LengthOrType::Ethertype(ethertype::ARP) => arp(f, payload),
            LengthOrType::Ethertype(other) => {
                write!(f, "{} > {} ethertype 0x{other:04x} {} bytes", link.source, link.destination, payload.len())
            }
            LengthOrType::Length(_) => {
                write!(f, "{} > {} 802.3 {} bytes", link.source, link.destination, payload.len())
            }
            LengthOrType::SecondTag(_) => {
                write!(f, "{} > {} second tag, {} bytes", link.source, link.destination, payload.len())
            }
        }
    }
}

fn arp(f: &mut fmt::Formatter<'_>, payload: &[u8]) -> fmt::Result {
    match Arp::parse(payload) {
        Ok(arp @ Arp { operation: ArpOperation::Request, .. }) if arp.is_probe() => {
            write!(f, "ARP who-has {} probe from {}", arp.target_ip, arp.sender_mac)
        }
        Ok(Arp { operation: ArpOperation::Request, sender_ip, target_ip, .. }) => {
            write!(f, "ARP who-has {target_ip} tell {sender_ip}")
        }
        Ok(Arp { operation: ArpOperation::Reply, sender_ip, sender_mac, .. }) => {
            write!(f, "ARP {sender_ip} is-at {sender_mac}")
        }
        Err(error) => write!(f, "{error}, {} bytes", payload.len()),
    }
}

fn ipv4(f: &mut fmt::Formatter<'_>, payload: &[u8]) -> fmt::Result {
    let packet = match Ipv4::parse(payload) {
        Ok(packet) => packet,
        Err(error) => return write!(f, "{error}, {} bytes", payload.len()),
    };
    let header = packet.header;
    let ends = (header.source().into(), header.destination().into());
    if header.is_first() {
        upper(f, ends, header.protocol(), packet.payload, |f| icmp4(f, packet.payload))?;
    } else {
        later_fragment(f, ends, header.protocol(), packet.payload.len())?;
    }
    write!(f, " ttl {}", header.ttl())?;
    if header.is_fragment() {
        fragment(f, u32::from(header.identification()), header.fragment_offset(), header.more_fragments())?;
    }
    if packet.options.is_empty() { Ok(()) } else { write!(f, " options {} bytes", packet.options.len()) }
}

fn ipv6(f: &mut fmt::Formatter<'_>, payload: &[u8]) -> fmt::Result {
    let packet = match Ipv6::parse(payload) {
        Ok(packet) => packet,
        Err(error) => return write!(f, "{error}, {} bytes", payload.len()),
    };
    let header = packet.header;
    let ends = (IpAddr::from(header.source()), IpAddr::from(header.destination()));
    let chain = match packet.chain() {
        Ok(chain) => chain,
        Err(error) => return write!(f, "{} > {} {error}, hlim {}", ends.0, ends.1, header.hop_limit()),
    };
    match chain.offset.and_then(|at| packet.bytes.get(at..)) {
        Some(l4) => upper(f, ends, chain.protocol, l4, |f| icmp6(f, &packet, &chain, l4))?,
        None => later_fragment(f, ends, chain.protocol, packet.payload.len())?,
    }
    write!(f, " hlim {}", header.hop_limit())?;
    match chain.fragment {
        Some(part) => fragment(f, part.identification, part.offset, part.more),
        None => Ok(()),
    }
}

fn fragment(f: &mut fmt::Formatter<'_>, id: u32, offset: usize, more: bool) -> fmt::Result {
    write!(f, " frag {id}:{offset}{}", if more { "+" } else { "" })
}

fn later_fragment(f: &mut fmt::Formatter<'_>, ends: (IpAddr, IpAddr), protocol: u8, bytes: usize) -> fmt::Result {
    write!(f, "{} > {} {} {bytes} bytes", ends.0, ends.1, Protocol(protocol))
}

/// A protocol by name, or by number if it has none.
struct Protocol(u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            protocol::ICMP => "ICMP",
            protocol::IGMP => "IGMP",
            protocol::TCP => "TCP",
            protocol::UDP => "UDP",
            protocol::DCCP => "DCCP",
            protocol::IPSEC_ESP => "IPsec-ESP",
            protocol::ICMPV6 => "ICMPv6",
            protocol::SCTP => "SCTP",
            protocol::UDP_LITE => "UDP-Lite",
            other => return write!(f, "protocol {other}"),
        })
    }
}

fn upper(
    f: &mut fmt::Formatter<'_>,
    (source, destination): (IpAddr, IpAddr),
    number: u8,
    l4: &[u8],
    icmp: impl FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    let name = Protocol(number);
    let Some((sport, dport)) = transport::ports(number, l4) else {
        write!(f, "{source} > {destination} {name}")?;
        let own = if source.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
        return if number == own { icmp(f) } else { write!(f, " {} bytes", l4.len()) };
    };
    write!(f, "{source}.{sport} > {destination}.{dport} {name}")?;
    match number {
        protocol::TCP => tcp(f, l4),
        protocol::UDP => write!(f, " {} bytes", l4.len().saturating_sub(transport::UDP_HEADER)),
        _ => write!(f, " {} bytes", l4.len()),
    }
}

fn tcp(f: &mut fmt::Formatter<'_>, l4: &[u8]) -> fmt::Result {
    let Some(&[_, _, _, _, s0, s1, s2, s3, a0, a1, a2, a3, offset, flags, w0, w1, ..]) =
        l4.first_chunk::<{ transport::TCP_HEADER }>()
    else {
        return write!(f, " truncated, {} bytes", l4.len());
    };
    f.write_str(" [")?;
    for (bit, letter) in ["F", "S", "R", "P", ".", "U", "E", "W"].into_iter().enumerate() {
        if flags >> bit & 1 != 0 {
            f.write_str(letter)?;
        }
    }
    write!(f, "] seq {}", u32::from_be_bytes([s0, s1, s2, s3]))?;
    if flags & 0x10 != 0 {
        write!(f, " ack {}", u32::from_be_bytes([a0, a1, a2, a3]))?;
    }
    let data = l4.len().saturating_sub(usize::from(offset >> 4) * 4);
    write!(f, " win {} {data} bytes", u16::from_be_bytes([w0, w1]))
}

fn echo(f: &mut fmt::Formatter<'_>, what: &str, echo: &Echo<'_>) -> fmt::Result {
    write!(f, " echo {what} id {} seq {} {} bytes", echo.identifier, echo.sequence, echo.data.len())
}

fn icmp4(f: &mut fmt::Formatter<'_>, message: &[u8]) -> fmt::Result {
    match Icmp4::parse_without_checksum(message) {
        Err(_) => write!(f, " truncated, {} bytes", message.len()),
        Ok(Icmp4::EchoRequest(asked)) => echo(f, "request", &asked),
        Ok(Icmp4::EchoReply(answered)) => echo(f, "reply", &answered),
        Ok(Icmp4::Unreachable { code: super::icmp4::FRAGMENTATION_NEEDED, mtu, original }) => {
            write!(f, " fragmentation needed mtu {mtu}")?;
            about4(f, original)
        }
        Ok(Icmp4::Unreachable { code, original, .. }) => {
            match code {
                0 => f.write_str(" net unreachable")?,
                1 => f.write_str(" host unreachable")?,
                2 => f.write_str(" protocol unreachable")?,
                3 => f.write_str(" port unreachable")?,
                9 | 10 | 13 => f.write_str(" prohibited")?,
                _ => write!(f, " unreachable code {code}")?,
            }
            about4(f, original)
        }
        Ok(Icmp4::TimeExceeded { code, original }) => {
            f.write_str(if code == 0 { " time exceeded" } else { " reassembly time exceeded" })?;
            about4(f, original)
        }
        Ok(Icmp4::ParameterProblem { pointer, original, .. }) => {
            write!(f, " parameter problem at byte {pointer}")?;
            about4(f, original)
        }
        Ok(Icmp4::Redirect { gateway, original, .. }) => {
            write!(f, " redirect to {gateway}")?;
            about4(f, original)
        }
        Ok(Icmp4::Other { kind, code, body }) => write!(f, " type {kind} code {code} {} bytes", body.len()),
    }
}

/// The packet quoted in an error.
fn about4(f: &mut fmt::Formatter<'_>, original: &[u8]) -> fmt::Result {
    match Ipv4::parse_quoted(original) {
        Ok(Ipv4 { header, .. }) => {
            write!(f, " for {} > {} {}", header.source(), header.destination(), Protocol(header.protocol()))
        }
        Err(_) => f.write_str(" for garbage"),
    }
}

fn about6(f: &mut fmt::Formatter<'_>, original: &[u8]) -> fmt::Result {
    match Ipv6::parse_quoted(original) {
        Ok(Ipv6 { header, .. }) => write!(f, " for {} > {}", header.source(), header.destination()),
        Err(_) => f.write_str(" for garbage"),
    }
}

fn icmp6(f: &mut fmt::Formatter<'_>, packet: &Ipv6<'_>, chain: &Chain, message: &[u8]) -> fmt::Result {
    match Icmp6::parse_without_checksum(message) {
        Err(_) => write!(f, " truncated, {} bytes", message.len()),
        Ok(Icmp6::EchoRequest(asked)) => echo(f, "request", &asked),
        Ok(Icmp6::EchoReply(answered)) => echo(f, "reply", &answered),
        Ok(Icmp6::Unreachable { code, original }) => {
            match code {
                code if code == Error6::NoRoute.fields().1 => f.write_str(" no route")?,
                code if code == Error6::AddressUnreachable.fields().1 => f.write_str(" address unreachable")?,
                code if code == Error6::PortUnreachable.fields().1 => f.write_str(" port unreachable")?,
                _ => write!(f, " unreachable code {code}")?,
            }
            about6(f, original)
        }
        Ok(Icmp6::PacketTooBig { mtu, original }) => {
            write!(f, " packet too big mtu {mtu}")?;
            about6(f, original)
        }
        Ok(Icmp6::TimeExceeded { code, original }) => {
            f.write_str(if code == 0 { " hop limit exceeded" } else { " reassembly time exceeded" })?;
            about6(f, original)
        }
        Ok(Icmp6::ParameterProblem { code, pointer, original }) => {
            write!(f, " parameter problem code {code} at byte {pointer}")?;
            about6(f, original)
        }
        Ok(Icmp6::Discovery { kind }) if chain.is_fragment() => write!(f, " type {kind} in a fragment"),
        Ok(Icmp6::Discovery { kind }) => discovery(f, kind, packet, message),
        Ok(Icmp6::Other { kind: kind @ (mld::QUERY | mld::REPORT_V1), body, .. }) => {
            f.write_str(if kind == mld::QUERY { " listener query" } else { " listener report v1" })?;
            match body.get(4..).and_then(|group| group.first_chunk::<16>()) {
                Some(group) if *group != [0; 16] => write!(f, " for {}", Ipv6Addr::from(*group)),
                _ => Ok(()),
            }
        }
        Ok(Icmp6::Other { kind: mld::REPORT, body, .. }) => listener_report(f, body),
        Ok(Icmp6::Other { kind, code, body }) => write!(f, " type {kind} code {code} {} bytes", body.len()),
    }
}

/// The groups of a version 2 report with their record types, as far as they follow each other directly.
fn listener_report(f: &mut fmt::Formatter<'_>, body: &[u8]) -> fmt::Result {
    f.write_str(" listener report")?;
    for record in body.get(4..).unwrap_or_default().chunks_exact(20) {
        if let (&[kind, 0, 0, 0], Some(group)) = (&record[..4], record[4..].first_chunk::<16>()) {
            let kind = ["?", "in", "ex", "to-in", "to-ex", "allow", "block"].get(usize::from(kind)).unwrap_or(&"?");
            write!(f, " {kind} {}", Ipv6Addr::from(*group))?;
        }
    }
    Ok(())
}

fn discovery(f: &mut fmt::Formatter<'_>, kind: u8, packet: &Ipv6<'_>, message: &[u8]) -> fmt::Result {
    let link = |f: &mut fmt::Formatter<'_>, mac: Option<Mac>| match mac {
        Some(mac) => write!(f, " link {mac}"),
        None => Ok(()),
    };
    match Ndp::parse(packet.header, message) {
        Ok(Ndp::RouterSolicitation { options }) => {
            f.write_str(" router solicitation")?;
            link(f, options.source_mac())
        }
        Ok(Ndp::RouterAdvertisement { parameters: says, options }) => {
            write!(f, " router advertisement lifetime {} s", says.lifetime_s)?;
            link(f, options.source_mac())
        }
        Ok(Ndp::NeighbourSolicitation { target, options }) => {
            write!(f, " who-has {target}")?;
            link(f, options.source_mac())
        }
        Ok(Ndp::NeighbourAdvertisement { flags, target, options }) => {
            write!(f, " {target} is-at ")?;
            match options.target_mac() {
                Some(mac) => write!(f, "{mac}")?,
                None => f.write_str("known link address")?,
            }
            for (set, letter) in [(flags.router, " R"), (flags.solicited, " S"), (flags.overrides, " O")] {
                if set {
                    f.write_str(letter)?;
                }
            }
            Ok(())
        }
        Ok(Ndp::Redirect { target, destination, options }) => redirect(f, target.into(), destination.into(), options),
        Err(error) => write!(f, " type {} invalid: {error}", kind.max(icmp6::ROUTER_SOLICITATION)),
    }
}

fn redirect(f: &mut fmt::Formatter<'_>, target: IpAddr, destination: IpAddr, options: NdpOptions<'_>) -> fmt::Result {
    write!(f, " redirect {destination} to {target}")?;
    match options.target_mac() {
        Some(mac) => write!(f, " link {mac}"),
        None => Ok(()),
    }
}
