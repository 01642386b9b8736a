//! The keys of `[port.NAME.ra]`: what IPv6 hosts are told.

use super::{Form, Key, Kind, key, required};

/// Router advertisements of an interface (RFC 4861 6.2.1, with its names in brackets).
pub(crate) const RA: &[Key] = &[
    key(
        "interval",
        Kind::Text(Form::Seconds),
        "\"600s\"",
        "\"200s\"",
        "The longest time between two, 4s to 1800s (MaxRtrAdvInterval); the shortest is a third of it.",
    ),
    key(
        "lifetime",
        Kind::Text(Form::Seconds),
        "",
        "\"1800s\"",
        "For how long hosts take the router for their default router, up to 9000s; with 0s they do not. By default \
         three intervals (AdvDefaultLifetime).",
    ),
    key(
        "preference",
        Kind::Text(Form::Preference),
        "\"medium\"",
        "\"high\"",
        "Which of several routers hosts prefer: `high`, `medium`, `low` (RFC 4191).",
    ),
    key("managed", Kind::Boolean, "false", "true", "Whether addresses come by DHCPv6 (AdvManagedFlag)."),
    key("other", Kind::Boolean, "false", "true", "Whether other settings come by DHCPv6 (AdvOtherConfigFlag)."),
    key("mtu", Kind::Boolean, "true", "false", "Whether hosts are told the interface's MTU (AdvLinkMTU)."),
    key(
        "hop_limit",
        Kind::Integer { least: 0, most: 255 },
        "64",
        "64",
        "The hop limit hosts are to use; 0 leaves it to them (AdvCurHopLimit).",
    ),
    key(
        "prefix",
        Kind::List(RA_PREFIX),
        "",
        "[{ prefix = \"2001:db8:1::/64\" }]",
        "The prefixes of the link (AdvPrefixList); by default the interface's own IPv6 subnets.",
    ),
    key(
        "dns",
        Kind::Texts(Form::Address),
        "[]",
        "[\"2001:db8::53\"]",
        "IPv6 addresses of recursive DNS servers (RFC 8106).",
    ),
    key("search", Kind::Texts(Form::Domain), "[]", "[\"example.org\"]", "Domains to search for names (RFC 8106)."),
    key(
        "dns_lifetime",
        Kind::Text(Form::Seconds),
        "",
        "\"1800s\"",
        "For how long hosts may use them; by default three intervals.",
    ),
];

/// A prefix of the link.
pub(crate) const RA_PREFIX: &[Key] = &[
    required("prefix", Kind::Text(Form::Destination), "\"2001:db8:1::/64\"", "The prefix."),
    key("on_link", Kind::Boolean, "true", "false", "Whether its addresses are on the link (AdvOnLinkFlag)."),
    key(
        "autonomous",
        Kind::Boolean,
        "true",
        "false",
        "Whether hosts may form addresses from it (AdvAutonomousFlag); only a length of 64 lets them on Ethernet.",
    ),
    key(
        "valid",
        Kind::Text(Form::Seconds),
        "\"2592000s\"",
        "\"86400s\"",
        "For how long it is valid (AdvValidLifetime); 4294967295s is for ever.",
    ),
    key(
        "preferred",
        Kind::Text(Form::Seconds),
        "\"604800s\"",
        "\"14400s\"",
        "For how long addresses from it are preferred (AdvPreferredLifetime).",
    ),
];
