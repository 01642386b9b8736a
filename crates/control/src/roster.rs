//! Who watches packets at the moment: a bounded list that workers read without a lock, each entry with a bounded channel
//! to its reader. A worker waits for nobody: what a channel has no room for is the reader's loss, and counted.

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Something that is watched for: it knows when its reader has had all that was wanted.
pub trait Watch {
    /// What its reader gets.
    type Item: Send;
    /// Items that wait for the reader at most.
    const DEPTH: usize;
    /// Whether nothing more will come.
    fn is_done(&self) -> bool;
}

/// A watch and the way to its reader, which ends when this does.
pub struct Armed<W: Watch> {
    pub watch: Arc<W>,
    pub sender: Sender<W::Item>,
}

impl<W: Watch> Clone for Armed<W> {
    fn clone(&self) -> Self {
        Armed { watch: self.watch.clone(), sender: self.sender.clone() }
    }
}

/// The watches of one kind that are open.
pub struct Roster<W: Watch> {
    open: AtomicUsize,
    most: usize,
    list: ArcSwap<Vec<Armed<W>>>,
    // Held while the list is changed. Nobody reads under it; true when no more are opened.
    closed: Mutex<bool>,
}

impl<W: Watch> Roster<W> {
    /// Nobody watches; at most `most` will at once.
    pub fn new(most: usize) -> Roster<W> {
        Roster { open: AtomicUsize::new(0), most, list: ArcSwap::default(), closed: Mutex::new(false) }
    }

    /// Whether anybody watches: one load, as workers ask once a step.
    pub fn is_watched(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Those that are open, and the ways to their readers.
    pub fn armed(&self) -> arc_swap::Guard<Arc<Vec<Armed<W>>>> {
        self.list.load()
    }

    /// Those that are open.
    pub fn list(&self) -> Vec<Arc<W>> {
        self.list.load().iter().map(|armed| armed.watch.clone()).collect()
    }

    /// Opens a watch; nothing where there are as many as there can be, or the router is ending.
    pub fn open(self: &Arc<Self>, watch: W) -> Option<Subscription<W>> {
        let closed = self.closed.lock();
        let list = self.list.load_full();
        if *closed || list.len() >= self.most {
            return None;
        }
        let (sender, receiver) = channel(W::DEPTH);
        let watch = Arc::new(watch);
        let mut longer = Vec::clone(&list);
        longer.push(Armed { watch: watch.clone(), sender });
        self.replace(longer);
        Some(Subscription { watch, receiver, roster: self.clone() })
    }

    /// Ends every watch: their readers get what was taken, and then the end.
    pub fn close(&self) {
        let mut closed = self.closed.lock();
        *closed = true;
        self.replace(Vec::new());
    }

    fn replace(&self, list: Vec<Armed<W>>) {
        self.open.store(list.len(), Ordering::Relaxed);
        self.list.store(Arc::new(list));
    }
}

/// The reader's end of a watch, which ends when this is dropped.
pub struct Subscription<W: Watch> {
    watch: Arc<W>,
    receiver: Receiver<W::Item>,
    roster: Arc<Roster<W>>,
}

impl<W: Watch> Subscription<W> {
    /// What is watched for.
    pub fn watch(&self) -> &Arc<W> {
        &self.watch
    }

    /// The next item; nothing when all that was wanted has come or the router ends.
    pub async fn next(&mut self) -> Option<W::Item> {
        if self.watch.is_done() {
            self.receiver.close();
        }
        self.receiver.recv().await
    }

    /// The next item, if it is there.
    pub fn try_next(&mut self) -> Option<W::Item> {
        self.receiver.try_recv().ok()
    }
}

impl<W: Watch> Drop for Subscription<W> {
    fn drop(&mut self) {
        let _changing = self.roster.closed.lock();
        let list = self.roster.list.load_full();
        let others = list.iter().filter(|armed| !Arc::ptr_eq(&armed.watch, &self.watch));
        self.roster.replace(others.cloned().collect());
    }
}
