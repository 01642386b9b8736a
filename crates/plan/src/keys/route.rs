//! The keys of `[[route]]` and `[[neighbour]]`.

use super::{Form, Key, Kind, key, required};

pub(crate) const ROUTE: &[Key] = &[
    required(
        "to",
        Kind::Text(Form::RouteDestination),
        "\"10.0.0.0/8\"",
        "The destination prefix; `default` is `0.0.0.0/0`, or `::/0` where the next hop has an IPv6 address.",
    ),
    key(
        "via",
        Kind::OneOrMore(Form::NextHop),
        "",
        "[\"203.0.113.1 weight 2\", \"203.0.113.2\"]",
        "The next router, on a connected subnet; or IPv6 link-local, with `port`. Several share the packets, flow by flow.",
    ),
    key("blackhole", Kind::Boolean, "false", "true", "Drops the packets in silence."),
    key("unreachable", Kind::Boolean, "false", "true", "Drops the packets and answers ICMP unreachable."),
    key("port", Kind::Text(Form::Interface), "", "\"lan\"", "With `via`: the interface the next router is on."),
    key("vrf", Kind::Text(Form::Vrf), "\"main\"", "\"red\"", "The VRF whose packets go by the route."),
    key(
        "leak",
        Kind::Boolean,
        "false",
        "true",
        "With `port`: the next router may be in another VRF, so that packets leave theirs by this route.",
    ),
];

pub(crate) const NEIGHBOUR: &[Key] = &[
    required(
        "address",
        Kind::Text(Form::Address),
        "\"192.0.2.9\"",
        "The neighbour's address, on a subnet of the interface.",
    ),
    required("mac", Kind::Text(Form::Mac), "\"02:00:00:00:00:09\"", "The neighbour's MAC address."),
    required("port", Kind::Text(Form::Interface), "\"lan\"", "The interface it is on: `lan`, or `lan.20`."),
];
