//! The report of a link is correct. Its histograms of queueing delay, by class, agree with the delays of the single packets.
//! Its drop reasons and its state agree with the packets dropped and queued.

use link::LinkReport;
use packet::latency::HistogramSnapshot;
use packet::port::{MemoryPort, MemoryWire, Port};
use packet::wire::{Ipv4Spec, ethernet, ethertype};
use packet::{Pool, Queue, Region};
use plan::SchemeChange;
use plane::rig::{LAN_AND_WAN, Rig, StandaloneLink, UdpFrame};
use plane::snapshot::Layout;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use units::{Instant, Mac, Nanos, PortId};

/// Schemes, and true if they report each of three classes as a group.
const SCHEMES: &[(&str, bool)] = &[
    ("priority(levels=3){fifo(limit=20)}", true),
    ("drr(by=class, flows=3, limit=60){red(min=2, max=20, weight=20%, ecn=on)}", true),
    ("wf2q(by=class, flows=3, weights=4:2:1, limit=40){codel(target=1us, interval=20us, mtu=0b, ecn=on)}", true),
    ("tree{branch(class=2){fifo(limit=10)}, branch(class=1){fifo}, branch{threshold(mark=3, limit=30)}}", true),
    ("fifo(limit=30)", false),
    ("fifo(limit=30, drop=head)", false),
    ("codel(target=1us, interval=20us, mtu=0b)", false),
    ("pie(target=5us, update=100us, burst=0ns, mean=1b, alpha=10000%, ecn=on, ecn_max=100%)", false),
    ("choke(min=1, max=40, weight=50%)", false),
    ("fq(flows=16, limit=60){codel(target=1us, interval=20us, mtu=0b, ecn=on)}", false),
    ("shape(rate=100mbit){sfq(flows=2000, limit=60)}", false),
    ("cake(rate=1gbit, flows=16, limit=60){fifo(limit=30)}", false),
];
/// The most packets that leave in one pass.
const ROOM: usize = 8;
/// Bytes of a frame that hold its number.
const NUMBER: std::ops::Range<usize> = 42..46;

#[derive(Clone, Debug)]
enum Step {
    Offer(Vec<(u8, u8)>),
    Wait(u64),
    Replace(usize, SchemeChange),
}

fn step(replaces: bool) -> impl Strategy<Value = Step> {
    let kind = (0u8..6, 0u8..4);
    let replace = (0..SCHEMES.len(), 0..SchemeChange::ALL.len());
    prop_oneof![
        4 => prop::collection::vec(kind, 1..40).prop_map(Step::Offer),
        6 => (0u64..200_000).prop_map(Step::Wait),
        u32::from(replaces) => replace.prop_map(|(scheme, way)| Step::Replace(scheme, SchemeChange::ALL[way])),
    ]
}

struct World {
    link: StandaloneLink,
    far: MemoryPort,
    pool: Pool,
    queue: Queue,
    now: Instant,
    /// The time each packet reached the link, and its class.
    given: Vec<(Instant, u8)>,
    /// The class and queueing delay of each packet sent.
    waited: Vec<(u8, u64)>,
}

impl World {
    fn new(scheme: &str, asks_always: bool) -> World {
        let region = Region::new(4096);
        let (near, far) = MemoryWire::pair(ROOM);
        let mut link = StandaloneLink::new(Box::new(near), scheme, Pool::new(region.clone()));
        if asks_always {
            link.disable_bypass();
        }
        let (pool, queue) = (Pool::new(region), Queue::new(4096));
        World { link, far, pool, queue, now: Instant::new(1_000_000), given: Vec::new(), waited: Vec::new() }
    }

    fn frame(&self, flow: u8, ecn: u8) -> Vec<u8> {
        let mut frame = vec![0; 60 + 40 * usize::from(flow)];
        let (to, from) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 9]));
        ethernet::write_header(&mut frame[..14], to, from, None, ethertype::IPV4).unwrap();
        let spec = Ipv4Spec {
            type_of_service: ecn,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: 17,
            source: Ipv4Addr::new(192, 0, 2, flow),
            destination: Ipv4Addr::new(10, 0, 0, 1),
        };
        let length = frame.len() - 34;
        spec.write(&mut frame[14..], length).unwrap();
        frame[NUMBER].copy_from_slice(&(self.given.len() as u32).to_be_bytes());
        frame
    }

    fn offer(&mut self, kinds: &[(u8, u8)]) {
        for &(flow, ecn) in kinds {
            let frame = self.frame(flow, ecn);
            let mut packet = self.pool.take().expect("there are more frames than packets");
            assert!(packet.fill(&frame));
            let meta = packet.meta_mut();
            // Time spent in functions is not queueing delay of the link.
            meta.timestamp = Instant::new(self.now.get() - 700 - u64::from(flow));
            (meta.l3, meta.ecn, meta.class) = (14, ecn, flow % 3);
            assert!(self.queue.push(packet).is_none());
            self.given.push((self.now, flow % 3));
        }
        while !self.queue.is_empty() {
            self.pass();
        }
    }

    /// Serves the link, and notes the delays of the packets sent.
    fn pass(&mut self) {
        self.link.offer_and_serve(self.now, &mut self.queue);
        let mut batch = packet::Batch::new();
        self.far.receive(self.now, &mut batch, &mut self.pool);
        for packet in batch.drain() {
            let number = u32::from_be_bytes(packet.bytes()[NUMBER].try_into().unwrap());
            let (given, class) = self.given[number as usize];
            self.waited.push((class, self.now.since(given).get()));
            self.pool.give(packet);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Offer(kinds) => self.offer(kinds),
            Step::Wait(nanos) => {
                self.now += Nanos::new(*nanos);
                self.pass();
            }
            Step::Replace(scheme, change) => {
                let queueing = StandaloneLink::prepare(SCHEMES[*scheme].0).changing(*change);
                drop(self.link.replace(self.now, queueing));
            }
        }
    }

    fn times(&self, of: impl Fn(u8) -> bool) -> Vec<u64> {
        let mut times: Vec<u64> = self.waited.iter().filter(|(class, _)| of(*class)).map(|(_, time)| *time).collect();
        times.sort_unstable();
        times
    }

    /// Checks the report after any sequence of actions.
    fn check(&mut self) -> LinkReport {
        let (told, counters) = (self.link.report(self.now), self.link.counters());
        same(&told.sojourn, &self.times(|_| true));
        assert_eq!(counters.sent, self.waited.len() as u64);
        assert_eq!(told.drops.iter().map(|(_, packets)| packets).sum::<u64>(), counters.dropped, "{:?}", told.drops);
        let ledger = self.link.ledger();
        told.drops.iter().for_each(|&(reason, packets)| assert_eq!(packets, ledger.dropped_for(reason), "{reason:?}"));
        assert_eq!(told.groups.iter().map(|group| group.packets).sum::<u32>(), told.packets);
        assert_eq!(told.groups.iter().map(|group| group.bytes.get()).sum::<u64>(), told.bytes.get());
        assert!(told.longest.is_sorted_by_key(|queue| std::cmp::Reverse(queue.bytes)));
        told
    }
}

/// Checks that a histogram has these times: exact count, sum and maximum, and quantiles within a sixteenth.
fn same(spread: &HistogramSnapshot, times: &[u64]) {
    let (sum, most) = (times.iter().sum::<u64>(), times.last().copied().unwrap_or(0));
    assert_eq!((spread.count(), spread.sum().get(), spread.most().get()), (times.len() as u64, sum, most));
    for thousandths in [10, 500, 900, 990].into_iter().filter(|_| !times.is_empty()) {
        let exact = times[(times.len() * thousandths as usize).div_ceil(1000).max(1) - 1];
        let told = spread.quantile(thousandths).unwrap().get();
        assert!(told >= exact && told <= exact + exact / 16, "{told} for {exact}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn sojourn_times_equal_those_of_the_packets_per_class(
        scheme in 0..SCHEMES.len(),
        steps in prop::collection::vec(step(false), 1..60),
    ) {
        let (text, by_class) = SCHEMES[scheme];
        let mut world = World::new(text, true);
        steps.iter().for_each(|step| world.step(step));
        let (told, counters) = (world.check(), world.link.counters());
        prop_assert_eq!(told.groups.iter().map(|group| group.marked).sum::<u64>(), counters.marked);
        for (group, class) in told.groups.iter().zip((0..3).rev()).filter(|_| by_class) {
            prop_assert!(group.name.contains(&class.to_string()), "{}", group.name);
            same(&group.sojourn, &world.times(|of| of == class));
            let dropped: u64 = group.drops.iter().map(|(_, packets)| packets).sum();
            let came = world.given.iter().filter(|(_, of)| *of == class).count() as u64;
            prop_assert_eq!(group.sojourn.count() + dropped + u64::from(group.packets), came, "{}: {:?}", group.name, group);
        }
    }

    #[test]
    fn link_counters_survive_scheme_changes_and_bypassing_packets(
        scheme in 0..SCHEMES.len(),
        steps in prop::collection::vec(step(true), 1..60),
    ) {
        let mut world = World::new(SCHEMES[scheme].0, false);
        for step in &steps {
            world.step(step);
            world.check();
        }
    }
}

#[test]
fn link_history_keeps_backlog_and_delay_for_30_seconds() {
    let mut world = World::new("red(min=1, max=900, weight=50%)", true);
    let begin = world.now;
    world.offer(&[(0, 0); 20]);
    let mut seen = Vec::new();
    for look in 0..4u64 {
        world.now = begin + Nanos::millis(100) * look;
        if look > 0 {
            world.pass();
        }
        world.link.sample(world.now);
        let told = world.link.report(world.now);
        let last = told.samples.last().copied().unwrap();
        assert_eq!(last.time, world.now);
        seen.push((last.packets, last.most, last.sent, last.mean.get() / 1_000_000, last.longest.get() / 1_000_000));
        assert_eq!(
            told.states.iter().map(|state| (&*state.group, state.name)).collect::<Vec<_>>(),
            [("all", "avg"), ("all", "p")]
        );
        assert!(told.states.iter().all(|state| state.values.len() == told.samples.len()));
    }
    assert_eq!(seen, [(12, 20, 8, 0, 0), (4, 12, 8, 100, 100), (0, 4, 4, 200, 200), (0, 0, 0, 0, 0)]);
    let told = world.link.report(world.now);
    let avg = &told.states[0].values;
    assert!(avg[0] > 9.0 && avg.iter().all(|value| *value == avg[0]), "it changes as packets arrive: {avg:?}");
    (0..1000u64).for_each(|look| world.link.sample(world.now + Nanos::millis(100) * look));
    assert_eq!(world.link.report(world.now).samples.len(), 300);
    // Another scheme has new state, but the link keeps its history.
    drop(world.link.replace(world.now, StandaloneLink::prepare("codel")));
    world.link.sample(world.now);
    let told = world.link.report(world.now);
    assert_eq!(
        told.states.iter().map(|state| (state.name, &*state.values)).collect::<Vec<_>>(),
        [("count", &[0.0][..]), ("dropping", &[0.0]), ("drop_next", &[0.0]),]
    );
    assert_eq!((told.samples.len(), told.sojourn.count(), told.groups[0].sojourn.count()), (300, 20, 0));
}

#[test]
fn transmit_opportunities_are_used_wasted_or_withheld() {
    let mut world = World::new("shape(rate=8mbit, burst=0b){fifo}", true);
    world.offer(&[(0, 0); 5]);
    // The first packet leaves at once; a packet takes 60 us.
    let wasted = |world: &World| (world.link.counters().wasted, world.link.counters().withheld);
    assert_eq!((world.waited.len(), wasted(&world)), (1, (1, 1)));
    for _ in 0..4 {
        world.now += Nanos::micros(60);
        world.pass();
    }
    assert_eq!((world.waited.len(), wasted(&world)), (5, (5, 4)));
    world.now += Nanos::micros(60);
    world.pass();
    assert_eq!(wasted(&world), (6, 4));
    let mut busy = World::new("fifo", true);
    busy.offer(&[(0, 0); 20]);
    assert_eq!(wasted(&busy), (0, 0), "the wire is full, and they wait for it");
}

#[test]
fn link_history_is_sampled_ten_times_a_second_and_matches_path_reports() {
    let mut rig = Rig::running(1024, Layout::Three, LAN_AND_WAN);
    for round in 0..20u16 {
        (0..5).for_each(|i| rig.send("lan", &UdpFrame::between_ports(round * 5 + i, 9).frame(&[])));
        rig.advance(Nanos::millis(100));
    }
    let told = rig.worker.links(None).links;
    let paths: Vec<HistogramSnapshot> =
        rig.report().paths.into_iter().map(|path| path.latency.after_functions).collect();
    let sum = |of: fn(&HistogramSnapshot) -> u64, spreads: &mut dyn Iterator<Item = &HistogramSnapshot>| {
        spreads.map(of).sum::<u64>()
    };
    for of in [HistogramSnapshot::count as fn(&HistogramSnapshot) -> u64, |spread| spread.sum().get()] {
        assert_eq!(sum(of, &mut told.iter().map(|link| &link.sojourn)), sum(of, &mut paths.iter()));
    }
    let ports: Vec<PortId> = told.iter().map(|link| link.port).collect();
    let (wan, one) = (told.iter().find(|link| link.counters.sent >= 100).expect("they went there"), told.len());
    assert_eq!((one, wan.counters.passed, wan.used > Nanos::ZERO), (2, wan.counters.sent, true));
    assert!((19..=22).contains(&wan.samples.len()), "{}", wan.samples.len());
    assert!(wan.samples.windows(2).all(|pair| pair[1].time.since(pair[0].time) >= Nanos::millis(100)));
    assert_eq!(wan.samples.iter().map(|sample| sample.sent).sum::<u64>(), wan.counters.sent);
    let alone = rig.worker.links(Some(wan.port)).links;
    assert_eq!(alone.iter().map(|link| link.port).collect::<Vec<_>>(), [wan.port], "of {ports:?}");
}
