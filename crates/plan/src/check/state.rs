//! `[state]`: ephemeral state.

use super::cpu::{time, within};
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section};
use crate::keys::{INSTRUCTION, PORT_STATE, STATE};
use crate::state::{
    Cleaning, Instruction, OnAbort, Overload, Places, PortStatePlan, RegisteredPlan, StatePlan, Variable, WhenFull,
};
use crate::text::{did_you_mean, quote};
use crate::{Catalogue, PortPlan};
use units::{Nanos, PacketRate};

/// How long entries may live: the ticks of a store can tell no more apart.
const LIFETIMES: std::ops::RangeInclusive<Nanos> = Nanos::millis(1)..=Nanos::secs(1800);
const RATES: std::ops::RangeInclusive<PacketRate> = PacketRate::pps(1)..=PacketRate::pps(1_000_000_000);

/// What a port says of it.
pub(super) fn of_port(report: &mut Report<'_>, section: &Section<'_>) -> PortStatePlan {
    let table = section.node("state").and_then(|node| node.section(report, PORT_STATE, "state = { at = \"both\" }"));
    let Some(section) = table else { return PortStatePlan::default() };
    PortStatePlan {
        at: section.choice(report, "at", Places::ALL).unwrap_or_default(),
        capacity: section.node("capacity").and_then(|_| section.integer(report, "capacity")),
        variables: several(report, &section, "variables", Variable::ALL).unwrap_or_default(),
    }
}

pub(super) fn read(
    report: &mut Report<'_>,
    root: &Section<'_>,
    (ports, workers): (&[PortPlan], u16),
    catalogue: &Catalogue,
) -> Option<StatePlan> {
    let Some(node) = root.node("state") else {
        if let Some(port) = ports.iter().find(|port| !port.state.is_default()) {
            report.warning(root.span.clone(), "port", || {
                let reason =
                    format!("port '{}' says what it does with ephemeral state, and there is no [state]", port.name);
                (reason, "add [state]".to_string())
            });
        }
        return None;
    };
    let span = node.span.clone();
    let section = node.section(report, STATE, "[state]")?;
    let plan = StatePlan {
        lifetime: time(report, &section, "lifetime", LIFETIMES).unwrap_or(Nanos::secs(10)),
        capacity: section.integer(report, "capacity").unwrap_or(1),
        central: section.integer(report, "central").unwrap_or(0),
        strict: section.boolean(report, "strict"),
        full: section.choice(report, "full", WhenFull::ALL).unwrap_or_default(),
        on_abort: section.choice(report, "on_abort", OnAbort::ALL).unwrap_or_default(),
        overload: section.choice(report, "overload", Overload::ALL).unwrap_or_default(),
        cleaning: section.choice(report, "cleaner", Cleaning::ALL).unwrap_or_default(),
        shards: shards(report, &section, workers),
        queues: section.integer(report, "queues").unwrap_or(1) as u8,
        batch: section.integer(report, "batch").unwrap_or(1) as u8,
        protocol: section.integer(report, "protocol").unwrap_or(253) as u8,
        udp_port: section.integer(report, "udp_port").unwrap_or(0) as u16,
        ip_option: section.integer(report, "ip_option").unwrap_or(0) as u8,
        single_store: section.boolean(report, "single_store"),
        by_computation: section.boolean(report, "by_computation"),
        flow_order: section.boolean(report, "flow_order"),
        diagnostics: section.boolean(report, "diagnostics"),
        instructions: several(report, &section, "instructions", Instruction::ALL)
            .unwrap_or_else(|| Instruction::ALL.to_vec()),
        source_rate: within(report, &section, "source_rate", RATES),
        source_creates: within(report, &section, "source_creates", RATES),
        key: file(report, &section, "key"),
        registered: registered(report, &section, catalogue),
    };
    if plan.single_store && plan.central == 0 {
        report.error(span.clone(), "state.single_store", || {
            ("the one store is that of the centre, and has no entries".to_string(), "give `central` some".to_string())
        });
    }
    for port in ports {
        too_small(report, &plan, port, span.clone());
    }
    Some(plan)
}

/// Parts of each store: none where nothing is said of them.
fn shards(report: &mut Report<'_>, section: &Section<'_>, workers: u16) -> Option<u16> {
    let node = section.node("shards")?;
    let shards = section.integer(report, "shards")? as u16;
    if shards > workers {
        report.error(node.span, node.path, || {
            let reason = format!(
                "{shards} parts, and {workers} to execute instructions on one each: nobody would have the rest"
            );
            (reason, format!("give at most {workers}, or the router more `workers`"))
        });
        return None;
    }
    Some(shards)
}

/// Says so where the line of a port can bring more than its store holds (spec E-04).
fn too_small(report: &mut Report<'_>, plan: &StatePlan, port: &PortPlan, span: std::ops::Range<usize>) {
    let Some(rate) = port.cpu.line_rate.filter(|_| port.state.at != Places::None && !plan.single_store) else { return };
    let bound = plan.bound(rate);
    let capacity = port.state.capacity.unwrap_or(plan.capacity);
    if capacity >= bound {
        return;
    }
    let say = || {
        let reason = format!("the store of port '{}' has {capacity} entries, and {rate} can fill {bound}", port.name);
        (reason, format!("give it a capacity of {bound}, or what is more is aborted"))
    };
    match plan.strict {
        true => report.error(span, "state.capacity", say),
        false => report.warning(span, "state.capacity", say),
    }
}

/// Instructions besides the built-in ones, in the order of their numbers.
fn registered(report: &mut Report<'_>, section: &Section<'_>, catalogue: &Catalogue) -> Vec<RegisteredPlan> {
    let parent = Path::Key(&section.path, "instruction");
    let mut all: Vec<RegisteredPlan> = Vec::new();
    for (span, name, value) in section.tables(report, "instruction") {
        let node = Node::new(value.get_ref(), value.span(), Path::Key(&parent, name));
        let Some(table) = node.section(report, INSTRUCTION, "{ number = 128 }") else { continue };
        let Some(number) = table.integer(report, "number").map(|number| number as u8) else { continue };
        if let Some(other) = all.iter().find(|other| other.number == number) {
            let reason = format!("'{}' has the number {number} already", other.declared.name);
            report.error(span, table.path, || (reason, "give each instruction a number of its own".to_string()));
            continue;
        }
        let found = match &catalogue.guests {
            Some(guests) => guests.instruction(name),
            None => {
                let hint = "name the directory they are in with --guests, or set SWITCHPATH_GUESTS".to_string();
                Err(("there are no guests here".to_string(), hint))
            }
        };
        match found {
            Ok((declared, code)) => all.push(RegisteredPlan { number, declared, code }),
            Err(wrong) => report.error(span, table.path, || wrong),
        }
    }
    all.sort_unstable_by_key(|one| one.number);
    all
}

/// The name of a file; none where it is left out or reported.
fn file(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Option<String> {
    let text = section.text(report, name)?;
    if text.value.is_empty() || text.value.chars().any(char::is_control) {
        let reason = format!("{} is no name of a file", quote(text.value));
        text.error(report, || (reason, format!("write {name} = \"/etc/switchpath/state.key\"")));
        return None;
    }
    Some(text.value.to_owned())
}

/// Those of `all` that a list names, in their own order. None: left out or reported.
fn several<T: Copy + Ord + std::fmt::Display>(
    report: &mut Report<'_>,
    section: &Section<'_>,
    name: &'static str,
    all: &[T],
) -> Option<Vec<T>> {
    section.node(name)?;
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let parent = Path::Key(&section.path, name);
    let mut found = Vec::new();
    for (index, span, value) in section.list(report, name) {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(text) = node.text() else {
            node.no_text(report, &format!("\"{}\"", names[0]));
            return None;
        };
        match names.iter().position(|name| name == text.value) {
            Some(at) => found.push(all[at]),
            None => {
                let hint = did_you_mean(text.value, names.iter().map(String::as_str));
                text.error(report, || (format!("{} is nothing that '{name}' can have", quote(text.value)), hint));
                return None;
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}
