//! Walks the way to a host: sends probes that expire at one router after the other, and evaluates the ICMP errors.

use super::socket::{PartSocket, is_icmp_answer};
use super::transport::PartTransport;
use crate::arguments::ProbeArguments;
use anyhow::{Context, Result};
use esp::host::{ProbeQuestion, ProbeReply, Probes, Survey};
use esp::seal;
use io::clock;
use io::icmp_errors::{IcmpErrorReason, QuotedDatagram};
use io::wait::{Sleeper, Waker};
use std::net::IpAddr;
use std::os::fd::AsFd;
use units::{Instant, Nanos};

/// The walk ends after this many silent hops in a row.
const SILENT: usize = 4;
/// A buffer larger than any probe.
const LONGEST: usize = 256;

/// The answers of a hop, besides the results of instructions.
#[derive(Clone, Copy, Default, Debug)]
pub struct Hop {
    /// The address that answered; none without an answer.
    pub address: Option<IpAddr>,
    /// The delay of the answer.
    pub delay: Option<Nanos>,
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TracerouteEnd {
    /// The host was reached.
    Host,
    /// A router reported that the host is unreachable.
    Unreachable,
    /// No router answers any more.
    Silence,
    /// The hop limit was reached.
    Limit,
}

/// A completed walk.
pub struct TracerouteResult {
    /// Its hops, the nearest first.
    pub hops: Vec<Hop>,
    /// The results of the probes.
    pub survey: Survey,
    /// How it ended.
    pub end: TracerouteEnd,
}

/// A walk in progress.
struct Traceroute {
    socket: PartSocket,
    host: IpAddr,
    hops: Vec<Hop>,
    survey: Survey,
    end: Option<TracerouteEnd>,
    /// The current attempt at the current hop, and its time.
    attempt: (u8, Instant),
}

/// Walks to a host, and sends these questions to each router.
pub fn trace_route(
    host: IpAddr,
    line: PartTransport,
    probes: Probes,
    questions: &[ProbeQuestion],
    way: &ProbeArguments,
) -> Result<TracerouteResult> {
    let socket = line.connect(host)?;
    socket.keep_quotes().context("this system does not report the ICMP errors of sent packets")?;
    let survey = Survey::new(probes);
    let mut walk = Traceroute { socket, host, hops: Vec::new(), survey, end: None, attempt: (0, clock::now()) };
    let mut sleeper = Sleeper::new(Waker::new()?);
    for hop in 1..=way.hops {
        walk.socket.set_hops(hop)?;
        walk.hops.push(Hop::default());
        for attempt in 0..way.tries {
            let missing =
                |walk: &Traceroute| questions.iter().copied().filter(|&one| !walk.survey.has_reply(one, hop)).collect();
            let asked: Vec<ProbeQuestion> = missing(&walk);
            walk.attempt = (attempt, clock::now());
            for question in asked {
                walk.send(&probes.datagram(question, hop, attempt, |part| line.bytes(part)))?;
            }
            let until = clock::now() + way.wait;
            let mut left: Vec<ProbeQuestion> = missing(&walk);
            while !left.is_empty() && clock::now() < until {
                sleeper.sleep([walk.socket.as_fd()], until.since(clock::now()))?;
                walk.receive()?;
                left = missing(&walk);
            }
            if left.is_empty() {
                break;
            }
        }
        let silent = walk.hops.iter().rev().take_while(|hop| hop.address.is_none()).count();
        if silent >= SILENT {
            walk.end = walk.end.or(Some(TracerouteEnd::Silence));
        }
        if walk.end.is_some() {
            break;
        }
    }
    Ok(TracerouteResult { hops: walk.hops, survey: walk.survey, end: walk.end.unwrap_or(TracerouteEnd::Limit) })
}

impl Traceroute {
    /// Sends a probe. If ICMP errors of earlier probes block the send, the next attempt repeats it.
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        match self.socket.send(bytes) {
            Err(error) if !is_icmp_answer(&error) => {
                Err(error).with_context(|| format!("nothing can be sent to {}", self.host))
            }
            _ => self.receive(),
        }
    }

    /// Evaluates all answers that have arrived.
    fn receive(&mut self) -> Result<()> {
        while let Some(QuotedDatagram { from, reason: why, data }) = self.socket.quote()? {
            let returned = self.survey.record_reply(&data);
            // A raw socket also gets quotes of packets that other programs have sent to the host.
            if returned.is_none() && seal::read(&data).is_ok() {
                continue;
            }
            // A truncated quote does not identify its probe; most likely it belongs to the current hop.
            let hop = returned.map_or(self.hops.len(), |returned| usize::from(returned.hop));
            self.record_answer(hop, returned, from);
            let end = match why {
                IcmpErrorReason::Expired => None,
                IcmpErrorReason::PortUnreachable => Some(TracerouteEnd::Host),
                IcmpErrorReason::Unreachable => {
                    from.map(|from| if from == self.host { TracerouteEnd::Host } else { TracerouteEnd::Unreachable })
                }
            };
            self.end = self.end.or(end);
        }
        let mut bytes = [0; LONGEST];
        while let Some((came, _)) = self.socket.receive(&mut bytes).context("nothing can be received")? {
            if let Some(returned) = self.survey.record_reply(came) {
                self.record_answer(returned.hop.into(), Some(returned), Some(self.host));
                self.end = Some(TracerouteEnd::Host);
            }
        }
        Ok(())
    }

    fn record_answer(&mut self, hop: usize, returned: Option<ProbeReply>, from: Option<IpAddr>) {
        let present = self.hops.len();
        let Some(known) = hop.checked_sub(1).and_then(|hop| self.hops.get_mut(hop)) else { return };
        known.address = known.address.or(from);
        let (attempt, sent) = self.attempt;
        if hop == present && returned.is_some_and(|returned| returned.attempt == attempt) {
            known.delay = known.delay.or(Some(clock::now().since(sent)));
        }
    }
}
