//! The resources of a code option besides the packet: the memory of its slice, and a number of steps.

use super::{Diversion, ExceptionCode};
use crate::memory::SliceMemory;
use units::Instant;

/// The surroundings of one call of a code option.
///
/// A call has a number of steps. Each access of the memory is one; a code option with a loop counts its rounds with [`CodeEnv::step`]. When the steps
/// are used up, every further access fails, and the packet goes to the slow path.
pub struct CodeEnv<'a> {
    memory: &'a SliceMemory,
    interface: u16,
    position: Option<usize>,
    now: Instant,
    left: u32,
    fault: Option<Diversion>,
}

impl<'a> CodeEnv<'a> {
    /// For a packet that arrived by meta-interface `interface`. The call may take `steps`.
    #[inline(always)]
    pub fn new(memory: &'a SliceMemory, interface: u16, steps: u32) -> CodeEnv<'a> {
        CodeEnv { memory, interface, position: None, now: Instant::default(), left: steps, fault: None }
    }

    /// The same for the packet at a position of a batch, at a time.
    #[must_use]
    #[inline(always)]
    pub fn at(mut self, position: usize, now: Instant) -> CodeEnv<'a> {
        (self.position, self.now) = (Some(position), now);
        self
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The position of the packet in its batch, if [`CodeOption::begin`](super::CodeOption::begin) has got that batch.
    pub fn position(&self) -> Option<usize> {
        self.position
    }

    /// The meta-interface by which the packet arrived: a number of the slice's own.
    pub fn interface(&self) -> u16 {
        self.interface
    }

    /// Takes steps.
    ///
    /// # Errors
    /// So many are not left.
    pub fn step(&mut self, count: u32) -> Result<(), Diversion> {
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => return self.fail(Diversion::Exception(ExceptionCode::OverBudget)),
        }
        Ok(())
    }

    /// The word of eight bytes at this offset, which is a multiple of eight. The first byte is the most significant one.
    ///
    /// # Errors
    /// The slice has no such word, or no step is left.
    pub fn load(&mut self, offset: usize) -> Result<u64, Diversion> {
        self.step(1)?;
        self.memory.load(offset).map_or_else(|| self.fail(Diversion::OutOfMemory), Ok)
    }

    /// Writes the word at this offset.
    ///
    /// # Errors
    /// As [`CodeEnv::load`].
    pub fn store(&mut self, offset: usize, value: u64) -> Result<(), Diversion> {
        self.step(1)?;
        if self.memory.store(offset, value) { Ok(()) } else { self.fail(Diversion::OutOfMemory) }
    }

    /// Adds to the word at this offset, and returns the value before. No addition of another worker is lost.
    ///
    /// # Errors
    /// As [`CodeEnv::load`].
    pub fn add(&mut self, offset: usize, value: u64) -> Result<u64, Diversion> {
        self.step(1)?;
        self.memory.add(offset, value).map_or_else(|| self.fail(Diversion::OutOfMemory), Ok)
    }

    /// The first fault of the call. A code option cannot hide it: it decides about the packet, and the result of the call is ignored.
    pub fn fault(&self) -> Option<Diversion> {
        self.fault
    }

    fn fail<T>(&mut self, fault: Diversion) -> Result<T, Diversion> {
        self.fault.get_or_insert(fault);
        Err(fault)
    }
}
