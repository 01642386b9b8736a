//! Sockets of an interface as a port of the router.

use super::device::{Device, Way};
use super::socket::Socket;
use super::{LINK_HEADER, MOST_MTU};
use packet::port::{Port, PortStatistics, Unsent, Waiter, refuse};
use packet::segment::wire_length;
use packet::wire::{complete_partial_checksum, ethertype};
use packet::{Batch, DropReason, Packet, Pool};
use plan::Checksums;
use rustix::event::epoll;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use units::{Instant, Mac, Nanos, Rate};

/// The interval for reading the interface's MTU again.
const ASK_AGAIN: Nanos = Nanos::millis(100);

/// An `xdp:` port: some of the queues of an interface. It sends by the first. Dropping the last port of an interface takes some time: see
/// [`crate::closer`].
#[derive(Debug)]
pub struct XdpPort {
    device: Arc<Device>,
    /// Its number among the ports of the interface.
    number: usize,
    /// Empty while another port has them.
    sockets: Vec<Socket>,
    /// True if frames are directed to them.
    started: bool,
    /// True if that failed: the port then reports that it is down.
    deaf: bool,
    /// The descriptor to poll if there are several.
    together: Option<OwnedFd>,
    /// The socket to receive from first.
    next: usize,
    checksums: Checksums,
    rate: Rate,
    longest: Longest,
    /// Frames that the interface refuses during the transmission of a batch.
    refused: Batch,
    /// Frames that it dropped after the kernel had accepted them.
    late: Unsent,
}

impl XdpPort {
    pub(super) fn new(device: Arc<Device>, number: usize, checksums: Option<Checksums>) -> XdpPort {
        let sound = if device.is_virtual { Checksums::Complete } else { Checksums::Trust };
        let rate = device.ethtool.link_rate(&device.link.name).unwrap_or(Rate::MAX);
        let longest = Longest { bytes: longest(device.link.mtu), rests: Instant::START };
        let mut port = XdpPort {
            device,
            number,
            sockets: Vec::new(),
            started: false,
            deaf: false,
            together: None,
            next: 0,
            checksums: checksums.unwrap_or(sound),
            rate,
            longest,
            refused: Batch::new(),
            late: Unsent::default(),
        };
        port.take_sockets();
        port
    }

    /// The mode in which the interface is used.
    pub fn way(&self) -> Way {
        self.device.way
    }

    /// The index of its interface.
    pub fn index(&self) -> u32 {
        self.device.link.index
    }

    /// Acquires the sockets, unless another port has them.
    fn take_sockets(&mut self) {
        self.sockets = self.device.take(self.number).unwrap_or_default();
        // Earlier losses were counted by the port that held the sockets before.
        self.sockets.iter_mut().for_each(Socket::forget_losses);
        if self.sockets.len() > 1 {
            self.together = together(&self.sockets).ok();
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
            self.deaf |= device.start(socket, pool).is_err();
        }
    }
}

/// The maximum frame length of an interface.
#[derive(Debug)]
struct Longest {
    bytes: usize,
    /// The time before which it is not read again.
    rests: Instant,
}

impl Longest {
    /// Reads it again at intervals, because the MTU may have changed.
    #[inline]
    fn refresh(&mut self, device: &Device, now: Instant) -> usize {
        if now >= self.rests {
            let mtu = device.ethtool.mtu(&device.link.name);
            *self = Longest { bytes: mtu.map_or(self.bytes, longest), rests: now + ASK_AGAIN };
        }
        self.bytes
    }
}

/// The maximum frame length for this MTU and for the registered memory.
fn longest(mtu: u32) -> usize {
    mtu.min(MOST_MTU.into()) as usize + LINK_HEADER
}

/// A descriptor that is readable if any of the sockets is.
fn together(sockets: &[Socket]) -> rustix::io::Result<OwnedFd> {
    let together = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, socket) in sockets.iter().enumerate() {
        epoll::add(&together, socket, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
    }
    Ok(together)
}

/// Completes a checksum that was left to a network card; see adr/0010. The router itself finds and drops malformed packets.
#[inline]
fn complete(packet: &mut Packet) {
    let bytes = packet.bytes_mut();
    let header = match bytes.get(12..14) {
        Some([0x81, 0x00]) => 18,
        _ => 14,
    };
    let kind = bytes.get(header - 2..header).map(|kind| u16::from_be_bytes([kind[0], kind[1]]));
    if let (Some(ethertype::IPV4 | ethertype::IPV6), Some(l3)) = (kind, bytes.get_mut(header..)) {
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
            if socket.is_blocked() {
                self.late.join(socket.kick());
            }
        }
        self.next = if self.next + 1 < count { self.next + 1 } else { 0 };
    }

    fn stamps(&self) -> bool {
        false
    }

    #[inline]
    fn room(&self) -> usize {
        self.sockets.first().map_or(0, Socket::room)
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        assert!(batch.len() <= self.room(), "never more than there is room for");
        let XdpPort { device, sockets, longest, refused, late, .. } = self;
        let Some(socket) = sockets.first_mut() else { return };
        socket.collect(pool);
        let longest = longest.refresh(device, now);
        for packet in batch.drain() {
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

    fn refused_late(&mut self) -> Unsent {
        std::mem::take(&mut self.late)
    }

    fn waiting_inside(&self) -> Unsent {
        let mut waiting = self.late;
        self.sockets.iter().for_each(|socket| waiting.join(socket.waiting()));
        waiting
    }

    /// Asks the kernel each time, by a system call. A removed interface keeps its last MTU.
    fn mtu(&self) -> Option<u16> {
        let mtu = self.device.ethtool.mtu(&self.device.link.name).unwrap_or(self.device.link.mtu);
        Some(mtu.min(MOST_MTU.into()) as u16)
    }

    fn ring(&self) -> u32 {
        self.sockets.iter().map(Socket::holds).min().unwrap_or(0) as u32
    }

    fn link_rate(&self) -> Rate {
        self.rate
    }

    /// Asks the kernel each time, by a system call.
    fn is_up(&self) -> bool {
        let device = &self.device;
        !self.deaf && device.ethtool.is_running(&device.link.name, device.link.index)
    }

    fn waiter(&self) -> Waiter {
        let blocked = self.sockets.first().is_some_and(Socket::is_blocked);
        match (&self.together, self.sockets.first()) {
            // Not before it has the sockets.
            (_, None) => Waiter::Poll,
            _ if !self.started || blocked && self.is_up() => Waiter::Poll,
            (Some(together), _) => Waiter::Descriptor(together.as_raw_fd()),
            (None, Some(only)) => Waiter::Descriptor(only.number()),
        }
    }

    fn mac(&self) -> Option<Mac> {
        Some(self.device.link.mac)
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        self.sockets.iter().map(Socket::losses).fold(PortStatistics::default(), |sum, (before, after)| PortStatistics {
            lost_before_receive: sum.lost_before_receive + before,
            lost_after_transmit: sum.lost_after_transmit + after,
        })
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        if !self.sockets.is_empty() {
            self.device.leave(self.number, std::mem::take(&mut self.sockets));
        }
    }
}
