//! `ShapedDevices.csv` of LibreQoS, with the tree of sites in `network.json`.
//!
//! ```text
//! Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,Parent Node ID,Anchor Node ID,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment,sqm
//! 10001,"968 Circle St., Gurnee, IL 60031",1,Device 1,AP_A,,,,"100.64.0.1, 100.64.0.2",fdd7:b724:0:100::/56,1,1,155,20,,
//! ```
//!
//! Source: LibreQoS v2.0, `docs/v2.0/configuration-advanced.md`, section ShapedDevices.csv; `src/rust/lqos_config/src/shaped_devices`;
//! `validateNetworkAndDevices` in `src/LibreQoS.py`. Columns are found by their names, whose case, blanks and signs do not matter. Rows of the layout
//! before `Parent Node ID` and `Anchor Node ID`, which have two cells fewer, occur in its own examples under the present header.

use super::circuits::{Circuits, Parent, warn_of_reductions, wrong_cell};
use super::key::{address, mac};
use super::megabits::megabits;
use super::network::network;
use super::sites::Sites;
use super::spreadsheet::{Row, Spreadsheet};
use super::{PlanRates, SubscriberResult};
use crate::diagnostic::{Diagnostics, Report};

/// A column with a meaning here.
#[derive(Clone, Copy)]
enum Column {
    CircuitId,
    CircuitName,
    Parent,
    ParentId,
    /// Without a meaning here, but new rows have it.
    Anchor,
    Mac,
    Ipv4,
    Ipv6,
    DownMin,
    UpMin,
    DownMax,
    UpMax,
    Sqm,
}

/// The columns in the order of [`Column`]: their names in messages, and those that a header may have, in small letters without blanks and signs.
const COLUMNS: [(&str, &[&str]); 13] = [
    ("Circuit ID", &["circuitid"]),
    ("Circuit Name", &["circuitname"]),
    ("Parent Node", &["parentnode"]),
    ("Parent Node ID", &["parentnodeid"]),
    ("Anchor Node ID", &["anchornodeid", "id"]),
    ("MAC", &["mac"]),
    ("IPv4", &["ipv4"]),
    ("IPv6", &["ipv6"]),
    ("Download Min Mbps", &["downloadminmbps", "downloadmin"]),
    ("Upload Min Mbps", &["uploadminmbps", "uploadmin"]),
    ("Download Max Mbps", &["downloadmaxmbps", "downloadmax"]),
    ("Upload Max Mbps", &["uploadmaxmbps", "uploadmax"]),
    ("sqm", &["sqm"]),
];
/// The columns that a table needs.
const NEEDED: [Column; 6] =
    [Column::CircuitId, Column::Ipv4, Column::DownMin, Column::UpMin, Column::DownMax, Column::UpMax];
/// The columns with numbers.
const RATES: [Column; 4] = [Column::DownMin, Column::UpMin, Column::DownMax, Column::UpMax];
/// Parents that LibreQoS generates for circuits without one.
const GENERATED: &str = "Generated_PN_";

/// The place of each column in the rows; `usize::MAX` for a column that the table does not have.
#[derive(Clone)]
struct Layout([usize; COLUMNS.len()]);

impl Layout {
    /// Reads the header. `None` if it was reported.
    fn new(report: &mut Report<'_>, row: &Row<'_>) -> Option<Layout> {
        let mut layout = Layout([usize::MAX; COLUMNS.len()]);
        for (at, name) in row.cells().enumerate() {
            let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            let is_it = |(_, names): &(&str, &[&str])| names.iter().any(|name| name.eq_ignore_ascii_case(&plain));
            if let Some(column) = COLUMNS.iter().position(is_it) {
                layout.0[column] = at;
            }
        }
        let missing: Vec<&str> = NEEDED
            .iter()
            .filter(|needed| layout.at(**needed) == usize::MAX)
            .map(|needed| COLUMNS[*needed as usize].0)
            .collect();
        if missing.is_empty() {
            return Some(layout);
        }
        wrong_cell(report, row, 0, || {
            let hint = match row.cell(0).contains([';', '\t']) {
                true => "save the table with commas between its columns",
                false => "begin with the header of LibreQoS: 'Circuit ID,Circuit Name,Device ID,...'",
            };
            (format!("the columns {} are missing in the header", missing.join(", ")), hint.to_string())
        });
        None
    }

    /// The layout of rows from before the columns with the ids of nodes. `None` if the table does not have them.
    fn older(&self) -> Option<Layout> {
        let new = [self.at(Column::ParentId), self.at(Column::Anchor)];
        if new.contains(&usize::MAX) {
            return None;
        }
        let move_left = |at: usize| match at {
            usize::MAX => at,
            at if new.contains(&at) => usize::MAX,
            at => at - new.iter().filter(|new| **new < at).count(),
        };
        Some(Layout(self.0.map(move_left)))
    }

    fn at(&self, column: Column) -> usize {
        self.0[column as usize]
    }

    fn cell<'r>(&self, row: &Row<'r>, column: Column) -> &'r str {
        row.cell(self.at(column))
    }

    /// True if a row has numbers where this layout has rates.
    fn fits(&self, row: &Row<'_>) -> bool {
        RATES.iter().all(|column| self.cell(row, *column).parse::<f64>().is_ok())
    }
}

/// The state of reading a table.
struct Reader {
    layout: Layout,
    older: Option<Layout>,
    circuits: Circuits,
    is_flat: bool,
    warned_of_older: bool,
    warned_of_parents: bool,
    warned_of_sqm: bool,
}

/// Reads the files of LibreQoS: `ShapedDevices.csv`, and `network.json` if there is one. Each is its text with its name in messages. Without a network, or
/// with an empty one, all circuits are below the port.
pub fn shaped_devices((source, file): (&str, &str), network_file: Option<(&str, &str)>) -> SubscriberResult {
    let mut network_report = network_file.map(|(source, file)| Report::new(source, file));
    let sites = network_report.as_mut().map_or_else(Sites::default, network);
    let mut report = Report::new(source, file);
    let mut table = Spreadsheet::new(source);
    let layout = match table.next(&mut report) {
        Some(row) => Layout::new(&mut report, &row),
        None => {
            report.missing(0..0, "", || {
                let hint = "begin with the header of LibreQoS: 'Circuit ID,Circuit Name,Device ID,...'";
                ("the table is empty".to_string(), hint.to_string())
            });
            None
        }
    };
    let mut reduced = Vec::new();
    let places: Vec<_> = sites.list.iter().map(|site| site.name.clone()).zip(sites.places.iter().cloned()).collect();
    let mut plan = None;
    if let Some(layout) = layout {
        let mut reader = Reader {
            older: layout.older(),
            circuits: Circuits::new(layout.at(Column::CircuitId)),
            is_flat: sites.names.is_empty() && !sites.is_incomplete,
            layout,
            warned_of_older: false,
            warned_of_parents: false,
            warned_of_sqm: false,
        };
        while let Some(row) = table.next(&mut report) {
            reader.read(&mut report, &row);
        }
        let (read, too_much) = reader.circuits.finish(&mut report, sites);
        (plan, reduced) = (Some(read), too_much);
    }
    let mut failed = report.failed();
    let mut diagnostics = Diagnostics::default();
    if let Some(mut network_report) = network_report {
        warn_of_reductions(&mut network_report, &places, &reduced);
        failed |= network_report.failed();
        diagnostics = network_report.finish();
    }
    diagnostics.append(report.finish());
    SubscriberResult { plan: plan.filter(|_| !failed), diagnostics }
}

impl Reader {
    fn read(&mut self, report: &mut Report<'_>, row: &Row<'_>) {
        let older = self.older.as_ref().filter(|older| !self.layout.fits(row) && older.fits(row));
        if older.is_some() && !std::mem::replace(&mut self.warned_of_older, true) {
            report.warning(row.place(0), "", || {
                let reason = "the row has two cells fewer than the header, and is read without 'Parent Node ID' and 'Anchor Node ID'; \
                              more rows like it are not reported";
                (reason.to_string(), "add two empty cells behind 'Parent Node'".to_string())
            });
        }
        let layout = older.unwrap_or(&self.layout);
        let Some(circuit) = self.circuits.open(report, row) else { return };
        let pairs = [(Column::DownMin, Column::DownMax), (Column::UpMin, Column::UpMax)];
        let rates = pairs.map(|(least, most)| plan_rates(report, row, layout, (least, most)));
        let mut parent = layout.cell(row, Column::Parent);
        if parent.eq_ignore_ascii_case("none") || parent.starts_with(GENERATED) {
            parent = "";
        }
        if self.is_flat && !parent.is_empty() {
            if !std::mem::replace(&mut self.warned_of_parents, true) {
                report.warning(row.place(layout.at(Column::Parent)), "", || {
                    let reason = "the network has no nodes, so that all circuits are below the port".to_string();
                    (reason, "name the tree of nodes: network = \"network.json\"".to_string())
                });
            }
            parent = "";
        }
        let id = if self.is_flat { "" } else { layout.cell(row, Column::ParentId) };
        let parent = Parent { name: parent.to_string(), id: id.to_string(), column: layout.at(Column::Parent) };
        self.circuits.set_parent(report, row, circuit, parent);
        self.circuits.set_rates(report, row, circuit, rates, pairs.map(|(_, most)| layout.at(most)));
        if self.circuits.is_first(circuit, row) {
            self.circuits.set_title(circuit, layout.cell(row, Column::CircuitName));
        }
        if !layout.cell(row, Column::Sqm).is_empty() && !std::mem::replace(&mut self.warned_of_sqm, true) {
            report.warning(row.place(layout.at(Column::Sqm)), "", || {
                let reason = "the column 'sqm' has no effect: the port's scheme manages the queues of all circuits";
                (reason.to_string(), "write that scheme: scheme = \"share{fq{codel}}\"".to_string())
            });
        }
        let addresses = [Column::Ipv4, Column::Ipv6];
        for column in addresses {
            self.circuits.add_keys(report, row, circuit, layout.at(column), address);
        }
        // LibreQoS knows circuits by their addresses, and uses this column for RADIUS names too.
        let has_address = addresses.iter().any(|column| !layout.cell(row, *column).is_empty());
        if !has_address && mac(layout.cell(row, Column::Mac)).is_ok() {
            self.circuits.add_keys(report, row, circuit, layout.at(Column::Mac), mac);
        }
    }
}

/// The rates of one direction. `None` if they were reported.
fn plan_rates(
    report: &mut Report<'_>,
    row: &Row<'_>,
    layout: &Layout,
    (least, most): (Column, Column),
) -> Option<PlanRates> {
    let [minimum, maximum] = [least, most].map(|column| match megabits(layout.cell(row, column)) {
        Ok(rate) => Some(rate),
        Err((reason, hint)) => {
            wrong_cell(report, row, layout.at(column), || {
                (format!("'{}': {reason}", COLUMNS[column as usize].0), hint)
            });
            None
        }
    });
    let (minimum, Some(ceiling)) = (minimum?, maximum?) else {
        wrong_cell(report, row, layout.at(most), || {
            let name = COLUMNS[most as usize].0;
            (format!("'{name}' is not above zero"), "write the rate of the plan in megabits a second".to_string())
        });
        return None;
    };
    if let Some(minimum) = minimum.filter(|minimum| *minimum > ceiling) {
        wrong_cell(report, row, layout.at(least), || {
            let reason = format!("the minimum {minimum} is above the maximum {ceiling}");
            (reason, format!("write at most the number in '{}'", COLUMNS[most as usize].0))
        });
        return None;
    }
    Some(PlanRates { rate: minimum, ceiling })
}
