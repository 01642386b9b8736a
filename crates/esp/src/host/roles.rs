//! Traits of members and roots, which the futures run.

use super::{Action, Mean, MeanController, MeanReporter, Reporter, RoundController, RoundOutcome};
use crate::wire::Part;
use units::Instant;

/// A member of a group. It only sends.
pub trait Member {
    /// The next action at `now`.
    fn poll(&mut self, now: Instant) -> Action<()>;
}

/// The root of a group. It receives the parts that routers forward.
pub trait GroupRoot {
    /// The result.
    type Outcome;

    /// The next action at `now`.
    fn poll(&mut self, now: Instant) -> Action<Self::Outcome>;

    /// Processes a received part.
    fn received(&mut self, part: &Part);
}

impl Member for Reporter {
    fn poll(&mut self, now: Instant) -> Action<()> {
        self.poll(now)
    }
}

impl Member for MeanReporter {
    fn poll(&mut self, now: Instant) -> Action<()> {
        self.poll(now)
    }
}

impl GroupRoot for RoundController {
    type Outcome = RoundOutcome;

    fn poll(&mut self, now: Instant) -> Action<RoundOutcome> {
        self.poll(now)
    }

    fn received(&mut self, part: &Part) {
        self.received(part);
    }
}

impl GroupRoot for MeanController {
    type Outcome = RoundOutcome<Mean>;

    fn poll(&mut self, now: Instant) -> Action<RoundOutcome<Mean>> {
        self.poll(now)
    }

    fn received(&mut self, part: &Part) {
        self.received(part);
    }
}
