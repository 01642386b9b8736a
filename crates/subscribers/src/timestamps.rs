//! The timestamps of a TCP segment (RFC 7323 3).

use packet::wire::protocol;
use packet::{Meta, Packet};

/// Bytes of an IPv4 header without options, of an IPv6 header, and of a TCP header without options.
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: usize = 20;
/// TCP flags (RFC 9293 3.1).
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// Kinds of options: the end of the list, padding, and timestamps of ten bytes.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const TIMESTAMPS: u8 = 8;
const TIMESTAMPS_LENGTH: u8 = 10;
/// The layout that RFC 7323 appendix A recommends, which nearly all segments have: two bytes of padding, then the option.
const USUAL: [u8; 4] = [NO_OPERATION, NO_OPERATION, TIMESTAMPS, TIMESTAMPS_LENGTH];

/// A TCP segment with timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    /// The addresses of the source and the destination.
    pub hosts: [u128; 2],
    /// The ports of the source and the destination.
    pub ports: [u16; 2],
    /// The sender's timestamp.
    pub value: u32,
    /// The timestamp of the other side that the segment returns. `None` if the segment acknowledges nothing.
    pub echo: Option<u32>,
    /// The receiver answers this segment at once, as far as it does not delay acknowledgments: it has data, SYN or FIN.
    pub asks: bool,
}

impl Segment {
    /// The segment in a packet whose `l3` and flag `IPV6` are set. `None` for other packets, fragments, IPv6 packets with extension headers, resets, and
    /// segments without timestamps or with contradictory lengths.
    #[inline(always)]
    pub fn of(packet: &Packet) -> Option<Segment> {
        let meta = packet.meta();
        let l3 = packet.bytes().get(usize::from(meta.l3)..)?;
        if meta.flags & Meta::IPV6 == 0 { Segment::of_ipv4(l3) } else { Segment::of_ipv6(l3) }
    }

    #[inline(always)]
    fn of_ipv4(l3: &[u8]) -> Option<Segment> {
        let header = l3.first_chunk::<IPV4>()?;
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        if header[0] >> 4 != 4 || header[9] != protocol::TCP || is_fragment {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let begin = usize::from(header[0] & 15) * 4;
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
        let hosts = [[s0, s1, s2, s3], [d0, d1, d2, d3]].map(|address| u32::from_be_bytes(address).into());
        if begin < IPV4 { None } else { Segment::of_tcp(l3.get(begin..)?, length.checked_sub(begin)?, hosts) }
    }

    #[inline(always)]
    fn of_ipv6(l3: &[u8]) -> Option<Segment> {
        let (header, tcp) = l3.split_first_chunk::<IPV6>()?;
        if header[0] >> 4 != 6 || header[6] != protocol::TCP {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let (source, destination) = header[8..].split_at(16);
        let hosts = [source, destination]
            .map(|address| address.first_chunk().map_or(0, |address| u128::from_be_bytes(*address)));
        Segment::of_tcp(tcp, length, hosts)
    }

    /// The segment at the beginning of `tcp`; the IP header says that it has `length` bytes. The frame may be longer (padding), or shorter if the rest is
    /// in another frame.
    #[inline(always)]
    fn of_tcp(tcp: &[u8], length: usize, hosts: [u128; 2]) -> Option<Segment> {
        let header = tcp.first_chunk::<TCP>()?;
        let (begin, flags) = (usize::from(header[12] >> 4) * 4, header[13]);
        // A reset may return anything (RFC 7323 3.2).
        if begin > length || flags & RST != 0 {
            return None;
        }
        let (value, echo) = timestamps(tcp.get(TCP..begin)?)?;
        Some(Segment {
            hosts,
            ports: [u16::from_be_bytes([header[0], header[1]]), u16::from_be_bytes([header[2], header[3]])],
            value,
            // Zero in the first segment of a connection, and from hosts that have seen no timestamp.
            echo: (flags & ACK != 0 && echo != 0).then_some(echo),
            asks: length > begin || flags & (SYN | FIN) != 0,
        })
    }
}

/// The value and the echo among the options of a segment.
#[inline(always)]
fn timestamps(options: &[u8]) -> Option<(u32, u32)> {
    if let Some((usual, rest)) = options.split_first_chunk::<4>()
        && *usual == USUAL
    {
        return both(rest);
    }
    search(options)
}

/// Reads any layout of options: at most 40 bytes.
#[inline(never)]
fn search(mut options: &[u8]) -> Option<(u32, u32)> {
    loop {
        options = match *options {
            [NO_OPERATION, ref rest @ ..] => rest,
            [END, ..] | [] | [_] => return None,
            [TIMESTAMPS, TIMESTAMPS_LENGTH, ref rest @ ..] => return both(rest),
            // A timestamp option of another length is malformed; a length below two would never advance.
            [TIMESTAMPS, ..] | [_, 0 | 1, ..] => return None,
            [_, length, ..] => options.get(usize::from(length)..)?,
        };
    }
}

#[inline(always)]
fn both(option: &[u8]) -> Option<(u32, u32)> {
    let &[v0, v1, v2, v3, e0, e1, e2, e3] = option.first_chunk()?;
    Some((u32::from_be_bytes([v0, v1, v2, v3]), u32::from_be_bytes([e0, e1, e2, e3])))
}
