//! Memory that is taken and never given back: a guest takes what it needs when it is started.

#![cfg(target_arch = "wasm32")]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::cell::Cell;

/// Bytes of a page of WebAssembly.
const PAGE: usize = 65536;

/// What is taken begins behind what the module came with.
struct Taken {
    /// Where the next piece begins; zero before the first.
    next: Cell<usize>,
}

// SAFETY: a module has one thread.
unsafe impl Sync for Taken {}

#[global_allocator]
static MEMORY: Taken = Taken { next: Cell::new(0) };

unsafe extern "C" {
    /// The linker's: the first byte that nothing of the module lies at.
    static __heap_base: u8;
}

// SAFETY: pieces do not overlap, for each begins where the one before ended; all lie in memory that is there.
unsafe impl GlobalAlloc for Taken {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let next = match self.next.get() {
            0 => (&raw const __heap_base) as usize,
            next => next,
        };
        let Some(at) = next.checked_next_multiple_of(layout.align()) else { return core::ptr::null_mut() };
        let Some(end) = at.checked_add(layout.size()) else { return core::ptr::null_mut() };
        let missing = end.saturating_sub(memory_size(0) * PAGE);
        if missing > 0 && memory_grow(0, missing.div_ceil(PAGE)) == usize::MAX {
            return core::ptr::null_mut();
        }
        self.next.set(end);
        at as *mut u8
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // The piece taken last can be taken again.
        if at as usize + layout.size() == self.next.get() {
            self.next.set(at as usize);
        }
    }
}
