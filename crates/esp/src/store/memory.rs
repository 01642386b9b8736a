//! The memory of the store: zeroed, in pages as the store wants them, and fetched ahead of its use.

use packet::pool::{Huge, Spread, prefetch};
use zerocopy::FromZeros;

/// A table of fixed length.
pub(super) type Table<T> = Huge<T>;

/// A table of which hashes choose elements.
pub(super) type Chosen<T> = Spread<T>;

/// The pages that the tables of a store are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// Those of the machine, 4 KB: memory is used as entries are made. For stores that stay nearly empty, as in simulations of
    /// hundreds of routers.
    #[default]
    Small,
    /// Huge pages as far as a table fills them. Entries lie all over a table, so that a store of a router uses all of it soon.
    Large,
}

/// A table of `length` zeros, of which hashes choose among the first so many.
pub(super) fn chosen<T: FromZeros>(length: usize, first: usize, pages: Pages) -> Chosen<T> {
    Spread::new(table(length, pages), first)
}

/// A table of `length` zeros.
pub(super) fn table<T: FromZeros>(length: usize, pages: Pages) -> Table<T> {
    let table = Huge::zeroed(length);
    if pages == Pages::Large {
        // Nothing is used yet: pages are to be large from the first write on.
        table.thicken();
    }
    table
}

/// Asks the processor to bring an element near.
#[inline(always)]
pub(super) fn fetch<T>(element: &T) {
    prefetch(element);
}
