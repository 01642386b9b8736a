//! One AF_XDP socket: one queue of an interface, with its four rings and the frames lent to the kernel.

use super::lent_frames::LentFrames;
use super::ring::{ConsumerRing, Offsets, ProducerRing};
use crate::wait::{Sleeper, Waker};
use crate::{clock, sys};
use packet::port::UnsentPackets;
use packet::{Batch, Packet, Pool, Region};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use units::Nanos;

/// XDP_MAX_TX_SKB_BUDGET: the number of frames that one call may send in copy mode (Linux 6.17).
const SEND_BUDGET: libc::c_int = 9;
/// Socket memory for each entry of the send ring: a frame in flight with the kernel's metadata.
const IN_FLIGHT: u32 = 4096;

/// The number of received frames to prefetch ahead, from the cache of another processor.
const PREFETCH_AHEAD: u32 = 8;

/// The time limit for the kernel to release a queue after its socket was closed (xp_release_deferred).
const RELEASE: Nanos = Nanos::secs(1);
/// The retry interval.
const TICK: Nanos = Nanos::millis(2);

/// The sizes of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    /// Entries of the rings of received frames, of frames to send, and of sent frames: a power of two.
    pub(super) ring: usize,
    /// Frames lent for receiving.
    pub(super) fill: usize,
}

/// The binding of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bind<'a> {
    pub(super) index: u32,
    pub(super) queue: u32,
    /// XDP_COPY or XDP_ZEROCOPY.
    pub(super) mode: u16,
    /// A socket of the same interface that has already registered the memory.
    pub(super) shared_with: Option<BorrowedFd<'a>>,
}

/// A failure of a socket, as parts of a sentence.
#[derive(Debug)]
pub(super) struct Failure {
    /// The operation.
    pub(super) what: &'static str,
    pub(super) error: io::Error,
}

fn failed<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| Failure { what, error: error.into() }
}

/// See the module.
#[derive(Debug)]
pub(super) struct XdpSocket {
    fill: ProducerRing<u64>,
    received: ConsumerRing<libc::xdp_desc>,
    to_send: ProducerRing<libc::xdp_desc>,
    sent: ConsumerRing<u64>,
    socket: OwnedFd,
    lent_frames: LentFrames,
    queue: u32,
    sizes: Sizes,
    zero_copy: bool,
    /// Frames lent to receive into, and to send.
    receiving: usize,
    sending: usize,
    /// Losses that an earlier port has counted.
    counted_losses: (u64, u64),
}

impl XdpSocket {
    /// The number of frames that can arrive between two receive calls without loss: the frames lent for receiving.
    pub(super) fn capacity(&self) -> usize {
        self.sizes.ring.min(self.sizes.fill)
    }

    /// Opens a socket on the frames of `region` and binds it. No frame is lent yet.
    pub(super) fn open(region: &Arc<Region>, bind: &Bind<'_>, sizes: Sizes) -> Result<XdpSocket, Failure> {
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(failed("opening a socket"))?;
        if bind.shared_with.is_none() {
            sys::register_frames(&socket, region.umem()).map_err(failed("registering the frames of the router"))?;
        }
        let rings = || -> io::Result<XdpSocket> {
            let entries = [
                (libc::XDP_UMEM_FILL_RING, sizes.fill.next_power_of_two()),
                (libc::XDP_UMEM_COMPLETION_RING, sizes.ring),
                (libc::XDP_RX_RING, sizes.ring),
                (libc::XDP_TX_RING, sizes.ring),
            ];
            for (option, entries) in entries {
                sys::set_option(&socket, libc::SOL_XDP, option, &(entries as u32))?;
            }
            // Older kernels send 32 frames per call and return EAGAIN, which costs more calls.
            let _ = sys::set_option(&socket, libc::SOL_XDP, SEND_BUDGET, &(sizes.ring as u32));
            let bytes = sizes.ring as u32 * IN_FLIGHT;
            if sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
                sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes)?;
            }
            let none = libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
            let none = libc::xdp_mmap_offsets { rx: none, tx: none, fr: none, cr: none };
            let said = sys::get_option(&socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, none)?;
            let offsets = Offsets::from;
            Ok(XdpSocket {
                fill: ProducerRing::map(
                    &socket,
                    libc::XDP_UMEM_PGOFF_FILL_RING,
                    offsets(said.fr),
                    sizes.fill.next_power_of_two(),
                )?,
                sent: ConsumerRing::map(&socket, libc::XDP_UMEM_PGOFF_COMPLETION_RING, offsets(said.cr), sizes.ring)?,
                received: ConsumerRing::map(&socket, libc::XDP_PGOFF_RX_RING as u64, offsets(said.rx), sizes.ring)?,
                to_send: ProducerRing::map(&socket, libc::XDP_PGOFF_TX_RING as u64, offsets(said.tx), sizes.ring)?,
                socket: socket.try_clone()?,
                lent_frames: LentFrames::new(region.clone()),
                queue: bind.queue,
                sizes,
                zero_copy: bind.mode == libc::XDP_ZEROCOPY,
                receiving: 0,
                sending: 0,
                counted_losses: (0, 0),
            })
        };
        let opened = rings().map_err(failed("making its rings"))?;
        bind_to(&socket, bind).map_err(failed("binding to the interface"))?;
        Ok(opened)
    }

    pub(super) fn queue(&self) -> u32 {
        self.queue
    }

    /// Lends at most `frames` frames for receiving.
    pub(super) fn fill_up_to(&mut self, frames: usize) {
        assert!(frames <= self.sizes.fill.next_power_of_two(), "the ring has room for them");
        self.sizes.fill = frames;
    }

    pub(super) fn number(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Lends the kernel the missing frames for receiving, as far as the pool has them.
    #[inline]
    pub(super) fn refill(&mut self, pool: &mut Pool) {
        let missing = self.sizes.fill - self.receiving;
        let count = missing.min(self.fill.room(missing));
        let mut lent = 0;
        while lent < count
            && let Some(packet) = pool.take()
        {
            match self.lent_frames.lend_empty(packet) {
                Ok(address) => self.fill.push(address),
                // A frame outside the registered memory.
                Err(elsewhere) => {
                    pool.give(elsewhere);
                    break;
                }
            }
            lent += 1;
        }
        if lent > 0 {
            self.fill.publish();
            pool.export(lent);
            self.receiving += lent;
        }
        if self.fill.needs_wakeup() {
            // The call reads no data: it makes the kernel check the ring. EAGAIN and ENETDOWN are its state.
            let _ = recv(&self.socket, &mut [0u8; 0][..], RecvFlags::DONTWAIT);
        }
    }

    /// Receives frames, at most the room of `batch`. `each` gets every packet before it is added.
    #[inline]
    pub(super) fn receive(&mut self, batch: &mut Batch, pool: &mut Pool, mut each: impl FnMut(&mut Packet)) -> usize {
        let room = batch.room();
        let count = self.received.available(room).min(room);
        // The kernel wrote the frames on another processor: several are fetched ahead so that their cache misses overlap.
        (0..PREFETCH_AHEAD).for_each(|behind| self.prefetch(behind));
        for _ in 0..count {
            self.prefetch(PREFETCH_AHEAD);
            let Some(frame) = self.received.pop() else { break };
            // SAFETY: the kernel put it in the ring, so it has finished with it.
            let (mut packet, start) = unsafe { self.lent_frames.take_back(frame.addr) };
            let placed = packet.set_range(start, frame.len as usize);
            assert!(placed, "the kernel receives within the frame");
            each(&mut packet);
            batch.push(packet);
        }
        if count > 0 {
            self.received.release();
            self.receiving -= count;
            pool.import(count);
        }
        count
    }

    #[inline(always)]
    fn prefetch(&self, behind: u32) {
        if let Some(frame) = self.received.peek(behind) {
            self.lent_frames.prefetch(frame.addr);
        }
    }

    /// The number of packets that can be sent.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.sizes.ring - (self.sending - self.sent.waiting().min(self.sending))
    }

    /// Returns the frames of sent packets to the pool.
    #[inline]
    pub(super) fn collect(&mut self, pool: &mut Pool) {
        let count = self.sent.available(self.sizes.ring);
        if count == 0 {
            return;
        }
        for _ in 0..count {
            let Some(address) = self.sent.pop() else { break };
            // SAFETY: the kernel put it in the ring, so it has finished with it.
            let (packet, _) = unsafe { self.lent_frames.take_back(address) };
            pool.import(1);
            pool.give(packet);
        }
        self.sent.release();
        self.sending -= count;
    }

    /// Adds a packet to the send ring; the caller has checked that there is room. A packet outside the registered memory is returned.
    #[inline]
    pub(super) fn push(&mut self, packet: Packet, pool: &mut Pool) -> Result<(), Packet> {
        let len = packet.len() as u32;
        let addr = self.lent_frames.lend_packet(packet)?;
        let free = self.to_send.room(1);
        assert!(free > 0, "what is sent has left the ring before it is answered for");
        self.to_send.push(libc::xdp_desc { addr, len, options: 0 });
        self.sending += 1;
        pool.export(1);
        Ok(())
    }

    /// Publishes the send ring to the kernel and has it sent.
    #[inline]
    pub(super) fn send(&mut self) -> UnsentPackets {
        self.to_send.publish();
        self.kick()
    }

    /// True if frames wait that the kernel could not send at the last attempt.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.to_send.waiting() > 0
    }

    /// Makes the kernel send. Returns the frames that the interface dropped. Frames that it cannot accept now stay for the next attempt.
    pub(super) fn kick(&mut self) -> UnsentPackets {
        let mut dropped = UnsentPackets::default();
        let mut left = self.to_send.waiting();
        while left > 0 && (!self.zero_copy || self.to_send.needs_wakeup()) {
            // EBUSY: the interface dropped a frame, and the kernel stopped to report it. EAGAIN: the limit of one call, or the memory for frames in
            // flight, is reached. ENETDOWN, ENXIO: the interface is down, or gone.
            if send(&self.socket, &[], SendFlags::DONTWAIT) == Err(Errno::BUSY) {
                dropped.add(self.to_send.last_consumed().len as usize);
            }
            let now = self.to_send.waiting();
            // One call may send only some of the frames: repeated while it makes progress.
            if now >= left {
                break;
            }
            left = now;
        }
        dropped
    }

    /// Frames that the kernel has not started to send.
    pub(super) fn waiting(&self) -> UnsentPackets {
        let mut waiting = UnsentPackets::default();
        self.to_send.outstanding().for_each(|frame| waiting.add(frame.len as usize));
        waiting
    }

    /// Resets the loss counters.
    pub(super) fn reset_losses(&mut self) {
        self.counted_losses = (0, 0);
        self.counted_losses = self.losses();
    }

    /// Packets lost on reception, and invalid packets on transmission.
    pub(super) fn losses(&self) -> (u64, u64) {
        let (before, after) = self.all_losses();
        (before - self.counted_losses.0, after - self.counted_losses.1)
    }

    fn all_losses(&self) -> (u64, u64) {
        let none = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        // Drops for lack of receive frames are included in the dropped count. The count of empty fill rings counts checks, not packets.
        match sys::get_option(&self.socket, libc::SOL_XDP, libc::XDP_STATISTICS, none) {
            Ok(counted) => (counted.rx_dropped + counted.rx_ring_full, counted.tx_invalid_descs),
            Err(_) => self.counted_losses,
        }
    }

    /// Frames that the kernel has still to send.
    pub(super) fn sending(&self) -> usize {
        self.sending - self.sent.waiting().min(self.sending)
    }

    /// Closes the socket. The frames stay lent until the kernel has certainly released them.
    pub(super) fn close(self) -> LentFrames {
        let XdpSocket { fill, received, to_send, sent, socket, lent_frames: lent, .. } = self;
        drop((fill, received, to_send, sent, socket));
        lent
    }
}

/// True if an AF_XDP socket still has its interface. The kernel unbinds it permanently if the interface leaves the network namespace, even for a
/// moment.
pub(super) fn is_bound(socket: impl AsFd) -> bool {
    // The call reads no data.
    recv(socket, &mut [0u8; 0][..], RecvFlags::DONTWAIT) != Err(Errno::NXIO)
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Binds a socket. A queue that another socket has just left is free a moment later.
fn bind_to(socket: &OwnedFd, bind: &Bind<'_>) -> io::Result<()> {
    // A socket that shares memory uses the mode of the other.
    let flags = if bind.shared_with.is_some() { libc::XDP_SHARED_UMEM } else { bind.mode | libc::XDP_USE_NEED_WAKEUP };
    let shared = bind.shared_with.map_or(0, |beside| beside.as_raw_fd() as u32);
    let mut sleeper = Sleeper::new(Waker::new()?);
    let deadline = clock::now() + RELEASE;
    loop {
        match sys::bind_xdp(socket, bind.index, bind.queue, flags, shared) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && clock::now() < deadline => {
                sleeper.sleep([], TICK)?;
            }
            result => return result,
        }
    }
}
