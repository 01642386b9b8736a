//! The memory of the store: zeroed, in huge pages where the kernel has them, and fetched ahead of its use.

use packet::pool::{Huge, Spread, prefetch};
use zerocopy::FromZeros;

/// A table of fixed length.
pub(super) type Table<T> = Huge<T>;

/// A table of which hashes choose elements.
pub(super) type Chosen<T> = Spread<T>;

/// A table of `length` zeros, of which hashes choose among the first so many.
pub(super) fn chosen<T: FromZeros>(length: usize, first: usize) -> Chosen<T> {
    Spread::new(table(length), first)
}

/// A table of `length` zeros.
pub(super) fn table<T: FromZeros>(length: usize) -> Table<T> {
    let table = Huge::zeroed(length);
    // Nothing is used yet: pages are to be large from the first write on.
    table.thicken();
    table
}

/// Asks the processor to bring an element near.
#[inline(always)]
pub(super) fn fetch<T>(element: &T) {
    prefetch(element);
}
