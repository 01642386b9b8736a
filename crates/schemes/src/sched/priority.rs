//! Strict priority: the first waiting bin is next (RFC 2475, section 2.3.3.3).

use super::BinOrder;
use crate::Record;

/// A bitmap of the waiting bins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PriorityOrder(u64);

impl PriorityOrder {
    /// The most bins.
    pub const MOST: u64 = 64;
}

impl BinOrder for PriorityOrder {
    #[inline]
    fn wake(&mut self, bin: usize, _: u32, _: &Record) {
        self.0 |= 1 << bin;
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        // Bin 0 has the highest class.
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    #[inline]
    fn sent(&mut self, _: usize, _: u32, _: u32) {}

    #[inline]
    fn empty(&mut self, bin: usize, _: u32) {
        self.0 &= !(1 << bin);
    }

    fn clear(&mut self) {
        self.0 = 0;
    }

    fn ranks(&self) -> bool {
        true
    }
}
