//! What a link tells of itself to whoever asks, and what it keeps to tell: how it was at each of the latest looks.

use super::books::{Place, SAMPLES, Tally};
use super::{Emulated, Lines, Link};
use packet::latency::Spread;
use packet::{DropReason, LinkCounters};
use schemes::{Scheme, Size};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos, PortId, QueueId};

/// Queues that are told of one by one: those with the most bytes.
const LONGEST: usize = 8;

/// A link as it was at one look, and since the look before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When.
    pub time: Instant,
    /// Packets that waited then.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
    /// The most packets that waited since the look before, as they came.
    pub most: u32,
    /// Packets sent since then.
    pub sent: u64,
    /// How long those had waited, on average.
    pub mean: Nanos,
    /// The longest that one of them had.
    pub longest: Nanos,
}

/// The latest looks.
#[derive(Debug)]
pub(super) struct Samples {
    kept: VecDeque<Sample>,
    /// Packets sent, and how long they had waited together, at the last of them.
    before: (u64, u64),
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { kept: VecDeque::with_capacity(SAMPLES), before: (0, 0) }
    }
}

/// Some of the queues of a link, and what became of their packets. What came is what was sent, was dropped and waits.
#[derive(Clone, Debug)]
pub struct GroupReport {
    /// What is in them, as their scheme calls it: see [`schemes::Group`].
    pub name: String,
    /// The first of them, and how many they are.
    pub queues: (QueueId, u32),
    /// How long packets waited that were sent, from when their functions were done.
    pub sojourn: Spread,
    /// Packets dropped, by reason.
    pub drops: Vec<(DropReason, u64)>,
    /// Packets marked.
    pub marked: u64,
    /// Packets that joined a queue in which another flow waited, though each queue is for one flow.
    pub collided: u64,
    /// Packets that wait.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
    /// What the scheme remembers of the longest of these queues, by the names of its literature.
    pub state: Vec<(&'static str, f64)>,
}

/// A queue with many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLength {
    /// Which of its link.
    pub queue: QueueId,
    /// Packets that wait in it.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
}

/// What a scheme remembered at each of the latest looks, the last one last. There are as many as since the scheme is there.
#[derive(Clone, Debug)]
pub struct StateSeries {
    /// The group whose queue it is about.
    pub group: String,
    /// The name of the value.
    pub name: &'static str,
    /// The values; none is NaN unless the scheme did not tell it.
    pub values: Vec<f64>,
}

/// A link, as it tells of itself.
// Large: a field for each value of the report.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// The port behind it.
    pub port: PortId,
    /// Whether what it sends goes out by another worker's queue of the port.
    pub relayed: bool,
    /// What it has counted.
    pub counters: LinkCounters,
    /// How many schemes, or sets of parameters, it has had.
    pub version: u32,
    /// What its scheme said as it panicked: drop tail is in its place.
    pub put_aside: Option<String>,
    /// Packets that wait.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
    /// The queues of its scheme, in groups; while packets drain from another scheme, those of that one first.
    pub groups: Vec<GroupReport>,
    /// How long packets waited that were sent since the link was made, also those that passed the scheme by.
    pub sojourn: Spread,
    /// Packets dropped since then, by reason.
    pub drops: Vec<(DropReason, u64)>,
    /// The longest queues, the longest first.
    pub longest: Vec<QueueLength>,
    /// The latest looks, the last one last.
    pub samples: Vec<Sample>,
    /// What the scheme remembered at the last of them.
    pub states: Vec<StateSeries>,
    /// What the task before it has used: to ask the scheme, and to transmit.
    pub used: Nanos,
    /// Packets it moved.
    pub moved: u64,
    /// How well the link was emulated that the port pretends to have; none where it has its own.
    pub emulated: Option<Emulated>,
}

impl Link {
    /// Looks at the link, and keeps what it sees. Nothing is allocated.
    pub fn sample(&mut self, time: Instant) {
        let Size { packets, bytes } = self.backlog();
        let (sent, waited) = (self.lines.counters.sent, self.waited());
        let before = std::mem::replace(&mut self.samples.before, (sent, waited));
        // Packets that were refused late are not counted as sent any more.
        let sent = sent.saturating_sub(before.0);
        let mean = Nanos::new(waited.wrapping_sub(before.1).checked_div(sent).unwrap_or(0));
        let longest = std::mem::take(self.lines.books.longest());
        let most = std::mem::replace(&mut self.lines.most, packets);
        if self.samples.kept.len() == SAMPLES {
            self.samples.kept.pop_front();
        }
        self.samples.kept.push_back(Sample { time, packets, bytes, most, sent, mean, longest });
        self.insist(|scheme, Lines { queues, books, .. }| {
            books.note(scheme, time, |queue| queues.size(queue.index()));
        });
    }

    /// How long all packets waited together that were sent, in nanoseconds.
    fn waited(&self) -> u64 {
        let newer = self.incoming.as_ref().map_or(0, |newer| newer.books.waited());
        self.others.sojourn.sum().wrapping_add(self.lines.books.waited()).wrapping_add(newer)
    }

    /// What it tells of itself at `now`; what its task has used is the worker's to say. Allocates.
    pub fn told(&mut self, now: Instant) -> LinkReport {
        let backlog = self.backlog();
        let mut groups = self.groups(now);
        if self.incoming.is_some() {
            groups.iter_mut().for_each(|group| group.name += " (draining)");
            groups.extend(self.aside(|link| link.groups(now)));
        }
        let (mut sojourn, mut drops) = (self.others.sojourn.told(), self.others.drops());
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
            counters: self.lines.counters,
            version: self.version,
            put_aside: self.put_aside.clone(),
            packets: backlog.packets,
            bytes: backlog.bytes,
            groups,
            sojourn,
            drops,
            longest: self.longest(),
            samples: self.samples.kept.iter().copied().collect(),
            states: self.lines.books.states().map(state).collect(),
            used: Nanos::ZERO,
            moved: 0,
            emulated: self.emulated(),
        }
    }

    /// The queues that have something, as far as they are told of one by one.
    fn longest(&self) -> Vec<QueueLength> {
        let lengths = (0..self.lines.queues.len()).map(|queue| {
            let Size { packets, bytes } = self.lines.queues.size(queue);
            QueueLength { queue: QueueId(queue as u32), packets, bytes }
        });
        let mut longest: Vec<QueueLength> = lengths.filter(|queue| queue.packets > 0).collect();
        longest.sort_by_key(|queue| std::cmp::Reverse(queue.bytes));
        longest.truncate(LONGEST);
        longest
    }

    fn groups(&mut self, now: Instant) -> Vec<GroupReport> {
        self.insist(|scheme, lines| {
            lines.books.groups().map(|(place, tally)| lines.group(scheme, place, tally, now)).collect()
        })
    }
}

impl Lines {
    fn group(&self, scheme: &dyn Scheme<Lines>, place: &Place, tally: &Tally, now: Instant) -> GroupReport {
        let (mut packets, mut bytes, mut longest) = (0, Bytes::ZERO, (QueueId(place.first), Size::default()));
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
            sojourn: tally.sojourn.told(),
            drops: tally.drops(),
            marked: tally.marked(),
            collided: tally.collided(),
            packets,
            bytes,
            state,
        }
    }
}
