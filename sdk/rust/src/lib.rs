//! Queueing schemes for Switchpath as guests: the `Scheme` trait of the built-in schemes, compiled to WebAssembly.
//!
//! ```ignore
//! #![no_std]
//! use switchpath_guest::{Box, Options, Scheme, Wires, guest};
//!
//! guest! {
//!     "summary First in, first out.\noption limit count 1000 1 16384 Packets that wait at most.",
//!     |options: &Options| Ok(Box::new(Fifo { limit: options.value(0) as u32 }))
//! }
//! ```
//!
//! Or a packet function, by [`function!`], an instruction of ephemeral state, by [`instruction!`], or a code option of slices, by [`slice!`].
//!
//! A guest has one thread and 1 MiB of memory. It allocates at its start, and never frees.

#![no_std]

extern crate alloc;

mod block;
mod function;
mod instruction;
mod lists;
mod memory;
mod mirror;
mod ring;
mod slice;
mod wires;

use alloc::format;

pub use alloc::boxed::Box;
pub use alloc::string::String;
pub use alloc::vec::Vec;
pub use block::Options;
#[doc(hidden)]
pub use function::{Cell as FunctionCell, StateCell as FunctionStateCell, address as function_address};
pub use function::{
    Lookup, Needs, Packet, PacketFunction, TestPacket, Verdict, checksum, emit, lookup, rules, updated_checksum,
};
pub use instruction::{Call, Outcome};
#[doc(hidden)]
pub use instruction::{address as instruction_address, execute};
pub use schemes::{self, Next, Progress, Record, Scheme, Size, Wires};
#[doc(hidden)]
pub use slice::{Cell as SliceCell, address as slice_address};
pub use slice::{Diversion, ExceptionCode, Formatted, InnerPacket, KEY_BYTES, SliceCode, SliceNeeds, TestInnerPacket};
pub use units::{self, Bytes, Instant, Nanos, QueueId, Rate};
pub use wires::Link;

use block::{FLOWS, HOSTS, PASSES, QUEUES, RANKS};
use core::cell::UnsafeCell;
use mirror::MOST;

/// The constructor passed to [`guest!`]: makes the scheme from the options, or returns an error message.
pub type Build = fn(&Options) -> Result<Box<dyn Scheme<Link>>, String>;

/// The guest of this module. Only one thread runs in it, and calls of the host never overlap.
struct Only(UnsafeCell<Option<Guest>>);

// SAFETY: a module has one thread.
unsafe impl Sync for Only {}

static GUEST: Only = Only(UnsafeCell::new(None));

struct Guest {
    scheme: Box<dyn Scheme<Link>>,
    link: Link,
}

/// Calls the guest after its start, and tells the host when to call again.
fn with(work: impl FnOnce(&mut Guest)) {
    // SAFETY: the host calls one function at a time, and none of them calls another: this is the only reference.
    let guest = unsafe { &mut *GUEST.0.get() };
    if let Some(guest) = guest {
        work(guest);
        let next = match guest.scheme.next(&guest.link) {
            Next::Ready => 0,
            // The maximum time means never.
            Next::At(time) => time.get().clamp(1, u64::MAX - 1),
            Next::Idle => u64::MAX,
        };
        guest.link.leave(next);
    }
}

#[doc(hidden)]
pub fn address() -> i32 {
    block::address() as i32
}

#[doc(hidden)]
pub fn start(build: Build) -> i32 {
    // SAFETY: the host starts a guest once, before any other call.
    let block = unsafe { block::take() };
    let scheme = match build(&Options(block.options)) {
        Ok(scheme) => scheme,
        Err(why) => {
            log(&why);
            return 1;
        }
    };
    let flag = |is: bool, flag: u32| if is { flag } else { 0 };
    block.queues = scheme.queues();
    if block.queues > QUEUES {
        log(&format!("it wants {} queues, and a guest has {QUEUES} at most", block.queues));
        return 1;
    }
    block.holds = scheme.holds_at_most().min(MOST);
    block.flags = flag(scheme.wants_flow_hash(), FLOWS)
        | flag(scheme.wants_hosts(), HOSTS)
        | flag(scheme.passes_when_idle(), PASSES)
        | flag(scheme.ranks_classes(), RANKS);
    let link = Link::new(scheme.queues() as usize, block.holds, block);
    // SAFETY: as in `with`.
    unsafe { *GUEST.0.get() = Some(Guest { scheme, link }) };
    0
}

#[doc(hidden)]
pub fn arrive() {
    with(|guest| {
        guest.link.begin();
        guest.scheme.arrival(&mut guest.link);
        // A scheme that stops early refuses the remaining packets.
        while guest.link.arriving().is_some() {}
    });
}

#[doc(hidden)]
pub fn ready() {
    with(|guest| {
        guest.link.ask();
        guest.scheme.serve(&mut guest.link);
    });
}

#[doc(hidden)]
pub fn recount() {
    with(|guest| {
        guest.link.recount();
        if guest.link.block.room & 2 != 0 {
            guest.scheme.recount(&guest.link);
        }
    });
}

#[cfg(target_arch = "wasm32")]
mod host {
    #[link(wasm_import_module = "switchpath")]
    unsafe extern "C" {
        pub safe fn log(at: *const u8, length: usize);
        pub safe fn counter(which: u32, more: u64);
        pub safe fn random() -> u64;
        pub safe fn clock() -> u64;
        pub safe fn rule(number: u32, at: *mut u8, room: usize) -> i32;
        pub safe fn lookup(at: *const u8, length: usize) -> i32;
        pub safe fn emit(at: *const u8, length: usize) -> i32;
        pub safe fn load(packet: i32, offset: u32) -> u64;
        pub safe fn store(packet: i32, offset: u32, value: u64);
        pub safe fn add(packet: i32, offset: u32, value: u64) -> u64;
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod host {
    //! Stubs for native tests: without a host, log lines and counters are discarded.
    pub fn log(_at: *const u8, _length: usize) {}
    pub fn counter(_which: u32, _more: u64) {}
    pub fn random() -> u64 {
        1
    }
    pub fn clock() -> u64 {
        0
    }
    pub fn rule(_number: u32, _at: *mut u8, _room: usize) -> i32 {
        -1
    }
    pub fn lookup(_at: *const u8, _length: usize) -> i32 {
        -1
    }
    pub fn emit(_at: *const u8, _length: usize) -> i32 {
        1
    }
    pub fn load(_packet: i32, _offset: u32) -> u64 {
        0
    }
    pub fn store(_packet: i32, _offset: u32, _value: u64) {}
    pub fn add(_packet: i32, _offset: u32, _value: u64) -> u64 {
        0
    }
}

/// Logs one line for the operator.
pub fn log(text: &str) {
    host::log(text.as_ptr(), text.len());
}

/// Adds to one of eight counters.
pub fn count(which: u32, more: u64) {
    host::counter(which, more);
}

/// A random number. The sequence is the same after each start.
pub fn random() -> u64 {
    host::random()
}

/// The time of the call of a packet function, in nanoseconds.
pub fn clock() -> u64 {
    host::clock()
}

/// Makes its module a guest. The arguments are the description and the constructor of the scheme.
#[macro_export]
macro_rules! guest {
    ($description:expr, $build:expr) => {
        const _: () = {
            const BUILD: $crate::Build = $build;
            const TEXT: &str = concat!($description, "\0");

            #[unsafe(no_mangle)]
            extern "C" fn switchpath_version() -> i32 {
                1
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_describe() -> i32 {
                TEXT.as_ptr() as usize as i32
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_block() -> i32 {
                $crate::address()
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_start() -> i32 {
                $crate::start(BUILD)
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_arrive() {
                $crate::arrive();
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_ready() {
                $crate::ready();
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_recount() {
                $crate::recount();
            }
            $crate::end_of_panics!();
        };
    };
}

/// Ends a guest that panics: the host sees a trap, and serves the queues without it.
#[doc(hidden)]
#[macro_export]
macro_rules! end_of_panics {
    () => {
        #[cfg(target_arch = "wasm32")]
        #[panic_handler]
        fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
            if let Some(text) = info.message().as_str() {
                $crate::log(text);
            }
            core::arch::wasm32::unreachable()
        }
    };
}
