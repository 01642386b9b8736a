//! The sources and sinks of a world as UDP sockets of the kernel.

use anyhow::{Result, ensure};
use io::clock;
use io::wait::{Sleeper, Waker};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use sim::{InnerPackets, SourcePlan, WorldPlan};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;
use units::{Instant, Nanos, Pace};

/// Bytes of a frame that are not in its UDP payload: headers and check sequence.
const OVERHEAD: u64 = 14 + 20 + 8 + 4;
/// The sender wakes up so often.
const TICK: Nanos = Nanos::millis(1);
/// How long a receiver waits before it looks if the run is over.
const PATIENCE: Duration = Duration::from_millis(50);
/// Bytes of a receiver's buffer: some hundred milliseconds of packets.
const BUFFER: usize = 8 << 20;
/// Offsets of the destination in an inner IPv4 packet.
const DESTINATION: std::ops::Range<usize> = 16..20;

/// A source that sends datagrams evenly spaced.
pub struct SourceSender<'a> {
    /// Its description.
    pub plan: &'a SourcePlan,
    socket: UdpSocket,
    /// Its datagrams, in turns.
    packets: Vec<Vec<u8>>,
    /// The time from one packet to the next, as a fraction of nanoseconds.
    gap: (u64, u64),
    sent: AtomicU64,
    /// The longest time by which a packet was late, in nanoseconds.
    latest: AtomicU64,
}

impl<'a> SourceSender<'a> {
    /// A sender of the source's inner packets by a connected socket.
    ///
    /// # Errors
    ///
    /// The source has packets of several sizes.
    pub fn new((plan, inner): (&'a SourcePlan, &InnerPackets), pace: Pace, socket: UdpSocket) -> Result<Self> {
        ensure!(plan.sizes.len() == 1, "source {} has packets of several sizes", plan.name);
        let length = plan.sizes[0].saturating_sub(OVERHEAD) as usize;
        let packet = |number| {
            let mut bytes = vec![0; length];
            inner.write(number, &mut bytes);
            bytes
        };
        let packets = (0..inner.count()).map(packet).collect();
        let gap = pace.gap(plan.sizes[0]);
        Ok(SourceSender { plan, socket, packets, gap, sent: AtomicU64::new(0), latest: AtomicU64::new(0) })
    }

    /// Packets sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The longest time by which a packet was late.
    pub fn latest(&self) -> Nanos {
        Nanos::new(self.latest.load(Ordering::Relaxed))
    }

    /// The time of a packet after the beginning of the world.
    fn due(&self, number: u64) -> Nanos {
        let (part, whole) = self.gap;
        self.plan.start.since(Instant::START)
            + Nanos::new((u128::from(number) * u128::from(part) / u128::from(whole)) as u64)
    }

    /// Sends all packets that are due at `elapsed` after the beginning.
    fn send_due(&self, elapsed: Nanos) -> Result<()> {
        let end = self.plan.stop.since(Instant::START);
        let mut number = self.sent();
        loop {
            let due = self.due(number);
            if due > elapsed || due >= end {
                return Ok(());
            }
            self.latest.fetch_max(elapsed.get() - due.get(), Ordering::Relaxed);
            match self.socket.send(&self.packets[number as usize % self.packets.len()]) {
                // An earlier packet was answered by an ICMP error.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                sent => sent?,
            };
            number += 1;
            self.sent.store(number, Ordering::Relaxed);
        }
    }
}

/// Starts a thread that sends the packets of all sources.
pub fn spawn_sender<'scope>(
    scope: &'scope Scope<'scope, '_>,
    sources: &'scope [SourceSender<'_>],
    begin: Instant,
    is_over: &'scope AtomicBool,
) -> ScopedJoinHandle<'scope, Result<()>> {
    scope.spawn(move || {
        let mut sleeper = Sleeper::new(Waker::new()?);
        let mut wakeup = begin;
        while !is_over.load(Ordering::Relaxed) {
            sleeper.sleep([], wakeup.since(clock::now()))?;
            let elapsed = clock::now().since(begin);
            sources.iter().try_for_each(|source| source.send_due(elapsed))?;
            wakeup += TICK;
        }
        Ok(())
    })
}

/// Counts the packets that arrive.
pub struct SinkCounter {
    sinks: Vec<AtomicU64>,
    sources: Vec<AtomicU64>,
    /// The source of the packets with an inner destination.
    destinations: HashMap<Ipv4Addr, usize>,
}

impl SinkCounter {
    /// A counter for the sinks and sources of a world. Sources are distinguished by the destinations of their inner packets.
    pub fn new(world: &WorldPlan) -> SinkCounter {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let mut destinations = HashMap::new();
        for (index, source) in world.sources.iter().enumerate() {
            if let Some(InnerPackets::Ipv4(inner)) = &source.inner {
                destinations.extend(inner.destinations.iter().map(|destination| (*destination, index)));
            }
        }
        SinkCounter { sinks: zeros(world.sinks.len()), sources: zeros(world.sources.len()), destinations }
    }

    /// Packets that a sink has received.
    pub fn of_sink(&self, index: usize) -> u64 {
        self.sinks[index].load(Ordering::Relaxed)
    }

    /// Packets of a source that a sink has received.
    pub fn of_source(&self, index: usize) -> u64 {
        self.sources[index].load(Ordering::Relaxed)
    }

    fn count(&self, sink: usize, packet: &[u8]) {
        self.sinks[sink].fetch_add(1, Ordering::Relaxed);
        let to = packet.get(DESTINATION).and_then(|bytes| bytes.first_chunk::<4>());
        if let Some(source) = to.and_then(|bytes| self.destinations.get(&Ipv4Addr::from(*bytes))) {
            self.sources[*source].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Starts a thread for each socket that receives the packets of a sink.
pub fn spawn_receivers<'scope>(
    scope: &'scope Scope<'scope, '_>,
    sockets: Vec<(usize, UdpSocket)>,
    counter: &'scope SinkCounter,
    is_over: &'scope AtomicBool,
) {
    for (sink, socket) in sockets {
        // Without the right to it the buffer keeps its size, and lost packets are reported.
        let _larger = set_socket_recv_buffer_size_force(&socket, BUFFER);
        scope.spawn(move || -> Result<()> {
            socket.set_read_timeout(Some(PATIENCE))?;
            let mut bytes = [0; 2048];
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(length) = socket.recv(&mut bytes) {
                    counter.count(sink, &bytes[..length]);
                }
            }
            Ok(())
        });
    }
}
