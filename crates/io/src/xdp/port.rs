//! Sockets of an interface as a port of the router.

use super::device::{XdpDevice, XdpMode};
use super::socket::XdpSocket;
use super::{LINK_HEADER, MOST_MTU};
use packet::port::{Port, PortStatistics, UnsentPackets, WakeSource, refuse};
use packet::segment::wire_length;
use packet::wire::{TagStack, complete_partial_checksum};
use packet::{Batch, DropReason, Packet, Pool};
use plan::Checksums;
use rustix::event::epoll;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use units::{Instant, Mac, Nanos, Rate};

/// The interval for reading the interface's MTU again.
const MTU_INTERVAL: Nanos = Nanos::millis(100);

/// An `xdp:` port: some of the queues of an interface. It sends by the first. Dropping the last port of an interface takes some time: see
/// [`crate::closer`].
#[derive(Debug)]
pub struct XdpPort {
    device: Arc<XdpDevice>,
    /// Its number among the ports of the interface.
    number: usize,
    /// Empty while another port has them.
    sockets: Vec<XdpSocket>,
    /// True if frames are directed to them.
    started: bool,
    /// True if that failed: the port then reports that it is down.
    start_failed: bool,
    /// The descriptor to poll if there are several.
    epoll: Option<OwnedFd>,
    /// The socket to receive from first.
    next: usize,
    checksums: Checksums,
    rate: Rate,
    frame_limit: FrameLimit,
    /// Frames that the interface refuses during the transmission of a batch.
    refused: Batch,
    /// Frames that it dropped after the kernel had accepted them.
    unsent: UnsentPackets,
}

impl XdpPort {
    pub(super) fn new(device: Arc<XdpDevice>, number: usize, checksums: Option<Checksums>) -> XdpPort {
        let sound = if device.is_virtual { Checksums::Complete } else { Checksums::Trust };
        let rate = device.ethtool.link_rate(&device.link.name).unwrap_or(Rate::MAX);
        let longest = FrameLimit { bytes: max_frame(device.link.mtu), valid_until: Instant::START };
        let mut port = XdpPort {
            device,
            number,
            sockets: Vec::new(),
            started: false,
            start_failed: false,
            epoll: None,
            next: 0,
            checksums: checksums.unwrap_or(sound),
            rate,
            frame_limit: longest,
            refused: Batch::new(),
            unsent: UnsentPackets::default(),
        };
        port.take_sockets();
        port
    }

    /// The mode in which the interface is used.
    pub fn mode(&self) -> XdpMode {
        self.device.mode
    }

    /// The index of its interface.
    pub fn index(&self) -> u32 {
        self.device.link.index
    }

    /// Acquires the sockets, unless another port has them.
    fn take_sockets(&mut self) {
        self.sockets = self.device.take_sockets(self.number).unwrap_or_default();
        // Earlier losses were counted by the port that held the sockets before.
        self.sockets.iter_mut().for_each(XdpSocket::reset_losses);
        if self.sockets.len() > 1 {
            self.epoll = open_epoll(&self.sockets).ok();
        }
    }

    /// Directs frames to its sockets, at the first receive call.
    #[cold]
    fn start(&mut self, pool: &mut Pool) {
        if self.sockets.is_empty() {
            self.take_sockets();
        }
        let device = self.device.clone();
        self.started = !self.sockets.is_empty();
        for socket in &mut self.sockets {
            self.start_failed |= device.start(socket, pool).is_err();
        }
    }
}

/// The maximum frame length of an interface.
#[derive(Debug)]
struct FrameLimit {
    bytes: usize,
    /// The time before which it is not read again.
    valid_until: Instant,
}

impl FrameLimit {
    /// Reads it again at intervals, because the MTU may have changed.
    #[inline]
    fn refresh(&mut self, device: &XdpDevice, now: Instant) -> usize {
        if now >= self.valid_until {
            let mtu = device.ethtool.mtu(&device.link.name);
            *self = FrameLimit { bytes: mtu.map_or(self.bytes, max_frame), valid_until: now + MTU_INTERVAL };
        }
        self.bytes
    }
}

/// The maximum frame length for this MTU and for the registered memory.
fn max_frame(mtu: u32) -> usize {
    mtu.min(MOST_MTU.into()) as usize + LINK_HEADER
}

/// A descriptor that is readable if any of the sockets is.
fn open_epoll(sockets: &[XdpSocket]) -> rustix::io::Result<OwnedFd> {
    let together = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, socket) in sockets.iter().enumerate() {
        epoll::add(&together, socket, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
    }
    Ok(together)
}

/// Completes a checksum that was left to a network card; see adr/0010. The router itself finds and drops malformed packets.
#[inline]
fn complete(packet: &mut Packet) {
    let frame = packet.bytes_mut();
    let header = TagStack::of(frame).and_then(|stack| stack.ip_header(frame));
    if let Some(l3) = header.and_then(|(at, _)| frame.get_mut(at..)) {
        complete_partial_checksum(l3);
    }
}

impl Port for XdpPort {
    fn receive(&mut self, _now: Instant, batch: &mut Batch, pool: &mut Pool) {
        if !self.started {
            self.start(pool);
        }
        let (count, checksums) = (self.sockets.len(), self.checksums);
        for turn in 0..count {
            // Each is the first in turn, so that a busy one leaves room for the others.
            let socket = &mut self.sockets[(self.next + turn) % count];
            socket.collect(pool);
            socket.receive(batch, pool, |packet| {
                if checksums == Checksums::Complete {
                    complete(packet);
                }
            });
            socket.refill(pool);
            // Frames left by the last attempt are retried here, because a worker without more to send does not call `transmit`.
            if socket.is_blocked() {
                self.unsent.join(socket.kick());
            }
        }
        self.next = if self.next + 1 < count { self.next + 1 } else { 0 };
    }

    fn sets_timestamps(&self) -> bool {
        false
    }

    #[inline]
    fn room(&self) -> usize {
        self.sockets.first().map_or(0, XdpSocket::room)
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        assert!(batch.len() <= self.room(), "never more than there is room for");
        let XdpPort { device, sockets, frame_limit: longest, refused, unsent: late, .. } = self;
        let Some(socket) = sockets.first_mut() else { return };
        socket.collect(pool);
        let longest = longest.refresh(device, now);
        for packet in batch.drain() {
            // The kernel would accept the frame and report its drop late, only as a count.
            if wire_length(&packet) > longest {
                refuse(packet, DropReason::DeviceRefused, refused);
                continue;
            }
            let Err(elsewhere) = socket.push(packet, pool) else { continue };
            // A super-frame, whose memory is not registered: copied into a registered frame.
            let copied = pool.take().and_then(|mut packet| {
                packet.fill(&elsewhere.whole());
                socket.push(packet, pool).ok()
            });
            match copied {
                Some(()) => pool.give(elsewhere),
                None => refuse(elsewhere, DropReason::PoolEmpty, refused),
            }
        }
        late.join(socket.send());
        if !refused.is_empty() {
            // `batch` is empty after its drain and has its full room again.
            std::mem::swap(batch, refused);
        }
    }

    fn take_late_refusals(&mut self) -> UnsentPackets {
        std::mem::take(&mut self.unsent)
    }

    fn unsent_packets(&self) -> UnsentPackets {
        let mut waiting = self.unsent;
        self.sockets.iter().for_each(|socket| waiting.join(socket.waiting()));
        waiting
    }

    /// Asks the kernel each time, by a system call. A removed interface keeps its last MTU.
    fn mtu(&self) -> Option<u16> {
        let mtu = self.device.ethtool.mtu(&self.device.link.name).unwrap_or(self.device.link.mtu);
        Some(mtu.min(MOST_MTU.into()) as u16)
    }

    fn ring_size(&self) -> u32 {
        self.sockets.iter().map(XdpSocket::capacity).min().unwrap_or(0) as u32
    }

    fn link_rate(&self) -> Rate {
        self.rate
    }

    /// Asks the kernel each time, by a system call.
    fn is_up(&self) -> bool {
        let device = &self.device;
        !self.start_failed && device.ethtool.is_running(&device.link.name, device.link.index)
    }

    fn wake_source(&self) -> WakeSource {
        let blocked = self.sockets.first().is_some_and(XdpSocket::is_blocked);
        match (&self.epoll, self.sockets.first()) {
            // Not before it has the sockets.
            (_, None) => WakeSource::Poll,
            _ if !self.started || blocked && self.is_up() => WakeSource::Poll,
            (Some(together), _) => WakeSource::Descriptor(together.as_raw_fd()),
            (None, Some(only)) => WakeSource::Descriptor(only.number()),
        }
    }

    fn mac(&self) -> Option<Mac> {
        Some(self.device.link.mac)
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        self.sockets.iter().map(XdpSocket::losses).fold(PortStatistics::default(), |sum, (before, after)| {
            PortStatistics {
                lost_before_receive: sum.lost_before_receive + before,
                lost_after_transmit: sum.lost_after_transmit + after,
            }
        })
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        if !self.sockets.is_empty() {
            self.device.park_sockets(self.number, std::mem::take(&mut self.sockets));
        }
    }
}
