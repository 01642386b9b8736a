//! A scheme with its queues. It is built where memory may be allocated, and installed on a link where it may not.

use crate::queue_arena::QueueArena;
use crate::{GroupStats, LinkShares, LinkWires, ShareReader};
use packet::accounting::Accounting;
use packet::port::Offloads;
use packet::segment::{RefitCounts, refit_packets, refit_queue, wire_size};
use packet::{Batch, Packet, Queue};
use plan::{Call, GuestCode, SchemeChange};
use schemes::{BuildError, Layer, Scheme, ShareEdit, ShareEdits, Sharing, Size};
use std::fmt;
use std::sync::Arc;
use units::{Bytes, Rate};

/// The most packets of a single queue.
const LONGEST: usize = 65536;

/// A queueing scheme and as many empty queues as it wants, ready for a link.
pub struct Queueing {
    /// The scheme.
    pub scheme: Box<dyn Scheme<LinkWires>>,
    /// The rates that it shares.
    pub sharing: Sharing,
    /// Its queues.
    pub queues: Queues,
    /// The length of the queues.
    pub backlog: Size,
    /// The statistics of each group of queues.
    pub stats: GroupStats,
    /// The shares of the port, if the scheme is a tree of shares.
    pub shares: Option<ShareReader>,
    /// The fate of waiting packets when it replaces another scheme.
    pub change: SchemeChange,
    /// The message of a scheme that panicked and was replaced by this one.
    pub panic_message: Option<String>,
}

/// Makes instances of a guest scheme.
pub trait GuestFactory: Send + Sync {
    /// Makes an instance with the values of its options in order, or returns why it does not start.
    fn make(&self, options: &[u64]) -> Result<Box<dyn Scheme<LinkWires>>, String>;
}

/// The code of a guest, as a configuration carries it.
pub fn guest_code(digest: u64, maker: Arc<dyn GuestFactory>) -> GuestCode {
    GuestCode { digest, maker: Arc::new(maker) }
}

/// The physical queues of a link.
pub enum Queues {
    /// A single queue, and its length on the wire.
    One(Queue, Size),
    /// Many.
    Many(QueueArena),
}

/// The time at which the router received a packet.
fn received_at(packet: &Packet) -> u64 {
    packet.meta().timestamp.get()
}

/// The bytes of packets without super-frames.
#[inline(always)]
fn lengths(packets: &[Packet]) -> u64 {
    packets.iter().map(|packet| packet.len() as u64).sum()
}

/// Adds to a queue length.
#[inline(always)]
fn add(waiting: &mut Size, size: Size) {
    waiting.packets += size.packets;
    waiting.bytes += size.bytes;
}

/// Subtracts from a queue length.
#[inline(always)]
fn remove(waiting: &mut Size, size: Size) {
    waiting.packets -= size.packets;
    waiting.bytes = Bytes::new(waiting.bytes.get() - size.bytes.get());
}

impl Queues {
    /// The number of queues.
    pub fn len(&self) -> usize {
        match self {
            Queues::One(..) => 1,
            Queues::Many(shelf) => shelf.queues(),
        }
    }

    /// True if there are many queues, whose packets may not be in the cache.
    #[inline(always)]
    pub fn are_many(&self) -> bool {
        matches!(self, Queues::Many(_))
    }

    /// The length of a queue, with super-frames counted as their segments; zero if there is no such queue.
    #[inline(always)]
    pub fn size(&self, queue: usize) -> Size {
        match self {
            Queues::One(_, size) if queue == 0 => *size,
            Queues::One(..) => Size::default(),
            Queues::Many(shelf) => shelf.size(queue),
        }
    }

    /// The packets in a queue, with a super-frame counted as one.
    #[cold]
    pub fn packets(&self, queue: usize) -> usize {
        match self {
            Queues::One(packets, _) if queue == 0 => packets.len(),
            Queues::One(..) => 0,
            Queues::Many(shelf) => shelf.iter(queue).count(),
        }
    }

    /// Prefetches a queue that is used soon.
    #[inline(always)]
    pub fn prefetch(&self, queue: usize) {
        if let Queues::Many(shelf) = self {
            shelf.prefetch(queue);
        }
    }

    /// The first packet of a queue.
    #[inline(always)]
    pub fn front(&self, queue: usize) -> Option<&Packet> {
        match self {
            Queues::One(packets, _) => packets.front().filter(|_| queue == 0),
            Queues::Many(shelf) => shelf.front(queue),
        }
    }

    /// Calls `see` for the first packet of one of many queues and for those behind it up to `bytes`, as far as they are in the queue's cache line.
    #[inline(always)]
    pub fn heads(&self, queue: usize, bytes: u32, see: impl FnMut(&Packet)) {
        if let Queues::Many(shelf) = self {
            shelf.heads(queue, bytes, see);
        }
    }

    /// The bytes of the first packet, as recorded at enqueue; `length` computes them if they are not recorded.
    #[inline(always)]
    pub fn front_bytes(&self, queue: usize, length: impl FnOnce(&Packet) -> u64) -> Option<u64> {
        match self {
            Queues::One(..) => self.front(queue).map(length),
            Queues::Many(shelf) => shelf.front_bytes(queue, length),
        }
    }

    /// Calls `see` for each packet of a queue in order.
    #[cold]
    pub fn visit(&self, queue: usize, see: &mut dyn FnMut(&Packet)) {
        match self {
            Queues::One(packets, _) if queue == 0 => packets.iter().for_each(see),
            Queues::One(..) => {}
            Queues::Many(shelf) => shelf.iter(queue).for_each(see),
        }
    }

    /// A packet of the flow with this mark is about to join a queue. True if packets of another flow wait in it.
    #[inline(always)]
    pub fn joins_another(&mut self, queue: usize, mark: u16) -> bool {
        match self {
            Queues::One(..) => false,
            Queues::Many(shelf) => shelf.joins_another(queue, mark),
        }
    }

    /// Appends a packet of this size to a queue. Returns it if there is no room or no such queue.
    #[inline(always)]
    #[must_use = "a packet that did not fit comes back"]
    pub fn push(&mut self, queue: usize, packet: Packet, size: Size) -> Option<Packet> {
        match self {
            Queues::One(packets, waiting) if queue == 0 => {
                // An empty ring restarts at its beginning, so that a short queue stays in few cache lines.
                packets.rewind();
                let back = packets.push(packet);
                if back.is_none() {
                    add(waiting, size);
                }
                back
            }
            Queues::One(..) => Some(packet),
            Queues::Many(shelf) => shelf.push(queue, packet, size),
        }
    }

    /// Appends the first packets of `batch` to a queue while the queue is within `bounds`. Returns their number and bytes. With many queues it does
    /// nothing, because the scheme is asked about each packet. Without `super_frames` all are single packets.
    #[inline(always)]
    pub fn append(&mut self, queue: usize, batch: &mut Batch, bounds: Size, super_frames: bool) -> Size {
        let Queues::One(packets, waiting) = self else { return Size::default() };
        let most = packets.capacity().saturating_sub(packets.len());
        let most = if queue == 0 { most } else { 0 };
        // A queue may exceed its bounds, for instance after a change of the limit.
        let left = bounds.bytes.get().saturating_sub(waiting.bytes.get());
        let places = bounds.packets.saturating_sub(waiting.packets);
        let mut taken = Size::default();
        let count = if super_frames {
            // The first packet that does not fit ends the run, so that no later one overtakes it.
            let fits = |packet: &&Packet| {
                let mut with = taken;
                add(&mut with, wire_size(packet));
                let fits = with.bytes.get() <= left && with.packets <= places;
                taken = if fits { with } else { taken };
                fits
            };
            batch.as_slice().iter().take(most).take_while(fits).count()
        } else {
            let all = batch.as_slice();
            let mut some = &all[..all.len().min(most).min(places as usize)];
            let mut bytes = lengths(some);
            // Nearly always all packets fit: compare the sum once before removing any.
            while bytes > left {
                let Some((last, rest)) = some.split_last() else { break };
                (some, bytes) = (rest, bytes - last.len() as u64);
            }
            taken = Size { packets: some.len() as u32, bytes: Bytes::new(bytes) };
            some.len()
        };
        let count = packets.append(batch, count);
        add(waiting, taken);
        // Super-frames count as one packet here: the caller adds them to the backlog of the link.
        Size { packets: count as u32, bytes: taken.bytes }
    }

    /// Moves at most `most` packets from the front of a queue to `batch` while `see` returns true. Returns their number and bytes. With many queues
    /// it does nothing, because the scheme is asked about each packet. Without `super_frames` all are single packets.
    #[inline(always)]
    pub fn pop_while(
        &mut self,
        (queue, most): (usize, usize),
        batch: &mut Batch,
        see: impl FnMut(&Packet) -> bool,
        super_frames: bool,
    ) -> Size {
        let Queues::One(packets, waiting) = self else { return Size::default() };
        let most = if queue == 0 { most.min(batch.room()) } else { 0 };
        // Count first, then move all packets at once.
        let count = packets.leading(most, see);
        let before = batch.len();
        packets.pop_into(batch, count);
        let gone = &batch.as_slice()[before..];
        let mut taken = Size { packets: count as u32, bytes: Bytes::ZERO };
        if super_frames {
            taken.packets = 0;
            gone.iter().for_each(|packet| add(&mut taken, wire_size(packet)));
        } else {
            taken.bytes = Bytes::new(lengths(gone));
        }
        remove(waiting, taken);
        // As in `append`: the number of packets, not of segments.
        Size { packets: count as u32, bytes: taken.bytes }
    }

    /// Removes the first packet of a queue; `size` computes its size.
    #[inline(always)]
    pub fn pop(&mut self, queue: usize, size: impl FnOnce(&Packet) -> Size) -> Option<(Packet, Size)> {
        match self {
            Queues::One(packets, waiting) if queue == 0 => {
                let packet = packets.pop()?;
                let size = size(&packet);
                remove(waiting, size);
                Some((packet, size))
            }
            Queues::One(..) => None,
            Queues::Many(shelf) => shelf.pop(queue, size),
        }
    }

    /// Prepares for [`Queues::pop_oldest`].
    #[cold]
    pub fn sort(&mut self) {
        if let Queues::Many(shelf) = self {
            shelf.sort(received_at);
        }
    }

    /// Removes the packet that the router received first of all that wait. [`Queues::sort`] must be called before.
    pub fn pop_oldest(&mut self) -> Option<Packet> {
        match self {
            // A single queue is already in the order in which its packets leave.
            Queues::One(..) => self.pop(0, wire_size).map(|(packet, _)| packet),
            Queues::Many(shelf) => shelf.pop_oldest(received_at, wire_size),
        }
    }

    /// Removes the last packet of a queue.
    pub fn pop_back(&mut self, queue: usize, size: impl FnOnce(&Packet) -> Size) -> Option<(Packet, Size)> {
        match self {
            Queues::One(packets, waiting) if queue == 0 => {
                let packet = packets.pop_back()?;
                let size = size(&packet);
                remove(waiting, size);
                Some((packet, size))
            }
            Queues::One(..) => None,
            Queues::Many(shelf) => shelf.pop_back(queue, size),
        }
    }

    /// The number of packets that all queues can hold together.
    pub fn capacity(&self) -> usize {
        match self {
            Queues::One(packets, _) => packets.capacity(),
            Queues::Many(shelf) => shelf.capacity(),
        }
    }

    /// Adapts a queue to a port with offloads `can`: segments replace their super-frame. The queue may grow beyond its capacity.
    #[cold]
    pub fn refit(&mut self, queue: usize, can: Offloads, fates: &mut Accounting) -> RefitCounts {
        match self {
            Queues::One(packets, waiting) => {
                let done = refit_queue(packets, can, fates);
                // Packets may have been dropped, and a super-frame counted as at most `SEGMENTS` packets: count anew.
                *waiting = Size::default();
                packets.iter().for_each(|packet| add(waiting, wire_size(packet)));
                done
            }
            Queues::Many(shelf) => {
                let take = || shelf.pop(queue, wire_size).map(|(packet, _)| packet);
                let (fitted, done) = refit_packets(take, can, fates);
                shelf.grow(fitted.len());
                for packet in fitted {
                    let size = wire_size(&packet);
                    let refused = shelf.push(queue, packet, size);
                    debug_assert!(refused.is_none(), "room was made for all");
                }
                done
            }
        }
    }

    /// Discards the waiting packets. Their frames return to the region by themselves.
    #[cold]
    pub fn discard_packets(&mut self) {
        match self {
            Queues::One(packets, waiting) => (*packets, *waiting) = (Queue::new(packets.capacity()), Size::default()),
            Queues::Many(shelf) => shelf.discard_packets(),
        }
    }
}

/// The scheme of a call of the configuration, for `schemes`.
fn layer(call: &Call) -> Layer<'_> {
    Layer { name: call.name, options: &call.options, inside: call.inner.iter().map(layer).collect() }
}

/// The most memory of the shares of a port with this scheme: see [`schemes::share_memory`].
///
/// # Errors
///
/// The scheme has no shares, or the scheme of its leaves or one of its options is unknown.
pub fn share_memory(call: &Call, shares: usize, leaves: usize) -> Result<Bytes, BuildError> {
    schemes::share_memory(&layer(call), shares, leaves)
}

impl Queueing {
    /// `scheme` with queues for at most `capacity` packets together, or for as many as the scheme admits.
    pub fn new(scheme: Box<dyn Scheme<LinkWires>>, capacity: usize) -> Queueing {
        let most = usize::try_from(scheme.holds_at_most()).map_or(capacity, |most| most.min(capacity));
        let queues = match scheme.queues() {
            0 | 1 => Queues::One(Queue::new(most.min(LONGEST)), Size::default()),
            many => Queues::Many(QueueArena::new(many as usize, most)),
        };
        let (sharing, backlog, change) = (Sharing::alone(), Size::default(), SchemeChange::default());
        let books = GroupStats::of(&*scheme);
        Queueing { scheme, sharing, queues, backlog, stats: books, shares: None, change, panic_message: None }
    }

    /// Sets the fate of waiting packets when it replaces another scheme.
    #[must_use]
    pub fn changing(self, change: SchemeChange) -> Queueing {
        Queueing { change, ..self }
    }

    /// A scheme with the shares of its port: `edits` make all of them.
    #[must_use]
    pub fn with_shares(mut self, shares: &Arc<LinkShares>, edits: &[ShareEdit]) -> Queueing {
        // The tree is made here and not by the worker, which would stop for a moment. It needs wires, which have no packets yet.
        let wires = LinkWires::new(self.queues, self.stats, None, Rate::MAX);
        self.shares = Some(ShareReader::new(shares, || self.scheme.edit_shares(&ShareEdits(edits.into()), &wires)));
        Queueing { queues: wires.queues, stats: wires.stats, ..self }
    }

    /// True if its queues are as many as `queues` and hold no more.
    pub fn fits_into(&self, queues: &Queues) -> bool {
        self.queues.len() == queues.len() && self.queues.capacity() <= queues.capacity()
    }

    /// Builds the scheme of a configuration, with queues for `capacity` packets, for a worker that shares its rates.
    ///
    /// # Errors
    ///
    /// The scheme or one of its options is unknown, it has too many queues, or a guest does not start.
    pub fn of(call: &Call, capacity: usize, sharing: &mut Sharing) -> Result<Queueing, BuildError> {
        let scheme = match &call.code {
            Some(code) => of_guest(code, call)?,
            None => schemes::build_for(&layer(call), sharing)?,
        };
        Ok(Queueing { sharing: sharing.clone(), ..Queueing::new(scheme, capacity) })
    }

    /// True if it has a single queue and `other` is a single queue of the same capacity.
    pub fn may_keep(&self, other: &Queues) -> bool {
        match (&self.queues, other) {
            (Queues::One(own, _), Queues::One(other, _)) => own.capacity() == other.capacity(),
            _ => false,
        }
    }
}

fn of_guest(code: &GuestCode, call: &Call) -> Result<Box<dyn Scheme<LinkWires>>, BuildError> {
    let maker: Option<&Arc<dyn GuestFactory>> = code.maker.downcast_ref();
    let maker = maker.ok_or_else(|| BuildError::Unknown(call.name.to_string()))?;
    let options: Vec<u64> = call.options.iter().map(|(_, value)| *value).collect();
    maker.make(&options).map_err(BuildError::Guest)
}

impl fmt::Debug for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queueing with {} queues", self.queues.len())
    }
}
