//! Packet functions: the packets of a batch, their verdicts, and the router's services. `crates/extension/src/function_block.rs` documents each field
//! of the block.

use crate::{Options, String, Vec};
use core::cell::UnsafeCell;

/// Maximum number of packets of a call.
const MOST: usize = 64;

/// The verdict on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It continues on its path.
    Pass,
    /// It is dropped.
    Drop,
    /// The rule of this number in `guest_rules` applies.
    Rule(u16),
}

/// The needs of a function. Each part costs time for each packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Bytes of each packet that it sees, from the IP header on: 0 to 2048.
    pub bytes: usize,
    /// Maximum number of packets of a call: 1 to 64. A call may take about 100 us.
    pub packets: usize,
    /// It reads the hash of flows: [`Packet::flow`].
    pub flows: bool,
    /// It reads the transport protocol, [`Packet::transport`] or [`Packet::payload`].
    pub fields: bool,
    /// It changes bytes of packets.
    pub writes: bool,
    /// It changes the word of packets: [`Packet::set_word`].
    pub words: bool,
}

impl Needs {
    /// Only the records of packets.
    pub const NOTHING: Needs =
        Needs { bytes: 0, packets: MOST, flows: false, fields: false, writes: false, words: false };

    const fn flags(&self) -> u32 {
        self.flows as u32 | (self.fields as u32) << 1 | (self.writes as u32) << 2 | (self.words as u32) << 3
    }

    const fn stride(&self) -> usize {
        self.bytes.next_multiple_of(8)
    }
}

/// A packet function. [`crate::function!`] makes its module one.
pub trait PacketFunction: Sized + 'static {
    /// Its needs.
    const NEEDS: Needs;
    /// State that survives the replacement of the function by a new build: plain data without references.
    type State: Copy + 'static;
    /// The state at first.
    const INITIAL: Self::State;
    /// The version of the state: count it up if the meaning of `State` changes.
    const STATE_VERSION: u32 = 1;

    /// Makes it from its options, or returns an error message.
    fn start(options: &Options) -> Result<Self, String>;
    /// Decides on a packet.
    fn process(&mut self, state: &mut Self::State, packet: &mut Packet<'_>) -> Verdict;
}

/// The router's record of a packet.
#[repr(C)]
#[derive(Clone, Copy)]
struct Record {
    timestamp: u64,
    length: u32,
    word: u32,
    flow: u32,
    shown: u16,
    transport: u16,
    payload: u16,
    in_port: u16,
    protocol: u8,
    flags: u8,
    class: u8,
    reserved: u8,
}

const EMPTY: Record = Record {
    timestamp: 0,
    length: 0,
    word: 0,
    flow: 0,
    shown: 0,
    transport: 0,
    payload: 0,
    in_port: 0,
    protocol: 0,
    flags: 0,
    class: 0,
    reserved: 0,
};

#[repr(C)]
struct Block {
    now: u64,
    count: u32,
    rules: u32,
    bytes: u32,
    area: u32,
    packets: u32,
    flags: u32,
    reserved: [u64; 4],
    options: [u64; 16],
    verdicts: [u16; MOST],
    records: [Record; MOST],
}

const _: () = assert!(size_of::<Record>() == 32 && size_of::<Block>() == 320 + MOST * 32);

/// A packet, during its call.
pub struct Packet<'a> {
    now: u64,
    record: &'a mut Record,
    bytes: &'a mut [u8],
}

impl<'a> Packet<'a> {
    /// The time of the call, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The time of its arrival, in nanoseconds.
    pub fn timestamp(&self) -> u64 {
        self.record.timestamp
    }

    /// Its length from the IP header on, in bytes. The function may see fewer: [`Needs::bytes`].
    pub fn length(&self) -> usize {
        self.record.length as usize
    }

    /// Its bytes from the IP header on, as far as the function sees them.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// The same, mutable. The router refuses changes of lengths, version, protocol, time to live and fragment offset.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Its transport protocol, a number of IANA.
    pub fn protocol(&self) -> u8 {
        self.record.protocol
    }

    /// The offset of its transport header. None for later fragments.
    pub fn transport(&self) -> Option<usize> {
        Some(self.record.transport.into()).filter(|&at| at > 0 && at <= self.bytes.len())
    }

    /// The offset of its TCP or UDP payload.
    pub fn payload_offset(&self) -> Option<usize> {
        Some(self.record.payload.into()).filter(|&at| at > 0 && at <= self.bytes.len())
    }

    /// Its TCP or UDP payload, as far as the function sees it.
    pub fn payload(&self) -> Option<&[u8]> {
        self.bytes.get(self.payload_offset()?..)
    }

    /// The hash of its flow: addresses, protocol and ports.
    pub fn flow(&self) -> u32 {
        self.record.flow
    }

    /// The number of its ingress port.
    pub fn in_port(&self) -> u16 {
        self.record.in_port
    }

    /// The class of its path.
    pub fn class(&self) -> u8 {
        self.record.class
    }

    /// The word that an earlier function of its path has set; zero at first.
    pub fn word(&self) -> u32 {
        self.record.word
    }

    /// Sets the word for later functions.
    pub fn set_word(&mut self, word: u32) {
        self.record.word = word;
    }

    /// True if it is IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.record.flags & 1 != 0
    }

    /// True if its checksum is not complete yet, or it is to be segmented: do not update its transport checksum.
    pub fn is_pending(&self) -> bool {
        self.record.flags & 2 != 0
    }

    /// True if a function has made it.
    pub fn is_generated(&self) -> bool {
        self.record.flags & 4 != 0
    }
}

/// A packet for tests: an IPv4 or IPv6 packet with these bytes, without the router.
pub struct TestPacket {
    record: Record,
    bytes: Vec<u8>,
    /// The time of the call, in nanoseconds.
    pub now: u64,
}

impl TestPacket {
    /// Makes one. `transport` and `payload` are the offsets of its headers, zero for none.
    pub fn new(bytes: &[u8], (transport, payload): (u16, u16), flow: u32) -> TestPacket {
        let protocol = bytes.get(9).copied().unwrap_or(0);
        let (length, shown) = (bytes.len() as u32, bytes.len() as u16);
        let record = Record { length, shown, transport, payload, flow, protocol, ..EMPTY };
        TestPacket { record, bytes: bytes.into(), now: 0 }
    }

    /// The packet as a function sees it.
    pub fn packet(&mut self) -> Packet<'_> {
        Packet { now: self.now, record: &mut self.record, bytes: &mut self.bytes }
    }
}

struct Shared(UnsafeCell<Block>);

// SAFETY: a module has one thread.
unsafe impl Sync for Shared {}

static BLOCK: Shared = Shared(UnsafeCell::new(Block {
    now: 0,
    count: 0,
    rules: 0,
    bytes: 0,
    area: 0,
    packets: 0,
    flags: 0,
    reserved: [0; 4],
    options: [0; 16],
    verdicts: [0; MOST],
    records: [EMPTY; MOST],
}));

#[doc(hidden)]
pub fn address() -> i32 {
    BLOCK.0.get() as usize as i32
}

/// The state of a function. Apart from the function, so that a state of zeros takes no room in the module.
#[doc(hidden)]
pub struct StateCell<F: PacketFunction>(UnsafeCell<F::State>);

// SAFETY: a module has one thread.
unsafe impl<F: PacketFunction> Sync for StateCell<F> {}

impl<F: PacketFunction> StateCell<F> {
    /// The state at first.
    pub const NEW: StateCell<F> = StateCell(UnsafeCell::new(F::INITIAL));
}

/// The function of a module, its area for packets, and the description of its state.
#[doc(hidden)]
pub struct Cell<F: PacketFunction> {
    function: UnsafeCell<Option<(F, &'static mut [u64])>>,
    region: UnsafeCell<[u32; 3]>,
}

// SAFETY: a module has one thread.
unsafe impl<F: PacketFunction> Sync for Cell<F> {}

impl<F: PacketFunction> Cell<F> {
    /// Not started yet.
    pub const NEW: Cell<F> = Cell { function: UnsafeCell::new(None), region: UnsafeCell::new([0; 3]) };

    /// Starts it. The result is that of `switchpath_start`.
    pub fn start(&self) -> i32 {
        // SAFETY: the host calls one function at a time, and none of them calls another: these are the only references.
        let (block, function) = unsafe { (&mut *BLOCK.0.get(), &mut *self.function.get()) };
        let needs = F::NEEDS;
        let most = needs.packets.clamp(1, MOST);
        let area = alloc::vec![0u64; most * needs.stride() / 8].leak();
        (block.bytes, block.area) = (needs.bytes as u32, area.as_ptr() as usize as u32);
        (block.packets, block.flags) = (most as u32, needs.flags());
        match F::start(&Options(block.options)) {
            Ok(started) => *function = Some((started, area)),
            Err(why) => {
                crate::log(&why);
                return 1;
            }
        }
        0
    }

    /// Decides on the packets of a call.
    pub fn process(&self, state: &StateCell<F>) {
        // SAFETY: as in `start`.
        let (block, function, state) = unsafe { (&mut *BLOCK.0.get(), &mut *self.function.get(), &mut *state.0.get()) };
        let Some((function, area)) = function else { return };
        let stride = F::NEEDS.stride() / 8;
        let packets = block.records.iter_mut().zip(&mut block.verdicts).take(block.count as usize);
        for (which, (record, verdict)) in packets.enumerate() {
            let words = area.get_mut(which * stride..(which + 1) * stride).unwrap_or_default();
            let shown = usize::from(record.shown).min(words.len() * 8);
            // SAFETY: any bytes are valid words and the reverse; the length is within the words.
            let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), shown) };
            *verdict = match function.process(state, &mut Packet { now: block.now, record, bytes }) {
                Verdict::Pass => 0,
                Verdict::Drop => 1,
                Verdict::Rule(rule) => rule.saturating_add(2),
            };
        }
    }

    /// The address of the description of its state.
    pub fn state(&self, state: &StateCell<F>) -> i32 {
        // SAFETY: as in `start`.
        let region = unsafe { &mut *self.region.get() };
        *region = [F::STATE_VERSION, state.0.get() as usize as u32, size_of::<F::State>() as u32];
        region.as_ptr() as usize as i32
    }
}

/// The texts of the path's `guest_rules`, in order. For the start: it allocates.
pub fn rules() -> Vec<String> {
    let mut room = [0; 256];
    let mut all = Vec::new();
    while let Ok(length) = usize::try_from(crate::host::rule(all.len() as u32, room.as_mut_ptr(), room.len())) {
        let text = &room[..length.min(room.len())];
        all.push(String::from_utf8_lossy(text).into_owned());
    }
    all
}

/// The result of a route lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The number of the port to the next hop.
    Port(u16),
    /// An address of the router.
    Local,
    /// There is no next hop.
    None,
}

/// Looks up the route to an address of 4 or 16 bytes.
pub fn lookup(address: &[u8]) -> Lookup {
    match crate::host::lookup(address.as_ptr(), address.len()) {
        -2 => Lookup::Local,
        port => u16::try_from(port).map_or(Lookup::None, Lookup::Port),
    }
}

/// Makes a packet: an IP packet with complete checksums, which is classified like a received one. A call makes at most as many as it has received.
/// Returns false if the router refuses it.
pub fn emit(packet: &[u8]) -> bool {
    crate::host::emit(packet.as_ptr(), packet.len()) == 1
}

/// The internet checksum of these parts in sequence (RFC 1071), each of an even length except the last.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u64::from(low));
    let mut sum: u64 = words.map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum after one of its words has changed (RFC 1624 3).
pub fn updated_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) as u16 + (sum >> 16) as u16)
}

/// Makes its module a packet function. The arguments are the description and a type that implements [`PacketFunction`].
#[macro_export]
macro_rules! function {
    ($description:expr, $function:ty) => {
        const _: () = {
            static CELL: $crate::FunctionCell<$function> = $crate::FunctionCell::NEW;
            static STATE: $crate::FunctionStateCell<$function> = $crate::FunctionStateCell::NEW;
            const TEXT: &str = concat!($description, "\0");

            #[unsafe(no_mangle)]
            extern "C" fn switchpath_function() -> i32 {
                1
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_describe() -> i32 {
                TEXT.as_ptr() as usize as i32
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_block() -> i32 {
                $crate::function_address()
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_start() -> i32 {
                CELL.start()
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_process() {
                CELL.process(&STATE);
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_state() -> i32 {
                CELL.state(&STATE)
            }
            $crate::end_of_panics!();
        };
    };
}
