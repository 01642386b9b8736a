//! TCP segments for tests.

use crate::definition::Observed;
use packet::{Meta, Packet, Pool};
use units::{Instant, ShareId};

/// A segment between a subscriber and a server.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// From the subscriber.
    pub up: bool,
    /// The subscriber's port.
    pub flow: u16,
    pub ipv6: bool,
    pub time: Instant,
    pub value: u32,
    pub echo: u32,
    pub flags: u8,
    /// Bytes of data.
    pub data: usize,
    /// The timestamps are the first option, after padding.
    pub usual: bool,
}

impl Segment {
    fn bytes(&self) -> Vec<u8> {
        let both = [self.value.to_be_bytes(), self.echo.to_be_bytes()].concat();
        let options = if self.usual {
            [&[1, 1, 8, 10], &both[..]].concat()
        } else {
            // A segment size and a window scale before, the end of the list after.
            [&[2, 4, 5, 0xb4, 3, 3, 7, 8, 10], &both[..], &[0, 0, 0]].concat()
        };
        let ports = if self.up { [self.flow, 443] } else { [443, self.flow] };
        let mut tcp: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        tcp.extend([0; 8]);
        tcp.extend([((20 + options.len()) << 2) as u8, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.resize(tcp.len() + self.data, 0xda);
        let mut frame = vec![2; 12];
        if self.ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((tcp.len() as u16).to_be_bytes());
            frame.extend([6, 64]);
            let hosts = [[0xfd; 16], [0x20; 16]];
            (if self.up { hosts } else { [hosts[1], hosts[0]] }).iter().for_each(|host| frame.extend(host));
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + tcp.len() as u16).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            let hosts = [[10, 0, 0, 1], [192, 0, 2, 1]];
            (if self.up { hosts } else { [hosts[1], hosts[0]] }).iter().for_each(|host| frame.extend(host));
        }
        frame.extend(tcp);
        // Padding to the shortest frame must not count as data.
        frame.resize(frame.len().max(90), 0);
        frame
    }

    /// The packet as the classifier leaves it.
    pub fn packet(&self, pool: &mut Pool) -> Packet {
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(&self.bytes()));
        let meta = packet.meta_mut();
        (meta.l3, meta.timestamp, meta.flags) = (14, self.time, if self.ipv6 { Meta::IPV6 } else { 0 });
        meta.set_share(ShareId(1));
        packet
    }

    /// The segment as the definition sees it. `None` for a reset.
    pub fn observed(&self) -> Option<Observed> {
        (self.flags & 4 == 0).then(|| Observed {
            flow: self.flow.to_string(),
            time: self.time,
            value: self.value,
            echo: (self.flags & 16 != 0 && self.echo != 0).then_some(self.echo),
            data: self.data > 0 || self.flags & 3 != 0,
        })
    }
}
