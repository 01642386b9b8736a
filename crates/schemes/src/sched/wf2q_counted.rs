//! The comparisons of WF2Q+ with two binary heaps, as a baseline for orders whose cost does not grow.

use super::virtual_time::Virtual;
use super::wf2q::{Bin, WaitingBins, Wf2qOrder};
use crate::model::Model;
use crate::sched::BinScheme;
use crate::{Record, Scheme};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

static COMPARISONS: AtomicU64 = AtomicU64::new(0);

/// A key that counts how often it is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counted(Virtual, usize);

impl Ord for Counted {
    fn cmp(&self, other: &Counted) -> Ordering {
        COMPARISONS.fetch_add(1, Relaxed);
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Counted) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
struct CountedHeaps {
    eligible: BinaryHeap<Reverse<Counted>>,
    ahead: BinaryHeap<Reverse<Counted>>,
    waits: Vec<bool>,
}

impl WaitingBins for CountedHeaps {
    fn new(bins: usize) -> CountedHeaps {
        CountedHeaps { eligible: BinaryHeap::new(), ahead: BinaryHeap::new(), waits: alloc::vec![false; bins] }
    }

    fn contains(&self, _: &[Bin], bin: usize) -> bool {
        self.waits[bin]
    }

    fn insert(&mut self, bins: &mut [Bin], bin: usize, now: Virtual) {
        let Bin { start, finish, .. } = bins[bin];
        self.waits[bin] = true;
        if start <= now {
            self.eligible.push(Reverse(Counted(finish, bin)));
        } else {
            self.ahead.push(Reverse(Counted(start, bin)));
        }
    }

    fn remove(&mut self, _: &mut [Bin], bin: usize) {
        self.waits[bin] = false;
        // Only the bin that was picked is removed while packets wait: it is the first.
        if self.eligible.peek().is_some_and(|Reverse(first)| first.1 == bin) {
            self.eligible.pop();
        }
    }

    fn pick(&mut self, bins: &[Bin], mut now: Virtual) -> Option<(usize, Virtual)> {
        while let Some(Reverse(Counted(start, bin))) = self.ahead.peek().copied() {
            if start > now {
                if !self.eligible.is_empty() {
                    break;
                }
                now = start;
            }
            self.ahead.pop();
            self.eligible.push(Reverse(Counted(bins[bin].finish, bin)));
        }
        self.eligible.peek().map(|Reverse(first)| (first.1, now))
    }

    fn clear(&mut self, _: &mut [Bin]) {
        self.eligible.clear();
        self.ahead.clear();
        self.waits.fill(false);
    }
}

/// The mean comparisons of a packet, of so many flows that always have packets.
pub(crate) fn comparisons_per_packet(flows: usize) -> f64 {
    let order = Wf2qOrder::<CountedHeaps>::new(flows);
    let mut scheme = BinScheme::unmanaged(order, flows, u32::MAX, false);
    let mut model = Model::with_queues(flows);
    let packet = |number: usize| {
        let flow_hash = (((number % flows) as u64) << 32).div_ceil(flows as u64) as u32;
        Record { length: 64 + (number as u32).wrapping_mul(0x9e37_79b9) % 1400, flow_hash, ..Record::default() }
    };
    model.arrive_all(&mut scheme, (0..2 * flows).map(packet));
    COMPARISONS.store(0, Relaxed);
    let packets = 10 * flows;
    for _ in 0..packets {
        model.ready(&mut scheme, 1);
        let Some(fate) = model.fates.last() else { panic!("a packet leaves") };
        // The next packet of the same flow.
        let flow = fate.number() % flows;
        model.arrive_all(&mut scheme as &mut dyn Scheme<Model>, core::iter::once(packet(flow)));
    }
    COMPARISONS.load(Relaxed) as f64 / packets as f64
}
