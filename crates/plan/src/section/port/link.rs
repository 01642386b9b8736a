//! `[port.NAME.link]`: the link that a port emulates.

use crate::diagnostic::Report;
use crate::document::{Section, Text};
use crate::key::{FILE, Form, Key, Kind, PACKET_RATE, PART, RESERVE, SIZE, TIME, key};
use crate::medium::{MediumPlan, MediumText, TraceEnd};
use serde::{Serialize, Serializer};
use std::fmt;

/// Limit of packets in flight on a link.
pub(crate) const MOST_UNDER_WAY: u64 = 4_194_304;

pub(crate) const LINK: &[Key] = &[
    key(
        "rate",
        Kind::Text(Form::Pattern("^ *[0-9.]+ *[kmgtKMGT]?[bB][iI][tT] *$")),
        "",
        "\"15mbit\"",
        "A constant rate; without any of `rate`, `trace`, `poisson` and `brownian` there is no limit.",
    ),
    key(
        "burst",
        Kind::Text(SIZE),
        "",
        "\"10kb\"",
        "With `rate`: a token bucket, so that after a silence so much leaves at once.",
    ),
    key(
        "trace",
        Kind::Text(FILE),
        "",
        "\"Verizon-LTE-short.down\"",
        "A recorded link: a file of milliseconds, one for each opportunity to send; or `lte(mean=5mbit,length=140s,seed=1)`, one that is made up.",
    ),
    key(
        "mode",
        Kind::Text(Form::Pattern(r"^(packet|bytes\([0-9]{1,5}\))$")),
        "\"bytes(1504)\"",
        "\"packet\"",
        "With `trace`: what an opportunity carries, `packet` (one of any size) or `bytes(N)` (so many of as many packets as fit).",
    ),
    key(
        "end",
        Kind::Text(Form::Choice(TraceEnd::NAMES)),
        "\"repeat\"",
        "\"stop\"",
        "With `trace`: what comes after its last opportunity: the trace again, nothing, or nothing with a remark.",
    ),
    key(
        "poisson",
        Kind::Text(RESERVE),
        "",
        "\"500pps\"",
        "Each packet takes a time of its own, exponentially distributed, with this rate on average.",
    ),
    key(
        "brownian",
        Kind::Text(PACKET_RATE),
        "",
        "\"500pps\"",
        "The same, and the rate changes every second by a normally distributed step; it begins with this.",
    ),
    key("sigma", Kind::Text(PACKET_RATE), "\"100pps\"", "\"50pps\"", "With `brownian`: the deviation of a step."),
    key("most", Kind::Text(PACKET_RATE), "\"1250pps\"", "\"2kpps\"", "With `brownian`: the rate is never above it."),
    key("delay", Kind::Text(TIME), "\"0ns\"", "\"75ms\"", "How long a packet is under way when its last bit has left."),
    key(
        "jitter",
        Kind::Text(TIME),
        "\"0ns\"",
        "\"5ms\"",
        "How much longer at most, evenly distributed; packets stay in order.",
    ),
    key(
        "loss",
        Kind::Text(Form::Pattern(r"^( *[0-9.]+ *(%|ppm)? *|gilbert(\(.*\))?)$")),
        "\"0%\"",
        "\"gilbert(begin=1%,end=30%)\"",
        "The part of its packets that are lost: `0.1%`, each independently, or `gilbert(begin=1%,end=30%,good=0%,bad=100%)`, more of them in bad times.",
    ),
    key("duplicate", Kind::Text(PART), "\"0%\"", "\"1%\"", "The part of its packets that come twice."),
    key(
        "reorder",
        Kind::Text(PART),
        "\"0%\"",
        "\"1%\"",
        "The part of its packets that come late, so that others overtake them.",
    ),
    key("reorder_by", Kind::Text(TIME), "\"1ms\"", "\"5ms\"", "With `reorder`: how much later those come."),
    key(
        "overhead",
        Kind::Text(Form::Pattern("^ *-?[0-9.]+ *[kmgKMG]?[bB] *$")),
        "\"24b\"",
        "\"-14b\"",
        "Bytes that a frame takes on the link besides those in memory. By default those of Ethernet; of a trace less, as its semantics count IP packets.",
    ),
    key(
        "hold",
        Kind::Integer { least: 1, most: MOST_UNDER_WAY },
        "8192",
        "65536",
        "Packets that are under way at most; each has a frame of the pool. More are dropped as `buffer_full`.",
    ),
    key(
        "seed",
        Kind::Integer { least: 0, most: i64::MAX as u64 },
        "1",
        "7",
        "What all chance of the link follows from.",
    ),
];

/// The link that a port emulates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkPlan {
    /// Its properties.
    pub medium: MediumPlan,
    /// Limit of packets in flight.
    pub hold: u32,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl fmt::Display for LinkPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hold {} seed {}", self.medium, self.hold, self.seed)
    }
}

impl Serialize for LinkPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the emulated link of a port. It requires a single worker, because the link is a single queue.
pub(super) fn check(report: &mut Report<'_>, section: &Section<'_>, workers: u16) -> Option<LinkPlan> {
    let node = section.node("link")?;
    let span = node.span.clone();
    let section = node.section(report, LINK, "link = { rate = \"15mbit\", delay = \"75ms\" }")?;
    if workers > 1 {
        report.error(span, section.path, || {
            let reason = format!("a link is one, and there are {} workers", workers);
            (reason, "let the router have workers = 1".to_string())
        });
    }
    let hold = section.integer(report, "hold").unwrap_or(8192) as u32;
    let seed = section.integer(report, "seed").unwrap_or(1);
    let keys = LINK.iter().filter(|key| matches!(key.kind, Kind::Text(_)));
    let texts: Vec<(&'static str, Text<'_>)> =
        keys.filter_map(|key| Some((key.name, section.text(report, key.name)?))).collect();
    let texts: Vec<MediumText<'_>> =
        texts.iter().map(|(key, text)| MediumText { key, text: text.value, span: text.span.clone() }).collect();
    let medium = MediumPlan::read(report, &section.path.to_string(), &texts, &MediumPlan::default());
    Some(LinkPlan { medium, hold, seed })
}
