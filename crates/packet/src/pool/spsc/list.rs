//! The void-element list (spec P-61, P-62; Pradhan and Chiueh 2002): a linked list that always has an element, so that the two threads never write the
//! same word. It needs no bound of its own.
//!
//! The producer appends by one store of `next` in its last element, the *tail*. The consumer owns the first element, the *head*. An element without an
//! item is *void*:
//!
//! ```text
//!  free ──> free ──> head ──> item ──> item ──> tail           free ──> free ──> void
//!  └ producer reuses ┘ └ consumer reads ┘  └ producer links     a list without items: head and tail are one element
//! ```
//!
//! - Dequeue, head with an item: take the item. If the head has a successor, unlink the head; else it stays, void.
//! - Dequeue, void head: if it has a successor, unlink it, and continue with the successor; else the list is empty.
//!
//! Invariants:
//!
//! 1. Only the head may be void. The producer never links a void element, except for the first one of a new list.
//! 2. Only the consumer makes an element void, and only the consumer frees one, by counting the items that it has dequeued. After `n` items, the `n`
//!    oldest elements are free. The element of the latest item is not among them: it may be void and still wait for its successor.
//! 3. The producer writes `next` of its tail once, and touches the element again only after the consumer has freed it.
//!
//! The free store is the front of the same chain. The producer takes elements from it in the order in which they were freed, and allocates one only if
//! the store is empty: when the backlog is longer than ever before.

use super::ends::{Consumer, Producer};
use super::sync::{Arc, AtomicBool, AtomicPtr, AtomicUsize, Ordering, UnsafeCell};
use std::ptr;

/// An element. A cache line of its own, so that the threads do not share the line of neighbouring elements.
#[repr(align(64))]
#[derive(Debug)]
struct Element<T> {
    /// Written by the producer only. Null in the tail.
    next: AtomicPtr<Element<T>>,
    /// `None` in a void or free element. Belongs to the producer until the element is linked, then to the consumer until the element is free.
    item: UnsafeCell<Option<T>>,
}

impl<T> Element<T> {
    fn allocate(item: Option<T>) -> *mut Element<T> {
        let next = AtomicPtr::new(ptr::null_mut());
        Box::into_raw(Box::new(Element { next, item: UnsafeCell::new(item) }))
    }
}

/// A counter in a cache line of its own.
#[repr(align(128))]
#[derive(Debug)]
struct Line(AtomicUsize);

/// The words that both ends read. Counters wrap; only their difference is used.
#[derive(Debug)]
struct Shared<T> {
    /// Items enqueued. Written by the producer.
    pushed: Line,
    /// Items dequeued, and so elements freed. Written by the consumer.
    popped: Line,
    /// One end was dropped.
    abandoned: AtomicBool,
    /// The oldest element, once the producer has ended.
    oldest: AtomicPtr<Element<T>>,
}

/// The producer's end of a void-element list.
#[derive(Debug)]
pub struct ListProducer<T> {
    shared: Arc<Shared<T>>,
    tail: *mut Element<T>,
    /// The oldest element: the next one to reuse, if any is free.
    oldest: *mut Element<T>,
    /// Elements from `oldest` on that are known to be free.
    free: usize,
    /// Items enqueued.
    pushed: usize,
    /// Items dequeued, when `free` was last counted.
    popped: usize,
    /// The most items at once.
    bound: usize,
    /// Elements that exist.
    elements: usize,
}

/// The consumer's end of a void-element list.
#[derive(Debug)]
pub struct ListConsumer<T> {
    shared: Arc<Shared<T>>,
    head: *mut Element<T>,
    /// Items dequeued.
    popped: usize,
}

// SAFETY: each end uses only the elements and fields that belong to it, on any thread. Items cross from one thread to the other.
unsafe impl<T: Send> Send for ListProducer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for ListConsumer<T> {}

/// A list for at most `bound` items. It begins with `ready` free elements; further ones are allocated when the backlog first needs them.
pub fn void_list<T>(bound: usize, ready: usize) -> (ListProducer<T>, ListConsumer<T>) {
    let void = Element::allocate(None);
    let oldest = (0..ready).fold(void, |next, _| {
        let element = Element::allocate(None);
        // SAFETY: just allocated, and not yet shared.
        unsafe { &*element }.next.store(next, Ordering::Relaxed);
        element
    });
    let shared = Arc::new(Shared {
        pushed: Line(AtomicUsize::new(0)),
        popped: Line(AtomicUsize::new(0)),
        abandoned: AtomicBool::new(false),
        oldest: AtomicPtr::new(oldest),
    });
    let consumer = ListConsumer { shared: shared.clone(), head: void, popped: 0 };
    let producer =
        ListProducer { shared, tail: void, oldest, free: ready, pushed: 0, popped: 0, bound, elements: ready + 1 };
    (producer, consumer)
}

impl<T> ListProducer<T> {
    /// The number of elements that exist: one more than the longest backlog so far, at least.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// An element with `item`, not yet linked.
    #[inline]
    fn fill(&mut self, item: T) -> *mut Element<T> {
        if self.free == 0 {
            self.count_free();
        }
        if self.free == 0 {
            self.elements += 1;
            return Element::allocate(Some(item));
        }
        let element = self.oldest;
        // SAFETY: the consumer has freed it, and this end has read that with `Acquire`: it belongs to this end alone.
        let reused = unsafe { &*element };
        // Never null: a free element has a successor, which this end has linked itself.
        self.oldest = reused.next.load(Ordering::Relaxed);
        self.free -= 1;
        reused.next.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: as above.
        reused.item.with_mut(|place| unsafe { *place = Some(item) });
        element
    }

    /// Adds the elements that the consumer has freed since the last call.
    #[inline]
    fn count_free(&mut self) {
        // Acquire: what the consumer did to an element happened before it is reused.
        let popped = self.shared.popped.0.load(Ordering::Acquire);
        self.free += popped.wrapping_sub(self.popped);
        self.popped = popped;
    }

    /// Appends `count` linked elements.
    #[inline]
    fn publish(&mut self, (first, last): (*mut Element<T>, *mut Element<T>), count: usize) {
        // SAFETY: the tail is never freed before it has a successor.
        // Release: the items were written before.
        unsafe { &*self.tail }.next.store(first, Ordering::Release);
        self.tail = last;
        self.pushed = self.pushed.wrapping_add(count);
        // Release, and after the link: a consumer finds all items that it sees counted.
        self.shared.pushed.0.store(self.pushed, Ordering::Release);
    }
}

impl<T> Producer<T> for ListProducer<T> {
    fn room(&self) -> usize {
        self.bound - self.queued()
    }

    fn queued(&self) -> usize {
        self.pushed.wrapping_sub(self.shared.popped.0.load(Ordering::Acquire))
    }

    #[inline]
    fn push(&mut self, item: T) -> Result<(), T> {
        // The count of dequeued items is read again only if the old one shows no room.
        if self.pushed.wrapping_sub(self.popped) >= self.bound {
            self.count_free();
            if self.pushed.wrapping_sub(self.popped) >= self.bound {
                return Err(item);
            }
        }
        let element = self.fill(item);
        self.publish((element, element), 1);
        Ok(())
    }

    fn push_many(&mut self, most: usize, items: impl Iterator<Item = T>) -> usize {
        self.count_free();
        let fit = most.min(self.bound - self.pushed.wrapping_sub(self.popped));
        let (mut chain, mut count) = (None, 0);
        for item in items.take(fit) {
            let element = self.fill(item);
            let (first, last) = chain.unwrap_or((element, element));
            if count > 0 {
                // SAFETY: not yet linked to the list, so it belongs to this end.
                unsafe { &*(last as *const Element<T>) }.next.store(element, Ordering::Relaxed);
            }
            (chain, count) = (Some((first, element)), count + 1);
        }
        if let Some(chain) = chain {
            self.publish(chain, count);
        }
        count
    }

    fn is_abandoned(&self) -> bool {
        self.shared.abandoned.load(Ordering::Acquire)
    }
}

impl<T> ListConsumer<T> {
    /// The successor of `element`, the head or a void head's successor. Null if it is the tail.
    #[inline]
    fn next(element: *mut Element<T>) -> *mut Element<T> {
        // SAFETY: the head belongs to this end, and so does its successor once it is linked.
        // Acquire: the producer wrote the item before it linked the element.
        unsafe { &*element }.next.load(Ordering::Acquire)
    }

    /// True if `element`, the head or its successor, has no item.
    #[inline]
    fn is_void(element: *mut Element<T>) -> bool {
        // SAFETY: as in `next`.
        unsafe { &*element }.item.with(|place| unsafe { (*place).is_none() })
    }

    /// Dequeues the next item. Its predecessors are free after [`ListConsumer::free`].
    #[inline]
    fn take(&mut self) -> Option<T> {
        let first = self.first();
        // SAFETY: as in `peek`.
        let item = unsafe { first.as_ref() }?.item.with_mut(|place| unsafe { (*place).take() });
        let next = Self::next(first);
        // Without a successor the element stays, void: the producer still has to link one to it.
        self.head = if next.is_null() { first } else { next };
        self.popped = self.popped.wrapping_add(1);
        item
    }

    /// Frees the elements before that of the latest item.
    #[inline]
    fn free(&self) {
        // Release, and last: from here on the producer may reuse them.
        self.shared.popped.0.store(self.popped, Ordering::Release);
    }

    /// The first element with an item. Null if there is none.
    #[inline]
    fn first(&self) -> *mut Element<T> {
        if Self::is_void(self.head) { Self::next(self.head) } else { self.head }
    }
}

impl<T> Consumer<T> for ListConsumer<T> {
    fn queued(&self) -> usize {
        // An item may be dequeued before it is counted.
        (self.shared.pushed.0.load(Ordering::Acquire).wrapping_sub(self.popped) as isize).max(0) as usize
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.first().is_null()
    }

    fn peek(&self) -> Option<&T> {
        // SAFETY: null, or an element of this end, whose item stays until `pop`, which needs the end exclusively.
        unsafe { self.first().as_ref() }?.item.with(|place| unsafe { (*place).as_ref() })
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        let item = self.take()?;
        self.free();
        Some(item)
    }

    fn pop_many(&mut self, most: usize, mut each: impl FnMut(T)) -> usize {
        let mut count = 0;
        while count < most
            && let Some(item) = self.take()
        {
            each(item);
            count += 1;
        }
        // Once for all: the producer reads the counter from another core.
        if count > 0 {
            self.free();
        }
        count
    }

    fn is_abandoned(&self) -> bool {
        self.shared.abandoned.load(Ordering::Acquire)
    }
}

impl<T> Drop for ListProducer<T> {
    fn drop(&mut self) {
        // Relaxed: the reference count orders it before the end of `Shared`.
        self.shared.oldest.store(self.oldest, Ordering::Relaxed);
        self.shared.abandoned.store(true, Ordering::Release);
    }
}

impl<T> Drop for ListConsumer<T> {
    fn drop(&mut self) {
        self.shared.abandoned.store(true, Ordering::Release);
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let mut element = self.oldest.load(Ordering::Relaxed);
        while !element.is_null() {
            // SAFETY: both ends are gone, and the chain from the oldest element has each element once.
            let owned = unsafe { Box::from_raw(element) };
            element = owned.next.load(Ordering::Relaxed);
        }
    }
}
