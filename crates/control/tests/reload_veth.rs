//! Applies a hundred configurations while numbered packets cross the router on real interfaces at half of its capacity. No packet may be missing or
//! overtake another.
//!
//! The machine is shared, so the test separates losses of the machine from losses of the router. Every place between sender and receiver that can
//! lose a packet counts its losses:
//!
//! - Losses at the receiver or on the cables make the measurement invalid. It is repeated at a lower rate.
//! - Losses before the router, and at the path's full input queue, come from a stalled router, or from a machine that did not schedule the worker.
//!   All packets of the stall arrive at once. The measurement is repeated at the same rate. Three times in a row count as a fault of the router.
//! - A loss that no place has counted, or any other drop by the router, fails at once.

#![allow(clippy::print_stdout)]

use control::api::{Drops, Ports};
use control::{Daemon, DaemonOptions};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost, Plug};
use io::packet_ring::{PacketOptions, PacketPort};
use io::wait::{Sleeper, Waker};
use packet::port::Port;
use packet::wire::{Ipv4Spec, ethernet, ethertype, protocol};
use packet::{Batch, Packet, Pool, Region};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};
use units::{Instant, Mac, Nanos};

const APPLIES: usize = 100;
/// The time between two applies.
const SPACE: Nanos = Nanos::millis(15);
/// The time for which each rate is tried to find the capacity.
const TRIAL: Nanos = Nanos::millis(150);
/// The longest wait for the last packets.
const LAST: Nanos = Nanos::millis(200);
/// The first and the highest rate tried, in packets a second.
const RATES: (f64, f64) = (20_000.0, 1_500_000.0);
/// The most packets by which the sender may be late and still catch up.
const BEHIND: u64 = 256;
/// The bytes of a frame before the number.
const HEADERS: usize = 14 + 20 + 8;

const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 1]);
const SENDER: Mac = Mac([2, 0, 0, 0, 0, 7]);

/// Returns the configuration after the `n`th change. Each changes a route and a queue; many also change a path or a port.
fn config(n: usize) -> String {
    let faults = if n % 8 == 4 { "faults = { loss = 0.0, seed = 7 }\n" } else { "" };
    let mut text = format!(
        "version = 1\n[port.lan]\ndevice = 'packet:lan'\nmac = '{ROUTER}'\naddress = ['192.0.2.1/24']\n{faults}\
         [port.wan]\ndevice = 'packet:wan'\naddress = ['198.51.100.1/24']\nscheme = 'fifo(limit={})'\n",
        1000 + n % 5
    );
    for spare in (0..2).filter(|spare| n % 6 == 3 * spare) {
        // A port added by one change and removed by the next, on an interface or in memory.
        let device = ["packet:spare", "memory:spare"][spare];
        text += &format!("[port.x{n}]\ndevice = '{device}'\naddress = ['10.{}.0.1/24']\n", n % 200);
    }
    for last in [8, 9] {
        text +=
            &format!("[[neighbour]]\naddress = '198.51.100.{last}'\nmac = '02:00:00:00:00:9{last}'\nport = 'wan'\n");
    }
    text += &format!("[[route]]\nto = '203.0.113.0/24'\nvia = '198.51.100.{}'\n", 8 + n % 2);
    if n.is_multiple_of(2) {
        let (name, dport, queue) = (n % 4, 5060 + n % 6, 1024 + n);
        text += &format!("[[path]]\nname = 'voice{name}'\nmatch = 'udp dport {dport}'\nqueue = {queue}\nclass = 1\n");
    }
    text
}

/// Returns a UDP packet to the router: 64 bytes, with space for the number.
fn frame() -> [u8; 64] {
    let mut frame = [0; 64];
    ethernet::write_header(&mut frame[..14], ROUTER, SENDER, None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        source: Ipv4Addr::new(192, 0, 2, 7),
        destination: Ipv4Addr::new(203, 0, 113, 5),
    };
    spec.write(&mut frame[14..], 30).unwrap();
    for (at, field) in [(34, 5000u16), (36, 5060), (38, 30), (40, 0)] {
        frame[at..at + 2].copy_from_slice(&field.to_be_bytes());
    }
    frame
}

/// Returns the number of a test packet that the router has forwarded correctly; none for other packets.
fn number(frame: &[u8]) -> Option<u64> {
    if frame.len() < 64 || frame[12..14] != [8, 0] || frame[30..34] != [203, 0, 113, 5] {
        return None;
    }
    assert!(frame[..5] == [2, 0, 0, 0, 0] && matches!(frame[5], 0x98 | 0x99), "to a neighbour: {:x?}", &frame[..6]);
    assert_eq!(frame[22], 63, "the time to live");
    Some(u64::from_be_bytes(frame[HEADERS..HEADERS + 8].try_into().unwrap()))
}

/// The result of a run.
#[derive(Clone, Copy, Default, Debug)]
struct Count {
    sent: u64,
    received: u64,
    /// Packets missing before a received one, or after the last.
    missing: u64,
    /// Packets received after a later one, or twice.
    late: u64,
    /// The rate of sent packets, per second.
    rate: f64,
}

/// Sender and receiver on one thread. The router has the other core.
struct Ends {
    sender: PacketPort,
    receiver: PacketPort,
    pool: Pool,
    batch: Batch,
    sleeper: Sleeper,
    template: [u8; 64],
    /// The number of the next packet, counted over all runs.
    next: u64,
}

impl Ends {
    fn numbered(&mut self) -> Packet {
        let mut packet = self.pool.take().expect("what is sent or received is given back at once");
        self.template[HEADERS..HEADERS + 8].copy_from_slice(&self.next.to_be_bytes());
        packet.fill(&self.template);
        self.next += 1;
        packet
    }

    /// Sends at most `due` packets.
    fn send(&mut self, now: Instant, due: u64) -> u64 {
        let most = due.min(64).min(self.sender.room() as u64);
        for _ in 0..most {
            let packet = self.numbered();
            self.batch.push(packet);
        }
        self.sender.transmit(now, &mut self.batch, &mut self.pool);
        most
    }

    /// Receives all packets, and compares their numbers with `expected`, the next one.
    fn receive(&mut self, now: Instant, expected: &mut u64, count: &mut Count) {
        loop {
            self.receiver.receive(now, &mut self.batch, &mut self.pool);
            if self.batch.is_empty() {
                return;
            }
            for packet in self.batch.drain() {
                if let Some(number) = number(packet.bytes()) {
                    count.received += 1;
                    count.missing += number.saturating_sub(*expected);
                    count.late += u64::from(number < *expected);
                    *expected = (number + 1).max(*expected);
                }
                self.pool.give(packet);
            }
        }
    }

    /// Sends at `rate` until `over` by an ideal clock. Short delays of the sender are caught up, long ones are not.
    fn run(&mut self, rate: f64, mut over: impl FnMut(Nanos) -> bool) -> Count {
        let (mut count, mut expected) = (Count::default(), self.next);
        let start = clock::now();
        let (mut scheduled, mut last) = (0.0, start);
        loop {
            let now = clock::now();
            if over(now.since(start)) {
                break;
            }
            scheduled += now.since(last).as_secs_f64() * rate;
            last = now;
            scheduled = scheduled.min((count.sent + BEHIND) as f64);
            let sent = self.send(now, scheduled as u64 - count.sent);
            count.sent += sent;
            self.receive(now, &mut expected, &mut count);
            if sent == 0 {
                self.sleeper.sleep([], Nanos::micros(100)).unwrap();
            }
        }
        count.rate = count.sent as f64 / clock::now().since(start).as_secs_f64();
        let end = clock::now() + LAST;
        while count.received < count.sent && clock::now() < end {
            self.receive(clock::now(), &mut expected, &mut count);
            self.sleeper.sleep([], Nanos::micros(100)).unwrap();
        }
        count.missing += self.next - expected;
        count
    }
}

/// The losses so far at places other than the router's tables and queues.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Lost {
    /// Losses in the receiver's ring.
    receiver: u64,
    /// Losses in the rings of the router's ports, which the worker did not empty in time.
    router: u64,
    /// Losses in the kernel, between the ends of the cables.
    cables: u64,
}

impl Lost {
    fn ends(&self) -> u64 {
        self.receiver + self.cables
    }
}

/// Returns the frames that the kernel has dropped at the links of a host (proc_net(5)).
fn dropped_by_kernel(host: &LabHost) -> u64 {
    let table = host.run(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    let fields = table.lines().filter_map(|line| line.split_once(':')).map(|(_, fields)| fields);
    let drops = |fields: &str| -> u64 {
        let numbers: Vec<u64> = fields.split_whitespace().map(|field| field.parse().unwrap()).collect();
        numbers[3] + numbers[11]
    };
    fields.map(drops).sum()
}

/// sender - lan [router] wan - receiver, and a spare link of the router.
struct Site {
    hosts: [LabHost; 3],
    daemon: Arc<Daemon>,
    ends: Ends,
}

impl Site {
    fn new() -> Option<Site> {
        let lab = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()?;
        let hosts = ["sender", "router", "receiver"].map(|name| lab.host(name).unwrap());
        hosts.iter().for_each(|host| host.silence_kernel().unwrap());
        let [sender, router, receiver] = &hosts;
        lab.cable(&Plug { mac: Some(SENDER), ..sender.plug("eth0") }, &router.plug("lan")).unwrap();
        lab.cable(&receiver.plug("eth0"), &router.plug("wan")).unwrap();
        lab.cable(&receiver.plug("eth1"), &router.plug("spare")).unwrap();
        let open = |host: &LabHost, options: PacketOptions| {
            let (port, warnings) = host.run(|| PacketPort::open("eth0", &options).unwrap()).unwrap();
            assert!(warnings.is_empty(), "{warnings:?}");
            port
        };
        let deep = PacketOptions { receive_slots: 32768, ..PacketOptions::default() };
        let ends = Ends {
            sender: open(sender, PacketOptions { receive_slots: 64, ..PacketOptions::default() }),
            receiver: open(receiver, deep),
            pool: Pool::new(Region::new(1024)),
            batch: Batch::new(),
            sleeper: Sleeper::new(Waker::new().unwrap()),
            template: frame(),
            next: 0,
        };
        let devices = Devices::new(clock::epoch()).in_namespace(router.namespace().clone());
        let text = config(0);
        let plan = plan::check(&text, "reload.toml", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
        let options = DaemonOptions::new(devices, &text, "reload.toml", |notice| panic!("{notice:?}"));
        let daemon = Daemon::start(&plan, options).unwrap_or_else(|error| panic!("{error}"));
        Some(Site { hosts, daemon, ends })
    }

    fn lost(&self) -> Lost {
        let ports: Ports = self.daemon.ports().unwrap();
        let refused = |port: &control::api::PortReply| -> u64 {
            port.drops.iter().filter(|drop| drop.reason == "device_refused").map(|drop| drop.packets).sum()
        };
        let at = |port: &control::api::PortReply| {
            port.counters.lost_before_receive + port.counters.lost_after_transmit + refused(port)
        };
        let sender = self.ends.sender.statistics();
        Lost {
            receiver: self.ends.receiver.statistics().lost_before_receive,
            router: ports.ports.iter().map(at).sum(),
            cables: sender.lost_after_transmit + self.hosts.iter().map(dropped_by_kernel).sum::<u64>(),
        }
    }

    /// Tries growing rates, and returns the highest one without a loss that the sender achieves.
    fn capacity(&mut self) -> f64 {
        let (mut rate, mut best) = (RATES.0, 0.0);
        while rate < RATES.1 {
            let count = self.ends.run(rate, |gone| gone > TRIAL);
            if count.missing > 0 || count.late > 0 {
                break;
            }
            best = count.rate.max(best);
            if count.rate < 0.8 * rate {
                break;
            }
            rate *= 1.4;
        }
        best
    }

    /// Sends at `rate` while `APPLIES` configurations are applied, beginning with number `first`.
    fn reload(&mut self, rate: f64, first: usize) -> (Count, Nanos) {
        let (done, daemon) = (AtomicBool::new(false), self.daemon.clone());
        thread::scope(|scope| {
            let applier = scope.spawn(|| {
                // Ends the sender even if an apply panics.
                let _end = SetAtEnd(&done);
                let (mut sleeper, mut longest) = (Sleeper::new(Waker::new().unwrap()), Nanos::ZERO);
                for n in first..first + APPLIES {
                    let begun = clock::now();
                    let applied =
                        daemon.apply(&config(n), "reload.toml").unwrap_or_else(|error| panic!("{n}: {error}"));
                    assert!(applied.generation > n as u64 && !applied.changes.is_empty(), "{applied:?}");
                    longest = longest.max(clock::now().since(begun));
                    sleeper.sleep([], SPACE).unwrap();
                }
                longest
            });
            let count = self.ends.run(rate, |_| done.load(Ordering::Acquire));
            (count, applier.join().unwrap())
        })
    }
}

struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Returns the packets that were dropped at full input queues, and for all other reasons.
fn dropped(drops: &Drops) -> (u64, u64) {
    let (full, others): (Vec<_>, Vec<_>) = drops.drops.iter().partition(|drop| drop.reason == "path_queue");
    (full.iter().map(|drop| drop.packets).sum(), others.iter().map(|drop| drop.packets).sum())
}

#[test]
fn hundred_applies_neither_lose_nor_reorder_packets_on_veth() {
    let Some(mut site) = Site::new() else { return };
    let capacity = site.capacity();
    assert!(capacity > 0.0, "even the slowest rate loses packets: {:?} {:?}", site.lost(), site.daemon.drops());
    println!("capacity: {capacity:.0} packets/s");
    let mut rate = capacity / 2.0;
    for attempt in 0..3 {
        let (before, drops) = (site.lost(), site.daemon.drops().unwrap());
        let (count, longest) = site.reload(rate, 1 + attempt * APPLIES);
        let (after, dropped_now) = (site.lost(), site.daemon.drops().unwrap());
        println!("{APPLIES} applies at {rate:.0} packets/s, the longest {longest:?}: {count:?}");
        let ((full_before, others_before), (full, others)) = (dropped(&drops), dropped(&dropped_now));
        assert_eq!(others, others_before, "the router dropped packets: {dropped_now:?}");
        assert_eq!(count.late, 0, "packets overtook others: {count:?}");
        if count.missing == 0 && count.rate < 0.7 * rate {
            println!("again: the sender was not let run often enough");
            continue;
        }
        if count.missing == 0 {
            assert_eq!(count.received, count.sent);
            site.daemon.stop();
            return;
        }
        let [at_ends, before_router] = [after.ends() - before.ends(), after.router - before.router];
        let at_queue = full - full_before;
        let counted = at_ends + before_router + at_queue;
        assert_eq!(count.missing, counted, "packets are gone that nobody has lost: {before:?} {after:?} {count:?}");
        println!(
            "again: {before_router} packets were lost before the router, {at_queue} at the path's full queue, {at_ends} at the ends and on cables"
        );
        if at_ends > 0 {
            rate /= 2.0;
        }
    }
    panic!("three times in a row packets were lost, or the sender was too slow: see above");
}
