//! The keys of the configuration as documents list them: the reference page and the manual page follow from the declarations of the sections.

use crate::key::{Key, Kind};
use crate::section::ROOT;

/// A table of the configuration with its keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReferenceTable {
    /// Its header in a file: `[router]`, `[port.NAME.vlan.ID]`, `[[route]]`; empty for the file itself.
    pub header: String,
    /// The words of its path without names: `port vlan`.
    pub path: String,
    /// The purpose of the table; empty for the file itself.
    pub doc: &'static str,
    /// Its keys, in the order of their declaration.
    pub keys: Vec<ReferenceKey>,
}

/// A key as documents show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReferenceKey {
    /// Its name.
    pub name: &'static str,
    /// The accepted values in words: `1 to 64`, `string`, `table`.
    pub takes: String,
    /// True if a table must have it.
    pub required: bool,
    /// The default as written in a file; empty without one.
    pub default: &'static str,
    /// A value as written in a file.
    pub example: &'static str,
    /// One sentence or more about its effect, with code in backticks.
    pub doc: &'static str,
}

/// Returns every table of the configuration, parents first, in the order of their declaration.
pub fn reference() -> Vec<ReferenceTable> {
    let mut all = Vec::new();
    collect(ReferenceTable { header: String::new(), path: String::new(), doc: "", keys: Vec::new() }, ROOT, &mut all);
    all
}

/// Adds a table and those in it.
fn collect(table: ReferenceTable, keys: &'static [Key], all: &mut Vec<ReferenceTable>) {
    let (parent, path) = (table.header.trim_matches(['[', ']']).to_owned(), table.path.clone());
    all.push(ReferenceTable { keys: keys.iter().map(ReferenceKey::of).collect(), ..table });
    for key in keys.iter().filter(|key| !keys_of(&key.kind).is_empty()) {
        let dotted = if parent.is_empty() { key.name.to_owned() } else { format!("{parent}.{}", key.name) };
        let header = match &key.kind {
            Kind::Tables { .. } => format!("[{dotted}.{}]", if key.name == "vlan" { "ID" } else { "NAME" }),
            Kind::List(_) => format!("[[{dotted}]]"),
            _ => format!("[{dotted}]"),
        };
        let path = format!("{path} {}", key.name).trim_start().to_owned();
        collect(ReferenceTable { header, path, doc: key.doc, keys: Vec::new() }, keys_of(&key.kind), all);
    }
}

/// The keys of the table, or of each table of a list.
fn keys_of(kind: &Kind) -> &'static [Key] {
    match kind {
        Kind::Table(keys) | Kind::Tables { keys, .. } | Kind::List(keys) | Kind::Switch(keys) => keys,
        Kind::TextsOrTable { keys, .. } => keys,
        _ => &[],
    }
}

impl ReferenceKey {
    fn of(key: &Key) -> ReferenceKey {
        let Key { name, kind, required, default, example, doc } = key;
        ReferenceKey { name, takes: takes(kind), required: *required, default, example, doc }
    }

    /// The default in words: `required`, `none`, or the value in backticks.
    pub fn default_in_words(&self) -> String {
        match (self.required, self.default) {
            (true, _) => "required".to_owned(),
            (false, "") => "none".to_owned(),
            (false, default) => format!("`{default}`"),
        }
    }
}

/// The accepted values of a key.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &ReferenceKey) -> String {
        let default = key.default_in_words();
        format!("| `{}` | {} | {default} | `{}` | {} |\n", key.name, key.takes, key.example, key.doc)
    }

    fn table(keys: &[ReferenceKey]) -> String {
        let rows: String = keys.iter().map(row).collect();
        format!("\n| key | takes | default | example | effect |\n|---|---|---|---|---|\n{rows}\n")
    }

    /// Tables that the page describes without a list of keys: the file itself, and one with a single key.
    const WITHOUT_LIST: [&str; 2] = ["", "state instruction"];

    /// The tables of `docs/reference/configuration.md` between their marks are generated from the declarations; `UPDATE_EXPECT=1` writes them.
    #[test]
    fn reference_page_lists_every_key() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
        let mut text = std::fs::read_to_string(page).unwrap();
        for ReferenceTable { path, keys, .. } in
            reference().iter().filter(|one| !WITHOUT_LIST.contains(&one.path.as_str()))
        {
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
    fn headers_are_those_of_a_file() {
        let headers: Vec<String> = reference().into_iter().map(|table| table.header).collect();
        assert_eq!(headers[0], "", "the file itself is first");
        for wanted in [
            "[router]",
            "[cpu.tune]",
            "[port.NAME]",
            "[port.NAME.vlan.ID]",
            "[port.NAME.vlan.ID.ra]",
            "[[route]]",
            "[policy.NAME]",
        ] {
            assert!(headers.iter().any(|header| header == wanted), "{wanted}: {headers:?}");
        }
    }

    #[test]
    fn defaults_are_within_their_ranges() {
        fn check(keys: &'static [Key]) {
            for key in keys {
                if let (Kind::Integer { least, most }, false) = (&key.kind, key.default.is_empty()) {
                    assert!((*least..=*most).contains(&key.default.parse().unwrap()), "{}", key.name);
                }
                check(keys_of(&key.kind));
            }
        }
        check(ROOT);
    }
}
