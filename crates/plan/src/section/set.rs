//! `[set.NAME]`: named sets of addresses or ports, for matches.

use crate::diagnostic::{Report, absolute_beside, more_than};
use crate::diff::{PropertyChange, Step, edit, file, joined, steps};
use crate::document::{Node, Path, Section};
use crate::element::{SetEntry, SetKind, wrong_kind};
use crate::key::{FILE, Form, Key, Kind, key};
use crate::named::as_text;
use crate::names::{self, Name, PORT_PATTERN};
use crate::text::quote;
use serde::Serialize;
use std::fmt;

pub(crate) const KEY: Key = key(
    "set",
    Kind::Tables { name: PORT_PATTERN, keys: KEYS },
    "",
    "{ bad = { elements = [\"203.0.113.0/24\"] } }",
    "Sets of addresses or ports by name, up to millions of elements each.",
);

/// Limit of sets.
const MOST_SETS: usize = 1024;
/// Limit of elements in the configuration itself. A file has no limit but `size`.
const MOST_INLINE: usize = 65_536;
/// The largest value of `size`.
pub const MOST_SET_ELEMENTS: u64 = 16_000_000;

const KEYS: &[Key] = &[
    key(
        "type",
        Kind::Text(Form::Choice(SetKind::NAMES)),
        "",
        "\"address\"",
        "`address` for IPv4 and IPv6 prefixes, `port` for ranges of ports. The default is the type of the first of `elements`, or \
         `address` without any.",
    ),
    key(
        "elements",
        Kind::Texts {
            form: Form::Pattern(r"^\s*[0-9a-fA-F.:/-]+(\s+expires\s+[0-9.]+[a-z]+)?\s*$"),
            most: MOST_INLINE,
        },
        "[]",
        "[\"10.0.0.0/8\", \"192.0.2.1 expires 1h\"]",
        "Elements, each with the lifetime behind `expires`, if it has one. At most 65536.",
    ),
    key(
        "file",
        Kind::Text(FILE),
        "",
        "\"blocklist.txt\"",
        "A file of further elements, one a line, with comments from `#` on. A relative name begins at the directory of the \
         configuration file.",
    ),
    key(
        "size",
        Kind::Integer { least: 1, most: MOST_SET_ELEMENTS },
        "2000000",
        "1000",
        "The largest number of elements, those of the API included.",
    ),
];

/// A named set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SetPlan {
    /// Its name.
    pub name: Name,
    /// The type of its elements.
    #[serde(rename = "type", serialize_with = "as_text")]
    pub kind: SetKind,
    /// The elements of the configuration, sorted.
    pub elements: Vec<SetEntry>,
    /// The file of further elements.
    pub file: Option<String>,
    /// The largest number of elements.
    pub size: u64,
}

impl fmt::Display for SetPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "type {} elements {} file {} size {}",
            self.kind,
            summary(&self.elements),
            file(&self.file),
            self.size
        )
    }
}

/// The elements if they are few, else their number.
fn summary(elements: &[SetEntry]) -> String {
    if elements.len() > 8 { format!("({})", elements.len()) } else { joined(elements) }
}

/// `file_name` is that of the configuration.
pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>, file_name: &str) -> Vec<SetPlan> {
    let parent = Path::Key(&root.path, "set");
    let mut tables = root.tables(report, "set");
    if let Some((span, _, _)) = tables.get(MOST_SETS) {
        report.error(span.clone(), parent, || more_than(MOST_SETS, "sets"));
        tables.truncate(MOST_SETS);
    }
    let mut sets = Vec::with_capacity(tables.len());
    for (span, name, value) in tables {
        let path = Path::Key(&parent, name);
        if !names::is_port(name) {
            report.error(span, path, || {
                let hint = format!("use a letter, then letters, digits, '_' and '-', 15 at most: {PORT_PATTERN}");
                (format!("{} is no name for a set", quote(name)), hint)
            });
        }
        let node = Node::new(value.get_ref(), value.span(), path);
        let Some(section) = node.section(report, KEYS, &format!("[set.{name}]")) else { continue };
        sets.push(set(report, &section, Name::from(name), file_name));
    }
    sets.sort_by(|a: &SetPlan, b| a.name.cmp(&b.name));
    sets
}

fn set(report: &mut Report<'_>, section: &Section<'_>, name: Name, file_name: &str) -> SetPlan {
    let mut kind = section.node("type").and_then(|_| section.choice(report, "type", SetKind::ALL));
    let example = "\"10.0.0.0/8\"";
    let mut elements =
        section.texts(report, "elements", surplus, example, |report, text| match text.value.parse::<SetEntry>() {
            Ok(entry) if entry.value.kind() == *kind.get_or_insert(entry.value.kind()) => Some(entry),
            Ok(entry) => {
                text.error(report, || wrong_kind(entry.value, kind.unwrap_or(SetKind::Address)));
                None
            }
            Err(error) => {
                text.wrong(report, error);
                None
            }
        });
    // The last of several entries with one value counts, as at run time.
    elements.reverse();
    elements.sort_by_key(|entry| entry.value);
    elements.dedup_by_key(|entry| entry.value);
    let file = section.text(report, "file").map(|text| absolute_beside(file_name, text.value));
    let size = section.integer(report, "size").unwrap_or(1);
    if elements.len() as u64 > size {
        report.error(section.span.clone(), section.path, || {
            let reason = format!("the set has {} elements, more than its size of {size}", elements.len());
            (reason, format!("write size = {}", elements.len()))
        });
    }
    SetPlan { name, kind: kind.unwrap_or(SetKind::Address), elements, file, size }
}

fn surplus(most: usize) -> (String, String) {
    (format!("there are more than {most} elements"), "write them into a file: file = \"elements.txt\"".to_string())
}

pub(crate) fn diff<'p>(old: &'p [SetPlan], new: &'p [SetPlan]) -> Vec<Step<'p, SetPlan>> {
    steps(old, new, |set| &set.name)
}

pub(crate) fn edits(old: &SetPlan, new: &SetPlan) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    edit(&mut what, "type", old.kind, new.kind);
    if old.elements != new.elements {
        let (before, after) = (summary(&old.elements), summary(&new.elements));
        // Two long lists of one length differ nevertheless.
        let changed = if before == after { format!("{after} others") } else { after };
        what.push(PropertyChange { what: "elements", old: before, new: changed });
    }
    edit(&mut what, "file", file(&old.file), file(&new.file));
    edit(&mut what, "size", old.size, new.size);
    what
}
