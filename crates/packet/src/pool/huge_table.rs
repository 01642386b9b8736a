//! Tables with random access: zeroed memory directly from the kernel, in huge pages if available.
//!
//! A lookup in a table of 64 MB misses the TLB as well as the caches: with 4 KB pages the page tables themselves are as large as a cache. A page of 2
//! MB costs one TLB entry. Small tables should not use huge pages: a table with ten entries uses ten small pages at most. A table therefore begins
//! with small pages, and its user calls [`HugeTable::collapse_pages`] when huge pages are worth it. Only pages that the table fills completely become huge: a
//! table of a few kilobytes does not use 2 MB, and many small tables do not multiply that.

use std::ffi::c_void;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use zerocopy::FromZeros;

/// Bytes of a huge page; also the alignment of a table.
const PAGE: usize = 2 << 20;
/// Mappings are multiples of this size: no kernel that Rust supports has larger base pages.
const SMALL: usize = 64 << 10;

/// A table of fixed length. Memory is used only where it was written.
pub struct HugeTable<T> {
    data: NonNull<T>,
    length: usize,
}

// SAFETY: it owns its elements as a `Vec` does.
unsafe impl<T: Send> Send for HugeTable<T> {}
// SAFETY: as above; `&Huge` only gives `&T`.
unsafe impl<T: Sync> Sync for HugeTable<T> {}

impl<T: FromZeros> HugeTable<T> {
    /// A table of `length` zeros, at least one.
    ///
    /// # Panics
    /// If the kernel has no address space for it, or its size overflows. Types that need drop, or a larger alignment than a huge page, do
    /// not compile.
    pub fn zeroed(length: usize) -> HugeTable<T> {
        const { assert!(!std::mem::needs_drop::<T>()) };
        HugeTable::map(length)
    }
}

impl<T> HugeTable<T> {
    /// A table of `length` elements, at least one. `make` makes each from its index. The table has huge pages from the start, unless it is smaller
    /// than one.
    ///
    /// # Panics
    /// See [`HugeTable::zeroed`].
    pub fn from_fn(length: usize, mut make: impl FnMut(usize) -> T) -> HugeTable<T> {
        // The table has no elements until all are made: if `make` panics, the elements made so far are leaked.
        let table = HugeTable::<MaybeUninit<T>>::map(length);
        table.prefer_large_pages();
        for place in 0..length {
            // SAFETY: the mapping has room for `length` elements and is aligned for them.
            unsafe { table.data.add(place).cast::<T>().write(make(place)) };
        }
        let data = ManuallyDrop::new(table).data.cast();
        HugeTable { data, length }
    }

    /// Zeroed memory for `length` elements.
    fn map(length: usize) -> HugeTable<T> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= PAGE) };
        let bytes = length.checked_mul(size_of::<T>()).filter(|&bytes| bytes > 0).expect("a table has a size");
        // Reserves one page more than needed, so that an aligned part lies within; the rest is unmapped.
        let kept = bytes.next_multiple_of(SMALL);
        let reserved = kept + PAGE;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping at an address that the kernel chooses changes no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), reserved, access, kind | libc::MAP_NORESERVE, -1, 0) };
        assert!(start != libc::MAP_FAILED, "no address space for a table of {bytes} bytes");
        let before = start.addr().next_multiple_of(PAGE) - start.addr();
        let data = start.wrapping_byte_add(before);
        let end = data.wrapping_byte_add(kept);
        // SAFETY: both ranges are page-aligned parts of the mapping made above, outside of the part that is kept.
        unsafe {
            unmap(start, before);
            unmap(end, reserved - before - kept);
        }
        HugeTable { data: NonNull::new(data.cast()).expect("a mapping is not at zero"), length }
    }

    /// Bytes of the mapping.
    fn bytes(&self) -> usize {
        (self.length * size_of::<T>()).next_multiple_of(SMALL)
    }

    /// Bytes of the huge pages that the table fills completely.
    fn whole_pages(&self) -> usize {
        self.length * size_of::<T>() / PAGE * PAGE
    }

    /// The first element.
    pub(super) fn start(&self) -> NonNull<T> {
        self.data
    }

    /// Asks the kernel for huge pages when the table is first written, as far as it fills them.
    pub(super) fn prefer_large_pages(&self) {
        // SAFETY: the range is a part of this table's mapping.
        unsafe { prefer_huge(self.data.as_ptr().cast(), self.whole_pages()) }
    }

    /// Makes the kernel back the table with huge pages as far as it fills them, including memory already in use (`MADV_COLLAPSE`, Linux 6.1). Takes
    /// the time to copy the used memory. If the kernel has no huge pages, the table stays as it is.
    pub fn collapse_pages(&self) {
        // SAFETY: the range is a part of this table's mapping, and whole huge pages.
        unsafe { collapse(self.data.as_ptr().cast(), self.whole_pages()) }
    }
}

/// Asks the kernel for huge pages when memory is first written.
///
/// # Safety
/// The range is mapped.
unsafe fn prefer_huge(start: *mut c_void, length: usize) {
    if length > 0 {
        // SAFETY: the caller vouches for the range; the advice does not change its content.
        unsafe { libc::madvise(start, length, libc::MADV_HUGEPAGE) };
    }
}

/// Makes the kernel back memory with huge pages.
///
/// # Safety
/// The range is mapped, and whole huge pages.
unsafe fn collapse(start: *mut c_void, length: usize) {
    // SAFETY: the caller vouches for the range.
    unsafe { prefer_huge(start, length) };
    // One call per page: a single call for the whole range stops at the first page that was never used.
    for offset in (0..length).step_by(PAGE) {
        // SAFETY: a page within that range, and as above.
        unsafe { libc::madvise(start.wrapping_byte_add(offset), PAGE, libc::MADV_COLLAPSE) };
    }
}

/// Unmaps a part of a mapping.
///
/// # Safety
/// The range is page-aligned, mapped by this module, and no longer used.
unsafe fn unmap(start: *mut c_void, length: usize) {
    if length > 0 {
        // SAFETY: the caller vouches for the range.
        let result = unsafe { libc::munmap(start, length) };
        debug_assert_eq!(result, 0, "a part of a mapping can be given back");
    }
}

impl<T> Deref for HugeTable<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `length` elements lie at `data` with sufficient alignment; each was written, or is valid as zeros (`FromZeros`), and the mapping
        // lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.length) }
    }
}

impl<T> DerefMut for HugeTable<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.length) }
    }
}

impl<T> Drop for HugeTable<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            // SAFETY: all elements are initialised, and none is used any more.
            unsafe { std::ptr::drop_in_place::<[T]>(&raw mut **self) };
        }
        // SAFETY: the mapping was made in `map`; borrows of the elements have ended.
        unsafe { unmap(self.data.as_ptr().cast(), self.bytes()) }
    }
}

impl<T> fmt::Debug for HugeTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Huge of {} elements", self.length)
    }
}

/// A table indexed by hashes. Every hash has an element, so no bounds check is needed.
#[derive(Debug)]
pub struct HashedTable<T> {
    table: HugeTable<T>,
    /// The number of elements that hashes select, at most the table's length.
    first: u64,
}

impl<T> HashedTable<T> {
    /// Hashes select among the first elements of a table.
    ///
    /// # Panics
    /// If the table has fewer elements, or `first` is zero.
    pub fn new(table: HugeTable<T>, first: usize) -> HashedTable<T> {
        assert!((1..=table.length).contains(&first), "{first} of {}", table.length);
        HashedTable { table, first: first as u64 }
    }

    /// The index that a hash selects: the high bits of a product, instead of a division (Lemire 2019).
    #[inline(always)]
    pub fn index_of(&self, hash: u64) -> usize {
        ((u128::from(hash) * u128::from(self.first)) >> 64) as usize
    }

    /// The element that a hash selects.
    #[inline(always)]
    pub fn select(&self, hash: u64) -> &T {
        // SAFETY: a hash is less than 2^64, so the place is less than `first`, which is no more than the length.
        unsafe { self.table.data.add(self.index_of(hash)).as_ref() }
    }
}

impl<T> Deref for HashedTable<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    #[test]
    fn table_is_zeroed_and_aligned_and_survives_page_collapse() {
        let table = HugeTable::<AtomicU32>::zeroed(3 << 19);
        assert_eq!(table.as_ptr().addr() % PAGE, 0);
        assert!(table.iter().step_by(1021).all(|word| word.load(Ordering::Relaxed) == 0));
        for (i, word) in table.iter().enumerate().step_by(997) {
            word.store(i as u32, Ordering::Relaxed);
        }
        table.collapse_pages();
        for (i, word) in table.iter().enumerate() {
            let written = if i % 997 == 0 { i as u32 } else { 0 };
            assert_eq!(word.load(Ordering::Relaxed), written, "{i}");
        }
    }

    /// KB of huge pages in the mapping that contains an address (proc(5), smaps).
    fn huge_at(address: usize) -> Option<usize> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut within = false;
        for line in smaps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bound = |text| usize::from_str_radix(text, 16).ok();
            if let Some((start, end)) = range.and_then(|(start, end)| Some((bound(start)?, bound(end)?))) {
                within = (start..end).contains(&address);
            } else if let Some(size) = line.strip_prefix("AnonHugePages:").filter(|_| within) {
                return size.trim().trim_end_matches(" kB").parse().ok();
            }
        }
        None
    }

    #[test]
    #[allow(clippy::print_stdout)]
    fn used_pages_collapse_even_behind_unused_pages() {
        const WORDS: usize = PAGE / size_of::<AtomicU32>();
        let use_one = |table: &HugeTable<AtomicU32>, page: usize| table[page * WORDS + 5].store(7, Ordering::Relaxed);
        let thick = |pages: &[usize]| {
            let table = HugeTable::<AtomicU32>::zeroed(6 * WORDS);
            pages.iter().for_each(|&page| use_one(&table, page));
            table.collapse_pages();
            assert!(pages.iter().all(|page| table[page * WORDS + 5].load(Ordering::Relaxed) == 7));
            huge_at(table.as_ptr().addr())
        };
        if thick(&[0]).is_none_or(|size| size < PAGE >> 10) {
            return println!("skipped: this kernel has no huge pages to give at once");
        }
        assert!(thick(&[2, 4]) >= Some((2 * PAGE) >> 10));
    }

    #[test]
    fn table_uses_huge_pages_only_where_it_fills_them() {
        const WORDS: usize = PAGE / size_of::<AtomicU32>();
        for words in [100, WORDS - 1, WORDS, WORDS + 100, 2 * WORDS + WORDS / 2] {
            let table = HugeTable::<AtomicU32>::zeroed(words);
            table.collapse_pages();
            table.iter().for_each(|word| word.store(7, Ordering::Relaxed));
            assert!(table.bytes() < words * 4 + SMALL, "{words} words take {} bytes", table.bytes());
            // If the kernel gives huge pages without advice, the test cannot decide this.
            let unasked = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
                .is_ok_and(|modes| modes.contains("[always]"));
            if let Some(huge) = huge_at(table.as_ptr().addr()).filter(|_| !unasked) {
                assert!(huge << 10 <= words / WORDS * PAGE, "{words} words have {huge} KB of huge pages");
            }
        }
    }

    #[test]
    fn built_table_is_mutable_and_drops_each_element_once() {
        let counted = std::rc::Rc::new(());
        for length in [1, 5, PAGE / 8 + 3] {
            let mut table = HugeTable::from_fn(length, |place| (counted.clone(), place));
            assert_eq!(table.as_ptr().addr() % PAGE, 0);
            table[length - 1].1 += 7;
            assert_eq!(table.iter().map(|(_, place)| place).sum::<usize>(), length * (length - 1) / 2 + 7);
            assert_eq!(std::rc::Rc::strong_count(&counted), 1 + length);
            drop(table);
            assert_eq!(std::rc::Rc::strong_count(&counted), 1);
        }
    }

    #[test]
    fn tables_of_any_length_are_mapped_and_unmapped() {
        for length in [1, 511, 1 << 18, (1 << 18) + 1] {
            let table = HugeTable::<AtomicU64>::zeroed(length);
            assert_eq!(table.len(), length);
            table[length - 1].store(7, Ordering::Relaxed);
            assert_eq!(table.iter().map(|word| word.load(Ordering::Relaxed)).sum::<u64>(), 7);
        }
    }

    #[test]
    fn hashes_select_every_one_of_the_first_elements() {
        for (length, first) in [(1, 1), (20, 5), (1000, 1000)] {
            let spread = HashedTable::new(HugeTable::from_fn(length, |place| place), first);
            let step = u64::MAX / first as u64;
            for place in 0..first as u64 {
                let within = place * step + place + step / 2;
                assert_eq!((spread.index_of(within), *spread.select(within)), (place as usize, place as usize));
            }
            assert_eq!((*spread.select(0), *spread.select(u64::MAX), spread.len()), (0, first - 1, length));
        }
    }

    #[test]
    #[should_panic(expected = "6 of 5")]
    fn hashed_table_rejects_more_elements_than_the_table_has() {
        HashedTable::new(HugeTable::from_fn(5, |place| place), 6);
    }

    #[test]
    #[should_panic(expected = "a table has a size")]
    fn empty_table_is_rejected() {
        HugeTable::<AtomicU32>::zeroed(0);
    }
}
