//! A guest's description of itself, a text in the memory of its module:
//!
//! ```text
//! summary Leaves the shortest packet first.
//! option limit count 1000 1 100000 Packets that wait at most.
//! option target time 5ms 1 - How long one may wait.
//! ```
//!
//! An option has a name, a unit (`count`, `rate`, `time`, `size`, `part` or `switch`) and a default in that unit. Then follow the smallest and the
//! largest value and a sentence. Both bounds are whole numbers of packets, bits per second, nanoseconds, bytes or millionths; `-` means no bound.

use crate::block::OPTIONS;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};

/// The most bytes of the text.
pub(crate) const LONGEST: usize = 4096;
/// The most characters of a name.
const NAME: usize = 32;

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GuestDescription {
    /// One sentence for the operator.
    pub summary: String,
    options: Vec<Opt>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Opt {
    name: String,
    unit: Unit,
    default: String,
    least: u64,
    most: u64,
    doc: String,
}

/// True if the text is a valid name of a guest or an option: at most 32 of `a-z`, `0-9`, `-` and `_`, the first one a letter.
pub fn is_name(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    text.len() <= NAME && text.bytes().all(inside) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

impl GuestDescription {
    /// Parses the text. The error gives the reason.
    pub fn read(text: &str) -> Result<GuestDescription, String> {
        let mut declared = GuestDescription::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.chars().any(char::is_control) {
                return Err("a line of its description has control characters".into());
            }
            match line.split_once(' ') {
                Some(("summary", text)) => declared.summary = text.trim().into(),
                Some(("option", text)) => {
                    let option = option(text).map_err(|wrong| format!("'{line}' of its description: {wrong}"))?;
                    if declared.options.iter().any(|other| other.name == option.name) {
                        return Err(format!("its description has the option '{}' twice", option.name));
                    }
                    declared.options.push(option);
                }
                _ => return Err(format!("'{line}' of its description is neither a summary nor an option")),
            }
        }
        if declared.options.len() > OPTIONS {
            return Err(format!("its description has {} options; the limit is {OPTIONS}", declared.options.len()));
        }
        Ok(declared)
    }

    /// The same with one more option: a choice of `words`, the first one as the default.
    #[must_use]
    pub(crate) fn with_choice(mut self, name: &str, words: &'static [&'static str], doc: &str) -> GuestDescription {
        let (unit, most) = (Unit::Choice(words), words.len().saturating_sub(1) as u64);
        let default = words.first().copied().unwrap_or_default();
        self.options.push(Opt { name: name.into(), unit, default: default.into(), least: 0, most, doc: doc.into() });
        self
    }

    /// True if it has an option of this name.
    pub(crate) fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name == name)
    }

    /// The defaults of all options, in their order.
    pub fn defaults(&self) -> Vec<u64> {
        self.options.iter().map(|o| o.unit.read(&o.default).unwrap_or(o.least)).collect()
    }

    /// The declaration for the configuration, under `name`. Declared texts must be `'static`: each distinct text is leaked once and reused.
    pub fn declaration(&self, name: &str) -> Declaration {
        let option = |o: &Opt| OptionDeclaration {
            name: leak_once(&o.name),
            unit: o.unit,
            default: leak_once(&o.default),
            least: o.least,
            most: o.most,
            doc: leak_once(&o.doc),
        };
        static LISTS: Mutex<Vec<(GuestDescription, &'static [OptionDeclaration])>> = Mutex::new(Vec::new());
        let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lists.iter().find(|(declared, _)| declared == self).map(|(_, options)| *options);
        let options = known.unwrap_or_else(|| {
            let options: &'static [OptionDeclaration] = Vec::leak(self.options.iter().map(option).collect());
            lists.push((self.clone(), options));
            options
        });
        let (name, summary) = (leak_once(name), leak_once(&self.summary));
        Declaration { name, summary, source: "a guest", cost: DeclaredCost::None, options }
    }
}

fn option(text: &str) -> Result<Opt, String> {
    let words: Vec<&str> = text.splitn(6, ' ').collect();
    let [name, unit, default, least, most, doc] = words[..] else {
        return Err("write name, unit, default, least, most and a sentence".into());
    };
    if !is_name(name) {
        return Err(format!("'{name}' is no name: at most {NAME} of a-z, 0-9, - and _, the first one a letter"));
    }
    let unit = match unit {
        "count" => Unit::Count,
        "rate" => Unit::Rate,
        "time" => Unit::Time,
        "size" => Unit::Size,
        "part" => Unit::Part,
        "switch" => Unit::Choice(&["off", "on"]),
        other => {
            return Err(format!("'{other}' is no unit; use count, rate, time, size, part or switch"));
        }
    };
    let bound = |text: &str, none: u64| match text {
        "-" => Ok(none),
        number => number.parse().map_err(|_| format!("'{number}' is no bound; write a whole number, or '-'")),
    };
    let widest = if matches!(unit, Unit::Choice(_)) { 1 } else { u64::MAX };
    let (least, most) = (bound(least, 0)?, bound(most, widest)?.min(widest));
    let value = unit.read(default).map_err(|error| error.reason)?;
    if !(least..=most).contains(&value) {
        return Err(format!("the default {default} is not within {least} and {most}"));
    }
    Ok(Opt { name: name.into(), unit, default: default.into(), least, most, doc: doc.trim().into() })
}

/// Returns the same text with static lifetime. Each distinct text is leaked only once.
pub(crate) fn leak_once(text: &str) -> &'static str {
    static LEAKED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut all = LEAKED.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(text).copied().unwrap_or_else(|| {
        let text: &'static str = String::leak(text.into());
        all.insert(text);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_descriptions_are_leaked_only_once() {
        let text = "summary Drops.\n\noption limit count 10 1 - Packets.\noption wait time 5ms 0 9000000 A time.\n\
            option ecn switch on - - Mark.";
        let declared = GuestDescription::read(text).unwrap();
        assert_eq!(declared.defaults(), [10, 5_000_000, 1]);
        let (one, other) =
            (declared.declaration("guest:a"), GuestDescription::read(text).unwrap().declaration("guest:a"));
        assert_eq!((one.name, one.summary, one.options.len()), ("guest:a", "Drops.", 3));
        assert_eq!((one.options[0].least, one.options[0].most, one.options[1].most), (1, u64::MAX, 9_000_000));
        assert!(std::ptr::eq(one.name, other.name) && std::ptr::eq(one.options, other.options));
    }

    #[test]
    fn invalid_description_names_its_error() {
        for (text, wrong) in [
            ("hello", "'hello' of its description is neither a summary nor an option"),
            ("option a", "write name, unit, default, least, most and a sentence"),
            ("option A count 1 0 2 A.", "'A' is no name"),
            ("option a metre 1 0 2 A.", "'metre' is no unit"),
            ("option a count x 0 2 A.", "'x' is no whole number"),
            ("option a count 3 0 2 A.", "the default 3 is not within 0 and 2"),
            ("option a count 3 0 x A.", "'x' is no bound"),
            ("option a count 3 0 - A.\noption a count 3 0 - B.", "has the option 'a' twice"),
            ("summary \u{1b}[2J", "has control characters"),
        ] {
            let error = GuestDescription::read(text).unwrap_err();
            assert!(error.contains(wrong), "{text}: {error}");
        }
        let many: String = (0..17).map(|i| format!("option o{i} count 1 0 2 An option.\n")).collect();
        assert!(GuestDescription::read(&many).unwrap_err().contains("17 options; the limit is 16"));
    }
}
