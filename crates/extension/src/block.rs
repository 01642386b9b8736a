//! The block of a guest's memory that it shares with its host: where what stands in it. All numbers have their lowest byte first.
//!
//! | byte | what | who writes |
//! |---|---|---|
//! | 0 | the time of the call, in nanoseconds, 8 bytes | host |
//! | 8 | what the link carries, in bits per second, 8 bytes | host |
//! | 16 | how many records there are; `ready`: evaluations at most; 4 bytes | host |
//! | 20 | `ready`: packets the link can take; `recount`: 1 for the first records, 2 for the last, 3 for both; 4 bytes | host |
//! | 24 | when to be asked again: 0 for as soon as the link can take a packet, all ones for not before one arrives, or a time; 8 bytes | guest |
//! | 32 | how many commands there are, 4 bytes | guest |
//! | 36 | `start`: queues it wants, 4 bytes | guest |
//! | 40 | `start`: packets they hold at most, 4 bytes | guest |
//! | 44 | `start`: what it looks at, 4 bytes: a sum of [`FLOWS`], [`HOSTS`], [`PASSES`], [`RANKS`] | guest |
//! | 64 | the values of 16 options, 8 bytes each | host |
//! | 192 | 512 commands, 4 bytes each: queue, place (1 byte), what | guest |
//! | 2240 | 256 verdicts, 2 bytes each: zero, or queue + 1; and [`MARK`] | guest |
//! | 2752 | 256 records, 32 bytes each | host |

use schemes::{Next, Record};
use units::{Instant, QueueId, Rate};

/// The version of this layout, and of the functions around it.
pub const VERSION: i32 = 1;
/// Bytes of the whole.
pub const SIZE: usize = RECORDS + PLACES * RECORD;
/// Places for records and verdicts.
const PLACES: usize = 256;
/// Records of one call at most: what comes behind the last of them has a place, too.
pub const MOST: usize = PLACES - 1;
/// Commands of one arrival at most.
pub const COMMANDS: usize = 512;
/// Commands of one evaluation at most.
pub const EVALUATIONS: usize = 32;
/// Options at most.
pub const OPTIONS: usize = 16;
/// Queues at most: a verdict has 15 bits for the number of one, and a link may have more.
pub const QUEUES: u32 = 32766;

/// It looks at the hash of a packet's flow.
pub const FLOWS: u32 = 1;
/// It looks at hosts and code points.
pub const HOSTS: u32 = 2;
/// A packet that comes while nothing waits passes.
pub const PASSES: u32 = 4;
/// A higher class leaves before a lower one.
pub const RANKS: u32 = 8;

/// In a verdict: mark it.
pub const MARK: u16 = 0x8000;

const OPTION: usize = 64;
const COMMAND: usize = 192;
const VERDICT: usize = COMMAND + COMMANDS * 4;
const RECORDS: usize = VERDICT + PLACES * 2;
const RECORD: usize = 32;

/// Whether a guest of this version of the block is understood.
pub(crate) fn version(found: i32) -> Result<(), String> {
    if found == VERSION {
        return Ok(());
    }
    Err(format!(
        "it is built for version {found} of the interface, and this program has {VERSION} (block of {} bytes)",
        SIZE
    ))
}

/// What a command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// The first packet leaves.
    Send,
    /// It leaves marked.
    SendMarked,
    /// The first packet is dropped.
    DropFront,
    /// The last one is.
    DropTail,
}

/// A command: what is to be done, to which queue, and before which of the arriving packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// What.
    pub act: Act,
    /// Before the verdict over the packet at this place.
    pub place: u8,
    /// To which queue.
    pub queue: QueueId,
}

/// What the guest says of itself when it is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Queues it wants.
    pub queues: u32,
    /// Packets they hold at most.
    pub holds: u32,
    /// What it looks at.
    pub flags: u32,
}

/// The block, to read.
#[derive(Clone, Copy)]
pub struct View<'a>(pub &'a [u8; SIZE]);

impl View<'_> {
    #[inline(always)]
    fn get<const N: usize>(self, at: usize) -> [u8; N] {
        let found = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        // Places are within the block: the others are those of nothing.
        found.copied().unwrap_or([0; N])
    }

    #[inline(always)]
    fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.get(at))
    }

    #[inline(always)]
    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.get(at))
    }

    #[inline(always)]
    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.get(at))
    }

    /// When the guest wants to be asked again.
    #[inline]
    pub fn next(self) -> Next {
        match self.u64(24) {
            0 => Next::Ready,
            u64::MAX => Next::Idle,
            time => Next::At(Instant::new(time)),
        }
    }

    /// How many commands there are.
    #[inline]
    pub fn commands(self) -> usize {
        self.u32(32) as usize
    }

    /// What it says of itself.
    pub fn shape(self) -> Shape {
        Shape { queues: self.u32(36), holds: self.u32(40), flags: self.u32(44) }
    }

    /// A command; none where it asks for what there is not. `which` is below [`COMMANDS`].
    #[inline(always)]
    pub fn command(self, which: usize) -> Option<Order> {
        let word = self.u32(COMMAND + which * 4);
        let act = match word >> 24 {
            1 => Act::Send,
            2 => Act::SendMarked,
            3 => Act::DropFront,
            4 => Act::DropTail,
            _ => return None,
        };
        Some(Order { act, place: (word >> 16) as u8, queue: QueueId(u32::from(word as u16)) })
    }

    /// The verdict over an arriving packet; `which` is below [`MOST`].
    #[inline(always)]
    pub fn verdict(self, which: usize) -> u16 {
        self.u16(VERDICT + which * 2)
    }
}

/// The block, to write.
pub struct Sheet<'a>(pub &'a mut [u8; SIZE]);

impl Sheet<'_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(place) = self.0.get_mut(at..).and_then(|place| place.first_chunk_mut()) {
            *place = bytes;
        }
    }

    /// What every call begins with; `room` as in the table above.
    #[inline]
    pub fn head(&mut self, now: Instant, rate: Rate, count: usize, room: usize) {
        self.put(0, now.get().to_le_bytes());
        self.put(8, rate.get().to_le_bytes());
        self.put(16, (count as u32).to_le_bytes());
        self.put(20, u32::try_from(room).unwrap_or(u32::MAX).to_le_bytes());
        self.put(32, [0; 4]);
    }

    /// The values of the options.
    pub fn options(&mut self, values: &[u64]) {
        for (place, value) in values.iter().enumerate().take(OPTIONS) {
            self.put(OPTION + place * 8, value.to_le_bytes());
        }
    }

    /// A record; `which` is below [`MOST`]. Written as the words that it is read in, or parts of them: a processor that is to read at
    /// once what was written in smaller pieces waits until all of them have arrived in its cache.
    #[inline(always)]
    pub fn record(&mut self, which: usize, record: &Record) {
        let at = RECORDS + which * RECORD;
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let bytes = u32::from_le_bytes([record.class, record.dscp, record.ecn, 0]);
        // A guest knows no queues beyond those that it can have itself.
        let queue = u16::try_from(record.queue.0).unwrap_or(u16::MAX);
        self.put(at, record.timestamp.get().to_le_bytes());
        self.put(at + 8, two(record.length, record.flow_hash).to_le_bytes());
        self.put(at + 16, two(record.source, record.destination).to_le_bytes());
        self.put(at + 24, (u64::from(queue) | u64::from(bytes) << 16).to_le_bytes());
    }
}
