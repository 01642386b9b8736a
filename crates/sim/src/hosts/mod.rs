//! Worlds of hosts, flows and links: transport protocols meet queueing schemes, and no router is in between.
//!
//! Senders react to what becomes of their packets, so that nothing can be computed ahead as it is for [sources](crate::source): there are
//! events. There are few of them, though: for each link the time at which it takes the next packet of those that wait, and the arrival of the
//! first of those on their way, which stand in a ring behind it; for each flow one timer. A packet that finds an idle link leaves as it
//! comes. So the heap of events is as small as the world, whatever is under way in it.

mod engine;
mod events;
mod flow;
#[cfg(test)]
mod level;
mod link;
mod measure;
mod packet;
mod passage;
mod queue;
mod watched;
mod wires;

pub(crate) use engine::run;
pub(crate) use packet::Fields;
pub use passage::{Change, Direction, Passage};
pub use watched::{Look, Watched};
