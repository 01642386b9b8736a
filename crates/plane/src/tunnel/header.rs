//! Encapsulation and decapsulation of one packet, in place: its outer headers are written into the headroom of its frame, or cut off.

use super::{OuterPacket, PEER, Tunnel, Tunnels, kind_of};
use crate::worker::MAX_ROUNDS;
use packet::wire::transport::UDP_HEADER;
use packet::wire::{
    Ethernet, Gre, Ipv4Header, Ipv4Spec, Ipv6Header, Ipv6Spec, LengthOrType, VXLAN_HEADER, VXLAN_PORT,
    decapsulated_ecn, ethernet, ethertype, flow_hash, ipv4, protocol, transport, vxlan_header, vxlan_vni,
};
use packet::{DropReason, Exception, Meta, Packet};
use plan::TunnelKind;
use std::net::IpAddr;
use units::{Instant, InterfaceId};

/// Bytes of the link header before an IP packet.
const LINK: usize = ethernet::HEADER;

/// A packet that is not encapsulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unencapsulated {
    /// The tunnel has no use for it: a message of a protocol that finds link-layer addresses.
    Ignored,
    /// It is dropped.
    Dropped(DropReason),
}

/// Makes a received packet one that the router itself sends, with its network header at offset `l3`: it is classified again by its destination. Its
/// source is an address of the router. Its link header has only the ethertype.
pub fn send_as_own(packet: &mut Packet, l3: u16, is_ipv6: bool) {
    let meta = packet.meta_mut();
    *meta = Meta {
        timestamp: meta.timestamp,
        l3,
        share_mark: meta.share_mark,
        in_port: meta.in_port,
        in_interface: meta.in_interface,
        exception: Exception::Again as u8,
        flags: meta.flags & Meta::FOLLOWED | Meta::GENERATED | if is_ipv6 { Meta::IPV6 } else { 0 },
        rounds: meta.rounds & Meta::ROUNDS | Meta::ENCAPSULATED,
        ..Meta::default()
    };
}

impl Tunnel {
    /// Replaces the link header of a frame that the tunnel's port has sent by the outer headers, and describes the outer packet in its record: it is
    /// to be classified again. `flow_key` is the key of the hash for the flow label.
    ///
    /// # Errors
    /// The packet cannot be encapsulated.
    pub(crate) fn encapsulate(&self, packet: &mut Packet, remote: IpAddr, flow_key: u64) -> Result<(), Unencapsulated> {
        use Unencapsulated::{Dropped, Ignored};
        let is_segment = self.plan.is_segment();
        let kind = match Ethernet::parse(packet.bytes()) {
            Ok(Ethernet { vlan: None, length_or_type: LengthOrType::Ethertype(kind), .. }) => kind,
            // Frames of any kind cross a segment.
            Ok(_) if is_segment => 0,
            _ => return Err(Dropped(DropReason::TunnelProtocol)),
        };
        // The same bound as for functions: tunnels could pass a packet to each other for ever (RFC 2473 4.1).
        if packet.meta_mut().count_classification() > MAX_ROUNDS {
            return Err(Dropped(DropReason::TunnelLoop));
        }
        let inner = packet.bytes().get(LINK..).unwrap_or_default();
        let traffic_class = match kind {
            ethertype::IPV4 => Ipv4Header::of(inner).map(Ipv4Header::type_of_service),
            ethertype::IPV6 => Ipv6Header::of(inner).map(Ipv6Header::traffic_class),
            _ if is_segment => Some(0),
            ethertype::ARP => return Err(Ignored),
            _ => return Err(Dropped(DropReason::TunnelProtocol)),
        };
        let Some(traffic_class) = traffic_class else { return Err(Dropped(DropReason::HeaderTruncated)) };
        // ECN is copied (RFC 6040 4.1, normal mode), also beside a fixed code point.
        let traffic_class = self.plan.dscp.map_or(traffic_class, |dscp| dscp << 2 | traffic_class & 3);
        // Packets of one flow take one way through the network (RFC 6438).
        let flow = flow_hash(packet.bytes(), LINK, flow_key);
        // A segment carries the frame with its link header.
        let payload = if is_segment { packet.len() } else { inner.len() };
        let headers = usize::from(self.plan.headers());
        // The port has completed checksums and cut super-frames: nothing may be pending behind the outer header.
        if packet.is_offloaded() {
            return Err(Dropped(DropReason::BadOffload));
        }
        if !packet.shift(-((LINK + headers + payload - packet.len()) as isize)) {
            return Err(Dropped(DropReason::FrameTooLong));
        }
        let number = if self.plan.sequence || self.plan.fragment { self.state.next_number() } else { 0 };
        let sequence = self.plan.sequence.then_some(number);
        let (is_ipv6, bytes) = (self.plan.local.is_ipv6(), packet.bytes_mut());
        let Some((link, l3)) = bytes.split_at_mut_checked(LINK) else { return Err(Dropped(DropReason::FrameTooShort)) };
        let written =
            self.write_headers(l3, (kind, remote), (headers, payload), (traffic_class, flow), (sequence, number));
        if written.is_none() {
            return Err(Dropped(DropReason::FrameTooLong));
        }
        let outer = if is_ipv6 { ethertype::IPV6 } else { ethertype::IPV4 };
        // No link header yet: only its ethertype is read before the next hop is known.
        link.fill(0);
        link[LINK - 2..].copy_from_slice(&outer.to_be_bytes());
        let meta = packet.meta_mut();
        *meta = Meta {
            timestamp: meta.timestamp,
            l3: LINK as u16,
            // Drops of the outer packet are counted at the tunnel's port.
            in_port: self.port,
            in_interface: self.underlay,
            flags: Meta::GENERATED | if is_ipv6 { Meta::IPV6 } else { 0 },
            rounds: meta.rounds & Meta::ROUNDS | Meta::ENCAPSULATED,
            ..Meta::default()
        };
        Ok(())
    }

    /// Writes the outer headers at the start of `l3`, which ends with the packet of `payload` bytes. `None` if they do not fit.
    fn write_headers(
        &self,
        l3: &mut [u8],
        (kind, remote): (u16, IpAddr),
        (headers, payload): (usize, usize),
        (traffic_class, flow): (u8, u32),
        (sequence, number): (Option<u32>, u32),
    ) -> Option<usize> {
        // `ip` decrements the time to live when it forwards the outer packet.
        let (ttl, plan) = (self.plan.ttl + 1, &self.plan);
        let protocol = match (plan.kind, kind) {
            (TunnelKind::Gre, _) => protocol::GRE,
            (TunnelKind::Ipip, ethertype::IPV4) => protocol::IPIP,
            (TunnelKind::Ipip, _) => protocol::IPV6,
            (TunnelKind::Vxlan, _) => protocol::UDP,
        };
        let header = match (plan.local, remote) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let spec = Ipv4Spec {
                    type_of_service: traffic_class,
                    // Unique only if routers may fragment the packet (RFC 6864 4).
                    identification: number as u16,
                    dont_fragment: !plan.fragment,
                    ttl,
                    protocol,
                    source,
                    destination,
                };
                spec.write(l3, payload + headers - ipv4::HEADER)?
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let spec = Ipv6Spec {
                    traffic_class,
                    flow_label: flow,
                    next_header: protocol,
                    hop_limit: ttl,
                    source,
                    destination,
                };
                spec.write(l3, payload + headers - packet::wire::ipv6::HEADER)?
            }
            _ => return None,
        };
        match plan.kind {
            TunnelKind::Gre => Gre { ethertype: kind, key: plan.key, sequence }.write(l3.get_mut(header..)?),
            TunnelKind::Ipip => Some(0),
            TunnelKind::Vxlan => self.write_vxlan(l3.get_mut(header..)?, remote, flow),
        }
    }

    /// Writes the headers of UDP and VXLAN at the start of `message`, which ends with the packet.
    fn write_vxlan(&self, message: &mut [u8], remote: IpAddr, flow: u32) -> Option<usize> {
        /// The first of the ports that have no fixed use (RFC 7348 5, RFC 6335 6), and their number.
        const EPHEMERAL: (u16, u16) = (49_152, 16_384);
        let length = u16::try_from(message.len()).ok()?;
        // Routers on the way spread flows by the source port.
        let source = EPHEMERAL.0 + (flow >> 16) as u16 % EPHEMERAL.1;
        let header = message.first_chunk_mut::<{ UDP_HEADER + VXLAN_HEADER }>()?;
        let (udp, vxlan) = header.split_at_mut(UDP_HEADER);
        for (field, value) in udp.as_chunks_mut::<2>().0.iter_mut().zip([source, VXLAN_PORT, length, 0]) {
            *field = value.to_be_bytes();
        }
        vxlan.copy_from_slice(&vxlan_header(self.plan.key.unwrap_or(0)));
        // Over IPv4 the checksum should be zero (RFC 7348 5). Over IPv6 receivers accept that only if they are configured to (RFC 6935 5).
        let sealed = remote.is_ipv4() || transport::seal(self.plan.local, remote, protocol::UDP, message);
        sealed.then_some(UDP_HEADER + VXLAN_HEADER)
    }
}

/// The packet within an outer packet.
#[derive(Clone, Copy)]
pub(crate) struct InnerPacket<'a> {
    /// The tunnel that it has left.
    pub tunnel: &'a Tunnel,
    /// Its offset in the frame, in bytes.
    start: usize,
    /// The ethertype of the link header that it gets; `None` if it has one, on a segment.
    ethertype: Option<u16>,
    /// The other end.
    remote: IpAddr,
    /// Its ECN bits, if those of the outer header change them, behind the offset of its header in the new frame.
    ecn: Option<(usize, u8)>,
}

impl Tunnels {
    /// The packet within an outer packet, which has arrived at the router's address on `owner`.
    ///
    /// # Errors
    /// The reason to drop the packet.
    pub(crate) fn inner(&self, owner: InterfaceId, packet: &Packet) -> Result<InnerPacket<'_>, DropReason> {
        let outer = OuterPacket::of(packet).ok_or(DropReason::TunnelHeader)?;
        let kind = kind_of(outer.protocol).ok_or(DropReason::TunnelHeader)?;
        let mut tunnels = self.between((owner, outer.destination, outer.source, kind));
        let payload = usize::from(packet.meta().l3) + outer.payload;
        let bytes = packet.bytes().get(payload..).ok_or(DropReason::TunnelHeader)?;
        let (ethertype, header, key) = match outer.protocol {
            protocol::GRE => {
                let (gre, length) = Gre::parse(bytes).map_err(|_| DropReason::TunnelHeader)?;
                (gre.ethertype, length, gre.key)
            }
            protocol::IPIP => (ethertype::IPV4, 0, None),
            protocol::IPV6 => (ethertype::IPV6, 0, None),
            _ => (0, VXLAN_HEADER, Some(vxlan_vni(bytes).ok_or(DropReason::TunnelHeader)?)),
        };
        let tunnel = tunnels.find(|tunnel| tunnel.plan.key == key).ok_or(DropReason::TunnelKey)?;
        let (inner, remote) = (bytes.get(header..).unwrap_or_default(), outer.source);
        if tunnel.plan.is_segment() {
            let link = Ethernet::parse(inner).map_err(|_| DropReason::FrameTooShort)?;
            let l3 = inner.get(link.payload..).unwrap_or_default();
            let before = match link.ethertype() {
                Some(ethertype::IPV4) => Ipv4Header::of(l3).map_or(0, Ipv4Header::ecn),
                Some(ethertype::IPV6) => Ipv6Header::of(l3).map_or(0, Ipv6Header::ecn),
                // Nothing to mark: a congested network drops instead.
                _ => return Ok(InnerPacket { tunnel, start: payload + header, ethertype: None, remote, ecn: None }),
            };
            let after = decapsulated_ecn(before, outer.ecn).ok_or(DropReason::TunnelEcn)?;
            let ecn = (after != before).then_some((link.payload, after));
            return Ok(InnerPacket { tunnel, start: payload + header, ethertype: None, remote, ecn });
        }
        let before = match ethertype {
            ethertype::IPV4 => Ipv4Header::of(inner).map(Ipv4Header::ecn),
            ethertype::IPV6 => Ipv6Header::of(inner).map(Ipv6Header::ecn),
            _ => return Err(DropReason::TunnelProtocol),
        };
        let before = before.ok_or(DropReason::HeaderTruncated)?;
        let after = decapsulated_ecn(before, outer.ecn).ok_or(DropReason::TunnelEcn)?;
        // A pending offload concerns the packet within: a sender on this machine left it to a network card.
        let ecn = (after != before).then_some((LINK, after));
        Ok(InnerPacket { tunnel, start: payload + header, ethertype: Some(ethertype), remote, ecn })
    }
}

impl InnerPacket<'_> {
    /// Replaces the outer headers by a link header to the tunnel's port, if the packet has none. A segment learns the packet's station at `now`, if there
    /// is a time. False if the frame has no room for the header.
    #[must_use]
    pub(crate) fn cut(self, packet: &mut Packet, now: Option<Instant>) -> bool {
        let start = if self.ethertype.is_some() { self.start as isize - LINK as isize } else { self.start as isize };
        if !packet.shift(start) {
            return false;
        }
        match self.ethertype {
            Some(ethertype) => {
                let Some(link) = packet.bytes_mut().get_mut(..LINK) else { return false };
                ethernet::write_header(link, self.tunnel.mac, PEER, None, ethertype);
            }
            None => now.into_iter().for_each(|now| self.tunnel.learn(packet.bytes(), self.remote, now)),
        }
        if let Some((l3, ecn)) = self.ecn
            && let Some(inner) = packet.bytes_mut().get_mut(l3..)
        {
            match inner.first().map(|byte| byte >> 4) {
                Some(4) => Ipv4Header::of_mut(inner).into_iter().for_each(|header| header.set_ecn(ecn)),
                _ => Ipv6Header::of_mut(inner).into_iter().for_each(|header| header.set_ecn(ecn)),
            }
        }
        true
    }
}
