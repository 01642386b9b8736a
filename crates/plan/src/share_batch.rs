//! Changes of a port's shares at run time, one per line:
//!
//! ```text
//! add north ceiling 1gbit
//! add "Doe, Jane" in north rate 10mbit lease 60s
//! set "Doe, Jane" ceiling none
//! move "Doe, Jane" in root
//! remove north all
//! ```
//!
//! A name with blanks or one of `#,;` is in double quotes. Options follow in any order, each once. The configuration and its files write a share as
//! such a line without `add`, and without a lease. All errors are reported at once, each with its line and column. [`crate::ShareTree`] checks the
//! changes against the present shares.

use crate::diagnostic::{Diagnostics, Report, refuse_lines};
use crate::element::{LifetimeText, lifetime};
use crate::share::{
    ROOT_NAME, SHARE_BURSTS, SHARE_DELAYS, SHARE_PRIORITIES, SHARE_RATES, SHARE_WEIGHTS, ShareName, ShareSettings,
};
use crate::text::{TextError, did_you_mean, quote};
use crate::words::{Word, Words};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use units::Nanos;

/// The most lines of a batch.
const MOST_LINES: usize = 2_000_000;

/// A change of a share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShareChange {
    /// Adds a share.
    Add {
        /// Its name.
        name: ShareName,
        /// The share above it; `None` for the port.
        parent: Option<ShareName>,
        /// Its settings.
        settings: ShareSettings,
        /// The time after which it is removed, unless `set` renews it; `None` if it stays.
        lease: Option<Nanos>,
    },
    /// Changes settings of a share. The settings that are `None` here stay.
    Set {
        /// Its name.
        name: ShareName,
        /// The new settings.
        settings: ShareSettings,
        /// True if it loses its ceiling.
        no_ceiling: bool,
        /// The new lease, `Some(None)` for no lease; `None` if it stays.
        lease: Option<Option<Nanos>>,
    },
    /// Moves a share with all below it.
    Move {
        /// Its name.
        name: ShareName,
        /// The new share above it; `None` for the port.
        parent: Option<ShareName>,
    },
    /// Removes a share.
    Remove {
        /// Its name.
        name: ShareName,
        /// True if all shares below it are removed too. Otherwise it must have none.
        all: bool,
    },
}

impl ShareChange {
    /// The share that it changes.
    pub fn name(&self) -> &ShareName {
        match self {
            ShareChange::Add { name, .. }
            | ShareChange::Set { name, .. }
            | ShareChange::Move { name, .. }
            | ShareChange::Remove { name, .. } => name,
        }
    }

    /// Parses a line of the configuration: that of `add`, without the word and without a lease.
    pub fn configured(text: &str) -> Result<ShareChange, TextError> {
        Words { text, at: 0 }.add(&CONFIGURED)
    }
}

impl FromStr for ShareChange {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Words { text, at: 0 }.change()
    }
}

impl fmt::Display for ShareChange {
    /// The line that parses back as this change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareChange::Add { .. } => write!(f, "add {}", ConfiguredShare(self)),
            ShareChange::Set { name, settings, no_ceiling, lease } => {
                write!(f, "set {name}{settings}{}", if *no_ceiling { " ceiling none" } else { "" })?;
                match lease {
                    Some(Some(lease)) => write!(f, " lease {}", LifetimeText(*lease)),
                    Some(None) => f.write_str(" lease none"),
                    None => Ok(()),
                }
            }
            ShareChange::Move { name, parent: Some(parent) } => write!(f, "move {name} in {parent}"),
            ShareChange::Move { name, parent: None } => write!(f, "move {name} in {ROOT_NAME}"),
            ShareChange::Remove { name, all } => write!(f, "remove {name}{}", if *all { " all" } else { "" }),
        }
    }
}

impl Serialize for ShareChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A new share as the configuration writes it: without the word `add`. Other changes print as they are.
pub(crate) struct ConfiguredShare<'c>(pub &'c ShareChange);

impl fmt::Display for ConfiguredShare<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShareChange::Add { name, parent, settings, lease } = self.0 else { return self.0.fmt(f) };
        name.fmt(f)?;
        if let Some(parent) = parent {
            write!(f, " in {parent}")?;
        }
        settings.fmt(f)?;
        lease.map_or(Ok(()), |lease| write!(f, " lease {}", LifetimeText(lease)))
    }
}

/// Changes of the shares of one port, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareBatch<'s> {
    source: &'s str,
    file: String,
    /// The changes in order, each with its line, counted from 1.
    pub changes: Vec<(usize, ShareChange)>,
}

impl ShareBatch<'_> {
    /// Reports that the change at this position cannot be made.
    pub fn refuse(&self, position: usize, reason: String, hint: String) -> Diagnostics {
        let line = self.changes.get(position).map_or(1, |(line, _)| *line);
        refuse_lines(self.source, &self.file, [(line, reason, hint)])
    }
}

/// Parses changes of a port's shares, one a line. `file` is the name of the text in messages.
pub fn share_batch<'s>(source: &'s str, file: &str) -> Result<ShareBatch<'s>, Diagnostics> {
    lines(source, file, |words| words.change())
}

/// Parses a file of shares, one a line, as `share_file` of a port names it: lines of `add` without the word, and without leases. `file` is the name
/// of the text in messages.
pub fn share_file<'s>(source: &'s str, file: &str) -> Result<ShareBatch<'s>, Diagnostics> {
    lines(source, file, |words| words.add(&CONFIGURED))
}

fn lines<'s>(
    source: &'s str,
    file: &str,
    read: impl Fn(&mut Words<'s>) -> Result<ShareChange, TextError>,
) -> Result<ShareBatch<'s>, Diagnostics> {
    let mut report = Report::new(source, file);
    let mut changes = Vec::new();
    let mut start = 0;
    for (number, line) in source.split_inclusive('\n').enumerate() {
        let from = start;
        start += line.len();
        if number == MOST_LINES {
            let reason = format!("there are more than {MOST_LINES} lines");
            report.error(from..from, "", || (reason, "send them in several batches".to_string()));
            break;
        }
        let mut words = Words { text: line.trim_end(), at: 0 };
        match words.is_blank() {
            true => {}
            false => match read(&mut words) {
                Ok(change) => changes.push((number + 1, change)),
                Err(error) => {
                    let from = from + error.offset;
                    report.error(from..from + error.length, "", || (error.reason, error.hint));
                }
            },
        }
    }
    if report.failed() { Err(report.finish()) } else { Ok(ShareBatch { source, file: file.to_string(), changes }) }
}

const VERBS: [&str; 4] = ["add", "set", "move", "remove"];
const ADDED: [&str; 9] = ["in", "rate", "ceiling", "weight", "burst", "delay", "priority", "queue", "lease"];
const CONFIGURED: [&str; 8] = ["in", "rate", "ceiling", "weight", "burst", "delay", "priority", "queue"];
const CHANGED: [&str; 8] = ["rate", "ceiling", "weight", "burst", "delay", "priority", "queue", "lease"];
const EXAMPLE: &str = "add gold in north rate 10mbit ceiling 100mbit";

/// The options of a line as far as they were read.
#[derive(Default)]
struct Options {
    parent: Option<Option<ShareName>>,
    settings: ShareSettings,
    no_ceiling: bool,
    lease: Option<Option<Nanos>>,
}

impl Options {
    fn is_empty(&self) -> bool {
        self.settings == ShareSettings::default() && !self.no_ceiling && self.lease.is_none()
    }

    fn has(&self, keyword: &str) -> bool {
        match keyword {
            "in" => self.parent.is_some(),
            "rate" => self.settings.rate.is_some(),
            "ceiling" => self.settings.ceiling.is_some() || self.no_ceiling,
            "weight" => self.settings.weight.is_some(),
            "burst" => self.settings.burst.is_some(),
            "delay" => self.settings.delay.is_some(),
            "priority" => self.settings.priority.is_some(),
            "queue" => self.settings.queue.is_some(),
            _ => self.lease.is_some(),
        }
    }
}

impl Words<'_> {
    fn change(&mut self) -> Result<ShareChange, TextError> {
        let verb = self.needed("the change", EXAMPLE)?;
        match verb.text {
            _ if verb.is_quoted => Err(verb.wrong("the line begins with a name", format!("write '{EXAMPLE}'"))),
            "add" => self.add(&ADDED),
            "set" => {
                let name = self.needed("the name of the share", "set gold ceiling 50mbit")?.name()?;
                let options = self.options(&CHANGED, true)?;
                if options.is_empty() {
                    let hint = format!("write one of {}, as in 'set gold ceiling 50mbit'", CHANGED.join(", "));
                    return Err(TextError::whole(self.text, "the line changes nothing", hint));
                }
                let Options { settings, no_ceiling, lease, .. } = options;
                Ok(ShareChange::Set { name, settings, no_ceiling, lease })
            }
            "move" => {
                const EXAMPLE: &str = "move gold in north";
                let name = self.needed("the name of the share", EXAMPLE)?.name()?;
                let word = self.needed("'in' with the new parent", EXAMPLE)?;
                if !word.is("in") {
                    return Err(word.wrong(format!("unexpected {}", quote(word.text)), format!("write '{EXAMPLE}'")));
                }
                let parent = self.parent()?;
                self.end()?;
                Ok(ShareChange::Move { name, parent })
            }
            "remove" => {
                let name = self.needed("the name of the share", "remove gold")?.name()?;
                let all = match self.next()? {
                    None => false,
                    Some(word) if word.is("all") => true,
                    Some(word) => {
                        let hint = "write one share a line; 'all' behind it removes the shares below it too";
                        return Err(word.wrong(format!("{} follows the name", quote(word.text)), hint));
                    }
                };
                self.end()?;
                Ok(ShareChange::Remove { name, all })
            }
            other => Err(verb.wrong(format!("{} is no change of shares", quote(other)), did_you_mean(other, VERBS))),
        }
    }

    /// A new share. `keywords` are the options that it may have.
    fn add(&mut self, keywords: &[&str]) -> Result<ShareChange, TextError> {
        let name = self.needed("the name of the share", EXAMPLE)?.name()?;
        let Options { parent, settings, lease, .. } = self.options(keywords, false)?;
        Ok(ShareChange::Add { name, parent: parent.flatten(), settings, lease: lease.flatten() })
    }

    /// A share, or `root` for the port.
    fn parent(&mut self) -> Result<Option<ShareName>, TextError> {
        let word = self.needed("the share after 'in'", "move gold in north")?;
        if word.is(ROOT_NAME) { Ok(None) } else { word.name().map(Some) }
    }

    /// All options to the end of the line. `none` is a value only if `removes`.
    fn options(&mut self, keywords: &[&str], removes: bool) -> Result<Options, TextError> {
        let mut options = Options::default();
        while let Some(word) = self.next()? {
            if word.is_quoted || !keywords.contains(&word.text) {
                return Err(self.unknown_option(word, keywords));
            }
            if options.has(word.text) {
                return Err(word.wrong(format!("'{}' is given twice", word.text), "keep one of them"));
            }
            if word.text == "in" {
                options.parent = Some(self.parent()?);
                continue;
            }
            let value = self.needed(&format!("the value of '{}'", word.text), EXAMPLE)?;
            let settings = &mut options.settings;
            match word.text {
                "rate" => settings.rate = Some(value.quantity(SHARE_RATES)?),
                "ceiling" if removes && value.is("none") => options.no_ceiling = true,
                "ceiling" => settings.ceiling = Some(value.quantity(SHARE_RATES)?),
                "weight" => settings.weight = Some(value.number(SHARE_WEIGHTS, "weight")?),
                "burst" => settings.burst = Some(value.quantity(SHARE_BURSTS)?),
                "delay" if removes && value.is("none") => settings.delay = Some(Nanos::ZERO),
                "delay" => settings.delay = Some(value.quantity(SHARE_DELAYS)?),
                "priority" => settings.priority = Some(value.number(SHARE_PRIORITIES, "priority")?),
                "queue" => settings.queue = Some(value.quantity(SHARE_BURSTS)?),
                _ if removes && value.is("none") => options.lease = Some(None),
                _ => {
                    let wrong = |error: TextError| value.wrong(error.reason, error.hint);
                    options.lease = Some(Some(lifetime(value.text).map_err(wrong)?));
                }
            }
        }
        Ok(options)
    }

    fn unknown_option(&self, word: Word<'_>, keywords: &[&str]) -> TextError {
        let hint = match word.text {
            "lease" => "remove it: a share of the configuration stays".to_string(),
            "in" => "write 'move NAME in PARENT' in a line of its own".to_string(),
            "ceil" => "write 'ceiling'".to_string(),
            "prio" => "write 'priority'".to_string(),
            text => did_you_mean(text, keywords.iter().copied()),
        };
        word.wrong(format!("a share has no option {} here", quote(word.text)), hint)
    }
}
