//! Flows of datagrams through the kernel. Each respects a rate and a burst, as a token bucket does, so a reservation of the same rate and burst has to hold
//! for every packet. The receiver takes the arrival times from the kernel.

use super::processors::ProcessorSplit;
use anyhow::{Context, Result, anyhow};
use io::clock;
use io::netns::LabHost;
use io::packet_ring::{PacketOptions, PacketPort};
use io::thread_priority::NicePriority;
use io::wait::{self, Sleeper, Waker};
use packet::port::Port;
use packet::{Batch, Pool, Region};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use units::{Instant, Nanos};

/// The time before a measurement, in which neighbours are resolved and costs are measured.
pub const WARM_UP: Nanos = Nanos::secs(1);
/// The time after the reservations until the measurement: the first runs of new tasks are slow, and are charged.
pub const SETTLE: Nanos = Nanos::secs(1);

/// Ethernet, IP and UDP headers.
const HEADERS: usize = 14 + 20 + 8;
/// The bytes of a payload that carry the time of sending and the number.
const STAMP: usize = 16;
/// The interval at which the receiver empties its ring, and the slots of that ring.
const LOOK: Nanos = Nanos::micros(500);
const SLOTS: usize = 32768;
/// The longest wait for the last packets.
const LAST: Nanos = Nanos::millis(400);
/// The longest sleep of a sender, and the shortest one of a flood.
const LONGEST_SLEEP: Nanos = Nanos::millis(50);
const COARSE: Nanos = Nanos::millis(1);

/// When a flow sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendPattern {
    /// Evenly spaced packets.
    Even,
    /// The whole burst at once, as often as the rate permits.
    Bursts,
}

/// A flow of datagrams.
#[derive(Clone, Debug)]
pub struct TrafficFlow {
    /// Its destination.
    pub to: SocketAddr,
    /// Packets a second.
    pub rate: u64,
    /// Packets that it may send at once.
    pub burst: u64,
    /// The bytes of a frame, with the Ethernet header.
    pub packet: u64,
    /// When it sends.
    pub pattern: SendPattern,
    /// True if it is a flood: it has a sender of its own, which need not be exact.
    pub is_flood: bool,
}

/// The packets of a flow in a run.
#[derive(Clone, Default, Debug)]
pub struct FlowResult {
    /// Packets sent.
    pub sent: u64,
    /// Packets that the flow's rate permitted and the sender did not send, because this machine did not run it in time.
    pub skipped: u64,
    /// Packets received.
    pub received: u64,
    /// Packets received after a later one.
    pub reordered: u64,
    /// The delay of each received packet.
    pub delays: Vec<Nanos>,
}

/// The packets of a flow by the time at which they were sent: while the router settles after a change, and afterwards.
#[derive(Clone, Default, Debug)]
pub struct FlowPhases {
    /// The first packets.
    pub at_first: FlowResult,
    /// The packets of the measurement.
    pub measured: FlowResult,
}

impl FlowPhases {
    /// The phase of a packet that is sent at this time, if the measurement begins at `from`.
    fn at(&mut self, from: Instant, time: Instant) -> &mut FlowResult {
        if time < from { &mut self.at_first } else { &mut self.measured }
    }
}

impl FlowResult {
    /// The delay that this part of the packets, in thousandths, does not exceed.
    pub fn quantile(&self, thousandths: usize) -> Nanos {
        let mut delays = self.delays.clone();
        delays.sort_unstable();
        let at = (delays.len() * thousandths / 1000).min(delays.len().saturating_sub(1));
        delays.get(at).copied().unwrap_or(Nanos::MAX)
    }

    /// The longest delay.
    pub fn longest(&self) -> Nanos {
        self.delays.iter().copied().max().unwrap_or(Nanos::MAX)
    }

    /// Packets that were not received.
    pub fn lost(&self) -> u64 {
        self.sent - self.received
    }

    /// Packets that were not received within this bound.
    pub fn missed(&self, bound: Nanos) -> u64 {
        self.lost() + self.delays.iter().filter(|delay| **delay > bound).count() as u64
    }
}

/// The tokens of a flow, in nanoseconds of its rate.
struct TokenBucket {
    gap: u64,
    burst: u64,
    pattern: SendPattern,
    tokens: u64,
    /// Tokens that found the bucket full.
    overflowed: u64,
    last: Instant,
}

impl TokenBucket {
    fn new(flow: &TrafficFlow, now: Instant) -> TokenBucket {
        let gap = 1_000_000_000_u64.div_ceil(flow.rate);
        TokenBucket { gap, burst: flow.burst, pattern: flow.pattern, tokens: 0, overflowed: 0, last: now }
    }

    /// Takes the tokens of the packets to send now. Returns the number of these packets.
    fn take(&mut self, now: Instant) -> u64 {
        let room = self.burst * self.gap;
        let tokens = self.tokens + now.since(self.last).get();
        self.last = now;
        self.overflowed += tokens.saturating_sub(room);
        self.tokens = tokens.min(room);
        let packets = match self.pattern {
            SendPattern::Even => self.tokens / self.gap,
            SendPattern::Bursts if self.tokens == room => self.burst,
            SendPattern::Bursts => 0,
        };
        self.tokens -= packets * self.gap;
        packets
    }

    /// The time until it has tokens for the next packets.
    fn wait(&self) -> Nanos {
        let needed = if self.pattern == SendPattern::Even { self.gap } else { self.burst * self.gap };
        Nanos::new(needed.saturating_sub(self.tokens))
    }
}

/// A flow's socket, and the number of its next packet over all runs.
struct FlowSender {
    flow: TrafficFlow,
    socket: UdpSocket,
    next: u64,
}

/// Sends the packets of flows until `end`. Returns the numbers of sent and skipped packets of each.
fn send(senders: &mut [&mut FlowSender], (from, end): (Instant, Instant), shortest: Nanos) -> Result<Vec<FlowPhases>> {
    wait::sleep_exactly();
    let mut sleeper = Sleeper::new(Waker::new()?);
    let begin = clock::now();
    let mut buckets: Vec<TokenBucket> = senders.iter().map(|sender| TokenBucket::new(&sender.flow, begin)).collect();
    let mut all = vec![FlowPhases::default(); senders.len()];
    let mut payload = vec![0; 2048];
    loop {
        let now = clock::now();
        if now >= end {
            return Ok(all);
        }
        for ((sender, bucket), phases) in senders.iter_mut().zip(&mut buckets).zip(&mut all) {
            let length = (sender.flow.packet as usize).saturating_sub(HEADERS).clamp(STAMP, payload.len());
            let skipped = bucket.overflowed / bucket.gap;
            let packets = bucket.take(now);
            phases.at(from, now).skipped += bucket.overflowed / bucket.gap - skipped;
            for _ in 0..packets {
                let now = clock::now();
                payload[..8].copy_from_slice(&now.get().to_be_bytes());
                payload[8..STAMP].copy_from_slice(&sender.next.to_be_bytes());
                sender.socket.send(&payload[..length]).context("sending a datagram")?;
                sender.next += 1;
                phases.at(from, now).sent += 1;
            }
        }
        let wait = buckets.iter().map(TokenBucket::wait).min().unwrap_or(LONGEST_SLEEP);
        sleeper.sleep([], wait.clamp(shortest, LONGEST_SLEEP))?;
    }
}

/// The senders of flows in one namespace, and their receiver in another.
pub struct FlowTraffic {
    senders: Vec<FlowSender>,
    receiver: PacketPort,
    pool: Pool,
    processors: ProcessorSplit,
}

impl FlowTraffic {
    /// Opens the sockets of `flows` at the hosts that send them, and the receiver at the link `eth0` of a host whose kernel is silent.
    ///
    /// # Errors
    ///
    /// A socket cannot be opened.
    pub fn new(
        flows: &[(&LabHost, TrafficFlow)],
        receiver: &LabHost,
        processors: ProcessorSplit,
    ) -> Result<FlowTraffic> {
        let options = PacketOptions { receive_slots: SLOTS, kernel_timestamps: true, ..PacketOptions::default() };
        let opened = receiver.run(|| PacketPort::open("eth0", &options))?;
        let (receiver, _) = opened.map_err(|error| anyhow!("cannot receive: {error}"))?;
        let open = |(host, flow): &(&LabHost, TrafficFlow)| -> Result<FlowSender> {
            let socket = host.run(|| UdpSocket::bind("0.0.0.0:0"))?.context("opening a socket")?;
            socket.connect(flow.to)?;
            Ok(FlowSender { flow: flow.clone(), socket, next: 0 })
        };
        let senders = flows.iter().map(open).collect::<Result<_>>()?;
        Ok(FlowTraffic { senders, receiver, pool: Pool::new(Region::new(1024)), processors })
    }

    /// Sends all flows while `beside` runs, which gets a flag that becomes true at the end. The measurement begins after `settle`, and lasts for `span`. Returns
    /// the result of each flow, and that of `beside`.
    ///
    /// # Errors
    ///
    /// A socket fails.
    pub fn run<R: Send>(
        &mut self,
        (settle, span): (Nanos, Nanos),
        beside: impl FnOnce(&AtomicBool) -> R + Send,
    ) -> Result<(Vec<FlowPhases>, R)> {
        let expected: Vec<(u16, u64)> =
            self.senders.iter().map(|sender| (sender.flow.to.port(), sender.next)).collect();
        let (over, all_sent) = (AtomicBool::new(false), AtomicBool::new(false));
        let from = clock::now() + settle;
        let times = (from, from + span);
        let (receiver, pool, processors) = (&mut self.receiver, &mut self.pool, self.processors);
        let (exact, floods): (Vec<_>, Vec<_>) =
            self.senders.iter_mut().enumerate().partition(|(_, sender)| !sender.flow.is_flood);
        let work = || {
            thread::scope(|scope| {
                let receiving = scope.spawn(|| {
                    let _favour = NicePriority::acquire();
                    receive(receiver, pool, &expected, from, &all_sent)
                });
                let beside = scope.spawn(|| beside(&over));
                let sending: Vec<_> = [(exact, Nanos::ZERO), (floods, COARSE)]
                    .into_iter()
                    .map(|(group, shortest)| {
                        scope.spawn(move || {
                            let _favour = NicePriority::acquire();
                            let (places, mut senders): (Vec<_>, Vec<_>) = group.into_iter().unzip();
                            let sent = send(&mut senders, times, shortest)?;
                            anyhow::Ok(places.into_iter().zip(sent).collect::<Vec<_>>())
                        })
                    })
                    .collect();
                let gone = |_| anyhow!("a thread of the traffic panicked");
                let sent: Result<Vec<_>> = sending.into_iter().map(|thread| thread.join().map_err(gone)?).collect();
                over.store(true, Ordering::Release);
                let beside = beside.join().map_err(gone);
                all_sent.store(true, Ordering::Release);
                let results = receiving.join().map_err(gone)?;
                anyhow::Ok((sent?, results?, beside?))
            })
        };
        let (sent, mut results, beside) = processors.beside_router(work)??;
        for (place, FlowPhases { at_first, measured }) in sent.into_iter().flatten() {
            let result = &mut results[place];
            for (result, sent) in [(&mut result.at_first, at_first), (&mut result.measured, measured)] {
                (result.sent, result.skipped) = (sent.sent, sent.skipped);
            }
        }
        Ok((results, beside))
    }
}

/// Receives the packets to these ports with numbers from these on, until all are sent and no more arrive.
fn receive(
    receiver: &mut PacketPort,
    pool: &mut Pool,
    expected: &[(u16, u64)],
    from: Instant,
    all_sent: &AtomicBool,
) -> Result<Vec<FlowPhases>> {
    let mut results = vec![FlowPhases::default(); expected.len()];
    let mut next: Vec<u64> = expected.iter().map(|(_, first)| *first).collect();
    let mut sleeper = Sleeper::new(Waker::new()?);
    let (mut batch, mut end) = (Batch::new(), None);
    loop {
        receiver.receive(clock::now(), &mut batch, pool);
        if batch.is_empty() {
            let now = clock::now();
            if all_sent.load(Ordering::Acquire) && now >= *end.get_or_insert(now + LAST) {
                return Ok(results);
            }
            sleeper.sleep([], LOOK)?;
        }
        for packet in batch.drain() {
            if let Some((port, stamp, number)) = datagram(packet.bytes())
                && let Some(at) = expected.iter().position(|(known, first)| *known == port && number >= *first)
            {
                let result = results[at].at(from, stamp);
                result.received += 1;
                result.reordered += u64::from(number < next[at]);
                next[at] = next[at].max(number + 1);
                result.delays.push(packet.meta().timestamp.since(stamp));
            }
            pool.give(packet);
        }
    }
}

/// The destination port, the time of sending and the number of a datagram.
fn datagram(frame: &[u8]) -> Option<(u16, Instant, u64)> {
    let is_udp = frame.get(12..14)? == [8, 0] && *frame.get(14)? == 0x45 && *frame.get(23)? == 17;
    let payload = frame.get(HEADERS..HEADERS + STAMP).filter(|_| is_udp)?;
    let word = |at: usize| payload[at..at + 8].try_into().map(u64::from_be_bytes).ok();
    Some((u16::from_be_bytes([frame[36], frame[37]]), Instant::new(word(0)?), word(8)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(pattern: SendPattern) -> TokenBucket {
        let to = SocketAddr::from(([10, 1, 0, 1], 7000));
        TokenBucket::new(
            &TrafficFlow { to, rate: 1000, burst: 4, packet: 1000, pattern, is_flood: false },
            Instant::START,
        )
    }

    /// In each window of time a flow sends no more than its burst and its rate permit, also after a stall of the machine.
    #[test]
    fn late_sender_sends_a_burst_and_skips_the_rest() {
        let at = |ms: u64| Instant::START + Nanos::millis(ms);
        let mut even = bucket(SendPattern::Even);
        assert_eq!([1, 2, 5, 105, 106].map(|ms| even.take(at(ms))), [1, 1, 3, 4, 1]);
        assert_eq!((even.overflowed / even.gap, even.wait()), (96, Nanos::millis(1)));
        let mut bursts = bucket(SendPattern::Bursts);
        assert_eq!([1, 3, 4, 6, 8, 20].map(|ms| bursts.take(at(ms))), [0, 0, 4, 0, 4, 4]);
    }
}
