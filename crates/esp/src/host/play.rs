//! What members and roots have in common, whatever they find out: the futures play any of them.

use super::{Action, Controller, Mean, MeanController, MeanReporter, Outcome, Reporter};
use crate::wire::Part;
use units::Instant;

/// A member of a group, which sends and hears nothing.
pub trait Member {
    /// What to do at `now`.
    fn poll(&mut self, now: Instant) -> Action<()>;
}

/// The root of a group, which hears what routers let through.
pub trait Root {
    /// What it finds out.
    type Outcome;

    /// What to do at `now`.
    fn poll(&mut self, now: Instant) -> Action<Self::Outcome>;

    /// A part has come.
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

impl Root for Controller {
    type Outcome = Outcome;

    fn poll(&mut self, now: Instant) -> Action<Outcome> {
        self.poll(now)
    }

    fn received(&mut self, part: &Part) {
        self.received(part);
    }
}

impl Root for MeanController {
    type Outcome = Outcome<Mean>;

    fn poll(&mut self, now: Instant) -> Action<Outcome<Mean>> {
        self.poll(now)
    }

    fn received(&mut self, part: &Part) {
        self.received(part);
    }
}
