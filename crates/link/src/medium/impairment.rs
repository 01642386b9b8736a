//! The fate of a packet after its transmission: loss, delay, duplication, reordering.

use crate::RandomStream;
use plan::{Loss, MediumPlan};
use units::{Instant, Nanos, Parts};

/// The fate of a packet on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransitResult {
    /// It is lost.
    Lost,
    /// It arrives.
    Once(Instant),
    /// It arrives twice.
    Twice(Instant, Instant),
}

/// The path over a link. Each random decision has a stream of its own: losses do not change the sequence of delays that the other packets draw.
#[derive(Clone, Debug)]
pub(super) struct Impairment {
    delay: Nanos,
    jitter: Nanos,
    loss: Loss,
    duplicate: Parts,
    reorder: Parts,
    reorder_by: Nanos,
    /// The state of a Gilbert model: true while losses are frequent.
    bad: bool,
    /// The latest arrival of a packet that must not be overtaken.
    last: Instant,
    losses: RandomStream,
    /// None if only losses are random.
    other_streams: Option<Box<OtherStreams>>,
}

/// The streams of the other decisions.
#[derive(Clone, Debug)]
struct OtherStreams {
    jitter: RandomStream,
    duplicates: RandomStream,
    orders: RandomStream,
}

impl Impairment {
    pub fn new(plan: &MediumPlan, seed: u64, name: &str) -> Impairment {
        let MediumPlan { delay, jitter, loss, duplicate, reorder, reorder_by, .. } = *plan;
        let none = Parts::default();
        let plain = jitter == Nanos::ZERO && duplicate == none && reorder == none;
        let stream = |what: &str| RandomStream::new(seed, &format!("{name} {what}"));
        let more =
            || OtherStreams { jitter: stream("jitter"), duplicates: stream("duplicate"), orders: stream("reorder") };
        Impairment {
            delay,
            jitter,
            loss,
            duplicate,
            reorder,
            reorder_by,
            bad: false,
            last: Instant::START,
            losses: RandomStream::new(seed, name),
            other_streams: (!plain).then(|| Box::new(more())),
        }
    }

    /// Changes to `other`. No packet overtakes one under way.
    pub fn succeed(self, other: Impairment) -> Impairment {
        Impairment { last: self.last, bad: self.bad, ..other }
    }

    #[inline]
    pub fn cross(&mut self, left: Instant) -> TransitResult {
        if self.loses() {
            return TransitResult::Lost;
        }
        let first = self.arrives(left);
        let again = |more: &mut Box<OtherStreams>| more.duplicates.happens(self.duplicate);
        match self.other_streams.as_mut().is_some_and(again) {
            true => TransitResult::Twice(first, self.arrives(left)),
            false => TransitResult::Once(first),
        }
    }

    #[inline]
    fn loses(&mut self) -> bool {
        match self.loss {
            Loss::Independent(part) => self.losses.happens(part),
            Loss::Gilbert { begin, end, good, bad } => {
                // The state changes before the packet is judged: a bad state lasts 1 / `end` packets on average.
                let turns = self.losses.happens(if self.bad { end } else { begin });
                self.bad ^= turns;
                self.losses.happens(if self.bad { bad } else { good })
            }
        }
    }

    #[inline]
    fn arrives(&mut self, left: Instant) -> Instant {
        let mut at = left + self.delay;
        if let Some(more) = &mut self.other_streams {
            if self.jitter > Nanos::ZERO {
                // Plus one: the jitter itself is a possible value.
                at += Nanos::new(more.jitter.below(self.jitter.get() + 1));
            }
            if more.orders.happens(self.reorder) {
                // This packet does not raise `last`, so those behind may overtake it.
                return at.max(self.last) + self.reorder_by;
            }
        }
        // Jitter must not reorder: a packet arrives no earlier than the one before it.
        self.last = self.last.max(at);
        self.last
    }
}
