//! Reads a TOML tree against declared keys. Each value has its position in the file and its path.

use crate::diagnostic::Report;
use crate::key::{Form, Key, Kind};
use crate::text::{TextError, closest, did_you_mean, quote};
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::UnitError;

/// The path of a value, formatted only for a diagnostic.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    /// The file, with its top-level keys.
    Root(&'static [Key]),
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Path::Root(_) => Ok(()),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(parent, key) => {
                parent.fmt(f)?;
                if !matches!(parent, Path::Root(_)) {
                    f.write_str(".")?;
                }
                let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
                if bare { f.write_str(key) } else { write!(f, "\"{key}\"") }
            }
        }
    }
}

impl Path<'_> {
    /// The top-level keys of the file.
    fn top(&self) -> &'static [Key] {
        match self {
            Path::Root(keys) => keys,
            Path::Key(parent, _) | Path::Index(parent, _) => parent.top(),
        }
    }

    /// The last key: the name of a table, also of one in a list. Empty for the file.
    fn table(&self) -> &str {
        match self {
            Path::Root(_) => "",
            Path::Key(_, key) => key,
            Path::Index(parent, _) => parent.table(),
        }
    }
}

/// A table whose keys are declared.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    table: &'a DeTable<'a>,
    /// The header of the table, or its braces.
    pub span: Range<usize>,
    pub path: Path<'a>,
    keys: &'static [Key],
}

/// A value of the tree.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    value: &'a DeValue<'a>,
    pub span: Range<usize>,
    pub path: Path<'a>,
}

/// A string of the tree.
#[derive(Clone)]
pub(crate) struct Text<'a> {
    pub value: &'a str,
    pub span: Range<usize>,
    pub path: Path<'a>,
}

/// The hint for an unknown key: similar keys.
fn unknown_hint(table: &DeTable<'_>, path: &Path<'_>, keys: &[Key], name: &str) -> String {
    if let Some(new) = crate::key::new_name(path.table(), name) {
        return format!("the key is now '{new}'");
    }
    let left = || keys.iter().map(|key| key.name).filter(|key| !table.contains_key(*key));
    if let Some(meant) = closest(name, left()) {
        return format!("did you mean '{meant}'?");
    }
    // A common mistake in TOML: a top-level key below a table header belongs to that table.
    if !matches!(path, Path::Root(_)) && path.top().iter().any(|key| key.name == name) {
        return format!(
            "move '{name}' to the top of the file, above the first [header], or give it a header of its own"
        );
    }
    let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
    format!("the keys here are {}", known.join(", "))
}

impl<'a> Section<'a> {
    /// Opens a table. Reports unknown and missing keys at once.
    pub fn open(
        report: &mut Report<'_>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        path: Path<'a>,
        keys: &'static [Key],
    ) -> Self {
        for (key, _) in table.iter() {
            let name: &str = key.get_ref();
            if !keys.iter().any(|k| k.name == name) {
                report.error(key.span(), Path::Key(&path, name), || {
                    (format!("unknown key {}", quote(name)), unknown_hint(table, &path, keys, name))
                });
            }
        }
        for key in keys.iter().filter(|key| key.required && !table.contains_key(key.name)) {
            report.missing(span.clone(), path, || {
                (format!("the key '{}' is missing", key.name), format!("add {} = {}", key.name, key.example))
            });
        }
        Section { table, span, path, keys }
    }

    fn declared(&self, name: &str) -> &'static Key {
        self.keys.iter().find(|key| key.name == name).expect("only declared keys are read")
    }

    /// The default of a key, without quotes.
    pub fn default(&self, name: &str) -> &'static str {
        self.declared(name).default.trim_matches('"')
    }

    /// The raw value of a key.
    pub fn node(&'a self, name: &'static str) -> Option<Node<'a>> {
        let value = self.table.get(name)?;
        Some(Node { value: value.get_ref(), span: value.span(), path: Path::Key(&self.path, name) })
    }

    /// The position of a value; that of the table if the value is not set.
    pub fn place(&self, name: &'static str) -> Range<usize> {
        self.node(name).map_or(self.span.clone(), |node| node.span)
    }

    /// An integer in its declared range, or its default. `None` if it was reported.
    pub fn integer(&self, report: &mut Report<'_>, name: &'static str) -> Option<u64> {
        let key = self.declared(name);
        let Kind::Integer { least, most } = key.kind else { unreachable!("'{name}' is declared otherwise") };
        let Some(node) = self.node(name) else { return key.default.parse().ok() };
        let DeValue::Integer(integer) = node.value else {
            node.mistyped(report, "a whole number", key);
            return None;
        };
        let value = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let value = value.and_then(|v| u64::try_from(v).ok()).filter(|v| (least..=most).contains(v));
        if value.is_none() {
            report.error(node.span, node.path, || {
                let most = if most == u64::MAX { "18446744073709551615".to_string() } else { most.to_string() };
                let default =
                    if key.default.is_empty() { String::new() } else { format!("; the default is {}", key.default) };
                (format!("{integer} is out of range"), format!("give {least} to {most}{default}"))
            });
        }
        value
    }

    /// A boolean; its default if it is missing or wrong.
    pub fn boolean(&self, report: &mut Report<'_>, name: &'static str) -> bool {
        let key = self.declared(name);
        let default = key.default == "true";
        let Some(node) = self.node(name) else { return default };
        match node.value {
            DeValue::Boolean(value) => *value,
            _ => {
                node.mistyped(report, "true or false", key);
                default
            }
        }
    }

    /// A probability in parts per million; zero if it is missing or wrong.
    pub fn probability(&self, report: &mut Report<'_>, name: &'static str) -> u32 {
        let Some(node) = self.node(name) else { return 0 };
        let value: Option<f64> = match node.value {
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(integer) => integer.to_string().parse().ok(),
            _ => {
                node.mistyped(report, "a probability", self.declared(name));
                return 0;
            }
        };
        let ppm = value.filter(|p| (0.0..=1.0).contains(p)).map(|p| ((p * 1e6).round() as u32, p));
        match ppm {
            None => report.error(node.span, node.path, || {
                (
                    "a probability is a number from 0 to 1".to_string(),
                    "write 0.01 for one frame in a hundred".to_string(),
                )
            }),
            Some((0, p)) if p > 0.0 => report.error(node.span, node.path, || {
                (format!("{p} is less than one in a million"), "write 0, or at least 0.000001".to_string())
            }),
            Some((ppm, _)) => return ppm,
        }
        0
    }

    /// A string. `None` if it is missing or was reported.
    pub fn text(&'a self, report: &mut Report<'_>, name: &'static str) -> Option<Text<'a>> {
        let node = self.node(name)?;
        let text = node.text();
        if text.is_none() {
            node.mistyped(report, "a string", self.declared(name));
        }
        text
    }

    /// A value that is parsed from its string. `None` if it is missing or was reported.
    pub fn parsed<T: FromStr<Err = UnitError>>(&self, report: &mut Report<'_>, name: &'static str) -> Option<T> {
        let text = self.text(report, name)?;
        text.value.parse().map_err(|error: UnitError| text.error(report, || (error.reason, error.hint))).ok()
    }

    /// A quantity within a range. `None` if it is missing or was reported.
    pub fn within<T>(&self, report: &mut Report<'_>, name: &'static str, range: RangeInclusive<T>) -> Option<T>
    where
        T: FromStr<Err = UnitError> + PartialOrd + fmt::Display,
    {
        let value: T = self.parsed(report, name)?;
        if range.contains(&value) {
            return Some(value);
        }
        self.text(report, name)?.error(report, || {
            (format!("{value} is out of range"), format!("give {} to {}", range.start(), range.end()))
        });
        None
    }

    /// A quantity within its declared range. `None` if it is missing or was reported.
    pub fn quantity<T>(&self, report: &mut Report<'_>, name: &'static str) -> Option<T>
    where
        T: FromStr<Err = UnitError> + PartialOrd + fmt::Display,
    {
        let Kind::Quantity { least, most, .. } = self.declared(name).kind else {
            unreachable!("'{name}' is declared otherwise")
        };
        let bound = |text: &str| text.parse::<T>().unwrap_or_else(|error| unreachable!("a bound of '{name}': {error}"));
        self.within(report, name, bound(least)..=bound(most))
    }

    /// The element of `all` that the string names. `None` if it is missing or was reported.
    pub fn choice<T: Copy>(&self, report: &mut Report<'_>, name: &'static str, all: &[T]) -> Option<T> {
        let Kind::Text(Form::Choice(names)) = self.declared(name).kind else {
            unreachable!("'{name}' is declared otherwise")
        };
        self.one_of(report, name, names).map(|index| all[index])
    }

    /// The index in `names` of the string. `None` if it is missing or was reported.
    pub fn one_of(&self, report: &mut Report<'_>, name: &'static str, names: &[&'static str]) -> Option<usize> {
        let text = self.text(report, name)?;
        let found = names.iter().position(|one| *one == text.value);
        if found.is_none() {
            let hint = did_you_mean(text.value, names.iter().copied());
            text.error(report, || (format!("{} is not a value of '{name}'", quote(text.value)), hint));
        }
        found
    }

    /// A list of integers; empty if it is missing or was reported.
    pub fn counts(&self, report: &mut Report<'_>, name: &'static str) -> Vec<u64> {
        let key = self.declared(name);
        let Kind::Counts { least, most, highest } = key.kind else { unreachable!("'{name}' is declared otherwise") };
        let Some(node) = self.node(name) else { return Vec::new() };
        let DeValue::Array(array) = node.value else {
            node.mistyped(report, "a list of whole numbers", key);
            return Vec::new();
        };
        let number = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()).ok(),
            _ => None,
        };
        let numbers: Option<Vec<u64>> = array.iter().take(most + 1).map(number).collect();
        match numbers.filter(|n| n.iter().all(|number| *number <= highest)) {
            Some(numbers) if numbers.is_empty() || (least..=most).contains(&numbers.len()) => return numbers,
            found => report.error(node.span, node.path, || {
                let reason = match found {
                    Some(_) => format!("'{name}' has {} numbers", array.len()),
                    None => format!("'{name}' is a list of whole numbers, each at most {highest}"),
                };
                (reason, format!("write {least} to {most} of them: {name} = {}", key.example))
            }),
        }
        Vec::new()
    }

    /// A string, or each string of a list; at most one more than `most`. `None` if it was reported.
    pub fn one_or_more(&'a self, report: &mut Report<'_>, name: &'static str, most: usize) -> Option<Vec<Text<'a>>> {
        let node = self.node(name)?;
        if let Some(text) = node.text() {
            return Some(vec![text]);
        }
        let DeValue::Array(array) = node.value else {
            node.mistyped(report, "a string or a list of strings", self.declared(name));
            return None;
        };
        if array.is_empty() {
            report.error(node.span, node.path, || {
                (format!("'{name}' is an empty list"), format!("write {name} = {}", self.declared(name).example))
            });
            return None;
        }
        let mut texts = Vec::with_capacity(array.len().min(most + 1));
        for value in array.iter().take(most + 1) {
            // Use the list's path for its elements: a path of their own would have to outlive them.
            let element = Node { value: value.get_ref(), span: value.span(), path: node.path };
            match element.text() {
                Some(text) => texts.push(text),
                None => {
                    element.no_text(report, "\"192.0.2.9\"");
                    return None;
                }
            }
        }
        Some(texts)
    }

    /// The number of elements of a list; zero if it is missing or no list.
    pub fn list_length(&self, name: &'static str) -> usize {
        match self.table.get(name).map(|value| value.get_ref()) {
            Some(DeValue::Array(array)) => array.len(),
            _ => 0,
        }
    }

    /// The elements of a list. Empty if it is missing or was reported.
    pub fn list(&'a self, report: &mut Report<'_>, name: &'static str) -> Vec<(usize, Range<usize>, &'a DeValue<'a>)> {
        let Some(node) = self.node(name) else { return Vec::new() };
        let DeValue::Array(array) = node.value else {
            node.mistyped(report, "a list", self.declared(name));
            return Vec::new();
        };
        array.iter().enumerate().map(|(index, value)| (index, value.span(), value.get_ref())).collect()
    }

    /// The elements of a list of tables, at most `most`.
    pub fn elements(
        &'a self,
        report: &mut Report<'_>,
        name: &'static str,
        most: usize,
    ) -> Vec<(usize, Range<usize>, &'a DeValue<'a>)> {
        let mut list = self.list(report, name);
        if let Some((_, span, _)) = list.get(most) {
            too_many_elements(report, name, span.clone(), (list.len(), most));
            list.truncate(most);
        }
        list
    }

    /// Parses each string of a list with `read`. `surplus` returns reason and hint for more than `most` of them. `example` is a valid string.
    pub fn texts<T>(
        &self,
        report: &mut Report<'_>,
        name: &'static str,
        surplus: impl FnOnce(usize) -> (String, String),
        example: &str,
        mut read: impl FnMut(&mut Report<'_>, &Text<'_>) -> Option<T>,
    ) -> Vec<T> {
        let (Kind::Texts { most, .. } | Kind::TextsOrTable { most, .. }) = self.declared(name).kind else {
            unreachable!("'{name}' is declared otherwise")
        };
        let parent = Path::Key(&self.path, name);
        let mut list = self.list(report, name);
        if let Some((_, span, _)) = list.get(most) {
            report.error(span.clone(), parent, || surplus(most));
            list.truncate(most);
        }
        let mut out = Vec::with_capacity(list.len());
        for (index, span, value) in list {
            let node = Node::new(value, span, Path::Index(&parent, index));
            match node.text() {
                Some(text) => out.extend(read(report, &text)),
                None => node.no_text(report, example),
            }
        }
        out
    }

    /// The tables of a table, sorted by name, with the positions of their names.
    pub fn tables(
        &'a self,
        report: &mut Report<'_>,
        name: &'static str,
    ) -> Vec<(Range<usize>, &'a str, &'a Spanned<DeValue<'a>>)> {
        let Some(node) = self.node(name) else { return Vec::new() };
        let DeValue::Table(table) = node.value else {
            node.mistyped(report, "a table of tables", self.declared(name));
            return Vec::new();
        };
        table.iter().map(|(key, value)| (key.span(), key.get_ref().as_ref(), value)).collect()
    }
}

/// Reports that a list of tables exceeds its limit.
pub(crate) fn too_many_elements(
    report: &mut Report<'_>,
    name: &str,
    first: Range<usize>,
    (total, most): (usize, usize),
) {
    report
        .error(first, name, || (format!("there are {total} {name}s, more than {most}"), format!("use at most {most}")));
}

impl<'a> Node<'a> {
    pub fn new(value: &'a DeValue<'a>, span: Range<usize>, path: Path<'a>) -> Self {
        Node { value, span, path }
    }

    /// The string itself, or the first of a list.
    pub fn first_text(&self) -> Option<&'a str> {
        let first = match self.value {
            DeValue::Array(list) => list.first()?.get_ref(),
            value => value,
        };
        if let DeValue::String(text) = first { Some(text) } else { None }
    }

    /// True for a table.
    pub fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    pub fn text(&self) -> Option<Text<'a>> {
        match self.value {
            DeValue::String(value) => Some(Text { value, span: self.span.clone(), path: self.path }),
            _ => None,
        }
    }

    /// The value if it is a boolean.
    pub fn boolean(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as a table with declared keys.
    pub fn section(self, report: &mut Report<'_>, keys: &'static [Key], example: &str) -> Option<Section<'a>> {
        match self.value {
            DeValue::Table(table) => Some(Section::open(report, table, self.span, self.path, keys)),
            other => {
                report.error(self.span, self.path, || {
                    (format!("{} is a table, not {}", self.path, kind_of(other)), format!("write {example}"))
                });
                None
            }
        }
    }

    fn mistyped(&self, report: &mut Report<'_>, expected: &str, key: &Key) {
        report.error(self.span.clone(), self.path, || {
            (
                format!("'{}' is {expected}, not {}", key.name, kind_of(self.value)),
                format!("write {} = {}", key.name, key.example),
            )
        });
    }

    /// Reports an element of a list that is not a string.
    pub fn no_text(&self, report: &mut Report<'_>, example: &str) {
        report.error(self.span.clone(), self.path, || {
            (format!("expected a string, not {}", kind_of(self.value)), format!("write {example}"))
        });
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

impl Text<'_> {
    /// Reports an error in the whole string.
    pub fn error(&self, report: &mut Report<'_>, say: impl FnOnce() -> (String, String)) {
        report.error(self.span.clone(), self.path, say);
    }

    /// Reports an error in a part of the string, at that part of the file.
    pub fn wrong(&self, report: &mut Report<'_>, error: TextError) {
        let span = self.part(report.part(), error.offset, error.length);
        report.error(span, self.path, || (error.reason, error.hint));
    }

    /// The lines of the string, each with its position.
    pub fn lines(&self, source: &str) -> impl Iterator<Item = Text<'_>> {
        let exact = self.inner(source);
        self.value.lines().map(move |line| {
            let offset = line.as_ptr().addr() - self.value.as_ptr().addr();
            let span = exact.map_or(self.span.clone(), |start| start + offset..start + offset + line.len());
            Text { value: line, span, path: self.path }
        })
    }

    /// The words of the string, each with its position.
    pub fn words(&self, source: &str) -> impl Iterator<Item = Text<'_>> {
        let one = |word| Text { value: word, span: self.place_of(word, source), path: self.path };
        self.value.split_ascii_whitespace().map(one)
    }

    fn place_of(&self, word: &str, source: &str) -> Range<usize> {
        if word.len() == self.value.len() {
            return self.span.clone();
        }
        self.part(source, word.as_ptr().addr() - self.value.as_ptr().addr(), word.len())
    }

    /// The position of a part of the string in the file; that of the whole string if it contains escapes.
    fn part(&self, source: &str, offset: usize, length: usize) -> Range<usize> {
        let Some(start) = self.inner(source) else { return self.span.clone() };
        let start = start + offset.min(self.value.len());
        // At the end of the text, mark the closing quote.
        start..start + length.max(1)
    }

    /// The offset of the string's first character in the file. `None` if the file has escapes in its place.
    fn inner(&self, source: &str) -> Option<usize> {
        let raw = source.get(self.span.clone())?;
        // A part of a string has no quotes of its own.
        if raw == self.value {
            return Some(self.span.start);
        }
        let quotes = if raw.starts_with("\"\"\"") || raw.starts_with("'''") { 3 } else { 1 };
        let inner = raw.get(quotes..raw.len().checked_sub(quotes)?)?;
        // A line end after the opening quotes does not belong to the string.
        let skipped = if quotes == 3 && inner.starts_with('\n') { 1 } else { 0 };
        (&inner[skipped..] == self.value).then_some(self.span.start + quotes + skipped)
    }
}
