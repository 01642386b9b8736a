//! The flows that cross the router, and the counters of their ends.

use super::network::{DemoHost, IpFamily, VOICE};
use super::pattern::PayloadPattern;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use units::Nanos;

/// The protocol of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowKind {
    /// A TCP connection at full speed.
    Tcp,
    /// Numbered UDP datagrams at a steady rate.
    Udp,
    /// ICMP echo requests and their replies.
    Ping,
}

impl FlowKind {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            FlowKind::Tcp => "tcp",
            FlowKind::Udp => "udp",
            FlowKind::Ping => "ping",
        }
    }
}

/// Payload of a UDP datagram: a sequence number and the payload of a telephone call's packet (20 ms of G.711).
pub const DATAGRAM: usize = 8 + 160;
/// Time between the UDP datagrams of a flow.
pub const PACE: Nanos = Nanos::millis(1);
/// Time between echo requests, and how long a reply may take.
pub const PING_PACE: Nanos = Nanos::millis(200);
/// Timeout for a reply.
pub const PING_PATIENCE: Nanos = Nanos::secs(1);
/// Bytes of an echo request after its header.
pub const PING_PAYLOAD: usize = 56;
/// Time between the packets that must be dropped.
pub const STRAY_PACE: Nanos = Nanos::millis(250);
/// How long the receiver waits for the last datagrams.
pub const LAST: Nanos = Nanos::millis(300);
/// How long a TCP connection may stall before it counts as failed.
pub const PATIENCE: Nanos = Nanos::secs(5);

/// A flow between two hosts and its counters. Bytes and packets are those of the application.
pub struct Flow {
    /// Its index among all flows.
    pub number: usize,
    /// Its protocol.
    pub kind: FlowKind,
    /// The sender.
    pub from: DemoHost,
    /// The receiver.
    pub to: DemoHost,
    /// The IP version.
    pub family: IpFamily,
    /// Its payload.
    pub pattern: PayloadPattern,
    sent: AtomicU64,
    received: AtomicU64,
    sent_packets: AtomicU64,
    received_packets: AtomicU64,
    /// UDP: one more than the highest number that has arrived.
    next_expected: AtomicU64,
    late: AtomicU64,
    finished: AtomicBool,
    echoes: Mutex<Echoes>,
    trouble: Mutex<Option<String>>,
}

/// Round trip times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Echoes {
    /// Replies.
    pub count: u64,
    /// Their sum.
    pub sum: Nanos,
    /// The shortest.
    pub least: Nanos,
    /// The longest.
    pub most: Nanos,
    /// The latest.
    pub last: Nanos,
}

impl Echoes {
    fn add(&mut self, time: Nanos) {
        self.least = if self.count == 0 { time } else { self.least.min(time) };
        self.most = self.most.max(time);
        self.count += 1;
        self.sum += time;
        self.last = time;
    }

    /// The mean; zero without replies.
    pub fn mean(&self) -> Nanos {
        Nanos::new(self.sum.get().checked_div(self.count).unwrap_or(0))
    }
}

/// The counters of a flow at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Bytes passed to the sender's stack.
    pub sent: u64,
    /// Bytes received and compared with the expected ones.
    pub received: u64,
    /// Datagrams or echo requests sent.
    pub sent_packets: u64,
    /// Datagrams or echo replies received.
    pub received_packets: u64,
    /// Datagrams missing below the highest number that has arrived.
    pub missing: u64,
    /// Datagrams that arrived after one sent later.
    pub late: u64,
    /// Round trip times.
    pub echoes: Echoes,
}

impl Flow {
    fn new(number: usize, (kind, from, to, family): (FlowKind, DemoHost, DemoHost, IpFamily)) -> Flow {
        Flow {
            number,
            kind,
            from,
            to,
            family,
            pattern: PayloadPattern::new(number),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent_packets: AtomicU64::new(0),
            received_packets: AtomicU64::new(0),
            next_expected: AtomicU64::new(0),
            late: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            echoes: Mutex::default(),
            trouble: Mutex::default(),
        }
    }

    /// The port its receiver listens on.
    pub fn port(&self) -> u16 {
        if self.kind == FlowKind::Udp { VOICE } else { 7000 + self.number as u16 }
    }

    /// For people: `tcp alice to server, IPv4`.
    pub fn name(&self) -> String {
        format!("{} {} to {}, {}", self.kind.name(), self.from.name(), self.to.name(), self.family.name())
    }

    /// The offset of the next byte to send.
    pub fn position(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Counts bytes of a stream passed to the sender's stack.
    pub fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts received bytes of a stream. Fails if they are not the ones sent.
    pub fn receive_bytes(&self, bytes: &[u8]) -> Result<(), String> {
        let offset = self.received.load(Ordering::Relaxed);
        let right = self.pattern.agree(offset, bytes);
        self.received.fetch_add(right as u64, Ordering::Relaxed);
        if right < bytes.len() {
            return Err(format!("byte {} differs from the sent one", offset + right as u64));
        }
        Ok(())
    }

    /// The next datagram.
    pub fn datagram(&self) -> [u8; DATAGRAM] {
        let number = self.sent_packets.load(Ordering::Relaxed);
        let mut bytes = [0; DATAGRAM];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes[8..].copy_from_slice(self.pattern.at(number, DATAGRAM - 8));
        bytes
    }

    /// Counts a sent datagram or echo request of this many bytes.
    pub fn add_packet(&self, bytes: usize) {
        self.add_sent(bytes);
        self.sent_packets.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a received datagram. Fails if it was never sent.
    pub fn receive_datagram(&self, bytes: &[u8]) -> Result<(), String> {
        let number = bytes.first_chunk().map(|number| u64::from_be_bytes(*number));
        let Some(number) = number.filter(|&n| bytes[8..] == *self.pattern.at(n, DATAGRAM - 8)) else {
            return Err("a datagram differs from the sent ones".into());
        };
        self.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.received_packets.fetch_add(1, Ordering::Relaxed);
        if self.next_expected.fetch_max(number + 1, Ordering::Relaxed) > number {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Counts an echo reply that arrived after `time`.
    pub fn receive_echo(&self, time: Nanos, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        self.received_packets.fetch_add(1, Ordering::Relaxed);
        self.echoes.lock().unwrap_or_else(PoisonError::into_inner).add(time);
    }

    /// The sender has finished.
    pub fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// True if the sender has finished.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// True if everything that will ever be sent has been received.
    pub fn is_complete(&self) -> bool {
        self.finished.load(Ordering::Acquire)
            && self.received_packets.load(Ordering::Relaxed) >= self.sent_packets.load(Ordering::Relaxed)
    }

    /// Marks the flow as failed. The first reason is kept.
    pub fn fail(&self, reason: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    /// Its counters.
    pub fn count(&self) -> Count {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let received_packets = load(&self.received_packets);
        Count {
            sent: load(&self.sent),
            received: load(&self.received),
            sent_packets: load(&self.sent_packets),
            received_packets,
            missing: load(&self.next_expected).saturating_sub(received_packets),
            late: load(&self.late),
            echoes: *self.echoes.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Returns why the flow failed. A TCP connection fails if it did not deliver all bytes. Datagrams and pings fail if none arrived. Any flow fails
    /// if one of its ends reported an error. An `interrupted` flow may not have begun, and its only packet may still be in flight: the first packet
    /// waits if the neighbour has to be asked a second time.
    pub fn failure(&self, interrupted: bool) -> Option<String> {
        if let Some(reason) = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Some(reason);
        }
        let count = self.count();
        match self.kind {
            FlowKind::Tcp if count.sent != count.received => {
                Some(format!("{} bytes were sent and {} received", count.sent, count.received))
            }
            _ if count.sent == 0 => (!interrupted).then(|| "nothing was sent".into()),
            _ if interrupted && count.sent_packets <= 1 => None,
            FlowKind::Udp | FlowKind::Ping if count.received_packets == 0 => Some("nothing arrived".into()),
            _ => None,
        }
    }
}

/// An ICMP or ICMPv6 echo request of a flow (RFC 792, RFC 4443 4.1). The sender's stack fills in the checksum.
pub fn echo_request(flow: &Flow, identifier: u16, sequence: u16) -> Vec<u8> {
    let kind = if flow.family == IpFamily::V4 { 8 } else { 128 };
    let ([a, b], [c, d]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
    [&[kind, 0, 0, 0, a, b, c, d], flow.pattern.at(sequence.into(), PING_PAYLOAD)].concat()
}

/// True if `reply` answers `request`: the type differs, the stack sets checksum and identifier, the rest is equal.
pub fn answers(family: IpFamily, reply: &[u8], request: &[u8]) -> bool {
    let kind = if family == IpFamily::V4 { 0 } else { 129 };
    reply.len() == request.len() && reply[0] == kind && reply[6..] == request[6..]
}

/// The traffic of all hosts.
pub struct Traffic {
    /// The flows.
    pub flows: Vec<Flow>,
    /// Counts of packets sent to be dropped, by the expected drop reason.
    pub strays: [(&'static str, AtomicU64); 3],
    ending: AtomicBool,
}

impl Traffic {
    /// Traffic with all counters at zero.
    pub fn new() -> Traffic {
        use DemoHost::{Alice, Bob, Server};
        use FlowKind::{Ping, Tcp, Udp};
        use IpFamily::{V4, V6};
        let flows = [
            (Tcp, Alice, Server, V4),
            (Tcp, Server, Alice, V6),
            (Tcp, Bob, Server, V6),
            (Tcp, Server, Bob, V4),
            (Udp, Alice, Server, V4),
            (Udp, Bob, Server, V6),
            (Ping, Alice, Server, V4),
            (Ping, Alice, Server, V6),
            (Ping, Bob, Alice, V4),
            (Ping, Bob, Alice, V6),
        ];
        Traffic {
            flows: flows.into_iter().enumerate().map(|(number, flow)| Flow::new(number, flow)).collect(),
            strays: ["ttl_expired", "blackhole", "no_route"].map(|reason| (reason, AtomicU64::new(0))),
            ending: AtomicBool::new(false),
        }
    }

    /// Tells the senders to stop.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// True if the senders have to stop.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Flows of one kind.
    pub fn flows_of(&self, kind: FlowKind) -> impl Iterator<Item = &Flow> {
        self.flows.iter().filter(move |flow| flow.kind == kind)
    }

    /// Datagrams missing so far.
    pub fn missing(&self) -> u64 {
        self.flows_of(FlowKind::Udp).map(|flow| flow.count().missing).sum()
    }

    /// Counts a packet sent to be dropped for this reason.
    pub fn add_stray(&self, reason: usize) {
        self.strays[reason].1.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(kind: FlowKind) -> Flow {
        Flow::new(1, (kind, DemoHost::Alice, DemoHost::Server, IpFamily::V4))
    }

    #[test]
    fn datagrams_are_counted_as_missing_late_or_wrong() {
        let flow = flow(FlowKind::Udp);
        let sent: Vec<_> = (0..4)
            .map(|_| {
                let datagram = flow.datagram();
                flow.add_packet(datagram.len());
                datagram
            })
            .collect();
        for (arrives, missing, late) in [(0, 0, 0), (3, 2, 0), (1, 1, 1)] {
            flow.receive_datagram(&sent[arrives]).unwrap();
            assert_eq!((flow.count().missing, flow.count().late), (missing, late));
        }
        let mut wrong = sent[2];
        wrong[20] ^= 1;
        assert!(flow.receive_datagram(&wrong).is_err());
        assert!(flow.receive_datagram(&[]).is_err());
        flow.finish();
        assert!(!flow.is_complete());
        flow.receive_datagram(&sent[2]).unwrap();
        assert!(flow.is_complete() && flow.failure(false).is_none());
    }

    #[test]
    fn connection_that_delivered_not_all_bytes_has_failed() {
        let flow = flow(FlowKind::Tcp);
        assert_eq!(flow.failure(false).as_deref(), Some("nothing was sent"));
        assert_eq!(flow.failure(true), None);
        flow.add_sent(1000);
        flow.receive_bytes(flow.pattern.at(0, 999)).unwrap();
        assert_eq!(flow.failure(true).as_deref(), Some("1000 bytes were sent and 999 received"));
        assert!(flow.receive_bytes(flow.pattern.at(0, 1)).is_err());
        flow.receive_bytes(flow.pattern.at(999, 1)).unwrap();
        assert_eq!(flow.failure(false), None);
        flow.fail("first".into());
        flow.fail("second".into());
        assert_eq!(flow.failure(true).as_deref(), Some("first"));
    }

    #[test]
    fn only_matching_reply_answers_a_request() {
        for (family, kind) in [(IpFamily::V4, 0), (IpFamily::V6, 129)] {
            let flow = Flow::new(1, (FlowKind::Ping, DemoHost::Alice, DemoHost::Bob, family));
            let request = echo_request(&flow, 7, 3);
            let mut reply = request.clone();
            assert!(!answers(family, &reply, &request), "the request itself");
            (reply[0], reply[3], reply[5]) = (kind, 1, 8);
            assert!(answers(family, &reply, &request));
            assert!(!answers(family, &reply, &echo_request(&flow, 7, 4)));
            assert!(!answers(family, &[], &request));
        }
    }

    #[test]
    fn round_trip_times_are_summed_up() {
        let flow = flow(FlowKind::Ping);
        for micros in [30, 10, 20] {
            flow.receive_echo(Nanos::micros(micros), 56);
        }
        let echoes = flow.count().echoes;
        let times = [echoes.least, echoes.mean(), echoes.most, echoes.last];
        assert_eq!(times, [10, 20, 30, 20].map(Nanos::micros));
        assert_eq!(Echoes::default().mean(), Nanos::ZERO);
    }
}
