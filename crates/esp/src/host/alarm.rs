//! An alarm that goes off when so many have reported (spec E-46).

use super::Computation;
use crate::wire::Part;

/// An alarm of a computation, as those who report have it and whoever is to be alarmed.
///
/// Each router lets as many reports pass as it takes, and no more. So the alarm goes off with the report that makes
/// them enough, wherever it comes from, and whoever is alarmed gets that many packets from each router next to it,
/// however many report. Reports are counted for one lifetime, each time that they come: what is lost is not counted,
/// and what is sent twice is counted twice. Where it has to be exact a round says how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alarm {
    report: Part,
    needed: u32,
    came: u32,
}

impl Alarm {
    /// One that goes off with `needed` reports, which are counted under `tag`.
    pub fn new(computation: &Computation, tag: u64, needed: u32) -> Alarm {
        Alarm { report: computation.count_to(tag, needed), needed, came: 0 }
    }

    /// What is sent once by whoever has something to report.
    pub fn report(&self) -> Part {
        self.report
    }

    /// A part has come. Answers whether it sets the alarm off: once.
    pub fn received(&mut self, part: &Part) -> bool {
        // One that a router could not execute is a report all the same.
        let is_report = part.computation == self.report.computation && part.instruction == self.report.instruction;
        if !is_report || self.has_gone_off() {
            return false;
        }
        self.came += 1;
        self.has_gone_off()
    }

    /// Whether so many have reported.
    pub fn has_gone_off(&self) -> bool {
        self.came >= self.needed
    }
}
