//! The protocol of a published value, in every interleaving that the memory model allows: `make loom`. The tests compile the crate's own file with
//! the model checker's types.

#![cfg(loom)]
// The file is compiled whole; a model uses only a part of it.
#![allow(dead_code, missing_docs)]

mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
    pub use loom::sync::{Arc, Mutex, MutexGuard};
}
#[path = "../src/publish.rs"]
mod publish;

use loom::thread;
use publish::{Published, PublishedReader};
use std::cell::Cell;
use sync::Arc;

loom::thread_local! {
    /// True in the thread of a reader.
    static IS_READER: Cell<bool> = Cell::new(false);
}

/// A value of two equal words, which only the writer may free.
struct Value(u64, u64);

impl Value {
    fn new(word: u64) -> Value {
        Value(word, word)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        assert!(!IS_READER.with(Cell::get), "a reader freed value {}", self.0);
    }
}

/// Reads `times` times, and checks that values never mix and never go back.
fn read(published: &Arc<Published<Value>>, times: usize) {
    let mut reader = PublishedReader::new(published);
    let mut last = reader.get().0;
    for _ in 0..times {
        let Value(first, second) = *reader.refresh();
        assert_eq!(first, second);
        assert!(first >= last, "{last} and then {first}");
        last = first;
    }
}

#[test]
fn reader_has_old_or_new_value_and_frees_neither() {
    loom::model(|| {
        let published = Arc::new(Published::new(Value::new(0)));
        let shared = published.clone();
        let reader = thread::spawn(move || {
            IS_READER.with(|is| is.set(true));
            read(&shared, 2);
            drop(shared);
            IS_READER.with(|is| is.set(false));
        });
        published.publish(Value::new(1));
        published.publish(Value::new(2));
        reader.join().unwrap();
        assert_eq!(published.free_retired(), 0, "old values remain");
        assert_eq!(published.latest().0, 2);
    });
}

#[test]
fn reader_that_sees_a_flag_behind_a_publication_has_its_value() {
    loom::model(|| {
        let published = Arc::new(Published::new(Value::new(0)));
        let flag = Arc::new(sync::AtomicU64::new(0));
        let mut reader = PublishedReader::new(&published);
        let seen = flag.clone();
        let reader = thread::spawn(move || {
            let announced = seen.load(sync::Ordering::Acquire);
            assert!(reader.refresh().0 >= announced);
        });
        published.publish(Value::new(1));
        // Like the message to a worker about a configuration that uses the new value.
        flag.store(1, sync::Ordering::Release);
        reader.join().unwrap();
    });
}
