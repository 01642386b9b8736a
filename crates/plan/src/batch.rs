//! Changes of routes and neighbours at run time, one per line:
//!
//! ```text
//! add 10.0.0.0/8 via 192.0.2.1
//! add 10.1.0.0/16 via 192.0.2.1 weight 2 via 192.0.2.2 port lan
//! add vrf red ::/0 via fe80::1 port wan leak
//! add 10.2.0.0/16 blackhole
//! del 10.0.0.0/8
//! flush
//! neighbour add 192.0.2.9 mac 02:00:00:00:00:09 port lan
//! neighbour del 192.0.2.9 port lan
//! # a comment
//! ```
//!
//! The lines are checked against the running plan, as `[[route]]` and `[[neighbour]]` are checked against the rest of their file. All errors are
//! reported at once, each with its line.

use crate::connected::{Connected, MAIN, VrfIndex, address, mac};
use crate::diagnostic::{Diagnostics, Report, refuse_lines};
use crate::document::{Path, Text};
use crate::section::route::destination;
use crate::section::route::hop::{self, NextHopContext};
use crate::text::{did_you_mean, quote};
use crate::{Name, NeighbourPlan, Plan, Prefix, RouteAction, RoutePlan};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;

/// Limit of lines in a batch.
pub const MOST_LINES: usize = 4_000_000;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// Adds a route, or replaces the one to the same destination that an earlier edit added.
    AddRoute(RoutePlan),
    /// Deletes the route to a destination that an edit added.
    DelRoute(Option<Name>, Prefix),
    /// Deletes all routes that edits added to a VRF, or to all VRFs.
    Flush(Option<Option<Name>>),
    /// Adds a neighbour, or changes its MAC address.
    AddNeighbour(NeighbourPlan),
    /// Deletes a neighbour by its interface and address.
    DelNeighbour(Name, IpAddr),
}

/// A change with its line number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchLine {
    /// The line, counted from 1.
    pub line: usize,
    /// The change.
    pub edit: Edit,
}

/// Changes that are valid for a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeBatch<'s> {
    source: &'s str,
    file: String,
    /// The changes in order, without blank lines and comments.
    pub lines: Vec<BatchLine>,
}

impl ChangeBatch<'_> {
    /// Reports errors in lines that appear only when the changes are made: the line number, reason and hint of each.
    pub fn refuse(&self, wrong: impl IntoIterator<Item = (usize, String, String)>) -> Diagnostics {
        refuse_lines(self.source, &self.file, wrong)
    }
}

/// Parses `source`, called `file` in messages, and checks it against the running plan.
pub fn batch<'s>(source: &'s str, file: &str, plan: &Plan) -> Result<ChangeBatch<'s>, Diagnostics> {
    let mut reader =
        Reader { report: Report::new(source, file), connected: connected_subnets(plan), known: HashMap::new(), source };
    let mut lines = Vec::new();
    let mut start = 0;
    for (number, line) in source.split_inclusive('\n').enumerate() {
        let place = start..start + line.len();
        start = place.end;
        if number == MOST_LINES {
            reader.report.error(place, "", || {
                (format!("there are more than {MOST_LINES} lines"), "send them in several batches".to_string())
            });
            break;
        }
        let text = line.split_once('#').map_or(line, |(before, _)| before);
        if text.bytes().all(|byte| byte.is_ascii_whitespace()) {
            continue;
        }
        if let Some(edit) = reader.line(text, place.start) {
            lines.push(BatchLine { line: number + 1, edit });
        }
    }
    if reader.report.failed() {
        Err(reader.report.finish())
    } else {
        Ok(ChangeBatch { source, file: file.to_string(), lines })
    }
}

/// The connected subnets and the sets of a checked plan.
pub(crate) fn connected_subnets(plan: &Plan) -> Connected {
    let mut connected = Connected::default();
    // The plan has been checked, so this report stays empty.
    let mut report = Report::new("", "");
    let text = Text { value: "", span: 0..0, path: Path::Root(&[]) };
    for (_, interface) in plan.interfaces() {
        let vrf = interface.vrf.as_ref().map_or(MAIN, |name| connected.add_vrf(name));
        let index = connected.add_interface(interface.name.clone(), vrf);
        interface.addresses.iter().for_each(|&prefix| connected.add_address(&mut report, prefix, index, &text));
    }
    connected.index_subnets(&mut report);
    connected.sets = plan.sets.iter().map(|set| (set.name.clone(), set.kind)).collect();
    connected
}

struct Reader<'s> {
    source: &'s str,
    report: Report<'s>,
    connected: Connected,
    /// Cache of parsed next hops: a million routes have few.
    known: HashMap<(&'s str, VrfIndex, bool), Option<RouteAction>>,
}

/// The words of a line that have not been read.
struct Words<'s> {
    source: &'s str,
    rest: std::str::SplitAsciiWhitespace<'s>,
    /// The span of the line, for errors at its end.
    line: Range<usize>,
}

impl<'s> Words<'s> {
    fn next(&mut self) -> Option<Text<'s>> {
        let word = self.rest.next()?;
        Some(self.text(word))
    }

    fn text(&self, part: &'s str) -> Text<'s> {
        let start = part.as_ptr().addr() - self.source.as_ptr().addr();
        Text { value: part, span: start..start + part.len(), path: Path::Root(&[]) }
    }

    fn next_or_report(&mut self, report: &mut Report<'_>, what: &str, example: &str) -> Option<Text<'s>> {
        let next = self.next();
        if next.is_none() {
            let end = self.line.end;
            report.error(end..end, "", || (format!("{what} is missing"), format!("write it, as in '{example}'")));
        }
        next
    }

    /// True if the address after the next `via` is IPv6.
    fn has_ipv6_gateway(&self) -> bool {
        self.rest.clone().skip_while(|word| *word != "via").nth(1).is_some_and(|address| address.contains(':'))
    }

    /// Checks that no words are left.
    fn end(&mut self, report: &mut Report<'_>) -> Option<()> {
        let Some(text) = self.next() else { return Some(()) };
        text.error(report, || (format!("unexpected {}", quote(text.value)), "remove it".to_string()));
        None
    }
}

impl<'s> Reader<'s> {
    fn line(&mut self, text: &'s str, start: usize) -> Option<Edit> {
        let line = start..start + text.trim_end().len();
        let mut words = Words { source: self.source, rest: text.split_ascii_whitespace(), line };
        let verb = words.next()?;
        match verb.value {
            "add" => self.add(words),
            "del" => self.del(words),
            "flush" => self.flush(words),
            "neighbour" => self.neighbour(words),
            other => {
                verb.error(&mut self.report, || {
                    let hint = did_you_mean(other, ["add", "del", "flush", "neighbour"]);
                    (format!("there is no change {}", quote(other)), hint)
                });
                None
            }
        }
    }

    /// Parses `[vrf NAME] PREFIX`. The other words stay for the caller.
    fn destination(&mut self, words: &mut Words<'s>) -> Option<(VrfIndex, Prefix)> {
        const EXAMPLE: &str = "add 10.0.0.0/8 via 192.0.2.1";
        let first = words.next_or_report(&mut self.report, "the destination", EXAMPLE)?;
        if first.value != "vrf" {
            let ipv6 = words.has_ipv6_gateway();
            return Some((MAIN, destination(&mut self.report, &first, || ipv6)?));
        }
        let name =
            words.next_or_report(&mut self.report, "the name of the VRF", "add vrf red 10.0.0.0/8 via 192.0.2.1")?;
        let to = words.next_or_report(&mut self.report, "the destination", EXAMPLE)?;
        let vrf = self.connected.vrf_named(&mut self.report, &name);
        let ipv6 = words.has_ipv6_gateway();
        let to = destination(&mut self.report, &to, || ipv6);
        Some((vrf?, to?))
    }

    fn add(&mut self, mut words: Words<'s>) -> Option<Edit> {
        let (vrf, to) = self.destination(&mut words)?;
        let Some(first) = words.next() else {
            let end = words.line.end;
            self.report.error(end..end, "", || {
                let hint = "write 'via ADDRESS', 'blackhole' or 'unreachable' after the destination";
                ("the route has no next hop".to_string(), hint.to_string())
            });
            return None;
        };
        let start = first.span.start;
        let action = self.source[start..words.line.end].trim_end();
        let key = (action, vrf, to.address.is_ipv4());
        let action = match self.known.get(&key) {
            Some(known) => known.clone(),
            None => {
                let read = self.action(words.text(action), (to, vrf));
                // Report errors for every line, but cache only valid hops.
                if read.is_some() {
                    self.known.insert(key, read.clone());
                }
                read
            }
        };
        Some(Edit::AddRoute(RoutePlan { vrf: self.connected.vrf_name(vrf).cloned(), to, action: action? }))
    }

    /// `via HOP [via HOP ...] [leak]`, `blackhole` or `unreachable`.
    fn action(&mut self, text: Text<'s>, (to, vrf): (Prefix, VrfIndex)) -> Option<RouteAction> {
        match text.value {
            "blackhole" => return Some(RouteAction::Blackhole),
            "unreachable" => return Some(RouteAction::Unreachable),
            _ => {}
        }
        let words: Vec<&'s str> = text.value.split_ascii_whitespace().collect();
        if let ["blackhole" | "unreachable", more, ..] = words[..] {
            let more = Words { source: self.source, rest: more.split_ascii_whitespace(), line: text.span }.next()?;
            more.error(&mut self.report, || (format!("unexpected {}", quote(more.value)), "remove it".to_string()));
            return None;
        }
        let leak = words.last() == Some(&"leak");
        let words = &words[..words.len() - usize::from(leak)];
        if words.first() != Some(&"via") {
            let first = words.first().copied().unwrap_or("leak");
            text.error(&mut self.report, || {
                let hint = did_you_mean(first, ["via", "blackhole", "unreachable"]);
                (format!("{} cannot follow the destination of a route", quote(first)), hint)
            });
            return None;
        }
        let place = |word: &str| word.as_ptr().addr() - self.source.as_ptr().addr();
        let hop = |words: &[&'s str]| match (words.first(), words.last()) {
            (Some(first), Some(last)) => {
                let span = place(first)..place(last) + last.len();
                Text { value: &self.source[span.clone()], span, path: Path::Root(&[]) }
            }
            _ => Text { value: "", span: text.span.clone(), path: Path::Root(&[]) },
        };
        let hops: Vec<Text<'s>> = words[1..].split(|word| *word == "via").map(hop).collect();
        hop::action(&mut self.report, &self.connected, &hops, NextHopContext { to: Some(to), vrf, leak, port: None })
    }

    fn del(&mut self, mut words: Words<'s>) -> Option<Edit> {
        let (vrf, to) = self.destination(&mut words)?;
        words.end(&mut self.report)?;
        Some(Edit::DelRoute(self.connected.vrf_name(vrf).cloned(), to))
    }

    fn flush(&mut self, mut words: Words<'s>) -> Option<Edit> {
        let Some(word) = words.next() else { return Some(Edit::Flush(None)) };
        if word.value != "vrf" {
            word.error(&mut self.report, || {
                (format!("{} cannot be flushed", quote(word.value)), "write 'flush', or 'flush vrf red'".to_string())
            });
            return None;
        }
        let name = words.next_or_report(&mut self.report, "the name of the VRF", "flush vrf red")?;
        let vrf = self.connected.vrf_named(&mut self.report, &name)?;
        words.end(&mut self.report)?;
        Some(Edit::Flush(Some(self.connected.vrf_name(vrf).cloned())))
    }

    fn neighbour(&mut self, mut words: Words<'s>) -> Option<Edit> {
        const EXAMPLE: &str = "neighbour add 192.0.2.9 mac 02:00:00:00:00:09 port lan";
        let verb = words.next_or_report(&mut self.report, "'add' or 'del'", EXAMPLE)?;
        if !matches!(verb.value, "add" | "del") {
            verb.error(&mut self.report, || {
                (format!("there is no change {}", quote(verb.value)), did_you_mean(verb.value, ["add", "del"]))
            });
            return None;
        }
        let text = words.next_or_report(&mut self.report, "the address", EXAMPLE)?;
        let (mut link, mut port) = (None, None);
        while let Some(word) = words.next() {
            let what = format!("the value of '{}'", word.value);
            match word.value {
                "mac" => link = Some(words.next_or_report(&mut self.report, &what, EXAMPLE)?),
                "port" => port = Some(words.next_or_report(&mut self.report, &what, EXAMPLE)?),
                other => {
                    let hint = did_you_mean(other, ["mac", "port"]);
                    word.error(&mut self.report, || (format!("a neighbour has no {}", quote(other)), hint));
                    return None;
                }
            }
        }
        let Some(port) = port else {
            let end = words.line.end;
            self.report
                .error(end..end, "", || ("the port is missing".to_string(), format!("write it, as in '{EXAMPLE}'")));
            return None;
        };
        let on = self.connected.named(&mut self.report, &port).ok()?;
        let address = address(&mut self.report, &text)?;
        let on = self.connected.host_interface(&mut self.report, &text, address, Some(on), MAIN).ok()?;
        let interface = self.connected.interface_name(on).clone();
        match (verb.value, link) {
            ("del", None) => Some(Edit::DelNeighbour(interface, address)),
            ("del", Some(link)) => {
                link.error(&mut self.report, || {
                    ("'neighbour del' needs only the address and the port".to_string(), "remove 'mac'".to_string())
                });
                None
            }
            (_, Some(link)) => {
                let mac = mac(&mut self.report, &link)?;
                Some(Edit::AddNeighbour(NeighbourPlan { address, mac, interface }))
            }
            (_, None) => {
                let end = words.line.end;
                self.report.error(end..end, "", || {
                    ("the MAC address is missing".to_string(), format!("write it, as in '{EXAMPLE}'"))
                });
                None
            }
        }
    }
}
