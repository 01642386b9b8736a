//! The keys of `[[multicast]]`.

use super::{Form, Key, Kind, key, required};

/// Groups, and interfaces that the packets of one go to.
pub(crate) const MOST_GROUPS: usize = 16_384;
pub(crate) const MOST_COPIES: usize = 64;

pub(super) const LIST: Key = key(
    "multicast",
    Kind::List(MULTICAST),
    "",
    "[{ group = \"239.1.2.3\", from = \"lan\", to = [\"wan\"] }]",
    "Multicast groups that are forwarded.",
);

pub(crate) const MULTICAST: &[Key] = &[
    required(
        "group",
        Kind::Text(Form::Address),
        "\"239.1.2.3\"",
        "The group: a multicast address of either family that routers forward.",
    ),
    key(
        "source",
        Kind::Text(Form::Address),
        "",
        "\"192.0.2.7\"",
        "Only what this host sends to the group; by default what anybody sends for whom there is no other.",
    ),
    required(
        "from",
        Kind::Text(Form::Interface),
        "\"lan\"",
        "The interface its packets come by: `lan`, or `lan.20`. What comes by another is dropped as `reverse_path`.",
    ),
    required(
        "to",
        Kind::OneOrMore(Form::Interface),
        "[\"wan\", \"wan.20\"]",
        "The interfaces that each get a copy: other ones of the same VRF, at most 64.",
    ),
];
