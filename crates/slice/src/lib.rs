//! Slices: fast paths of tenants on one router (Turner et al. 2007, *Supercharging PlanetLab*).
//!
//! A slice has a code option, filters, queues, memory, counters and meta-interfaces of its own. Its packets arrive and leave in UDP packets of the
//! router's addresses. adr/0077 explains which part of the router does which stage of the pipeline.

#![forbid(unsafe_code)]

pub mod code;
mod memory;

pub use memory::{MemoryBounds, SliceMemory};
