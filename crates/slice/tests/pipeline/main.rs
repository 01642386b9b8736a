//! Slices on a router in memory: from an outer packet on one wire to an outer packet on another.

mod decisions;
mod ephemeral;
mod fates;
mod faults;
mod filters;
mod node;
mod options;
mod order;
mod queues;
mod reinjected;
mod resources;
mod trial;
