//! `[[route]]` and `[[neighbour]]`: what lies beyond the connected subnets, and who is known on them.

use super::BadSyntax;
use super::chunks::Chunks;
use super::connected::{Connected, InterfaceIndex, MAIN, VrfIndex};
use super::hop::{self, Way, address};
use super::port::mac;
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section, Text};
use crate::keys::{MOST_NEIGHBOURS, MOST_NEXT_HOPS, MOST_ROUTES, NEIGHBOUR, ROUTE};
use crate::text::quote;
use crate::{NeighbourPlan, Prefix, RouteAction, RoutePlan};
use std::net::IpAddr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The elements of a list of tables, at most so many.
pub(super) fn elements<'a>(
    report: &mut Report<'_>,
    root: &'a Section<'a>,
    name: &'static str,
    most: usize,
) -> Vec<(usize, std::ops::Range<usize>, &'a toml::de::DeValue<'a>)> {
    let mut list = root.list(report, name);
    if let Some((_, span, _)) = list.get(most) {
        too_many(report, name, span.clone(), (list.len(), most));
        list.truncate(most);
    }
    list
}

fn too_many(report: &mut Report<'_>, name: &str, first: std::ops::Range<usize>, (total, most): (usize, usize)) {
    report
        .error(first, name, || (format!("there are {total} {name}s, more than {most}"), format!("use at most {most}")));
}

pub(super) fn read(report: &mut Report<'_>, root: &Section<'_>, connected: &Connected) -> Vec<RoutePlan> {
    let parent = Path::Key(&root.path, "route");
    let list = elements(report, root, "route", MOST_ROUTES);
    let mut routes = Vec::with_capacity(list.len());
    for (index, span, value) in list {
        let node = Node::new(value, span, Path::Index(&parent, index));
        routes.extend(one(report, node, connected).map(|(route, place)| (route, index, place)));
    }
    sorted(report, &parent, routes)
}

/// As [`read`], where the routes are in chunks.
pub(super) fn read_chunks(
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
                too_many(report, "route", value.span(), (chunks.routes, MOST_ROUTES));
            } else if index < MOST_ROUTES {
                let node = Node::new(value.get_ref(), value.span(), Path::Index(&parent, index));
                routes.extend(one(report, node, connected).map(|(route, place)| (route, index, place)));
            }
            index += 1;
        }
    }
    report.read_part(0);
    Ok(sorted(report, &parent, routes))
}

/// A route, and where its destination is in the file. None: reported.
fn one(report: &mut Report<'_>, node: Node<'_>, connected: &Connected) -> Option<(RoutePlan, usize)> {
    let section = node.section(report, ROUTE, "[[route]]")?;
    let to = section.text(report, "to").and_then(|text| destination(report, &text, || leads_by_ipv6(&section)));
    let vrf = vrf(report, &section, connected);
    let action = action(report, &section, connected, (to, vrf));
    let (to, vrf, action) = (to?, vrf?, action?);
    let place = section.node("to").map_or(0, |node| report.place(node.span.start));
    Some((RoutePlan { vrf: connected.vrf_name(vrf).cloned(), to, action }, place))
}

/// The routes in their order; of two to one destination the later is reported. Each comes with its index and the place of its
/// destination.
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

/// The VRF that `vrf` names; the main one where none is. None: reported, or excused.
fn vrf(report: &mut Report<'_>, section: &Section<'_>, connected: &Connected) -> Option<VrfIndex> {
    match section.node("vrf") {
        None => Some(MAIN),
        Some(_) => {
            let text = section.text(report, "vrf")?;
            connected.vrf_named(report, &text)
        }
    }
}

/// Whether the first gateway of a route is one of IPv6.
fn leads_by_ipv6(section: &Section<'_>) -> bool {
    section.node("via").and_then(|via| via.first_text()).is_some_and(|address| address.contains(':'))
}

/// A prefix to route to, or `default`, which is all addresses of the family of the gateway, IPv4 where there is none. None:
/// reported.
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
            (format!("{} has bits set behind its length", quote(text.value)), format!("write '{}'", prefix.network()))
        });
        return None;
    }
    Some(prefix)
}

/// Why packets to the destination are never looked up (RFC 1812, section 5.3.7; RFC 4291, sections 2.5 to 2.7).
fn never_forwarded(to: Prefix) -> Option<&'static str> {
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
            0 => report.absent(section.span.clone(), section.path, || ("the route leads nowhere".to_string(), hint)),
            _ => report
                .error(section.span.clone(), section.path, || ("the route has more than one end".to_string(), hint)),
        }
        return None;
    }
    if let Some((to, kind)) = to.and_then(|to| Some((to, never_forwarded(to)?))) {
        report.warning(section.span.clone(), section.path, || {
            (format!("the route to {to} is never used: a router does not forward to {kind}"), "remove it".to_string())
        });
    } else if let Some((to, owner)) = to.and_then(|to| Some((to, connected.subnet(vrf?, to)?))) {
        report.warning(section.span.clone(), section.path, || {
            let reason = format!("the route to {to} is shadowed by the connected subnet of '{owner}'");
            (reason, "remove it, or route a longer prefix".to_string())
        });
    }
    if via.is_some() {
        let leak = section.boolean(report, "leak");
        let port = interface(report, section, connected);
        let texts = section.one_or_more(report, "via", MOST_NEXT_HOPS)?;
        return hop::action(report, connected, &texts, Way { to, vrf: vrf?, leak, port: port.ok()? });
    }
    for name in ["port", "leak"] {
        if let Some(node) = section.node(name) {
            report.error(node.span, node.path, || {
                (format!("'{name}' says where a gateway is, and this route has none"), "remove it".to_string())
            });
        }
    }
    Some(if blackhole { RouteAction::Blackhole } else { RouteAction::Unreachable })
}

/// The interface that `port` names, if it names one. Err: reported, or excused.
fn interface(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &Connected,
) -> Result<Option<InterfaceIndex>, ()> {
    match section.node("port") {
        None => Ok(None),
        Some(_) => section.text(report, "port").ok_or(()).and_then(|text| connected.named(report, &text)).map(Some),
    }
}

pub(super) fn neighbours(report: &mut Report<'_>, root: &Section<'_>, connected: &Connected) -> Vec<NeighbourPlan> {
    let parent = Path::Key(&root.path, "neighbour");
    let mut seen = std::collections::HashMap::new();
    let mut out = Vec::new();
    for (index, span, value) in elements(report, root, "neighbour", MOST_NEIGHBOURS) {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, NEIGHBOUR, "[[neighbour]]") else { continue };
        let mac = section.text(report, "mac").and_then(|text| mac(report, &text));
        let on = interface(report, &section, connected);
        let Some(text) = section.text(report, "address") else { continue };
        let Some(address) = address(report, &text) else { continue };
        let Ok(on) = on else { continue };
        let Ok(interface) = connected.station(report, &text, address, on, MAIN) else { continue };
        let first = *seen.entry((address, interface)).or_insert(index);
        if first != index {
            text.error(report, || {
                (
                    format!("the neighbour {address} is given already, by neighbour[{first}]"),
                    "remove one of the two".to_string(),
                )
            });
        }
        if let Some(mac) = mac {
            out.push(NeighbourPlan { address, mac, interface: connected.interface_name(interface).clone() });
        }
    }
    out.sort_by(|a, b| (&a.interface, a.address).cmp(&(&b.interface, b.address)));
    out
}
