//! Conformance: recorded arrivals, and the expected decision for each. A recording uses only the wires, so the same recording tests a built-in
//! scheme, a guest, or hardware (spec N-30).
//!
//! Arrivals and decisions are separate texts, because many schemes share the same arrivals. docs/internals/conformance.md describes both. Their version changes
//! whenever a text of the present version could no longer be read, or would have another meaning.

use crate::model::{Model, ModelFate};
use crate::{Record, Scheme};
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt::{self, Write};
use units::{Instant, Nanos, Rate};

/// The version of both texts.
pub const VERSION: u32 = 1;

/// The number of words in a line of decisions.
const WORDS: usize = 32;

/// An event at a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkEvent {
    /// `Arrival`: a packet arrives. Its timestamp is the time of the event.
    Arrival(Record),
    /// `LinkReady`: the link has room for so many packets. The signal ends when it has them, or the scheme has nothing to send.
    Ready(usize),
    /// `LinkRates`: the new rate of the link.
    RateChange(Rate),
}

/// The decisions at one event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decisions {
    /// In the order of the decisions.
    pub fates: Vec<ModelFate>,
    /// Packets that were marked.
    pub marked: Vec<usize>,
}

/// Events in order of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrivals(Vec<(Instant, LinkEvent)>);

/// The expected decisions of a scheme.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// The name of the arrivals.
    pub arrivals: String,
    /// The scheme, in the syntax of a configuration.
    pub scheme: String,
    /// Its decisions: one word for each event.
    pub decisions: Vec<String>,
}

/// A syntax error in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordingSyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for RecordingSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl core::error::Error for RecordingSyntaxError {}

/// The first decision that differs from the expected one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecisionDifference {
    /// The event, from 0.
    pub event: usize,
    /// The event and its time.
    pub description: String,
    /// The expected word; none if no further event was expected.
    pub expected: Option<String>,
    /// The actual word; none if there were no further decisions.
    pub found: Option<String>,
}

impl fmt::Display for DecisionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |word: &Option<String>| word.as_ref().map_or("nothing".to_string(), |word| format!("'{word}'"));
        let (expected, found) = (word(&self.expected), word(&self.found));
        write!(f, "event {}, {}: expected {expected}, found {found}", self.event, self.description)
    }
}

/// The lines with content, after the first line, which is the title.
fn lines<'t>(text: &'t str, what: &str) -> Result<Vec<(usize, &'t str)>, RecordingSyntaxError> {
    let title = format!("switchpath {what} {VERSION}");
    if text.lines().next().map(str::trim_end) != Some(&title) {
        return Err(RecordingSyntaxError { line: 1, reason: format!("it does not begin with '{title}'") });
    }
    // Comments and blank lines count, so that the numbers are those of an editor.
    let lines = text.lines().enumerate().skip(1).map(|(place, line)| (place + 1, line.trim()));
    Ok(lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect())
}

/// The words of a line.
struct Words<'t> {
    line: usize,
    words: core::str::SplitWhitespace<'t>,
}

impl<'t> Words<'t> {
    fn syntax_error(&self, reason: impl Into<String>) -> RecordingSyntaxError {
        RecordingSyntaxError { line: self.line, reason: reason.into() }
    }

    fn next(&mut self, what: &str) -> Result<&'t str, RecordingSyntaxError> {
        self.words.next().ok_or_else(|| self.syntax_error(format!("it lacks {what}")))
    }

    /// A number below `end`.
    fn number(&mut self, what: &str, radix: u32, end: u64) -> Result<u64, RecordingSyntaxError> {
        let word = self.next(what)?;
        let number = u64::from_str_radix(word, radix).ok().filter(|number| *number < end);
        number.ok_or_else(|| self.syntax_error(format!("'{word}' is no {what}")))
    }

    /// A number below `end`, or zero at the end of the line.
    fn number_or_zero(&mut self, what: &str, end: u64) -> Result<u64, RecordingSyntaxError> {
        // The clone reads ahead without consuming the word.
        if self.words.clone().next().is_none() { Ok(0) } else { self.number(what, 10, end) }
    }

    fn end(mut self) -> Result<(), RecordingSyntaxError> {
        self.words.next().map_or(Ok(()), |word| Err(self.syntax_error(format!("'{word}' is too much"))))
    }
}

impl Arrivals {
    /// Parses the text of arrivals.
    ///
    /// # Errors
    ///
    /// The first line that cannot be read, and the reason.
    pub fn read(text: &str) -> Result<Arrivals, RecordingSyntaxError> {
        // Flow 0 has no hashes: a line of an arrival may omit its flow.
        let (mut now, mut flows, mut events) = (Instant::START, vec![Record::default()], Vec::new());
        for (line, words) in lines(text, "arrivals")? {
            let mut words = Words { line, words: words.split_whitespace() };
            if words.words.clone().next() == Some("flow") {
                words.next("flow")?;
                if words.number("number of a flow", 10, 1 << 16)? != flows.len() as u64 {
                    return Err(words.syntax_error("flows are numbered from 1, one after the other"));
                }
                let mut hash = || words.number("hash", 16, 1 << 32).map(|hash| hash as u32);
                let (flow_hash, source, destination) = (hash()?, hash()?, hash()?);
                flows.push(Record { flow_hash, source, destination, ..Record::default() });
            } else {
                // Times are relative to the previous event, which keeps the text short.
                now += Nanos::new(words.number("time", 10, 1 << 62)?);
                let event = match words.next("event")? {
                    "a" => LinkEvent::Arrival(Record { timestamp: now, ..Arrivals::packet(&mut words, &flows)? }),
                    "r" => LinkEvent::Ready(words.number("number of packets", 10, 1 << 32)? as usize),
                    "l" => LinkEvent::RateChange(Rate::bits(words.number("rate", 10, 1 << 62)?)),
                    other => return Err(words.syntax_error(format!("'{other}' is no event"))),
                };
                events.push((now, event));
            }
            words.end()?;
        }
        Ok(Arrivals(events))
    }

    fn packet(words: &mut Words<'_>, flows: &[Record]) -> Result<Record, RecordingSyntaxError> {
        let length = words.number("length", 10, 1 << 32)? as u32;
        let flow = words.number_or_zero("flow that was named before", flows.len() as u64)? as usize;
        let class = words.number_or_zero("class", 256)? as u8;
        let ecn = words.number_or_zero("ECN field", 4)? as u8;
        let dscp = words.number_or_zero("code point", 64)? as u8;
        Ok(Record { length, class, ecn, dscp, ..flows[flow] })
    }

    /// All events in order.
    pub fn events(&self) -> &[(Instant, LinkEvent)] {
        &self.0
    }

    /// Plays the events over a scheme. Returns its decisions, one word for each event.
    pub fn play(&self, scheme: &mut (impl Scheme<Model> + ?Sized)) -> Vec<String> {
        let mut model = Model::with_queues(scheme.queues() as usize);
        self.play_over(|now, event| {
            model.now = now;
            match event {
                LinkEvent::Arrival(record) => model.arrive_all(scheme, core::iter::once(record)),
                LinkEvent::Ready(room) => model.ready(scheme, room),
                LinkEvent::RateChange(rate) => model.rate = rate,
            }
            Decisions { fates: core::mem::take(&mut model.fates), marked: core::mem::take(&mut model.marked) }
        })
    }

    /// Plays the events over any link. `decide` receives each event and returns the decisions. Packets are numbered from zero in order of arrival.
    /// Returns one word for each event.
    pub fn play_over(&self, mut decide: impl FnMut(Instant, LinkEvent) -> Decisions) -> Vec<String> {
        let (mut waiting, mut count) = (BTreeSet::new(), 0);
        let play = |&(now, event): &(Instant, LinkEvent)| {
            let came = matches!(event, LinkEvent::Arrival(_)).then_some(count);
            count += usize::from(came.is_some());
            let Decisions { fates, marked } = decide(now, event);
            decision_word(came, &fates, &marked, &mut waiting)
        };
        self.0.iter().map(play).collect()
    }

    /// Compares the decisions with the expected ones.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn compare(&self, expected: &[String], found: &[String]) -> Result<(), DecisionDifference> {
        // A missing or surplus word is a difference too.
        let longest = self.0.len().max(expected.len()).max(found.len());
        for event in 0..longest {
            let (expected, found) = (expected.get(event), found.get(event));
            // Both may lack the word of an event that the arrivals have.
            if expected != found || expected.is_none() {
                let (expected, found) = (expected.cloned(), found.cloned());
                return Err(DecisionDifference { event, description: self.describe_event(event), expected, found });
            }
        }
        Ok(())
    }

    /// Describes an event.
    fn describe_event(&self, event: usize) -> String {
        let Some((now, what)) = self.0.get(event) else { return "behind the last".to_string() };
        let at = format!("at {}.{:06} ms, ", now.get() / 1_000_000, now.get() % 1_000_000);
        at + &match what {
            LinkEvent::Arrival(record) => {
                let before = self.0[..event].iter().filter(|(_, event)| matches!(event, LinkEvent::Arrival(_))).count();
                format!("packet {before} of {} bytes and class {} comes", record.length, record.class)
            }
            LinkEvent::Ready(room) => format!("the link takes {room}"),
            LinkEvent::RateChange(rate) => format!("the link carries {} bit/s from now on", rate.get()),
        }
    }
}

/// The decisions at one event as a word. `waiting` is updated to the packets that wait afterwards.
fn decision_word(came: Option<usize>, fates: &[ModelFate], marked: &[usize], waiting: &mut BTreeSet<usize>) -> String {
    let mut word = String::new();
    let mut named = |sign: char, number: usize, usual: Option<usize>| {
        word.push(sign);
        // The expected packet needs no number, which keeps recordings short.
        if Some(number) != usual {
            // Writing to a string cannot fail.
            let _ = write!(word, "{number}");
        }
    };
    // Added first: the scheme may mark, send or drop the packet at the same event.
    waiting.extend(came);
    for number in marked {
        named('*', *number, came.or(waiting.first().copied()));
    }
    for fate in fates {
        let (sign, number) = match *fate {
            ModelFate::Sent(number) => ('>', number),
            ModelFate::Dropped(number) => ('!', number),
            ModelFate::Refused(_) => continue,
        };
        named(sign, number, waiting.first().copied());
        waiting.remove(&number);
    }
    if let Some(came) = came {
        let refused = fates.contains(&ModelFate::Refused(came));
        word.push(if refused { '-' } else { '+' });
        if refused {
            waiting.remove(&came);
        }
    }
    if word.is_empty() { ".".to_string() } else { word }
}

impl Recording {
    /// Parses the text of a recording.
    ///
    /// # Errors
    ///
    /// The first line that cannot be read, and the reason.
    pub fn read(text: &str) -> Result<Recording, RecordingSyntaxError> {
        let mut recording = Recording { arrivals: String::new(), scheme: String::new(), decisions: Vec::new() };
        for (line, text) in lines(text, "decisions")? {
            match text.split_once(' ') {
                Some(("arrivals", name)) => recording.arrivals = name.to_string(),
                Some(("scheme", scheme)) => recording.scheme = scheme.to_string(),
                // The number of the first event of a line detects lost lines.
                Some((number, words)) if number.strip_suffix(':') == Some(&recording.decisions.len().to_string()) => {
                    recording.decisions.extend(words.split_whitespace().map(str::to_string));
                }
                _ => {
                    let next = recording.decisions.len();
                    let reason = format!("it is neither 'arrivals', 'scheme' nor what is decided from event {next} on");
                    return Err(RecordingSyntaxError { line, reason });
                }
            }
        }
        if recording.arrivals.is_empty() || recording.scheme.is_empty() {
            return Err(RecordingSyntaxError {
                line: 1,
                reason: "it does not say of what 'arrivals' and 'scheme' it is".to_string(),
            });
        }
        Ok(recording)
    }

    /// The text of the recording.
    pub fn write(&self) -> String {
        let mut text = format!("switchpath decisions {VERSION}\narrivals {}\nscheme {}\n", self.arrivals, self.scheme);
        for (place, words) in self.decisions.chunks(WORDS).enumerate() {
            text += &format!("{}: {}\n", place * WORDS, words.join(" "));
        }
        text
    }
}

#[cfg(test)]
mod tests;
