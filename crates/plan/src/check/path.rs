//! `[[path]]`: which packets are switched how.

use super::connected::Connected;
use super::cpu;
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section, Text};
use crate::keys::{MOST_FUNCTIONS, MOST_PATHS, PATH};
use crate::names::{self, PATH_PATTERN, RESERVED_PATHS};
use crate::text::{TextError, quote};
use crate::{Call, Catalogue, Match, PathPlan};
use std::collections::HashMap;

/// The function of a path that names none.
const DEFAULT_FUNCTION: &str = "ip";

pub(super) fn read(
    report: &mut Report<'_>,
    root: &Section<'_>,
    connected: &Connected,
    catalogue: &Catalogue,
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
        // The declared ranges are within the types.
        let queue = section.integer(report, "queue").unwrap_or(1) as u32;
        let mut one = |name| match section.node(name) {
            Some(_) => section.integer(report, name).unwrap_or(1) as u32,
            None => queue,
        };
        let (input_queue, output_queue) = (one("input_queue"), one("output_queue"));
        let cpu = cpu::path(report, &section);
        let class = section.integer(report, "class").unwrap_or(0) as u8;
        if let (Some(name), Some((_, matching))) = (name, matching) {
            paths.push(PathPlan {
                name: name.value.to_string(),
                matching,
                functions,
                input_queue,
                output_queue,
                class,
                cpu,
            });
        }
    }
    paths
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
            Err(error) => text.wrong(report, error),
        }
    }
    functions
}
