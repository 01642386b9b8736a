//! `switchpath bench`: costs as ratios that are measured side by side in one run.
//!
//! Every figure with a budget is the median of several rounds. Each round measures the subject and its reference in turn, so that a noisy neighbour
//! affects both.

mod calls;
mod components;
mod cycles;
mod ephemeral;
mod figure;
mod forwarding;
mod functions;
pub mod guests;
pub mod io;
mod kernel_htb;
mod link;
mod preempt;
mod quantum;
mod queues;
mod reservations;
mod route_cache;
mod routes;
mod rules;
mod schemes;
mod sim;
mod slices;
mod subscribers;
mod workers;
mod writer;

pub use calls::{CallLoad, call_costs};
pub use ephemeral::ephemeral_costs;
pub use figure::{BenchFigure, BudgetBound};
pub use forwarding::path_costs;
pub use functions::function_costs;
pub use quantum::quanta_costs;
pub use route_cache::route_cache_costs;
pub use schemes::scheme_costs;

use cli::arguments::{BenchArguments, UsageError};
use cli::output::span;
use comfy_table::Table;
use figure::{Progress, Rounds, median, medians};
use units::Nanos;

/// A group of figures and how to measure it.
type Group = (&'static str, Measure);

/// How a group is measured.
#[derive(Clone, Copy)]
enum Measure {
    /// In this process alone.
    Here(fn(Rounds) -> Vec<BenchFigure>),
    /// With the kernel's help, which may refuse it.
    WithKernel(fn(Rounds, &Progress) -> anyhow::Result<Vec<BenchFigure>>),
}

const GROUPS: &[Group] = &[
    ("forwarding", Measure::Here(forwarding::measure)),
    ("functions", Measure::Here(functions::measure)),
    ("ephemeral", Measure::Here(ephemeral::measure)),
    ("lookup", Measure::Here(components::lookup)),
    ("routes", Measure::Here(routes::measure)),
    ("rules", Measure::Here(rules::measure)),
    ("schemes", Measure::Here(schemes::measure)),
    ("subscribers", Measure::WithKernel(subscribers::measure)),
    ("slices", Measure::Here(slices::measure)),
    ("guests", Measure::Here(guests::measure)),
    ("scheduler", Measure::Here(components::scheduler)),
    ("sim", Measure::Here(sim::measure)),
    ("promises", Measure::WithKernel(promises)),
    ("workers", Measure::WithKernel(workers::measure)),
    ("io", Measure::WithKernel(io::measure)),
    ("filters", Measure::WithKernel(io::filters::measure)),
    ("link", Measure::WithKernel(link::measure)),
];

/// The cycles of `dfq`, then whole routers with reservations.
fn promises(rounds: Rounds, progress: &Progress) -> anyhow::Result<Vec<BenchFigure>> {
    let mut figures = cycles::measure(rounds);
    figures.extend(reservations::measure(rounds, progress)?);
    Ok(figures)
}

/// Measures one group, or all, and prints the figures as a table or as one JSON array. Returns true if every budget was met.
pub fn run(options: &BenchArguments) -> anyhow::Result<bool> {
    let (group, json) = (options.group.as_deref(), options.json);
    if options.real {
        if group != Some("promises") {
            return Err(UsageError("only promises has --real; write `switchpath bench promises --real`".into()).into());
        }
        let figures = reservations::acceptance::measure(Nanos::secs(options.seconds), &Progress { quiet: json })?;
        return print(&figures, json);
    }
    let rounds = Rounds(if options.quick { 1 } else { 15 });
    let chosen: Vec<&Group> = GROUPS.iter().filter(|(name, _)| group.is_none_or(|wanted| wanted == *name)).collect();
    let progress = Progress { quiet: json };
    if cfg!(debug_assertions) {
        progress.note("note: this is a debug build; its figures say nothing about a release build");
    }
    let mut figures = Vec::new();
    let (began, groups) = (::io::clock::now(), chosen.len());
    for (number, (name, measure)) in (1..).zip(chosen) {
        let passed = span(::io::clock::now().since(began).get());
        progress.say(&format!("group {number} of {groups}, {passed} so far: measuring {name} ..."));
        match measure {
            Measure::Here(measure) => figures.extend(measure(rounds)),
            Measure::WithKernel(measure) => match measure(rounds, &progress) {
                Ok(measured) => figures.extend(measured),
                // The user asked for all groups. Skip one that cannot run here and report the others.
                Err(error) if group.is_none() => progress.note(&format!("{name} is left out: {error:#}")),
                Err(error) => return Err(error.context(format!("this machine cannot measure {name}"))),
            },
        }
    }
    print(&figures, json)
}

/// Prints figures. Returns true if every budget was met.
fn print(figures: &[BenchFigure], json: bool) -> anyhow::Result<bool> {
    if json {
        println!("{}", serde_json::to_string_pretty(figures)?);
    } else {
        println!("{}", table(figures));
    }
    Ok(figures.iter().all(|figure| figure.met != Some(false)))
}

/// The figures as a table for people.
pub fn table(figures: &[BenchFigure]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["GROUP", "FIGURE", "VALUE", "UNIT", "REFERENCE", "RATIO", "BUDGET", "MET"]);
    let number = |value: Option<f64>| value.map_or(String::from("-"), |value| format!("{value:.2}"));
    for f in figures {
        let met = match f.met {
            None => "-",
            Some(true) => "yes",
            Some(false) => "NO",
        };
        table.add_row([
            f.group.to_string(),
            f.name.clone(),
            number(Some(f.value)),
            f.unit.to_string(),
            number(f.reference),
            number(f.ratio),
            f.budget.map_or(String::from("-"), |budget| {
                format!("{} {budget:.2}", if f.bound == BudgetBound::Most { "<=" } else { ">=" })
            }),
            met.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    #[test]
    fn command_line_lists_every_group() {
        let names: Vec<&str> = super::GROUPS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, cli::arguments::BENCH_GROUPS);
    }
}
