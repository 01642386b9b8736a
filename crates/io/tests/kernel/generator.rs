//! Generates frames of all kinds, valid and invalid.

mod fragments;
mod link;
mod payload;
mod v4;
mod v6;

use crate::bench::{host_mac, router_mac};
use crate::link_ends::Link;
use crate::random::Random;
use packet::wire::{Ipv4Spec, Ipv6Spec, ethernet, ethertype, protocol, transport};
use std::net::IpAddr;

/// A frame to send on a link.
#[derive(Clone, Debug)]
pub struct SentFrame {
    /// The link.
    pub link: Link,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// A UDP datagram between hosts on the left and the right link.
pub fn between(from: IpAddr, to: IpAddr, hops: u8) -> SentFrame {
    let mut datagram = [0x10, 0, 0x82, 0x9b, 0, 12, 0, 0, 1, 2, 3, 4];
    transport::seal(from, to, protocol::UDP, &mut datagram);
    let mut l3 = [0; 60];
    let (kind, header) = match (from, to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let spec = Ipv4Spec {
                type_of_service: 0,
                identification: 9,
                dont_fragment: true,
                ttl: hops,
                protocol: protocol::UDP,
                source,
                destination,
            };
            (ethertype::IPV4, spec.write(&mut l3, datagram.len()).expect("it has room"))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let (next_header, hop_limit) = (protocol::UDP, hops);
            let spec = Ipv6Spec { traffic_class: 0, flow_label: 0, next_header, hop_limit, source, destination };
            (ethertype::IPV6, spec.write(&mut l3, datagram.len()).expect("it has room"))
        }
        _ => panic!("{from} and {to} are of two families"),
    };
    let mut frame = vec![0; ethernet::HEADER];
    ethernet::write_header(&mut frame, router_mac(Link::Left), host_mac(Link::Left), None, kind);
    SentFrame { link: Link::Left, frame: [&frame, &l3[..header], &datagram].concat() }
}

/// The infinite sequence of frames of a seed.
pub fn frames(seed: u64) -> impl Iterator<Item = SentFrame> {
    let mut random = Random(seed);
    let trains = std::iter::repeat_with(move || {
        let r = &mut random;
        let sent = match r.below(20) {
            0..10 => link::framed(r, v4::packet),
            10..19 => link::framed(r, v6::packet),
            _ => link::other(r),
        };
        if r.percent(8) { fragments::cut(r, sent) } else { vec![sent] }
    });
    trains.flatten()
}
