//! Tests a worker on real interfaces: one that sleeps as long as its estimators allow, and one that receives by interrupts. A third test has a port
//! that waits for a full path (spec ).
//!
//! The tests share their machine, so they measure no wall-clock time. They count processor time, packets, and the places of losses.

#![allow(clippy::print_stdout)]

use control::api::{EventKind, Events, PortReply as PortReport};
use control::{Daemon, DaemonOptions};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost, Plug};
use io::packet_ring::{PacketOptions, PacketPort};
use io::wait::{Sleeper, Waker};
use packet::port::Port;
use packet::wire::{Ipv4Spec, ethernet, ethertype, protocol};
use packet::{Batch, Pool, Region};
use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::{Mac, Nanos};

const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 1]);
const SENDER: Mac = Mac([2, 0, 0, 0, 0, 7]);
/// The longest wait for anything.
const PATIENCE: Nanos = Nanos::secs(10);
/// The slots of a `packet:` port's receive ring.
const RING: usize = 4096;
/// The idle time before a burst.
const SILENCE: Nanos = Nanos::secs(1);
/// The time for which an idle router is observed, and the most processor time it may use in it.
const REST: (Nanos, f64) = (Nanos::secs(2), 0.02);

fn config(cpu: &str, lan: &str, paths: &str) -> String {
    format!(
        "version = 1\n{cpu}\n[port.lan]\ndevice = 'packet:lan'\nmac = '{ROUTER}'\naddress = ['192.0.2.1/24']\n{lan}\n\
         [port.wan]\ndevice = 'packet:wan'\naddress = ['198.51.100.1/24']\n{lan}\n\
         [[neighbour]]\naddress = '198.51.100.9'\nmac = '02:00:00:00:00:99'\nport = 'wan'\n\
         [[route]]\nto = '203.0.113.0/24'\nvia = '198.51.100.9'\n{paths}\n"
    )
}

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

/// sender - lan [router] wan - receiver
struct Site {
    _hosts: [LabHost; 3],
    daemon: Arc<Daemon>,
    sender: PacketPort,
    receiver: PacketPort,
    pool: Pool,
    sleeper: Sleeper,
}

impl Site {
    fn new(text: &str) -> Option<Site> {
        let lab = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()?;
        let hosts = ["sender", "router", "receiver"].map(|name| lab.host(name).unwrap());
        hosts.iter().for_each(|host| host.silence_kernel().unwrap());
        let [sender, router, receiver] = &hosts;
        lab.cable(&Plug { mac: Some(SENDER), ..sender.plug("eth0") }, &router.plug("lan")).unwrap();
        lab.cable(&receiver.plug("eth0"), &router.plug("wan")).unwrap();
        let open = |host: &LabHost, receive_slots| {
            let options = PacketOptions { receive_slots, ..PacketOptions::default() };
            host.run(|| PacketPort::open("eth0", &options).unwrap()).unwrap().0
        };
        let (sender, receiver) = (open(sender, 64), open(receiver, 32_768));
        let devices = Devices::new(clock::epoch()).in_namespace(router.namespace().clone());
        let plan = plan::check(text, "test.toml", &plane::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
        let options = DaemonOptions::new(devices, text, "test.toml", |notice| panic!("{notice:?}"));
        let daemon = Daemon::start(&plan, options).unwrap_or_else(|error| panic!("{error}"));
        let pool = Pool::new(Region::new(8192));
        Some(Site { _hosts: hosts, daemon, sender, receiver, pool, sleeper: Sleeper::new(Waker::new().unwrap()) })
    }

    fn rest(&mut self, span: Nanos) {
        self.sleeper.sleep([], span).unwrap();
    }

    /// Sends this many packets at full speed.
    fn send(&mut self, packets: usize) {
        let (mut batch, mut left) = (Batch::new(), packets);
        let end = clock::now() + PATIENCE;
        while left > 0 {
            for _ in 0..left.min(64).min(self.sender.room()) {
                let mut packet = self.pool.take().expect("what is sent is given back");
                packet.fill(&frame());
                batch.push(packet);
                left -= 1;
            }
            self.sender.transmit(clock::now(), &mut batch, &mut self.pool);
            assert!(batch.is_empty(), "the cable refuses nothing");
            assert!(clock::now() < end, "the cable takes packets");
        }
        assert_eq!(self.sender.take_late_refusals().packets, 0);
    }

    /// Returns how many packets have reached the receiver since the previous call.
    fn received(&mut self) -> usize {
        let (mut batch, mut count) = (Batch::new(), 0);
        loop {
            self.receiver.receive(clock::now(), &mut batch, &mut self.pool);
            if batch.is_empty() {
                return count;
            }
            for packet in batch.drain() {
                count += usize::from(packet.bytes().get(30..34) == Some(&[203, 0, 113, 5]));
                self.pool.give(packet);
            }
        }
    }

    /// Waits until this many packets have arrived, or no more do. Returns how many.
    fn await_packets(&mut self, packets: usize) -> usize {
        let (mut count, mut quiet) = (0, 0);
        while count < packets && quiet < 200 {
            let came = self.received();
            (count, quiet) = (count + came, if came > 0 { 0 } else { quiet + 1 });
            self.rest(Nanos::millis(1));
        }
        count
    }

    fn lan(&self) -> PortReport {
        self.daemon.ports().unwrap().ports.into_iter().find(|port| port.name == "lan").unwrap()
    }

    fn drops(&self) -> Vec<(String, u64)> {
        self.daemon.drops().unwrap().drops.into_iter().map(|drop| (drop.reason, drop.packets)).collect()
    }
}

/// Returns the processor time of the worker's thread (proc_pid_schedstat). The tests of this file run in one process, each with a worker of its own;
/// the latest one counts.
fn worker_time() -> Nanos {
    let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| Some(task.ok()?.path()));
    let worker =
        |task: &std::path::PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "worker 0");
    let mut workers: Vec<std::path::PathBuf> = tasks.filter(worker).collect();
    workers.sort();
    let text = fs::read_to_string(workers.last().unwrap().join("schedstat")).unwrap();
    Nanos::new(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// The parts run one after the other, because each reads the time of the worker's thread in this process.
#[test]
fn real_ports_support_estimator_interrupts_and_backpressure() {
    an_idle_worker_sleeps_and_loses_no_packet_of_a_burst();
    a_sleep_too_long_for_the_ring_is_reported();
    packets_are_received_by_interrupts();
    a_full_path_loses_packets_in_the_receive_ring();
}

fn an_idle_worker_sleeps_and_loses_no_packet_of_a_burst() {
    // The rate of a veth pair is unknown, so the first packets teach the estimator the size of a burst.
    let text = config("", "estimator = true\nline_rate = '1488kpps'", "");
    let Some(mut site) = Site::new(&text) else { return };
    site.send(64);
    assert_eq!(site.await_packets(64), 64);
    site.rest(Nanos::millis(300));
    let (before, began) = (worker_time(), clock::now());
    site.rest(REST.0);
    let used = worker_time().saturating_sub(before).as_secs_f64() / clock::now().since(began).as_secs_f64();
    println!("at rest: {:.3} % of a processor", used * 100.0);
    assert!(used < REST.1, "{used}");

    let input = |site: &Site| {
        let tasks = site.daemon.tasks().unwrap().tasks;
        tasks.into_iter().find(|task| task.kind == "input" && task.port.as_deref() == Some("lan")).unwrap()
    };
    // As many packets at once as the ring holds. They fit only if the worker wakes up and empties it.
    for _ in 0..2 {
        site.rest(SILENCE);
        let (runs, lost) = (input(&site).runs, site.lan().counters.lost_before_receive);
        site.send(RING);
        assert_eq!(site.await_packets(RING), RING, "{:?} {:?}", site.lan(), site.drops());
        assert_eq!(site.lan().counters.lost_before_receive, lost);
        println!("a burst of {RING} in {} looks", input(&site).runs - runs);
    }
    assert!(site.drops().is_empty(), "{:?}", site.drops());
    site.daemon.stop();
}

fn a_sleep_too_long_for_the_ring_is_reported() {
    // 4096 slots less a batch of 256 last 2.6 ms.
    let text = config("", "estimator = { sleep_max = '50ms' }\nline_rate = '1488kpps'", "");
    let Some(mut site) = Site::new(&text) else { return };
    let end = clock::now() + PATIENCE;
    loop {
        let (now, events) = (clock::now(), events(&site));
        if let Some(event) = events.iter().find(|event| event.contains("may sleep for 50 ms")) {
            assert!(event.contains("its receive ring is full after 2.58 ms"), "{event}");
            break;
        }
        assert!(now < end, "{events:?}");
        site.rest(Nanos::millis(20));
    }
    site.daemon.stop();
}

fn events(site: &Site) -> Vec<String> {
    let Events { events, .. } = site.daemon.events(0);
    events.into_iter().filter(|event| event.kind == EventKind::Scheduling).map(|event| event.text).collect()
}

fn packets_are_received_by_interrupts() {
    let Some(mut site) = Site::new(&config("[cpu]\nreceive = 'interrupt'", "", "")) else { return };
    for round in 0..10 {
        site.send(100);
        assert_eq!(site.await_packets(100), 100, "round {round}: {:?} {:?}", site.lan(), site.drops());
        // It sleeps in between, and wakes up.
        site.rest(Nanos::millis(5));
    }
    let tasks = site.daemon.tasks().unwrap().tasks;
    let inputs: Vec<_> = tasks.iter().filter(|task| task.kind == "input").collect();
    assert!(inputs.iter().all(|task| task.state == "idle" && task.packets == 0), "{inputs:?}");
    let (before, began) = (worker_time(), clock::now());
    site.rest(REST.0);
    let used = worker_time().saturating_sub(before).as_secs_f64() / clock::now().since(began).as_secs_f64();
    println!("interrupts, at rest: {:.3} % of a processor", used * 100.0);
    assert!(used < REST.1, "{used}");
    site.daemon.stop();
}

fn a_full_path_loses_packets_in_the_receive_ring() {
    let path = "[[path]]\nname = 'dear'\nmatch = 'udp dport 5060'\nfunctions = ['spin(cost=50us)', 'ip']\nqueue = 64";
    for (congestion, at_queue) in [("throttle", false), ("drop", true)] {
        let text = config("[cpu]\nadmission = 'warn'", &format!("congestion = '{congestion}'"), path);
        let Some(mut site) = Site::new(&text) else { return };
        // Three times the size of the ring, in much less time than the path needs for them.
        let (sent, began) = (3 * RING, clock::now());
        site.send(sent);
        let after = clock::now().since(began);
        let came = site.await_packets(sent);
        println!("{congestion}: sent after {after}, and all over after {}", clock::now().since(began));
        let lost = site.lan().counters.lost_before_receive as usize;
        let queue: u64 = site.drops().iter().filter(|(reason, _)| reason == "path_queue").map(|(_, n)| *n).sum();
        println!("{congestion}: of {sent} {came} came, {lost} were lost in the ring, {queue} at the queue");
        assert_eq!(came + lost + queue as usize, sent, "{:?}", site.drops());
        assert_eq!(queue > 0, at_queue);
        // The ring holds a third of them. If the machine does not schedule the worker, the ring may overflow in both cases.
        assert!(at_queue || lost > 0);
        site.daemon.stop();
    }
}
