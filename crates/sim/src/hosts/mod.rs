//! Worlds of hosts, flows and links: transport protocols meet queueing schemes, without routers in between.
//!
//! Senders react to the fates of their packets, so unlike for [sources](crate::source) nothing can be computed ahead: these worlds need events. There
//! are few. Each link has one for the next service of its queue, and one for the first of its packets in flight; the others are in a ring behind it.
//! Each flow has one timer. A packet that finds an idle link is sent at once. So the number of events depends on the size of the world, not on the
//! number of packets in it.

#[cfg(test)]
mod codel_reference;
mod engine;
mod events;
mod flow;
mod host_network;
mod link;
mod measure;
mod packet;
mod queue;
mod real_flow;
mod wires;

pub(crate) use engine::run;
pub use host_network::{HostNetwork, NetworkDirection, SchemeReplacement};
pub(crate) use packet::Fields;
pub use real_flow::{KernelTcpInfo, RealFlow};
