//! Passive round-trip times of TCP connections, by their timestamps (RFC 7323).
//!
//! The method is that of Nichols ("Listening to networks", Pollere 2017; `pping`). The router records when it sees a timestamp of a flow for the first
//! time. The first packet of the other direction that returns this timestamp ends the sample. The time in between is the round-trip time between the
//! router and the sender of that packet. It includes the packet's delay in the router itself. So each connection gives two kinds of samples: toward the
//! subscriber and toward the Internet.
//!
//! A timestamp that only segments without data have had starts no sample, unlike in `pping`: their receiver returns it whenever it sends next, so the
//! sample would contain the idle time of an application. The sample of a segment with data begins when its timestamp was first seen, also if that was
//! on a segment without data. So a sample may be too long by one step of the sender's clock (1 ms in Linux), and never too short.
//!
//! # The table
//!
//! One table for all workers has a bounded number of entries and no lock. An entry is one word: 30 bits of a keyed hash, two bits of state, and the time.
//! A bucket has four entries, and a new one replaces the oldest. A table of 2^19 entries (4 MB) keeps an entry for a second if hosts create half a
//! million of them a second. A flood of packets therefore costs samples, and nothing else. An attacker without the key cannot choose packets that collide. A
//! packet that returns a timestamp which the router has not seen matches an entry with a probability of at most 2^-28.

use crate::timestamps::Segment;
use packet::Packet;
use packet::pool::prefetch;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Bytes, Instant, Nanos, ShareId};

/// Packets whose entries are prefetched together.
const BATCH: usize = 64;
/// Packets whose headers are prefetched ahead of the one being read.
const AHEAD: usize = 4;
/// Entries of a bucket: half a cache line.
const WAYS: usize = 4;
/// The unit of time of entries: 2^13 ns. The time of an entry wraps after 9.7 hours.
const TICK_BITS: u32 = 13;
/// Longer samples are discarded, and timestamps this old are forgotten.
const MOST: u32 = (10_000_000_000u64 >> TICK_BITS) as u32;

/// An entry without a timestamp.
const EMPTY: u64 = 0;
/// Set in an entry that gives no sample any more.
const USED: u64 = 1 << 32;
/// Set in an entry whose timestamp only segments without data have had.
const NO_DATA: u64 = 1 << 33;
/// The position of the hash in an entry.
const TAG: u32 = 34;

// Odd constants with half their bits set, from the fractional part of the square root of two.
const K0: u64 = 0x6a09_e667_f3bc_c909;
const K1: u64 = 0xb2fb_1366_ea95_7d3f;
const K2: u64 = 0xe3c1_7ad5_2ba4_9e35;

/// The side of the router that a packet arrives from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RttSide {
    /// An inside port: toward the subscriber.
    Subscriber,
    /// An outside port: toward the Internet.
    Internet,
}

impl RttSide {
    fn other(self) -> RttSide {
        match self {
            RttSide::Subscriber => RttSide::Internet,
            RttSide::Internet => RttSide::Subscriber,
        }
    }
}

#[derive(Default)]
#[repr(align(32))]
struct Bucket([AtomicU64; WAYS]);

/// The timestamps of TCP segments that no packet has returned yet. Workers share it by reference.
pub struct RttTable {
    buckets: Box<[Bucket]>,
    key: u64,
}

/// A timestamp of a flow: its bucket, and the upper half of its entry.
#[derive(Clone, Copy, Default)]
struct Place {
    bucket: usize,
    tag: u64,
}

/// The work for one segment.
#[derive(Clone, Copy, Default)]
struct Work {
    packet: u8,
    /// The segment starts a sample.
    starts: bool,
    now: u32,
    own: Place,
    echo: Option<Place>,
}

impl RttTable {
    /// A table of `entries` timestamps, at least 4, rounded up to a power of two. Each uses eight bytes. `key` is secret.
    pub fn new(entries: usize, key: u64) -> RttTable {
        let buckets = entries.div_ceil(WAYS).next_power_of_two();
        RttTable { buckets: (0..buckets).map(|_| Bucket::default()).collect(), key }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> Bytes {
        Bytes::new(size_of_val(&*self.buckets) as u64)
    }

    /// Reads the TCP timestamps of packets that arrived from one side and belong to a share. Calls `sample` with the position of each packet that ends a
    /// sample, and the round-trip time between the router and that side. The time of arrival, `l3`, `queue` and the flag `IPV6` of each packet are set.
    #[inline]
    pub fn observe(&self, from: RttSide, packets: &[Packet], mut sample: impl FnMut(usize, Nanos)) {
        for (number, packets) in packets.chunks(BATCH).enumerate() {
            let mut work = [Work::default(); BATCH];
            let count = self.prepare(from, packets, &mut work);
            for work in &work[..count] {
                let round_trip = work.echo.and_then(|echo| self.end(echo, work.now));
                self.begin(work.own, work.starts, work.now);
                if let Some(time) = round_trip {
                    sample(number * BATCH + usize::from(work.packet), time);
                }
            }
        }
    }

    /// Parses at most [`BATCH`] packets and prefetches the entries of segments with timestamps. Returns their number.
    #[inline(always)]
    fn prepare(&self, from: RttSide, packets: &[Packet], work: &mut [Work; BATCH]) -> usize {
        let mut count = 0;
        for (i, packet) in packets.iter().enumerate() {
            if let Some(next) = packets.get(i + AHEAD) {
                next.prefetch_bytes();
            }
            // Packets without a circuit have no histogram, and their timestamps would displace those of others.
            if packet.meta().share() == ShareId(0) {
                continue;
            }
            let Some(segment) = Segment::of(packet) else { continue };
            let now = ticks(packet.meta().timestamp);
            let own = self.place(from, segment.hosts, segment.ports, segment.value);
            let ([source, destination], [sport, dport]) = (segment.hosts, segment.ports);
            let echo = segment.echo.map(|echo| self.place(from.other(), [destination, source], [dport, sport], echo));
            prefetch(&raw const self.buckets[own.bucket]);
            echo.iter().for_each(|echo| prefetch(&raw const self.buckets[echo.bucket]));
            work[count] = Work { packet: i as u8, starts: segment.asks, now, own, echo };
            count += 1;
        }
        count
    }

    /// The place of a timestamp that a flow sent from a side.
    #[inline(always)]
    fn place(&self, from: RttSide, [source, destination]: [u128; 2], ports: [u16; 2], timestamp: u32) -> Place {
        let state = self.key ^ from as u64;
        let state = match (u32::try_from(source), u32::try_from(destination)) {
            (Ok(source), Ok(destination)) => {
                fold_multiply(state ^ (u64::from(source) << 32 | u64::from(destination)), self.key ^ K0 | 1)
            }
            _ => {
                let half = fold_multiply((source >> 64) as u64 ^ state, source as u64 ^ self.key.rotate_left(17) ^ K1);
                fold_multiply((destination >> 64) as u64 ^ half, destination as u64 ^ self.key.rotate_left(31) ^ K2)
            }
        };
        let rest = u64::from(ports[0]) << 48 | u64::from(ports[1]) << 32 | u64::from(timestamp);
        let hash = fold_multiply(state ^ rest, self.key.rotate_left(47) ^ K1 | 1);
        let hash = fold_multiply(hash ^ K2, self.key ^ K0 | 1);
        // The bucket has the lower bits, the tag the upper ones. A tag of zero would look like an empty entry.
        Place { bucket: hash as usize & (self.buckets.len() - 1), tag: (hash >> TAG).max(1) << TAG }
    }

    /// Records a timestamp, unless it is known. `starts` if its segment has data.
    #[inline(always)]
    fn begin(&self, place: Place, starts: bool, now: u32) {
        let bucket = &self.buckets[place.bucket].0;
        let mut oldest = (0, EMPTY, 0);
        for (way, entry) in bucket.iter().enumerate() {
            let entry = entry.load(Ordering::Relaxed);
            let age = age(entry, now);
            if entry >> TAG << TAG == place.tag {
                if age <= MOST {
                    if starts && entry & (USED | NO_DATA) == NO_DATA {
                        let _ =
                            bucket[way].compare_exchange(entry, entry & !NO_DATA, Ordering::Relaxed, Ordering::Relaxed);
                    }
                    return;
                }
                oldest = (way, entry, u32::MAX);
                break;
            }
            let age = if entry == EMPTY { u32::MAX } else { age };
            if age >= oldest.2 {
                oldest = (way, entry, age);
            }
        }
        let (way, before, _) = oldest;
        let entry = place.tag | if starts { 0 } else { NO_DATA } | u64::from(now);
        // If another worker has changed the entry since, one of the two timestamps is lost.
        let _ = bucket[way].compare_exchange(before, entry, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Ends the sample of a timestamp that was returned. `None` if it is unknown, was returned before, or is too old.
    #[inline(always)]
    fn end(&self, place: Place, now: u32) -> Option<Nanos> {
        for slot in &self.buckets[place.bucket].0 {
            let entry = slot.load(Ordering::Relaxed);
            if entry >> TAG << TAG != place.tag {
                continue;
            }
            let age = age(entry, now);
            if entry & USED != 0 || age > MOST {
                return None;
            }
            // Only one worker ends a sample. A segment with the same timestamp may follow, and the answer to it has the same echo: that would be too late.
            let won = slot.compare_exchange(entry, entry | USED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            return (won && entry & NO_DATA == 0).then(|| Nanos::new(u64::from(age) << TICK_BITS));
        }
        None
    }
}

impl fmt::Debug for RttTable {
    // Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RttTable").field("entries", &(self.buckets.len() * WAYS)).finish()
    }
}

/// A time in units of entries.
#[inline(always)]
fn ticks(time: Instant) -> u32 {
    (time.get() >> TICK_BITS) as u32
}

/// The time since an entry was made. An entry of the future (workers read their clocks at different times) is new.
#[inline(always)]
fn age(entry: u64, now: u32) -> u32 {
    let age = now.wrapping_sub(entry as u32);
    if age > u32::MAX / 2 { 0 } else { age }
}

/// Multiplies to 128 bits and folds the halves, so that every bit of the product has an effect.
#[inline(always)]
fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
