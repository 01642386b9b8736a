//! Ephemeral state processing: a packet carries one instruction, and routers keep the values it writes for ten seconds (Calvert, Griffioen, Imam, Li:
//! "Challenges in implementing an ESP service", IWAN 2003).
//!
//! | module | content |
//! |---|---|
//! | [`store`] | values under tags: shards, their owners, cleaners |
//! | [`isa`] | the instruction set |
//! | [`wire`] | the wire format, and the packets that carry it |
//! | [`bound`] | store sizing |
//! | [`host`] | the end-system side: computations, rounds, reporters, collectors |
//! | [`site`] | executes a batch of packets at one processing place |
//! | [`elements`] | the same as a graph of elements, for comparison |
//! | [`hook`] | all processing places of a router, for one worker |
//! | [`Cleaners`] | cleaners of stores with a dedicated cleaner thread |
//! | [`InstructionClock`] | the clock that times instructions |
//! | [`Executor`] | builds the plane's packet hooks from the configuration |
//! | [`registered`] | instructions that the operator registered |
//! | [`seal`] | parts authenticated with the operator's key |
//! | [`conformance`] | checks an implementation against the test vectors |
//! | [`guard`], [`variables`] | limits per source, and the router variables that packets may read |
//!
//! The command line, the configuration and the metrics say *ephemeral state* instead of ESP, which operators read as IPsec's ESP.

#![forbid(unsafe_code)]

pub mod bound;
mod cleaner_thread;
pub mod conformance;
pub mod elements;
mod executor;
mod fate;
mod flows;
pub mod guard;
pub mod hook;
pub mod host;
pub mod isa;
mod overload;
pub mod registered;
mod reorder;
pub mod report;
pub mod seal;
pub mod site;
mod stats;
pub mod store;
mod traces;
pub mod variables;
pub mod wire;

pub use cleaner_thread::Cleaners;
pub use executor::Executor;
pub use stats::InstructionClock;

#[cfg(test)]
mod tests;
