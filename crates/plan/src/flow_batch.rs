//! Reservations of flows at run time, one change a line:
//!
//! ```text
//! add call7 rate 87200bit packet 218b delay 5ms match iif lan ip daddr 10.2.0.7 udp dport 5060
//! add video path media out wan in gold rate 8mbit packet 1200b burst 12kb lease 60s keep match ip saddr 10.1.0.9
//! renew video lease 60s
//! remove call7
//! ```
//!
//! The match is the rest of the line. A name with blanks or one of `#,;` is in double quotes. The lines are checked against the running plan; all errors
//! are reported at once, each with its line and column. Admission follows when the changes are made.

use crate::batch::connected_subnets;
use crate::diagnostic::{Diagnostics, Report, refuse_lines};
use crate::element::{LifetimeText, lifetime};
use crate::rule_batch::CheckedMatches;
use crate::section::path::filter::before_comment;
use crate::share::{ROOT_NAME, SHARE_RATES, ShareName};
use crate::text::{TextError, did_you_mean, quote};
use crate::words::{Word, Words};
use crate::{Match, Name, PathPlan, Plan};
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::RangeInclusive;
use units::{Bytes, Nanos, Rate};

/// The most lines of a batch.
const MOST_LINES: usize = 1_000_000;
/// The path of flows that name none.
const DEFAULT_PATH: &str = "reserved";
/// The packet sizes that a flow can have, with the Ethernet header.
const PACKETS: RangeInclusive<Bytes> = Bytes::new(60)..=Bytes::new(65_549);
/// The bursts that a flow can have.
const BURSTS: RangeInclusive<Bytes> = Bytes::new(60)..=Bytes::new(1 << 26);
/// The delay bounds that a flow can have.
const DELAYS: RangeInclusive<Nanos> = Nanos::micros(10)..=Nanos::secs(10);
/// Packets of the default burst.
const BURST_PACKETS: u64 = 2;

/// A flow with its reservation: long-term rate, burst, and delay bound (Panama, section 4.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReservedFlow {
    /// Its name, which is also that of its share of the output port.
    pub name: ShareName,
    /// The path whose functions process its packets.
    pub path: String,
    /// The output port; `None` for that of the route to its destination.
    pub port: Option<Name>,
    /// The share above its own; `None` for the port.
    pub parent: Option<ShareName>,
    /// Its long-term rate, in bits of frames without preamble, gap and check sequence.
    pub rate: Rate,
    /// The size of its packets, with the Ethernet header.
    pub packet: Bytes,
    /// The bytes that it may send at once.
    pub burst: Bytes,
    /// The longest delay of a packet through the router; `None`: no bound is asked for.
    pub delay: Option<Nanos>,
    /// The time after which the reservation ends, unless it is renewed; `None` if it stays.
    pub lease: Option<Nanos>,
    /// True if it survives a restart of the router.
    pub keep: bool,
    /// Its packets.
    pub matching: Match,
}

impl ReservedFlow {
    /// Packets a second at its rate, rounded up.
    pub fn packets(&self) -> u64 {
        self.rate.get().div_ceil(self.packet.get().saturating_mul(8).max(1))
    }

    /// The packets of its burst, rounded up.
    pub fn burst_packets(&self) -> u64 {
        self.burst.get().div_ceil(self.packet.get().max(1))
    }
}

impl fmt::Display for ReservedFlow {
    /// The line of a batch without `add`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if self.path != DEFAULT_PATH {
            write!(f, " path {}", self.path)?;
        }
        if let Some(port) = &self.port {
            write!(f, " out {port}")?;
        }
        if let Some(parent) = &self.parent {
            write!(f, " in {parent}")?;
        }
        write!(f, " rate {} packet {} burst {}", self.rate, self.packet, self.burst)?;
        if let Some(delay) = self.delay {
            write!(f, " delay {delay}")?;
        }
        if let Some(lease) = self.lease {
            write!(f, " lease {}", LifetimeText(lease))?;
        }
        if self.keep {
            f.write_str(" keep")?;
        }
        write!(f, " match {}", self.matching)
    }
}

impl Serialize for ReservedFlow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A change of the reserved flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FlowChange {
    /// Reserves a flow.
    Add(Box<ReservedFlow>),
    /// Begins the lease of a flow anew: the same time, or another one.
    Renew {
        /// Its name.
        name: ShareName,
        /// The new lease; `None` for the time it was given last.
        lease: Option<Nanos>,
    },
    /// Ends a reservation.
    Remove(ShareName),
}

/// Changes that are valid for a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowBatch<'s> {
    source: &'s str,
    file: String,
    /// The changes in order, each with its line, counted from 1.
    pub changes: Vec<(usize, FlowChange)>,
}

impl FlowBatch<'_> {
    /// Reports that the change at this position cannot be made.
    pub fn refuse(&self, position: usize, reason: String, hint: String) -> Diagnostics {
        let line = self.changes.get(position).map_or(1, |(line, _)| *line);
        refuse_lines(self.source, &self.file, [(line, reason, hint)])
    }
}

/// Parses changes of the reserved flows, one a line. `file` is the name of the text in messages.
///
/// # Errors
/// All lines that are wrong, or that name a path, a port or an interface that `plan` lacks.
pub fn flow_batch<'s>(source: &'s str, file: &str, plan: &Plan) -> Result<FlowBatch<'s>, Diagnostics> {
    let mut report = Report::new(source, file);
    let connected = connected_subnets(plan);
    let mut reader = FlowReader { plan, matches: CheckedMatches::new(&connected) };
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
        let text = before_comment(line).trim_end();
        if text.trim_start().is_empty() {
            continue;
        }
        match reader.change(text) {
            Ok(change) => changes.push((number + 1, change)),
            Err(error) => {
                let from = from + error.offset;
                report.error(from..from + error.length, "", || (error.reason, error.hint));
            }
        }
    }
    if report.failed() { Err(report.finish()) } else { Ok(FlowBatch { source, file: file.to_string(), changes }) }
}

struct FlowReader<'p> {
    plan: &'p Plan,
    matches: CheckedMatches<'p>,
}

const VERBS: [&str; 3] = ["add", "renew", "remove"];
const KEYWORDS: [&str; 10] = ["path", "out", "in", "rate", "packet", "burst", "delay", "lease", "keep", "match"];
const EXAMPLE: &str = "add call7 rate 87200bit packet 218b delay 5ms match ip daddr 10.2.0.7 udp dport 5060";

/// The options of `add` as far as they were read.
#[derive(Default)]
struct Options {
    path: Option<String>,
    port: Option<Name>,
    parent: Option<Option<ShareName>>,
    rate: Option<Rate>,
    packet: Option<Bytes>,
    burst: Option<Bytes>,
    delay: Option<Nanos>,
    lease: Option<Nanos>,
    keep: bool,
}

impl Options {
    fn has(&self, keyword: &str) -> bool {
        match keyword {
            "path" => self.path.is_some(),
            "out" => self.port.is_some(),
            "in" => self.parent.is_some(),
            "rate" => self.rate.is_some(),
            "packet" => self.packet.is_some(),
            "burst" => self.burst.is_some(),
            "delay" => self.delay.is_some(),
            "lease" => self.lease.is_some(),
            _ => self.keep,
        }
    }
}

impl<'p> FlowReader<'p> {
    fn change(&mut self, text: &str) -> Result<FlowChange, TextError> {
        let mut words = Words { text, at: 0 };
        let verb = words.needed("the change", EXAMPLE)?;
        match verb.text {
            _ if verb.is_quoted => Err(verb.wrong("the line begins with a name", format!("write '{EXAMPLE}'"))),
            "add" => self.add(words).map(|flow| FlowChange::Add(Box::new(flow))),
            "renew" => {
                let name = words.needed("the name of the flow", "renew call7")?.name()?;
                let lease = match words.next()? {
                    None => None,
                    Some(word) if word.is("lease") => Some(time(words.needed("the lease", "renew call7 lease 60s")?)?),
                    Some(word) => {
                        let hint = "write the new lease, or nothing: renew call7 lease 60s";
                        return Err(word.wrong(format!("unexpected {}", quote(word.text)), hint));
                    }
                };
                words.end()?;
                Ok(FlowChange::Renew { name, lease })
            }
            "remove" => {
                let name = words.needed("the name of the flow", "remove call7")?.name()?;
                words.end()?;
                Ok(FlowChange::Remove(name))
            }
            other => {
                let hint = did_you_mean(other, VERBS);
                Err(verb.wrong(format!("{} is no change of reservations", quote(other)), hint))
            }
        }
    }

    fn add(&mut self, mut words: Words<'_>) -> Result<ReservedFlow, TextError> {
        let name = words.needed("the name of the flow", EXAMPLE)?.name()?;
        let mut options = Options::default();
        let matching = loop {
            let Some(word) = words.next()? else {
                let text = words.text;
                let hint = format!("end the line with the packets of the flow, as in '{EXAMPLE}'");
                return Err(TextError { offset: text.len(), length: 0, reason: "the match is missing".into(), hint });
            };
            if word.is_quoted || !KEYWORDS.contains(&word.text) {
                let hint = did_you_mean(word.text, KEYWORDS);
                return Err(word.wrong(format!("a reservation has no option {}", quote(word.text)), hint));
            }
            if word.text == "match" {
                break self.matching(&words)?;
            }
            if options.has(word.text) {
                return Err(word.wrong(format!("'{}' is given twice", word.text), "keep one of them"));
            }
            self.option(word.text, &mut words, &mut options)?;
        };
        let missing = |what: &str, hint: &str| TextError::whole(words.text, format!("the {what} is missing"), hint);
        let rate = options.rate.ok_or_else(|| missing("rate", "add the long-term rate: rate 10mbit"))?;
        let packet = options.packet.ok_or_else(|| {
            missing("packet size", "the processor's work depends on it: packet 218b, with the Ethernet header")
        })?;
        let path = match options.path {
            Some(path) => path,
            None => self.path_of(DEFAULT_PATH).map(|path| path.name.clone()).ok_or_else(|| self.no_path(words.text))?,
        };
        let burst = options.burst.unwrap_or(Bytes::new(packet.get() * BURST_PACKETS)).max(packet);
        Ok(ReservedFlow {
            name,
            path,
            port: options.port,
            parent: options.parent.flatten(),
            rate,
            packet,
            burst,
            delay: options.delay,
            lease: options.lease,
            keep: options.keep,
            matching,
        })
    }

    fn option(&self, keyword: &str, words: &mut Words<'_>, options: &mut Options) -> Result<(), TextError> {
        if keyword == "keep" {
            options.keep = true;
            return Ok(());
        }
        let value = words.needed(&format!("the value of '{keyword}'"), EXAMPLE)?;
        match keyword {
            "path" => options.path = Some(self.path(value)?),
            "out" => options.port = Some(self.port(value)?),
            "in" if value.is(ROOT_NAME) => options.parent = Some(None),
            "in" => options.parent = Some(Some(value.name()?)),
            "rate" => options.rate = Some(value.quantity(SHARE_RATES)?),
            "packet" => options.packet = Some(value.quantity(PACKETS)?),
            "burst" => options.burst = Some(value.quantity(BURSTS)?),
            "delay" => options.delay = Some(value.quantity(DELAYS)?),
            _ => options.lease = Some(time(value)?),
        }
        Ok(())
    }

    /// The rest of the line as a match.
    fn matching(&mut self, words: &Words<'_>) -> Result<Match, TextError> {
        let rest = words.text[words.at..].trim_start();
        let offset = words.text.len() - rest.len();
        let matching = self.matches.parse(rest);
        matching.map_err(|error| TextError { offset: error.offset + offset, ..error })
    }

    fn path_of(&self, name: &str) -> Option<&'p PathPlan> {
        self.plan.paths.iter().find(|path| path.name == name && path.cpu.reservations)
    }

    fn path(&self, word: Word<'_>) -> Result<String, TextError> {
        if let Some(path) = self.path_of(word.text) {
            return Ok(path.name.clone());
        }
        if self.plan.paths.iter().any(|path| path.name == word.text) {
            let reason = format!("no flows can be reserved on the path {}", quote(word.text));
            return Err(word.wrong(reason, "give it reservations = true in the configuration"));
        }
        let known = self.plan.paths.iter().filter(|path| path.cpu.reservations).map(|path| path.name.as_str());
        Err(word.wrong(format!("there is no path {}", quote(word.text)), did_you_mean(word.text, known)))
    }

    /// The error of a flow that names no path, if there is no default one.
    fn no_path(&self, text: &str) -> TextError {
        let named: Vec<&str> =
            self.plan.paths.iter().filter(|path| path.cpu.reservations).map(|path| path.name.as_str()).collect();
        let hint = match named.is_empty() {
            true => {
                "add one to the configuration: [[path]] with name = \"reserved\" and reservations = true".to_string()
            }
            false => format!("write 'path' with one of: {}", named.join(", ")),
        };
        TextError::whole(text, "there is no path 'reserved' for flows", hint)
    }

    fn port(&self, word: Word<'_>) -> Result<Name, TextError> {
        let known = || self.plan.ports.iter().map(|port| &*port.name);
        let found = self.plan.ports.iter().find(|port| *port.name == *word.text);
        found.map(|port| port.name.clone()).ok_or_else(|| {
            word.wrong(format!("there is no port {}", quote(word.text)), did_you_mean(word.text, known()))
        })
    }
}

fn time(word: Word<'_>) -> Result<Nanos, TextError> {
    lifetime(word.text).map_err(|error| word.wrong(error.reason, error.hint))
}
