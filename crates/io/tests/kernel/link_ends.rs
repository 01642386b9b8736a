//! The ends of the cables, for raw frames in both directions.

use crate::bench::VLAN;
use io::clock;
use io::netlink::Netlink;
use io::netns::LabHost;
use io::packet_ring::{PacketOptions, PacketPort};
use packet::port::Port;
use packet::wire::summary;
use packet::{Batch, Pool, Region};
use std::fmt;
use units::Nanos;

/// The tag of the VLAN.
const TAG: [u8; 4] = [0x81, 0, 0, VLAN as u8];
/// The time after which a frame counts as lost in a router.
const PATIENCE: Nanos = Nanos::secs(5);

/// A cable of the bench.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Link {
    /// The source of most packets.
    Left,
    /// The link of the default route.
    Right,
    /// A link with a smaller MTU.
    Narrow,
}

impl Link {
    /// All links, in the order of their numbers.
    pub const ALL: [Link; 3] = [Link::Left, Link::Right, Link::Narrow];

    /// Its name at both ends.
    pub fn name(self) -> &'static str {
        ["left", "right", "narrow"][self as usize]
    }
}

/// A received frame.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OutputFrame {
    /// Its link.
    pub link: Link,
    /// Its bytes.
    pub frame: Vec<u8>,
}

impl fmt::Display for OutputFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<6} {}\n         ", self.link.name(), summary(&self.frame))?;
        self.frame.iter().take(160).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, " ({} bytes)", self.frame.len())
    }
}

/// One host on each link.
pub struct Ends {
    ports: Vec<(Link, PacketPort)>,
    /// The access port of the VLAN, as on a switch: frames have no tag there.
    access: Option<usize>,
    pool: Pool,
    batch: Batch,
}

fn open_link(host: &LabHost, name: &str) -> PacketPort {
    // Tagged frames may have any content, and frames with two tags are sent as well. Beyond the MTU the kernel allows only one tag, if it recognises
    // it.
    host.run(|| Netlink::open().unwrap().set_mtu(name, 1504).unwrap()).unwrap();
    let options = PacketOptions { receive_slots: 1024, offloads: false, ..PacketOptions::default() };
    let (port, warnings) = host.run(|| PacketPort::open(name, &options).unwrap()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    port
}

impl Ends {
    /// Opens the links of `host`.
    pub fn open(host: &LabHost) -> Ends {
        let ports = Link::ALL.iter().map(|&link| (link, open_link(host, link.name()))).collect();
        Ends { ports, access: None, pool: Pool::new(Region::new(1024)), batch: Batch::new() }
    }

    /// Opens a link of `host` for the untagged frames of the VLAN on the left link.
    pub fn open_access(&mut self, host: &LabHost, name: &str) {
        self.access = Some(self.ports.len());
        self.ports.push((Link::Left, open_link(host, name)));
    }

    /// Sends a frame on a link.
    pub fn send(&mut self, link: Link, frame: &[u8]) {
        let mut packet = self.pool.take().expect("the ends have frames");
        let in_vlan = link == Link::Left && frame[12..14] == TAG[..2] && frame[15] == TAG[3] && frame[14] & 0xf == 0;
        let port = match self.access.filter(|_| in_vlan) {
            Some(access) => {
                assert!(packet.fill(&[&frame[..12], &frame[16..]].concat()), "{} bytes", frame.len());
                access
            }
            None => {
                assert!(packet.fill(frame), "{} bytes", frame.len());
                link as usize
            }
        };
        self.batch.push(packet);
        let port = &mut self.ports[port].1;
        port.transmit(clock::now(), &mut self.batch, &mut self.pool);
        assert!(self.batch.is_empty() && port.take_late_refusals().packets == 0, "a frame of {} bytes", frame.len());
    }

    /// The frames received so far, link by link.
    pub fn receive(&mut self) -> Vec<OutputFrame> {
        let mut seen = Vec::new();
        for (index, (link, port)) in self.ports.iter_mut().enumerate() {
            loop {
                port.receive(clock::now(), &mut self.batch, &mut self.pool);
                if self.batch.is_empty() {
                    break;
                }
                for packet in self.batch.drain() {
                    assert_eq!(packet.meta().refused, 0, "a frame arrived whole");
                    let bytes = packet.bytes();
                    let tag = if self.access == Some(index) { &TAG[..] } else { &[] };
                    seen.push(OutputFrame { link: *link, frame: [&bytes[..12], tag, &bytes[12..]].concat() });
                    self.pool.give(packet);
                }
            }
        }
        seen
    }

    /// The received frames up to the first for which `last` is true.
    pub fn receive_until(&mut self, last: impl Fn(&OutputFrame) -> bool) -> Vec<OutputFrame> {
        let deadline = clock::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let new = self.receive();
            let found = new.iter().any(&last);
            seen.extend(new);
            if found {
                // Earlier frames to the other links have arrived there.
                seen.extend(self.receive());
                return seen;
            }
            assert!(clock::now() < deadline, "a frame sent through a router did not arrive; what did: {seen:?}");
            std::thread::yield_now();
        }
    }
}
