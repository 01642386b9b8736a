//! The part of `check` about stores of ephemeral state: their capacity, and the entries that the lines can fill (spec E-04).

use crate::output::{Rows, or_dash, short};
use anyhow::Result;
use control::memory;
use plan::Plan;
use plan::state::ExecutionPlaces;
use serde::Serialize;
use std::io::Write;
use units::PacketRate;

/// A store and its bound.
#[derive(Debug, Serialize)]
pub struct StoreBound {
    /// The port of the store, or `central`.
    pub store: String,
    /// The most entries it can hold.
    pub capacity_entries: u64,
    /// Packets a second that can reach it, from `line_rate`; null for a port without it.
    pub line_pps: Option<u64>,
    /// Entries that this packet rate fills in a lifetime.
    pub bound_entries: Option<u64>,
    /// Memory of the store when it is full.
    pub memory_bytes: u64,
}

/// Computes the bounds of a configuration's stores, in the order of the ports; the central store is last.
pub fn of(plan: &Plan) -> Vec<StoreBound> {
    let Some(state) = &plan.state else { return Vec::new() };
    let memory = memory::store_limits(plan);
    let bound = |store: &str, capacity_entries: u64, line: Option<PacketRate>| StoreBound {
        store: store.to_owned(),
        capacity_entries,
        line_pps: line.map(PacketRate::get),
        bound_entries: line.map(|line| state.most_live_entries(line)),
        memory_bytes: memory.iter().find(|(of, _)| of == store).map_or(0, |(_, memory)| memory.get()),
    };
    let ports = plan.ports.iter().filter(|port| port.state.at != ExecutionPlaces::None && !state.single_store);
    let of_ports =
        ports.map(|port| bound(&port.name, port.state.capacity.unwrap_or(state.capacity), port.cpu.line_rate));
    // The central store sees the packets of all ports.
    let all: Option<u64> = plan.ports.iter().map(|port| port.cpu.line_rate.map(PacketRate::get)).sum();
    let all = all.map(PacketRate::pps);
    let central = (state.central > 0).then(|| bound("central", state.central, all));
    of_ports.chain(central).collect()
}

/// Prints the bounds as a table.
pub fn print(bounds: &[StoreBound], out: &mut dyn Write) -> Result<()> {
    let mut rows = Rows::new(&["store", ">entries", ">memory", ">packets/s", ">can be filled"]);
    for bound in bounds {
        let text = |number: Option<u64>| or_dash(number.map(|number| number.to_string()).as_deref());
        let capacity = bound.capacity_entries.to_string();
        let memory = short(bound.memory_bytes as f64) + "B";
        rows.add([bound.store.clone(), capacity, memory, text(bound.line_pps), text(bound.bound_entries)]);
    }
    rows.print(out)?;
    if bounds.iter().any(|bound| bound.bound_entries.is_none()) {
        writeln!(out, "write line_rate for the port of each store without packets/s")?;
    }
    Ok(())
}
