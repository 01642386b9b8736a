//! The keys of `[[passthrough]]`.

use super::{Form, Key, Kind, key, required};

/// Pairs of ports.
pub(crate) const MOST_PAIRS: usize = 128;

pub(super) const LIST: Key = key(
    "passthrough",
    Kind::List(PASSTHROUGH),
    "",
    "[{ ports = [\"line\", \"router\"] }]",
    "Pairs of ports that are a piece of cable.",
);

pub(crate) const PASSTHROUGH: &[Key] = &[required(
    "ports",
    Kind::OneOrMore(Form::Interface),
    "[\"line\", \"router\"]",
    "The two ports, which have neither addresses nor VLANs: what comes by one leaves by the other, unchanged.",
)];
