//! Instructions of ephemeral state: what one sees of a packet and of what is under its tags, and what it answers.
//! `crates/extension/src/instruction.rs` has what each part of the block means.

use core::cell::UnsafeCell;
use units::Instant;

/// Tags of an instruction at most.
pub const TAGS: usize = 4;

/// What becomes of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It goes on, with the call's value.
    Forward = 0,
    /// It ends, and nobody is told.
    Drop = 1,
    /// It is not executed: something has to be there that is not. Nothing is written.
    Absent = 2,
    /// It is not executed: it would take away more than there is. Nothing is written.
    Underflow = 3,
}

/// The block that guest and host share.
#[repr(C)]
pub struct Call {
    now: u64,
    node: u64,
    /// The packet's value: another one goes on with it.
    pub value: u64,
    operator: u32,
    present: u32,
    written: u32,
    reserved: u32,
    values: [u64; TAGS],
}

const _: () = assert!(size_of::<Call>() == 72);

impl Call {
    /// A call as a packet makes it, for tests: its operator, its value, and what is under its tags.
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

    /// The number by which others know the router.
    pub fn node(&self) -> u64 {
        self.node
    }

    /// The packet's operator, 0 to 15.
    pub fn operator(&self) -> u8 {
        self.operator as u8
    }

    /// What is under a tag; none where nothing is, or there is no such tag.
    pub fn get(&self, tag: usize) -> Option<u64> {
        ((self.present | self.written) >> tag & 1 != 0).then(|| self.values.get(tag).copied()).flatten()
    }

    /// Puts a value under a tag, which is created where nothing is there.
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

/// Makes an instruction of the module it stands in: what it is called in text, how many tags it has and entries it creates at most,
/// and the function that it is.
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
