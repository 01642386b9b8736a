//! The differences from Linux and their reasons: the list of docs/reference/differences.md.
//!
//! A difference removes the packets that it explains from both routers' answers. All other packets are compared.

mod packet_fields;

use crate::bench::{Outcome, router_mac};
use crate::generator::SentFrame;
use crate::link_ends::{Link, OutputFrame};
use packet::wire::arp::Arp;
use packet::wire::{Ethernet, Ipv4, Ipv6, ethertype, icmp6, protocol};
use std::net::{Ipv4Addr, Ipv6Addr};
use units::Mac;

/// One difference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Difference {
    /// The identification of the router's own packets that may be fragmented.
    Identification,
    /// The times that a router writes into options and replies.
    Timestamps,
    /// Options of a packet, copied into the ICMP error about it or the reset in answer to it.
    OptionsOfErrors,
    /// Addresses that no host has, addresses limited to their link, and IPv6 sources that are the router's own.
    ReservedAddresses,
    /// Packets with the broadcast address of a subnet as source.
    BroadcastSource,
    /// IPv6 packets whose egress link is their ingress link.
    Hairpin,
    /// Redirects.
    Redirects,
    /// ARP with impossible claims: an address of the router, or a link-layer address that is not unicast.
    ImpossibleArp,
}

impl Difference {
    /// All differences, in the order of their tests.
    pub const ALL: [Difference; 8] = [
        Difference::Redirects,
        Difference::ReservedAddresses,
        Difference::BroadcastSource,
        Difference::Hairpin,
        Difference::ImpossibleArp,
        Difference::OptionsOfErrors,
        Difference::Timestamps,
        Difference::Identification,
    ];

    /// Removes the explained packets from the answers to `sent`. False if there are none.
    fn explain(self, sent: &SentFrame, out: &mut Outcome) -> bool {
        match self {
            Difference::Identification => packet_fields::identification(out),
            Difference::Timestamps => packet_fields::timestamps(out),
            Difference::OptionsOfErrors => {
                packet_fields::unrecordable(sent, out)
                    || packet_fields::error_along_a_route(sent, out)
                    || packet_fields::options_of_errors(out)
                    || packet_fields::options_of_resets(out)
            }
            Difference::ReservedAddresses => names_no_host(sent) && only_kernel_answers(out, |_| true),
            Difference::BroadcastSource => {
                let broadcast = ipv4(&sent.frame).is_some_and(|ip| is_subnet_broadcast(ip.header.source()));
                broadcast && only_kernel_answers(out, |_| true)
            }
            Difference::Hairpin => only_kernel_answers(out, |seen| stays_on_link(sent, seen)),
            Difference::Redirects => only_kernel(out, |seen| icmp6_type(&seen.frame) == Some(icmp6::REDIRECT)),
            Difference::ImpossibleArp => impossible_arp(sent, out),
        }
    }

    /// The differences that explain unequal answers. An error if packets remain unexplained. Group reports have random times and are ignored.
    pub fn explain_all(sent: &SentFrame, out: Outcome) -> Result<Vec<Difference>, Outcome> {
        let mut out = without_reports(out);
        if out.kernel == out.ours {
            return Ok(Vec::new());
        }
        let mut found: Vec<Difference> = Difference::ALL.into_iter().filter(|d| d.explain(sent, &mut out)).collect();
        found.sort_unstable();
        if out.kernel == out.ours { Ok(found) } else { Err(out) }
    }
}

/// The answers without the packets that both routers send by themselves, at random times.
pub fn without_reports(mut out: Outcome) -> Outcome {
    out.kernel.retain(|seen| !is_report(&seen.frame));
    out.ours.retain(|seen| !is_report(&seen.frame));
    out
}

/// Removes packets that only the kernel's router sends. False if there are none.
fn only_kernel(out: &mut Outcome, explained: impl Fn(&OutputFrame) -> bool) -> bool {
    let before = out.kernel.len();
    let ours = &out.ours;
    out.kernel.retain(|seen| ours.contains(seen) || !explained(seen));
    out.kernel.len() < before
}

/// Like [`only_kernel`], if this router sends nothing at all.
fn only_kernel_answers(out: &mut Outcome, explained: impl Fn(&OutputFrame) -> bool) -> bool {
    out.ours.is_empty() && only_kernel(out, explained)
}

/// The network-layer type of a frame, and its offset.
fn l3(frame: &[u8]) -> Option<(u16, usize)> {
    let link = Ethernet::parse(frame).ok()?;
    Some((link.ethertype()?, link.payload))
}

fn ipv4(frame: &[u8]) -> Option<Ipv4<'_>> {
    let (kind, at) = l3(frame)?;
    Ipv4::parse(&frame[at..]).ok().filter(|_| kind == ethertype::IPV4)
}

fn ipv6(frame: &[u8]) -> Option<Ipv6<'_>> {
    let (kind, at) = l3(frame)?;
    Ipv6::parse(&frame[at..]).ok().filter(|_| kind == ethertype::IPV6)
}

fn icmp6_type(frame: &[u8]) -> Option<u8> {
    let (protocol, message) = ipv6(frame)?.upper().ok()??;
    message.first().copied().filter(|_| protocol == protocol::ICMPV6)
}

/// True if the router generated an IPv4 packet: its source address is the router's.
fn is_own4(seen: &OutputFrame) -> bool {
    ipv4(&seen.frame).is_some_and(|ip| is_own(ip.header.source()))
}

fn is_own(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [198, 18, _, 1])
}

fn is_subnet_broadcast(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [198, 18, 1 | 2 | 3 | 20, 255])
}

/// RFC 1812 5.3.7 and 4.2.2.11 cover network 0 and class E, 4.2.3.1 the all-zeros address of a subnet, RFC 3927 2.7 link-local addresses. RFC 6890
/// covers mapped IPv6 addresses, and IPv6 sources that are the router's own.
fn names_no_host(sent: &SentFrame) -> bool {
    if let Some(ip) = ipv6(&sent.frame) {
        let own = is_own6(ip.header.source(), sent.link);
        let mapped = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
        return own || mapped(ip.header.source()) || mapped(ip.header.destination());
    }
    let Some(ip) = ipv4(&sent.frame) else { return false };
    let (source, destination) = (ip.header.source(), ip.header.destination());
    let reserved =
        |address: Ipv4Addr| address.octets()[0] == 0 || address.octets()[0] >= 240 || address.is_link_local();
    let zero = |address: Ipv4Addr| matches!(address.octets(), [198, 18, 1 | 2 | 3 | 20, 0]);
    reserved(source) || reserved(destination) || zero(source) || zero(destination)
}

fn is_own6(address: Ipv6Addr, link: Link) -> bool {
    let segments = address.segments();
    segments[0] == 0xfd00 && segments[2..7] == [0; 5] && segments[7] < 2
        || address == packet::wire::ipv6::link_local(router_mac(link))
}

/// An IPv6 packet without a source, or for the link-local address of another host: Linux forwards it back to its ingress link.
fn stays_on_link(sent: &SentFrame, seen: &OutputFrame) -> bool {
    let Some(ip) = ipv6(&sent.frame) else { return false };
    let (from, to) = (ip.header.source(), ip.header.destination());
    let odd = from.is_unspecified() || to.is_unicast_link_local() && !is_own6(to, sent.link);
    // Or the kernel reports there that the hop limit has expired.
    odd && (seen.link == sent.link || icmp6_type(&seen.frame) == Some(icmp6::TIME_EXCEEDED))
}

/// RFC 3810 5.2 and RFC 3376 4.2: the destinations of reports.
pub fn is_report(frame: &[u8]) -> bool {
    let to6 = ipv6(frame).map(|ip| ip.header.destination());
    let to4 = ipv4(frame).map(|ip| ip.header.destination());
    to6 == Some(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16)) || to4 == Some(Ipv4Addr::new(224, 0, 0, 22))
}

fn arp(frame: &[u8]) -> Option<Arp> {
    let (kind, at) = l3(frame)?;
    Arp::parse(&frame[at..]).ok().filter(|_| kind == ethertype::ARP)
}

/// A claim to a router's address is answered by an announcement (RFC 5227 2.4) and nothing else. A claim with a multicast or zero link-layer address
/// is not answered (RFC 1812 3.3.2).
fn impossible_arp(sent: &SentFrame, out: &mut Outcome) -> bool {
    let Some(claim) = arp(&sent.frame) else { return false };
    if !claim.sender_mac.is_unicast() {
        return only_kernel_answers(out, |seen| {
            arp(&seen.frame).is_some_and(|reply| reply.target_mac == claim.sender_mac)
        });
    }
    if !is_own(claim.sender_ip) {
        return false;
    }
    let mac = router_mac(sent.link);
    let defence = |seen: &OutputFrame| {
        seen.link == sent.link
            && seen.frame.starts_with(&Mac::BROADCAST.0)
            && arp(&seen.frame) == Some(Arp::announcement(mac, claim.sender_ip))
    };
    let before = out.ours.len();
    out.ours.retain(|seen| !defence(seen));
    out.ours.len() < before
}
