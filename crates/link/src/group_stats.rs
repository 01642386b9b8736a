//! The statistics of a link. Each group of its scheme's queues has a histogram of sojourn times, drop counts by reason, and a count of marked packets
//! (spec N-36). Ten times a second the queue length and the scheme's state are sampled as well.
//!
//! All memory is allocated when a scheme is built. There is one histogram for each of at most [`GROUPS`] groups, not one for each of thousands of
//! queues. A packet is counted once, when it leaves the queue. Arrivals are computed from departures, drops and the queue length.

use super::{Link, LinkWires};
use packet::DropReason;
use packet::latency::Histogram;
use schemes::{Group, Scheme, Size};
use std::collections::VecDeque;
use units::{Instant, Nanos, QueueId};

/// The most groups of a link. The last group counts all further queues.
pub const GROUPS: usize = 64;
/// Samples in the history of a link: ten a second, for half a minute.
pub const SAMPLES: usize = 300;
/// Values of a scheme's state in each sample.
const COLUMNS: usize = 16;

/// Counts of the packets that left a link, by packet fate.
#[derive(Debug)]
pub struct FateCounts {
    /// The sojourn times of the packets sent, from the end of their functions.
    pub sojourn: Histogram,
    /// Packets dropped, by the index of their reason.
    drops: [u64; DropReason::COUNT],
    marked: u64,
    collided: u64,
}

impl Default for FateCounts {
    fn default() -> Self {
        FateCounts { sojourn: Histogram::default(), drops: [0; DropReason::COUNT], marked: 0, collided: 0 }
    }
}

impl FateCounts {
    #[cold]
    pub fn record_drop(&mut self, reason: DropReason, packets: u64) {
        self.drops[reason as usize] += packets;
    }

    /// Adds the counts of `other`, and resets those.
    fn merge(&mut self, other: &mut FateCounts) {
        self.sojourn.absorb(&mut other.sojourn);
        let drops = std::mem::replace(&mut other.drops, [0; DropReason::COUNT]);
        self.drops.iter_mut().zip(drops).for_each(|(own, other)| *own += other);
        self.marked += std::mem::take(&mut other.marked);
        self.collided += std::mem::take(&mut other.collided);
    }

    /// Packets dropped, by reason. Reasons without drops are omitted.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        DropReason::ALL.iter().copied().zip(self.drops).filter(|(_, packets)| *packets > 0).collect()
    }

    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Packets that joined a queue for one flow in which another flow waited.
    pub fn collided(&self) -> u64 {
        self.collided
    }
}

/// A group, and the range of its queues.
#[derive(Clone, Debug)]
pub struct GroupRange {
    pub name: String,
    pub first: u32,
    pub queues: u32,
    /// True if each of its queues is for one flow.
    flows: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct GroupStats {
    groups: Vec<GroupRange>,
    /// The group of each queue; empty if there is only one group.
    group_of: Box<[u8]>,
    counts: Box<[FateCounts]>,
    /// The longest sojourn time since the last sample.
    longest: Nanos,
    /// The sampled values of the scheme's state: their group and name.
    columns: Vec<(u8, &'static str)>,
    /// Values of all columns, sample by sample.
    states: VecDeque<f64>,
}

impl GroupStats {
    /// Statistics for the queues of a scheme.
    pub fn of(scheme: &dyn Scheme<LinkWires>) -> GroupStats {
        let mut places: Vec<GroupRange> = Vec::new();
        let mut first = 0u32;
        for Group { name, queues, flows } in scheme.groups() {
            let full = places.len() == GROUPS;
            match places.last_mut() {
                // The last group counts all further queues, which bounds the memory.
                Some(last) if full => {
                    last.queues = last.queues.saturating_add(queues);
                    last.name = "others".to_owned();
                    last.flows |= flows;
                }
                _ => places.push(GroupRange { name, first, queues, flows }),
            }
            first = first.saturating_add(queues);
        }
        let group_of = match places.len() {
            0 | 1 => Box::default(),
            _ => {
                // There are at most `GROUPS` = 64 groups, so a byte holds each number.
                let each =
                    places.iter().zip(0u8..).flat_map(|(place, g)| std::iter::repeat_n(g, place.queues as usize));
                each.collect()
            }
        };
        // A scheme without groups is counted as one group: `group` returns 0 for all its queues.
        let tallies = (0..places.len().max(1)).map(|_| FateCounts::default()).collect();
        let mut columns: Vec<(u8, &'static str)> = Vec::new();
        // Sample only groups of one queue: in larger groups the longest queue is a different one each time.
        for (place, group) in places.iter().zip(0u8..).filter(|(place, _)| place.queues == 1) {
            // A scheme reports the same names at all times, so an empty queue yields them all.
            scheme.state(QueueId(place.first), Instant::START, Size::default(), &mut |name, _| {
                if columns.len() < COLUMNS && !columns.contains(&(group, name)) {
                    columns.push((group, name));
                }
            });
        }
        let states = VecDeque::with_capacity(columns.len() * SAMPLES);
        GroupStats { groups: places, group_of, counts: tallies, longest: Nanos::ZERO, columns, states }
    }

    /// The group of a queue.
    #[inline(always)]
    pub fn group(&self, queue: usize) -> u8 {
        self.group_of.get(queue).map_or(0, |group| *group)
    }

    #[inline(always)]
    fn group_counts(&mut self, group: u8) -> &mut FateCounts {
        let last = self.counts.len() - 1;
        &mut self.counts[usize::from(group).min(last)]
    }

    /// Counts `packets` that leave `queue` to be sent, each with this sojourn time.
    #[inline(always)]
    pub fn record_departure(&mut self, queue: usize, waited: Nanos, packets: u64) {
        self.record_group_departure(self.group(queue), waited, packets);
    }

    /// Like [`GroupStats::record_departure`], for any queue of a group.
    #[inline(always)]
    pub fn record_group_departure(&mut self, group: u8, waited: Nanos, packets: u64) {
        self.longest = self.longest.max(waited);
        self.group_counts(group).sojourn.record(waited, packets);
    }

    /// Counts a dropped packet of `queue`, or one that was about to join it.
    #[cold]
    pub fn record_drop(&mut self, queue: usize, reason: DropReason) {
        self.group_counts(self.group(queue)).record_drop(reason, 1);
    }

    /// Counts a marked packet of `queue`, or one that is about to join it.
    #[cold]
    pub fn record_mark(&mut self, queue: usize) {
        self.group_counts(self.group(queue)).marked += 1;
    }

    /// True if any queue is for one flow.
    pub fn has_flow_queues(&self) -> bool {
        self.groups.iter().any(|place| place.flows)
    }

    /// Counts a packet that joins `queue` while another flow waits in it.
    #[cold]
    pub fn record_collision(&mut self, queue: usize) {
        let group = self.group(queue);
        if self.groups.get(usize::from(group)).is_some_and(|place| place.flows) {
            self.group_counts(group).collided += 1;
        }
    }

    /// The longest sojourn time since this was last reset.
    pub fn longest(&mut self) -> &mut Nanos {
        &mut self.longest
    }

    /// The sum of all sojourn times, in nanoseconds.
    pub fn total_sojourn(&self) -> u64 {
        self.counts.iter().fold(0, |sum, tally| sum.wrapping_add(tally.sojourn.sum()))
    }

    /// Adds all counts to `tally`, resets them, and clears the samples.
    pub fn drain_into(&mut self, tally: &mut FateCounts) {
        self.counts.iter_mut().for_each(|own| tally.merge(own));
        // The samples are values of this scheme: no other scheme continues them.
        self.states.clear();
        self.longest = Nanos::ZERO;
    }

    /// The groups with their counts.
    pub fn groups(&self) -> impl Iterator<Item = (&GroupRange, &FateCounts)> {
        self.groups.iter().zip(&self.counts)
    }

    /// Samples the scheme's state. `size` gives the length of a queue.
    pub fn sample_states(&mut self, scheme: &dyn Scheme<LinkWires>, now: Instant, size: impl Fn(QueueId) -> Size) {
        let GroupStats { groups: places, columns, states, .. } = self;
        if states.len() == columns.len() * SAMPLES {
            // Drop the oldest sample: there is memory for `SAMPLES` of them.
            states.drain(..columns.len());
        }
        let row = states.len();
        // A value that the scheme does not report remains NaN.
        states.extend(std::iter::repeat_n(f64::NAN, columns.len()));
        let mut before = None;
        for &(group, _) in columns.iter() {
            // The columns of a group are adjacent: one call reports them all.
            if before.replace(group) == Some(group) {
                continue;
            }
            let queue = QueueId(places[usize::from(group)].first);
            scheme.state(queue, now, size(queue), &mut |name, value| {
                if let Some(at) = columns.iter().position(|column| *column == (group, name)) {
                    states[row + at] = value;
                }
            });
        }
    }

    /// The sampled state of the scheme: the group, the name of the value and the values, the latest last.
    pub fn states(&self) -> impl Iterator<Item = (&str, &'static str, Vec<f64>)> {
        let each = self.columns.iter().enumerate();
        each.map(|(at, &(group, name))| {
            let values = self.states.iter().skip(at).step_by(self.columns.len()).copied();
            (&*self.groups[usize::from(group)].name, name, values.collect())
        })
    }
}

impl Link {
    /// Finds the queues that packets were meant for which the scheme did not enqueue, and counts the drops there.
    #[cold]
    pub(super) fn attribute_drops(&mut self) {
        // By index, because the call below borrows the whole link.
        for index in 0..self.wires.dropped.len() {
            let (packet, reason) = &self.wires.dropped[index];
            if *reason != DropReason::SchemeArrival {
                continue;
            }
            // The link kept no record of the packet, so it reads the packet again.
            let record = self.wires.arrival(packet);
            match self.call_with_fallback(|scheme, _| scheme.queue_of(&record)) {
                Some(queue) => self.wires.stats.record_drop(queue.index(), DropReason::SchemeArrival),
                None => self.other_packets.record_drop(DropReason::SchemeArrival, 1),
            }
        }
    }
}
