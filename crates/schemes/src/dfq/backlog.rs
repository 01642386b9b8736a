//! The backlog of quanta that arrived in batches, threaded in place (Pradhan and Chiueh, "consume-and-thread").
//!
//! A batch arrives with one transfer: a list of quanta in ascending order of their flows. Two kinds of links join the quanta without copying any:
//!
//! - *vertical* links join the first quanta of all flows that have some, in ascending order of flows;
//! - *horizontal* links join the quanta of a flow, the oldest first.
//!
//! A cycle sends some of the first quanta. The others stay, and the next batch is threaded into them in one scan. A quantum of a flow that has older ones
//! hangs behind those. A quantum of another flow is linked between its neighbours.

use super::runs::{RunBitmap, RunBitmapError};
use alloc::vec::Vec;

/// A part of a flow's bytes that one cycle sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantum {
    /// The flow.
    pub flow: u32,
    /// Its bytes.
    pub bytes: u32,
    /// The place of its bytes in the memory of the batches. The backlog only passes it on.
    pub place: u32,
}

/// No quantum.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    quantum: Quantum,
    /// Of a first quantum: that of the next flow.
    down: u32,
    /// The next quantum of the same flow.
    right: u32,
    /// Of a first quantum: the last one of its flow.
    last: u32,
}

/// Transfers from the interface that receives batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfers {
    /// One for each batch.
    pub batches: u64,
    /// One for each quantum: the transfers of a queue for each flow.
    pub quanta: u64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct ThreadedBacklog {
    entries: Vec<Entry>,
    unused: Vec<u32>,
    /// The first quantum of the first flow.
    first: u32,
    /// The quanta of each flow in runs.
    summary: RunBitmap,
    flows: u32,
    /// The flows of the present batch or cycle.
    change: RunBitmap,
    transfers: Transfers,
    visits: u64,
}

impl ThreadedBacklog {
    /// An empty backlog of a link with so many flows.
    pub fn new(flows: u32) -> ThreadedBacklog {
        ThreadedBacklog {
            entries: Vec::new(),
            unused: Vec::new(),
            first: NONE,
            summary: RunBitmap::empty(flows),
            flows,
            change: RunBitmap::empty(flows),
            transfers: Transfers::default(),
            visits: 0,
        }
    }

    /// The number of quanta of each flow.
    pub fn summary(&self) -> &RunBitmap {
        &self.summary
    }

    /// The transfers so far.
    pub fn transfers(&self) -> Transfers {
        self.transfers
    }

    /// The quanta that batches and cycles have passed so far on their scans.
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// The first quantum of each flow that has some, in ascending order of flows.
    pub fn heads(&self) -> impl Iterator<Item = Quantum> {
        self.chain(self.first, |entry| entry.down)
    }

    /// The quanta of a flow, the oldest first. It walks the flows before it.
    pub fn of_flow(&self, flow: u32) -> impl Iterator<Item = Quantum> {
        let mut at = self.first;
        while self.entries.get(at as usize).is_some_and(|entry| entry.quantum.flow < flow) {
            at = self.entries[at as usize].down;
        }
        let is = self.entries.get(at as usize).is_some_and(|entry| entry.quantum.flow == flow);
        self.chain(if is { at } else { NONE }, |entry| entry.right)
    }

    fn chain(&self, from: u32, next: fn(&Entry) -> u32) -> impl Iterator<Item = Quantum> {
        let entry = move |at: u32| self.entries.get(at as usize);
        core::iter::successors(entry(from), move |before| entry(next(before))).map(|entry| entry.quantum)
    }

    /// The link that leads to a first quantum: that of the one before it, or the beginning.
    #[inline(always)]
    fn link(&mut self, before: u32) -> &mut u32 {
        match self.entries.get_mut(before as usize) {
            Some(before) => &mut before.down,
            None => &mut self.first,
        }
    }

    fn add(&mut self, quantum: Quantum) -> u32 {
        let entry = Entry { quantum, down: NONE, right: NONE, last: NONE };
        match self.unused.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        }
    }

    /// Threads a batch into the backlog: quanta in strictly ascending order of flows. One scan of the flows with quanta and of the batch.
    ///
    /// # Errors
    ///
    /// A flow is beyond the link or out of order: then the batch is refused.
    pub fn thread(&mut self, batch: &[Quantum]) -> Result<(), RunBitmapError> {
        if let Some(pair) = batch.windows(2).find(|pair| pair[0].flow >= pair[1].flow) {
            return Err(RunBitmapError::Order { flow: pair[1].flow });
        }
        if let Some(last) = batch.last().filter(|last| last.flow >= self.flows) {
            return Err(RunBitmapError::Flows { own: self.flows, other: last.flow.saturating_add(1) });
        }
        self.change.set_flows(self.flows, batch.iter().map(|quantum| quantum.flow));
        self.summary.merge(&self.change)?;
        self.transfers.batches += 1;
        self.transfers.quanta += batch.len() as u64;
        let mut before = NONE;
        for quantum in batch {
            // On to the first flow that is not below.
            let mut at = *self.link(before);
            while let Some(entry) = self.entries.get(at as usize).filter(|entry| entry.quantum.flow < quantum.flow) {
                (before, at) = (at, entry.down);
                self.visits += 1;
            }
            let new = self.add(*quantum);
            match self.entries.get(at as usize).map(|entry| (entry.quantum.flow, entry.last)) {
                Some((flow, last)) if flow == quantum.flow => {
                    self.entries[last as usize].right = new;
                    self.entries[at as usize].last = new;
                    before = at;
                }
                _ => {
                    self.entries[new as usize].down = at;
                    self.entries[new as usize].last = new;
                    *self.link(before) = new;
                    before = new;
                }
            }
        }
        self.debug_check();
        Ok(())
    }

    /// Takes the first quantum of each flow for which `sends` is true, in ascending order of flows, and appends them to `sent`. It is one cycle.
    pub fn cycle(&mut self, mut sends: impl FnMut(&Quantum) -> bool, sent: &mut Vec<Quantum>) {
        let from = sent.len();
        let (mut before, mut at) = (NONE, self.first);
        while let Some(&Entry { quantum, down, right, last }) = self.entries.get(at as usize) {
            self.visits += 1;
            if sends(&quantum) {
                sent.push(quantum);
                self.unused.push(at);
                let next = if right == NONE { down } else { right };
                *self.link(before) = next;
                if right != NONE {
                    // The next quantum of the flow is its first one now.
                    (self.entries[right as usize].down, self.entries[right as usize].last) = (down, last);
                    before = right;
                }
            } else {
                before = at;
            }
            at = down;
        }
        self.change.set_flows(self.flows, sent[from..].iter().map(|quantum| quantum.flow));
        let subtracted = self.summary.subtract(&self.change);
        debug_assert_eq!(subtracted, Ok(()), "a cycle sends quanta of the backlog");
        self.debug_check();
    }

    /// The links and the runs agree: horizontal lengths are the counts of the runs, and vertical order ascends.
    fn debug_check(&self) {
        if cfg!(debug_assertions) {
            let heads: Vec<u32> = self.heads().map(|quantum| quantum.flow).collect();
            assert!(heads.windows(2).all(|pair| pair[0] < pair[1]), "flows ascend: {heads:?}");
            // One walk over links and runs: an experiment has thousands of flows.
            let first = core::iter::successors(Some(self.first), |at| Some(self.entries.get(*at as usize)?.down));
            let lengths = first.map(|at| self.chain(at, |entry| entry.right).count() as u32).take(heads.len());
            let counts =
                self.summary.runs().iter().flat_map(|run| core::iter::repeat_n(run.quanta, run.flows as usize));
            let counts = (0..).zip(counts).filter(|(_, quanta)| *quanta > 0);
            assert!(heads.into_iter().zip(lengths).eq(counts), "runs are the lengths");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, VecDeque};
    use proptest::prelude::*;

    fn batch(first_place: u32, flows: &[u32]) -> Vec<Quantum> {
        flows.iter().zip(first_place..).map(|(flow, place)| Quantum { flow: *flow, bytes: 64, place }).collect()
    }

    fn send(backlog: &mut ThreadedBacklog, flows: &[u32]) -> Vec<u32> {
        let mut sent = Vec::new();
        backlog.cycle(|quantum| flows.contains(&quantum.flow), &mut sent);
        sent.into_iter().map(|quantum| quantum.place).collect()
    }

    /// The published example (spec P-45). Places are numbered in order of arrival.
    #[test]
    fn leftovers_thread_into_the_next_batch_as_in_the_published_example() {
        let mut backlog = ThreadedBacklog::new(31);
        backlog.thread(&batch(0, &[1, 10, 20, 30])).expect("flows ascend");
        assert_eq!(send(&mut backlog, &[1, 20]), [0, 2]);
        backlog.thread(&batch(4, &[1, 10, 25])).expect("flows ascend");
        let places = |backlog: &ThreadedBacklog, flow| backlog.of_flow(flow).map(|q| q.place).collect::<Vec<_>>();
        let heads = |backlog: &ThreadedBacklog| backlog.heads().map(|quantum| quantum.flow).collect::<Vec<_>>();
        assert_eq!((heads(&backlog), places(&backlog, 10)), ([1, 10, 25, 30].into(), [1, 5].into()));
        assert_eq!(send(&mut backlog, &[1, 10, 25]), [4, 1, 6]);
        backlog.thread(&batch(7, &[1, 5, 20, 25, 30])).expect("flows ascend");
        assert_eq!(heads(&backlog), [1, 5, 10, 20, 25, 30]);
        assert_eq!((places(&backlog, 30), places(&backlog, 10)), ([3, 11].into(), [5].into()));
        assert_eq!(backlog.transfers(), Transfers { batches: 3, quanta: 12 }, "3 transfers in place of 12");
    }

    #[test]
    fn batch_out_of_order_or_beyond_the_link_is_refused() {
        let mut backlog = ThreadedBacklog::new(8);
        assert!(backlog.thread(&batch(0, &[3, 3])).is_err());
        assert!(backlog.thread(&batch(0, &[3, 8])).is_err());
        assert_eq!((backlog.heads().count(), backlog.transfers()), (0, Transfers::default()));
    }

    proptest! {
        /// The oracle has a queue for each flow.
        #[test]
        fn threaded_backlog_equals_queues_by_flow(
            steps in prop::collection::vec((any::<bool>(), prop::collection::btree_set(0u32..40, 0..30)), 1..60),
        ) {
            let mut backlog = ThreadedBacklog::new(40);
            let mut queues: BTreeMap<u32, VecDeque<Quantum>> = BTreeMap::new();
            let mut place = 0;
            for (arrives, flows) in steps {
                let flows: Vec<u32> = flows.into_iter().collect();
                if arrives {
                    let batch = batch(place, &flows);
                    place += batch.len() as u32;
                    backlog.thread(&batch).unwrap();
                    batch.iter().for_each(|quantum| queues.entry(quantum.flow).or_default().push_back(*quantum));
                } else {
                    let mut sent = Vec::new();
                    backlog.cycle(|quantum| flows.contains(&quantum.flow), &mut sent);
                    let expected: Vec<Quantum> =
                        flows.iter().filter_map(|flow| queues.get_mut(flow)?.pop_front()).collect();
                    prop_assert_eq!(sent, expected);
                    queues.retain(|_, queue| !queue.is_empty());
                }
                let heads: Vec<Quantum> = queues.values().filter_map(|queue| queue.front().copied()).collect();
                prop_assert_eq!(backlog.heads().collect::<Vec<_>>(), heads);
                for (flow, queue) in &queues {
                    prop_assert!(backlog.of_flow(*flow).eq(queue.iter().copied()));
                }
            }
        }
    }
}
