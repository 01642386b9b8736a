//! Ephemeral state: packets carry one instruction each, and routers keep what it writes for ten seconds and no longer
//! (Calvert, Griffioen, Imam, Li: "Challenges in implementing an ESP service", IWAN 2003).
//!
//! | module | what |
//! |---|---|
//! | [`store`] | values under tags: shards, their owners, what takes away the expired |
//! | [`isa`] | the instructions and what they do |
//! | [`wire`] | the bytes, and the packets that carry them |
//! | [`bound`] | how large a store has to be |
//! | [`host`] | the side of end systems: computations, rounds, who reports and who collects |
//! | [`site`] | a batch of packets at one place of a router |
//! | [`elements`] | the same taken apart, to compare with |
//! | [`station`] | all places of a router, as one worker has them |
//! | [`Cleaners`] | those of stores that a thread of its own cleans |
//! | [`Clock`] | the time, where instructions are to be timed |
//! | [`Executor`] | the stations of the plane, by a configuration |
//! | [`registered`] | instructions that an operator has registered |
//! | [`seal`] | parts that only those can make who have the operator's key |
//! | [`conform`] | holding an implementation to the test vectors |
//! | [`guard`], [`variables`] | what one source may, and what of a router packets may read |
//!
//! Whoever reads of it in the command line, a configuration or a metric reads *ephemeral state*: to people ESP is IPsec.

#![forbid(unsafe_code)]

mod apart;
pub mod bound;
pub mod conform;
pub mod elements;
mod executor;
mod fate;
mod flows;
pub mod guard;
pub mod host;
pub mod isa;
mod order;
pub mod registered;
pub mod report;
pub mod seal;
mod seen;
pub mod site;
pub mod station;
pub mod store;
mod strain;
mod traces;
pub mod variables;
pub mod wire;

pub use apart::Cleaners;
pub use executor::Executor;
pub use seen::Clock;

#[cfg(test)]
mod tests;
