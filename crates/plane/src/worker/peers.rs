//! What workers have to do with each other besides relays. The first worker speaks for the router: it has the neighbours,
//! and the others hand it what is not simply forwarded. What goes between two workers goes over bounded rings with one
//! writer and one reader each.

use crate::bell::Bell;
use crate::relay::stranded;
use packet::Packet;
use rtrb::{Consumer, Producer, RingBuffer};
use stack::Verdict;
use std::net::IpAddr;
use std::sync::Arc;
use units::{InterfaceId, WorkerId};

/// Packets on their way to the first worker, from each of the others.
const HANDED: usize = 1024;
/// Questions and answers under way.
const QUESTIONS: usize = 256;

/// A next hop: the same address on two links is two of them.
pub(crate) type NextHop = (InterfaceId, IpAddr);

/// Another worker, as the first one sees it.
#[derive(Debug)]
pub(crate) struct Colleague {
    pub worker: WorkerId,
    pub handed: Consumer<Packet>,
    pub questions: Consumer<NextHop>,
    pub answers: Producer<(NextHop, Verdict)>,
    pub bell: Arc<Bell>,
}

/// The first worker, as another one sees it.
#[derive(Debug)]
pub(crate) struct Speaker {
    pub handed: Producer<Packet>,
    pub questions: Producer<NextHop>,
    pub answers: Consumer<(NextHop, Verdict)>,
    pub bell: Arc<Bell>,
    /// What it had not taken when it went was counted.
    mourned: bool,
}

impl Speaker {
    /// Packets that were handed to it and that it, which is gone, has not taken; counted once.
    pub fn forsaken(&mut self) -> usize {
        if self.mourned || !self.handed.is_abandoned() {
            return 0;
        }
        self.mourned = true;
        stranded(&self.handed)
    }
}

/// A worker's ends of the rings.
#[derive(Debug)]
pub(crate) enum Crew {
    First(Vec<Colleague>),
    Other(Box<Speaker>),
}

impl Crew {
    /// The ends of all workers, in the order of their ids.
    pub fn of(bells: &[Arc<Bell>]) -> Vec<Crew> {
        let (mut colleagues, mut others) = (Vec::new(), Vec::new());
        for (index, bell) in bells.iter().enumerate().skip(1) {
            let (handing, handed) = RingBuffer::new(HANDED);
            let (asking, questions) = RingBuffer::new(QUESTIONS);
            let (answers, answered) = RingBuffer::new(QUESTIONS);
            let worker = WorkerId::at(index);
            colleagues.push(Colleague { worker, handed, questions, answers, bell: bell.clone() });
            let bell = bells[0].clone();
            let (handed, questions, answers) = (handing, asking, answered);
            others.push(Crew::Other(Box::new(Speaker { handed, questions, answers, bell, mourned: false })));
        }
        std::iter::once(Crew::First(colleagues)).chain(others).collect()
    }

    /// Whether there is no other worker.
    pub fn is_alone(&self) -> bool {
        matches!(self, Crew::First(colleagues) if colleagues.is_empty())
    }

    /// Whether anything has come for this worker.
    pub fn has_mail(&self) -> bool {
        match self {
            Crew::First(colleagues) => colleagues.iter().any(|c| !c.handed.is_empty() || !c.questions.is_empty()),
            Crew::Other(speaker) => !speaker.answers.is_empty(),
        }
    }
}

/// The other workers, as one of them sees them.
pub(super) struct Peers {
    /// The ends of the rings to them.
    pub crew: Crew,
    /// Whether there is no other worker.
    pub alone: bool,
    /// They ring it when they have something for this worker.
    pub bell: Arc<Bell>,
}
