//! What a link does to packets: when it takes the next, when that has left, whether it arrives, and when.
//!
//! One implementation for links of simulated worlds, for the `link` of a real port and for `switchpath link` (adr/0037).
//! It reads no clock and holds no packet: times are arguments, so a link is asked again and again what it would do, and
//! whoever asks keeps the packets. What is random follows from a seed; what is not is exact, to the fraction of a nanosecond.
//!
//! A packet crosses in three steps. The link is [`ready`](Medium::ready) for it: now it is taken out of its queue. It is
//! [sent](Medium::send), which takes until its last bit has left. It [crosses](Medium::cross), or is lost, or comes twice.
//!
//! Traces are lists of opportunities to send, in milliseconds, one a line. What one carries is said in three ways (spec
//! N-31), which differ in when a packet is taken out of its queue, and so in what a queueing scheme sees:
//!
//! | mode | an opportunity carries | a packet is taken |
//! |---|---|---|
//! | `packet` (ns-2, as used for the published tables) | one packet of any size | when the one before has left; it waits on the link |
//! | `bytes(1500)` (cellsim), `bytes(1504)` (mahimahi) | so many bytes, of as many packets as fit and a part of one more | at the opportunity |

mod fate;
mod lte;
mod opportunities;
mod service;
mod trace;

pub use fate::Crossing;
pub use lte::lte;
pub use trace::{MOST_LINES, Trace, TraceError};

use crate::Chance;
use fate::Road;
use plan::{MediumPlan, Service, TraceSource};
use service::Gate;
use std::sync::Arc;
use units::{Instant, Rate};

/// Opportunities of a trace that have passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opportunities {
    /// Something of a packet went with them.
    pub used: u64,
    /// There was nothing to send.
    pub wasted: u64,
}

/// A link, one way.
#[derive(Clone, Debug)]
pub struct Medium {
    gate: Gate,
    road: Road,
    overhead: i32,
}

impl Medium {
    /// A link as it is described, whose trace begins at `start`. `trace` is that of the description, where it has one
    /// (see [`Medium::trace`]); `seed` and `name` say what chance does: links with other names differ.
    ///
    /// # Panics
    ///
    /// Where the description has a trace and there is none.
    pub fn new(plan: &MediumPlan, trace: Option<Arc<Trace>>, start: Instant, seed: u64, name: &str) -> Medium {
        let chance = Chance::new(seed, &format!("{name} service"));
        let gate = Gate::new(&plan.service, trace, start, chance);
        Medium { gate, road: Road::new(plan, seed, name), overhead: plan.overhead }
    }

    /// The trace that a description names: made up, or read from the file by `read`. None where it has no trace.
    ///
    /// # Errors
    ///
    /// What `read` says, or what is wrong with the file, with its line.
    pub fn trace(
        plan: &MediumPlan,
        read: impl FnOnce(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Option<Arc<Trace>>, String> {
        let Service::Trace(trace) = &plan.service else { return Ok(None) };
        let trace = match &trace.source {
            TraceSource::Lte { mean, length, seed } => lte(*mean, *length, *seed),
            TraceSource::File(file) => Trace::parse(&read(file)?).map_err(|error| format!("{file}:{error}"))?,
        };
        Ok(Some(Arc::new(trace)))
    }

    /// From when on it takes the next packet, by what is known at `now`: at once where that is not later. None where it
    /// never takes one again: its trace has ended. What it could have carried before `now` is lost.
    #[inline]
    pub fn ready(&mut self, now: Instant) -> Option<Instant> {
        self.gate.ready(now)
    }

    /// A packet of so many bytes is handed over at `now`; before it is ready, it is taken when it is. Answers when its last
    /// bit has left: [`Instant::FAR`] where the trace ends before.
    #[inline]
    pub fn send(&mut self, now: Instant, bytes: u32) -> Instant {
        let length = u64::try_from(i64::from(bytes) + i64::from(self.overhead)).unwrap_or(0).max(1);
        self.gate.send(now, length)
    }

    /// What becomes of a packet whose last bit has left. Packets arrive in the order in which they are asked for, unless the
    /// link reorders.
    #[inline]
    pub fn cross(&mut self, left: Instant) -> Crossing {
        self.road.cross(left)
    }

    /// What it carries at `now`, in bits a second. Of a trace what its opportunities of the last 100 ms could have carried.
    pub fn rate(&self, now: Instant) -> Rate {
        self.gate.rate(now)
    }

    /// What became of the opportunities of its trace so far.
    pub fn opportunities(&self) -> Opportunities {
        self.gate.opportunities()
    }

    /// Whether its trace had to go on and did not: an error, where the description says so.
    pub fn has_failed(&self) -> bool {
        self.gate.has_failed()
    }

    /// What becomes of packets that have left is from now on as `other` says; nothing under way is overtaken.
    pub fn reroute(&mut self, other: Medium) {
        self.road = self.road.clone().succeed(other.road);
        self.overhead = other.overhead;
    }

    /// Goes on as `other`, from `now` on: what is being sent is sent to its end, and what is under way is not overtaken.
    pub fn change(&mut self, other: Medium, now: Instant) {
        let free = self.gate.free();
        *self = Medium { gate: other.gate, road: self.road.clone().succeed(other.road), overhead: other.overhead };
        if free > now && free < Instant::FAR {
            self.gate.hold(free);
        }
    }
}
