//! Worlds of hosts, flows and links: transport protocols meet queueing schemes, without routers in between.
//!
//! Senders react to the fates of their packets, so unlike for [sources](crate::source) nothing can be computed ahead: these worlds need events. There
//! are few. Each link has one for the next service of its queue, and one for the first of its packets in flight; the others are in a ring behind it.
//! Each flow has one timer. A packet that finds an idle link is sent at once. So the number of events depends on the size of the world, not on the
//! number of packets in it.

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
