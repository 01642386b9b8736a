//! An alarm that triggers when enough members have reported (spec E-46).

use super::Computation;
use crate::wire::Part;

/// An alarm of a computation, for members and for the root.
///
/// Each router forwards as many reports as the alarm needs, and drops the rest. So the alarm triggers at the report that reaches the threshold,
/// no matter which member sends it. The root receives at most that many packets from each neighbouring router, however many members report.
///
/// Each received report counts within one lifetime, so lost reports do not count, and retransmissions count twice. For an exact number use a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alarm {
    report: Part,
    needed: u32,
    reports: u32,
}

impl Alarm {
    /// An alarm that triggers at `needed` reports, counted under `tag`.
    pub fn new(computation: &Computation, tag: u64, needed: u32) -> Alarm {
        Alarm { report: computation.count_to(tag, needed), needed, reports: 0 }
    }

    /// The part that a member sends once to report.
    pub fn report(&self) -> Part {
        self.report
    }

    /// Processes a received part. Returns true once: when it triggers the alarm.
    pub fn received(&mut self, part: &Part) -> bool {
        // The error bit is ignored: a report that a router could not execute still is a report.
        let is_report = part.computation == self.report.computation && part.instruction == self.report.instruction;
        if !is_report || self.is_triggered() {
            return false;
        }
        self.reports += 1;
        self.is_triggered()
    }

    /// True if the alarm has triggered.
    pub fn is_triggered(&self) -> bool {
        self.reports >= self.needed
    }
}
