//! The sections of the configuration. Each has a file with its keys, its plan, its checks and its differences.
//!
//! A section uses nothing of this file, and other sections only in one direction:
//!
//! ```text
//! objectives <- policy <- port <- {passthrough, path, state, subscribers};  passthrough <- linux;  {path, linux} <- nat;  path <- routing;  router, cpu, route, neighbour, multicast, set
//! ```

pub(crate) mod cpu;
pub(crate) mod linux;
pub(crate) mod multicast;
pub(crate) mod nat;
pub(crate) mod neighbour;
pub(crate) mod objectives;
pub(crate) mod passthrough;
pub(crate) mod path;
pub(crate) mod policy;
pub(crate) mod port;
pub(crate) mod route;
pub(crate) mod router;
pub(crate) mod routing;
pub(crate) mod set;
pub mod state;
pub(crate) mod subscribers;

use crate::key::{Key, Kind, required};

/// The supported version of the format.
pub(crate) const VERSION: u64 = 1;

/// The top-level keys of the file.
pub(crate) const ROOT: &[Key] = &[
    required("version", Kind::Integer { least: VERSION, most: VERSION }, "1", "The version of the format."),
    router::KEY,
    cpu::KEY,
    port::KEY,
    route::KEY,
    neighbour::KEY,
    multicast::KEY,
    passthrough::KEY,
    subscribers::KEY,
    path::KEY,
    routing::KEY,
    set::KEY,
    objectives::KEY,
    policy::KEY,
    nat::KEY,
    state::KEY,
    linux::KEY,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The accepted values of a key, for the reference page.
    fn takes(kind: &Kind) -> String {
        match kind {
            Kind::Integer { least, most } if least == most => format!("{least}"),
            Kind::Integer { least: 0, most } if *most == i64::MAX as u64 => "whole number".to_string(),
            Kind::Integer { least, most } => format!("{least} to {most}"),
            Kind::Boolean => "true, false".to_string(),
            Kind::Probability => "0 to 1".to_string(),
            Kind::Text(_) | Kind::Quantity { .. } => "string".to_string(),
            Kind::Texts { .. } => "list of strings".to_string(),
            Kind::TextsOrTable { .. } => "list of strings, or table".to_string(),
            Kind::OneOrMore(_) => "string, or list of strings".to_string(),
            Kind::Table(_) => "table".to_string(),
            Kind::Tables { .. } => "tables by name".to_string(),
            Kind::List(_) => "list of tables".to_string(),
            Kind::Switch(_) => "true, false, or table".to_string(),
            Kind::Counts { least, most, .. } => format!("list of {least} to {most} numbers"),
        }
    }

    fn row(key: &Key) -> String {
        let default = match (key.required, key.default) {
            (true, _) => "required".to_string(),
            (false, "") => "none".to_string(),
            (false, default) => format!("`{default}`"),
        };
        format!("| `{}` | {} | {default} | `{}` | {} |\n", key.name, takes(&key.kind), key.example, key.doc)
    }

    fn table(keys: &[Key]) -> String {
        let rows: String = keys.iter().map(row).collect();
        format!("\n| key | takes | default | example | effect |\n|---|---|---|---|---|\n{rows}\n")
    }

    /// The keys of the table, or of each table of a list.
    fn keys(kind: &Kind) -> &'static [Key] {
        match kind {
            Kind::Table(keys) | Kind::Tables { keys, .. } | Kind::List(keys) | Kind::Switch(keys) => keys,
            Kind::TextsOrTable { keys, .. } => keys,
            _ => &[],
        }
    }

    /// The keys of each table with its title on the reference page: the words of its path without redundant ones.
    fn tables(path: &str, of: &'static [Key], all: &mut Vec<(String, &'static [Key])>) {
        all.push((path.to_string(), of));
        for key in of.iter().filter(|key| !keys(&key.kind).is_empty()) {
            tables(format!("{path} {}", key.name).trim_start(), keys(&key.kind), all);
        }
    }

    fn all_tables() -> Vec<(String, &'static [Key])> {
        let mut all = Vec::new();
        tables("", ROOT, &mut all);
        all
    }

    /// Tables that the page describes without a list of keys: the file itself, and one with a single key.
    const WITHOUT_LIST: [&str; 2] = ["", "state instruction"];

    /// The tables of `docs/reference/configuration.md` between their marks are generated from the declarations; `UPDATE_EXPECT=1` writes them.
    #[test]
    fn reference_page_lists_every_key() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
        let mut text = std::fs::read_to_string(page).unwrap();
        for (path, keys) in all_tables().into_iter().filter(|(path, _)| !WITHOUT_LIST.contains(&path.as_str())) {
            let suffixes = path.char_indices().filter(|(at, c)| *at == 0 || *c == ' ').map(|(at, _)| path[at..].trim());
            let marks = suffixes.map(|name| format!("<!-- keys: {name} -->\n"));
            let found = marks.into_iter().find_map(|mark| Some(text.find(&mark)? + mark.len()));
            let start = found.unwrap_or_else(|| panic!("the page has no mark for '{path}'"));
            let end = start + text[start..].find("<!-- end -->").expect("the mark is closed");
            text.replace_range(start..end, &table(keys));
        }
        expect_test::expect_file![page].assert_eq(&text);
    }

    #[test]
    fn defaults_are_within_their_ranges() {
        for key in all_tables().into_iter().flat_map(|(_, keys)| keys) {
            if let (Kind::Integer { least, most }, false) = (&key.kind, key.default.is_empty()) {
                assert!((*least..=*most).contains(&key.default.parse().unwrap()), "{}", key.name);
            }
        }
    }
}
