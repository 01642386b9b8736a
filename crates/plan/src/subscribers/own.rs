//! `subscribers.csv`: the sites and subscribers of an access network in one table.
//!
//! ```text
//! site,circuit,parent,address,down,up,down_min,up_min,title
//! North,,,,1gbit,1gbit,,,
//! AP_A,,North,,300mbit,100mbit,,,
//! ,10001,AP_A,100.64.0.1 2001:db8:100::/56,155mbit,20mbit,1mbit,1mbit,Jane Doe
//! ```
//!
//! A row has either a site or a circuit. The columns are found by their names, in any order. Rows with the same circuit add their keys to it.

use super::circuits::{Circuits, Parent, warn_of_reductions, wrong_cell};
use super::key::{address, mac, vlan};
use super::sites::{SiteDraft, Sites};
use super::spreadsheet::{Row, Spreadsheet, cell_place};
use super::{PlanRates, SubscriberResult};
use crate::diagnostic::Report;
use crate::share::{SHARE_RATES, ShareName};
use crate::text::{TextError, closest, did_you_mean, quote};
use std::collections::HashMap;
use units::CircuitKey;
use units::Rate;

/// A column of the table.
#[derive(Clone, Copy)]
enum Column {
    Site,
    Circuit,
    Parent,
    Address,
    Mac,
    Vlan,
    Down,
    Up,
    DownMin,
    UpMin,
    Title,
}

/// The names of the columns, in the order of [`Column`]. The last has no effect.
const NAMES: [&str; 12] =
    ["site", "circuit", "parent", "address", "mac", "vlan", "down", "up", "down_min", "up_min", "title", "comment"];
/// The columns that a table needs.
const NEEDED: [Column; 3] = [Column::Circuit, Column::Down, Column::Up];
/// A parser of keys.
type ParseKey = fn(&str) -> Result<CircuitKey, TextError>;
/// The columns with keys, each with the parser of a key.
const KEYS: [(Column, ParseKey); 3] = [(Column::Address, address), (Column::Mac, mac), (Column::Vlan, vlan)];

/// The place of each column in the rows; `usize::MAX` for a column that the table does not have.
struct Layout {
    places: [usize; NAMES.len()],
    width: usize,
}

impl Layout {
    /// Reads the header. `None` if it was reported.
    fn new(report: &mut Report<'_>, row: &Row<'_>) -> Option<Layout> {
        let mut layout = Layout { places: [usize::MAX; NAMES.len()], width: row.cells().count() };
        let before = report.error_count();
        for (at, name) in row.cells().enumerate() {
            let known = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
            match known {
                Some(known) if layout.places[known] != usize::MAX => wrong_cell(report, row, at, || {
                    (format!("there are two columns '{}'", NAMES[known]), "remove one of them".to_string())
                }),
                Some(known) => layout.places[known] = at,
                None if name.eq_ignore_ascii_case("circuit id") => wrong_cell(report, row, at, || {
                    let hint = "name the file in shaped_devices, not in file".to_string();
                    ("this is a table of LibreQoS".to_string(), hint)
                }),
                None if name.contains([';', '\t']) => wrong_cell(report, row, at, || {
                    ("the columns are not separated by commas".to_string(), "save the table with commas".to_string())
                }),
                None => wrong_cell(report, row, at, || {
                    let hint = match closest(name, NAMES) {
                        Some(_) => did_you_mean(name, NAMES),
                        None => format!("the columns are {}", NAMES.join(", ")),
                    };
                    (format!("there is no column {}", quote(name)), hint)
                }),
            }
        }
        for needed in NEEDED.iter().filter(|needed| layout.places[**needed as usize] == usize::MAX) {
            let name = NAMES[*needed as usize];
            wrong_cell(report, row, 0, || {
                let hint = format!("the first line has the names of the columns: {}", NAMES.join(","));
                (format!("the column '{name}' is missing"), hint)
            });
        }
        (report.error_count() == before).then_some(layout)
    }

    fn at(&self, column: Column) -> usize {
        self.places[column as usize]
    }

    fn cell<'r>(&self, row: &Row<'r>, column: Column) -> &'r str {
        row.cell(self.at(column))
    }
}

/// The sites of the table, with the names of their parents.
#[derive(Default)]
struct SiteRows {
    drafts: Vec<SiteDraft>,
    /// The parent of each, and the start of its row.
    parents: Vec<(String, usize)>,
    names: HashMap<ShareName, usize>,
}

/// Reads a table of subscribers. `file` is its name in messages.
pub fn subscriber_file(source: &str, file: &str) -> SubscriberResult {
    let mut report = Report::new(source, file);
    let mut table = Spreadsheet::new(source);
    let layout = match table.next(&mut report) {
        Some(row) => Layout::new(&mut report, &row),
        None => {
            report.missing(0..0, "", || {
                let hint = format!("the first line has the names of the columns: {}", NAMES.join(","));
                ("the table is empty".to_string(), hint)
            });
            None
        }
    };
    let Some(layout) = layout else { return SubscriberResult { plan: None, diagnostics: report.finish() } };
    let mut sites = SiteRows::default();
    let mut circuits = Circuits::new(layout.at(Column::Circuit));
    while let Some(row) = table.next(&mut report) {
        let (site, circuit) = (layout.cell(&row, Column::Site), layout.cell(&row, Column::Circuit));
        if let Some((at, _)) = row.cells().enumerate().skip(layout.width).find(|(_, cell)| !cell.is_empty()) {
            wrong_cell(&mut report, &row, at, || {
                let hint = "write a cell with a comma in quotes, like \"Doe, Jane\"".to_string();
                ("the row has more cells than the header".to_string(), hint)
            });
            continue;
        }
        match (site.is_empty(), circuit.is_empty()) {
            (false, true) => sites.read(&mut report, &row, &layout),
            (true, false) => read_circuit(&mut report, &row, &layout, &mut circuits),
            (true, true) => wrong_cell(&mut report, &row, layout.at(Column::Circuit), || {
                let hint = "write the name of a circuit, or of a site in the column 'site'".to_string();
                ("the row has neither a circuit nor a site".to_string(), hint)
            }),
            (false, false) => wrong_cell(&mut report, &row, layout.at(Column::Circuit), || {
                let hint = "write two rows, the circuit with the site as its parent".to_string();
                ("the row has a circuit and a site".to_string(), hint)
            }),
        }
    }
    let sites = sites.resolve(&mut report, layout.at(Column::Parent));
    let places: Vec<_> = sites.list.iter().map(|site| site.name.clone()).zip(sites.places.iter().cloned()).collect();
    let (plan, reduced) = circuits.finish(&mut report, sites);
    warn_of_reductions(&mut report, &places, &reduced);
    let plan = Some(plan).filter(|_| !report.failed());
    SubscriberResult { plan, diagnostics: report.finish() }
}

impl SiteRows {
    fn read(&mut self, report: &mut Report<'_>, row: &Row<'_>, layout: &Layout) {
        let column = layout.at(Column::Site);
        let name = match ShareName::new(row.cell(column)) {
            Ok(name) => name,
            Err(error) => {
                return wrong_cell(report, row, column, || {
                    (format!("no site can have this name: {}", error.reason), error.hint)
                });
            }
        };
        if let Some(other) = self.names.get(&name) {
            let line = report.line(self.drafts[*other].place.start);
            return wrong_cell(report, row, column, || {
                let reason = format!("there is another site '{}' in line {line}", name.as_str());
                (reason, "remove one of the two rows, or rename the site".to_string())
            });
        }
        for column in [Column::Address, Column::Mac, Column::Vlan, Column::DownMin, Column::UpMin] {
            if !layout.cell(row, column).is_empty() {
                wrong_cell(report, row, layout.at(column), || {
                    let reason = format!("a site has no '{}'", NAMES[column as usize]);
                    (reason, "leave the cell empty, or move it to the row of a circuit".to_string())
                });
            }
        }
        let [down, up] = [Column::Down, Column::Up].map(|column| rate(report, row, layout, column));
        let place = row.place(column);
        self.names.insert(name.clone(), self.drafts.len());
        self.drafts.push(SiteDraft { name, parent: None, down, up, place });
        self.parents.push((layout.cell(row, Column::Parent).to_string(), row.start));
    }

    /// Finds the parents by their names. `column` is that of the names.
    fn resolve(mut self, report: &mut Report<'_>, column: usize) -> Sites {
        let source = report.source;
        for (draft, (parent, start)) in self.parents.iter().enumerate().filter(|(_, (parent, _))| !parent.is_empty()) {
            match self.names.get(parent.as_str()) {
                Some(found) => self.drafts[draft].parent = Some(*found),
                None => report.error(cell_place(source, *start, column), "", || {
                    let known = self.drafts.iter().take(2000).map(|site| site.name.as_str());
                    (format!("there is no site {}", quote(parent)), did_you_mean(parent, known))
                }),
            }
        }
        Sites::new(report, self.drafts).0
    }
}

fn read_circuit(report: &mut Report<'_>, row: &Row<'_>, layout: &Layout, circuits: &mut Circuits) {
    let Some(circuit) = circuits.open(report, row) else { return };
    let is_first = circuits.is_first(circuit, row);
    let pairs = [(Column::Down, Column::DownMin), (Column::Up, Column::UpMin)];
    let rates = pairs.map(|(ceiling, least)| plan_rates(report, row, layout, (ceiling, least), is_first));
    let name = layout.cell(row, Column::Parent).to_string();
    let parent = Parent { name, id: String::new(), column: layout.at(Column::Parent) };
    circuits.set_parent(report, row, circuit, parent);
    circuits.set_rates(report, row, circuit, rates, pairs.map(|(ceiling, _)| layout.at(ceiling)));
    let title = layout.cell(row, Column::Title);
    if is_first {
        circuits.set_title(circuit, title);
    }
    for (column, parse) in KEYS {
        circuits.add_keys(report, row, circuit, layout.at(column), parse);
    }
}

/// The rates of one direction. `None` if they are missing or were reported.
fn plan_rates(
    report: &mut Report<'_>,
    row: &Row<'_>,
    layout: &Layout,
    (ceiling, least): (Column, Column),
    is_first: bool,
) -> Option<PlanRates> {
    let minimum = rate(report, row, layout, least);
    if layout.cell(row, ceiling).is_empty() {
        if is_first || minimum.is_some() {
            wrong_cell(report, row, layout.at(ceiling), || {
                let reason = format!("the circuit has no rate in the column '{}'", NAMES[ceiling as usize]);
                (reason, "write the rate of its plan, like '100mbit'".to_string())
            });
        }
        return None;
    }
    let ceiling = rate(report, row, layout, ceiling)?;
    if let Some(minimum) = minimum.filter(|minimum| *minimum > ceiling) {
        wrong_cell(report, row, layout.at(least), || {
            let reason = format!("the guarantee {minimum} is above the rate of the plan, {ceiling}");
            (reason, format!("write at most {ceiling}"))
        });
        return None;
    }
    Some(PlanRates { rate: minimum, ceiling })
}

/// A rate. `None` if the cell is empty, or if it was reported.
fn rate(report: &mut Report<'_>, row: &Row<'_>, layout: &Layout, column: Column) -> Option<Rate> {
    let cell = layout.cell(row, column);
    if cell.is_empty() {
        return None;
    }
    let (reason, hint) = match cell.parse::<Rate>() {
        Ok(rate) if SHARE_RATES.contains(&rate) => return Some(rate),
        Ok(rate) => {
            let hint = format!("give {} to {}", SHARE_RATES.start(), SHARE_RATES.end());
            (format!("{rate} is out of range"), hint)
        }
        Err(error) => (error.reason, error.hint),
    };
    wrong_cell(report, row, layout.at(column), || (reason, hint));
    None
}
