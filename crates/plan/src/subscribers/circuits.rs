//! The circuits of a table: rows of one circuit are merged, keys are unique, and parents are found.

use super::guarantees::OversubscribedSite;
use super::key::words;
use super::sites::{Sites, too_deep};
use super::spreadsheet::{Row, cell_place};
use super::{PlanRates, Subscriber, SubscriberPlan};
use crate::diagnostic::Report;
use crate::share::ShareName;
use crate::share_tree::{MOST_SHARE_LEVELS, MOST_SHARES};
use crate::text::{TextError, did_you_mean, quote, tidy};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use units::CircuitKey;

/// The longest title, in characters.
const LONGEST_TITLE: usize = 200;
/// Names that are compared for a suggestion.
const COMPARED: usize = 2000;

/// A circuit as it was read.
struct Draft {
    name: ShareName,
    title: String,
    /// The start of its first row.
    start: usize,
    parent: Parent,
    /// Toward the subscriber, and toward the Internet.
    rates: [Option<PlanRates>; 2],
    keys: Vec<CircuitKey>,
    /// True if its rows have keys, wrong ones included.
    has_keys: bool,
}

/// The site above a circuit, as a row gives it.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Parent {
    /// Its name; empty for the port.
    pub name: String,
    /// Another identifier, which is preferred if a site has it.
    pub id: String,
    /// The column of the name.
    pub column: usize,
}

/// The circuits so far.
pub(super) struct Circuits {
    /// The column of their names.
    column: usize,
    list: Vec<Draft>,
    names: HashMap<ShareName, usize>,
    keys: HashMap<CircuitKey, usize>,
}

/// Reports an error in a cell.
pub(super) fn wrong_cell(
    report: &mut Report<'_>,
    row: &Row<'_>,
    column: usize,
    say: impl FnOnce() -> (String, String),
) {
    report.error(row.place(column), "", say);
}

impl Circuits {
    /// No circuits. `column` has their names.
    pub fn new(column: usize) -> Self {
        Circuits { column, list: Vec::new(), names: HashMap::new(), keys: HashMap::new() }
    }

    /// The circuit that a row names: a new one, or that of an earlier row. `None` if it was reported.
    pub fn open(&mut self, report: &mut Report<'_>, row: &Row<'_>) -> Option<usize> {
        let column = self.column;
        if let Some(known) = self.names.get(row.cell(column)) {
            return Some(*known);
        }
        let name = match ShareName::new(row.cell(column)) {
            Ok(name) => name,
            Err(error) => {
                wrong_cell(report, row, column, || {
                    (format!("no circuit can have this name: {}", error.reason), error.hint)
                });
                return None;
            }
        };
        let index = self.list.len();
        self.names.insert(name.clone(), index);
        let (title, parent) = (String::new(), Parent::default());
        self.list.push(Draft {
            name,
            title,
            start: row.start,
            parent,
            rates: [None; 2],
            keys: Vec::new(),
            has_keys: false,
        });
        Some(index)
    }

    /// True if this is the first row of the circuit.
    pub fn is_first(&self, circuit: usize, row: &Row<'_>) -> bool {
        self.list[circuit].start == row.start
    }

    pub fn set_title(&mut self, circuit: usize, title: &str) {
        self.list[circuit].title = tidy(title, LONGEST_TITLE);
    }

    /// Sets the parent in the first row of a circuit. Later rows repeat it, or have none.
    pub fn set_parent(&mut self, report: &mut Report<'_>, row: &Row<'_>, circuit: usize, parent: Parent) {
        if self.is_first(circuit, row) {
            self.list[circuit].parent = parent;
            return;
        }
        let Draft { name, parent: first, start, .. } = &self.list[circuit];
        if !parent.name.is_empty() && parent.name != first.name {
            let line = report.line(*start);
            wrong_cell(report, row, parent.column, || {
                let reason = format!("the circuit '{}' has another parent in line {line}", name.as_str());
                (reason, "give all rows of a circuit the same parent, or rename one of the circuits".to_string())
            });
        }
    }

    /// Sets the rates in the first row of a circuit. Later rows repeat them, or have none.
    pub fn set_rates(
        &mut self,
        report: &mut Report<'_>,
        row: &Row<'_>,
        circuit: usize,
        new: [Option<PlanRates>; 2],
        columns: [usize; 2],
    ) {
        if self.is_first(circuit, row) {
            self.list[circuit].rates = new;
            return;
        }
        let Draft { name, rates, start, .. } = &self.list[circuit];
        for ((first, new), column) in rates.iter().zip(new).zip(columns) {
            let (Some(first), Some(new)) = (first, new) else { continue };
            if *first != new {
                let line = report.line(*start);
                wrong_cell(report, row, column, || {
                    let reason = format!("the circuit '{}' has other rates in line {line}", name.as_str());
                    (reason, "give all rows of a circuit the same rates, or rename one of the circuits".to_string())
                });
                return;
            }
        }
    }

    /// Adds the keys in a cell to those of a circuit, each parsed by `parse`.
    pub fn add_keys(
        &mut self,
        report: &mut Report<'_>,
        row: &Row<'_>,
        circuit: usize,
        column: usize,
        parse: impl Fn(&str) -> Result<CircuitKey, TextError>,
    ) {
        for (offset, word) in words(row.cell(column)) {
            self.list[circuit].has_keys = true;
            match parse(word) {
                Ok(key) => self.add_key(report, row, circuit, (column, offset), key),
                Err(error) => {
                    let start = row.place(column).start + offset + error.offset;
                    report.error(start..start + error.length.max(1), "", || (error.reason, error.hint));
                }
            }
        }
    }

    /// Adds a key, which stands at an offset in a cell.
    fn add_key(
        &mut self,
        report: &mut Report<'_>,
        row: &Row<'_>,
        circuit: usize,
        (column, offset): (usize, usize),
        key: CircuitKey,
    ) {
        let start = || row.place(column).start + offset;
        match self.keys.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(circuit);
                self.list[circuit].keys.push(key);
            }
            Entry::Occupied(entry) if *entry.get() == circuit => {
                report.warning(start()..start() + 1, "", || {
                    (format!("the circuit has {key} twice"), "remove one of the two".to_string())
                });
            }
            Entry::Occupied(entry) => {
                let Draft { name, start: other, .. } = &self.list[*entry.get()];
                let line = report.line(*other);
                report.error(start()..start() + 1, "", || {
                    let reason = format!("{key} belongs to the circuit '{}' too, of line {line}", name.as_str());
                    (reason, "remove it from one of the circuits".to_string())
                });
            }
        }
    }

    /// The plan, with all guarantees within the bandwidths of their sites. `report` is that of the circuits. Returns the sites whose guarantees
    /// were reduced.
    pub fn finish(self, report: &mut Report<'_>, sites: Sites) -> (SubscriberPlan, Vec<OversubscribedSite>) {
        let Sites { list, levels, names, ids, is_incomplete, .. } = sites;
        if list.len() + self.list.len() > MOST_SHARES {
            let (at, total) = (self.list.last().map_or(0, |last| last.start), list.len() + self.list.len());
            report.error(at..at, "", || {
                (
                    format!("there are {total} sites and circuits"),
                    format!("use at most {MOST_SHARES}: a port has no more shares"),
                )
            });
        }
        let (source, column) = (report.source, self.column);
        let site_names: HashSet<ShareName> = list.iter().map(|site| site.name.clone()).collect();
        let mut subscribers = Vec::with_capacity(self.list.len());
        for Draft { name, title, start, parent, rates, keys, has_keys } in self.list {
            let place = |at| cell_place(source, start, at);
            if site_names.contains(&name) {
                report.error(place(column), "", || {
                    let reason = format!("'{}' is the name of a site and of a circuit", name.as_str());
                    (reason, "rename one of the two: they are shares of one port".to_string())
                });
            }
            let found = ids.get(&parent.id).filter(|_| !parent.id.is_empty());
            let found = found.or_else(|| names.get(&parent.name)).copied();
            let site = match found {
                Some(site) => site,
                None if parent.name.is_empty() || is_incomplete => None,
                None => {
                    report.error(place(parent.column), "", || {
                        let known = list.iter().take(COMPARED).map(|site| site.name.as_str());
                        (format!("there is no site {}", quote(&parent.name)), did_you_mean(&parent.name, known))
                    });
                    None
                }
            };
            let level = site.map_or(1, |site| levels[site]) + 1;
            // The levels of sites that are too deep themselves were reported.
            if level == MOST_SHARE_LEVELS + 1 {
                report.error(place(parent.column), "", || too_deep(&name, level));
            }
            if !has_keys {
                report.warning(place(column), "", || {
                    let reason = format!("the circuit '{}' has no address, MAC address or VLAN", name.as_str());
                    (reason, "give it one, or no packet belongs to it".to_string())
                });
            }
            let parent = site.map(|site| list[site].name.clone());
            if let [Some(down), Some(up)] = rates {
                subscribers.push(Subscriber { name, title, parent, down, up, keys });
            }
        }
        let mut plan = SubscriberPlan { sites: list, subscribers };
        let reduced = plan.reduce_guarantees(None, None);
        (plan, reduced)
    }
}

/// Warns of sites whose guarantees were reduced, each at its place.
pub(super) fn warn_of_reductions(
    report: &mut Report<'_>,
    sites: &[(ShareName, std::ops::Range<usize>)],
    reduced: &[OversubscribedSite],
) {
    let places: HashMap<&ShareName, &std::ops::Range<usize>> =
        sites.iter().map(|(name, place)| (name, place)).collect();
    for OversubscribedSite { site, is_down, guaranteed, bandwidth } in reduced {
        let Some((name, place)) = site.as_ref().and_then(|name| places.get(name).map(|place| (name, (*place).clone())))
        else {
            continue;
        };
        report.warning(place, "", || {
            let direction = if *is_down { "down" } else { "up" };
            let percent = u128::from(bandwidth.get()) * 100 / u128::from(guaranteed.get().max(1));
            let reason = format!(
                "the guarantees below '{}' add up to {guaranteed} {direction}, more than its {bandwidth}: they are reduced to {percent}%",
                name.as_str()
            );
            (reason, "give lower guarantees, or the site more bandwidth".to_string())
        });
    }
}
