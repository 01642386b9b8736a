//! Subscribers of an access network: the share that each packet belongs to, and the round-trip times of their connections.
//!
//! The control side builds a [`CircuitTable`] and publishes it. Workers look up the packets of each batch in it. They share one
//! [`RoundTrips`]: it measures the round-trip times of TCP connections that cross the router, without packets of its own, and has a histogram for each side
//! of each circuit.

#![forbid(unsafe_code)]

mod circuits;
mod exact_keys;
mod histogram;
mod prefixes;
mod round_trips;
mod rtt;
mod timestamps;

pub use circuits::{CircuitError, CircuitTable, LookUpDirection};
pub use histogram::RttHistogram;
pub use round_trips::{RoundTrips, RttHistograms, RttSlots};
pub use rtt::{RttSide, RttTable};
