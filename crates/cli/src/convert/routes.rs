//! Routes: `ip -j route` and `ip -6 -j route`. Rules of policy routing are reported.

use super::draft::{Draft, DumpPlace};
use super::dumps::{DumpObject, text};
use super::interfaces::Interfaces;
use plan::Prefix;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Origins of routes that other programs maintain (rt_protos of iproute2).
const DAEMONS: [&str; 13] =
    ["gated", "mrt", "zebra", "bird", "dnrouted", "xorp", "ntk", "keepalived", "babel", "bgp", "isis", "ospf", "rip"];
/// Destinations that a router never forwards to, and the kernel's table has them anyway.
const MAINTAINED: [&str; 3] = ["local", "broadcast", "anycast"];

/// A route that stays a candidate until all of its prefix are known.
struct Converted {
    place: DumpPlace,
    metric: u64,
    text: String,
}

/// The interfaces of next hops, which become ports even without an address.
pub(super) fn used_interfaces(objects: &[DumpObject]) -> impl Iterator<Item = String> {
    let of = |object: &DumpObject| {
        let hops = object.value["nexthops"].as_array().into_iter().flatten();
        let gateways = hops.chain([&object.value]).filter(|hop| hop["gateway"].is_string());
        gateways.map(|hop| text(&hop["dev"]).to_owned()).collect::<Vec<_>>()
    };
    objects.iter().flat_map(of)
}

/// Adds the routes.
pub(super) fn convert(objects: &[DumpObject], interfaces: &Interfaces, draft: &mut Draft) {
    let mut routes: BTreeMap<Prefix, Vec<Converted>> = BTreeMap::new();
    for object in objects {
        let value = &object.value;
        let place = DumpPlace::new(&object.source, format!("route {}", text(&value["dst"])));
        let Some(prefix) = destination(value) else {
            draft.leave_out(place, "its destination is no prefix");
            continue;
        };
        if is_maintained(value, prefix, interfaces) {
            continue;
        }
        let metric = value["metric"].as_u64().unwrap_or(0);
        match route(value, prefix, interfaces) {
            Ok(text) => {
                if let Some(reason) = surplus(value) {
                    draft.warn(place.clone(), reason);
                }
                routes.entry(prefix).or_default().push(Converted { place, metric, text });
            }
            Err(reason) => draft.leave_out(place, reason),
        }
    }
    for (prefix, mut same) in routes {
        same.sort_by_key(|route| route.metric);
        for (number, route) in same.into_iter().enumerate() {
            if number == 0 {
                draft.piece(None, route.place, format!("\n[[route]]\nto = \"{prefix}\"\n{}", route.text));
            } else {
                let reason = "another route to the same prefix has a lower metric; the router has one for each prefix";
                draft.leave_out(route.place, reason);
            }
        }
    }
}

/// Reports the rules that differ from those of every machine.
pub(super) fn report_rules(objects: &[DumpObject], draft: &mut Draft) {
    for object in objects {
        let (value, table) = (&object.value, text(&object.value["table"]));
        let is_usual = value["src"] == "all"
            && matches!(
                (value["priority"].as_u64(), table),
                (Some(0), "local") | (Some(32766), "main") | (Some(32767), "default")
            )
            && value.as_object().is_some_and(|members| members.len() <= 3);
        if !is_usual {
            let object_name = format!("rule with priority {}", value["priority"]);
            let reason = "policy routing is not converted: `vrf` of a port selects a table by the input interface";
            draft.leave_out(DumpPlace::new(&object.source, object_name), reason);
        }
    }
}

/// The prefix of the destination. A default route has the family of its gateway, or that of the dump: only IPv6 prints a preference.
fn destination(value: &Value) -> Option<Prefix> {
    match text(&value["dst"]) {
        "default" => {
            let first = value["nexthops"].as_array().and_then(|hops| hops.first()).unwrap_or(value);
            let gateway = text(&first["gateway"]).parse::<IpAddr>().ok();
            let is_v6 = gateway.map_or(value.get("pref").is_some(), |gateway| gateway.is_ipv6());
            let any: IpAddr = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            Prefix::new(any, 0)
        }
        prefix if prefix.contains('/') => prefix.parse().ok(),
        host => host.parse().ok().map(Prefix::host),
    }
}

/// Routes that follow from addresses: the kernel makes them, and so does the router.
fn is_maintained(value: &Value, prefix: Prefix, interfaces: &Interfaces) -> bool {
    let kind = text(&value["type"]);
    let is_connected = value["protocol"] == "kernel" && !value["gateway"].is_string() && !value["nexthops"].is_array();
    let is_link_local = matches!(prefix.address, IpAddr::V6(address) if address.is_unicast_link_local());
    MAINTAINED.contains(&kind)
        || prefix.address.is_multicast()
        || is_link_local
        || prefix.address.is_loopback()
        || (is_connected && (interfaces.is_connected(text(&value["dev"]), prefix) || value["dev"] == "lo"))
}

/// The lines behind the destination, or why there are none.
fn route(value: &Value, prefix: Prefix, interfaces: &Interfaces) -> Result<String, String> {
    if let Some(table) = value["table"].as_str().filter(|table| *table != "main") {
        return Err(format!("it is in the table '{table}': policy routing and VRFs are not converted"));
    }
    for key in ["encap", "tos", "from"] {
        if !value[key].is_null() {
            return Err(format!("routes with '{key}' have no counterpart"));
        }
    }
    match value["protocol"].as_str() {
        Some("dhcp" | "ra" | "redirect") => {
            return Err("DHCP or a router advertisement has set it: with [linux] the client sets it again".into());
        }
        Some(daemon) if DAEMONS.contains(&daemon) || daemon == "eigrp" || daemon == "openr" => {
            return Err(format!(
                "'{daemon}' maintains it: with [linux] the router takes it over from the kernel's table"
            ));
        }
        _ => {}
    }
    match text(&value["type"]) {
        "" | "unicast" => {}
        "blackhole" => return Ok("blackhole = true".into()),
        "unreachable" | "prohibit" => return Ok("unreachable = true".into()),
        other => return Err(format!("routes of the type '{other}' have no counterpart")),
    }
    let hops = value["nexthops"].as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
    let hops = hops.iter().map(|hop| next_hop(hop, prefix, interfaces)).collect::<Result<Vec<_>, _>>()?;
    match &hops[..] {
        [] => Err("it has no next hop".into()),
        [(gateway, port, _)] => Ok(format!("via = \"{gateway}\"\nport = \"{port}\"")),
        several => {
            let lines =
                several.iter().map(|(gateway, port, weight)| format!("  \"{gateway} port {port} weight {weight}\",\n"));
            Ok(format!("via = [\n{}]", lines.collect::<String>()))
        }
    }
}

/// The gateway, the interface and the weight of a next hop.
fn next_hop<'i>(hop: &Value, prefix: Prefix, interfaces: &'i Interfaces) -> Result<(IpAddr, &'i str, u64), String> {
    if hop["via"].is_object() {
        return Err("its gateway is of the other IP version".into());
    }
    let Some(gateway) = hop["gateway"].as_str() else {
        return Err(match hop["nhid"].as_u64() {
            Some(id) => format!("it uses the next-hop object {id}, which the dump does not resolve"),
            None => "it has no gateway, and the router reaches only the networks of its addresses directly: give the port an address there".into(),
        });
    };
    let gateway: IpAddr = gateway.parse().map_err(|_| format!("{} is no gateway", plan::quote(gateway)))?;
    if gateway.is_ipv4() != prefix.address.is_ipv4() {
        return Err("its gateway is of the other IP version".into());
    }
    let interface = text(&hop["dev"]);
    let port =
        interfaces.name(interface).ok_or_else(|| format!("its interface {} is no port", plan::quote(interface)))?;
    Ok((gateway, port, hop["weight"].as_u64().unwrap_or(1)))
}

/// The parts of a converted route that are lost.
fn surplus(value: &Value) -> Option<String> {
    if value["type"] == "prohibit" {
        return Some("the router answers with 'unreachable', not with 'prohibited'".into());
    }
    (!value["metrics"].is_null()).then(|| format!("its metrics are lost: {}", value["metrics"]))
}
