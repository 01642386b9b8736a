//! A link of constant rate: it accepts the next packet when the one before has left.

use crate::described::described;
use crate::source::{LENGTH, Source};
use schemes::model::{Model, ModelFate};
use units::{Bytes, Instant, Nanos, Rate};

/// The rate.
pub const RATE: Rate = Rate::mbit(10);

/// The time of a packet.
pub fn slot() -> Nanos {
    RATE.time_for(Bytes::new(LENGTH.into()))
}

/// The fates of packets.
#[derive(Default)]
pub struct Outcome {
    /// Packets that were sent, in order.
    pub sent: Vec<usize>,
    /// Packets that were dropped anywhere.
    pub lost: Vec<usize>,
    /// The number of marked packets.
    pub marked: usize,
}

impl Outcome {
    /// The part of the packets that was dropped.
    pub fn part(&self) -> f64 {
        self.lost.len() as f64 / (self.lost.len() + self.sent.len()) as f64
    }
}

/// The fates of packets before a link with this scheme.
pub fn run_switchpath(scheme: &str, source: &Source) -> Outcome {
    let mut scheme = described(scheme);
    let mut model = Model::with_queues(scheme.queues() as usize);
    model.rate = RATE;
    let (mut busy, mut seen, mut outcome) = (None::<Instant>, 0, Outcome::default());
    let mut arrivals = source.packets().iter().peekable();
    loop {
        let next = arrivals.peek().map(|packet| packet.timestamp);
        let Some(now) = busy.into_iter().chain(next).min() else { break };
        model.now = now;
        if busy == Some(now) {
            busy = None;
        } else {
            model.arrive_all(&mut *scheme, arrivals.next().copied().into_iter());
        }
        if busy.is_none() {
            model.ready(&mut *scheme, 1);
        }
        for fate in model.fates.drain(seen..) {
            match fate {
                ModelFate::Sent(number) => {
                    busy = Some(now + slot());
                    outcome.sent.push(number);
                }
                ModelFate::Refused(number) | ModelFate::Dropped(number) => outcome.lost.push(number),
            }
        }
        seen = model.fates.len();
    }
    outcome.marked = model.marked.len();
    outcome
}
