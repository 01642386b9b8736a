//! Code options of slices: the packets of a batch, their keys, and their changes after the look-up. `crates/extension/src/slice_block.rs` documents each
//! field of the block.

use crate::{Options, String, Vec};
use core::cell::UnsafeCell;

/// Maximum number of packets of a call.
const MOST: usize = 64;
/// The bytes of a key.
pub const KEY_BYTES: usize = 14;
/// The bytes of data of a filter.
pub const DATA_BYTES: usize = 32;

/// Why a packet does not continue on the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Diversion {
    /// It goes to the slow path of its slice.
    Exception(ExceptionCode),
    /// Its header is wrong: it is dropped.
    Malformed,
    /// It is dropped.
    Policy,
}

/// The code of an exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExceptionCode {
    /// Its time to live has expired.
    Ttl,
    /// It has options that the fast path does not process.
    Options,
    /// It is for the node itself.
    Local,
    /// Several filters apply, and the fast path may not select one.
    MultiMatch,
    /// Its header is unusual, but not wrong.
    SoftHeader,
    /// It exceeds the MTU of the link to its next hop.
    Mtu,
    /// A code of the slice's own, 0 to 15. Higher numbers count as 15.
    Own(u8),
}

impl ExceptionCode {
    fn number(self) -> u16 {
        match self {
            ExceptionCode::Ttl => 1,
            ExceptionCode::Options => 2,
            ExceptionCode::Local => 3,
            ExceptionCode::MultiMatch => 4,
            ExceptionCode::SoftHeader => 5,
            ExceptionCode::Mtu => 6,
            ExceptionCode::Own(own) => 8 + u16::from(own.min(15)),
        }
    }
}

/// The decision after a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Formatted {
    /// The packet is sent as the filter says.
    Send,
    /// The filters are searched once more, by this key.
    Again([u8; KEY_BYTES]),
}

/// The needs of a code option. Each part costs time for each packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceNeeds {
    /// Bytes of each packet that it sees, from the first byte behind the outer UDP header on: 0 to 2048.
    pub bytes: usize,
    /// Maximum number of packets of a call: 1 to 64. A call may take about 100 us.
    pub packets: usize,
    /// `format` changes packets.
    pub edits: bool,
    /// `format` is never called: packets are sent as they are.
    pub passes: bool,
    /// Bytes that `format` may add in front of a packet: 0 to 128, in steps of 8.
    pub room: usize,
}

impl SliceNeeds {
    /// No byte of packets, and no change by `format`.
    pub const NOTHING: SliceNeeds = SliceNeeds { bytes: 0, packets: MOST, edits: false, passes: false, room: 0 };

    const fn stride(&self) -> usize {
        (self.room + self.bytes).next_multiple_of(8)
    }
}

/// A code option. [`crate::slice!`] makes its module one. All state that must survive lies in the memory of the slice.
pub trait SliceCode: Sized + 'static {
    /// Its needs.
    const NEEDS: SliceNeeds;

    /// Makes it from its options, or returns an error message.
    fn start(options: &Options) -> Result<Self, String>;

    /// Makes the key of a packet.
    fn parse(&mut self, packet: &InnerPacket<'_>) -> Result<[u8; KEY_BYTES], Diversion>;

    /// Rewrites a packet by the result of its look-up. An exception leaves the packet as it was.
    fn format(&mut self, _packet: &mut InnerPacket<'_>) -> Result<Formatted, Diversion> {
        Ok(Formatted::Send)
    }
}

/// The router's record of a packet.
#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    length: u32,
    shown: u16,
    interface: u16,
    queue: u16,
    out_interface: u16,
    verdict: u16,
    front: i16,
    key: [u8; KEY_BYTES],
    reserved: [u8; 2],
    data: [u8; DATA_BYTES],
}

const EMPTY: Record = Record {
    length: 0,
    shown: 0,
    interface: 0,
    queue: 0,
    out_interface: 0,
    verdict: 0,
    front: 0,
    key: [0; KEY_BYTES],
    reserved: [0; 2],
    data: [0; DATA_BYTES],
};

#[repr(C)]
struct Block {
    memory: u64,
    count: u32,
    reserved: u32,
    bytes: u32,
    area: u32,
    packets: u32,
    flags: u32,
    room: u32,
    unused: [u32; 7],
    options: [u64; 16],
    records: [Record; MOST],
}

const _: () = assert!(size_of::<Record>() == 64 && size_of::<Block>() == 192 + MOST * 64);

/// A packet without its outer headers, during its call.
pub struct InnerPacket<'a> {
    number: i32,
    record: &'a mut Record,
    /// The room in front of the packet, and then its bytes.
    area: &'a mut [u8],
    room: usize,
}

impl InnerPacket<'_> {
    /// Its length in bytes. The code option may see fewer: [`SliceNeeds::bytes`].
    pub fn length(&self) -> usize {
        self.record.length as usize
    }

    /// The meta-interface by which it arrived.
    pub fn interface(&self) -> u16 {
        self.record.interface
    }

    /// In `format`: the number of the slice's queue.
    pub fn queue(&self) -> u16 {
        self.record.queue
    }

    /// In `format`: the meta-interface by which it leaves.
    pub fn out_interface(&self) -> u16 {
        self.record.out_interface
    }

    /// In `format`: the data of the filter.
    pub fn data(&self) -> &[u8; DATA_BYTES] {
        &self.record.data
    }

    /// The first and the last byte of the packet in the area.
    fn range(&self) -> core::ops::Range<usize> {
        let start = self.room.saturating_add_signed(self.record.front.into());
        let end = (self.room + usize::from(self.record.shown)).min(start + self.length()).min(self.area.len());
        start.min(end)..end
    }

    /// Its bytes, as far as the code option sees them.
    pub fn bytes(&self) -> &[u8] {
        self.area.get(self.range()).unwrap_or_default()
    }

    /// The same, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let range = self.range();
        self.area.get_mut(range).unwrap_or_default()
    }

    /// Removes bytes from its front. False if it has fewer.
    pub fn remove_front(&mut self, bytes: usize) -> bool {
        self.move_front(bytes as isize)
    }

    /// Adds bytes to its front, whose content is not defined. False if there is no room: [`SliceNeeds::room`].
    pub fn add_front(&mut self, bytes: usize) -> bool {
        bytes <= 128 && self.move_front(-(bytes as isize))
    }

    fn move_front(&mut self, by: isize) -> bool {
        let front = isize::from(self.record.front).saturating_add(by);
        let length = (self.record.length as usize).checked_add_signed(-by);
        match (i16::try_from(front), length) {
            (Ok(front), Some(length)) if isize::from(front) >= -(self.room as isize) => {
                (self.record.front, self.record.length) = (front, length as u32);
                true
            }
            _ => false,
        }
    }

    /// Removes all bytes from `length` on. False if it is shorter.
    pub fn truncate(&mut self, length: usize) -> bool {
        let fits = length <= self.length();
        if fits {
            self.record.length = length as u32;
        }
        fits
    }

    /// The word of the slice's memory at an offset, a multiple of 8. Beyond the memory it is zero, and the packet is lost.
    pub fn load(&self, offset: u32) -> u64 {
        crate::host::load(self.number, offset)
    }

    /// Writes the word at an offset.
    pub fn store(&self, offset: u32, value: u64) {
        crate::host::store(self.number, offset, value);
    }

    /// Adds to the word at an offset, and returns the value before. No addition of another worker is lost.
    pub fn add(&self, offset: u32, value: u64) -> u64 {
        crate::host::add(self.number, offset, value)
    }
}

/// A packet for tests, without the router.
pub struct TestInnerPacket {
    record: Record,
    area: Vec<u8>,
    room: usize,
}

impl TestInnerPacket {
    /// Makes one for a code option with these needs: its bytes, and the data of its filter.
    pub fn new(bytes: &[u8], data: &[u8], needs: SliceNeeds) -> TestInnerPacket {
        let shown = bytes.len().min(needs.bytes);
        let mut area = alloc::vec![0; needs.room];
        area.extend_from_slice(&bytes[..shown]);
        let mut record = Record { length: bytes.len() as u32, shown: shown as u16, ..EMPTY };
        record.data.iter_mut().zip(data).for_each(|(place, byte)| *place = *byte);
        TestInnerPacket { record, area, room: needs.room }
    }

    /// The packet as a code option sees it.
    pub fn packet(&mut self) -> InnerPacket<'_> {
        InnerPacket { number: 0, record: &mut self.record, area: &mut self.area, room: self.room }
    }
}

struct Shared(UnsafeCell<Block>);

// SAFETY: a module has one thread.
unsafe impl Sync for Shared {}

static BLOCK: Shared = Shared(UnsafeCell::new(Block {
    memory: 0,
    count: 0,
    reserved: 0,
    bytes: 0,
    area: 0,
    packets: 0,
    flags: 0,
    room: 0,
    unused: [0; 7],
    options: [0; 16],
    records: [EMPTY; MOST],
}));

#[doc(hidden)]
pub fn address() -> i32 {
    BLOCK.0.get() as usize as i32
}

/// The code option of a module, and its area for packets.
#[doc(hidden)]
pub struct Cell<S: SliceCode>(UnsafeCell<Option<(S, &'static mut [u64])>>);

// SAFETY: a module has one thread.
unsafe impl<S: SliceCode> Sync for Cell<S> {}

impl<S: SliceCode> Cell<S> {
    /// Not started yet.
    pub const NEW: Cell<S> = Cell(UnsafeCell::new(None));

    /// Starts it. The result is that of `switchpath_start`.
    pub fn start(&self) -> i32 {
        // SAFETY: the host calls one function at a time, and none of them calls another: these are the only references.
        let (block, code) = unsafe { (&mut *BLOCK.0.get(), &mut *self.0.get()) };
        let needs = S::NEEDS;
        let most = needs.packets.clamp(1, MOST);
        let area = alloc::vec![0u64; most * needs.stride() / 8].leak();
        (block.bytes, block.area) = (needs.bytes as u32, area.as_ptr() as usize as u32);
        (block.packets, block.room) = (most as u32, needs.room as u32);
        block.flags = needs.edits as u32 | (needs.passes as u32) << 1;
        match S::start(&Options(block.options)) {
            Ok(started) => *code = Some((started, area)),
            Err(why) => {
                crate::log(&why);
                return 1;
            }
        }
        0
    }

    /// Makes the keys of the packets of a call.
    pub fn parse(&self) {
        self.each(|code, packet| match code.parse(packet) {
            Ok(key) => {
                packet.record.key = key;
                0
            }
            Err(diversion) => verdict(diversion),
        });
    }

    /// Rewrites the packets of a call.
    pub fn format(&self) {
        self.each(|code, packet| match code.format(packet) {
            Ok(Formatted::Send) => 0,
            Ok(Formatted::Again(key)) => {
                packet.record.key = key;
                64
            }
            Err(diversion) => verdict(diversion),
        });
    }

    fn each(&self, mut call: impl FnMut(&mut S, &mut InnerPacket<'_>) -> u16) {
        // SAFETY: as in `start`.
        let (block, code) = unsafe { (&mut *BLOCK.0.get(), &mut *self.0.get()) };
        let Some((code, area)) = code else { return };
        let (stride, room) = (S::NEEDS.stride() / 8, S::NEEDS.room);
        for (which, record) in block.records.iter_mut().take(block.count as usize).enumerate() {
            let words = area.get_mut(which * stride..(which + 1) * stride).unwrap_or_default();
            // SAFETY: any bytes are valid words and the reverse; the length is that of the words.
            let area = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), words.len() * 8) };
            let mut packet = InnerPacket { number: which as i32, record, area, room };
            let verdict = call(code, &mut packet);
            packet.record.verdict = verdict;
        }
    }
}

fn verdict(diversion: Diversion) -> u16 {
    match diversion {
        Diversion::Malformed => 1,
        Diversion::Policy => 2,
        Diversion::Exception(code) => 3 + code.number(),
    }
}

/// Makes its module a code option of slices. The arguments are the description and a type that implements [`SliceCode`].
#[macro_export]
macro_rules! slice {
    ($description:expr, $code:ty) => {
        const _: () = {
            static CELL: $crate::SliceCell<$code> = $crate::SliceCell::NEW;
            const TEXT: &str = concat!($description, "\0");

            #[unsafe(no_mangle)]
            extern "C" fn switchpath_slice() -> i32 {
                1
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_describe() -> i32 {
                TEXT.as_ptr() as usize as i32
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_block() -> i32 {
                $crate::slice_address()
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_start() -> i32 {
                CELL.start()
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_parse() {
                CELL.parse();
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_format() {
                CELL.format();
            }
            $crate::end_of_panics!();
        };
    };
}
