//! A world on real packets. The router, configuration, cards, sources and sinks are the same, with the kernel between them. The world runs so many
//! times slower than real time that the machine can keep up with the costs it declares.
//!
//! ```text
//!   end systems: sources, sinks   kernel       cards         worker
//!   one processor: [`Stations`] -- cables -- their rings -- steps: the other processor, [`Course`]
//! ```
//!
//! *Time.* The worker receives its time from the caller, as everywhere. World time is machine time divided by a whole number, and the processor of
//! the router advances it. It stops while another process has that processor, or that of the end systems. So other work on the machine makes a run
//! longer, but does not change its result.
//!
//! *Costs.* After each piece of work the meter waits until the declared cost has passed. If the work itself takes longer, its real time counts. The
//! number of such cases and the excess time are reported.
//!
//! *Cards* have the rings of the world's description, in front of the rings of the kernel, so it is known where a packet is lost. Frames that the
//! kernel loses or refuses are counted separately (`real.kernel_lost`); they have no cause in the world.
//!
//! | value | meaning |
//! |---|---|
//! | `real.slower` | the slow-down factor |
//! | `real.dearer_laps` | the part of laps that cost more than the world declares |
//! | `real.excess` | the excess cost of these laps, as a part of the time |
//! | `real.stood_still`, `real.stops` | the part of machine time during which world time stopped; the number of stops |
//! | `real.kernel_lost` | packets that the kernel lost |
//! | `real.late_max_us` | the longest delay of a packet's transmission behind its schedule, in world time |
//! | `real.own.{poll,switch,input,forwarding,output}_ns` | the real cost of a packet (of a poll, of a switch) |

mod end_systems;
mod pacer;

pub use crate::run::RealRun;
pub use end_systems::EndSystems;
pub use pacer::MonotonicClock;
pub(crate) use pacer::{EndNotice, Pacer, WORK_NAMES, WorldClock};

#[cfg(test)]
mod tests;

use packet::port::Port;

/// A cable: its ports at the router and at the end systems.
pub struct CablePorts {
    /// The port through which the router's card receives and transmits.
    pub router: Box<dyn Port>,
    /// The port through which its sources send and its sink receives.
    pub end_system: Box<dyn Port>,
}
