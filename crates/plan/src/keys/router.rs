//! The keys of `[router]`.

use super::{Form, Key, Kind, key};

pub(crate) const ROUTER: &[Key] = &[
    key(
        "name",
        Kind::Text(Form::RouterName),
        "\"switchpath\"",
        "\"edge\"",
        "The router's name, in `show` and in metrics.",
    ),
    key(
        "workers",
        Kind::Integer { least: 1, most: 64 },
        "1",
        "1",
        "Worker threads: each has a queue of every port, or a relay to one. Where it is left out and `cores` is there, one \
         for each core. A change takes a restart.",
    ),
    key(
        "cores",
        Kind::Text(Form::Cores),
        "",
        "\"0-1,3\"",
        "The cores that workers are pinned to: the first worker to the first, and so on. Where it is left out they run where \
         the system puts them. A change takes a restart.",
    ),
    key(
        "spin",
        Kind::Text(Form::Time),
        "\"50us\"",
        "\"50us\"",
        "How long a worker without work looks for some before it sleeps, up to 1s. Longer saves the microseconds of waking it, \
         and costs its core.",
    ),
    key(
        "frames",
        Kind::Integer { least: 256, most: 4_194_304 },
        "16384",
        "16384",
        "Frames in the pool, 2 KB each: every packet in the router occupies one. A change takes a restart.",
    ),
    key(
        "super_frames",
        Kind::Integer { least: 0, most: 65_536 },
        "256",
        "256",
        "Frames of 64 KB besides, for jumbo frames and for what senders leave unsegmented. Their memory is the system's until \
         they are used. A change takes a restart.",
    ),
    key(
        "icmp_rate",
        Kind::Integer { least: 1, most: 1_000_000 },
        "100",
        "100",
        "ICMP errors per second (RFC 1812 4.3.2.8, RFC 4443 2.4).",
    ),
    key("icmp_burst", Kind::Integer { least: 1, most: 100_000 }, "10", "10", "ICMP errors at once, after a silence."),
];
