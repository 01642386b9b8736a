//! The books of a link: of each group of its scheme's queues, how long packets waited, why others were dropped, and how many were marked
//! (spec N-36); and, ten times a second, what waited then and what the scheme remembered.
//!
//! All memory is taken when a scheme is built: a histogram for each group, of which there are [`GROUPS`] at most, and never one for
//! each of thousands of queues. A packet is entered once, as its scheme takes it out; what came follows from what left, what was
//! dropped and what waits.

use super::{Lines, Link};
use packet::DropReason;
use packet::latency::Histogram;
use schemes::{Group, Scheme, Size};
use std::collections::VecDeque;
use units::{Instant, Nanos, QueueId};

/// The most groups of a link. The last group counts all further queues.
pub const GROUPS: usize = 64;
/// Samples of the past of a link: ten a second, for half a minute.
pub const SAMPLES: usize = 300;
/// Values of a scheme's state that are kept with each.
const COLUMNS: usize = 16;

/// Counts of packets that left a link, by what happened to them.
#[derive(Debug)]
pub struct Tally {
    /// How long those waited that were sent, from when their functions were done.
    pub sojourn: Histogram,
    /// Packets dropped, by the number of their reason.
    drops: [u64; DropReason::COUNT],
    marked: u64,
    collided: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { sojourn: Histogram::default(), drops: [0; DropReason::COUNT], marked: 0, collided: 0 }
    }
}

impl Tally {
    #[cold]
    pub fn dropped(&mut self, reason: DropReason, packets: u64) {
        self.drops[reason as usize] += packets;
    }

    /// Adds the counts of another tally, and resets that one.
    fn absorb(&mut self, other: &mut Tally) {
        self.sojourn.absorb(&mut other.sojourn);
        let drops = std::mem::replace(&mut other.drops, [0; DropReason::COUNT]);
        self.drops.iter_mut().zip(drops).for_each(|(own, other)| *own += other);
        self.marked += std::mem::take(&mut other.marked);
        self.collided += std::mem::take(&mut other.collided);
    }

    /// Packets dropped, by reason, for the reasons that there were.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        DropReason::ALL.iter().copied().zip(self.drops).filter(|(_, packets)| *packets > 0).collect()
    }

    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Packets that joined a queue in which another flow waited, though the queue is for one flow.
    pub fn collided(&self) -> u64 {
        self.collided
    }
}

/// A group, and where its queues begin.
#[derive(Clone, Debug)]
pub struct Place {
    pub name: String,
    pub first: u32,
    pub queues: u32,
    /// True if each of its queues is for one flow.
    flows: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Books {
    places: Vec<Place>,
    /// The group of each queue; nothing where there is but one.
    group_of: Box<[u8]>,
    tallies: Box<[Tally]>,
    /// The longest time since the last sample.
    longest: Nanos,
    /// What is kept of the scheme's state: of which group, by which name.
    columns: Vec<(u8, &'static str)>,
    /// Values of all columns, sample by sample.
    states: VecDeque<f64>,
}

impl Books {
    /// For the queues of a scheme.
    pub fn of(scheme: &dyn Scheme<Lines>) -> Books {
        let mut places: Vec<Place> = Vec::new();
        let mut first = 0u32;
        for Group { name, queues, flows } in scheme.groups() {
            let full = places.len() == GROUPS;
            match places.last_mut() {
                Some(last) if full => {
                    last.queues = last.queues.saturating_add(queues);
                    last.name = "others".to_owned();
                    last.flows |= flows;
                }
                _ => places.push(Place { name, first, queues, flows }),
            }
            first = first.saturating_add(queues);
        }
        let group_of = match places.len() {
            0 | 1 => Box::default(),
            _ => {
                let each =
                    places.iter().zip(0u8..).flat_map(|(place, g)| std::iter::repeat_n(g, place.queues as usize));
                each.collect()
            }
        };
        let tallies = (0..places.len().max(1)).map(|_| Tally::default()).collect();
        let mut columns: Vec<(u8, &'static str)> = Vec::new();
        // What is known of one queue of many is no series: each time it is another.
        for (place, group) in places.iter().zip(0u8..).filter(|(place, _)| place.queues == 1) {
            scheme.state(QueueId(place.first), Instant::START, Size::default(), &mut |name, _| {
                if columns.len() < COLUMNS && !columns.contains(&(group, name)) {
                    columns.push((group, name));
                }
            });
        }
        let states = VecDeque::with_capacity(columns.len() * SAMPLES);
        Books { places, group_of, tallies, longest: Nanos::ZERO, columns, states }
    }

    /// The group of a queue.
    #[inline(always)]
    pub fn group(&self, queue: usize) -> u8 {
        self.group_of.get(queue).map_or(0, |group| *group)
    }

    #[inline(always)]
    fn tally(&mut self, group: u8) -> &mut Tally {
        let last = self.tallies.len() - 1;
        &mut self.tallies[usize::from(group).min(last)]
    }

    /// Packets leave `queue` to be sent, having waited so long each.
    #[inline(always)]
    pub fn left(&mut self, queue: usize, waited: Nanos, packets: u64) {
        self.left_of(self.group(queue), waited, packets);
    }

    /// The same for some queue of a group.
    #[inline(always)]
    pub fn left_of(&mut self, group: u8, waited: Nanos, packets: u64) {
        self.longest = self.longest.max(waited);
        self.tally(group).sojourn.record(waited, packets);
    }

    /// A packet of `queue`, or on its way to it, was dropped.
    #[cold]
    pub fn dropped(&mut self, queue: usize, reason: DropReason) {
        self.tally(self.group(queue)).dropped(reason, 1);
    }

    /// A packet of `queue`, or on its way to it, was marked.
    #[cold]
    pub fn marked(&mut self, queue: usize) {
        self.tally(self.group(queue)).marked += 1;
    }

    /// True if any queue is for one flow.
    pub fn isolates(&self) -> bool {
        self.places.iter().any(|place| place.flows)
    }

    /// A packet joins `queue`, in which another flow waits.
    #[cold]
    pub fn collided(&mut self, queue: usize) {
        let group = self.group(queue);
        if self.places.get(usize::from(group)).is_some_and(|place| place.flows) {
            self.tally(group).collided += 1;
        }
    }

    /// The longest time since this was last set to nothing.
    pub fn longest(&mut self) -> &mut Nanos {
        &mut self.longest
    }

    /// All times together, in nanoseconds.
    pub fn waited(&self) -> u64 {
        self.tallies.iter().fold(0, |sum, tally| sum.wrapping_add(tally.sojourn.sum()))
    }

    /// What is in them is in `tally` from now on.
    pub fn close(&mut self, tally: &mut Tally) {
        self.tallies.iter_mut().for_each(|own| tally.absorb(own));
        self.states.clear();
        self.longest = Nanos::ZERO;
    }

    /// The groups, and what became of their packets.
    pub fn groups(&self) -> impl Iterator<Item = (&Place, &Tally)> {
        self.places.iter().zip(&self.tallies)
    }

    /// Keeps what the scheme remembers now, `size` being what waits in a queue.
    pub fn note(&mut self, scheme: &dyn Scheme<Lines>, now: Instant, size: impl Fn(QueueId) -> Size) {
        let Books { places, columns, states, .. } = self;
        if states.len() == columns.len() * SAMPLES {
            states.drain(..columns.len());
        }
        let row = states.len();
        states.extend(std::iter::repeat_n(f64::NAN, columns.len()));
        let mut before = None;
        for &(group, _) in columns.iter() {
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

    /// What was kept of the scheme's state: the name of the group, that of the value, and the values, the latest last.
    pub fn states(&self) -> impl Iterator<Item = (&str, &'static str, Vec<f64>)> {
        let each = self.columns.iter().enumerate();
        each.map(|(at, &(group, name))| {
            let values = self.states.iter().skip(at).step_by(self.columns.len()).copied();
            (&*self.places[usize::from(group)].name, name, values.collect())
        })
    }
}

impl Link {
    /// Finds out for which queues the packets were that the scheme did not let in.
    #[cold]
    pub(super) fn blame(&mut self) {
        for index in 0..self.lines.ended.len() {
            let (packet, reason) = &self.lines.ended[index];
            if *reason != DropReason::SchemeArrival {
                continue;
            }
            let record = self.lines.arrival(packet);
            match self.insist(|scheme, _| scheme.queue_of(&record)) {
                Some(queue) => self.lines.books.dropped(queue.index(), DropReason::SchemeArrival),
                None => self.others.dropped(DropReason::SchemeArrival, 1),
            }
        }
    }
}
