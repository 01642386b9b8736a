//! Building blocks of differences: edits of keys, and steps from one list of tables to another.

use serde::Serialize;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::hash::Hash;

/// A changed property, as text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PropertyChange {
    /// The key in the configuration, like `scheme`.
    pub what: &'static str,
    /// The old value.
    pub old: String,
    /// The new value.
    pub new: String,
}

impl Display for PropertyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.what, self.old, self.new)
    }
}

/// One step from a list of tables to another.
pub(crate) enum Step<'p, T> {
    Removed(&'p T),
    Added(&'p T),
    /// The old and the new one.
    Changed(&'p T, &'p T),
}

/// Compares two lists by key: first the removed elements, then the new and changed ones, each in the order of its list.
pub(crate) fn steps<'p, T: PartialEq, K: Hash + Eq>(
    old: &'p [T],
    new: &'p [T],
    key: impl Fn(&'p T) -> K,
) -> Vec<Step<'p, T>> {
    // The usual case of a reload: do not hash a million unchanged routes.
    if old == new {
        return Vec::new();
    }
    let mut left: HashMap<K, &T> = old.iter().map(|item| (key(item), item)).collect();
    let pairs: Vec<(&T, Option<&T>)> = new.iter().map(|item| (item, left.remove(&key(item)))).collect();
    let gone = old.iter().filter(|item| left.contains_key(&key(item))).map(Step::Removed);
    let step = |(item, before)| match before {
        None => Some(Step::Added(item)),
        Some(before) => (before != item).then_some(Step::Changed(before, item)),
    };
    gone.chain(pairs.into_iter().filter_map(step)).collect()
}

/// Adds an edit if the texts differ.
pub(crate) fn edit(edits: &mut Vec<PropertyChange>, what: &'static str, old: impl Display, new: impl Display) {
    let (old, new) = (old.to_string(), new.to_string());
    if old != new {
        edits.push(PropertyChange { what, old, new });
    }
}

/// An optional value; `none` if it is not set.
pub(crate) fn or_none<T: Display>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| "none".to_string(), |value| value.to_string())
}

/// A file name in quotes, so that a file called `none` differs from no file.
pub(crate) fn file(value: &Option<String>) -> String {
    value.as_ref().map_or_else(|| "none".to_string(), |name| format!("{name:?}"))
}

pub(crate) fn joined<T: Display>(values: &[T]) -> String {
    if values.is_empty() {
        return "none".to_string();
    }
    values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

/// Longer lists are summarized in differences.
const MOST_LISTED: usize = 32;

/// Both sides of a changed list, whose elements have this name. Long ones are summarized by their first difference.
pub(crate) fn summaries<T: Display + PartialEq>(old: &[T], new: &[T], elements: &str) -> (String, String) {
    if old.len() <= MOST_LISTED && new.len() <= MOST_LISTED {
        return (quoted(old), quoted(new));
    }
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let summary = |list: &[T]| match list.get(same) {
        Some(element) => format!("{} {elements}, number {} is '{element}'", list.len(), same + 1),
        None => format!("{} {elements}", list.len()),
    };
    (summary(old), summary(new))
}

/// Rules, each in quotes.
pub(crate) fn quoted(rules: &[impl Display]) -> String {
    let rules: Vec<String> = rules.iter().map(|rule| format!("'{rule}'")).collect();
    joined(&rules)
}
