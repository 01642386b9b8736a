//! A world on real packets: the same router, configuration, cards, sources and sinks, with the kernel between them, and so
//! many times slower that the machine is fast enough for what the world says work costs.
//!
//! ```text
//!   stations: sources, sinks      kernel       cards         worker
//!   one processor: [`Stations`] -- cables -- their rings -- steps: the other processor, [`Course`]
//! ```
//!
//! *Time.* The worker is handed its time, as everywhere, and the time of the world is that of the machine divided by a whole
//! number. The router's processor makes it. It stands still while that processor, or that of the stations, is taken away:
//! what else a machine has to do makes a run longer, and changes nothing in it.
//!
//! *Costs.* After each piece of work the meter waits until it has taken what the world says. Where work takes longer by
//! itself, so it has; how often and how much is counted.
//!
//! *Cards* have the rings that the world gives them, before the rings of the kernel, so that it is known where a packet is
//! lost. What the kernel itself loses, in its own rings or because it does not take a frame, is counted apart
//! (`real.kernel_lost`): it is nobody's.
//!
//! | value | what |
//! |---|---|
//! | `real.slower` | how many times |
//! | `real.dearer_laps`, `real.excess` | laps that cost more by themselves than the world says, in parts of all; by how much, in parts of the time |
//! | `real.stood_still`, `real.stops` | the part of the machine's time in which the world stood still; how often |
//! | `real.kernel_lost` | packets that the kernel lost |
//! | `real.late_max_us` | the most that a packet was sent late, in the time of the world |
//! | `real.own.{poll,switch,input,forwarding,output}_ns` | what a packet (a look, a switch) took by itself |

mod pacer;
mod stations;

pub use crate::run::Course;
pub use pacer::Clock;
pub(crate) use pacer::{Common, Leaves, OWN, Pacer};
pub use stations::Stations;

#[cfg(test)]
mod tests;

use packet::port::Port;

/// A cable: the port at the router, and the port at the stations.
pub struct Ends {
    /// What the card of the router receives and transmits by.
    pub router: Box<dyn Port>,
    /// What its sources send by, and its sink receives by.
    pub station: Box<dyn Port>,
}
