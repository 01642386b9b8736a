//! Latency of packets: for each path the times before its functions, after them, and in total, as histograms of fixed size (spec Q-56).
//!
//! Latency is recorded by the vector if its packets arrived together: packets of one receive call have the same timestamp. If the first and the last
//! packet of a vector arrived at different times, each packet is recorded.

use crate::Packet;
use units::{Instant, Nanos, PathId};

/// Buckets of an octave: times are resolved to a sixteenth.
const STEPS: u32 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Octaves up to 69 s. Longer times are counted in the last bucket.
const OCTAVES: u32 = 36;
const BUCKETS: usize = ((OCTAVES - STEP_BITS + 1) * STEPS) as usize;

/// Times of packets in buckets, sixteen an octave, with their exact sum and maximum. Recording a time takes a handful of instructions and never
/// allocates.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    sum: u64,
    most: u64,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram of {:?}", self.snapshot())
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: Box::new([0; BUCKETS]), sum: 0, most: 0 }
    }
}

/// The bucket of a time.
#[inline(always)]
fn bucket_of(nanos: u64) -> usize {
    let octave = (nanos | u64::from(STEPS - 1)).ilog2() - (STEP_BITS - 1);
    // In the first two octaves a bucket is one nanosecond, so the time is the index.
    let shift = octave.saturating_sub(1);
    ((shift * STEPS) as usize + (nanos >> shift) as usize).min(BUCKETS - 1)
}

/// The first time after a bucket.
fn bucket_end(bucket: usize) -> u64 {
    let shift = (bucket as u64 / u64::from(STEPS)).saturating_sub(1);
    ((bucket as u64 - shift * u64::from(STEPS)) + 1) << shift
}

impl Histogram {
    /// Records this time for `packets` packets.
    #[inline]
    pub fn record(&mut self, time: Nanos, packets: u64) {
        let nanos = time.get();
        self.buckets[bucket_of(nanos)] += packets;
        self.sum = self.sum.wrapping_add(nanos.wrapping_mul(packets));
        self.most = self.most.max(nanos);
    }

    /// Adds the times of another histogram and resets that one.
    pub fn absorb(&mut self, other: &mut Histogram) {
        self.buckets.iter_mut().zip(&mut *other.buckets).for_each(|(own, other)| *own += std::mem::take(other));
        self.sum = self.sum.wrapping_add(std::mem::take(&mut other.sum));
        self.most = self.most.max(std::mem::take(&mut other.most));
    }

    /// The sum of all times in nanoseconds; wraps after 584 years.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The contents of the histogram.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let filled = self.buckets.iter().enumerate().filter(|(_, packets)| **packets > 0);
        HistogramSnapshot {
            buckets: filled.map(|(index, &packets)| (index as u16, packets)).collect(),
            sum: self.sum,
            most: Nanos::new(self.most),
        }
    }
}

/// The times of packets from a histogram: only its non-empty buckets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistogramSnapshot {
    /// Buckets and their numbers of packets, in order of the times.
    buckets: Vec<(u16, u64)>,
    sum: u64,
    most: Nanos,
}

impl HistogramSnapshot {
    /// The number of packets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, packets)| packets).sum()
    }

    /// The sum of their times; wraps after 584 years.
    pub fn sum(&self) -> Nanos {
        Nanos::new(self.sum)
    }

    /// The exact maximum.
    pub fn most(&self) -> Nanos {
        self.most
    }

    /// The exact mean. `None` without packets.
    pub fn mean(&self) -> Option<Nanos> {
        Some(Nanos::new(self.sum / Some(self.count()).filter(|count| *count > 0)?))
    }

    /// The quantile, in thousandths, at most a sixteenth too high. `None` without packets.
    pub fn quantile(&self, thousandths: u64) -> Option<Nanos> {
        let rank = (self.count() * thousandths).div_ceil(1000).max(1);
        let mut below = 0;
        let reaches = |&&(_, packets): &&(u16, u64)| {
            below += packets;
            below >= rank
        };
        let &(bucket, _) = self.buckets.iter().find(reaches)?;
        Some(Nanos::new(bucket_end(bucket.into()) - 1).min(self.most))
    }

    /// The upper bound and the number of packets of each non-empty bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.buckets.iter().map(|&(bucket, packets)| (Nanos::new(bucket_end(bucket.into()) - 1), packets))
    }

    /// The number of packets in buckets that end at `most` or before.
    pub fn within(&self, most: Nanos) -> u64 {
        let ends = |&&(bucket, _): &&(u16, u64)| bucket_end(bucket.into()) - 1 <= most.get();
        self.buckets.iter().take_while(ends).map(|(_, packets)| packets).sum()
    }

    /// Adds the times of another spread.
    pub fn add(&mut self, other: &HistogramSnapshot) {
        for &(bucket, packets) in &other.buckets {
            match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
                Ok(at) => self.buckets[at].1 += packets,
                Err(at) => self.buckets.insert(at, (bucket, packets)),
            }
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.most = self.most.max(other.most);
    }

    /// The times added since `before`. The maximum remains that of the whole time.
    pub fn since(&self, before: &HistogramSnapshot) -> HistogramSnapshot {
        let of = |wanted: u16| {
            before.buckets.iter().find(|(bucket, _)| *bucket == wanted).map_or(0, |(_, packets)| *packets)
        };
        let rest = self.buckets.iter().map(|&(bucket, packets)| (bucket, packets.saturating_sub(of(bucket))));
        HistogramSnapshot {
            buckets: rest.filter(|(_, packets)| *packets > 0).collect(),
            sum: self.sum.wrapping_sub(before.sum),
            most: self.most,
        }
    }
}

/// The latency of a path's packets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// From arrival to the functions: in the receive ring, if the port timestamps its packets, and in the input queue.
    pub before_functions: HistogramSnapshot,
    /// From the functions to transmission: in the output queue and at the link.
    pub after_functions: HistogramSnapshot,
    /// From arrival to transmission.
    pub total: HistogramSnapshot,
    /// Packets that took longer than their path's reservation allows.
    pub late: u64,
}

impl Latency {
    /// Adds the times of another worker.
    pub fn add(&mut self, other: &Latency) {
        self.before_functions.add(&other.before_functions);
        self.after_functions.add(&other.after_functions);
        self.total.add(&other.total);
        self.late += other.late;
    }
}

/// The times of one path.
#[derive(Debug, Default)]
struct PathTimes {
    before_functions: Histogram,
    after_functions: Histogram,
    total: Histogram,
    /// The reserved delay, if any.
    reserved_delay: Option<Nanos>,
    late: u64,
    /// Late packets at the previous check, and the number of checks until lateness may be reported again.
    reported: (u64, u8),
}

impl PathTimes {
    #[inline]
    fn record_sent(&mut self, took: Nanos, packets: u64) {
        self.total.record(took, packets);
        if self.reserved_delay.is_some_and(|promised| took > promised) {
            self.late += packets;
        }
    }
}

/// Checks (one a second) without late packets, after which lateness is reported again.
const QUIET_CHECKS: u8 = 60;

/// Recent late packets of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatePackets {
    /// The path.
    pub path: PathId,
    /// The number of late packets.
    pub packets: u64,
    /// The delay that its reservation allows.
    pub reserved_delay: Nanos,
    /// The longest time so far.
    pub most: Nanos,
}

/// The latency of all paths of a worker.
#[derive(Debug, Default)]
pub struct LatencyHistograms {
    /// By path.
    paths: Vec<Option<Box<PathTimes>>>,
}

impl LatencyHistograms {
    /// Sets the paths, each with its reserved delay. Paths that remain keep their times.
    pub fn set_paths(&mut self, paths: impl Iterator<Item = (PathId, Option<Nanos>)>) {
        let mut old = std::mem::take(&mut self.paths);
        for (path, promised) in paths {
            let mut times = old.get_mut(path.index()).and_then(Option::take).unwrap_or_default();
            times.reserved_delay = promised;
            if path.index() >= self.paths.len() {
                self.paths.resize_with(path.index() + 1, || None);
            }
            self.paths[path.index()] = Some(times);
        }
    }

    #[inline]
    fn path_times(&mut self, path: PathId) -> Option<&mut PathTimes> {
        self.paths.get_mut(path.index())?.as_deref_mut()
    }

    /// Packets of `path`, in queue order, are about to enter its functions.
    #[inline]
    pub fn record_started(&mut self, path: PathId, packets: &[Packet], now: Instant) {
        let Some(times) = self.path_times(path) else { return };
        for_each_arrival(packets, |came, packets| times.before_functions.record(now.since(came), packets));
    }

    /// Packets of `path`, in queue order, are about to be transmitted without waiting at a link. `link` receives their times since the functions, one
    /// call for the packets of each vector.
    #[inline]
    pub fn record_bypassed(
        &mut self,
        path: PathId,
        packets: &[Packet],
        since: &mut QueueEntryTimes,
        now: Instant,
        mut link: impl FnMut(Nanos, u64),
    ) {
        let Some(times) = self.path_times(path) else {
            return since.record_departures(packets.len(), |worked, packets| link(now.since(worked), packets));
        };
        since.record_departures(packets.len(), |worked, packets| {
            times.after_functions.record(now.since(worked), packets);
            link(now.since(worked), packets);
        });
        for_each_arrival(packets, |came, packets| times.record_sent(now.since(came), packets));
    }

    /// Packets of any paths that waited at their link are about to be transmitted. Each packet has the time at which its functions ended.
    pub fn record_sent(&mut self, packets: &[Packet], now: Instant) {
        let mut rest = packets;
        while let Some(first) = rest.first() {
            let (path, came, worked) = (first.meta().path, first.meta().timestamp, first.meta().function_time);
            // Consecutive packets with the same path and times are recorded at once.
            let like =
                |p: &Packet| p.meta().path == path && p.meta().timestamp == came && p.meta().function_time == worked;
            let run = rest.iter().position(|packet| !like(packet)).unwrap_or(rest.len());
            rest = &rest[run..];
            if let Some(times) = self.path_times(path) {
                let took = now.since(came);
                times.after_functions.record(Nanos::new(took.get().saturating_sub(worked.into())), run as u64);
                times.record_sent(took, run as u64);
            }
        }
    }

    /// The latency of a path's packets.
    pub fn path_latency(&self, path: PathId) -> Latency {
        let Some(Some(times)) = self.paths.get(path.index()) else { return Latency::default() };
        let PathTimes { before_functions: before, after_functions: behind, total, late, .. } = &**times;
        Latency {
            before_functions: before.snapshot(),
            after_functions: behind.snapshot(),
            total: total.snapshot(),
            late: *late,
        }
    }

    /// Checks once a second for paths with late packets. Reports each path when its lateness begins, and again only after a quiet period.
    pub fn report_late(&mut self, mut tell: impl FnMut(LatePackets)) {
        for (index, times) in self.paths.iter_mut().enumerate().filter_map(|(i, times)| Some((i, times.as_mut()?))) {
            // `calm` counts down the checks without late packets; lateness is reported again only at zero.
            let (before, calm) = times.reported;
            let packets = times.late - before;
            times.reported.0 = times.late;
            if packets == 0 {
                times.reported.1 = calm.saturating_sub(1);
                continue;
            }
            times.reported.1 = QUIET_CHECKS;
            if let (0, Some(promised)) = (calm, times.reserved_delay) {
                tell(LatePackets {
                    path: PathId::at(index),
                    packets,
                    reserved_delay: promised,
                    most: Nanos::new(times.total.most),
                });
            }
        }
    }
}

/// Visits packets by arrival time: all at once if the first and the last arrived together.
#[inline]
fn for_each_arrival(packets: &[Packet], mut take: impl FnMut(Instant, u64)) {
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return };
    let came = first.meta().timestamp;
    // Packets of one queue are in order of arrival: equal times at both ends mean equal times in between.
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

/// The maximum number of vectors distinguished in an output queue. If smaller vectors exceed it, those in the middle count as part of the vector
/// before.
const VECTORS: usize = 32;

/// The times at which the packets of an output queue left their functions, by vector.
#[derive(Clone, Debug, Default)]
pub struct QueueEntryTimes {
    /// Packets and time of each vector: `vectors` entries from `head` on, wrapping.
    arrivals: [(u32, Instant); VECTORS],
    head: usize,
    vectors: usize,
    packets: usize,
}

impl QueueEntryTimes {
    /// The queue has this many packets now. Additional ones arrived at `now`.
    #[inline]
    pub fn record_arrivals(&mut self, packets: usize, now: Instant) {
        if packets <= self.packets {
            // Some packets left without being sent, for example when the offloads of a port changed.
            return self.record_departures(self.packets - packets, |_, _| {});
        }
        let new = (packets - self.packets) as u32;
        self.packets = packets;
        if self.vectors == VECTORS {
            self.arrivals[(self.head + VECTORS - 1) % VECTORS].0 += new;
        } else {
            self.arrivals[(self.head + self.vectors) % VECTORS] = (new, now);
            self.vectors += 1;
        }
    }

    /// The first `packets` have left. `take` receives their arrival times.
    #[inline]
    pub fn record_departures(&mut self, packets: usize, mut take: impl FnMut(Instant, u64)) {
        let mut left = packets.min(self.packets) as u32;
        self.packets -= left as usize;
        while left > 0 {
            let (first, came) = &mut self.arrivals[self.head];
            let run = left.min(*first);
            take(*came, run.into());
            (*first, left) = (*first - run, left - run);
            if *first == 0 {
                self.head = (self.head + 1) % VECTORS;
                self.vectors -= 1;
            }
        }
    }

    /// The packets at the front of `packets` have left the queue but wait at the link. Stores in each the time at which its functions ended.
    pub fn stamp_function_end(&mut self, packets: &mut [Packet]) {
        let count = packets.len();
        let mut rest = packets.iter_mut();
        self.record_departures(count, |worked, packets| {
            for packet in rest.by_ref().take(packets as usize) {
                let meta = packet.meta_mut();
                meta.function_time = u32::try_from(worked.since(meta.timestamp).get()).unwrap_or(u32::MAX);
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

    fn latencies(promised: Option<Nanos>) -> LatencyHistograms {
        let mut latencies = LatencyHistograms::default();
        latencies.set_paths([(PathId(0), None), (PATH, promised)].into_iter());
        latencies
    }

    /// Packets of [`PATH`] that arrived at these times.
    fn arrived_packets(pool: &mut Pool, times: &[u64]) -> Vec<Packet> {
        let one = |&time: &u64| {
            let mut packet = pool.take().unwrap();
            (packet.meta_mut().timestamp, packet.meta_mut().path) = (Instant::new(time), PATH);
            packet
        };
        times.iter().map(one).collect()
    }

    #[test]
    fn histogram_buckets_have_no_gaps_and_contain_their_times() {
        assert!((1..BUCKETS).all(|i| bucket_of(bucket_end(i - 1)) == i && bucket_of(bucket_end(i) - 1) == i));
        assert_eq!((bucket_of(0), bucket_of(31), bucket_of(32), bucket_of(u64::MAX)), (0, 31, 32, BUCKETS - 1));
        assert_eq!(bucket_end(BUCKETS - 1), 1 << OCTAVES);
    }

    proptest! {
        #[test]
        fn histogram_quantiles_are_within_a_sixteenth_and_sum_and_maximum_exact(
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
            let spread = all.snapshot();
            let rank = (list.len() as u64 * thousandths).div_ceil(1000);
            let (exact, told) = (list[rank as usize - 1], spread.quantile(thousandths).unwrap().get());
            prop_assert!(told >= exact && told <= exact + exact / 16, "{} for {}", told, exact);
            prop_assert_eq!((spread.count(), spread.sum().get()), (list.len() as u64, list.iter().sum()));
            prop_assert_eq!(spread.most().get(), *list.last().unwrap());
            // Adding the difference to the part gives the whole.
            let mut sum = half.snapshot();
            sum.add(&spread.since(&half.snapshot()));
            prop_assert_eq!(sum, spread);
        }

        /// For any arrivals and departures of an output queue: each packet that is sent has waited since its vector arrived.
        #[test]
        fn queue_entry_time_is_kept_for_each_vector(steps in prop::collection::vec((0usize..40, 0usize..40), 0..60)) {
            let (mut since, mut queue) = (QueueEntryTimes::default(), std::collections::VecDeque::new());
            for (time, &(new, gone)) in steps.iter().enumerate() {
                queue.extend(std::iter::repeat_n(time as u64, new));
                since.record_arrivals(queue.len(), Instant::new(time as u64));
                let mut told = Vec::new();
                since.record_departures(gone, |came, packets| told.extend(std::iter::repeat_n(came.get(), packets as usize)));
                let sent: Vec<u64> = queue.drain(..gone.min(queue.len())).collect();
                prop_assert_eq!(told.len(), sent.len());
                // Beyond the maximum number of vectors the newest count as part of the one before.
                let exact = steps.len() <= VECTORS;
                let right = told.iter().zip(&sent).all(|(told, sent)| told == sent || !exact && told < sent);
                prop_assert!(right, "{:?} for {:?}", told, sent);
            }
        }
    }

    #[test]
    fn packets_of_one_arrival_time_are_recorded_together() {
        let (mut times, mut pool) = (latencies(None), Pool::new(Region::new(16)));
        let packets = arrived_packets(&mut pool, &[100, 100, 100]);
        times.record_started(PATH, &packets, Instant::new(110));
        let others = arrived_packets(&mut pool, &[90, 100, 100, 105]);
        times.record_started(PATH, &others, Instant::new(110));
        times.record_started(PathId(1), &others, Instant::new(110));
        let told = times.path_latency(PATH);
        assert_eq!(
            told.before_functions.buckets().map(|(most, n)| (most.get(), n)).collect::<Vec<_>>(),
            [(5, 1), (10, 5), (20, 1)]
        );
        assert_eq!((told.total.count(), times.path_latency(PathId(1))), (0, Latency::default()));
        packets.into_iter().chain(others).for_each(|packet| pool.give(packet));
    }

    #[test]
    fn latency_is_the_same_with_and_without_queueing_at_the_link() {
        let mut pool = Pool::new(Region::new(16));
        let mut packets = arrived_packets(&mut pool, &[100, 100, 130, 130]);
        let told = [true, false].map(|passes| {
            let (mut times, mut since) = (latencies(Some(Nanos::new(75))), QueueEntryTimes::default());
            since.record_arrivals(3, Instant::new(140));
            since.record_arrivals(4, Instant::new(160));
            match passes {
                true => times.record_bypassed(PATH, &packets, &mut since, Instant::new(180), |_, _| {}),
                false => {
                    since.stamp_function_end(&mut packets);
                    times.record_sent(&packets, Instant::new(180));
                }
            }
            times.path_latency(PATH)
        });
        assert_eq!(told[0], told[1]);
        let of = |spread: &HistogramSnapshot| (spread.count(), spread.sum().get(), spread.most().get());
        assert_eq!(
            (of(&told[0].after_functions), of(&told[0].total)),
            ((4, 3 * 40 + 20, 40), (4, 2 * 80 + 2 * 50, 80))
        );
        assert_eq!(told[0].late, 2);
        packets.into_iter().for_each(|packet| pool.give(packet));
    }

    #[test]
    fn late_packets_are_reported_at_onset_and_again_after_a_quiet_period() {
        let (mut times, mut pool) = (latencies(Some(Nanos::new(50))), Pool::new(Region::new(4)));
        let packets = arrived_packets(&mut pool, &[100, 100]);
        let mut look = |late: bool| {
            let now = Instant::new(if late { 151 } else { 150 });
            times.record_sent(&packets, now);
            let mut told = Vec::new();
            times.report_late(|found| told.push((found.packets, found.most.get())));
            told
        };
        assert_eq!(look(false), []);
        assert_eq!(look(true), [(2, 51)]);
        assert!((0..100).all(|_| look(true).is_empty()));
        assert!((0..QUIET_CHECKS).all(|_| look(false).is_empty()));
        assert_eq!(look(true), [(2, 51)]);
        packets.into_iter().for_each(|packet| pool.give(packet));
    }
}
