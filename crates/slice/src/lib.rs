//! Slices: fast paths of tenants on one router (Turner et al. 2007, *Supercharging PlanetLab*).
//!
//! A slice has a code option, filters, queues, memory, counters and meta-interfaces of its own. Its packets arrive and leave in UDP packets of the
//! router's addresses. adr/0077 explains which part of the router does which stage of the pipeline.
//!
//! [`Slices`] is the control side. It provides the function `slice` of paths to a router, whose workers process the packets.

#![forbid(unsafe_code)]

pub mod bands;
pub mod code;
mod command;
mod command_text;
mod counters;
mod cpu_share;
mod exceptions;
mod function;
mod hop;
mod memory;
mod outer;
mod reinjection;
mod rows;
mod slices;
mod spec;
mod table;
mod work;

pub use code::DoubleRunReport;
pub use command::SliceCommand;
pub use counters::SliceCounters;
pub use exceptions::{ExceptionReader, SliceException};
pub use memory::{MemoryBounds, SliceMemory};
pub use reinjection::Reinjection;
pub use slices::{
    CodeSwap, FilterReport, MemoryVersion, ReservationReport, ReturnedPackets, SliceQueueReport, SliceReport, Slices,
};
pub use spec::{
    FilterAction, FilterEdit, FilterSpec, QueueSpec, SchedulerId, SliceError, SliceOwner, SliceQuota, SliceRates,
    SliceSpec,
};
