//! The keys of `[nat]`.

use super::{Form, Key, Kind, key, required};

pub(crate) const NAT: &[Key] = &[
    required(
        "outside",
        Kind::OneOrMore(Form::Interface),
        "\"wan\"",
        "The interfaces that lead outside, at most 8; the first IPv4 address of each stands for the hosts inside.",
    ),
    key(
        "connections",
        Kind::Integer { least: 16, most: 4_194_304 },
        "65536",
        "65536",
        "Connections there may be, some 150 bytes each. A change takes a restart.",
    ),
    key(
        "per_host",
        Kind::Integer { least: 1, most: 4_194_304 },
        "",
        "4096",
        "Connections that one host inside may have begun at a time (RFC 6888 REQ-4): without the key an eighth of `connections` or of `ports`, whichever is less.",
    ),
    key("ports", Kind::Text(Form::PortRange), "\"1024-65535\"", "\"1024-65535\"", "The ports that are given."),
    key(
        "anybody",
        Kind::Boolean,
        "false",
        "true",
        "Whether anybody may come in by a port that was given, or only whom the host inside has spoken to (RFC 4787 REQ-8).",
    ),
    key(
        "forward",
        Kind::Texts(Form::Forward),
        "[]",
        "[\"tcp 8080 to 10.0.0.2:80\"]",
        "Ports of the router that lead to hosts inside, at most 256.",
    ),
    key("tcp", Kind::Text(Form::Time), "\"7440s\"", "\"7440s\"", "How long a silent TCP connection is remembered."),
    key("tcp_opening", Kind::Text(Form::Time), "\"240s\"", "\"240s\"", "The same before both sides have spoken."),
    key("tcp_closing", Kind::Text(Form::Time), "\"240s\"", "\"60s\"", "The same once both sides have ended it."),
    key("udp", Kind::Text(Form::Time), "\"300s\"", "\"300s\"", "How long a silent UDP exchange is remembered."),
    key("icmp", Kind::Text(Form::Time), "\"60s\"", "\"60s\"", "How long an ICMP question is remembered."),
];
