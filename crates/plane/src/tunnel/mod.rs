//! Tunnels: ports whose packets travel inside of other packets (ADR-0076).
//!
//! | file | what |
//! |---|---|
//! | `mod` | the tunnels of a generation, and the one that an outer packet belongs to |
//! | `header` | encapsulation and decapsulation of one packet, in place |
//! | `stations` | the stations of a VXLAN segment, and the other ends that they are behind |
//! | `path_mtu` | the path MTU and the errors of a tunnel, which outlive generations |
//! | `port` | the port of a tunnel: one end of a wire in memory |

mod header;
mod path_mtu;
mod port;
mod stations;

pub(crate) use header::Unencapsulated;
pub use header::send_as_own;
pub(crate) use path_mtu::TunnelState;
pub(crate) use port::{TunnelEnd, tunnel_port};
pub(crate) use stations::OtherEnds;

use packet::Meta;
use packet::Packet;
use packet::wire::transport::UDP_HEADER;
use packet::wire::{Gre, Ipv4, Ipv6, VXLAN_PORT, protocol, vxlan_vni};
use plan::{TunnelKind, TunnelPlan};
use std::net::IpAddr;
use std::sync::Arc;
use units::{InterfaceId, Mac, PortId};

/// The link-layer address of the other end of each tunnel, in the frames of its port: locally administered, like those that follow from names.
pub(crate) const PEER: Mac = Mac([0x02, 0x53, 0xff, 0xff, 0xff, 0xff]);

/// A tunnel of one generation.
#[derive(Clone, Debug)]
pub struct Tunnel {
    /// Its port.
    pub port: PortId,
    /// The interface of its packets.
    pub interface: InterfaceId,
    /// The interface with its own address. Its VRF has the routes of the outer packets.
    pub underlay: InterfaceId,
    /// The link-layer address of the port.
    pub mac: Mac,
    /// The outer header.
    pub plan: TunnelPlan,
    /// The state that outlives generations.
    pub(crate) state: Arc<TunnelState>,
}

/// The properties by which outer packets are assigned, except for the key of GRE.
type Ends = (InterfaceId, IpAddr, IpAddr, TunnelKind);

/// An outer packet, as far as it selects a tunnel.
struct OuterPacket {
    source: IpAddr,
    destination: IpAddr,
    /// The protocol behind the outer header.
    protocol: u8,
    /// The offset of the payload in the outer packet, in bytes.
    payload: usize,
    ecn: u8,
}

/// The encapsulation of a protocol.
fn kind_of(protocol: u8) -> Option<TunnelKind> {
    match protocol {
        protocol::GRE => Some(TunnelKind::Gre),
        protocol::IPIP | protocol::IPV6 => Some(TunnelKind::Ipip),
        protocol::UDP => Some(TunnelKind::Vxlan),
        _ => None,
    }
}

/// The UDP payload of a VXLAN packet, from its header on: an offset within the UDP message.
fn vxlan_payload(message: &[u8]) -> Option<usize> {
    let destination = message.get(2..).and_then(|rest| rest.first_chunk::<2>())?;
    (u16::from_be_bytes(*destination) == VXLAN_PORT && message.len() >= UDP_HEADER).then_some(UDP_HEADER)
}

impl OuterPacket {
    /// Reads a whole packet, whose headers the classifier has checked. `None` for a fragment, and for other protocols.
    fn of(packet: &Packet) -> Option<OuterPacket> {
        let l3 = packet.bytes().get(usize::from(packet.meta().l3)..)?;
        let outer = if packet.meta().flags & Meta::IPV6 == 0 {
            let ip = Ipv4::parse_without_checksum(l3).ok().filter(|ip| !ip.header.is_fragment())?;
            OuterPacket {
                source: ip.header.source().into(),
                destination: ip.header.destination().into(),
                protocol: ip.header.protocol(),
                payload: ip.header_length(),
                ecn: ip.header.ecn(),
            }
        } else {
            let ip = Ipv6::parse(l3).ok()?;
            // Linux puts a tunnel encapsulation limit before the inner packet (RFC 2473 5.1), in destination options.
            let (protocol, upper) = ip.upper().ok()??;
            // A fragment that is the whole packet has a fragment header, which reassembly removes.
            let fragment = ip.chain().is_ok_and(|chain| chain.fragment.is_some());
            if fragment {
                return None;
            }
            OuterPacket {
                source: ip.header.source().into(),
                destination: ip.header.destination().into(),
                protocol,
                payload: ip.bytes.len() - upper.len(),
                ecn: ip.header.ecn(),
            }
        };
        if outer.protocol != protocol::UDP {
            return kind_of(outer.protocol).map(|_| outer);
        }
        let vxlan = l3.get(outer.payload..).and_then(vxlan_payload)?;
        Some(OuterPacket { payload: outer.payload + vxlan, ..outer })
    }
}

/// The tunnels of one generation.
#[derive(Clone, Debug, Default)]
pub struct Tunnels {
    list: Vec<Tunnel>,
    /// The position of a tunnel in the list for each of its other ends, sorted.
    by_ends: Vec<(Ends, usize)>,
}

impl Tunnels {
    /// A table of these tunnels.
    pub fn new(list: Vec<Tunnel>) -> Tunnels {
        let ends = |(position, tunnel): (usize, &Tunnel)| {
            let (underlay, local, kind) = (tunnel.underlay, tunnel.plan.local, tunnel.plan.kind);
            let all = tunnel.plan.remotes.iter().map(move |&remote| ((underlay, local, remote, kind), position));
            all.collect::<Vec<_>>()
        };
        let mut by_ends: Vec<(Ends, usize)> = list.iter().enumerate().flat_map(ends).collect();
        by_ends.sort_unstable();
        Tunnels { list, by_ends }
    }

    /// True if there is no tunnel.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The tunnel of a port.
    pub fn of_port(&self, port: PortId) -> Option<&Tunnel> {
        self.list.iter().find(|tunnel| tunnel.port == port)
    }

    /// All tunnels.
    pub fn iter(&self) -> impl Iterator<Item = &Tunnel> {
        self.list.iter()
    }

    /// True if a packet for the router's address on `owner` belongs to a tunnel, or would with another key.
    pub(crate) fn may_end(&self, owner: InterfaceId, packet: &Packet) -> bool {
        let Some(outer) = OuterPacket::of(packet) else { return false };
        let kind = kind_of(outer.protocol);
        kind.is_some_and(|kind| self.between((owner, outer.destination, outer.source, kind)).next().is_some())
    }

    /// The destination of an outer packet.
    pub(crate) fn destination(packet: &Packet) -> Option<IpAddr> {
        OuterPacket::of(packet).map(|outer| outer.destination)
    }

    /// The tunnels between two addresses, which differ in their keys.
    fn between(&self, ends: Ends) -> impl Iterator<Item = &Tunnel> {
        let first = self.by_ends.partition_point(|(other, _)| *other < ends);
        self.by_ends[first..]
            .iter()
            .take_while(move |(other, _)| *other == ends)
            .map(|&(_, position)| &self.list[position])
    }

    /// The tunnel by which the router has sent a packet that `outer` begins with, as an ICMP error quotes it. The first eight bytes of the payload
    /// have the key of GRE; a tunnel with a key is found only by it.
    pub(crate) fn find_sender(&self, outer: &[u8]) -> Option<&Tunnel> {
        let (source, destination, protocol, payload): (IpAddr, IpAddr, u8, &[u8]) = match outer.first()? >> 4 {
            4 => {
                let ip = Ipv4::parse_quoted(outer).ok()?;
                let header = ip.header;
                (header.source().into(), header.destination().into(), header.protocol(), ip.payload)
            }
            _ => {
                let ip = Ipv6::parse_quoted(outer).ok()?;
                let header = ip.header;
                (header.source().into(), header.destination().into(), header.next_header(), ip.payload)
            }
        };
        let kind = kind_of(protocol)?;
        let key = match kind {
            // A checksum, which the router never sends, would cover more than the quoted bytes.
            TunnelKind::Gre => Gre::parse(payload).ok()?.0.key,
            TunnelKind::Ipip => None,
            // Many routers quote only the UDP header: then the error concerns any segment between both ends.
            TunnelKind::Vxlan => payload.get(vxlan_payload(payload)?..).and_then(vxlan_vni),
        };
        let sent = |tunnel: &&Tunnel| {
            let same_key = tunnel.plan.key == key || kind == TunnelKind::Vxlan && key.is_none();
            (tunnel.plan.local, tunnel.plan.kind) == (source, kind)
                && same_key
                && tunnel.plan.remotes.contains(&destination)
        };
        self.list.iter().find(sent)
    }
}
