//! The memory of a store: zeroed tables in small or large pages, and prefetch.

use packet::pool::{HashedTable, HugeTable, prefetch};
use zerocopy::FromZeros;

/// A table of fixed length.
pub(super) type Table<T> = HugeTable<T>;

/// A table indexed by hashes.
pub(super) type HashTable<T> = HashedTable<T>;

/// The page size of a store's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// The machine's pages of 4 KB, allocated as entries are written. For stores that stay nearly empty, as in simulations of hundreds of routers.
    #[default]
    Small,
    /// Huge pages as far as a table fills them. Entries scatter over the table, so a router's store soon touches all of it anyway.
    Large,
}

/// A table of `length` zeros, indexed by hashes among its first `first` elements.
pub(super) fn hash_table<T: FromZeros>(length: usize, first: usize, pages: Pages) -> HashTable<T> {
    HashedTable::new(table(length, pages), first)
}

/// A table of `length` zeros.
pub(super) fn table<T: FromZeros>(length: usize, pages: Pages) -> Table<T> {
    let table = HugeTable::zeroed(length);
    if pages == Pages::Large {
        // Before the first write, so that the kernel allocates huge pages from the start.
        table.collapse_pages();
    }
    table
}

/// Prefetches an element into the cache.
#[inline(always)]
pub(super) fn fetch<T>(element: &T) {
    prefetch(element);
}
