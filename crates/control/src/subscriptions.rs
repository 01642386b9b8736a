//! The open captures and traces: a bounded list that workers read without a lock. Each entry has a bounded channel to its reader. A worker never
//! waits for a reader: an item for a full channel is counted as missed.

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// A capture or trace, which knows when its reader has received all items.
pub trait Watch {
    /// The type of its items.
    type Item: Send;
    /// The capacity of the channel to the reader.
    const DEPTH: usize;
    /// Returns whether no more items will follow.
    fn is_done(&self) -> bool;
}

/// A watch and the channel to its reader, which ends when this is dropped.
pub struct WatchChannel<W: Watch> {
    pub watch: Arc<W>,
    pub sender: Sender<W::Item>,
}

impl<W: Watch> Clone for WatchChannel<W> {
    fn clone(&self) -> Self {
        WatchChannel { watch: self.watch.clone(), sender: self.sender.clone() }
    }
}

/// The open watches of one kind.
pub struct Subscriptions<W: Watch> {
    open: AtomicUsize,
    most: usize,
    list: ArcSwap<Vec<WatchChannel<W>>>,
    // Locked while the list changes, never for reading. True when no more watches are accepted.
    closed: Mutex<bool>,
}

impl<W: Watch> Subscriptions<W> {
    /// Creates a list for at most `most` watches.
    pub fn new(most: usize) -> Subscriptions<W> {
        Subscriptions { open: AtomicUsize::new(0), most, list: ArcSwap::default(), closed: Mutex::new(false) }
    }

    /// Returns whether there is a watch: a single load, because workers ask in every step.
    pub fn is_watched(&self) -> bool {
        // Relaxed: `Daemon::follow` waits for a report of each worker, and after that all workers see the new watch.
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Returns the open watches with their channels.
    pub fn channels(&self) -> arc_swap::Guard<Arc<Vec<WatchChannel<W>>>> {
        self.list.load()
    }

    /// Returns the open watches.
    pub fn list(&self) -> Vec<Arc<W>> {
        self.list.load().iter().map(|armed| armed.watch.clone()).collect()
    }

    /// Opens a watch; none if the list is full or the router is stopping.
    pub fn open(self: &Arc<Self>, watch: W) -> Option<Subscription<W>> {
        let closed = self.closed.lock();
        let list = self.list.load_full();
        if *closed || list.len() >= self.most {
            return None;
        }
        let (sender, receiver) = channel(W::DEPTH);
        let watch = Arc::new(watch);
        let mut longer = Vec::clone(&list);
        longer.push(WatchChannel { watch: watch.clone(), sender });
        self.replace(longer);
        Some(Subscription { watch, receiver, subscriptions: self.clone() })
    }

    /// Ends every watch. Its reader gets the items already taken, and then the end.
    pub fn close(&self) {
        let mut closed = self.closed.lock();
        *closed = true;
        self.replace(Vec::new());
    }

    fn replace(&self, list: Vec<WatchChannel<W>>) {
        self.open.store(list.len(), Ordering::Relaxed);
        self.list.store(Arc::new(list));
    }
}

/// The reader's end of a watch. Dropping it closes the watch.
pub struct Subscription<W: Watch> {
    watch: Arc<W>,
    receiver: Receiver<W::Item>,
    subscriptions: Arc<Subscriptions<W>>,
}

impl<W: Watch> Subscription<W> {
    /// Returns the watch.
    pub fn watch(&self) -> &Arc<W> {
        &self.watch
    }

    /// Returns the next item; none when all wanted items have arrived or the router ends.
    pub async fn next(&mut self) -> Option<W::Item> {
        if self.watch.is_done() {
            self.receiver.close();
        }
        self.receiver.recv().await
    }

    /// Returns the next item if there is one.
    pub fn try_next(&mut self) -> Option<W::Item> {
        self.receiver.try_recv().ok()
    }
}

impl<W: Watch> Drop for Subscription<W> {
    fn drop(&mut self) {
        // The lock serializes changes, so that a watch opened at the same time is not lost.
        let _changing = self.subscriptions.closed.lock();
        let list = self.subscriptions.list.load_full();
        let others = list.iter().filter(|armed| !Arc::ptr_eq(&armed.watch, &self.watch));
        self.subscriptions.replace(others.cloned().collect());
    }
}
