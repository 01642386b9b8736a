//! The flows that cross the router, and what their ends have counted.

use super::network::{Family, Station, VOICE};
use super::pattern::Pattern;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use units::Nanos;

/// What a flow is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A TCP connection, as fast as it goes.
    Tcp,
    /// UDP datagrams at a steady pace, each with its number.
    Udp,
    /// ICMP echo requests and their replies.
    Ping,
}

impl Kind {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tcp => "tcp",
            Kind::Udp => "udp",
            Kind::Ping => "ping",
        }
    }
}

/// Bytes of a UDP datagram: what a packet of a telephone call has (20 ms of G.711), with its number in front.
pub const DATAGRAM: usize = 8 + 160;
/// Time between the UDP datagrams of a flow.
pub const PACE: Nanos = Nanos::millis(1);
/// Time between echo requests, and how long a reply may take.
pub const PING_PACE: Nanos = Nanos::millis(200);
/// The time after which a reply counts as lost.
pub const PING_PATIENCE: Nanos = Nanos::secs(1);
/// Bytes of an echo request after its header.
pub const PING_PAYLOAD: usize = 56;
/// Time between the packets that must be dropped.
pub const STRAY_PACE: Nanos = Nanos::millis(250);
/// How long the receiver of datagrams waits for the last ones.
pub const LAST: Nanos = Nanos::millis(300);
/// How long a TCP connection may stand still before it counts as failed.
pub const PATIENCE: Nanos = Nanos::secs(5);

/// A flow between two hosts and what is known of it. Bytes and packets are those of the application.
pub struct Flow {
    /// Its position among all.
    pub number: usize,
    /// What it is made of.
    pub kind: Kind,
    /// Who sends.
    pub from: Station,
    /// Who receives.
    pub to: Station,
    /// By which version of IP.
    pub family: Family,
    /// Its bytes.
    pub pattern: Pattern,
    sent: AtomicU64,
    received: AtomicU64,
    sent_packets: AtomicU64,
    received_packets: AtomicU64,
    /// UDP: one more than the highest number that has arrived.
    seen: AtomicU64,
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
    /// All of their times together.
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

    /// The mean; zero where there is none.
    pub fn mean(&self) -> Nanos {
        Nanos::new(self.sum.get().checked_div(self.count).unwrap_or(0))
    }
}

/// What a flow has counted at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Bytes given to the sender's stack.
    pub sent: u64,
    /// Bytes received, each found to be the right one.
    pub received: u64,
    /// Datagrams or echo requests sent.
    pub sent_packets: u64,
    /// Datagrams or echo replies received.
    pub received_packets: u64,
    /// Datagrams missing below the highest that has arrived.
    pub missing: u64,
    /// Datagrams that arrived after one sent later.
    pub late: u64,
    /// Round trip times.
    pub echoes: Echoes,
}

impl Flow {
    fn new(number: usize, (kind, from, to, family): (Kind, Station, Station, Family)) -> Flow {
        Flow {
            number,
            kind,
            from,
            to,
            family,
            pattern: Pattern::new(number),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent_packets: AtomicU64::new(0),
            received_packets: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            late: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            echoes: Mutex::default(),
            trouble: Mutex::default(),
        }
    }

    /// The port its receiver listens on.
    pub fn port(&self) -> u16 {
        if self.kind == Kind::Udp { VOICE } else { 7000 + self.number as u16 }
    }

    /// For people: `tcp alice to server, IPv4`.
    pub fn name(&self) -> String {
        format!("{} {} to {}, {}", self.kind.name(), self.from.name(), self.to.name(), self.family.name())
    }

    /// Where in the flow the next byte to send stands.
    pub fn position(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes of a stream were given to the sender's stack.
    pub fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of a stream were received; an error where they are not those that were sent.
    pub fn take(&self, bytes: &[u8]) -> Result<(), String> {
        let offset = self.received.load(Ordering::Relaxed);
        let right = self.pattern.agree(offset, bytes);
        self.received.fetch_add(right as u64, Ordering::Relaxed);
        if right < bytes.len() {
            return Err(format!("byte {} is not the one that was sent", offset + right as u64));
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

    /// A datagram or an echo request of so many bytes was sent.
    pub fn add_packet(&self, bytes: usize) {
        self.add_sent(bytes);
        self.sent_packets.fetch_add(1, Ordering::Relaxed);
    }

    /// A datagram was received; an error where it is not one that was sent.
    pub fn take_datagram(&self, bytes: &[u8]) -> Result<(), String> {
        let number = bytes.first_chunk().map(|number| u64::from_be_bytes(*number));
        let Some(number) = number.filter(|&n| bytes[8..] == *self.pattern.at(n, DATAGRAM - 8)) else {
            return Err("a datagram is not one that was sent".into());
        };
        self.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.received_packets.fetch_add(1, Ordering::Relaxed);
        if self.seen.fetch_max(number + 1, Ordering::Relaxed) > number {
            self.late.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// An echo reply came after `time`.
    pub fn take_echo(&self, time: Nanos, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        self.received_packets.fetch_add(1, Ordering::Relaxed);
        self.echoes.lock().unwrap_or_else(PoisonError::into_inner).add(time);
    }

    /// The sender will send no more.
    pub fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Whether the sender will send no more.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Whether everything that will ever be sent has been received.
    pub fn is_complete(&self) -> bool {
        self.finished.load(Ordering::Acquire)
            && self.received_packets.load(Ordering::Relaxed) >= self.sent_packets.load(Ordering::Relaxed)
    }

    /// It has failed; the first reason is kept.
    pub fn fail(&self, reason: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    /// What it has counted.
    pub fn count(&self) -> Count {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let received_packets = load(&self.received_packets);
        Count {
            sent: load(&self.sent),
            received: load(&self.received),
            sent_packets: load(&self.sent_packets),
            received_packets,
            missing: load(&self.seen).saturating_sub(received_packets),
            late: load(&self.late),
            echoes: *self.echoes.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Why it has failed, now that it is over: a connection that did not bring everything, datagrams or pings of which
    /// nothing came through, or what its ends said. Where it was `interrupted`, it need not have begun, and its only packet
    /// may still be on its way: the first waits where a neighbour has to be asked a second time.
    pub fn failure(&self, interrupted: bool) -> Option<String> {
        if let Some(reason) = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Some(reason);
        }
        let count = self.count();
        match self.kind {
            Kind::Tcp if count.sent != count.received => {
                Some(format!("{} bytes were sent and {} received", count.sent, count.received))
            }
            _ if count.sent == 0 => (!interrupted).then(|| "nothing was sent".into()),
            _ if interrupted && count.sent_packets <= 1 => None,
            Kind::Udp | Kind::Ping if count.received_packets == 0 => Some("nothing came through".into()),
            _ => None,
        }
    }
}

/// An ICMP or ICMPv6 echo request of a flow (RFC 792, RFC 4443 4.1). Its checksum is for the sender's stack to fill in.
pub fn echo_request(flow: &Flow, identifier: u16, sequence: u16) -> Vec<u8> {
    let kind = if flow.family == Family::V4 { 8 } else { 128 };
    let ([a, b], [c, d]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
    [&[kind, 0, 0, 0, a, b, c, d], flow.pattern.at(sequence.into(), PING_PAYLOAD)].concat()
}

/// Whether `reply` answers `request`: the type is another, checksum and identifier are the stack's, the rest is equal.
pub fn answers(family: Family, reply: &[u8], request: &[u8]) -> bool {
    let kind = if family == Family::V4 { 0 } else { 129 };
    reply.len() == request.len() && reply[0] == kind && reply[6..] == request[6..]
}

/// Everything the hosts do.
pub struct Traffic {
    /// The flows.
    pub flows: Vec<Flow>,
    /// Packets sent in order to be dropped, by the reason they should be dropped for.
    pub strays: [(&'static str, AtomicU64); 3],
    ending: AtomicBool,
}

impl Traffic {
    /// Nothing sent yet.
    pub fn new() -> Traffic {
        use Family::{V4, V6};
        use Kind::{Ping, Tcp, Udp};
        use Station::{Alice, Bob, Server};
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

    /// The senders are to stop.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Whether the senders are to stop.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Flows of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Flow> {
        self.flows.iter().filter(move |flow| flow.kind == kind)
    }

    /// Datagrams missing so far.
    pub fn missing(&self) -> u64 {
        self.of(Kind::Udp).map(|flow| flow.count().missing).sum()
    }

    /// A packet was sent that should be dropped for this reason.
    pub fn add_stray(&self, reason: usize) {
        self.strays[reason].1.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(kind: Kind) -> Flow {
        Flow::new(1, (kind, Station::Alice, Station::Server, Family::V4))
    }

    #[test]
    fn datagrams_are_counted_as_missing_late_or_wrong() {
        let flow = flow(Kind::Udp);
        let sent: Vec<_> = (0..4)
            .map(|_| {
                let datagram = flow.datagram();
                flow.add_packet(datagram.len());
                datagram
            })
            .collect();
        for (arrives, missing, late) in [(0, 0, 0), (3, 2, 0), (1, 1, 1)] {
            flow.take_datagram(&sent[arrives]).unwrap();
            assert_eq!((flow.count().missing, flow.count().late), (missing, late));
        }
        let mut wrong = sent[2];
        wrong[20] ^= 1;
        assert!(flow.take_datagram(&wrong).is_err());
        assert!(flow.take_datagram(&[]).is_err());
        flow.finish();
        assert!(!flow.is_complete());
        flow.take_datagram(&sent[2]).unwrap();
        assert!(flow.is_complete() && flow.failure(false).is_none());
    }

    #[test]
    fn a_connection_that_did_not_bring_everything_has_failed() {
        let flow = flow(Kind::Tcp);
        assert_eq!(flow.failure(false).as_deref(), Some("nothing was sent"));
        assert_eq!(flow.failure(true), None);
        flow.add_sent(1000);
        flow.take(flow.pattern.at(0, 999)).unwrap();
        assert_eq!(flow.failure(true).as_deref(), Some("1000 bytes were sent and 999 received"));
        assert!(flow.take(flow.pattern.at(0, 1)).is_err());
        flow.take(flow.pattern.at(999, 1)).unwrap();
        assert_eq!(flow.failure(false), None);
        flow.fail("first".into());
        flow.fail("second".into());
        assert_eq!(flow.failure(true).as_deref(), Some("first"));
    }

    #[test]
    fn only_the_reply_to_a_request_answers_it() {
        for (family, kind) in [(Family::V4, 0), (Family::V6, 129)] {
            let flow = Flow::new(1, (Kind::Ping, Station::Alice, Station::Bob, family));
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
        let flow = flow(Kind::Ping);
        for micros in [30, 10, 20] {
            flow.take_echo(Nanos::micros(micros), 56);
        }
        let echoes = flow.count().echoes;
        let times = [echoes.least, echoes.mean(), echoes.most, echoes.last];
        assert_eq!(times, [10, 20, 30, 20].map(Nanos::micros));
        assert_eq!(Echoes::default().mean(), Nanos::ZERO);
    }
}
