//! To call on a port costs the same for one packet as for many: what may leave together does, however small the vectors are
//! in which an output task works, and however many paths lead to the port.

use packet::{Batch, Pool, Region};
use plan::PortPlan;
use plane::event::Silent;
use plane::meter::Flat;
use plane::port::{Memory, Port, Waiter, Wire};
use plane::rig::{Rig, Udp};
use plane::snapshot::Layout;
use plane::{ApplyError, Decorate, Opener};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Instant, Mac, Nanos, Rate};

const PACKETS: u16 = 256;

/// Two paths to one port, and best effort.
fn config(cpu: &str) -> String {
    format!(
        r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
[[path]]
name = "one"
match = "udp dport 1"
[[path]]
name = "two"
match = "udp dport 2"
[cpu]
{cpu}
"#
    )
}

/// One end of a wire that counts how often it is called on to transmit.
struct Called(Memory, Arc<AtomicU64>);

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
    fn waiter(&self) -> Waiter {
        self.0.waiter()
    }
    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
}

#[derive(Default)]
struct Calls {
    far: Vec<Memory>,
    calls: Arc<AtomicU64>,
}

impl Opener for Calls {
    fn open(&mut self, _: &PortPlan, _: &Arc<Region>, _: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        let (near, far) = Wire::pair(4096);
        self.far.push(far);
        Ok(vec![Box::new(Called(near, self.calls.clone()))])
    }

    fn decorate(&mut self, _: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        Ok((0..queues).map(|_| -> Decorate { Box::new(|port| port) }).collect())
    }
}

/// How many packets leave in what order, by their numbers, and with how many calls.
fn run(cpu: &str, port: impl Fn(u16) -> u16) -> (Vec<u16>, u64) {
    let (mut rig, mut opener) = (Rig::new(4096, Layout::Three, Box::new(Silent)), Calls::default());
    let plan = plan::check(&config(cpu), "together.toml", &plane::catalogue()).unwrap_or_else(|e| panic!("{e}"));
    let prepared = rig.router.prepare(&plan, &mut opener).unwrap();
    let mut published = rig.router.publish(prepared);
    while !published.is_adopted() {
        rig.step(&mut Flat(Nanos::new(10)));
    }
    rig.router.complete(published);
    rig.settle();
    let [lan, wan] = &mut opener.far[..] else { panic!("two wires") };
    let mut batch = Batch::new();
    wan.receive(rig.now, &mut batch, &mut rig.pool);
    batch.drain().for_each(|packet| rig.pool.give(packet));
    opener.calls.store(0, Ordering::Relaxed);
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(198, 51, 100, 9));
    for number in 0..PACKETS {
        let frame = Udp { link, network, ports: (number, port(number)), ttl: 64, length: 60 }.frame(&[]);
        batch.push(rig.packet(&frame));
    }
    lan.transmit(rig.now, &mut batch, &mut rig.pool);
    rig.settle();
    wan.receive(rig.now, &mut batch, &mut rig.pool);
    let mut numbers = Vec::new();
    for packet in batch.drain() {
        numbers.push(u16::from_be_bytes([packet.bytes()[34], packet.bytes()[35]]));
        rig.pool.give(packet);
    }
    rig.worker.audit();
    (numbers, opener.calls.load(Ordering::Relaxed))
}

#[test]
fn small_vectors_leave_with_one_call_each() {
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
fn whole_batches_of_several_paths_leave_with_one_call() {
    for (paths, port) in [(1, (|_| 1) as fn(u16) -> u16), (3, |number| 1 + number % 3)] {
        let (numbers, calls) = run("forwarding = \"simple(packets=256)\"\nvector = 256", port);
        assert_eq!(numbers.len(), usize::from(PACKETS));
        assert!(calls <= paths, "{calls} calls for {paths} paths");
    }
}

#[test]
fn what_is_worth_more_than_its_call_is_not_sent_one_by_one() {
    // Where a packet costs so much that a slice does not hold a whole batch, vectors are as long as the slice.
    let (numbers, calls) = run("output = \"timeslice(packets=256, slice=1us)\"", |_| 1);
    assert_eq!(numbers, (0..PACKETS).collect::<Vec<_>>());
    assert!(calls <= 8, "{calls} calls");
}
