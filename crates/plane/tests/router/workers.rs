//! A router of several workers runs through random days. Workers step in any order, and some pause. Neighbours are
//! resolved, lost and resolved with other addresses while flows are active. Configurations change at any moment.
//!
//! Every handoff completes. No packet overtakes another of its flow. Every flow leaves by one queue, and below capacity no
//! packet is lost. The days are seeded, so failures are reproducible.

use packet::DropReason;
use packet::port::Port;
use packet::wire::{Ipv4Spec, arp, ethernet, ethertype};
use plane::rig::WorkerGroup;
use plane::snapshot::Layout;
use plane::{PublishedGeneration, StepResult};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::Ipv4Addr;
use units::{InterfaceId, Mac, Nanos};

const FRAMES: usize = 32768;
const PORTS: [&str; 3] = ["lan", "wan", "ext"];

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A flow: ingress port, number of the source, destination address, destination port.
type Flow = (u8, u8, Ipv4Addr, u16);

struct Day {
    team: WorkerGroup,
    chance: Chance,
    queues: usize,
    published: Option<PublishedGeneration>,
    /// Changes so far.
    changes: usize,
    /// The next number of each flow.
    next: BTreeMap<Flow, u32>,
    /// The last number received of each flow, and its wire.
    last: BTreeMap<Flow, (u32, String)>,
    sent: u64,
    delivered: u64,
    /// Pending answers of hosts to the router's neighbour requests: wire and frame.
    answers: Vec<(String, Vec<u8>)>,
    /// How often neighbours have changed their addresses.
    moves: u8,
    /// Ports whose hosts do not receive.
    deaf: [bool; 3],
    /// If set, hosts always answer and receive, never change their address and never overload the router.
    gentle: bool,
}

impl Day {
    fn begin(seed: u64, gentle: bool) -> Day {
        let mut chance = Chance(seed);
        let workers = 2 + chance.below(3);
        let queues = 1 + chance.below(workers);
        let layout = [Layout::One, Layout::Two, Layout::Three][chance.below(3)];
        let mut team = WorkerGroup::new(workers as u16, queues, FRAMES, layout);
        team.wires.length = if gentle { 2048 } else { 512 };
        let (next, last, answers) = Default::default();
        let mut day = Day {
            team,
            chance,
            queues,
            published: None,
            changes: 0,
            next,
            last,
            sent: 0,
            delivered: 0,
            answers,
            moves: 0,
            deaf: [false; 3],
            gentle,
        };
        day.change();
        day.finish_change();
        day
    }

    fn config(&mut self) -> String {
        let workers = self.team.workers.len();
        let mut text = format!("version = 1\n[router]\nworkers = {workers}\n");
        for (i, name) in PORTS.iter().enumerate() {
            let limit = if self.gentle { 4000 } else { 20 + self.chance.below(400) };
            write!(text, "[port.{name}]\ndevice = \"memory:{name}\"\nmac = \"02:00:00:00:00:0{i}\"\n").unwrap();
            write!(text, "address = [\"192.0.{i}.1/24\"]\nscheme = \"fifo(limit={limit})\"\n").unwrap();
        }
        if self.chance.one_in(2) {
            let n = self.changes;
            write!(text, "[port.x{n}]\ndevice = \"memory:x{n}\"\naddress = [\"172.16.{}.1/24\"]\n", n % 256).unwrap();
        }
        // The router resolves the gateways; the choice of gateway never changes.
        for i in 0..3 {
            write!(text, "[[route]]\nto = \"10.{i}.0.0/16\"\nvia = \"192.0.{i}.9\"\n").unwrap();
        }
        if self.chance.one_in(2) {
            text.push_str("[[route]]\nto = \"10.9.0.0/16\"\nblackhole = true\n");
        }
        for path in 0..self.chance.below(3) {
            let queue = if self.gentle { 4000 } else { 1 + self.chance.below(600) };
            write!(text, "[[path]]\nname = \"p{path}\"\nmatch = \"udp dport {path}\"\nqueue = {queue}\n").unwrap();
        }
        text
    }

    /// Publishes another configuration if the last one has been adopted.
    fn change(&mut self) {
        if self.published.is_none() {
            self.changes += 1;
            let text = self.config();
            self.published = Some(self.team.publish(&text).unwrap_or_else(|errors| panic!("{errors:?}")));
        }
    }

    fn finish_change(&mut self) {
        for _ in 0..100_000 {
            let worker = self.chance.below(self.team.workers.len());
            self.step(worker);
            if self.published.is_none() {
                return;
            }
        }
        panic!("never adopted: {:?}", self.team.reports());
    }

    fn step(&mut self, worker: usize) -> StepResult {
        let step = self.team.step(worker);
        if self.published.as_mut().is_some_and(PublishedGeneration::is_adopted) {
            self.team.router.complete(self.published.take().unwrap());
        }
        step
    }

    /// A few steps of workers in any order; one worker may be left out.
    fn steps(&mut self) {
        let lazy = self.chance.below(2 * self.team.workers.len());
        for _ in 0..self.chance.below(60) {
            let worker = self.chance.below(self.team.workers.len());
            if worker != lazy {
                self.step(worker);
            }
            if !self.gentle && self.chance.one_in(8) {
                self.meddle();
            }
        }
    }

    /// Removes or restores a next hop between two steps without notifying workers. A worker sees the same if another one
    /// changes the tables during its step.
    fn meddle(&mut self) {
        let link = self.chance.below(3);
        let Some(interface) = self.team.router.snapshot().interface_named(PORTS[link]).map(|known| known.id) else {
            return;
        };
        let host = if self.chance.one_in(2) { 9 } else { 20 + self.chance.below(5) as u8 };
        let (address, tables) = (Ipv4Addr::new(192, 0, link as u8, host), self.team.router.tables().clone());
        if self.chance.one_in(3) {
            tables.unresolve(interface, address.into());
        } else {
            assert!(tables.resolve(interface, address.into(), Mac([2, 0xbb, 0, 0, 0, host])), "there are adjacencies");
        }
    }

    /// The wire (device queue) on which packets of the flow arrive.
    fn wire(&self, (port, source, _, dport): Flow) -> String {
        let queue = (usize::from(source) * 7 + usize::from(dport)) % self.queues;
        let name = PORTS[usize::from(port)];
        if queue == 0 { name.into() } else { format!("{name}#{queue}") }
    }

    /// A host sends some packets of a flow.
    fn send(&mut self) {
        let port = self.chance.below(3) as u8;
        let host = if self.chance.one_in(2) { 9 } else { 20 + self.chance.below(5) };
        let to = self.chance.below(3) as u8;
        // Behind the gateway of a link, or a host on it.
        let destination = if host == 9 { Ipv4Addr::new(10, to, 1, 1) } else { Ipv4Addr::new(192, 0, to, host as u8) };
        let flow = (port, self.chance.below(6) as u8, destination, self.chance.below(4) as u16);
        let wire = self.wire(flow);
        let most = if self.gentle { 3 } else { [3, 60, 400][self.chance.below(3)] };
        for _ in 0..1 + self.chance.below(most) {
            if self.team.wires.far[&wire].room() == 0 || self.team.pool.frames_in_use() > FRAMES as u64 / 4 {
                return;
            }
            let number = self.next.entry(flow).or_default();
            *number += 1;
            let frame = frame(flow, *number);
            self.team.send(&wire, &frame);
            self.sent += 1;
        }
    }

    /// Hosts receive frames: they check packets of flows, and answer requests now or later.
    fn take(&mut self) {
        let wires: Vec<String> = self.team.wires.far.keys().cloned().collect();
        let deaf = |wire: &String| (0..3).any(|port| self.deaf[port] && wire.starts_with(PORTS[port]));
        for wire in wires.into_iter().filter(|wire| !deaf(wire)).collect::<Vec<_>>() {
            for frame in self.team.received(&wire) {
                if let Some(question) =
                    arp::Arp::parse(&frame[14.min(frame.len())..]).ok().filter(|_| frame[12..14] == [8, 6])
                {
                    self.hear(&wire, &question);
                } else if let Some((flow, number)) = numbered(&frame) {
                    self.delivered += 1;
                    match self.last.insert(flow, (number, wire.clone())) {
                        Some((last, before)) => {
                            assert!(last < number, "{flow:?}: {number} comes after {last}");
                            assert_eq!(before, wire, "{flow:?} changes its way");
                        }
                        None => assert!(number >= 1),
                    }
                }
            }
        }
    }

    fn hear(&mut self, wire: &str, question: &arp::Arp) {
        let router = (question.sender_mac, question.sender_ip);
        if question.sender_ip == question.target_ip || wire.starts_with('x') {
            return;
        }
        let mac = Mac([2, 0xaa, 0, self.moves, 0, question.target_ip.octets()[3]]);
        // The answer arrives on any queue.
        let queue = self.chance.below(self.queues);
        let base = wire.split('#').next().unwrap();
        let wire = if queue == 0 { base.to_owned() } else { format!("{base}#{queue}") };
        self.answers.push((wire, reply((mac, question.target_ip), router)));
    }

    /// Hosts send pending answers, if they answer at all.
    fn answer(&mut self) {
        for (wire, frame) in std::mem::take(&mut self.answers) {
            let far = self.team.wires.far.get(&wire);
            if far.is_some_and(|far| far.is_up() && far.room() > 0) && (self.gentle || !self.chance.one_in(4)) {
                self.team.send(&wire, &frame);
            }
        }
    }

    fn hour(&mut self) {
        match self.chance.below(24) {
            0 => self.change(),
            1 => {
                let night = if self.deaf.contains(&true) { 1_000_000 } else { 40_000_000_000 };
                let span = [1_000, 100_000, night][self.chance.below(3)];
                let span = Nanos::new(self.chance.next() % span);
                self.pass(span);
            }
            2 if !self.gentle && self.chance.one_in(2) => self.moves = self.moves.wrapping_add(1),
            2 if !self.gentle => self.deaf[self.chance.below(3)] ^= true,
            3..6 => self.answer(),
            6..9 => self.take(),
            9..18 => self.steps(),
            _ => self.send(),
        }
    }

    /// Lets time pass in small steps with answers, because gentle hosts must answer before the third request.
    fn pass(&mut self, span: Nanos) {
        let end = self.team.now + span;
        while self.team.now < end {
            self.take();
            self.answer();
            self.team.settle();
            self.finish_pending();
            self.team.now += Nanos::new((end.since(self.team.now).get()).min(400_000_000));
        }
        self.team.settle();
        self.finish_pending();
    }

    fn finish_pending(&mut self) {
        if self.published.as_mut().is_some_and(PublishedGeneration::is_adopted) {
            self.team.router.complete(self.published.take().unwrap());
        }
    }

    /// Checks that packets handed off equal packets received from handoff plus those still between the workers.
    fn check(&self) {
        let reports = self.team.reports();
        let handed: u64 = reports.iter().map(|report| report.ledger.handed_over()).sum();
        let taken: u64 = reports.iter().map(|report| report.ledger.taken_over()).sum();
        assert!((taken..=taken + 30_000).contains(&handed), "{handed} handed over, {taken} taken over");
    }

    /// Lets time pass until no packet is left. Returns the drop reasons.
    fn end(mut self) -> BTreeSet<DropReason> {
        self.deaf = [false; 3];
        for _ in 0..3 {
            self.pass(Nanos::secs(20));
            self.take();
        }
        self.check();
        let reports = self.team.reports();
        assert!(self.published.is_none(), "the last change was adopted");
        let ports = self.team.router.plan().unwrap().ports.len();
        for report in &reports {
            assert_eq!((report.held_packets, report.ledger.outstanding()), (0, 0), "nothing is left: {report:?}");
            assert_eq!(report.ports.len(), ports, "removed ports are gone");
        }
        let sum = |of: fn(&packet::Ledger) -> u64| reports.iter().map(|report| of(&report.ledger)).sum::<u64>();
        assert_eq!(sum(packet::Ledger::handed_over), sum(packet::Ledger::taken_over));
        assert_eq!(self.team.pool.frames_in_use(), 0, "the hosts hold nothing");
        let mut drops: BTreeMap<DropReason, u64> = BTreeMap::new();
        for (reason, packets) in reports.iter().flat_map(|report| report.ledger.drops()) {
            *drops.entry(reason).or_default() += packets;
        }
        if self.gentle {
            assert_eq!(self.delivered, self.sent, "nothing is lost: {drops:?}");
        }
        assert!(self.delivered > self.sent / 20, "{} of {} delivered: {drops:?}", self.delivered, self.sent);
        let busy = reports.iter().filter(|report| report.ledger.taken_over() + report.ledger.received() > 20).count();
        assert_eq!(busy, reports.len(), "every worker has something to do");
        let now = self.team.now;
        self.team.workers.iter_mut().for_each(|worker| worker.shut_down(now));
        let WorkerGroup { router, workers, pool, wires, .. } = self.team;
        drop((workers, pool, wires));
        assert_eq!(router.region().spare(), FRAMES, "every frame is back");
        drops.into_keys().collect()
    }
}

fn frame((port, source, destination, dport): Flow, number: u32) -> Vec<u8> {
    let mut frame = vec![0; 64];
    let to = Mac([2, 0, 0, 0, 0, port]);
    ethernet::write_header(&mut frame[..14], to, Mac([2, 0, 0, 0, 0, 0xaa]), None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, port, 200 + source),
        destination,
    };
    spec.write(&mut frame[14..], 30).unwrap();
    frame[36..38].copy_from_slice(&dport.to_be_bytes());
    frame[46..50].copy_from_slice(&number.to_be_bytes());
    frame
}

/// The flow and the number of a packet made by [`frame`]; `None` for other frames.
fn numbered(frame: &[u8]) -> Option<(Flow, u32)> {
    let packet = frame.get(14..).filter(|packet| packet.len() == 50 && packet[0] == 0x45 && packet[9] == 17)?;
    let destination = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
    let dport = u16::from_be_bytes([packet[22], packet[23]]);
    let number = u32::from_be_bytes(packet[32..36].try_into().ok()?);
    Some(((packet[14], packet[15] - 200, destination, dport), number))
}

fn reply(from: (Mac, Ipv4Addr), to: (Mac, Ipv4Addr)) -> Vec<u8> {
    let mut frame = vec![0; 42];
    ethernet::write_header(&mut frame[..14], to.0, from.0, None, ethertype::ARP).unwrap();
    let body = [&[0, 1, 8, 0, 6, 4, 0, 2][..], &from.0.0, &from.1.octets(), &to.0.0, &to.1.octets()].concat();
    frame[14..].copy_from_slice(&body);
    frame
}

fn days(seeds: std::ops::Range<u64>, gentle: bool, hours: usize) -> BTreeSet<DropReason> {
    let mut reasons = BTreeSet::new();
    for seed in seeds {
        #[expect(clippy::print_stdout, reason = "shown where a day fails")]
        {
            println!("seed {seed}");
        }
        let mut day = Day::begin(seed, gentle);
        for _ in 0..hours {
            day.hour();
            day.check();
        }
        reasons.extend(day.end());
    }
    reasons
}

#[test]
fn below_capacity_no_packet_is_lost_or_reordered_in_any_worker_order() {
    days(0..12, true, 1200);
}

#[test]
fn flows_keep_order_under_random_traffic_and_changes() {
    let reasons = days(100..112, false, 1200);
    for reason in [DropReason::NeighbourQueue, DropReason::SchemeArrival] {
        assert!(reasons.contains(&reason), "in no day a packet was dropped for {reason}: {reasons:?}");
    }
}

/// A port sends packets of its flow, with these numbers.
fn send(team: &mut WorkerGroup, port: usize, numbers: std::ops::Range<u32>) {
    for number in numbers {
        team.send(PORTS[port], &frame((port as u8, 0, Ipv4Addr::new(10, 0, 0, 1), 7), number));
    }
}

/// All packets go to a gateway behind `ext`; `more` is appended.
fn to_gateway(more: &str) -> String {
    let mut text = String::from("version = 1\n[[route]]\nto = \"10.0.0.0/8\"\nvia = \"192.0.2.9\"\n");
    for (i, name) in PORTS.iter().enumerate() {
        write!(text, "[port.{name}]\ndevice = \"memory:{name}\"\nmac = \"02:00:00:00:00:0{i}\"\n").unwrap();
        writeln!(text, "address = [\"192.0.{i}.1/24\"]").unwrap();
    }
    text.push_str("[[neighbour]]\naddress = \"192.0.2.9\"\nmac = \"02:bb:00:00:00:09\"\nport = \"ext\"\n");
    text + more
}

/// A router with this configuration, the interface of the gateway, and its address.
fn one_path(more: &str) -> (WorkerGroup, InterfaceId, std::net::IpAddr) {
    let mut team = WorkerGroup::new(1, 1, FRAMES, Layout::Three);
    team.round_robin = true;
    team.apply(&to_gateway(more));
    team.settle();
    let interface = team.router.snapshot().interface_named("ext").unwrap().id;
    (team, interface, Ipv4Addr::new(192, 0, 2, 9).into())
}

/// The numbers of packets that wait for the gateway, and of those on the paths.
fn waiting(team: &WorkerGroup) -> (usize, usize) {
    let report = team.workers[0].report();
    let held = report.neighbours.iter().map(|neighbour| neighbour.pending).sum();
    (held, report.queues.iter().map(|queue| queue.input).sum())
}

/// Receives the frames at `ext`, checks the order of each flow, and returns their number.
fn in_order(team: &mut WorkerGroup) -> usize {
    let (mut last, mut came) = (BTreeMap::new(), 0);
    for (flow, number) in team.received("ext").iter().filter_map(|frame| numbered(frame)) {
        let before = last.insert(flow, number);
        assert!(before < Some(number), "{flow:?}: {number} comes after {before:?}");
        came += 1;
    }
    came
}

/// A next hop is lost while a path is full, and returns before the next batch of the path. Later packets of the path must
/// not overtake those that found the next hop lost. (The sweep of packets queued on the path.)
#[test]
fn packets_on_a_path_do_not_overtake_one_without_next_hop() {
    for full in [3, 5, 7] {
        let (mut team, interface, gateway) = one_path("");
        // Three flows, each with more than a batch.
        (0..3).for_each(|port| send(&mut team, port, 1..800));
        while waiting(&team).1 < full * 256 {
            assert_eq!(team.step(0), StepResult::Ran);
        }
        team.router.tables().unresolve(interface, gateway);
        while waiting(&team).0 == 0 {
            team.step(0);
        }
        assert!(team.router.tables().resolve(interface, gateway, Mac([2, 0xbb, 0, 0, 0, 9])));
        team.settle();
        assert!(in_order(&mut team) > 256);
    }
}

/// Packets on a path lose their next hop after later packets, fresh from a port, have begun to wait for it. The packets of
/// the path leave first. (The list of early packets.)
#[test]
fn earlier_packets_on_a_path_precede_later_arrivals() {
    let (mut team, interface, gateway) = one_path("");
    // A batch of another flow, and five packets behind it.
    send(&mut team, 0, 1..257);
    send(&mut team, 1, 1..6);
    while waiting(&team).1 < 261 {
        team.step(0);
    }
    while waiting(&team).1 > 5 {
        team.step(0);
    }
    team.router.tables().unresolve(interface, gateway);
    // The input tasks run next, and these packets find the next hop lost on arrival.
    send(&mut team, 1, 6..11);
    while waiting(&team) != (10, 0) {
        team.step(0);
    }
    assert!(team.router.tables().resolve(interface, gateway, Mac([2, 0xbb, 0, 0, 0, 9])));
    team.settle();
    assert_eq!(in_order(&mut team), 266);
}

/// Packets of a path lose their next hop, get it back, and lose it again after only the first of them have continued. These
/// still leave before the others. (Packets of a path precede all others.)
#[test]
fn packets_that_lose_their_next_hop_twice_keep_their_place() {
    let path = |queue: usize| format!("[[path]]\nname = \"p\"\nmatch = \"udp\"\nqueue = {queue}\n");
    for steps in 0..12 {
        let (mut team, interface, gateway) = one_path(&path(8));
        let mac = Mac([2, 0xbb, 0, 0, 0, 9]);
        send(&mut team, 1, 1..9);
        while waiting(&team).1 < 8 {
            team.step(0);
        }
        team.router.tables().unresolve(interface, gateway);
        while waiting(&team) != (8, 0) {
            team.step(0);
        }
        (0..steps).for_each(|_| _ = team.step(0));
        // From now on the path has room for four. The router resolves the gateway again with this generation.
        let mut published = team.publish(&to_gateway(&path(4))).unwrap();
        while !published.is_adopted() {
            team.step(0);
        }
        team.router.tables().unresolve(interface, gateway);
        (0..3).for_each(|_| _ = team.step(0));
        assert!(team.router.tables().resolve(interface, gateway, mac));
        team.router.complete(published);
        team.settle();
        // A packet that finds its next hop lost too often is dropped.
        assert!(in_order(&mut team) >= 4, "{steps} steps");
    }
}

/// Three flows to one next hop fill its path, which is lost at one moment and back at another: every pair of moments.
#[test]
fn next_hop_loss_with_full_queues_reorders_no_flow() {
    let mut team = WorkerGroup::new(1, 1, FRAMES, Layout::Three);
    team.round_robin = true;
    let mut text = String::from("version = 1\n[[route]]\nto = \"10.0.0.0/8\"\nvia = \"192.0.2.9\"\n");
    for (i, name) in PORTS.iter().enumerate() {
        write!(text, "[port.{name}]\ndevice = \"memory:{name}\"\nmac = \"02:00:00:00:00:0{i}\"\n").unwrap();
        writeln!(text, "address = [\"192.0.{i}.1/24\"]").unwrap();
    }
    text.push_str("[[neighbour]]\naddress = \"192.0.2.9\"\nmac = \"02:bb:00:00:00:09\"\nport = \"ext\"\n");
    team.apply(&text);
    team.settle();
    let interface = team.router.snapshot().interface_named("ext").unwrap().id;
    let (gateway, mac) = (Ipv4Addr::new(192, 0, 2, 9).into(), Mac([2, 0xbb, 0, 0, 0, 9]));
    let tables = team.router.tables().clone();
    let (mut number, mut last, mut delivered) = (0, BTreeMap::new(), 0);
    for (lost, back) in (1..30).flat_map(|lost| (1..8).map(move |back| (lost, back))) {
        for i in 0..1800 {
            number += 1;
            let flow = (i as u8 % 3, 0, Ipv4Addr::new(10, 0, 0, 1), 7);
            team.send(PORTS[i % 3], &frame(flow, number));
        }
        (0..lost).for_each(|_| _ = team.step(0));
        tables.unresolve(interface, gateway);
        (0..back).for_each(|_| _ = team.step(0));
        assert!(tables.resolve(interface, gateway, mac));
        team.settle();
        for frame in team.received("ext") {
            let Some((flow, number)) = numbered(&frame) else { continue };
            delivered += 1;
            let before = last.insert(flow, number);
            assert!(before < Some(number), "{flow:?}: {number} comes after {before:?} ({lost}, {back})");
        }
    }
    let report = &team.reports()[0];
    assert_eq!(report.held_packets, 0);
    assert_eq!(u64::from(number), delivered + report.ledger.dropped());
    let queued = report.ledger.dropped_for(DropReason::NeighbourQueue);
    assert!(queued > 0 && delivered > 0, "{delivered} of {number} delivered: {:?}", report.ledger);
}
