//! The keys of `[objectives]` and `[policy.NAME]`, and what interfaces say of objectives.

use super::{Form, Key, Kind, key};
use crate::objective::Objective;

/// Policies of a configuration.
pub(crate) const MOST_POLICIES: usize = 64;

const CODE_POINTS: Kind = Kind::Texts(Form::CodePoint);

pub(crate) const OBJECTIVES: &[Key] = &[
    key(
        "throughput",
        CODE_POINTS,
        "[]",
        "[\"cs1\", \"af11\"]",
        "The code points of what wants as many bits as there are.",
    ),
    key("delay", CODE_POINTS, "[]", "[\"ef\", \"cs5\"]", "Of what wants as little time on the way as there can be."),
    key(
        "power",
        CODE_POINTS,
        "[]",
        "[\"af41\", \"af42\"]",
        "Of what wants throughput over delay: calls with pictures.",
    ),
    key("fct", CODE_POINTS, "[]", "[\"af21\", \"cs2\"]", "Of flows that are to end soon, as pages do."),
    key("tail", CODE_POINTS, "[]", "[\"af31\", \"27\"]", "Of flows of which the slowest is to end soon."),
];

const SCHEME: Kind = Kind::Text(Form::Scheme);

pub(crate) const POLICY: &[Key] = &[
    key(
        "window",
        Kind::Text(Form::Time),
        "\"1s\"",
        "\"1s\"",
        "How long packets are counted before they are looked at, 100ms to 3600s.",
    ),
    key(
        "dwell",
        Kind::Text(Form::Time),
        "\"30s\"",
        "\"30s\"",
        "How long a port keeps a scheme at least, up to 86400s, whatever arrives; no shorter than the window.",
    ),
    key(
        "share",
        Kind::Text(Form::Part),
        "\"60%\"",
        "\"60%\"",
        "The part of a window's bytes that brings an objective into force, 51% to 100%. Where none has it all stays as it is.",
    ),
    key(
        "packets",
        Kind::Integer { least: 1, most: 1_000_000_000 },
        "100",
        "100",
        "A window with fewer packets says nothing.",
    ),
    key(
        "throughput",
        SCHEME,
        "",
        "\"fifo(limit=20000)\"",
        "What serves throughput; by default the port's own `scheme`.",
    ),
    key("delay", SCHEME, "", "\"drr{codel}\"", "What serves delay; the same holds."),
    key("power", SCHEME, "", "\"drr{codel}\"", "What serves power."),
    key("fct", SCHEME, "", "\"drr{codel}\"", "What serves flows that are to end soon."),
    key("tail", SCHEME, "", "\"drr{codel}\"", "What serves the slowest of them."),
];

/// What an interface says; `default` is that of a key where the port does not say it.
pub(crate) const fn trust(default: &'static str) -> Key {
    key(
        "trust",
        Kind::Boolean,
        default,
        "true",
        "Whether the code points of what comes in say what it wants (`[objectives]`): of hosts that are the operator's own. In \
         a VLAN by default as the port says.",
    )
}

/// The same for what wants nothing, or is not trusted.
pub(crate) const fn objective(default: &'static str) -> Key {
    key(
        "objective",
        Kind::Text(Form::Choice(Objective::NAMES)),
        default,
        "\"fct\"",
        "What everything else that comes in wants: `throughput`, `delay`, `power`, `fct`, `tail`, `none`. In a VLAN by default \
         as the port says.",
    )
}
