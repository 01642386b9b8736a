//! A router in memory runs through random days. Configurations change at any moment. Wires stall and recover, and some
//! accept super-frames. Hosts send valid and invalid packets. Time jumps.
//!
//! The ledgers always balance. A packet is delivered at most once, and in the order of its flow. An idle worker has no work
//! left, and in the end no packet remains. The days are seeded, so failures are reproducible.
//! `SWITCHPATH_SEEDS` sets the number of days, 60 by default.

use cpu::meter::{Work, WorkMeter};
use packet::event::Silent;
use packet::pool::{PartialChecksum, Segmentation};
use packet::port::{FaultRates, FaultyPort, MemoryPort, MemoryWire, Offloads, Port};
use packet::wire::{Ipv4Spec, Segmenter, ethernet, ethertype};
use packet::{Batch, DropReason, Offload, Packet, Region};
use plan::PortPlan;
use plane::rig::Rig;
use plane::snapshot::Layout;
use plane::{ApplyError, Decorate, Opener, PublishedGeneration, StepResult};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::{Mac, Nanos};

/// Frames of the router and its hosts.
const FRAMES: usize = 16384;
/// A router of this size becomes idle within this number of dispatches.
const LONGEST: usize = 200_000;
/// Destinations of the hosts. Each destination and receiving port is a flow of its own.
const DESTINATIONS: [Ipv4Addr; 4] =
    [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 1), Ipv4Addr::new(10, 3, 0, 1), Ipv4Addr::new(10, 3, 7, 7)];
/// Bytes of UDP payload of a numbered packet, and the place of its number.
const PAYLOAD: usize = 22;
const NUMBER: usize = 4;
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

    /// Less than `bound`, which is not zero.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Opens wires of any length, and keeps the far ends.
#[derive(Default)]
struct Wires {
    far: BTreeMap<String, MemoryPort>,
    length: usize,
}

impl Opener for Wires {
    fn open(
        &mut self,
        plan: &PortPlan,
        _region: &Arc<Region>,
        _queues: usize,
    ) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        let (near, far) = MemoryWire::pair(self.length);
        // The name of a wire determines its offloads.
        let kind = plan.device.target.bytes().map(usize::from).sum::<usize>() % 3;
        let near = near.with_offloads(Offloads { super_frames: kind == 2, checksums: kind > 0, gather: false });
        assert!(self.far.insert(plan.device.target.clone(), far).is_none(), "each wire is laid once");
        Ok(vec![Box::new(near)])
    }

    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        let faulty = plan.faults.is_some();
        let one = |_| -> Decorate {
            Box::new(move |port| if faulty { Box::new(FaultyPort::new(port, FaultRates::default(), 1)) } else { port })
        };
        Ok((0..queues).map(one).collect())
    }
}

/// Counts the packets that move.
#[derive(Default)]
struct Moved(u64);

impl WorkMeter for Moved {
    fn lap(&mut self, work: Work) -> Nanos {
        self.0 += u64::from(work.packets);
        Nanos::new(10) + work.extra_time
    }
}

struct Day {
    chance: Chance,
    rig: Rig,
    wires: Wires,
    /// The wire behind each of [`PORTS`], and true if its host receives.
    behind: Vec<(String, bool)>,
    published: Option<PublishedGeneration>,
    changes: usize,
    moved: Moved,
    batch: Batch,
    /// The number of the next packet, over all flows.
    next: u32,
    /// Frames the hosts have sent, and received.
    sent: u64,
    received: u64,
    delivered: HashSet<u32>,
    /// The last number delivered, by wire, sending port and destination.
    last: BTreeMap<(String, u8, Ipv4Addr), u32>,
}

impl Day {
    fn begin(seed: u64, layout: Layout) -> Day {
        let mut day = Day {
            chance: Chance(seed),
            rig: Rig::new(FRAMES, layout, Box::new(Silent)),
            wires: Wires { length: 100, ..Wires::default() },
            behind: PORTS.map(|port| (format!("{port}0"), true)).into(),
            published: None,
            changes: 0,
            moved: Moved::default(),
            batch: Batch::new(),
            next: 0,
            sent: 0,
            received: 0,
            delivered: HashSet::new(),
            last: BTreeMap::new(),
        };
        day.change();
        day.settle();
        day
    }

    /// A configuration: three ports on the wires of the day, the rest random.
    fn config(&mut self) -> String {
        let mut text = String::from("version = 1\n");
        for (i, (wire, _)) in self.behind.iter().enumerate() {
            let (name, chance) = (PORTS[i], &mut self.chance);
            write!(
                text,
                "[port.{name}]\ndevice = \"memory:{wire}\"\nmac = \"02:00:00:00:00:0{i}\"\n\
                 address = [\"192.0.{i}.1/24\", \"2001:db8:{i}::1/64\"]\nscheme = \"fifo(limit={})\"\n",
                [1, 20, 1000][chance.below(3)]
            )
            .unwrap();
            if chance.one_in(3) {
                text += "faults = { loss = 0.0, seed = 7 }\n";
            }
            if chance.one_in(2) {
                writeln!(text, "mtu = {}", [1280, 1400][chance.below(2)]).unwrap();
            }
            write!(text, "[port.{name}.vlan.20]\naddress = [\"192.1.{i}.1/24\"]\n").unwrap();
            for (interface, network) in [(name.to_string(), "192.0"), (format!("{name}.20"), "192.1")] {
                write!(
                    text,
                    "[[neighbour]]\naddress = \"{network}.{i}.9\"\nmac = \"02:00:00:00:{i:02}:99\"\nport = \"{interface}\"\n"
                )
                .unwrap();
            }
        }
        if self.chance.one_in(2) {
            let n = self.changes;
            write!(text, "[port.x{n}]\ndevice = \"memory:x{n}\"\naddress = [\"172.16.{}.1/24\"]\n", n % 256).unwrap();
        }
        for (destination, length) in [("10.1.0.0", 16), ("10.2.0.0", 16), ("10.3.0.0", 16), ("10.3.7.0", 24)] {
            let network = if self.chance.one_in(3) { "192.1" } else { "192.0" };
            match self.chance.below(8) {
                0 => {}
                1 => write!(text, "[[route]]\nto = \"{destination}/{length}\"\nblackhole = true\n").unwrap(),
                n => {
                    let via = n % 3;
                    write!(text, "[[route]]\nto = \"{destination}/{length}\"\nvia = \"{network}.{via}.9\"\n").unwrap();
                }
            }
        }
        for path in 0..self.chance.below(3) {
            let (queue, port) = (1 + self.chance.below(300), self.chance.below(4));
            write!(text, "[[path]]\nname = \"p{path}\"\nmatch = \"udp dport {port}\"\nqueue = {queue}\n").unwrap();
        }
        text
    }

    /// Publishes another configuration if the last one has been adopted.
    fn change(&mut self) {
        if self.published.is_some() {
            return;
        }
        self.changes += 1;
        self.wires.length = [8, 40, 300][self.chance.below(3)];
        if self.changes > 1 && self.chance.one_in(3) {
            // One port gets another wire. Packets in the old wire are lost and counted.
            let port = self.chance.below(PORTS.len());
            self.behind[port] = (format!("{}{}", PORTS[port], self.changes), true);
        }
        let text = self.config();
        let plan = plan::check(&text, "day.toml", &plane::catalogue()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let prepared = self.rig.router.prepare(&plan, &mut self.wires).unwrap_or_else(|e| panic!("{e:?}"));
        self.published = Some(self.rig.router.publish(prepared));
    }

    fn step(&mut self) -> StepResult {
        let step = self.rig.worker.step(self.rig.now, &mut self.moved);
        if self.published.as_mut().is_some_and(PublishedGeneration::is_adopted) {
            self.rig.router.complete(self.published.take().unwrap());
        }
        step
    }

    /// Runs the worker until it is idle, checks that no work is left, and returns the time of its next work.
    fn settle(&mut self) -> units::Instant {
        let idle = |day: &mut Day| {
            let found = (0..LONGEST).find_map(|_| match day.step() {
                StepResult::Ran => None,
                StepResult::Idle(until) => Some(until),
            });
            found.unwrap_or_else(|| panic!("never idle: {:?}", day.rig.report()))
        };
        let until = idle(self);
        if until > self.rig.now {
            let before = (self.rig.report().ledger, self.moved.0);
            let again = idle(self);
            // The last poll may have preceded the host's send. Then the second run receives frames, which is no error.
            if self.rig.report().ledger.received() == before.0.received() {
                assert_eq!(self.moved.0, before.1, "idle until {until:?} at {:?}, and work remained", self.rig.now);
            }
            return again;
        }
        until
    }

    /// Lets `span` pass. The worker runs only at the times it asked for.
    fn pass(&mut self, span: Nanos) {
        let end = self.rig.now + span;
        for _ in 0..LONGEST {
            let until = self.settle();
            self.take();
            if until >= end {
                break;
            }
            self.rig.now = until.max(self.rig.now + Nanos::new(1));
        }
        self.rig.now = end.max(self.rig.now);
        self.settle();
    }

    /// A packet with a number, or a super-frame of `packets` of them.
    fn number_frame(&mut self, port: usize, packets: usize) -> Vec<u8> {
        let mut frame = vec![0; 42 + packets * PAYLOAD];
        let to = Mac([2, 0, 0, 0, 0, port as u8]);
        ethernet::write_header(&mut frame[..14], to, Mac([2, 0, 0, 0, 0, 0xaa]), None, ethertype::IPV4).unwrap();
        let spec = Ipv4Spec {
            type_of_service: 0,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: 17,
            source: Ipv4Addr::new(192, 0, port as u8, 200),
            destination: DESTINATIONS[self.chance.below(DESTINATIONS.len())],
        };
        spec.write(&mut frame[14..], 8 + packets * PAYLOAD).unwrap();
        // A flow must stay on one path. The UDP port selects the path, so derive it from the destination.
        frame[37] = frame[31] % 4;
        for packet in 0..packets {
            let at = 42 + packet * PAYLOAD + NUMBER;
            frame[at..at + 4].copy_from_slice(&self.next.to_be_bytes());
            self.next += 1;
        }
        frame
    }

    /// A frame from a host: mostly numbered packets of a flow, also corrupted ones and packets to silent hosts.
    fn frame(&mut self, port: usize) -> (Vec<u8>, Offload) {
        let packets = match self.chance.below(100) {
            0..4 => 2 + self.chance.below(40),
            4 => 100 + self.chance.below(300),
            _ => 1,
        };
        let mut frame = self.number_frame(port, packets);
        let mut offload = Offload::NONE;
        if packets > 1 {
            offload = Offload { segmentation: Segmentation::Udp, size: PAYLOAD as u16, checksum: None };
        }
        if self.chance.one_in(10) {
            offload.checksum = Some(PartialChecksum { start: 34, offset: 6 });
        }
        match self.chance.below(12) {
            0 => {
                // Overwrite the numbers, so that corrupted packets are not counted as numbered.
                for packet in 0..packets {
                    frame[42 + packet * PAYLOAD + NUMBER..][..4].fill(0xff);
                }
                for _ in 0..1 + self.chance.below(4) {
                    let at = self.chance.below(42);
                    frame[at] = self.chance.next() as u8;
                }
                frame.truncate(self.chance.below(frame.len()) + 1);
            }
            1 => {
                // To a missing host: the packet waits in the neighbour queue for an answer that never arrives.
                for packet in 0..packets {
                    frame[42 + packet * PAYLOAD + NUMBER..][..4].fill(0xff);
                }
                frame[30..34].copy_from_slice(&[192, 0, self.chance.below(3) as u8, self.chance.below(256) as u8]);
                frame[24..26].fill(0);
                let sum = packet::wire::checksum::checksum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            2 if packets > 1 => {
                // A segmentation type that does not match the packet.
                offload.segmentation = [Segmentation::Tcp4, Segmentation::Tcp6][self.chance.below(2)];
            }
            _ => {}
        }
        (frame, offload)
    }

    /// A host sends up to `most` frames, as many as its wire takes.
    fn send(&mut self, most: usize) {
        let port = self.chance.below(PORTS.len());
        let wire = self.behind[port].0.clone();
        for _ in 0..most {
            // The wire exists once a configuration that names it has been prepared.
            let Some(far) = self.wires.far.get(&wire) else { return };
            if far.room() == 0 || !far.is_up() || self.rig.pool.frames_in_use() > FRAMES as u64 / 4 {
                return;
            }
            let (frame, offload) = self.frame(port);
            // Segments use many frames, so the pool is sometimes empty.
            let Some(mut packet) = self.rig.pool.take_for(frame.len()) else { return };
            packet.fill(&frame);
            // The offload may be invalid for a truncated frame.
            packet.set_offload(offload);
            self.batch.push(packet);
            let Day { wires, rig, batch, .. } = self;
            wires.far.get_mut(&wire).unwrap().transmit(rig.now, batch, &mut rig.pool);
            self.sent += 1;
        }
    }

    /// The listening hosts receive their frames and check them.
    fn take(&mut self) {
        let deaf: Vec<&String> = self.behind.iter().filter(|(_, listens)| !listens).map(|(wire, _)| wire).collect();
        for (name, far) in self.wires.far.iter_mut().filter(|(name, _)| !deaf.contains(name)) {
            while far.waiting() > 0 {
                far.receive(self.rig.now, &mut self.batch, &mut self.rig.pool);
                for packet in self.batch.drain() {
                    self.received += 1;
                    for (from, to, number) in segments(&packet).iter().filter_map(|frame| numbered(frame)) {
                        let frame = packet.bytes();
                        assert!(number < self.next, "{frame:02x?}");
                        assert!(self.delivered.insert(number), "{number} comes twice, now by {name}");
                        let last = self.last.insert((name.clone(), from, to), number);
                        assert!(last < Some(number), "{number} comes after {last:?} by {name}");
                    }
                    self.rig.pool.give(packet);
                }
            }
        }
    }

    fn hour(&mut self) {
        match self.chance.below(20) {
            0 => self.change(),
            1 | 2 => {
                let port = self.chance.below(PORTS.len());
                self.behind[port].1 = self.chance.one_in(2);
            }
            3 => {
                // A worker polls a full wire every few microseconds, which makes long nights slow.
                let night = if self.behind.iter().all(|(_, listens)| *listens) { 2_000_000_000 } else { 1_000_000 };
                let span = [1_000, 100_000, night][self.chance.below(3)];
                let span = Nanos::new(self.chance.next() % span);
                self.pass(span);
            }
            4 | 5 => {
                self.settle();
            }
            6..10 => self.take(),
            10..14 => {
                for _ in 0..self.chance.below(40) {
                    self.step();
                }
                self.rig.now += Nanos::new(self.chance.next() % 30_000);
            }
            _ => {
                let most = 1 + self.chance.below(150);
                self.send(most);
            }
        }
    }

    /// All hosts listen again; then no packet may be left. Returns the drop reasons.
    fn end(mut self) -> Vec<DropReason> {
        self.settle();
        self.behind.iter_mut().for_each(|(_, listens)| *listens = true);
        self.take();
        self.pass(Nanos::secs(120));
        self.take();
        let report = self.rig.report();
        let ledger = &report.ledger;
        assert!(self.published.is_none(), "the last change was adopted");
        assert_eq!(report.ports.len(), self.rig.router.plan().unwrap().ports.len(), "removed ports are gone");
        assert_eq!((report.held_packets, ledger.outstanding()), (0, 0), "nothing is left in the router: {report:?}");
        assert_eq!(ledger.received(), self.sent, "what hosts sent was received");
        assert_eq!(ledger.sent(), self.received, "what was sent the hosts received");
        assert_eq!(self.rig.pool.frames_in_use(), 0, "the hosts hold nothing");
        assert!(self.delivered.len() > self.next as usize / 20, "{} of {} delivered", self.delivered.len(), self.next);
        let reasons = ledger.drops().map(|(reason, _)| reason).collect();
        self.rig.worker.shut_down(self.rig.now);
        let Rig { router, worker, pool, .. } = self.rig;
        drop((worker, pool));
        assert_eq!(router.region().spare(), FRAMES, "every frame is back");
        assert_eq!(router.region().spare_super_frames(), router.region().super_frames(), "every super-frame is back");
        reasons
    }
}

/// Segments a packet as a host does whose wire accepts super-frames.
fn segments(packet: &Packet) -> Vec<Vec<u8>> {
    let frame = packet.bytes();
    if !packet.offload().is_super_frame() {
        return vec![frame.to_vec()];
    }
    let l3 = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    let mut cut = Segmenter::new(frame, l3, packet.offload()).unwrap();
    let mut segments = Vec::new();
    while cut.next_length() > 0 {
        let mut segment = vec![0; cut.next_length()];
        cut.write(frame, &mut segment).unwrap();
        segments.push(segment);
    }
    segments
}

/// Sending port, destination and number of a numbered packet; `None` for other frames.
fn numbered(frame: &[u8]) -> Option<(u8, Ipv4Addr, u32)> {
    let at = if frame.get(12..14)? == [0x81, 0] { 18 } else { 14 };
    let packet = frame.get(at..).filter(|packet| packet.len() == 50 && packet[0] == 0x45 && packet[9] == 17)?;
    let (from, to) = (packet[14], Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]));
    let number = u32::from_be_bytes(packet[32..36].try_into().ok()?);
    (number != u32::MAX).then_some((from, to, number))
}

#[test]
fn every_packet_has_one_fate_under_random_traffic_and_changes() {
    let seeds = std::env::var("SWITCHPATH_SEEDS").map_or(60, |n| n.parse().expect("SWITCHPATH_SEEDS is a number"));
    let mut reasons = HashSet::new();
    for seed in 0..seeds {
        let layout = [Layout::One, Layout::Two, Layout::Three][seed as usize % 3];
        #[expect(clippy::print_stdout, reason = "shown where a day fails")]
        {
            println!("seed {seed}, {layout:?}");
        }
        let mut day = Day::begin(seed, layout);
        for _ in 0..1000 {
            day.hour();
            day.rig.worker.audit();
        }
        reasons.extend(day.end());
    }
    use DropReason::{BadOffload, NeighbourFailed, NeighbourQueue, PathQueue, PortRemoved, SchemeArrival};
    for reason in [BadOffload, NeighbourFailed, NeighbourQueue, PathQueue, PortRemoved, SchemeArrival] {
        assert!(seeds < 10 || reasons.contains(&reason), "in {seeds} days no packet was dropped for {reason}");
    }
}
