//! Segmentation of super-frames, against etherparse, which builds each expected segment from its fields.

use crate::pool::{Offload, PartialChecksum, Segmentation};
use crate::wire::offload::{OffloadError, complete, wire_length};
use crate::wire::{Ipv4, Segmenter, checksum::Sum, set_congestion_experienced, transport::verify_checksum};
use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv4Options, Ipv6Extensions, Ipv6Header,
    Ipv6RawExtHeader, Ipv6RoutingExtensions, PacketBuilder, TcpHeader, VlanId,
};
use proptest::prelude::*;

/// The fields that a super-frame shares with each of its segments.
#[derive(Clone, Debug)]
struct Flow {
    vlan: Option<u16>,
    ip: IpHeaders,
    upper: Upper,
}

#[derive(Clone, Debug)]
enum Upper {
    Tcp(Box<TcpHeader>),
    Udp,
}

impl Flow {
    fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let builder = match self.vlan {
            Some(id) => link.single_vlan(VlanId::try_new(id).unwrap()).ip(self.ip.clone()),
            None => link.ip(self.ip.clone()),
        };
        let mut frame = Vec::new();
        match &self.upper {
            Upper::Tcp(header) => builder.tcp_header((**header).clone()).write(&mut frame, payload),
            Upper::Udp => builder.udp(4000, 5000).write(&mut frame, payload),
        }
        .unwrap();
        frame
    }

    fn l3(&self) -> usize {
        if self.vlan.is_some() { 18 } else { 14 }
    }

    fn l4(&self) -> usize {
        self.l3() + self.ip.header_len()
    }

    fn headers(&self) -> usize {
        self.l4()
            + match &self.upper {
                Upper::Tcp(header) => header.header_len(),
                Upper::Udp => 8,
            }
    }

    fn segmentation(&self) -> Segmentation {
        match (&self.upper, &self.ip) {
            (Upper::Udp, _) => Segmentation::Udp,
            (_, IpHeaders::Ipv4(..)) => Segmentation::Tcp4,
            (_, IpHeaders::Ipv6(..)) => Segmentation::Tcp6,
        }
    }

    /// The segment with number `index`, with the stream from `start` on.
    fn segment(&self, index: usize, start: usize, last: bool) -> Flow {
        let mut flow = self.clone();
        if let IpHeaders::Ipv4(header, _) = &mut flow.ip {
            header.identification = header.identification.wrapping_add(index as u16);
        }
        if let Upper::Tcp(header) = &mut flow.upper {
            header.sequence_number = header.sequence_number.wrapping_add(start as u32);
            header.cwr &= index == 0;
            header.psh &= last;
            header.fin &= last;
        }
        flow
    }

    /// The super-frame as a kernel passes it to a device: with the pseudo-header's sum in the checksum field.
    fn whole(&self, payload: &[u8]) -> (Vec<u8>, PartialChecksum) {
        let mut frame = self.frame(payload);
        let (offset, number) = if matches!(self.upper, Upper::Udp) { (6, 17) } else { (16, 6) };
        let length = frame.len() - self.l4();
        let sum = match &self.ip {
            IpHeaders::Ipv4(ip, _) => {
                Sum::new().pseudo4(ip.source.into(), ip.destination.into(), number, length as u16)
            }
            IpHeaders::Ipv6(ip, extensions) => {
                let last = extensions.routing.as_ref().map(|routing| {
                    let payload = routing.routing.payload();
                    <[u8; 16]>::try_from(&payload[payload.len() - 16..]).unwrap()
                });
                let to = last.unwrap_or(ip.destination);
                Sum::new().pseudo6(ip.source.into(), to.into(), number, length as u32)
            }
        };
        let at = self.l4() + offset;
        frame[at..at + 2].copy_from_slice(&sum.folded().to_be_bytes());
        (frame, PartialChecksum { start: self.l4() as u16, offset: offset as u16 })
    }
}

fn cut(frame: &[u8], l3: usize, offload: Offload) -> Result<Vec<Vec<u8>>, OffloadError> {
    let mut cut = Segmenter::new(frame, l3, offload)?;
    let (count, longest, length) = (cut.segments(), cut.longest(), cut.wire_length());
    let mut segments = Vec::new();
    while cut.next_length() > 0 {
        let mut segment = vec![0xa5; cut.next_length()];
        cut.write(frame, &mut segment).expect("the buffer has the length asked for");
        segments.push(segment);
    }
    assert_eq!(segments.len(), count);
    assert_eq!(segments.iter().map(|segment| segment.len() - l3).max(), Some(longest));
    assert_eq!(segments.iter().map(Vec::len).sum::<usize>(), length);
    assert_eq!(wire_length(frame, l3, offload), length);
    Ok(segments)
}

fn four() -> impl Strategy<Value = IpHeaders> {
    let options = proptest::collection::vec(Just(1u8), 0..40);
    (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u16>(), any::<bool>(), 0u8..4, options).prop_map(
        |(source, destination, identification, dont_fragment, ecn, mut options)| {
            options.truncate(options.len() / 4 * 4);
            let header = Ipv4Header {
                source,
                destination,
                identification,
                dont_fragment,
                ecn: ecn.try_into().unwrap(),
                time_to_live: 9,
                fragment_offset: IpFragOffset::ZERO,
                options: Ipv4Options::try_from(&options[..]).unwrap(),
                ..Ipv4Header::default()
            };
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        },
    )
}

fn six() -> impl Strategy<Value = IpHeaders> {
    let options = || proptest::option::of((0usize..3).prop_map(|n| vec![0u8; 6 + 8 * n]));
    let routing = proptest::option::of((0u8..2, any::<[u8; 16]>()));
    (any::<[u8; 16]>(), any::<[u8; 16]>(), options(), options(), routing).prop_map(
        |(source, destination, hop_by_hop, destination_options, routing)| {
            let raw = |bytes: Vec<u8>| Ipv6RawExtHeader::new_raw(IpNumber(0), &bytes).unwrap();
            let mut extensions = Ipv6Extensions {
                hop_by_hop_options: hop_by_hop.map(raw),
                destination_options: destination_options.map(raw),
                ..Ipv6Extensions::default()
            };
            extensions.routing = routing.map(|(left, last)| {
                let mut bytes = vec![4, left, 0, 0, 0, 0];
                bytes.extend_from_slice(if left == 0 { &destination } else { &last });
                Ipv6RoutingExtensions { routing: raw(bytes), final_destination_options: None }
            });
            let header = Ipv6Header { source, destination, hop_limit: 9, ..Ipv6Header::default() };
            IpHeaders::Ipv6(header, extensions)
        },
    )
}

fn tcp() -> impl Strategy<Value = Upper> {
    (any::<u32>(), any::<u8>(), proptest::collection::vec(Just(1u8), 0..40)).prop_map(|(sequence, flags, options)| {
        let mut header = TcpHeader::new(4000, 5000, sequence, 1000);
        [header.fin, header.psh, header.ack] = [flags & 1 != 0, flags & 2 != 0, flags & 4 != 0];
        [header.cwr, header.ece, header.ns] = [flags & 8 != 0, flags & 16 != 0, flags & 32 != 0];
        header.acknowledgment_number = 77;
        header.set_options_raw(&options[..options.len() / 4 * 4]).unwrap();
        Upper::Tcp(Box::new(header))
    })
}

fn flow() -> impl Strategy<Value = Flow> {
    let ip = prop_oneof![four().boxed(), six().boxed()];
    (proptest::option::of(0u16..4095), ip, prop_oneof![3 => tcp().boxed(), 1 => Just(Upper::Udp).boxed()])
        .prop_map(|(vlan, ip, upper)| Flow { vlan, ip, upper })
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![4 => 1usize..3000, 1 => 60_000usize..65_000];
    (length, any::<u8>()).prop_map(|(length, seed)| (0..length).map(|i| (i * 31 / 7) as u8 ^ seed).collect())
}

proptest! {
    #[test]
    fn segments_equal_packets_built_by_etherparse(
        flow in flow(),
        payload in payload(),
        size in prop_oneof![1u16..9000, Just(1448)],
        partial: bool,
    ) {
        // No packet exceeds its length field, and few segments are enough.
        prop_assume!(payload.len() + flow.headers() <= 65_535 && payload.len() / usize::from(size) < 300);
        let (frame, checksum) = flow.whole(&payload);
        let offload = Offload { segmentation: flow.segmentation(), size, checksum: partial.then_some(checksum) };
        let routed = matches!(&flow.ip, IpHeaders::Ipv6(_, extensions)
            if extensions.routing.as_ref().is_some_and(|routing| routing.routing.payload()[1] != 0));
        let segments = match cut(&frame, flow.l3(), offload) {
            Err(error) => {
                prop_assert_eq!(error, OffloadError::SourceRouted);
                prop_assert!(routed && !partial);
                return Ok(());
            }
            Ok(segments) => segments,
        };
        let mut start = 0;
        for (index, (segment, chunk)) in segments.iter().zip(payload.chunks(size.into())).enumerate() {
            let last = start + chunk.len() == payload.len();
            let mut expected = flow.segment(index, start, last).frame(chunk);
            if routed {
                // etherparse sums the destination in the header; the sum for the final destination is compared separately.
                prop_assert!(sums_to_the_final_destination(&flow, segment));
                let at = flow.l4() + usize::from(checksum.offset);
                expected[at..at + 2].copy_from_slice(&segment[at..at + 2]);
            } else {
                prop_assert_eq!(verify_checksum(&segment[flow.l3()..]), Ok(Some(true)));
            }
            prop_assert_eq!(segment, &expected, "segment {}", index);
            start += chunk.len();
        }
        prop_assert_eq!(start, payload.len());
    }

    #[test]
    fn completed_checksum_equals_that_of_etherparse(flow in flow(), payload in payload()) {
        prop_assume!(payload.len() + flow.headers() <= 65_535);
        let routed = matches!(&flow.ip, IpHeaders::Ipv6(_, extensions) if extensions.routing.is_some());
        prop_assume!(!routed);
        let (mut frame, checksum) = flow.whole(&payload);
        prop_assert!(complete(&mut frame, checksum));
        prop_assert_eq!(verify_checksum(&frame[flow.l3()..]), Ok(Some(true)));
        // Only a sum of zero has a second form.
        let at = flow.l4() + usize::from(checksum.offset);
        if frame[at..at + 2] != [0xff, 0xff] {
            prop_assert_eq!(frame, flow.frame(&payload));
        }
    }

    #[test]
    fn ecn_mark_of_super_frame_is_on_every_segment(flow in flow(), payload in payload(), size in 500u16..2000) {
        prop_assume!(payload.len() + flow.headers() <= 65_535);
        let (mut frame, checksum) = flow.whole(&payload);
        let capable = set_congestion_experienced(&mut frame, flow.l3());
        let offload = Offload { segmentation: flow.segmentation(), size, checksum: Some(checksum) };
        for segment in cut(&frame, flow.l3(), offload).unwrap() {
            let l3 = &segment[flow.l3()..];
            let ecn = if l3[0] >> 4 == 4 { Ipv4::parse(l3).unwrap().header.ecn() } else { l3[1] >> 4 & 3 };
            prop_assert!(!capable || ecn == 3);
        }
    }

    #[test]
    fn any_frame_is_segmented_or_rejected(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        (l3, kind, size) in (0usize..40, 0u8..4, any::<u16>()),
        checksum in proptest::option::of((any::<u16>(), any::<u16>())),
    ) {
        let segmentation =
            [Segmentation::None, Segmentation::Tcp4, Segmentation::Tcp6, Segmentation::Udp][usize::from(kind)];
        let checksum = checksum.map(|(start, offset)| PartialChecksum { start, offset });
        let _ = cut(&bytes, l3, Offload { segmentation, size, checksum });
    }
}

/// True if the checksum of a segment with a source route is that for the last address of the route.
fn sums_to_the_final_destination(flow: &Flow, segment: &[u8]) -> bool {
    let IpHeaders::Ipv6(ip, extensions) = &flow.ip else { return false };
    let Some(routing) = &extensions.routing else { return false };
    let last = <[u8; 16]>::try_from(&routing.routing.payload()[6..22]).unwrap();
    let message = &segment[flow.l4()..];
    let number = if matches!(flow.upper, Upper::Udp) { 17 } else { 6 };
    let sum = Sum::new().pseudo6(ip.source.into(), last.into(), number, message.len() as u32);
    sum.bytes(message).folded() == 0xffff
}

fn plain(upper: Upper) -> Flow {
    let header = Ipv4Header { source: [192, 0, 2, 1], destination: [198, 51, 100, 1], ..Ipv4Header::default() };
    Flow { vlan: None, ip: IpHeaders::Ipv4(header, Ipv4Extensions::default()), upper }
}

#[test]
fn udp_segments_of_packet_without_checksum_have_none() {
    let flow = plain(Upper::Udp);
    let mut frame = flow.frame(&[7; 100]);
    frame[40..42].fill(0);
    let offload = Offload { segmentation: Segmentation::Udp, size: 60, checksum: None };
    let segments = cut(&frame, 14, offload).unwrap();
    assert_eq!(
        segments.iter().map(|s| (s.len(), &s[38..42])).collect::<Vec<_>>(),
        [(102, &[0, 68, 0, 0][..]), (82, &[0, 48, 0, 0][..])]
    );
}

#[test]
fn segmenter_rejects_packets_that_are_no_super_frames() {
    let flow = plain(Upper::Tcp(Box::new(TcpHeader::new(1, 2, 3, 4))));
    let (frame, checksum) = flow.whole(&[7; 100]);
    let offload = Offload { segmentation: Segmentation::Tcp4, size: 60, checksum: Some(checksum) };
    assert_eq!(cut(&frame, 14, offload).unwrap().len(), 2);
    let kind = |segmentation| Offload { segmentation, ..offload };
    let elsewhere = Offload { checksum: Some(PartialChecksum { start: 33, offset: 16 }), ..offload };
    let edited = |at: usize, byte: u8| {
        let mut edited = frame.clone();
        edited[at] = byte;
        edited
    };
    for (frame, offload, error) in [
        (frame.clone(), Offload::NONE, OffloadError::NotSuper),
        (frame.clone(), kind(Segmentation::Tcp6), OffloadError::Header),
        (frame.clone(), kind(Segmentation::Udp), OffloadError::Protocol),
        (frame.clone(), elsewhere, OffloadError::Transport),
        (frame[..100].to_vec(), offload, OffloadError::Header),
        (flow.whole(&[]).0, offload, OffloadError::Transport),
        (edited(20, 0x20), offload, OffloadError::Fragment),
        (edited(46, 0x40), offload, OffloadError::Transport),
        (Vec::new(), offload, OffloadError::Header),
    ] {
        assert_eq!(cut(&frame, 14, offload), Err(error), "{error}");
    }
    assert!(Segmenter::new(&frame, usize::MAX, offload).is_err());
}

#[test]
fn smaller_mtu_gives_smaller_segments_or_none() {
    let (frame, checksum) = plain(Upper::Tcp(Box::new(TcpHeader::new(1, 2, 3, 4)))).whole(&[7; 3000]);
    let offload = Offload { segmentation: Segmentation::Tcp4, size: 1460, checksum: Some(checksum) };
    let cut = Segmenter::new(&frame, 14, offload).unwrap();
    assert_eq!((cut.longest(), cut.size_for(1500), cut.size_for(576)), (1500, Some(1460), Some(536)));
    assert_eq!(
        (cut.size_for(41), cut.size_for(40), cut.size_for(0), cut.size_for(70_000)),
        (Some(1), None, None, None)
    );
}

#[test]
fn segment_fills_exactly_its_buffer() {
    let (frame, checksum) = plain(Upper::Tcp(Box::new(TcpHeader::new(1, 2, 3, 4)))).whole(&[7; 100]);
    let offload = Offload { segmentation: Segmentation::Tcp4, size: 60, checksum: Some(checksum) };
    let mut cut = Segmenter::new(&frame, 14, offload).unwrap();
    let before = cut;
    for length in [0, cut.next_length() - 1, cut.next_length() + 1] {
        assert_eq!(cut.write(&frame, &mut vec![0; length]), None);
    }
    assert_eq!(cut.write(&frame[..110], &mut vec![0; cut.next_length()]), None);
    assert_eq!(cut, before);
}
