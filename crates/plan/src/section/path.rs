//! `[[path]]`: which packets are switched how.

use super::connected::Connected;
use super::cpu;
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section, Text};
use crate::keys::{MOST_FUNCTIONS, MOST_PATHS, MOST_RULES, PATH};
use crate::names::{self, PATH_PATTERN, RESERVED_PATHS};
use crate::text::{TextError, did_you_mean, quote};
use crate::{Call, Catalogue, DispatchRule, FilterRule, Layout, Match, Objective, PathPlan};
use std::collections::HashMap;
use units::Nanos;

/// The function of a path that names none.
const DEFAULT_FUNCTION: &str = "ip";
/// The longest that a packet may take on purpose where nobody interrupts it.
const MOST_UNINTERRUPTED: Nanos = Nanos::millis(10);

pub(super) fn read(
    report: &mut Report<'_>,
    root: &Section<'_>,
    connected: &Connected,
    catalogue: &Catalogue,
    layout: Layout,
) -> Vec<PathPlan> {
    let parent = Path::Key(&root.path, "path");
    let mut list = root.list(report, "path");
    if let Some((_, span, _)) = list.get(MOST_PATHS) {
        report.error(span.clone(), "path", || {
            (format!("there are more than {MOST_PATHS} paths"), format!("use at most {MOST_PATHS}"))
        });
        list.truncate(MOST_PATHS);
    }
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut leads: Vec<(usize, usize, String)> = Vec::new();
    let mut paths: Vec<PathPlan> = Vec::with_capacity(list.len());
    for (index, span, value) in list {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, PATH, "[[path]]") else { continue };
        let name = section.text(report, "name");
        if let Some(text) = &name {
            check_name(report, text, &mut names, index);
        }
        let matching = matching(report, &section, connected);
        if let Some((text, matching)) = &matching
            && let Some(before) = paths.iter().find(|before| before.matching.covers(matching))
        {
            report.warning(text.span.clone(), text.path, || {
                let reason = format!("no packet takes this path: '{}' before it takes them all", before.name);
                (reason, format!("put it before '{}', or narrow that match", before.name))
            });
        }
        let functions = functions(report, &section, catalogue);
        let filter = filter(report, &section, connected, &functions);
        let dispatch = dispatch(report, &section, &functions);
        // The declared ranges are within the types.
        let queue = section.integer(report, "queue").unwrap_or(1) as u32;
        let mut one = |name| match section.node(name) {
            Some(_) => section.integer(report, name).unwrap_or(1) as u32,
            None => queue,
        };
        let (input_queue, output_queue) = (one("input_queue"), one("output_queue"));
        let cpu = cpu::path(report, &section);
        interrupted(report, &section, &functions, (cpu.preemptible, layout));
        let class = match section.node("class") {
            Some(_) => section.integer(report, "class").unwrap_or(0) as u8,
            None => u8::from(cpu.reservation.is_some()),
        };
        let objective = section.choice(report, "objective", Objective::ALL);
        if let (Some(name), Some((_, matching))) = (name, matching) {
            leads.extend(dispatch.iter().enumerate().map(|(rule, lead)| (index, rule, lead.path.clone())));
            paths.push(PathPlan {
                name: name.value.to_string(),
                matching,
                functions,
                filter,
                dispatch,
                input_queue,
                output_queue,
                class,
                objective,
                cpu,
            });
        }
    }
    check_leads(report, root, &paths, &leads);
    paths
}

/// Every rule of a dispatch leads to another path that there is. `leads` are the path, the rule and where it leads.
fn check_leads(report: &mut Report<'_>, root: &Section<'_>, paths: &[PathPlan], leads: &[(usize, usize, String)]) {
    if report.error_count() > 0 {
        return;
    }
    let parent = Path::Key(&root.path, "path");
    for (index, rule, to) in leads {
        let own = paths.get(*index).is_some_and(|path| path.name == *to);
        if !own && (paths.iter().any(|path| path.name == *to) || to == "best-effort") {
            continue;
        }
        let (one, list) = (Path::Index(&parent, *index), root.list(report, "path"));
        let Some((_, span, _)) = list.get(*index) else { continue };
        let key = Path::Key(&one, "dispatch");
        report.error(span.clone(), Path::Index(&key, *rule), || match own {
            true => (
                format!("it leads back to '{to}', where the packet is"),
                "leave the rule out, or name another path".into(),
            ),
            false => {
                let known = paths.iter().map(|path| path.name.as_str()).chain(["best-effort"]);
                (format!("there is no path {}", quote(to)), did_you_mean(to, known))
            }
        });
    }
}

/// The rules of a dispatch, which a path has where it has the function of that name.
fn dispatch(report: &mut Report<'_>, section: &Section<'_>, functions: &[Call]) -> Vec<DispatchRule> {
    let place = functions.iter().position(|call| call.name == "dispatch");
    let Some(given) = section.node("dispatch") else {
        if place.is_some() {
            report.error(section.span.clone(), section.path, || {
                let hint = "add dispatch = [\"tls name *.example.org PATH\"]";
                ("the function 'dispatch' has no rules".to_string(), hint.to_string())
            });
        }
        return Vec::new();
    };
    let forwards = functions.iter().position(|call| call.name == "ip");
    let wrong = match (place, forwards) {
        (None, _) => Some("there are rules, and the path has not the function 'dispatch'"),
        (Some(place), Some(forwards)) if forwards < place => {
            Some("'ip' has forwarded the packet before 'dispatch' sends it to another path, which forwards it again")
        }
        _ => None,
    };
    if let Some(wrong) = wrong.filter(|_| report.error_count() == 0) {
        report.error(given.span.clone(), given.path, || {
            (wrong.to_string(), "name it first: functions = [\"dispatch\", \"ip\"]".to_string())
        });
    }
    let mut list = section.list(report, "dispatch");
    if let Some((_, span, _)) = list.get(MOST_RULES) {
        report.error(span.clone(), given.path, || {
            (format!("a dispatch has at most {MOST_RULES} rules"), "use several paths".to_string())
        });
        list.truncate(MOST_RULES);
    }
    let parent = given.path;
    let mut rules = Vec::with_capacity(list.len());
    for (index, span, value) in list {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(text) = node.text() else {
            node.no_text(report, "\"tls name *.example.org video\"");
            continue;
        };
        match DispatchRule::parse(text.value) {
            Err(error) => text.wrong(report, error),
            Ok(rule) => rules.push(rule),
        }
    }
    rules
}

fn check_name(report: &mut Report<'_>, text: &Text<'_>, names: &mut HashMap<String, usize>, index: usize) {
    let name = text.value;
    if !names::is_path(name) {
        return text.error(report, || {
            let hint = format!("use a letter, then letters, digits, '_' and '-', 31 at most: {PATH_PATTERN}");
            (format!("{} is no name for a path", quote(name)), hint)
        });
    }
    if RESERVED_PATHS.contains(&name) {
        return text.error(report, || {
            (format!("'{name}' is a path the router has of its own"), "use another name".to_string())
        });
    }
    let first = *names.entry(name.to_string()).or_insert(index);
    if first != index {
        text.error(report, || {
            (format!("there is a path '{name}' already: path[{first}]"), "give each path a name of its own".to_string())
        });
    }
}

fn matching<'a>(report: &mut Report<'_>, section: &'a Section<'a>, connected: &Connected) -> Option<(Text<'a>, Match)> {
    let text = section.text(report, "match")?;
    let matching = match Match::parse(text.value) {
        Ok(matching) => matching,
        Err(error) => {
            text.wrong(report, error);
            return None;
        }
    };
    if let Some(name) = matching.iif.as_deref().filter(|name| connected.interface(name).is_none())
        && !connected.incomplete
    {
        let (reason, hint) = connected.no_interface(name);
        // The name stands in the text once at least; the first occurrence as a word is it, or near enough.
        let offset = text.value.find(name).unwrap_or(0);
        text.wrong(report, TextError { offset, length: name.len(), reason, hint });
        return None;
    }
    Some((text, matching))
}

/// Functions that must not be interrupted, and those that have to be.
fn interrupted(
    report: &mut Report<'_>,
    section: &Section<'_>,
    functions: &[Call],
    (preemptible, layout): (bool, Layout),
) {
    let node = |name| section.node(name).map_or((section.span.clone(), section.path), |node| (node.span, node.path));
    if preemptible && functions.iter().any(|call| call.name == "nat") {
        let (span, path) = node("preemptible");
        report.error(span, path, || {
            let reason = "interrupted in the middle of a packet, 'nat' would keep the connections from all other paths";
            (reason.to_string(), "translate on a path that is not preemptible".to_string())
        });
    }
    if preemptible && layout == Layout::One {
        let (span, path) = node("preemptible");
        report.error(span, path, || {
            let reason = "with layout = 1 its functions are part of the input task, which nobody interrupts";
            (reason.to_string(), "give [cpu] layout = 2 or 3".to_string())
        });
    }
    let takes = |call: &Call| ["cost", "rare_cost"].iter().filter_map(|name| call.option(name)).max().unwrap_or(0);
    let longest = functions.iter().filter(|call| call.name == "spin").map(takes).max().map_or(Nanos::ZERO, Nanos::new);
    if !preemptible && longest > MOST_UNINTERRUPTED {
        let (span, path) = node("functions");
        report.error(span, path, || {
            let reason = format!("a packet that takes {longest} holds up everything else, as if the worker were stuck");
            (reason, format!("add preemptible = true, or let it take {MOST_UNINTERRUPTED} at most"))
        });
    }
}

/// The rules of a packet filter, which a path has where it has the function of that name.
fn filter(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &Connected,
    functions: &[Call],
) -> Vec<FilterRule> {
    let filters = functions.iter().any(|call| call.name == "filter");
    let Some(given) = section.node("filter") else {
        if filters {
            report.error(section.span.clone(), section.path, || {
                let hint = "add its rules, the first that holds counts: filter = [\"tcp dport 22 accept\", \"drop\"]; all go with filter = [\"drop\"]";
                ("the function 'filter' has no rules".to_string(), hint.to_string())
            });
        }
        return Vec::new();
    };
    if !filters && report.error_count() == 0 {
        report.error(given.span.clone(), given.path, || {
            let hint = "name it: functions = [\"filter\", \"ip\"]";
            ("there are rules, and the path has not the function 'filter'".to_string(), hint.to_string())
        });
    }
    let mut list = section.list(report, "filter");
    if let Some((_, span, _)) = list.get(MOST_RULES) {
        report.error(span.clone(), given.path, || {
            (
                format!("a filter has at most {MOST_RULES} rules"),
                "put values into sets, or use several paths".to_string(),
            )
        });
        list.truncate(MOST_RULES);
    }
    let parent = given.path;
    let mut rules = Vec::with_capacity(list.len());
    for (index, span, value) in list {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(text) = node.text() else {
            node.no_text(report, "\"tcp dport 22 accept\"");
            continue;
        };
        match FilterRule::parse(text.value) {
            Err(error) => text.wrong(report, error),
            Ok(rule) => {
                let unknown = rule.iif().filter(|name| connected.interface(name).is_none() && !connected.incomplete);
                if let Some(name) = unknown {
                    let (reason, hint) = connected.no_interface(name);
                    let offset = text.value.find(name).unwrap_or(0);
                    text.wrong(report, TextError { offset, length: name.len(), reason, hint });
                }
                rules.push(rule);
            }
        }
    }
    rules
}

/// A verdict is no function, but a filter has it.
fn as_verdict(name: &str, error: TextError) -> TextError {
    if !["drop", "accept", "reject"].contains(&name) {
        return error;
    }
    let rest = if name == "accept" { "\"tcp dport 22 accept\", \"drop\"".to_owned() } else { format!("\"{name}\"") };
    let hint = format!("a filter does that: functions = [\"filter\", \"ip\"], and filter = [{rest}]");
    TextError { hint, ..error }
}

fn functions(report: &mut Report<'_>, section: &Section<'_>, catalogue: &Catalogue) -> Vec<Call> {
    let declared = &catalogue.functions;
    let Some(given) = section.node("functions") else {
        let default = Call::parse(DEFAULT_FUNCTION, declared, "function");
        return match default {
            Ok(call) => vec![call],
            Err(error) => {
                report.error(section.span.clone(), section.path, || {
                    (error.reason, format!("name the functions: {}", error.hint))
                });
                Vec::new()
            }
        };
    };
    let before = report.error_count();
    let mut list = section.list(report, "functions");
    let parent = given.path;
    if list.is_empty() && report.error_count() == before {
        report.error(given.span.clone(), given.path, || {
            (
                "a path without a function does nothing".to_string(),
                "write functions = [\"ip\"], or leave it out".to_string(),
            )
        });
    }
    if let Some((_, span, _)) = list.get(MOST_FUNCTIONS) {
        report.error(span.clone(), parent, || {
            (format!("a path has at most {MOST_FUNCTIONS} functions"), "remove some".to_string())
        });
        list.truncate(MOST_FUNCTIONS);
    }
    let mut functions = Vec::with_capacity(list.len());
    for (index, span, value) in list {
        let node = Node::new(value, span.clone(), Path::Index(&parent, index));
        let Some(text) = node.text() else {
            node.no_text(report, "\"ip\"");
            continue;
        };
        match Call::parse(text.value, declared, "function") {
            // Twice `ip` would be two hops in one router.
            Ok(call) if functions.iter().any(|earlier: &Call| earlier.name == call.name) => {
                let reason = format!("the function '{}' is there already", call.name);
                report.error(span, Path::Index(&parent, index), || (reason, "name each function once".to_string()));
            }
            Ok(call) => functions.push(call),
            Err(error) => text.wrong(report, as_verdict(text.value, error)),
        }
    }
    functions
}
