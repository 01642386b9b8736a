//! `[port.NAME.dfq_wire]`: quanta of flows in batches, to a Switchpath at the other end.

use crate::Call;
use crate::diagnostic::Report;
use crate::document::{Path, Section};
use crate::key::Kind;
use crate::share::{CYCLE_SCHEME, SHARE_SCHEME};
use crate::table::{self, table};
use serde::Serialize;
use std::fmt;

table! {
    /// The wire of a port.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
    pub struct DfqWirePlan, pub(super) DFQ_WIRE {
        /// The quantum of each flow, in bytes.
        pub quantum: u16 = (
            Kind::Integer { least: 64, most: 9000 }, "256", "128",
            "The bytes of a flow in each round of a batch."
        );
        /// The flows that the bitmap of a batch covers: a multiple of 8.
        pub bitmap: u16 = (
            Kind::Integer { least: 8, most: 256 }, "64", "128",
            "The flows that the bitmap of a batch covers: a multiple of 8, the same at both ends."
        );
        /// The most flows, best effort included.
        pub flows: u16 = (
            Kind::Integer { least: 1, most: 4096 }, "1024", "4096",
            "The most flows in each direction, best effort included. Shares above it travel as best effort."
        );
    }
}

impl Default for DfqWirePlan {
    fn default() -> DfqWirePlan {
        table::defaults(DFQ_WIRE, DfqWirePlan::read)
    }
}

impl fmt::Display for DfqWirePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&table::text(&self.fields()))
    }
}

/// Reads the wire of a port with this scheme.
pub(super) fn check(report: &mut Report<'_>, section: &Section<'_>, scheme: &Call) -> Option<DfqWirePlan> {
    let node = section.node("dfq_wire")?;
    let (span, path) = (node.span.clone(), node.path);
    let plan = match node.boolean() {
        Some(false) => return None,
        Some(true) => DfqWirePlan::default(),
        None => {
            let table = node.section(report, DFQ_WIRE, "dfq_wire = true, or dfq_wire = { quantum = 128 }")?;
            let plan = DfqWirePlan::read(report, &table);
            if !plan.bitmap.is_multiple_of(8) {
                report.error(table.place("bitmap"), Path::Key(&table.path, "bitmap"), || {
                    let reason = format!("a bitmap has whole octets, and {} flows need a part of one", plan.bitmap);
                    (reason, format!("write bitmap = {}", plan.bitmap.next_multiple_of(8)))
                });
            }
            plan
        }
    };
    // A scheme that was reported has no name.
    if !scheme.has_shares() && !scheme.name.is_empty() {
        // The flows of the wire are shares, and a port with shares has one queue: the numbers of batches have one sender.
        report.error(span, path, || {
            let reason = format!("the scheme '{}' has no shares, which are the flows of the wire", scheme.name);
            (
                reason,
                format!("write scheme = \"{CYCLE_SCHEME}(rate=1gbit)\" with the rate of the link, or '{SHARE_SCHEME}'"),
            )
        });
    }
    Some(plan)
}
