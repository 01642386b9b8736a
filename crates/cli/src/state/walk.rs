//! Walks the way to a host: sends probes that expire at one router after the other, and evaluates the ICMP errors.

use super::socket::{Socket, is_of_an_answer};
use super::wire::Line;
use crate::arguments::Way;
use anyhow::{Context, Result};
use esp::host::{Probes, Question, Returned, Survey};
use esp::seal;
use io::clock;
use io::quotes::{Quote, Why};
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
pub enum End {
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
pub struct Walked {
    /// Its hops, the nearest first.
    pub hops: Vec<Hop>,
    /// The results of the probes.
    pub survey: Survey,
    /// How it ended.
    pub end: End,
}

/// A walk in progress.
struct Walk {
    socket: Socket,
    host: IpAddr,
    hops: Vec<Hop>,
    survey: Survey,
    end: Option<End>,
    /// The current attempt at the current hop, and its time.
    attempt: (u8, Instant),
}

/// Walks to a host, and sends these questions to each router.
pub fn walk(host: IpAddr, line: Line, probes: Probes, questions: &[Question], way: &Way) -> Result<Walked> {
    let socket = line.to(host)?;
    socket.keep_quotes().context("this system does not tell what comes back of packets")?;
    let survey = Survey::new(probes);
    let mut walk = Walk { socket, host, hops: Vec::new(), survey, end: None, attempt: (0, clock::now()) };
    let mut sleeper = Sleeper::new(Waker::new()?);
    for hop in 1..=way.hops {
        walk.socket.set_hops(hop)?;
        walk.hops.push(Hop::default());
        for attempt in 0..way.tries {
            let missing = |walk: &Walk| questions.iter().copied().filter(|&one| !walk.survey.has(one, hop)).collect();
            let asked: Vec<Question> = missing(&walk);
            walk.attempt = (attempt, clock::now());
            for question in asked {
                walk.send(&probes.datagram(question, hop, attempt, |part| line.bytes(part)))?;
            }
            let until = clock::now() + way.wait;
            let mut left: Vec<Question> = missing(&walk);
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
            walk.end = walk.end.or(Some(End::Silence));
        }
        if walk.end.is_some() {
            break;
        }
    }
    Ok(Walked { hops: walk.hops, survey: walk.survey, end: walk.end.unwrap_or(End::Limit) })
}

impl Walk {
    /// Sends a probe. If ICMP errors of earlier probes block the send, the next attempt repeats it.
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        match self.socket.send(bytes) {
            Err(error) if !is_of_an_answer(&error) => {
                Err(error).with_context(|| format!("nothing can be sent to {}", self.host))
            }
            _ => self.receive(),
        }
    }

    /// Evaluates all answers that have arrived.
    fn receive(&mut self) -> Result<()> {
        while let Some(Quote { from, why, data }) = self.socket.quote()? {
            let returned = self.survey.came(&data);
            // A raw socket also gets quotes of packets that other programs have sent to the host.
            if returned.is_none() && seal::read(&data).is_ok() {
                continue;
            }
            // A truncated quote does not identify its probe; most likely it belongs to the current hop.
            let hop = returned.map_or(self.hops.len(), |returned| usize::from(returned.hop));
            self.answered(hop, returned, from);
            let end = match why {
                Why::Expired => None,
                Why::NobodyListens => Some(End::Host),
                Why::Unreachable => from.map(|from| if from == self.host { End::Host } else { End::Unreachable }),
            };
            self.end = self.end.or(end);
        }
        let mut bytes = [0; LONGEST];
        while let Some((came, _)) = self.socket.receive(&mut bytes).context("nothing can be received")? {
            if let Some(returned) = self.survey.came(came) {
                self.answered(returned.hop.into(), Some(returned), Some(self.host));
                self.end = Some(End::Host);
            }
        }
        Ok(())
    }

    fn answered(&mut self, hop: usize, returned: Option<Returned>, from: Option<IpAddr>) {
        let present = self.hops.len();
        let Some(known) = hop.checked_sub(1).and_then(|hop| self.hops.get_mut(hop)) else { return };
        known.address = known.address.or(from);
        let (attempt, sent) = self.attempt;
        if hop == present && returned.is_some_and(|returned| returned.attempt == attempt) {
            known.delay = known.delay.or(Some(clock::now().since(sent)));
        }
    }
}
