//! A transmit call of a port costs the same for one packet as for many. So an output task collects packets into one call,
//! even with small vectors, and even if many paths lead to the port.

use packet::event::Silent;
use packet::port::{MemoryPort, Port, WakeSource};
use packet::{Batch, Pool};
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Instant, Rate};

const PACKETS: u16 = 256;

/// Two paths to one port, and best effort.
fn config(cpu: &str) -> String {
    const PATHS: &str =
        "[[path]]\nname = 'one'\nmatch = 'udp dport 1'\n[[path]]\nname = 'two'\nmatch = 'udp dport 2'\n";
    format!("{LAN_AND_WAN}{PATHS}[cpu]\n{cpu}\n")
}

/// One end of a wire that counts transmit calls.
struct Called(MemoryPort, Arc<AtomicU64>);

impl Port for Called {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.0.receive(now, batch, pool);
    }
    fn room(&self) -> usize {
        self.0.room()
    }
    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        assert!(!batch.is_empty(), "it is not called on for nothing");
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.transmit(now, batch, pool);
    }
    fn link_rate(&self) -> Rate {
        self.0.link_rate()
    }
    fn wake_source(&self) -> WakeSource {
        self.0.wake_source()
    }
    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
}

/// Returns the numbers of the packets sent, in order, and the number of transmit calls.
fn run(cpu: &str, port: impl Fn(u16) -> u16) -> (Vec<u16>, u64) {
    let (mut rig, calls) = (Rig::new(4096, Layout::Three, Box::new(Silent)), Arc::new(AtomicU64::new(0)));
    let counted = calls.clone();
    rig.wires.wrap = Some(Box::new(move |near| Box::new(Called(near, counted.clone()))));
    rig.apply(&config(cpu)).unwrap_or_else(|errors| panic!("{errors:?}"));
    rig.settle();
    rig.received("wan");
    calls.store(0, Ordering::Relaxed);
    for number in 0..PACKETS {
        rig.send("lan", &UdpFrame::between_ports(number, port(number)).frame(&[]));
    }
    rig.settle();
    let number = |frame: Vec<u8>| u16::from_be_bytes([frame[34], frame[35]]);
    let numbers = rig.received("wan").into_iter().map(number).collect();
    rig.worker.audit();
    (numbers, calls.load(Ordering::Relaxed))
}

#[test]
fn small_vectors_use_one_transmit_call_each() {
    for vector in [1, 8, 32, 100, 255] {
        let cpu = format!("vector = {vector}");
        for (paths, port) in
            [(1, (|_| 1) as fn(u16) -> u16), (2, |number| 1 + number % 2), (3, |number| 1 + number % 3)]
        {
            let (numbers, calls) = run(&cpu, port);
            assert_eq!(numbers.len(), usize::from(PACKETS));
            let least = u64::from(PACKETS.div_ceil(vector));
            assert!(calls <= least + paths, "{calls} calls for {paths} paths in vectors of {vector}");
        }
    }
}

#[test]
fn batches_of_several_paths_use_one_transmit_call() {
    for (paths, port) in [(1, (|_| 1) as fn(u16) -> u16), (3, |number| 1 + number % 3)] {
        let (numbers, calls) = run("forwarding = \"simple(packets=256)\"\nvector = 256", port);
        assert_eq!(numbers.len(), usize::from(PACKETS));
        assert!(calls <= paths, "{calls} calls for {paths} paths");
    }
}

#[test]
fn expensive_packets_are_transmitted_in_batches() {
    // If packets are so expensive that a slice does not hold a whole batch, vectors are as long as the slice.
    let (numbers, calls) = run("output = \"timeslice(packets=256, slice=1us)\"", |_| 1);
    assert_eq!(numbers, (0..PACKETS).collect::<Vec<_>>());
    assert!(calls <= 8, "{calls} calls");
}
