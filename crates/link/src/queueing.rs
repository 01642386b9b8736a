//! A scheme with the queues it decides over, made where memory may be taken, to be put on a link where it may not.

use crate::shelf::Shelf;
use crate::{Books, Lines};
use packet::accounting::Accounting;
use packet::port::Offloads;
use packet::segment::{Refitted, refit, refitted, wire_size};
use packet::{Batch, Packet, Queue};
use plan::{Call, Code, SchemeChange};
use schemes::{BuildError, Layer, Scheme, Sharing, Size};
use std::fmt;
use std::sync::Arc;
use units::Bytes;

/// Packets that a single queue holds at most.
const LONGEST: usize = 65536;

/// A queueing scheme and as many empty queues as it wants, ready for a link.
pub struct Queueing {
    /// The scheme.
    pub scheme: Box<dyn Scheme<Lines>>,
    /// With whom it shares what rates it has.
    pub sharing: Sharing,
    /// Its queues.
    pub queues: Queues,
    /// What waits in them.
    pub backlog: Size,
    /// What becomes of the packets of each.
    pub books: Books,
    /// What becomes of the packets that wait where it takes the place of another.
    pub change: SchemeChange,
    /// What another said as it panicked, in whose place this is.
    pub put_aside: Option<String>,
}

/// Makes schemes of the code of a guest.
pub trait Maker: Send + Sync {
    /// One more of them, with these values of its options in their order; or why it does not start.
    fn make(&self, options: &[u64]) -> Result<Box<dyn Scheme<Lines>>, String>;
}

/// What `maker` makes schemes of, for a configuration to carry.
pub fn code(digest: u64, maker: Arc<dyn Maker>) -> Code {
    Code { digest, maker: Arc::new(maker) }
}

/// The physical queues of a link.
pub enum Queues {
    /// A single one, and what its packets are on the wire.
    One(Queue, Size),
    /// Many.
    Many(Shelf),
}

/// When a packet came to the router.
fn came(packet: &Packet) -> u64 {
    packet.meta().timestamp.get()
}

/// Bytes of packets of which none is a super-frame.
#[inline(always)]
fn lengths(packets: &[Packet]) -> u64 {
    packets.iter().map(|packet| packet.len() as u64).sum()
}

/// So much more waits.
#[inline(always)]
fn add(waiting: &mut Size, size: Size) {
    waiting.packets += size.packets;
    waiting.bytes += size.bytes;
}

/// So much less waits.
#[inline(always)]
fn remove(waiting: &mut Size, size: Size) {
    waiting.packets -= size.packets;
    waiting.bytes = Bytes::new(waiting.bytes.get() - size.bytes.get());
}

impl Queues {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Queues::One(..) => 1,
            Queues::Many(shelf) => shelf.queues(),
        }
    }

    /// Whether what waits in them may be far.
    #[inline(always)]
    pub fn are_many(&self) -> bool {
        matches!(self, Queues::Many(_))
    }

    /// The length of a queue, super-frames counted as their segments; zero where there is no such queue.
    #[inline(always)]
    pub fn size(&self, queue: usize) -> Size {
        match self {
            Queues::One(_, size) if queue == 0 => *size,
            Queues::One(..) => Size::default(),
            Queues::Many(shelf) => shelf.size(queue),
        }
    }

    /// Packets that wait in a queue, a super-frame counted as one.
    #[cold]
    pub fn packets(&self, queue: usize) -> usize {
        match self {
            Queues::One(packets, _) if queue == 0 => packets.len(),
            Queues::One(..) => 0,
            Queues::Many(shelf) => shelf.iter(queue).count(),
        }
    }

    /// A hint: something is about to be done to that queue.
    #[inline(always)]
    pub fn soon(&self, queue: usize) {
        if let Queues::Many(shelf) = self {
            shelf.soon(queue);
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

    /// Shows the first packet of one of many queues, and those behind it up to so many bytes, as far as that is quickly done.
    #[inline(always)]
    pub fn heads(&self, queue: usize, bytes: u32, see: impl FnMut(&Packet)) {
        if let Queues::Many(shelf) = self {
            shelf.heads(queue, bytes, see);
        }
    }

    /// The bytes of that packet, as they were when it came; `length` knows them too.
    #[inline(always)]
    pub fn front_bytes(&self, queue: usize, length: impl FnOnce(&Packet) -> u64) -> Option<u64> {
        match self {
            Queues::One(..) => self.front(queue).map(length),
            Queues::Many(shelf) => shelf.front_bytes(queue, length),
        }
    }

    /// Shows each packet of a queue, the first one first.
    #[cold]
    pub fn visit(&self, queue: usize, see: &mut dyn FnMut(&Packet)) {
        match self {
            Queues::One(packets, _) if queue == 0 => packets.iter().for_each(see),
            Queues::One(..) => {}
            Queues::Many(shelf) => shelf.iter(queue).for_each(see),
        }
    }

    /// A packet of the flow with this mark is about to join a queue. True where packets of another flow wait in it.
    #[inline(always)]
    pub fn joins_another(&mut self, queue: usize, mark: u16) -> bool {
        match self {
            Queues::One(..) => false,
            Queues::Many(shelf) => shelf.joins_another(queue, mark),
        }
    }

    /// Puts a packet of this size at the end of a queue, or gives it back where there is no room or no such queue.
    #[inline(always)]
    #[must_use = "a packet that did not fit comes back"]
    pub fn push(&mut self, queue: usize, packet: Packet, size: Size) -> Option<Packet> {
        match self {
            Queues::One(packets, waiting) if queue == 0 => {
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

    /// Puts the first packets of `batch` at the end of a queue while the queue is within `bounds`. Answers how many packets, and their
    /// bytes. None if there are many queues: there each packet is asked about. Without `super_frames`, all are single packets.
    #[inline(always)]
    pub fn append(&mut self, queue: usize, batch: &mut Batch, bounds: Size, super_frames: bool) -> Size {
        let Queues::One(packets, waiting) = self else { return Size::default() };
        let most = packets.capacity().saturating_sub(packets.len());
        let most = if queue == 0 { most } else { 0 };
        let left = bounds.bytes.get().saturating_sub(waiting.bytes.get());
        let places = bounds.packets.saturating_sub(waiting.packets);
        let mut taken = Size::default();
        let count = if super_frames {
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
            // Nearly always all fit: their lengths are compared once.
            while bytes > left {
                let Some((last, rest)) = some.split_last() else { break };
                (some, bytes) = (rest, bytes - last.len() as u64);
            }
            taken = Size { packets: some.len() as u32, bytes: Bytes::new(bytes) };
            some.len()
        };
        let count = packets.append(batch, count);
        add(waiting, taken);
        Size { packets: count as u32, bytes: taken.bytes }
    }

    /// Moves the first packets of a queue, at most `most`, to the end of `batch` while `see` says yes. Answers how many packets, and
    /// their bytes. None if there are many queues: there each packet is asked about. Without `super_frames`, all are single packets.
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
        Size { packets: count as u32, bytes: taken.bytes }
    }

    /// Takes the first packet of a queue, whose size `size` knows.
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

    /// Makes ready for [`Queues::pop_oldest`].
    #[cold]
    pub fn sort(&mut self) {
        if let Queues::Many(shelf) = self {
            shelf.sort(came);
        }
    }

    /// Takes out the packet that came to the router first of all that wait. They have been [sorted](Queues::sort).
    pub fn pop_oldest(&mut self) -> Option<Packet> {
        match self {
            Queues::One(..) => self.pop(0, wire_size).map(|(packet, _)| packet),
            Queues::Many(shelf) => shelf.pop_oldest(came, wire_size),
        }
    }

    /// Takes the last one.
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

    /// Packets that all of them hold together.
    pub fn capacity(&self) -> usize {
        match self {
            Queues::One(packets, _) => packets.capacity(),
            Queues::Many(shelf) => shelf.capacity(),
        }
    }

    /// Does to a queue what a port that takes `can` asks for: segments take the place of their super-frame. It may hold more
    /// than it could before.
    #[cold]
    pub fn refit(&mut self, queue: usize, can: Offloads, fates: &mut Accounting) -> Refitted {
        match self {
            Queues::One(packets, waiting) => {
                let done = refit(packets, can, fates);
                *waiting = Size::default();
                packets.iter().for_each(|packet| add(waiting, wire_size(packet)));
                done
            }
            Queues::Many(shelf) => {
                let take = || shelf.pop(queue, wire_size).map(|(packet, _)| packet);
                let (fitted, done) = refitted(take, can, fates);
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

    /// Forgets what waits: the frames go home by themselves.
    #[cold]
    pub fn forget(&mut self) {
        match self {
            Queues::One(packets, waiting) => (*packets, *waiting) = (Queue::new(packets.capacity()), Size::default()),
            Queues::Many(shelf) => shelf.forget(),
        }
    }
}

impl Queueing {
    /// `scheme` with its queues, which hold at most `capacity` packets together, or what the scheme lets in.
    pub fn new(scheme: Box<dyn Scheme<Lines>>, capacity: usize) -> Queueing {
        let most = usize::try_from(scheme.holds_at_most()).map_or(capacity, |most| most.min(capacity));
        let queues = match scheme.queues() {
            0 | 1 => Queues::One(Queue::new(most.min(LONGEST)), Size::default()),
            many => Queues::Many(Shelf::new(many as usize, most)),
        };
        let (sharing, backlog, change) = (Sharing::alone(), Size::default(), SchemeChange::default());
        let books = Books::of(&*scheme);
        Queueing { scheme, sharing, queues, backlog, books, change, put_aside: None }
    }

    /// The same; where it takes the place of another, this becomes of the packets that wait.
    #[must_use]
    pub fn changing(self, change: SchemeChange) -> Queueing {
        Queueing { change, ..self }
    }

    /// Whether its queues are as many as these, and hold no more.
    pub fn fits_into(&self, queues: &Queues) -> bool {
        self.queues.len() == queues.len() && self.queues.capacity() <= queues.capacity()
    }

    /// The scheme that a configuration names, with queues that could hold so many packets, for a worker that shares its rates.
    pub fn of(call: &Call, capacity: usize, sharing: &mut Sharing) -> Result<Queueing, BuildError> {
        fn layer(call: &Call) -> Layer<'_> {
            Layer { name: call.name, options: &call.options, inside: call.inner.iter().map(layer).collect() }
        }
        let scheme = match &call.code {
            Some(code) => of_guest(code, call)?,
            None => schemes::build_for(&layer(call), sharing)?,
        };
        Ok(Queueing { sharing: sharing.clone(), ..Queueing::new(scheme, capacity) })
    }

    /// Whether it has a single queue, and `other` is one that holds as much.
    pub fn may_keep(&self, other: &Queues) -> bool {
        match (&self.queues, other) {
            (Queues::One(own, _), Queues::One(other, _)) => own.capacity() == other.capacity(),
            _ => false,
        }
    }
}

fn of_guest(code: &Code, call: &Call) -> Result<Box<dyn Scheme<Lines>>, BuildError> {
    let maker: Option<&Arc<dyn Maker>> = code.maker.downcast_ref();
    let maker = maker.ok_or_else(|| BuildError::Unknown(call.name.to_string()))?;
    let options: Vec<u64> = call.options.iter().map(|(_, value)| *value).collect();
    maker.make(&options).map_err(BuildError::Guest)
}

impl fmt::Debug for Queueing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queueing with {} queues", self.queues.len())
    }
}
