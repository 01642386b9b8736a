//! Instructions of ephemeral state: the packet's value, the entries under its tags, and the instruction's outcome.
//! `crates/extension/src/instruction.rs` documents each field of the block.

use core::cell::UnsafeCell;
use units::Instant;

/// Maximum number of tags of an instruction.
pub const TAGS: usize = 4;

/// The fate of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Forward it, with the call's value.
    Forward = 0,
    /// Drop it silently.
    Drop = 1,
    /// Abort: a required entry is absent. Nothing is written.
    Absent = 2,
    /// Abort: the result would be below zero. Nothing is written.
    Underflow = 3,
}

/// The memory block shared by guest and host.
#[repr(C)]
pub struct Call {
    now: u64,
    node: u64,
    /// The packet's value. If changed, the packet is forwarded with the new value.
    pub value: u64,
    operator: u32,
    present: u32,
    written: u32,
    reserved: u32,
    values: [u64; TAGS],
}

const _: () = assert!(size_of::<Call>() == 72);

impl Call {
    /// The call of a packet, for tests: its operator, its value, and the values under its tags.
    pub fn of(operator: u8, value: u64, there: &[Option<u64>]) -> Call {
        let mut values = [0; TAGS];
        let mut present = 0;
        for (tag, there) in there.iter().enumerate().take(TAGS) {
            values[tag] = there.unwrap_or(0);
            present |= u32::from(there.is_some()) << tag;
        }
        Call { now: 0, node: 0, value, operator: operator.into(), present, written: 0, reserved: 0, values }
    }

    /// The time of the router.
    pub fn now(&self) -> Instant {
        Instant::new(self.now)
    }

    /// The router's name in replies.
    pub fn node(&self) -> u64 {
        self.node
    }

    /// The packet's operator, 0 to 15.
    pub fn operator(&self) -> u8 {
        self.operator as u8
    }

    /// The value under a tag. None if there is no entry or no such tag.
    pub fn get(&self, tag: usize) -> Option<u64> {
        ((self.present | self.written) >> tag & 1 != 0).then(|| self.values.get(tag).copied()).flatten()
    }

    /// Writes the value of a tag, and creates the entry if it is absent.
    pub fn set(&mut self, tag: usize, value: u64) {
        if let Some(place) = self.values.get_mut(tag) {
            *place = value;
            self.written |= 1 << tag;
        }
    }
}

struct Shared(UnsafeCell<Call>);

// SAFETY: a module has one thread.
unsafe impl Sync for Shared {}

static CALL: Shared = Shared(UnsafeCell::new(Call {
    now: 0,
    node: 0,
    value: 0,
    operator: 0,
    present: 0,
    written: 0,
    reserved: 0,
    values: [0; TAGS],
}));

#[doc(hidden)]
pub fn address() -> i32 {
    CALL.0.get() as usize as i32
}

#[doc(hidden)]
pub fn execute(instruction: fn(&mut Call) -> Outcome) -> i32 {
    // SAFETY: the host calls one function at a time, and this is the only one that has a reference to it.
    instruction(unsafe { &mut *CALL.0.get() }) as i32
}

/// Makes its module an instruction. The arguments are the description (summary, number of tags, maximum number of created entries)
/// and the function.
#[macro_export]
macro_rules! instruction {
    ($description:expr, $execute:expr) => {
        const _: () = {
            const EXECUTE: fn(&mut $crate::Call) -> $crate::Outcome = $execute;
            const TEXT: &str = concat!($description, "\0");

            #[unsafe(no_mangle)]
            extern "C" fn switchpath_instruction() -> i32 {
                1
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_describe() -> i32 {
                TEXT.as_ptr() as usize as i32
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_block() -> i32 {
                $crate::instruction_address()
            }
            #[unsafe(no_mangle)]
            extern "C" fn switchpath_execute() -> i32 {
                $crate::execute(EXECUTE)
            }
            $crate::end_of_panics!();
        };
    };
}
