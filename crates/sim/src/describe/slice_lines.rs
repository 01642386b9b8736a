//! Lines that change slices, and the ring of I3 routers that a slice may belong to.

use super::tables::RingTable;
use super::text::within;
use plan::Report;
use slice::bands::FilterBands;
use slice::code::i3::{I3Node, I3Workload, filters};
use slice::{SliceCommand, SliceError};

/// The most changes that one text makes.
pub(super) const MOST_CHANGES: usize = 1 << 18;

/// The ring of a world, with its triggers, and the router of it that slices may be.
pub(super) struct Ring {
    pub workload: I3Workload,
    node: I3Node,
}

impl Ring {
    pub fn read(report: &mut Report<'_>, table: &RingTable) -> Ring {
        let seed = within(report, &table.seed, "ring.seed", (0, i64::MAX as u64), 1);
        let routers = within(report, &table.routers, "ring.routers", (1, 1024), 64);
        let triggers = within(report, &table.triggers, "ring.triggers", (1, 100_000), 1000);
        let number = within(report, &table.router, "ring.router", (0, routers - 1), 0);
        let workload = I3Workload::new(seed, routers as u32, triggers as usize, false);
        let own = workload.nodes().nth(number as usize).copied();
        // Two random keys of 160 bits do not agree, so there are as many routers as were asked for.
        let node = workload.router(&own.expect("the number is below the number of routers"));
        Ring { workload, node }
    }

    /// The changes that give a slice the filters of the router.
    fn filters(&self, slice: &str, queue: u16, interface: u16) -> Vec<SliceCommand> {
        let edits = FilterBands::default().update(&filters(&self.node, |_| (queue, interface)));
        edits.into_iter().map(|edit| SliceCommand::Filter(slice.to_owned(), edit)).collect()
    }
}

fn wrong(reason: impl Into<String>, hint: &str) -> SliceError {
    SliceError { reason: reason.into(), hint: hint.to_owned() }
}

/// The changes of one line: a change, `repeat N CHANGE` with `{n}` for a number from 0 on and `{x}` for its eight hexadecimal digits, or
/// `ring SLICE QUEUE MI`.
pub(super) fn changes(line: &str, ring: Option<&Ring>) -> Result<Vec<SliceCommand>, SliceError> {
    let hint = "write `repeat 100 filter insert a {n} value {x} drop`";
    if let Some(rest) = line.strip_prefix("repeat ") {
        let (count, line) = rest.trim_start().split_once(' ').ok_or_else(|| wrong("the change is missing", hint))?;
        let count = count.parse::<usize>().ok().filter(|count| (1..=MOST_CHANGES).contains(count));
        let count = count.ok_or_else(|| wrong(format!("a change is repeated 1 to {MOST_CHANGES} times"), hint))?;
        return (0..count)
            .map(|n| line.replace("{n}", &n.to_string()).replace("{x}", &format!("{n:08x}")).parse())
            .collect();
    }
    let Some(rest) = line.strip_prefix("ring ") else { return line.parse().map(|command| vec![command]) };
    let hint = "write `ring SLICE QUEUE MI`";
    let [slice, queue, interface] = rest.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(wrong("the line has not three words behind `ring`", hint));
    };
    let number = |text: &str| text.parse::<u16>().map_err(|_| wrong(format!("'{text}' is no number"), hint));
    let ring = ring.ok_or_else(|| wrong("the world has no ring", "add [ring]"))?;
    Ok(ring.filters(slice, number(queue)?, number(interface)?))
}
