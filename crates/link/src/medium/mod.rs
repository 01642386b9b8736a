//! The model of a link: when it accepts the next packet, when the last bit of that has left, and whether and when it arrives.
//!
//! One implementation serves links of simulated worlds, the `link` of a real port, and `switchpath link` (adr/0037). It reads no clock and holds no
//! packets. Times are arguments, and the caller keeps the packets. Random behaviour follows from a seed. All other behaviour is exact, to the
//! fraction of a nanosecond.
//!
//! A packet crosses in three steps. The link becomes [`ready`](Medium::ready), and the packet is taken out of its queue. It is [sent](Medium::send),
//! which lasts until its last bit has left. It [crosses](Medium::cross), is lost, or is duplicated.
//!
//! A trace is a list of opportunities to send, in milliseconds, one a line. There are three definitions of an opportunity (spec N-31). They differ in
//! when a packet is taken out of its queue, and therefore in the queue that a scheme sees:
//!
//! | mode | an opportunity carries | a packet is taken |
//! |---|---|---|
//! | `packet` (ns-2, as used for the published tables) | one packet of any size | when the one before has left; it waits on the link |
//! | `bytes(1500)` (cellsim), `bytes(1504)` (mahimahi) | so many bytes: whole packets and a part of one more | at the opportunity |

mod impairment;
mod lte;
mod opportunities;
mod service;
mod trace;

pub use impairment::TransitResult;
pub use lte::lte;
pub use trace::{MOST_LINES, Trace, TraceError};

use crate::RandomStream;
use impairment::Impairment;
use plan::{LinkService, MediumPlan, TraceSource};
use service::ServiceModel;
use std::sync::Arc;
use units::{Instant, Rate};

/// Counts of the opportunities of a trace that have passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opportunities {
    /// Opportunities that carried a packet or a part of one.
    pub used: u64,
    /// Opportunities without a packet to send.
    pub wasted: u64,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Medium {
    gate: ServiceModel,
    impairment: Impairment,
    overhead: i32,
}

impl Medium {
    /// A link of this description, whose trace begins at `start`. `trace` is the trace of the description, if it has one (see [`Medium::trace`]).
    /// `seed` and `name` determine the random streams: links of different names differ.
    ///
    /// # Panics
    ///
    /// If the description has a trace and `trace` is none.
    pub fn new(plan: &MediumPlan, trace: Option<Arc<Trace>>, start: Instant, seed: u64, name: &str) -> Medium {
        let chance = RandomStream::new(seed, &format!("{name} service"));
        let gate = ServiceModel::new(&plan.service, trace, start, chance);
        Medium { gate, impairment: Impairment::new(plan, seed, name), overhead: plan.overhead }
    }

    /// The trace of a description: generated, or read from its file by `read`. None if it has no trace.
    ///
    /// # Errors
    ///
    /// The error of `read`, or the error in the file with its line.
    pub fn trace(
        plan: &MediumPlan,
        read: impl FnOnce(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Option<Arc<Trace>>, String> {
        let LinkService::Trace(trace) = &plan.service else { return Ok(None) };
        let trace = match &trace.source {
            TraceSource::Lte { mean, length, seed } => lte(*mean, *length, *seed),
            TraceSource::File(file) => Trace::parse(&read(file)?).map_err(|error| format!("{file}:{error}"))?,
        };
        Ok(Some(Arc::new(trace)))
    }

    /// When it accepts the next packet, as known at `now`: at once if that is not later. None if its trace has ended. Capacity before `now` is lost.
    #[inline]
    pub fn ready(&mut self, now: Instant) -> Option<Instant> {
        self.gate.ready(now)
    }

    /// Sends a packet of `bytes` at `now`, or when the link is ready if that is later. Returns when its last bit has left: [`Instant::NEVER`] if the
    /// trace ends before.
    #[inline]
    pub fn send(&mut self, now: Instant, bytes: u32) -> Instant {
        // A negative overhead may be larger than a packet. Each packet occupies the link for at least one byte.
        let length = u64::try_from(i64::from(bytes) + i64::from(self.overhead)).unwrap_or(0).max(1);
        self.gate.send(now, length)
    }

    /// The fate of a packet whose last bit has left at `left`. Packets arrive in the order of the calls, unless the link reorders.
    #[inline]
    pub fn cross(&mut self, left: Instant) -> TransitResult {
        self.impairment.cross(left)
    }

    /// The rate at `now` in bits a second. For a trace: the capacity of its opportunities of the last 100 ms.
    pub fn rate(&self, now: Instant) -> Rate {
        self.gate.rate(now)
    }

    /// The counts of the opportunities of its trace.
    pub fn opportunities(&self) -> Opportunities {
        self.gate.opportunities()
    }

    /// True if its trace has ended and the description calls that an error.
    pub fn has_failed(&self) -> bool {
        self.gate.has_failed()
    }

    /// Changes delay, loss and overhead to those of `other`. No packet overtakes one under way.
    pub fn change_impairment(&mut self, other: Medium) {
        self.impairment = self.impairment.clone().succeed(other.impairment);
        self.overhead = other.overhead;
    }

    /// Changes to `other` from `now` on. The packet in transmission is sent to its end. No packet overtakes one under way.
    pub fn change(&mut self, other: Medium, now: Instant) {
        let free = self.gate.free();
        *self = Medium {
            gate: other.gate,
            impairment: self.impairment.clone().succeed(other.impairment),
            overhead: other.overhead,
        };
        // The packet in transmission occupies the new link too, until it has left.
        if free > now && free < Instant::NEVER {
            self.gate.hold(free);
        }
    }
}
