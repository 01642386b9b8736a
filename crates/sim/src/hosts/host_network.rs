//! A world of hosts as a laboratory of real hosts can run it: all senders on one side, all receivers on the other, and one relevant link per
//! direction between them.

use crate::describe::{FlowPlan, HostLink, HostsPlan, WorldEvent, WorldPlan};
use plan::{LinkService, MediumPlan, SchemeChange};
use units::{Instant, Nanos, Rate};

/// Links of at least this rate count as pure delay.
const FAST: Rate = Rate::mbit(500);
/// The overhead of an Ethernet frame on a link that counts IP packets: the header does not count.
const IP_ONLY: i32 = -14;

/// One direction.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkDirection {
    /// The name of the link, as in measured values.
    pub name: String,
    /// The queueing scheme of the link.
    pub scheme: String,
    /// The link, with the delays of all other links of the route. It counts IP packets.
    pub medium: MediumPlan,
    /// The schemes that replace its scheme, in the order of their times.
    pub changes: Vec<SchemeReplacement>,
}

/// A change of a link's scheme.
#[derive(Clone, PartialEq, Debug)]
pub struct SchemeReplacement {
    /// The time.
    pub at: Instant,
    /// The new scheme.
    pub scheme: String,
    /// The treatment of queued packets.
    pub transition: SchemeChange,
}

/// The network between senders and receivers.
#[derive(Clone, PartialEq, Debug)]
pub struct HostNetwork {
    /// From senders to receivers.
    pub forward: NetworkDirection,
    /// From receivers to senders.
    pub back: NetworkDirection,
}

impl WorldPlan {
    /// The network between its senders and its receivers, and the events on it. Schemes are limited to `most` packets.
    ///
    /// # Errors
    ///
    /// A laboratory cannot run the world: flows in both directions, several slow links, or a link whose medium changes.
    pub fn host_network(&self, most: u64) -> Result<HostNetwork, String> {
        let mut passage = self.hosts.without_events(most)?;
        for (at, happening) in &self.events {
            let (link, scheme, waiting) = match happening {
                WorldEvent::Scheme(link, scheme, waiting) => (&self.hosts.links[*link], scheme, *waiting),
                _ => return Err("on real packets only the scheme of a link can change".into()),
            };
            let name = self.hosts.name(link);
            let Some(way) = [&mut passage.forward, &mut passage.back].into_iter().find(|way| way.name == name) else {
                return Err(format!("on real packets {name} is a plain delay, and its scheme cannot change"));
            };
            way.changes.push(SchemeReplacement { at: *at, scheme: bounded(&scheme.text, most), transition: waiting });
        }
        for way in [&mut passage.forward, &mut passage.back] {
            way.changes.sort_by_key(|change| change.at);
        }
        Ok(passage)
    }
}

impl HostsPlan {
    /// The network between the senders and receivers of all flows, without events.
    fn without_events(&self, most: u64) -> Result<HostNetwork, String> {
        let routes: Vec<(&FlowPlan, [Vec<u32>; 2])> =
            self.flows.iter().filter_map(|flow| Some((flow, self.routes(flow)?))).collect();
        if routes.is_empty() {
            return Err("there is no flow".into());
        }
        let [forward, back] = [0, 1].map(|way| {
            let routes: Vec<(&FlowPlan, &[u32])> = routes.iter().map(|(flow, of)| (*flow, &of[way][..])).collect();
            self.direction(&routes, way, most)
        });
        Ok(HostNetwork { forward: forward?, back: back? })
    }

    fn direction(&self, routes: &[(&FlowPlan, &[u32])], way: usize, most: u64) -> Result<NetworkDirection, String> {
        let link = |number: &u32| &self.links[*number as usize];
        let common: Vec<u32> = routes[0]
            .1
            .iter()
            .copied()
            .filter(|number| routes.iter().all(|(_, route)| route.contains(number)))
            .collect();
        // Of the links on all routes take the slow one; if all are fast, the one next to the receivers.
        let is_slow = |number: &&u32| !is_fast(link(number));
        let next = if way == 0 { common.last() } else { common.first() };
        let chosen = *common.iter().find(is_slow).or(next).ok_or("no link is on the path of all flows")?;
        let mut delay: Option<Nanos> = None;
        for (flow, route) in routes {
            let others = || route.iter().filter(|number| **number != chosen).map(link);
            if let Some(slow) = others().find(|link| !is_fast(link)) {
                let (name, chosen) = (self.name(slow), self.name(link(&chosen)));
                return Err(format!("on real packets only one link is slow; {name} is, besides {chosen}"));
            }
            let all = others().fold(link(&chosen).medium.delay, |sum, link| sum + link.medium.delay);
            if delay.replace(all).is_some_and(|other| other != all) {
                return Err(format!("on real packets all flows have one delay; {} has another", flow.name));
            }
        }
        let link = link(&chosen);
        let medium = MediumPlan { delay: delay.unwrap_or_default(), overhead: IP_ONLY, ..link.medium.clone() };
        Ok(NetworkDirection {
            name: self.name(link),
            scheme: bounded(&link.scheme.text, most),
            medium,
            changes: Vec::new(),
        })
    }
}

/// True if a link is pure delay.
fn is_fast(link: &HostLink) -> bool {
    let usual = MediumPlan::default();
    let HostLink { medium, .. } = link;
    let nothing_else =
        MediumPlan { delay: usual.delay, overhead: usual.overhead, service: usual.service.clone(), ..medium.clone() };
    matches!(medium.service, LinkService::Constant(rate) if rate >= FAST) && nothing_else == usual
}

/// The text of a scheme with limits of at most `most`: a router has memory for each packet that may wait.
fn bounded(scheme: &str, most: u64) -> String {
    let mut parts = scheme.split("limit=");
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let limit = part[..digits].parse().map_or(most, |limit: u64| limit.min(most));
        out += &format!("limit={limit}{}", &part[digits..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorldPlan;

    fn world(extra: &str) -> WorldPlan {
        let text = format!(
            r#"
duration = "20s"
host = [{{ name = "a" }}, {{ name = "b" }}, {{ name = "gateway" }}, {{ name = "far" }}]
[[link]]
between = ["a", "gateway"]
rate = "1gbit"
delay = "1ms"
scheme = "codel"
[[link]]
between = ["b", "gateway"]
rate = "1gbit"
delay = "1ms"
[[link]]
between = ["gateway", "far"]
scheme = "sfq(limit=100000000){{codel(limit=100000000)}}"
forward = {{ trace = "x.down", mode = "packet" }}
back = {{ rate = "5.5mbit", delay = "150ms" }}
[[flow]]
name = "one"
from = "a"
to = "far"
{extra}
"#
        );
        WorldPlan::parse(&text, "w.toml").unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    const TWO: &str = "[[flow]]\nname = \"two\"\nfrom = \"b\"\nto = \"far\"\n";

    #[test]
    fn fast_links_count_as_delay() {
        for flows in ["", TWO] {
            let HostNetwork { forward, back } = world(flows).host_network(5000).unwrap();
            assert_eq!((forward.name.as_str(), back.name.as_str()), ("gateway-far", "far-gateway"));
            assert_eq!(forward.medium.to_string(), "trace x.down mode packet end repeat delay 1ms overhead -14b");
            assert_eq!(back.medium.to_string(), "rate 5500kbit delay 151ms overhead -14b");
            assert!(forward.scheme.starts_with("sfq(") && forward.scheme.matches("limit=5000").count() == 2);
            assert!(!forward.scheme.contains("100000000"), "{}", forward.scheme);
        }
    }

    #[test]
    fn scheme_replacements_are_ordered_by_time() {
        let at = |time: &str, link: &str, what: &str| {
            format!("[[at]]\ntime = \"{time}\"\nlink = \"{link}\"\n{what}\nevery = \"8s\"\n")
        };
        let (codel, fifo) = ("scheme = \"codel(limit=100000000)\"\nchange = \"drain\"", "scheme = \"fifo\"");
        let both = at("4s", "gateway-far", codel) + &at("2s", "gateway-far", fifo);
        let passage = world(&both).host_network(5000).unwrap();
        let told: Vec<String> =
            passage.forward.changes.iter().map(|c| format!("{} {}", c.at.get(), c.scheme)).collect();
        assert_eq!(told.len(), 5, "{told:?}");
        assert!(told[0].starts_with("2000000000 fifo(") && told[1].contains(",limit=5000,"), "{told:?}");
        assert_eq!(passage.forward.changes[1].transition, SchemeChange::Drain);
        assert!(passage.back.changes.is_empty());
        let access = world(&at("4s", "a-gateway", codel)).host_network(9).unwrap_err();
        assert_eq!(access, "on real packets a-gateway is a plain delay, and its scheme cannot change");
        let slower = world(&at("4s", "gateway-far", "rate = \"1mbit\"")).host_network(9).unwrap_err();
        assert_eq!(slower, "on real packets only the scheme of a link can change");
    }

    #[test]
    fn worlds_that_a_laboratory_cannot_run_are_errors() {
        let back = "[[flow]]\nname = \"two\"\nfrom = \"far\"\nto = \"b\"\n";
        assert_eq!(world(back).host_network(9).unwrap_err(), "no link is on the path of all flows");
        let mut two = world(TWO);
        two.hosts.links[0].medium.service = LinkService::Constant(Rate::mbit(2));
        let error = two.host_network(9).unwrap_err();
        assert_eq!(error, "on real packets only one link is slow; a-gateway is, besides gateway-far");
        let mut two = world(TWO);
        two.hosts.links[2].medium.delay = Nanos::millis(9);
        assert_eq!(two.host_network(9).unwrap_err(), "on real packets all flows have one delay; two has another");
    }
}
