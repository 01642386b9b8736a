//! The report of a link and its samples.

use super::group_stats::{FateCounts, GroupRange, SAMPLES};
use super::{EmulationStats, Link, LinkWires};
use packet::latency::HistogramSnapshot;
use packet::{DropReason, LinkCounters};
use schemes::{Scheme, Size};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos, PortId, QueueId};

/// The number of longest queues that are reported individually.
const LONGEST: usize = 8;

/// A sample of a link, with the changes since the previous one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSample {
    /// The time of the sample.
    pub time: Instant,
    /// The queue length in packets.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
    /// The greatest queue length since the previous sample, measured at arrivals.
    pub most: u32,
    /// Packets sent since then.
    pub sent: u64,
    /// Their mean sojourn time.
    pub mean: Nanos,
    /// Their longest sojourn time.
    pub longest: Nanos,
}

/// The latest samples.
#[derive(Debug)]
pub(super) struct Samples {
    samples: VecDeque<LinkSample>,
    /// Packets sent, and the sum of their sojourn times, at the last sample.
    before: (u64, u64),
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { samples: VecDeque::with_capacity(SAMPLES), before: (0, 0) }
    }
}

/// Queues of one group and the fates of their packets. Arrivals are the sum of packets sent, dropped and waiting.
#[derive(Clone, Debug)]
pub struct GroupReport {
    /// The name of the group, given by the scheme: see [`schemes::Group`].
    pub name: String,
    /// The first queue and the number of queues.
    pub queues: (QueueId, u32),
    /// The sojourn times of packets sent, from the end of their functions.
    pub sojourn: HistogramSnapshot,
    /// Packets dropped, by reason.
    pub drops: Vec<(DropReason, u64)>,
    /// Packets marked.
    pub marked: u64,
    /// Packets that joined a queue for one flow in which another flow waited.
    pub collided: u64,
    /// Packets that wait.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
    /// The state of the scheme for the longest of these queues, with the names of its literature.
    pub state: Vec<(&'static str, f64)>,
}

/// A queue with many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLength {
    /// Its id within the link.
    pub queue: QueueId,
    /// Packets that wait in it.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
}

/// The state of a scheme at each of the latest samples, the latest last. The series begins when the scheme was installed.
#[derive(Clone, Debug)]
pub struct StateSeries {
    /// The group of the queue.
    pub group: String,
    /// The name of the value.
    pub name: &'static str,
    /// The values. NaN only if the scheme did not report the value.
    pub values: Vec<f64>,
}

/// The report of a link.
// Large: a field for each value of the report.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// The port behind it.
    pub port: PortId,
    /// True if its packets leave by the queue of another worker at the port.
    pub relayed: bool,
    /// The counters.
    pub counters: LinkCounters,
    /// The number of schemes, or sets of parameters, so far.
    pub version: u32,
    /// The message of a scheme that panicked and was replaced by drop tail.
    pub panic_message: Option<String>,
    /// Packets that wait.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
    /// The queues of its scheme in groups. During a drain the groups of the old scheme come first.
    pub groups: Vec<GroupReport>,
    /// The sojourn times of packets sent since the link was created, including those that bypassed the scheme.
    pub sojourn: HistogramSnapshot,
    /// Packets dropped since then, by reason.
    pub drops: Vec<(DropReason, u64)>,
    /// The longest queues, the longest first.
    pub longest: Vec<QueueLength>,
    /// The latest samples, the latest last.
    pub samples: Vec<LinkSample>,
    /// The state of the scheme at those samples.
    pub states: Vec<StateSeries>,
    /// The processor time of the output task, for the scheme and for transmission.
    pub used: Nanos,
    /// Packets it moved.
    pub moved: u64,
    /// The accuracy of the emulated link; none if the port uses its own link.
    pub emulated: Option<EmulationStats>,
}

impl Link {
    /// Takes a sample. Allocates nothing.
    pub fn sample(&mut self, time: Instant) {
        let Size { packets, bytes } = self.backlog();
        let (sent, waited) = (self.wires.counters.sent, self.total_sojourn());
        let before = std::mem::replace(&mut self.samples.before, (sent, waited));
        // Packets that were refused late are no longer counted as sent.
        let sent = sent.saturating_sub(before.0);
        // The sums wrap at 2^64 ns. Their difference is right as long as one interval adds less than that.
        let mean = Nanos::new(waited.wrapping_sub(before.1).checked_div(sent).unwrap_or(0));
        let longest = std::mem::take(self.wires.stats.longest());
        // The queue begins the next interval with its present length.
        let most = std::mem::replace(&mut self.wires.peak_packets, packets);
        // The oldest sample leaves first, so the deque stays within its initial capacity.
        if self.samples.samples.len() == SAMPLES {
            self.samples.samples.pop_front();
        }
        self.samples.samples.push_back(LinkSample { time, packets, bytes, most, sent, mean, longest });
        self.call_with_fallback(|scheme, LinkWires { queues, stats: books, .. }| {
            books.sample_states(scheme, time, |queue| queues.size(queue.index()));
        });
    }

    /// The sum of the sojourn times of all packets sent, in nanoseconds.
    fn total_sojourn(&self) -> u64 {
        let newer = self.incoming.as_ref().map_or(0, |newer| newer.stats.total_sojourn());
        self.other_packets.sojourn.sum().wrapping_add(self.wires.stats.total_sojourn()).wrapping_add(newer)
    }

    /// The report of the link at `now`. The worker fills in the time of the output task. Allocates.
    pub fn report(&mut self, now: Instant) -> LinkReport {
        let backlog = self.backlog();
        let mut groups = self.groups(now);
        if self.incoming.is_some() {
            // During a drain both schemes are reported, the old one first.
            groups.iter_mut().for_each(|group| group.name += " (draining)");
            groups.extend(self.with_incoming(|link| link.groups(now)));
        }
        let (mut sojourn, mut drops) = (self.other_packets.sojourn.snapshot(), self.other_packets.drops());
        for group in &groups {
            sojourn.add(&group.sojourn);
            for &(reason, packets) in &group.drops {
                match drops.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, count)) => *count += packets,
                    None => drops.push((reason, packets)),
                }
            }
        }
        drops.sort_unstable();
        let state = |(group, name, values): (&str, &'static str, Vec<f64>)| StateSeries {
            group: group.to_owned(),
            name,
            values,
        };
        LinkReport {
            port: self.id,
            relayed: self.relayed,
            counters: self.wires.counters,
            version: self.version,
            panic_message: self.panic_message.clone(),
            packets: backlog.packets,
            bytes: backlog.bytes,
            groups,
            sojourn,
            drops,
            longest: self.longest(),
            samples: self.samples.samples.iter().copied().collect(),
            states: self.wires.stats.states().map(state).collect(),
            used: Nanos::ZERO,
            moved: 0,
            emulated: self.emulated(),
        }
    }

    /// The longest queues that are not empty.
    fn longest(&self) -> Vec<QueueLength> {
        let lengths = (0..self.wires.queues.len()).map(|queue| {
            let Size { packets, bytes } = self.wires.queues.size(queue);
            QueueLength { queue: QueueId(queue as u32), packets, bytes }
        });
        let mut longest: Vec<QueueLength> = lengths.filter(|queue| queue.packets > 0).collect();
        longest.sort_by_key(|queue| std::cmp::Reverse(queue.bytes));
        longest.truncate(LONGEST);
        longest
    }

    fn groups(&mut self, now: Instant) -> Vec<GroupReport> {
        self.call_with_fallback(|scheme, lines| {
            lines.stats.groups().map(|(place, tally)| lines.group(scheme, place, tally, now)).collect()
        })
    }
}

impl LinkWires {
    fn group(
        &self,
        scheme: &dyn Scheme<LinkWires>,
        place: &GroupRange,
        tally: &FateCounts,
        now: Instant,
    ) -> GroupReport {
        let (mut packets, mut bytes, mut longest) = (0, Bytes::ZERO, (QueueId(place.first), Size::default()));
        // `GroupStats::of` saturates both numbers.
        for queue in (place.first..place.first.saturating_add(place.queues)).map(QueueId) {
            let size = self.queues.size(queue.index());
            packets += size.packets;
            bytes += size.bytes;
            if size.bytes > longest.1.bytes {
                longest = (queue, size);
            }
        }
        let mut state = Vec::new();
        scheme.state(longest.0, now, longest.1, &mut |name, value| state.push((name, value)));
        GroupReport {
            name: place.name.clone(),
            queues: (QueueId(place.first), place.queues),
            sojourn: tally.sojourn.snapshot(),
            drops: tally.drops(),
            marked: tally.marked(),
            collided: tally.collided(),
            packets,
            bytes,
            state,
        }
    }
}
