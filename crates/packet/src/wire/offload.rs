//! Offloads that senders leave to a device: segmentation of super-frames, and completion of checksums.
//!
//! A super-frame is one TCP segment or UDP datagram of up to 64 KB with a segment size for the packets on the wire (OASIS virtio 1.2, 5.1.6.2). The
//! router forwards it whole if the egress port supports that. Otherwise a [`Segmenter`] makes one packet after the other. It holds no borrow, so the
//! super-frame may wait in between.

use super::checksum::{self, Sum};
use super::transport::{TCP_HEADER, UDP_HEADER};
use super::{Ipv4, Ipv6, ipv6, protocol};
use crate::pool::{Offload, PartialChecksum, Segmentation};
use std::fmt;

/// The contradiction between a packet and its [`Offload`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum OffloadError {
    /// The offload asks for no segmentation.
    NotSuper,
    /// The IP header is malformed, or of another version.
    Header,
    /// A fragment: only whole packets are segmented.
    Fragment,
    /// Another transport protocol.
    Protocol,
    /// The transport header is truncated, or has no payload.
    Transport,
    /// A source route is not completed: the checksum covers another destination than the header has (RFC 8200 8.1).
    SourceRouted,
}

impl fmt::Display for OffloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSuper => "not a super-frame",
            Self::Header => "IP header of a super-frame malformed",
            Self::Fragment => "a fragment cannot be a super-frame",
            Self::Protocol => "a super-frame of another protocol than it says",
            Self::Transport => "transport header of a super-frame truncated, or nothing behind it",
            Self::SourceRouted => "source route of a super-frame not used up",
        })
    }
}

impl std::error::Error for OffloadError {}

/// Completes a partial checksum: sums from its start to the end of the frame, including the pseudo-header's sum in the field. Zero is written as
/// 0xffff, because zero means "none" in UDP (RFC 768). Returns false and changes nothing if the field lies beyond the frame.
pub fn complete(frame: &mut [u8], partial: PartialChecksum) -> bool {
    let Some(covered) = frame.get_mut(usize::from(partial.start)..) else { return false };
    let sum = checksum::checksum(covered);
    let at = usize::from(partial.offset);
    let Some(field) = covered.get_mut(at..at + 2) else { return false };
    field.copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    true
}

/// Bytes that a packet occupies on its link: for a super-frame with the headers of all its segments. `l3` is the offset of its network header. A
/// packet that contradicts its offload counts with its own length.
pub fn wire_length(frame: &[u8], l3: usize, offload: Offload) -> usize {
    if !offload.is_super_frame() {
        return frame.len();
    }
    Segmenter::new(frame, l3, offload).map_or(frame.len(), |cut| cut.wire_length())
}

/// Segments one super-frame: the position of its headers, and the progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segmenter {
    l3: usize,
    l4: usize,
    /// The offset of the transport payload. The bytes before it are copied to every segment.
    payload: usize,
    end: usize,
    /// Payload bytes of a segment.
    size: usize,
    version: Version,
    transport: Transport,
    /// The folded sum of the pseudo-header without its length.
    pseudo: u16,
    /// Payload bytes written.
    done: usize,
    /// Segments written.
    count: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Four,
    Six,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Tcp,
    Udp,
    /// UDP over IPv4 without a checksum.
    UdpUnsummed,
}

/// The fields of an IP header that segmentation needs.
struct Network {
    version: Version,
    protocol: u8,
    /// Offset from the network header.
    l4: usize,
    end: usize,
    /// The folded sum of the pseudo-header without its length. `None` if the header does not have the final destination.
    pseudo: Option<u16>,
}

impl Network {
    fn four(l3: &[u8]) -> Result<Network, OffloadError> {
        let ip = Ipv4::parse_without_checksum(l3).map_err(|_| OffloadError::Header)?;
        if ip.header.is_fragment() {
            return Err(OffloadError::Fragment);
        }
        let protocol = ip.header.protocol();
        let pseudo = Sum::new().pseudo4(ip.header.source(), ip.header.destination(), protocol, 0);
        let (l4, end) = (ip.header_length(), ip.bytes.len());
        Ok(Network { version: Version::Four, protocol, l4, end, pseudo: Some(pseudo.folded()) })
    }

    fn six(l3: &[u8]) -> Result<Network, OffloadError> {
        let ip = Ipv6::parse(l3).map_err(|_| OffloadError::Header)?;
        let chain = ip.chain().map_err(|_| OffloadError::Header)?;
        if chain.fragment.is_some() {
            return Err(OffloadError::Fragment);
        }
        let (protocol, end) = (chain.protocol, ip.bytes.len());
        let l4 = chain.offset.ok_or(OffloadError::Header)?;
        let arrived = chain.routing.is_none_or(|routing| routing.segments_left == 0);
        let pseudo = Sum::new().pseudo6(ip.header.source(), ip.header.destination(), protocol, 0);
        Ok(Network { version: Version::Six, protocol, l4, end, pseudo: arrived.then(|| pseudo.folded()) })
    }
}

impl Segmenter {
    /// Segments `frame`, whose network header is at `l3`, as `offload` asks. The frame's own transport checksum is not used. The segments' checksums
    /// are computed from the headers, or from the partial sum if there is one.
    pub fn new(frame: &[u8], l3: usize, offload: Offload) -> Result<Segmenter, OffloadError> {
        let packet = frame.get(l3..).ok_or(OffloadError::Header)?;
        let four = packet.first().is_some_and(|byte| byte >> 4 == 4);
        let (network, expected) = match offload.segmentation {
            Segmentation::None => return Err(OffloadError::NotSuper),
            Segmentation::Tcp4 => (Network::four(packet)?, protocol::TCP),
            Segmentation::Tcp6 => (Network::six(packet)?, protocol::TCP),
            Segmentation::Udp if four => (Network::four(packet)?, protocol::UDP),
            Segmentation::Udp => (Network::six(packet)?, protocol::UDP),
        };
        let Network { version, protocol, l4, end, pseudo } = network;
        if protocol != expected {
            return Err(OffloadError::Protocol);
        }
        let message = packet.get(l4..end).ok_or(OffloadError::Transport)?;
        let partial = offload.checksum.map(|partial| (usize::from(partial.start), usize::from(partial.offset)));
        let (header, transport, field) = if protocol == protocol::TCP {
            let offset = usize::from(message.get(12).ok_or(OffloadError::Transport)? >> 4) * 4;
            (offset, Transport::Tcp, 16)
        } else {
            // A zero field means that the sender made no checksum; the segments get none either (RFC 768).
            let none = version == Version::Four && partial.is_none() && message.get(6..8) == Some(&[0, 0]);
            (UDP_HEADER, if none { Transport::UdpUnsummed } else { Transport::Udp }, 6)
        };
        let least = if protocol == protocol::TCP { TCP_HEADER } else { UDP_HEADER };
        if header < least || message.len() <= header || offload.size == 0 {
            return Err(OffloadError::Transport);
        }
        let pseudo = match partial {
            // The sender summed the pseudo-header with the length of the whole; that length is subtracted (RFC 1624).
            Some((start, offset)) if start == l3 + l4 && offset == field => {
                let &[a, b] = message[field..].first_chunk().ok_or(OffloadError::Transport)?;
                Sum::new().word(u16::from_be_bytes([a, b])).word(!(message.len() as u16)).folded()
            }
            Some(_) => return Err(OffloadError::Transport),
            None => pseudo.ok_or(OffloadError::SourceRouted)?,
        };
        let (l4, end) = (l3 + l4, l3 + end);
        let (payload, size) = (l4 + header, usize::from(offload.size));
        Ok(Segmenter { l3, l4, payload, end, size, version, transport, pseudo, done: 0, count: 0 })
    }

    /// The number of segments.
    pub fn segments(&self) -> usize {
        (self.end - self.payload).div_ceil(self.size)
    }

    /// Length of the longest IP packet among the segments, in bytes: the MTU that a link needs.
    pub fn longest(&self) -> usize {
        self.payload - self.l3 + self.size.min(self.end - self.payload)
    }

    /// Bytes of all segments as frames.
    pub fn wire_length(&self) -> usize {
        self.segments() * self.payload + (self.end - self.payload)
    }

    /// The segment size for a link of `mtu` bytes. `None` if no size fits.
    pub fn size_for(&self, mtu: usize) -> Option<u16> {
        let size = mtu.checked_sub(self.payload - self.l3).filter(|&size| size > 0)?;
        u16::try_from(size).ok()
    }

    /// Length of the next segment as a frame; zero after the last.
    pub fn next_length(&self) -> usize {
        match self.end - self.payload - self.done {
            0 => 0,
            left => self.payload + left.min(self.size),
        }
    }

    /// Writes the next segment of `frame`, for which this segmenter was made, to `segment`, which must have [`Segmenter::next_length`] bytes. Returns
    /// `None` and changes nothing if either has a wrong length.
    pub fn write(&mut self, frame: &[u8], segment: &mut [u8]) -> Option<()> {
        let length = self.next_length();
        let bytes = length.checked_sub(self.payload)?;
        let from = self.payload + self.done;
        let (headers, payload) = (frame.get(..self.payload)?, frame.get(from..from + bytes)?);
        if segment.len() != length || frame.len() < self.end {
            return None;
        }
        segment[..self.payload].copy_from_slice(headers);
        segment[self.payload..].copy_from_slice(payload);
        let last = from + bytes == self.end;
        self.network_header(&mut segment[self.l3..])?;
        match self.transport {
            Transport::Tcp => self.tcp_header(&mut segment[self.l4..], last)?,
            Transport::Udp | Transport::UdpUnsummed => self.udp_header(&mut segment[self.l4..])?,
        }
        self.done += bytes;
        self.count = self.count.wrapping_add(1);
        Some(())
    }

    /// Sets length and, in IPv4, identification and checksum. All other bytes, including options and extension headers, are those of the super-frame.
    fn network_header(&self, packet: &mut [u8]) -> Option<()> {
        let length = packet.len();
        if self.version == Version::Six {
            let payload = u16::try_from(length.checked_sub(ipv6::HEADER)?).ok()?;
            packet.get_mut(4..6)?.copy_from_slice(&payload.to_be_bytes());
            return Some(());
        }
        let header = packet.get_mut(..self.l4 - self.l3)?;
        let identification = u16::from_be_bytes([header[4], header[5]]).wrapping_add(self.count);
        header[2..4].copy_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
        header[4..6].copy_from_slice(&identification.to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        Some(())
    }

    /// Sets sequence number, flags and checksum. Only the last segment keeps the flags that end a burst. Only the first keeps CWR, because each CWR
    /// answers one congestion event (RFC 3168 6.1.2).
    fn tcp_header(&self, message: &mut [u8], last: bool) -> Option<()> {
        const FIN: u8 = 0x01;
        const PUSH: u8 = 0x08;
        const WINDOW_REDUCED: u8 = 0x80;
        let header = message.first_chunk_mut::<TCP_HEADER>()?;
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]).wrapping_add(self.done as u32);
        header[4..8].copy_from_slice(&sequence.to_be_bytes());
        if !last {
            header[13] &= !(FIN | PUSH);
        }
        if self.count > 0 {
            header[13] &= !WINDOW_REDUCED;
        }
        header[16..18].fill(0);
        let sum = self.sum(message);
        message[16..18].copy_from_slice(&sum.to_be_bytes());
        Some(())
    }

    /// Sets length and checksum.
    fn udp_header(&self, message: &mut [u8]) -> Option<()> {
        let length = u16::try_from(message.len()).ok()?;
        let header = message.first_chunk_mut::<UDP_HEADER>()?;
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6..8].fill(0);
        if self.transport == Transport::Udp {
            let sum = match self.sum(message) {
                0 => 0xffff,
                sum => sum,
            };
            message[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        Some(())
    }

    fn sum(&self, message: &[u8]) -> u16 {
        Sum::new().word(self.pseudo).word(message.len() as u16).bytes(message).checksum()
    }
}
