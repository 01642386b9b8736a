use super::grants::CycleCounts;
use super::*;
use crate::model::{Model, ModelFate};
use crate::{Next, ShareEdit, ShareEdits};
use alloc::collections::BTreeMap;
use proptest::prelude::*;

mod changes;
mod cost;
mod fluid;

/// The longest packet.
const LONGEST: u32 = 1514;

fn mbit(megabits: u64) -> Rate {
    Rate::mbit(megabits)
}

fn fifo(queues: usize) -> Aqm {
    let unbounded = [("limit", 0), ("bytes", 0), ("drop", 0), ("unbounded", 1)];
    Aqm::of("fifo", &Values(&unbounded), queues).expect("it is declared")
}

const LINK: LinkParameters = LinkParameters {
    rate: Rate::ZERO,
    cycle: Nanos::millis(1),
    best_effort: Parts::percent(5),
    excess: ExcessOrder::BestEffort,
    is_strict: false,
};

fn share(rate: Rate, burst: u64, delay: Nanos) -> ShareParameters {
    ShareParameters { rate, burst: Bytes::new(burst), delay, ..ShareParameters::default() }
}

fn put(number: u32, parameters: ShareParameters) -> ShareEdit {
    ShareEdit::Put(ShareId(number), parameters)
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
struct Departure {
    share: u32,
    length: u32,
    arrived: Instant,
    /// When its last byte had left the link.
    left: Instant,
}

/// A link of a rate, which asks for the next packet when it has sent the one before.
struct Link {
    scheme: DiscretizedFairQueueing,
    model: Model,
    packets: Vec<(u32, u32, Instant)>,
    departures: Vec<Departure>,
    seen: usize,
    /// When the link has sent its present packet.
    free: Instant,
}

impl Link {
    fn new(link: LinkParameters, rate: Rate, edits: &[ShareEdit]) -> Link {
        let count = 2 + edits.len() as u32;
        let scheme = DiscretizedFairQueueing::new(link, fifo(count as usize), count);
        let mut model = Model::with_queues(count as usize);
        model.rate = rate;
        let (packets, departures) = (Vec::new(), Vec::new());
        let mut link = Link { scheme, model, packets, departures, seen: 0, free: Instant::START };
        link.edit(edits);
        link
    }

    fn edit(&mut self, edits: &[ShareEdit]) {
        self.scheme.edit_shares(&ShareEdits(edits.into()), &self.model);
    }

    fn arrive(&mut self, share: u32, length: u32) {
        self.packets.push((share, length, self.model.now));
        let record = Record { length, queue: QueueId(share), ..Record::default() };
        self.model.arrive_all(&mut self.scheme, core::iter::once(record));
    }

    /// Sends until `end`. The packets of `arrivals` arrive at their times.
    fn run(&mut self, arrivals: &[(Instant, u32, u32)], end: Instant) {
        let mut arrivals = arrivals.iter().peekable();
        loop {
            while let Some(&&(at, share, length)) = arrivals.peek()
                && at <= self.model.now
            {
                arrivals.next();
                self.arrive(share, length);
            }
            let mut wake = arrivals.peek().map_or(Instant::NEVER, |(at, ..)| *at);
            if self.model.now < self.free {
                wake = wake.min(self.free);
            } else if self.send_one() {
                continue;
            } else {
                wake = match self.scheme.next(&self.model) {
                    Next::Idle => wake,
                    Next::At(at) => {
                        assert!(at > self.model.now, "it waits for a time that is past");
                        wake.min(at)
                    }
                    Next::Ready => panic!("it has nothing to send, and is ready"),
                };
            }
            if wake > end {
                self.model.now = end;
                return;
            }
            self.model.now = wake;
        }
    }

    fn send_one(&mut self) -> bool {
        self.model.ready(&mut self.scheme, 1);
        let Some(fate) = self.model.fates.get(self.seen) else { return false };
        assert!(matches!(fate, ModelFate::Sent(_)), "no packet is dropped");
        let (share, length, arrived) = self.packets[fate.number()];
        self.seen += 1;
        assert_eq!(self.seen, self.model.fates.len(), "one packet at a time");
        self.free = self.model.now + self.model.rate.time_for(Bytes::new(length.into()));
        self.departures.push(Departure { share, length, arrived, left: self.free });
        true
    }

    /// The rate of each share from `from` on, in Mbit/s.
    fn rate_of(&self, share: u32, from: Instant) -> f64 {
        let of = |departure: &&Departure| departure.share == share && departure.left > from;
        let bytes: u64 = self.departures.iter().filter(of).map(|departure| u64::from(departure.length)).sum();
        bytes as f64 * 8e-6 / self.model.now.since(from).as_secs_f64()
    }
}

/// Packets of a share at equal distances.
fn stream(share: u32, length: u32, from: Instant, every: Nanos, count: u64) -> Vec<(Instant, u32, u32)> {
    (0..count).map(|number| (from + Nanos::new(every.get() * number), share, length)).collect()
}

fn at(micros: u64) -> Instant {
    Instant::START + Nanos::micros(micros)
}

fn in_order(mut arrivals: Vec<(Instant, u32, u32)>) -> Vec<(Instant, u32, u32)> {
    arrivals.sort_unstable();
    arrivals
}

#[test]
fn strict_share_gets_exactly_its_rate_for_any_cycle() {
    // A service cycle of 3028 bytes at 10 Mbit/s is 2.42 ms: no multiple of a cycle.
    for (cycle, rate, burst) in [(1000, 10, 3028), (1000, 10, 1514), (700, 30, 4000), (200, 7, 9000), (5000, 20, 100)] {
        let link = LinkParameters { cycle: Nanos::micros(cycle), is_strict: true, ..LINK };
        let mut link = Link::new(link, mbit(100), &[put(1, share(mbit(rate), burst, Nanos::ZERO))]);
        let packets = rate * 1_000_000 / 8 / 1000 * 2;
        link.run(&stream(1, 1000, at(1), Nanos::new(1), packets), at(1_000_000));
        let found = link.rate_of(1, at(100_000));
        assert!((found / rate as f64 - 1.0).abs() < 0.015, "{found} of {rate} Mbit/s with cycles of {cycle} us");
    }
}

#[test]
fn delay_of_a_low_rate_does_not_follow_from_the_rate() {
    // Two packets of a call each 34.88 ms: 100 kbit/s. At that rate two packets would take as long.
    let voice = share(Rate::bits(100_000), 436, Nanos::millis(5));
    let link = LinkParameters { cycle: Nanos::micros(500), ..LINK };
    let mut link = Link::new(link, mbit(100), &[put(1, voice), put(2, share(mbit(90), 50_000, Nanos::ZERO))]);
    let calls = (0..25).flat_map(|call| [(at(3_000 + call * 34_880), 1, 218); 2]);
    let others = stream(2, LONGEST, at(0), Nanos::micros(60), 16_000);
    let arrivals = in_order(others.into_iter().chain(calls).collect());
    link.run(&arrivals, at(900_000));
    let longest = link.departures.iter().filter(|departure| departure.share == 1);
    let longest = longest.map(|departure| departure.left.since(departure.arrived)).max().expect("calls have packets");
    // The delay, two cycles and the time of a long packet.
    assert!(longest <= Nanos::micros(5_000 + 1_000 + 122), "{longest}");
    assert_eq!(link.departures.iter().filter(|departure| departure.share == 1).count(), 50);
}

#[test]
fn room_left_in_a_cycle_goes_to_packets_that_wait() {
    let shares = [put(1, share(mbit(10), 3028, Nanos::ZERO)), put(2, share(mbit(20), 3028, Nanos::ZERO))];
    let all = |link: LinkParameters, kinds: &[u32]| {
        let mut link = Link::new(link, mbit(100), &shares);
        let arrivals = kinds.iter().flat_map(|kind| stream(*kind, 1000, at(0), Nanos::new(1), 15_000));
        link.run(&in_order(arrivals.collect()), at(1_000_000));
        [0, 1, 2].map(|share| link.rate_of(share, at(200_000)).round())
    };
    // The only share with packets gets the whole link.
    assert_eq!(all(LINK, &[1]), [0.0, 100.0, 0.0]);
    assert_eq!(all(LINK, &[0, 1, 2]), [70.0, 10.0, 20.0], "the rest is best effort's");
    let shares_first = LinkParameters { excess: ExcessOrder::Shares, ..LINK };
    let [best_effort, one, two] = all(shares_first, &[0, 1, 2]);
    assert_eq!(best_effort, 5.0, "its minimum");
    assert!((one - 42.5).abs() <= 2.0 && (two - 52.5).abs() <= 2.0, "{one} and {two}: half of the excess each");
    let strict = LinkParameters { is_strict: true, ..LINK };
    assert_eq!(all(strict, &[0, 1, 2]), [5.0, 10.0, 20.0], "the rest stays empty");
    let shaped = LinkParameters { rate: mbit(50), ..LINK };
    assert_eq!(all(shaped, &[0, 1, 2]), [20.0, 10.0, 20.0], "cycles of 50 Mbit/s on a link of 100");
}

#[test]
fn share_that_exceeds_its_burst_delays_no_other() {
    let shares: Vec<ShareEdit> = (1..=9).map(|number| put(number, share(mbit(10), 5000, Nanos::millis(4)))).collect();
    let polite = (2..=9).flat_map(|share| stream(share, 1250, at(100 * u64::from(share)), Nanos::millis(1), 500));
    let polite = in_order(polite.collect());
    let longest = |arrivals: Vec<(Instant, u32, u32)>| {
        let mut link = Link::new(LINK, mbit(100), &shares);
        link.run(&arrivals, at(520_000));
        let polite = link.departures.iter().filter(|departure| departure.share > 1);
        assert_eq!(polite.clone().count(), 4000);
        polite.map(|departure| departure.left.since(departure.arrived)).max().expect("they have packets")
    };
    let alone = longest(polite.clone());
    let greedy = stream(1, LONGEST, at(0), Nanos::micros(20), 25_000);
    let beside = longest(in_order(polite.into_iter().chain(greedy).collect()));
    // The others' excess is gone, but their reservation holds: the time of a packet at the rate and two cycles.
    assert!(beside <= Nanos::micros(1000 + 2000 + 122), "{alone} alone and {beside} beside a greedy share");
}

#[test]
fn link_slower_than_the_cycles_stalls_and_all_shares_lose_the_same_part() {
    let link = LinkParameters { rate: mbit(100), is_strict: true, ..LINK };
    let shares: Vec<ShareEdit> = (1..=3).map(|number| put(number, share(mbit(30), 8000, Nanos::ZERO))).collect();
    let mut link = Link::new(link, mbit(45), &shares);
    let arrivals = (1..=3).flat_map(|share| stream(share, 1000, at(0), Nanos::new(1), 4000));
    link.run(&in_order(arrivals.collect()), at(1_000_000));
    let rates = [1, 2, 3].map(|share| link.rate_of(share, at(200_000)));
    assert!(rates.iter().all(|rate| (rate - 15.0).abs() < 0.5), "{rates:?}");
    assert!(link.scheme.stalls > 300, "{} stalls", link.scheme.stalls);
    let CycleCounts { cycles, quanta, .. } = link.scheme.allocation.counts;
    assert!(cycles < 700 && quanta <= 3 * cycles, "{cycles} cycles and {quanta} quanta");
}

#[test]
fn quanta_below_a_packet_keep_the_rates_of_shares_that_complete_packets_together() {
    // Each share gets 237 bytes in a cycle, and all complete their packets of 1500 bytes in the same one.
    let link = LinkParameters { is_strict: true, ..LINK };
    let rate = Rate::bits(237 * 8000);
    let shares: Vec<ShareEdit> = (1..=50).map(|number| put(number, share(rate, 3000, Nanos::ZERO))).collect();
    let mut link = Link::new(link, mbit(100), &shares);
    let arrivals = (1..=50).flat_map(|share| stream(share, 1500, at(0), Nanos::new(1), 200));
    link.run(&in_order(arrivals.collect()), at(1_000_000));
    for share in 1..=50 {
        let found = link.rate_of(share, at(100_000));
        assert!((found / 1.896 - 1.0).abs() < 0.02, "share {share} of 50 gets {found} Mbit/s");
    }
}

#[test]
fn reservations_above_the_link_are_served_in_turn() {
    // Nothing admits these: 5 shares of 40 Mbit/s.
    let link = LinkParameters { best_effort: Parts::percent(0), ..LINK };
    let shares: Vec<ShareEdit> = (1..=5).map(|number| put(number, share(mbit(40), 8000, Nanos::ZERO))).collect();
    let mut link = Link::new(link, mbit(100), &shares);
    let arrivals = (1..=5).flat_map(|share| stream(share, 500, at(0), Nanos::new(1), 12_000));
    link.run(&in_order(arrivals.collect()), at(1_000_000));
    for share in 1..=5 {
        let rate = link.rate_of(share, at(200_000));
        assert!((rate - 20.0).abs() < 1.0, "share {share} of 5 gets {rate}");
    }
}

#[test]
fn state_reports_cycles_quanta_stalls_and_misses() {
    let link = LinkParameters { is_strict: true, ..LINK };
    let mut link = Link::new(link, mbit(100), &[put(1, share(mbit(8), 3000, Nanos::millis(2)))]);
    link.run(&stream(1, 1000, at(0), Nanos::new(1), 20), at(19_999));
    let mut told = BTreeMap::new();
    let size = link.model.size(QueueId(1));
    Scheme::<Model>::state(&link.scheme, QueueId(1), link.model.now, size, &mut |name, value| {
        told.insert(name, value as u64);
    });
    // 3000 bytes each 3 ms in two quanta of 1500, then a miss: six and two thirds times for 20,000 bytes. The first cycle finds one packet of 1000.
    assert_eq!((told["cycles"], told["quanta"], told["misses"], told["stalls"]), (20, 15, 6, 0), "{told:?}");
}
