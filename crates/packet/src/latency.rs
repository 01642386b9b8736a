//! How long packets take: of each path the times before its functions, behind them, and altogether, as histograms of a fixed
//! size (spec Q-56).
//!
//! What is looked at is a vector, not a packet, wherever its packets came at one time: those that one look at a port has
//! brought have one timestamp. Where the first and the last of a vector came at different times each packet is looked at.

use crate::Packet;
use units::{Instant, Nanos, PathId};

/// Buckets of an octave: a time is known to a sixteenth of it.
const STEPS: u32 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// The octave of 69 s; longer times are in the last bucket.
const OCTAVES: u32 = 36;
const BUCKETS: usize = ((OCTAVES - STEP_BITS + 1) * STEPS) as usize;

/// Times of packets in buckets, sixteen an octave, with their exact sum and the longest. Recording one takes a handful of
/// instructions and never allocates.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    sum: u64,
    most: u64,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram of {:?}", self.told())
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: Box::new([0; BUCKETS]), sum: 0, most: 0 }
    }
}

/// The bucket of a time.
#[inline(always)]
fn bucket(nanos: u64) -> usize {
    let octave = (nanos | u64::from(STEPS - 1)).ilog2() - (STEP_BITS - 1);
    // In the first two octaves, where a bucket is a nanosecond, the bucket is the time.
    let shift = octave.saturating_sub(1);
    ((shift * STEPS) as usize + (nanos >> shift) as usize).min(BUCKETS - 1)
}

/// The first time behind a bucket.
fn behind(bucket: usize) -> u64 {
    let shift = (bucket as u64 / u64::from(STEPS)).saturating_sub(1);
    ((bucket as u64 - shift * u64::from(STEPS)) + 1) << shift
}

impl Histogram {
    /// `packets` packets took so long each.
    #[inline]
    pub fn record(&mut self, time: Nanos, packets: u64) {
        let nanos = time.get();
        self.buckets[bucket(nanos)] += packets;
        self.sum = self.sum.wrapping_add(nanos.wrapping_mul(packets));
        self.most = self.most.max(nanos);
    }

    /// Adds the times of another, and begins that anew.
    pub fn absorb(&mut self, other: &mut Histogram) {
        self.buckets.iter_mut().zip(&mut *other.buckets).for_each(|(own, other)| *own += std::mem::take(other));
        self.sum = self.sum.wrapping_add(std::mem::take(&mut other.sum));
        self.most = self.most.max(std::mem::take(&mut other.most));
    }

    /// All times together, in nanoseconds; counts on from zero behind 584 years.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// What is in it.
    pub fn told(&self) -> Spread {
        let filled = self.buckets.iter().enumerate().filter(|(_, packets)| **packets > 0);
        Spread {
            buckets: filled.map(|(index, &packets)| (index as u16, packets)).collect(),
            sum: self.sum,
            most: Nanos::new(self.most),
        }
    }
}

/// The times of packets, as a histogram has them: only the buckets with something in them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spread {
    /// Bucket and packets, in the order of the times.
    buckets: Vec<(u16, u64)>,
    sum: u64,
    most: Nanos,
}

impl Spread {
    /// Packets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, packets)| packets).sum()
    }

    /// All their times together; counts on from zero behind 584 years.
    pub fn sum(&self) -> Nanos {
        Nanos::new(self.sum)
    }

    /// The longest time, exactly.
    pub fn most(&self) -> Nanos {
        self.most
    }

    /// Their mean, exactly. None where there are none.
    pub fn mean(&self) -> Option<Nanos> {
        Some(Nanos::new(self.sum / Some(self.count()).filter(|count| *count > 0)?))
    }

    /// The time that this part of the packets, in thousandths, took no longer than; at most a sixteenth above it. None where
    /// there are none.
    pub fn quantile(&self, thousandths: u64) -> Option<Nanos> {
        let rank = (self.count() * thousandths).div_ceil(1000).max(1);
        let mut below = 0;
        let reaches = |&&(_, packets): &&(u16, u64)| {
            below += packets;
            below >= rank
        };
        let &(bucket, _) = self.buckets.iter().find(reaches)?;
        Some(Nanos::new(behind(bucket.into()) - 1).min(self.most))
    }

    /// What no packet of each bucket took longer than, and how many are in it; those with none are left out.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.buckets.iter().map(|&(bucket, packets)| (Nanos::new(behind(bucket.into()) - 1), packets))
    }

    /// Packets that took no longer than `most`, by the buckets that end there or before.
    pub fn within(&self, most: Nanos) -> u64 {
        let ends = |&&(bucket, _): &&(u16, u64)| behind(bucket.into()) - 1 <= most.get();
        self.buckets.iter().take_while(ends).map(|(_, packets)| packets).sum()
    }

    /// Adds the times of others.
    pub fn add(&mut self, other: &Spread) {
        for &(bucket, packets) in &other.buckets {
            match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
                Ok(at) => self.buckets[at].1 += packets,
                Err(at) => self.buckets.insert(at, (bucket, packets)),
            }
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.most = self.most.max(other.most);
    }

    /// What was added since it was `before`. The longest time stays that of both.
    pub fn since(&self, before: &Spread) -> Spread {
        let of = |wanted: u16| {
            before.buckets.iter().find(|(bucket, _)| *bucket == wanted).map_or(0, |(_, packets)| *packets)
        };
        let rest = self.buckets.iter().map(|&(bucket, packets)| (bucket, packets.saturating_sub(of(bucket))));
        Spread {
            buckets: rest.filter(|(_, packets)| *packets > 0).collect(),
            sum: self.sum.wrapping_sub(before.sum),
            most: self.most,
        }
    }
}

/// How long the packets of a path took.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// From coming in to being worked on: in the receive ring, where the port stamps its packets, and before the functions.
    pub before: Spread,
    /// From having been worked on to transmission: on the output queue and before the link.
    pub behind: Spread,
    /// From coming in to transmission.
    pub total: Spread,
    /// Packets that took longer than their path was promised.
    pub late: u64,
}

impl Latency {
    /// Adds what another worker has seen.
    pub fn add(&mut self, other: &Latency) {
        self.before.add(&other.before);
        self.behind.add(&other.behind);
        self.total.add(&other.total);
        self.late += other.late;
    }
}

/// The times of one path.
#[derive(Debug, Default)]
struct Times {
    before: Histogram,
    behind: Histogram,
    total: Histogram,
    /// What it was promised, where it was.
    promised: Option<Nanos>,
    late: u64,
    /// Late packets when this was last looked at, and looks until they may be told of again.
    told: (u64, u8),
}

impl Times {
    #[inline]
    fn sent(&mut self, took: Nanos, packets: u64) {
        self.total.record(took, packets);
        if self.promised.is_some_and(|promised| took > promised) {
            self.late += packets;
        }
    }
}

/// Looks, one a second, for which no packet was late before it is told again that some are.
const CALM: u8 = 60;

/// Packets of a path that were late lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// The path.
    pub path: PathId,
    /// How many.
    pub packets: u64,
    /// The delay that its reservation allows.
    pub promised: Nanos,
    /// The longest ever.
    pub most: Nanos,
}

/// The times of all paths of a worker.
#[derive(Debug, Default)]
pub struct Latencies {
    /// By path.
    paths: Vec<Option<Box<Times>>>,
}

impl Latencies {
    /// The paths there are from now on, each with what it was promised; those that stay keep their times.
    pub fn keep(&mut self, paths: impl Iterator<Item = (PathId, Option<Nanos>)>) {
        let mut old = std::mem::take(&mut self.paths);
        for (path, promised) in paths {
            let mut times = old.get_mut(path.index()).and_then(Option::take).unwrap_or_default();
            times.promised = promised;
            if path.index() >= self.paths.len() {
                self.paths.resize_with(path.index() + 1, || None);
            }
            self.paths[path.index()] = Some(times);
        }
    }

    #[inline]
    fn of(&mut self, path: PathId) -> Option<&mut Times> {
        self.paths.get_mut(path.index())?.as_deref_mut()
    }

    /// Packets of `path`, in the order of its queue, are about to be worked on.
    #[inline]
    pub fn begun(&mut self, path: PathId, packets: &[Packet], now: Instant) {
        let Some(times) = self.of(path) else { return };
        each(packets, |came, packets| times.before.record(now.since(came), packets));
    }

    /// Packets of `path`, in the order of its queue, are about to be transmitted though no link let them wait. `link` is told how
    /// long they were behind their functions, as many as came there together at a time.
    #[inline]
    pub fn passed(
        &mut self,
        path: PathId,
        packets: &[Packet],
        since: &mut Since,
        now: Instant,
        mut link: impl FnMut(Nanos, u64),
    ) {
        let Some(times) = self.of(path) else {
            return since.left(packets.len(), |worked, packets| link(now.since(worked), packets));
        };
        since.left(packets.len(), |worked, packets| {
            times.behind.record(now.since(worked), packets);
            link(now.since(worked), packets);
        });
        each(packets, |came, packets| times.sent(now.since(came), packets));
    }

    /// Packets of any paths are about to be transmitted that have waited for their link: each knows when its functions were
    /// done.
    pub fn sent(&mut self, packets: &[Packet], now: Instant) {
        let mut rest = packets;
        while let Some(first) = rest.first() {
            let (path, came, worked) = (first.meta().path, first.meta().timestamp, first.meta().worked);
            let like = |p: &Packet| p.meta().path == path && p.meta().timestamp == came && p.meta().worked == worked;
            let run = rest.iter().position(|packet| !like(packet)).unwrap_or(rest.len());
            rest = &rest[run..];
            if let Some(times) = self.of(path) {
                let took = now.since(came);
                times.behind.record(Nanos::new(took.get().saturating_sub(worked.into())), run as u64);
                times.sent(took, run as u64);
            }
        }
    }

    /// What a path's packets took.
    pub fn told(&self, path: PathId) -> Latency {
        let Some(Some(times)) = self.paths.get(path.index()) else { return Latency::default() };
        let Times { before, behind, total, late, .. } = &**times;
        Latency { before: before.told(), behind: behind.told(), total: total.told(), late: *late }
    }

    /// Looks, once a second, for paths whose packets were late, and tells of each when it begins; again when it was over for
    /// a while.
    pub fn remark(&mut self, mut tell: impl FnMut(Late)) {
        for (index, times) in self.paths.iter_mut().enumerate().filter_map(|(i, times)| Some((i, times.as_mut()?))) {
            let (before, calm) = times.told;
            let packets = times.late - before;
            times.told.0 = times.late;
            if packets == 0 {
                times.told.1 = calm.saturating_sub(1);
                continue;
            }
            times.told.1 = CALM;
            if let (0, Some(promised)) = (calm, times.promised) {
                tell(Late { path: PathId::at(index), packets, promised, most: Nanos::new(times.total.most) });
            }
        }
    }
}

/// Goes through packets by when they came: all at once where the first and the last came together.
#[inline]
fn each(packets: &[Packet], mut take: impl FnMut(Instant, u64)) {
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return };
    let came = first.meta().timestamp;
    if came == last.meta().timestamp {
        return take(came, packets.len() as u64);
    }
    let mut rest = packets;
    while let Some(first) = rest.first() {
        let came = first.meta().timestamp;
        let run = rest.iter().position(|packet| packet.meta().timestamp != came).unwrap_or(rest.len());
        take(came, run as u64);
        rest = &rest[run..];
    }
}

/// Vectors that are told apart on an output queue. It holds more only where its packets came in smaller ones; those in the
/// middle then count as having come with the vector before.
const VECTORS: usize = 32;

/// Since when the packets of an output queue are there, vector by vector: their functions were done then.
#[derive(Clone, Debug, Default)]
pub struct Since {
    /// The packets of each, and when they came; `vectors` from `head` on, wrapping.
    came: [(u32, Instant); VECTORS],
    head: usize,
    vectors: usize,
    packets: usize,
}

impl Since {
    /// The queue has this many packets now: those that it did not have came at `now`.
    #[inline]
    pub fn holds(&mut self, packets: usize, now: Instant) {
        if packets <= self.packets {
            // Some have gone without being sent, as where a port takes less than before.
            return self.left(self.packets - packets, |_, _| {});
        }
        let new = (packets - self.packets) as u32;
        self.packets = packets;
        if self.vectors == VECTORS {
            self.came[(self.head + VECTORS - 1) % VECTORS].0 += new;
        } else {
            self.came[(self.head + self.vectors) % VECTORS] = (new, now);
            self.vectors += 1;
        }
    }

    /// The first `packets` have left it: tells when they came.
    #[inline]
    pub fn left(&mut self, packets: usize, mut take: impl FnMut(Instant, u64)) {
        let mut left = packets.min(self.packets) as u32;
        self.packets -= left as usize;
        while left > 0 {
            let (first, came) = &mut self.came[self.head];
            let run = left.min(*first);
            take(*came, run.into());
            (*first, left) = (*first - run, left - run);
            if *first == 0 {
                self.head = (self.head + 1) % VECTORS;
                self.vectors -= 1;
            }
        }
    }

    /// The packets at the front of `packets` have left the queue, but wait further on: each is told when its functions were
    /// done.
    pub fn note(&mut self, packets: &mut [Packet]) {
        let count = packets.len();
        let mut rest = packets.iter_mut();
        self.left(count, |worked, packets| {
            for packet in rest.by_ref().take(packets as usize) {
                let meta = packet.meta_mut();
                meta.worked = u32::try_from(worked.since(meta.timestamp).get()).unwrap_or(u32::MAX);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Region};
    use proptest::prelude::*;

    const PATH: PathId = PathId(2);

    fn latencies(promised: Option<Nanos>) -> Latencies {
        let mut latencies = Latencies::default();
        latencies.keep([(PathId(0), None), (PATH, promised)].into_iter());
        latencies
    }

    /// Packets of [`PATH`] that came at these times.
    fn came(pool: &mut Pool, times: &[u64]) -> Vec<Packet> {
        let one = |&time: &u64| {
            let mut packet = pool.take().unwrap();
            (packet.meta_mut().timestamp, packet.meta_mut().path) = (Instant::new(time), PATH);
            packet
        };
        times.iter().map(one).collect()
    }

    #[test]
    fn buckets_follow_one_another_without_a_gap_and_a_time_is_in_its_own() {
        assert!((1..BUCKETS).all(|i| bucket(behind(i - 1)) == i && bucket(behind(i) - 1) == i));
        assert_eq!((bucket(0), bucket(31), bucket(32), bucket(u64::MAX)), (0, 31, 32, BUCKETS - 1));
        assert_eq!(behind(BUCKETS - 1), 1 << OCTAVES);
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_a_sorted_list_within_a_sixteenth_and_sum_and_most_are_exact(
            times in prop::collection::vec((0u64..1 << 34, 1u64..300), 1..60),
            thousandths in 1u64..=1000,
            cut in 0usize..60,
        ) {
            let (mut all, mut half) = (Histogram::default(), Histogram::default());
            for (index, &(time, packets)) in times.iter().enumerate() {
                all.record(Nanos::new(time), packets);
                if index < cut { half.record(Nanos::new(time), packets) }
            }
            let mut list: Vec<u64> = times.iter().flat_map(|&(time, n)| std::iter::repeat_n(time, n as usize)).collect();
            list.sort_unstable();
            let spread = all.told();
            let rank = (list.len() as u64 * thousandths).div_ceil(1000);
            let (exact, told) = (list[rank as usize - 1], spread.quantile(thousandths).unwrap().get());
            prop_assert!(told >= exact && told <= exact + exact / 16, "{} for {}", told, exact);
            prop_assert_eq!((spread.count(), spread.sum().get()), (list.len() as u64, list.iter().sum()));
            prop_assert_eq!(spread.most().get(), *list.last().unwrap());
            // What is added to a part gives the whole.
            let mut sum = half.told();
            sum.add(&spread.since(&half.told()));
            prop_assert_eq!(sum, spread);
        }

        /// Whatever comes to an output queue and leaves it: each packet that is sent has waited since its vector came.
        #[test]
        fn a_queue_of_vectors_knows_since_when_each_packet_waits(steps in prop::collection::vec((0usize..40, 0usize..40), 0..60)) {
            let (mut since, mut queue) = (Since::default(), std::collections::VecDeque::new());
            for (time, &(new, gone)) in steps.iter().enumerate() {
                queue.extend(std::iter::repeat_n(time as u64, new));
                since.holds(queue.len(), Instant::new(time as u64));
                let mut told = Vec::new();
                since.left(gone, |came, packets| told.extend(std::iter::repeat_n(came.get(), packets as usize)));
                let sent: Vec<u64> = queue.drain(..gone.min(queue.len())).collect();
                prop_assert_eq!(told.len(), sent.len());
                // Beyond so many vectors the newest count as having come with the one before.
                let exact = steps.len() <= VECTORS;
                let right = told.iter().zip(&sent).all(|(told, sent)| told == sent || !exact && told < sent);
                prop_assert!(right, "{:?} for {:?}", told, sent);
            }
        }
    }

    #[test]
    fn packets_that_came_together_are_one_record_and_others_one_each() {
        let (mut times, mut pool) = (latencies(None), Pool::new(Region::new(16)));
        let packets = came(&mut pool, &[100, 100, 100]);
        times.begun(PATH, &packets, Instant::new(110));
        let others = came(&mut pool, &[90, 100, 100, 105]);
        times.begun(PATH, &others, Instant::new(110));
        times.begun(PathId(1), &others, Instant::new(110));
        let told = times.told(PATH);
        assert_eq!(
            told.before.buckets().map(|(most, n)| (most.get(), n)).collect::<Vec<_>>(),
            [(5, 1), (10, 5), (20, 1)]
        );
        assert_eq!((told.total.count(), times.told(PathId(1))), (0, Latency::default()));
        packets.into_iter().chain(others).for_each(|packet| pool.give(packet));
    }

    #[test]
    fn packets_that_pass_and_packets_that_wait_for_their_link_tell_the_same() {
        let mut pool = Pool::new(Region::new(16));
        let mut packets = came(&mut pool, &[100, 100, 130, 130]);
        let told = [true, false].map(|passes| {
            let (mut times, mut since) = (latencies(Some(Nanos::new(75))), Since::default());
            since.holds(3, Instant::new(140));
            since.holds(4, Instant::new(160));
            match passes {
                true => times.passed(PATH, &packets, &mut since, Instant::new(180), |_, _| {}),
                false => {
                    since.note(&mut packets);
                    times.sent(&packets, Instant::new(180));
                }
            }
            times.told(PATH)
        });
        assert_eq!(told[0], told[1]);
        let of = |spread: &Spread| (spread.count(), spread.sum().get(), spread.most().get());
        assert_eq!((of(&told[0].behind), of(&told[0].total)), ((4, 3 * 40 + 20, 40), (4, 2 * 80 + 2 * 50, 80)));
        assert_eq!(told[0].late, 2);
        packets.into_iter().for_each(|packet| pool.give(packet));
    }

    #[test]
    fn lateness_is_told_when_it_begins_and_again_when_it_was_over_for_a_while() {
        let (mut times, mut pool) = (latencies(Some(Nanos::new(50))), Pool::new(Region::new(4)));
        let packets = came(&mut pool, &[100, 100]);
        let mut look = |late: bool| {
            let now = Instant::new(if late { 151 } else { 150 });
            times.sent(&packets, now);
            let mut told = Vec::new();
            times.remark(|found| told.push((found.packets, found.most.get())));
            told
        };
        assert_eq!(look(false), []);
        assert_eq!(look(true), [(2, 51)]);
        assert!((0..100).all(|_| look(true).is_empty()));
        assert!((0..CALM).all(|_| look(false).is_empty()));
        assert_eq!(look(true), [(2, 51)]);
        packets.into_iter().for_each(|packet| pool.give(packet));
    }
}
