//! `[port.NAME.link]`: the link that a port emulates.

use crate::diagnostic::Report;
use crate::document::{Section, Text};
use crate::key::{FILE, Form, Key, Kind, PACKET_RATE, PART, RESERVE, SIZE, TIME, key};
use crate::medium::{MediumPlan, MediumText, TraceEnd};
use serde::{Serialize, Serializer};
use std::fmt;

/// Limit of packets in flight on a link.
pub(crate) const MOST_IN_FLIGHT: u64 = 4_194_304;

pub(crate) const LINK: &[Key] = &[
    key(
        "rate",
        Kind::Text(Form::Pattern("^ *[0-9.]+ *[kmgtKMGT]?[bB][iI][tT] *$")),
        "",
        "\"15mbit\"",
        "A constant rate. Without `rate`, `trace`, `poisson` and `brownian` the link has no limit.",
    ),
    key(
        "burst",
        Kind::Text(SIZE),
        "",
        "\"10kb\"",
        "With `rate`: the size of a token bucket, which allows a burst after an idle time.",
    ),
    key(
        "trace",
        Kind::Text(FILE),
        "",
        "\"Verizon-LTE-short.down\"",
        "A recorded link: a file with the milliseconds of delivery opportunities, one per line. Or \
         `lte(mean=5mbit,length=140s,seed=1)`, a generated trace.",
    ),
    key(
        "mode",
        Kind::Text(Form::Pattern(r"^(packet|bytes\([0-9]{1,5}\))$")),
        "\"bytes(1504)\"",
        "\"packet\"",
        "With `trace`: the capacity of an opportunity. `packet` is one packet of any size, `bytes(N)` is N bytes of \
         as many packets as fit.",
    ),
    key(
        "end",
        Kind::Text(Form::Choice(TraceEnd::NAMES)),
        "\"repeat\"",
        "\"stop\"",
        "With `trace`: the behaviour after the last opportunity. The trace repeats, or the link sends no more, or it \
         also reports that.",
    ),
    key(
        "poisson",
        Kind::Text(RESERVE),
        "",
        "\"500pps\"",
        "Each packet takes an exponentially distributed time, with this average rate.",
    ),
    key(
        "brownian",
        Kind::Text(PACKET_RATE),
        "",
        "\"500pps\"",
        "As `poisson`, but the rate changes each second by a normally distributed step. This is the initial rate.",
    ),
    key(
        "sigma",
        Kind::Text(PACKET_RATE),
        "\"100pps\"",
        "\"50pps\"",
        "With `brownian`: the standard deviation of a step.",
    ),
    key("most", Kind::Text(PACKET_RATE), "\"1250pps\"", "\"2kpps\"", "With `brownian`: the highest rate."),
    key("delay", Kind::Text(TIME), "\"0ns\"", "\"75ms\"", "The propagation delay, after a packet's last bit has left."),
    key(
        "jitter",
        Kind::Text(TIME),
        "\"0ns\"",
        "\"5ms\"",
        "The largest additional delay, uniformly distributed. Packets stay in order.",
    ),
    key(
        "loss",
        Kind::Text(Form::Pattern(r"^( *[0-9.]+ *(%|ppm)? *|gilbert(\(.*\))?)$")),
        "\"0%\"",
        "\"gilbert(begin=1%,end=30%)\"",
        "The loss rate: `0.1%` for independent losses, or `gilbert(begin=1%,end=30%,good=0%,bad=100%)` for bursts of \
         losses.",
    ),
    key("duplicate", Kind::Text(PART), "\"0%\"", "\"1%\"", "The fraction of packets that is duplicated."),
    key(
        "reorder",
        Kind::Text(PART),
        "\"0%\"",
        "\"1%\"",
        "The fraction of packets that is delayed, so that later ones overtake them.",
    ),
    key("reorder_by", Kind::Text(TIME), "\"1ms\"", "\"5ms\"", "With `reorder`: the additional delay of those packets."),
    key(
        "overhead",
        Kind::Text(Form::Pattern("^ *-?[0-9.]+ *[kmgKMG]?[bB] *$")),
        "\"24b\"",
        "\"-14b\"",
        "The additional size of a frame on the link. The default is Ethernet's overhead. It is smaller for a trace, \
         whose semantics count IP packets.",
    ),
    key(
        "hold",
        Kind::Integer { least: 1, most: MOST_IN_FLIGHT },
        "8192",
        "65536",
        "The limit of packets in flight. Each occupies a frame of the pool. Further packets are dropped as \
         `buffer_full`.",
    ),
    key(
        "seed",
        Kind::Integer { least: 0, most: i64::MAX as u64 },
        "1",
        "7",
        "The seed of all random events on the link.",
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
            let reason = format!("a port with 'link' needs one worker, not {}", workers);
            (reason, "write workers = 1 in [router]".to_string())
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
