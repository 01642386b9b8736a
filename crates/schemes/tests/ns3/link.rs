//! A link of a constant rate: it takes the next packet when the one before is through.

use crate::described::described;
use crate::source::{LENGTH, Source};
use schemes::model::{Fate, Model};
use units::{Bytes, Instant, Nanos, Rate};

/// What it carries.
pub const RATE: Rate = Rate::mbit(10);

/// How long it takes for a packet.
pub fn slot() -> Nanos {
    RATE.time_for(Bytes::new(LENGTH.into()))
}

/// What became of packets.
#[derive(Default)]
pub struct Outcome {
    /// Those that left, in that order.
    pub sent: Vec<usize>,
    /// Those that were lost, wherever.
    pub lost: Vec<usize>,
    /// How many were marked.
    pub marked: usize,
}

impl Outcome {
    /// The part that was lost.
    pub fn part(&self) -> f64 {
        self.lost.len() as f64 / (self.lost.len() + self.sent.len()) as f64
    }
}

/// What becomes of packets before a link with this scheme.
pub fn here(scheme: &str, source: &Source) -> Outcome {
    let mut scheme = described(scheme);
    let mut model = Model::with(scheme.queues() as usize);
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
                Fate::Sent(number) => {
                    busy = Some(now + slot());
                    outcome.sent.push(number);
                }
                Fate::Refused(number) | Fate::Dropped(number) => outcome.lost.push(number),
            }
        }
        seen = model.fates.len();
    }
    outcome.marked = model.marked.len();
    outcome
}
