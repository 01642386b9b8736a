//! The block of memory that a guest shares with its host, and its layout. All numbers are little-endian.
//!
//! | byte | content | writer |
//! |---|---|---|
//! | 0 | the time of the call, in nanoseconds, 8 bytes | host |
//! | 8 | the rate of the link, in bits per second, 8 bytes | host |
//! | 16 | number of records; `ready`: the most evaluations; 4 bytes | host |
//! | 20 | `ready`: packets the link can accept; `recount`: 1 for the first records, 2 for the last, 3 for both; 4 bytes | host |
//! | 24 | when to call again: 0 as soon as the link can accept a packet, all ones for not before an arrival, or a time; 8 bytes | guest |
//! | 32 | number of commands, 4 bytes | guest |
//! | 36 | `start`: number of queues, 4 bytes | guest |
//! | 40 | `start`: packets they hold at most, 4 bytes | guest |
//! | 44 | `start`: packet properties it uses, 4 bytes: a sum of [`FLOWS`], [`HOSTS`], [`PASSES`], [`RANKS`] | guest |
//! | 64 | the values of 16 options, 8 bytes each | host |
//! | 192 | 512 commands, 4 bytes each: queue, place (1 byte), action | guest |
//! | 2240 | 256 verdicts, 2 bytes each: zero, or queue + 1; and [`MARK`] | guest |
//! | 2752 | 256 records, 32 bytes each | host |

use schemes::{Next, Record};
use units::{Instant, QueueId, Rate};

/// The version of this layout and of the functions that use it.
pub const VERSION: i32 = 1;
/// Bytes of the whole block.
pub const SIZE: usize = RECORDS + PLACES * RECORD;
/// Places for records and verdicts.
const PLACES: usize = 256;
/// The most records of one call. One place fewer than the block has, so that commands can also name the place behind the last record.
pub const MOST: usize = PLACES - 1;
/// The most commands of one arrival call.
pub const COMMANDS: usize = 512;
/// The most commands of one evaluation call.
pub const EVALUATIONS: usize = 32;
/// The most options.
pub const OPTIONS: usize = 16;
/// The most queues of a guest: a verdict has 15 bits for the queue number. A link may have more.
pub const QUEUES: u32 = 32766;

/// The guest uses the hash of a packet's flow.
pub const FLOWS: u32 = 1;
/// The guest uses host addresses and code points.
pub const HOSTS: u32 = 2;
/// A packet that arrives while all queues are empty bypasses the guest.
pub const PASSES: u32 = 4;
/// A higher class is sent before a lower one.
pub const RANKS: u32 = 8;

/// In a verdict: mark the packet (ECN).
pub const MARK: u16 = 0x8000;

const OPTION: usize = 64;
const COMMAND: usize = 192;
const VERDICT: usize = COMMAND + COMMANDS * 4;
const RECORDS: usize = VERDICT + PLACES * 2;
const RECORD: usize = 32;

/// Accepts a guest only if it was built for this version of the block.
pub(crate) fn version(found: i32) -> Result<(), String> {
    if found == VERSION {
        return Ok(());
    }
    Err(format!(
        "it is built for version {found} of the interface, and this program supports {VERSION} (block of {} bytes)",
        SIZE
    ))
}

/// The action of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueAction {
    /// Send the first packet.
    Send,
    /// Send the first packet, marked.
    SendMarked,
    /// Drop the first packet.
    DropFront,
    /// Drop the last packet.
    DropTail,
}

/// A command: an action, its queue, and its place among the arriving packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueCommand {
    /// The action.
    pub action: QueueAction,
    /// It is done before the verdict on the packet at this place.
    pub place: u8,
    /// The queue.
    pub queue: QueueId,
}

/// The guest's requirements, declared when it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestRequirements {
    /// Number of queues.
    pub queues: u32,
    /// Packets they hold at most.
    pub max_packets: u32,
    /// The packet properties it uses: the flags above.
    pub flags: u32,
}

/// A read-only view of the block.
#[derive(Clone, Copy)]
pub struct BlockView<'a>(pub &'a [u8; SIZE]);

impl BlockView<'_> {
    #[inline(always)]
    fn get<const N: usize>(self, at: usize) -> [u8; N] {
        let found = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        // All callers pass offsets within the block, so zeros are never returned in practice.
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

    /// When the guest wants to be called again.
    #[inline]
    pub fn next(self) -> Next {
        match self.u64(24) {
            0 => Next::Ready,
            u64::MAX => Next::Idle,
            time => Next::At(Instant::new(time)),
        }
    }

    /// The number of commands.
    #[inline]
    pub fn commands(self) -> usize {
        self.u32(32) as usize
    }

    /// The guest's declared requirements.
    pub fn shape(self) -> GuestRequirements {
        GuestRequirements { queues: self.u32(36), max_packets: self.u32(40), flags: self.u32(44) }
    }

    /// A command; none if its action is unknown. `which` is below [`COMMANDS`].
    #[inline(always)]
    pub fn command(self, which: usize) -> Option<QueueCommand> {
        let word = self.u32(COMMAND + which * 4);
        let act = match word >> 24 {
            1 => QueueAction::Send,
            2 => QueueAction::SendMarked,
            3 => QueueAction::DropFront,
            4 => QueueAction::DropTail,
            _ => return None,
        };
        Some(QueueCommand { action: act, place: (word >> 16) as u8, queue: QueueId(u32::from(word as u16)) })
    }

    /// The verdict on an arriving packet; `which` is below [`MOST`].
    #[inline(always)]
    pub fn verdict(self, which: usize) -> u16 {
        self.u16(VERDICT + which * 2)
    }
}

/// A writable view of the block.
pub struct BlockWriter<'a>(pub &'a mut [u8; SIZE]);

impl BlockWriter<'_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(place) = self.0.get_mut(at..).and_then(|place| place.first_chunk_mut()) {
            *place = bytes;
        }
    }

    /// Writes the fields that every call has; `room` is the field at byte 20.
    #[inline]
    pub fn head(&mut self, now: Instant, rate: Rate, count: usize, room: usize) {
        self.put(0, now.get().to_le_bytes());
        self.put(8, rate.get().to_le_bytes());
        self.put(16, (count as u32).to_le_bytes());
        self.put(20, u32::try_from(room).unwrap_or(u32::MAX).to_le_bytes());
        self.put(32, [0; 4]);
    }

    /// Writes the values of the options.
    pub fn options(&mut self, values: &[u64]) {
        for (place, value) in values.iter().enumerate().take(OPTIONS) {
            self.put(OPTION + place * 8, value.to_le_bytes());
        }
    }

    /// Writes a record; `which` is below [`MOST`]. The stores have at least the width of the guest's loads. A load that spans several smaller stores
    /// cannot be forwarded from the store buffer and would stall.
    #[inline(always)]
    pub fn record(&mut self, which: usize, record: &Record) {
        let at = RECORDS + which * RECORD;
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let bytes = u32::from_le_bytes([record.class, record.dscp, record.ecn, 0]);
        // A guest has at most [`QUEUES`] queues, so a higher queue number means nothing to it.
        let queue = u16::try_from(record.queue.0).unwrap_or(u16::MAX);
        self.put(at, record.timestamp.get().to_le_bytes());
        self.put(at + 8, two(record.length, record.flow_hash).to_le_bytes());
        self.put(at + 16, two(record.source, record.destination).to_le_bytes());
        self.put(at + 24, (u64::from(queue) | u64::from(bytes) << 16).to_le_bytes());
    }
}
