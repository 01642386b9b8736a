//! `[[route]]`: static routes to destinations beyond the connected subnets.

pub(crate) mod chunks;
pub(crate) mod hop;

use crate::Prefix;
use crate::connected::{Connected, MAIN, VrfIndex};
use crate::diagnostic::Report;
use crate::diff::{Step, steps};
use crate::document::{Node, Path, Section, Text, too_many_elements};
use crate::key::{Form, INTERFACE, Key, Kind, NAME, key, required};
use crate::names::Name;
use crate::text::quote;
use chunks::{BadSyntax, Chunks};
use hop::{MOST_NEXT_HOPS, NextHopContext, RouteAction};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) const KEY: Key =
    key("route", Kind::List(KEYS), "", "[{ to = \"10.0.0.0/8\", blackhole = true }]", "Static routes.");

const MOST_ROUTES: usize = 1_000_000;

const KEYS: &[Key] = &[
    required(
        "to",
        Kind::Text(Form::Pattern("^(default|[0-9a-fA-F.:]+/[0-9]{1,3})$")),
        "\"10.0.0.0/8\"",
        "The destination prefix. `default` is `0.0.0.0/0`, or `::/0` if the next hop has an IPv6 address.",
    ),
    key(
        "via",
        Kind::OneOrMore(Form::Pattern(r"^\s*[0-9a-fA-F.:]+(\s+(port|weight)\s+\S+)*\s*$")),
        "",
        "[\"203.0.113.1 weight 2\", \"203.0.113.2\"]",
        "The next hop: an address on a connected subnet, or IPv6 link-local with `port`. Several next hops share the \
         packets by flow.",
    ),
    key("blackhole", Kind::Boolean, "false", "true", "Drops the packets silently."),
    key("unreachable", Kind::Boolean, "false", "true", "Drops the packets and answers with ICMP unreachable."),
    key("port", Kind::Text(INTERFACE), "", "\"lan\"", "With `via`: the interface of the next hop."),
    key("vrf", Kind::Text(NAME), "\"main\"", "\"red\"", "The VRF of the route."),
    key(
        "leak",
        Kind::Boolean,
        "false",
        "true",
        "With `port`: the next hop may be in another VRF, so that packets leave their VRF by this route.",
    ),
];

/// A configured route.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RoutePlan {
    /// The VRF of the route; `None` for the main one.
    pub vrf: Option<Name>,
    /// The destination, without host bits.
    pub to: Prefix,
    /// The next hops, or the treatment of its packets.
    pub action: RouteAction,
}

impl fmt::Display for RoutePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vrf) = &self.vrf {
            write!(f, "vrf {vrf} ")?;
        }
        write!(f, "{} {}", self.to, self.action)
    }
}

impl RoutePlan {
    /// Its path in a difference: `route[10.0.0.0/8]`.
    pub(crate) fn path(&self) -> String {
        match &self.vrf {
            None => format!("route[{}]", self.to),
            Some(vrf) => format!("route[vrf {vrf} {}]", self.to),
        }
    }
}

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>, connected: &Connected) -> Vec<RoutePlan> {
    let parent = Path::Key(&root.path, "route");
    let list = root.elements(report, "route", MOST_ROUTES);
    let mut routes = Vec::with_capacity(list.len());
    for (index, span, value) in list {
        let node = Node::new(value, span, Path::Index(&parent, index));
        routes.extend(read_route(report, node, connected).map(|(route, place)| (route, index, place)));
    }
    sorted(report, &parent, routes)
}

/// As [`check`] for routes in chunks.
pub(crate) fn check_chunks(
    report: &mut Report<'_>,
    root: &Section<'_>,
    connected: &Connected,
    chunks: &Chunks,
) -> Result<Vec<RoutePlan>, BadSyntax> {
    let parent = Path::Key(&root.path, "route");
    let mut routes = Vec::with_capacity(chunks.routes.min(MOST_ROUTES));
    let (source, mut index) = (report.source, 0);
    for range in &chunks.ranges {
        let (tree, errors) = DeTable::parse_recoverable(&source[range.clone()]);
        let Some(DeValue::Array(array)) = tree.get_ref().get("route").map(Spanned::get_ref) else {
            return Err(BadSyntax);
        };
        if !errors.is_empty() || tree.get_ref().len() != 1 {
            return Err(BadSyntax);
        }
        report.read_part(range.start);
        for value in array.iter() {
            if index == MOST_ROUTES {
                too_many_elements(report, "route", value.span(), (chunks.routes, MOST_ROUTES));
            } else if index < MOST_ROUTES {
                let node = Node::new(value.get_ref(), value.span(), Path::Index(&parent, index));
                routes.extend(read_route(report, node, connected).map(|(route, place)| (route, index, place)));
            }
            index += 1;
        }
    }
    report.read_part(0);
    Ok(sorted(report, &parent, routes))
}

/// A route and the position of its destination. `None` if it was reported.
fn read_route(report: &mut Report<'_>, node: Node<'_>, connected: &Connected) -> Option<(RoutePlan, usize)> {
    let section = node.section(report, KEYS, "[[route]]")?;
    let to = section.text(report, "to").and_then(|text| destination(report, &text, || has_ipv6_gateway(&section)));
    let vrf = vrf(report, &section, connected);
    let action = action(report, &section, connected, (to, vrf));
    let (to, vrf, action) = (to?, vrf?, action?);
    let place = section.node("to").map_or(0, |node| report.source_offset(node.span.start));
    Some((RoutePlan { vrf: connected.vrf_name(vrf).cloned(), to, action }, place))
}

/// Sorts the routes. If two have the same destination, the later one is reported. Each comes with its index and the position of its destination.
fn sorted(report: &mut Report<'_>, parent: &Path<'_>, mut routes: Vec<(RoutePlan, usize, usize)>) -> Vec<RoutePlan> {
    routes.sort_unstable_by(|(a, i, _), (b, j, _)| (&a.vrf, a.to, i).cmp(&(&b.vrf, b.to, j)));
    for pair in routes.windows(2) {
        let [(first, first_index, first_place), (second, index, place)] = pair else { continue };
        if (&first.vrf, first.to) == (&second.vrf, second.to) {
            let line = report.line(*first_place);
            report.error(
                *place..*place + second.to.to_string().len() + 2,
                Path::Key(&Path::Index(parent, *index), "to"),
                || {
                    let reason = format!("there is a route to {} already: route[{first_index}], line {line}", first.to);
                    (reason, "remove one of the two".to_string())
                },
            );
        }
    }
    routes.into_iter().map(|(route, _, _)| route).collect()
}

/// The VRF of `vrf`; the main one if it is not set. `None` if it was reported or excused.
fn vrf(report: &mut Report<'_>, section: &Section<'_>, connected: &Connected) -> Option<VrfIndex> {
    match section.node("vrf") {
        None => Some(MAIN),
        Some(_) => {
            let text = section.text(report, "vrf")?;
            connected.vrf_named(report, &text)
        }
    }
}

/// True if the first gateway of a route is IPv6.
fn has_ipv6_gateway(section: &Section<'_>) -> bool {
    section.node("via").and_then(|via| via.first_text()).is_some_and(|address| address.contains(':'))
}

/// Parses a destination prefix, or `default`, which is all addresses of the gateway's family (IPv4 without a gateway). `None` if it was reported.
pub(crate) fn destination(report: &mut Report<'_>, text: &Text<'_>, ipv6: impl FnOnce() -> bool) -> Option<Prefix> {
    if text.value == "default" {
        return (if ipv6() { "::/0" } else { "0.0.0.0/0" }).parse().ok();
    }
    let prefix: Prefix = match text.value.parse() {
        Ok(prefix) => prefix,
        Err(error) => {
            text.wrong(report, error);
            return None;
        }
    };
    if !prefix.is_network() {
        text.error(report, || {
            (
                format!("{} has bits set after its prefix length", quote(text.value)),
                format!("write '{}'", prefix.network()),
            )
        });
        return None;
    }
    Some(prefix)
}

/// The reason why packets to the destination are never forwarded (RFC 1812, section 5.3.7; RFC 4291, sections 2.5 to 2.7).
fn unroutable_reason(to: Prefix) -> Option<&'static str> {
    let within = |text: &str| text.parse::<Prefix>().is_ok_and(|special| special.covers(to));
    match to.address {
        IpAddr::V4(a) if to.length >= 8 && a.octets()[0] == 127 => Some("loopback addresses"),
        IpAddr::V4(a) if to.length >= 8 && a.octets()[0] == 0 => Some("addresses of 'this network'"),
        IpAddr::V4(a) if to.length >= 4 && a.is_multicast() => Some("multicast addresses"),
        IpAddr::V6(a) if to.length >= 8 && a.is_multicast() => Some("multicast addresses"),
        IpAddr::V6(a) if to.length >= 10 && a.is_unicast_link_local() => Some("link-local addresses"),
        IpAddr::V6(a) if a.segments()[..5] == [0; 5] && within("::1/128") => Some("loopback addresses"),
        _ => None,
    }
}

fn action(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &Connected,
    (to, vrf): (Option<Prefix>, Option<VrfIndex>),
) -> Option<RouteAction> {
    let blackhole = section.boolean(report, "blackhole");
    let unreachable = section.boolean(report, "unreachable");
    let via = section.node("via");
    let chosen = usize::from(blackhole) + usize::from(unreachable) + usize::from(via.is_some());
    if chosen != 1 {
        let hint = "give one of via = \"ADDRESS\", blackhole = true and unreachable = true".to_string();
        match chosen {
            0 => report.missing(section.span.clone(), section.path, || ("the route has no next hop".to_string(), hint)),
            _ => report.error(section.span.clone(), section.path, || {
                ("via, blackhole and unreachable exclude each other".to_string(), hint)
            }),
        }
        return None;
    }
    if let Some((to, kind)) = to.and_then(|to| Some((to, unroutable_reason(to)?))) {
        report.warning(section.span.clone(), section.path, || {
            (format!("the route to {to} is never used: a router does not forward to {kind}"), "remove it".to_string())
        });
    } else if let Some((to, owner)) = to.and_then(|to| Some((to, connected.subnet(vrf?, to)?))) {
        report.warning(section.span.clone(), section.path, || {
            let reason = format!("the route to {to} is never used: it equals the connected subnet of '{owner}'");
            (reason, "remove it, or write a longer prefix".to_string())
        });
    }
    if via.is_some() {
        let leak = section.boolean(report, "leak");
        let port = connected.own_port(report, section);
        let texts = section.one_or_more(report, "via", MOST_NEXT_HOPS)?;
        return hop::action(report, connected, &texts, NextHopContext { to, vrf: vrf?, leak, port: port.ok()? });
    }
    for name in ["port", "leak"] {
        if let Some(node) = section.node(name) {
            report.error(node.span, node.path, || {
                (format!("'{name}' needs 'via', which this route does not have"), "remove it".to_string())
            });
        }
    }
    Some(if blackhole { RouteAction::Blackhole } else { RouteAction::Unreachable })
}

pub(crate) fn diff<'p>(old: &'p [RoutePlan], new: &'p [RoutePlan]) -> Vec<Step<'p, RoutePlan>> {
    steps(old, new, |route| (&route.vrf, route.to))
}
