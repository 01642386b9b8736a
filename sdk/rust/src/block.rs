//! The block that guest and host share: `crates/extension/src/block.rs` documents each field.

use core::cell::UnsafeCell;

/// The scheme reads the hash of a packet's flow.
pub const FLOWS: u32 = 1;
/// The scheme reads hosts and code points.
pub const HOSTS: u32 = 2;
/// Packets bypass the scheme on an idle link.
pub const PASSES: u32 = 4;
/// A higher class leaves before a lower one.
pub const RANKS: u32 = 8;
/// Maximum number of queues: a verdict has 15 bits for a queue number.
pub const QUEUES: u32 = 32766;
/// In a verdict: mark the packet.
pub const MARK: u16 = 0x8000;
/// Maximum number of commands in one arrival.
pub const COMMANDS: usize = 512;
/// Maximum number of commands in one evaluation.
pub const EVALUATIONS: u32 = 32;
/// Maximum number of records in one call.
const PLACES: usize = 256;

/// The host's record of a packet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Shown {
    pub timestamp: u64,
    pub length: u32,
    pub flow_hash: u32,
    pub source: u32,
    pub destination: u32,
    pub queue: u16,
    pub class: u8,
    pub dscp: u8,
    pub ecn: u8,
}

/// See the [module](self).
#[repr(C)]
pub struct Block {
    pub now: u64,
    pub rate: u64,
    pub count: u32,
    pub room: u32,
    pub next: u64,
    pub commands: u32,
    pub queues: u32,
    pub holds: u32,
    pub flags: u32,
    reserved: [u32; 4],
    pub options: [u64; 16],
    pub command: [u32; COMMANDS],
    pub verdict: [u16; PLACES],
    pub record: [Shown; PLACES],
}

const _: () = assert!(size_of::<Shown>() == 32 && size_of::<Block>() == 2752 + PLACES * 32);

/// The values of a guest's options, in the order of its description.
pub struct Options(pub(crate) [u64; 16]);

impl Options {
    /// Packets, bits per second, nanoseconds, bytes or millionths; 1 for a switch that is on.
    pub fn value(&self, place: usize) -> u64 {
        self.0.get(place).copied().unwrap_or(0)
    }
}

struct Shared(UnsafeCell<Block>);

// SAFETY: a module has one thread.
unsafe impl Sync for Shared {}

static BLOCK: Shared = Shared(UnsafeCell::new(Block {
    now: 0,
    rate: 0,
    count: 0,
    room: 0,
    next: 0,
    commands: 0,
    queues: 0,
    holds: 0,
    flags: 0,
    reserved: [0; 4],
    options: [0; 16],
    command: [0; COMMANDS],
    verdict: [0; PLACES],
    record: [Shown {
        timestamp: 0,
        length: 0,
        flow_hash: 0,
        source: 0,
        destination: 0,
        queue: 0,
        class: 0,
        dscp: 0,
        ecn: 0,
    }; PLACES],
}));

/// The address of the block.
pub fn address() -> usize {
    BLOCK.0.get() as usize
}

/// The block of this module.
///
/// # Safety
/// Call it only once.
pub unsafe fn take() -> &'static mut Block {
    // SAFETY: the only reference to it, as the caller guarantees. The host accesses the block between calls, never within one.
    unsafe { &mut *BLOCK.0.get() }
}
