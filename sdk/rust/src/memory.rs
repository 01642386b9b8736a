//! A bump allocator that frees only the last allocation: a guest allocates at its start.

#![cfg(target_arch = "wasm32")]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::cell::Cell;

/// Bytes of a page of WebAssembly.
const PAGE: usize = 65536;

/// Allocations begin after the module's own data.
struct Taken {
    /// Start of the next allocation; zero before the first.
    next: Cell<usize>,
}

// SAFETY: a module has one thread.
unsafe impl Sync for Taken {}

#[global_allocator]
static MEMORY: Taken = Taken { next: Cell::new(0) };

unsafe extern "C" {
    /// Set by the linker: the first byte after the module's data.
    static __heap_base: u8;
}

// SAFETY: allocations do not overlap, because each begins at the end of the previous one; all lie in existing memory.
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
        // Only the last allocation can be returned.
        if at as usize + layout.size() == self.next.get() {
            self.next.set(at as usize);
        }
    }
}
