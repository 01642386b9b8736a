//! The keys of `link` of a port: what a link is like that it pretends to have.

use super::{Form, Key, Kind, key};
use crate::medium::TraceEnd;

/// Packets that are under way on a link at most.
pub(crate) const MOST_UNDER_WAY: u64 = 4_194_304;

pub(crate) const LINK: &[Key] = &[
    key(
        "rate",
        Kind::Text(Form::Rate),
        "",
        "\"15mbit\"",
        "A constant rate; without any of `rate`, `trace`, `poisson` and `brownian` there is no limit.",
    ),
    key(
        "burst",
        Kind::Text(Form::Size),
        "",
        "\"10kb\"",
        "With `rate`: a token bucket, so that after a silence so much leaves at once.",
    ),
    key(
        "trace",
        Kind::Text(Form::File),
        "",
        "\"Verizon-LTE-short.down\"",
        "A recorded link: a file of milliseconds, one for each opportunity to send; or `lte(mean=5mbit,length=140s,seed=1)`, one that is made up.",
    ),
    key(
        "mode",
        Kind::Text(Form::TraceMode),
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
        Kind::Text(Form::Reserve),
        "",
        "\"500pps\"",
        "Each packet takes a time of its own, exponentially distributed, with this rate on average.",
    ),
    key(
        "brownian",
        Kind::Text(Form::PacketRate),
        "",
        "\"500pps\"",
        "The same, and the rate changes every second by a normally distributed step; it begins with this.",
    ),
    key("sigma", Kind::Text(Form::PacketRate), "\"100pps\"", "\"50pps\"", "With `brownian`: the deviation of a step."),
    key(
        "most",
        Kind::Text(Form::PacketRate),
        "\"1250pps\"",
        "\"2kpps\"",
        "With `brownian`: the rate is never above it.",
    ),
    key(
        "delay",
        Kind::Text(Form::Time),
        "\"0ns\"",
        "\"75ms\"",
        "How long a packet is under way when its last bit has left.",
    ),
    key(
        "jitter",
        Kind::Text(Form::Time),
        "\"0ns\"",
        "\"5ms\"",
        "How much longer at most, evenly distributed; packets stay in order.",
    ),
    key(
        "loss",
        Kind::Text(Form::Loss),
        "\"0%\"",
        "\"gilbert(begin=1%,end=30%)\"",
        "The part of its packets that are lost: `0.1%`, each independently, or `gilbert(begin=1%,end=30%,good=0%,bad=100%)`, more of them in bad times.",
    ),
    key("duplicate", Kind::Text(Form::Part), "\"0%\"", "\"1%\"", "The part of its packets that come twice."),
    key(
        "reorder",
        Kind::Text(Form::Part),
        "\"0%\"",
        "\"1%\"",
        "The part of its packets that come late, so that others overtake them.",
    ),
    key("reorder_by", Kind::Text(Form::Time), "\"1ms\"", "\"5ms\"", "With `reorder`: how much later those come."),
    key(
        "overhead",
        Kind::Text(Form::Overhead),
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
