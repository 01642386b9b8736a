//! The size limit of types. A type with more than 15 fields or 40 methods has several purposes, or a comment with the reason.
//!
//! The reason is a comment above the type that begins with `Large:`. Methods of traits do not count.

use crate::rust::Source;
use std::collections::BTreeMap;

const FIELDS: usize = 15;
const METHODS: usize = 40;

/// A type as far as it has been read.
#[derive(Default)]
struct Type<'a> {
    /// The file and the position of its declaration.
    declared: Option<(&'a Source, usize)>,
    fields: usize,
    methods: usize,
    excused: bool,
}

/// Returns types with too many fields or methods and without a reason.
pub fn too_large(sources: &[Source]) -> Vec<String> {
    let mut types: BTreeMap<(&str, &str), Type<'_>> = BTreeMap::new();
    for source in sources {
        let name_of_crate = source.path.split('/').nth(1).unwrap_or_default();
        let mut at = 0;
        for line in source.code.split_inclusive('\n') {
            let begins = at;
            at += line.len();
            if source.is_test(begins) {
                continue;
            }
            let item = line.trim_end().strip_suffix('{').map(declaration);
            match item {
                Some(Some(Item::Structure(name))) => {
                    let known = types.entry((name_of_crate, name)).or_default();
                    known.declared = Some((source, begins));
                    known.fields = inside(&source.code[at..]).filter(|line| is_field(line)).count();
                    known.excused = comments_above(&source.text[..begins]).any(|line| line.starts_with("// Large: "));
                }
                Some(Some(Item::Methods(name))) => {
                    let methods = inside(&source.code[at..]).filter(|line| is_function(line)).count();
                    types.entry((name_of_crate, name)).or_default().methods += methods;
                }
                _ => {}
            }
        }
    }
    let large = types.iter().filter(|(_, found)| found.fields > FIELDS || found.methods > METHODS);
    large
        .filter(|(_, found)| !found.excused)
        .filter_map(|((_, name), found)| {
            let (source, at) = found.declared?;
            let (fields, methods) = (found.fields, found.methods);
            Some(format!("{}:{}: {name} has {fields} fields and {methods} methods", source.path, source.line(at)))
        })
        .collect()
}

enum Item<'a> {
    Structure(&'a str),
    Methods(&'a str),
}

/// Returns the type that an unindented item declares; `head` is the item's line without its opening brace.
fn declaration(head: &str) -> Option<Item<'_>> {
    let head = match head.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => head,
    };
    if let Some(rest) = head.strip_prefix("struct ") {
        return Some(Item::Structure(name(rest)));
    }
    let rest = head.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest.trim_start() };
    (!head.contains(" for ")).then(|| Item::Methods(name(rest)))
}

fn name(text: &str) -> &str {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// Returns the lines of an unindented block up to its closing line.
fn inside(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| !line.starts_with('}')).filter_map(|line| line.strip_prefix("    "))
}

fn without_visibility(line: &str) -> &str {
    match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(rest, |(_, rest)| rest),
        Some(rest) => rest.trim_start(),
        None => line,
    }
}

fn is_field(line: &str) -> bool {
    let line = without_visibility(line);
    !line.starts_with(' ') && line[name(line).len()..].starts_with(':') && !name(line).is_empty()
}

fn is_function(line: &str) -> bool {
    let words = ["const ", "async ", "unsafe "];
    let line = words.iter().fold(without_visibility(line), |line, word| line.strip_prefix(word).unwrap_or(line));
    line.starts_with("fn ")
}

/// Returns the comments and attributes directly above an item, from the last line up.
fn comments_above(before: &str) -> impl Iterator<Item = &str> {
    before.lines().rev().take_while(|line| line.starts_with("//") || line.starts_with("#["))
}

#[test]
fn large_type_without_a_reason_is_found() {
    let fields: String = (0..16).map(|n| format!("    pub(crate) field{n}: u8,\n")).collect();
    let methods: String = (0..21).map(|n| format!("    pub const fn method{n}(self) {{}}\n")).collect();
    let text = format!(
        "/// A.\npub(super) struct Wide {{\n{fields}}}\n/// B.\n// Large: it is.\n#[derive(Debug)]\nstruct Excused {{\n{fields}}}\n\
         struct Busy<T> {{\n    inner: T,\n}}\nimpl<T> Busy<T> {{\n{methods}}}\nimpl Busy<u8> {{\n{methods}}}\nimpl Clone for Busy<u8> {{\n{methods}}}\n"
    );
    assert_eq!(
        too_large(&[Source::new("crates/x/src/a.rs", &text)]),
        [
            "crates/x/src/a.rs:41: Busy has 1 fields and 42 methods",
            "crates/x/src/a.rs:2: Wide has 16 fields and 0 methods"
        ]
    );
}
