//! Next hops: `ADDRESS [port NAME] [weight N]`, in a configuration and in a batch of changes.

use crate::Prefix;
use crate::connected::{Connected, InterfaceIndex, VrfIndex, address};
use crate::diagnostic::{Report, more_than};
use crate::document::Text;
use crate::names::Name;
use crate::text::{did_you_mean, quote};
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Limit of next hops of one route.
pub(crate) const MOST_NEXT_HOPS: usize = 64;
/// Limit of the sum of weights of a route's next hops.
const MOST_WEIGHT: usize = 512;

/// The treatment of packets that match a route.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteAction {
    /// Sent to a next hop.
    Via {
        /// Its address, of the destination's family.
        gateway: IpAddr,
        /// The interface whose subnet it is on.
        interface: Name,
    },
    /// Sent to one of several next hops, selected by flow; at least two.
    Group(Arc<[NextHopPlan]>),
    /// Dropped silently.
    Blackhole,
    /// Dropped with an ICMP error to the sender.
    Unreachable,
}

impl fmt::Display for RouteAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteAction::Via { gateway, interface } => write!(f, "via {gateway} port {interface}"),
            RouteAction::Group(hops) => {
                let text: Vec<String> = hops.iter().map(|hop| format!("via {hop}")).collect();
                f.write_str(&text.join(" "))
            }
            RouteAction::Blackhole => f.write_str("blackhole"),
            RouteAction::Unreachable => f.write_str("unreachable"),
        }
    }
}

/// One of several next hops.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct NextHopPlan {
    /// The interface whose subnet it is on.
    pub interface: Name,
    /// Its address.
    pub gateway: IpAddr,
    /// Its weight among the others; at least 1.
    pub weight: u16,
}

impl fmt::Display for NextHopPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.gateway, self.interface)?;
        if self.weight == 1 { Ok(()) } else { write!(f, " weight {}", self.weight) }
    }
}

/// Common properties of a route's next hops.
#[derive(Clone, Copy)]
pub(crate) struct NextHopContext {
    /// The destination, if it was valid.
    pub to: Option<Prefix>,
    /// The VRF of the route.
    pub vrf: VrfIndex,
    /// True if they may be in another VRF.
    pub leak: bool,
    /// Their interface, unless a hop names its own.
    pub port: Option<InterfaceIndex>,
}

/// The action of a route with the next hops `texts`. `None` if it was reported.
pub(crate) fn action(
    report: &mut Report<'_>,
    connected: &Connected,
    texts: &[Text<'_>],
    way: NextHopContext,
) -> Option<RouteAction> {
    if let Some(text) = texts.get(MOST_NEXT_HOPS) {
        text.error(report, || more_than(MOST_NEXT_HOPS, "next hops"));
        return None;
    }
    let mut hops: Vec<NextHopPlan> = Vec::with_capacity(texts.len());
    let mut whole = true;
    for text in texts {
        let Some(hop) = next_hop(report, connected, text, way) else {
            whole = false;
            continue;
        };
        if hops.iter().any(|other| (&other.interface, other.gateway) == (&hop.interface, hop.gateway)) {
            text.error(report, || {
                let reason = format!("{} is given twice", hop.gateway);
                (reason, "write it once, with a weight for a larger share".to_string())
            });
            whole = false;
        }
        hops.push(hop);
    }
    let (last, total) = (texts.last()?, hops.iter().map(|hop| usize::from(hop.weight)).sum::<usize>());
    if hops.len() > 1 && total > MOST_WEIGHT {
        last.error(report, || {
            (format!("the sum of the weights is {total}, more than {MOST_WEIGHT}"), "use smaller ones".to_string())
        });
        return None;
    }
    if !whole {
        return None;
    }
    if hops.len() == 1 {
        return hops.pop().map(|NextHopPlan { interface, gateway, .. }| RouteAction::Via { gateway, interface });
    }
    hops.sort_unstable();
    Some(RouteAction::Group(hops.into()))
}

fn next_hop(
    report: &mut Report<'_>,
    connected: &Connected,
    text: &Text<'_>,
    way: NextHopContext,
) -> Option<NextHopPlan> {
    let mut words = text.words(report.part());
    // An empty text is a missing address.
    let first = words.next().unwrap_or_else(|| text.clone());
    let (mut port, mut weight) = (Ok(way.port), Some(1));
    while let Some(word) = words.next() {
        let value = words.next();
        match (word.value, value) {
            ("port", Some(name)) => port = connected.named(report, &name).map(Some),
            ("weight", Some(number)) => weight = read_weight(report, &number),
            ("port" | "weight", None) => {
                word.error(report, || {
                    (format!("'{}' has no value", word.value), "write 'port lan', 'weight 2'".into())
                });
                return None;
            }
            (other, _) => {
                word.error(report, || {
                    let hint = did_you_mean(other, ["port", "weight"]);
                    (format!("unexpected {} after a next hop", quote(other)), hint)
                });
                return None;
            }
        }
    }
    let gateway = address(report, &first)?;
    if let Some(to) = way.to.filter(|to| to.address.is_ipv4() != gateway.is_ipv4()) {
        first.error(report, || {
            let family = if to.address.is_ipv4() { "IPv4" } else { "IPv6" };
            let reason = format!("{gateway} and the destination {to} are of different families");
            (reason, format!("write the {family} address of the gateway"))
        });
        return None;
    }
    let (port, weight) = (port.ok()?, weight?);
    if let Some(on) = port
        && !connected.is_gateway_in_vrf(report, &first, on, (way.vrf, way.leak))
    {
        return None;
    }
    let interface = connected.host_interface(report, &first, gateway, port, way.vrf).ok()?;
    Some(NextHopPlan { interface: connected.interface_name(interface).clone(), gateway, weight })
}

fn read_weight(report: &mut Report<'_>, text: &Text<'_>) -> Option<u16> {
    let digits = text.value.bytes().all(|byte| byte.is_ascii_digit());
    let weight = text.value.parse().ok().filter(|weight| digits && (1..=MOST_WEIGHT as u16).contains(weight));
    if weight.is_none() {
        text.error(report, || {
            (format!("{} is no weight", quote(text.value)), format!("write a number from 1 to {MOST_WEIGHT}"))
        });
    }
    weight
}
