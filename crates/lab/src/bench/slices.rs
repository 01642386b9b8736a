//! The cost of slices beside plain forwarding of frames of the same length by a router with the same ports.
//!
//! A packet of a slice leaves with another outer header than it arrived with. So all frames, also those of the plain router, get their first content
//! again between two passes, which are not timed.

use super::components::sequence;
use super::forwarding::{BenchRouter, BenchTable, SPARE};
use super::writer::timed;
use super::{BenchFigure, Rounds, median, medians};
use io::clock::CycleCounter;
use packet::event::Silent;
use plan::ShareName;
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use slice::bands::{BandFilters, FilterBands};
use slice::code::{CodeConfig, i3, ipv4};
use slice::{FilterAction, FilterEdit, QueueSpec, SchedulerId, SliceQuota, SliceRates, SliceSpec, Slices};
use std::net::Ipv4Addr;
use units::{Bytes, Mac, Nanos};

/// The most time of a packet of an IPv4 slice, in times of plain forwarding.
const IPV4_BUDGET: f64 = 1.6;
/// The same of an I3 slice.
const I3_BUDGET: f64 = 2.0;
/// The most time of a packet with a full table of filters, in times of that with a table of 1024.
const FULL_TABLE_BUDGET: f64 = 2.0;
/// The most time to make a slice that forwards, in milliseconds.
const CREATION_BUDGET: f64 = 5.0;
/// The most time of one change of a full table, in milliseconds.
const CHANGE_BUDGET: f64 = 1.0;
/// The time of a step, about that of a batch. Without it the meters would earn no credit.
const STEP: Nanos = Nanos::micros(5);
/// The numbers of slices.
const COUNTS: [u16; 3] = [1, 8, 64];
/// Frames of a measurement; with many filters so many that their filters do not fit into the first caches.
const FRAMES: usize = 1024;
const MANY_FRAMES: usize = 16_384;
/// Passes of a round.
const PASSES: usize = 40;
/// Filters of a small table, and of a full one, which leaves some places for changes.
const FEW_FILTERS: usize = 1024;
const MANY_FILTERS: usize = (128 << 10) - 64;
/// Changes of a full table.
const CHANGES: u32 = 64;
/// Bytes of the headers of an outer packet with its link header.
const OUTER: usize = 42;
/// Bytes of an inner packet: IPv4 and UDP without payload.
const INNER: usize = 28;
/// Routers and triggers of a ring of I3.
const RING: u32 = 64;
const TRIGGERS: usize = 1000;

const IN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OUT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const NEXT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
/// The UDP port of the first slice.
const PORT: u16 = 20_000;

/// The ports of both routers: the output port has a scheduler of shares. The second route is that of I3's end systems.
fn ports() -> String {
    let scheme = "scheme = \"share(rate=1tbit, leaves=256, overhead=24b){fifo(limit=4096)}\"\nshares = [\"engine rate 900gbit\"]\n";
    let ports = BenchTable::Few.config().replace("[port.out]\n", &format!("[port.out]\n{scheme}"));
    ports + &format!("[[route]]\nto = \"198.18.0.0/15\"\nvia = \"{}\"\n", BenchTable::gateway(0))
}

fn udp(network: (Ipv4Addr, Ipv4Addr), ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
    UdpFrame { link, network, ports, ttl: 64, length: OUTER + payload.len() }.frame(payload)
}

/// An inner packet to this address, without a link header.
fn inner(to: u32) -> Vec<u8> {
    udp((Ipv4Addr::new(172, 16, 0, 1), to.into()), (7, 7), &[]).split_off(OUTER - INNER)
}

/// A router, and the content of its frames.
struct Course {
    router: BenchRouter,
    frames: Vec<Vec<u8>>,
    counter: CycleCounter,
    slices: Slices,
}

impl Course {
    /// A router without slices that forwards frames of the same lengths as these by its four routes.
    fn plain(like: &[Vec<u8>]) -> Course {
        let to = BenchTable::Few.destinations(like.len());
        let frame = |(to, like): (&u32, &Vec<u8>)| {
            udp((Ipv4Addr::new(192, 0, 2, 7), (*to).into()), (9, 9), &vec![0; like.len() - OUTER])
        };
        let frames = to.iter().zip(like).map(frame).collect();
        Course::start("", frames, |_, _| ())
    }

    /// A router with slices, which `furnish` makes.
    fn sliced(frames: Vec<Vec<u8>>, furnish: impl FnOnce(&mut Rig, &mut Slices)) -> Course {
        let path = format!(
            "[[path]]\nname = \"slices\"\nmatch = \"ip daddr {IN} udp dport 20000-29999\"\nfunctions = [\"slice\"]\nqueue = 4096\n"
        );
        Course::start(&path, frames, furnish)
    }

    fn start(path: &str, frames: Vec<Vec<u8>>, furnish: impl FnOnce(&mut Rig, &mut Slices)) -> Course {
        let mut rig = Rig::new(frames.len() + SPARE, Layout::Three, Box::new(Silent));
        let mut slices = Slices::default();
        slices.provide(&mut rig.router);
        rig.apply(&(ports() + path)).unwrap_or_else(|errors| panic!("{errors:?}"));
        furnish(&mut rig, &mut slices);
        let mut router = BenchRouter::of(rig, frames.iter().cloned());
        // The scheme is called for every packet, also if no packet waits.
        router.call_scheme_always();
        router.step_time = STEP;
        Course { router, frames, counter: CycleCounter::calibrated(), slices }
    }

    /// Forwards every frame so many times. Returns nanoseconds per packet.
    fn run(&mut self, passes: usize) -> f64 {
        let mut sum = 0.0;
        for _ in 0..passes {
            for (packet, frame) in self.router.frames_mut().iter_mut().zip(&self.frames) {
                assert!(packet.fill(frame), "it has been in this frame before");
            }
            sum += self.router.run_router(1);
        }
        sum / passes as f64
    }

    /// Milliseconds of each of some changes: filters that are deleted and inserted again.
    fn change_times(&mut self, filters: &[FilterEdit]) -> Vec<f64> {
        let mut times = Vec::new();
        for edit in filters {
            let FilterEdit::Insert(position, _) = edit else { continue };
            for edit in [FilterEdit::Delete(*position), edit.clone()] {
                let (took, made) = timed(&self.counter, || self.slices.edit_filters("s0", &[edit]));
                made.expect("the filter is there, or is not");
                times.push(took * 1e3);
            }
            // A worker takes over each table, so that the former one is freed.
            self.router.settle();
        }
        times
    }
}

fn scheduler() -> SchedulerId {
    SchedulerId { port: "out".into(), share: Some(ShareName::new("engine").expect("it is a name")) }
}

/// Sends by the slice's queue to the next node.
fn send() -> FilterAction {
    FilterAction::Send { queue: 1, interface: 1, next: (NEXT, 9000).into(), data: [0; 32] }
}

/// Makes a slice that forwards: meta-interfaces, a queue, and filters.
fn make_slice((rig, slices): (&mut Rig, &mut Slices), number: u16, code: &str, filters: &[FilterEdit]) {
    let name = format!("s{number}");
    let spec = SliceSpec {
        name: name.as_str().into(),
        code: code.into(),
        config: CodeConfig::default(),
        quota: SliceQuota {
            filters: filters.len() + 32,
            indices: 16,
            memory: Bytes::new(4096),
            ..SliceQuota::default()
        },
        drops_unmatched: false,
        owner: None,
    };
    let made = slices.create(spec).and_then(|()| {
        slices.create_interface(&rig.router, &name, (0, (IN, PORT + number).into()))?;
        slices.create_interface(&rig.router, &name, (1, (OUT, PORT + number).into()))?;
        slices.reserve(&mut rig.router, &name, &scheduler(), SliceRates::default())?;
        let queue = QueueSpec { scheduler: scheduler(), weight: 1, limit: None };
        slices.set_queue(&mut rig.router, &name, (1, queue))?;
        slices.edit_filters(&name, filters)
    });
    made.unwrap_or_else(|error| panic!("{error}"));
}

/// A filter for all packets to 10.0.0.0/8.
fn one_route() -> Vec<FilterEdit> {
    let mut wanted = BandFilters::new();
    wanted.insert(ipv4::route4(Ipv4Addr::new(10, 0, 0, 0), 8).expect("it is a length"), send());
    FilterBands::default().update(&wanted)
}

/// So many routes with prefixes of 16 to 32 bits, and an address of each.
fn many_routes(count: usize) -> (Vec<FilterEdit>, Vec<u32>) {
    let (mut wanted, mut addresses) = (BandFilters::new(), Vec::new());
    let mut random = sequence(23);
    while wanted.len() < count {
        let random = random.next().unwrap_or(0) >> 8;
        let (address, length) = (0x0a00_0000 | random as u32 & 0xff_ffff, 16 + (random >> 32) as u8 % 17);
        wanted.insert(ipv4::route4(address.into(), length).expect("it is a length"), send());
        addresses.push(address);
    }
    (FilterBands::default().update(&wanted), addresses)
}

/// A frame for slice `number`.
fn sliced(number: u16, inner: &[u8]) -> Vec<u8> {
    udp((Ipv4Addr::new(192, 0, 2, 7), IN), (9, PORT + number), inner)
}

/// So many slices in turn.
fn ipv4_slices(count: u16) -> Course {
    let to = BenchTable::Few.destinations(FRAMES);
    let frame = |(i, to): (usize, &u32)| sliced(i as u16 % count, &inner(*to));
    Course::sliced(to.iter().enumerate().map(frame).collect(), |rig, slices| {
        (0..count).for_each(|number| make_slice((rig, slices), number, "ipv4", &one_route()));
    })
}

/// One slice with so many filters, and the filters.
fn filtered(count: usize) -> (Course, Vec<FilterEdit>) {
    let (filters, addresses) = many_routes(count);
    let mut random = sequence(29);
    let mut address = || addresses[(random.next().unwrap_or(0) >> 8) as usize % addresses.len()];
    let frames = (0..MANY_FRAMES).map(|_| sliced(0, &inner(address()))).collect();
    (Course::sliced(frames, |rig, slices| make_slice((rig, slices), 0, "ipv4", &filters)), filters)
}

/// A router of a ring of I3: most packets are for other routers, some for its own triggers.
fn i3_slice() -> Course {
    let mut workload = i3::I3Workload::new(31, RING, TRIGGERS, false);
    let own = *workload.nodes().next().expect("the ring has routers");
    let filters = i3::filters(&workload.router(&own), |_| (1, 1));
    let frames = (0..FRAMES).map(|_| sliced(0, &workload.packet(0))).collect();
    let filters = FilterBands::default().update(&filters);
    Course::sliced(frames, |rig, slices| make_slice((rig, slices), 0, "i3", &filters))
}

/// Two courses in turn: nanoseconds a packet of the first, of the second, and the ratio.
fn beside(Rounds(rounds): Rounds, first: &mut Course, second: &mut Course) -> (f64, f64, f64) {
    let mut pairs = Vec::new();
    for round in 0..=rounds {
        let passes = (PASSES * FRAMES / first.frames.len()).max(1);
        let pair = (first.run(passes), second.run(passes));
        // The first round only warms up.
        if round > 0 {
            pairs.push(pair);
        }
    }
    medians(&pairs)
}

/// The time to make the last of 64 slices, in milliseconds.
fn creation_time() -> f64 {
    let counter = CycleCounter::calibrated();
    let mut took = 0.0;
    Course::sliced(Vec::new(), |rig, slices| {
        let last = COUNTS[COUNTS.len() - 1] - 1;
        (0..last).for_each(|number| make_slice((rig, slices), number, "ipv4", &one_route()));
        (took, ()) = timed(&counter, || make_slice((rig, slices), last, "ipv4", &one_route()));
    });
    took * 1e3
}

/// Measures the group.
pub fn measure(rounds: Rounds) -> Vec<BenchFigure> {
    let against = |name: String, costs, budget| BenchFigure::against("slices", name, costs, "ns/packet", Some(budget));
    let mut figures = Vec::new();
    for count in COUNTS {
        let mut slices = ipv4_slices(count);
        let mut plain = Course::plain(&slices.frames);
        let costs = beside(rounds, &mut slices, &mut plain);
        figures.push(against(format!("{count} IPv4 slices, 0 B in UDP, beside plain forwarding"), costs, IPV4_BUDGET));
    }
    let mut slices = i3_slice();
    let mut plain = Course::plain(&slices.frames);
    let costs = beside(rounds, &mut slices, &mut plain);
    figures.push(against("an I3 slice, 0 B in I3, beside plain forwarding".into(), costs, I3_BUDGET));
    let ((mut full, filters), (mut small, _)) = (filtered(MANY_FILTERS), filtered(FEW_FILTERS));
    let costs = beside(rounds, &mut full, &mut small);
    figures.push(against(
        format!("{MANY_FILTERS} filters beside {FEW_FILTERS}, {MANY_FRAMES} random destinations"),
        costs,
        FULL_TABLE_BUDGET,
    ));
    let some: Vec<FilterEdit> =
        filters.into_iter().step_by(MANY_FILTERS / CHANGES as usize).take(CHANGES as usize).collect();
    let times: Vec<Vec<f64>> = (0..rounds.0).map(|_| full.change_times(&some)).collect();
    let times: Vec<f64> = (0..times[0].len()).map(|i| median(times.iter().map(|times| times[i]).collect())).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let alone = |name: &str, value, budget| BenchFigure::alone("slices", name, value, "ms", Some(budget));
    figures.push(alone("one change of a full table, mean", mean, CHANGE_BUDGET));
    let slowest = times.iter().copied().fold(0.0, f64::max);
    figures.push(alone("one change of a full table, the slowest of 128", slowest, CHANGE_BUDGET));
    let creation = median((0..rounds.0).map(|_| creation_time()).collect());
    figures.push(alone("a slice that forwards, made beside 63 others", creation, CREATION_BUDGET));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_course_forwards_all_frames() {
        for mut course in [ipv4_slices(1), ipv4_slices(64), i3_slice(), filtered(FEW_FILTERS).0] {
            let lengths: Vec<Vec<u8>> = course.frames.clone();
            assert!(course.run(2) > 0.0);
            assert!(Course::plain(&lengths).run(2) > 0.0);
        }
    }

    #[test]
    fn changed_filters_keep_their_number() {
        let (mut course, filters) = filtered(FEW_FILTERS);
        assert_eq!(course.change_times(&filters[..3]).len(), 6);
        assert!(course.run(1) > 0.0, "all destinations have filters again");
    }
}
