//! A world of hosts as a laboratory of real hosts can have it: all senders on one side, all receivers on the other, and between them one link in each
//! direction that matters.

use crate::describe::{FlowPlan, HostLink, HostsPlan};
use plan::{MediumPlan, Service};
use units::{Nanos, Rate};

/// Links that are at least so fast are only as long as their delay.
const FAST: Rate = Rate::mbit(500);
/// What a frame of Ethernet takes on a link that counts IP packets, besides its bytes.
const IP_ONLY: i32 = -14;

/// One direction.
#[derive(Clone, PartialEq, Debug)]
pub struct Direction {
    /// The name of the link, as values have it.
    pub name: String,
    /// The scheme before it.
    pub scheme: String,
    /// The link, with the delays of all others on the way. It counts IP packets.
    pub medium: MediumPlan,
}

/// What lies between senders and receivers.
#[derive(Clone, PartialEq, Debug)]
pub struct Passage {
    /// From senders to receivers.
    pub forward: Direction,
    /// And back.
    pub back: Direction,
}

impl HostsPlan {
    /// What lies between the senders and the receivers of all flows. Schemes take `most` packets at most.
    ///
    /// # Errors
    ///
    /// Why a laboratory cannot have it: flows in both directions, or several links that are not merely long.
    pub fn passage(&self, most: u64) -> Result<Passage, String> {
        let routes: Vec<(&FlowPlan, [Vec<u32>; 2])> =
            self.flows.iter().filter_map(|flow| Some((flow, self.routes(flow)?))).collect();
        if routes.is_empty() {
            return Err("there is no flow".into());
        }
        let [forward, back] = [0, 1].map(|way| {
            let routes: Vec<(&FlowPlan, &[u32])> = routes.iter().map(|(flow, of)| (*flow, &of[way][..])).collect();
            self.direction(&routes, way, most)
        });
        Ok(Passage { forward: forward?, back: back? })
    }

    fn direction(&self, routes: &[(&FlowPlan, &[u32])], way: usize, most: u64) -> Result<Direction, String> {
        let link = |number: &u32| &self.links[*number as usize];
        let common: Vec<u32> = routes[0]
            .1
            .iter()
            .copied()
            .filter(|number| routes.iter().all(|(_, route)| route.contains(number)))
            .collect();
        // Of several that all take, the one that is slow; else the one next to the receivers.
        let is_slow = |number: &&u32| !is_fast(link(number));
        let next = if way == 0 { common.last() } else { common.first() };
        let chosen = *common.iter().find(is_slow).or(next).ok_or("no link is on the way of all flows")?;
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
        Ok(Direction { name: self.name(link), scheme: bounded(&link.scheme.text, most), medium })
    }
}

/// Whether a link only takes time.
fn is_fast(link: &HostLink) -> bool {
    let usual = MediumPlan::default();
    let HostLink { medium, .. } = link;
    let nothing_else =
        MediumPlan { delay: usual.delay, overhead: usual.overhead, service: usual.service.clone(), ..medium.clone() };
    matches!(medium.service, Service::Constant(rate) if rate >= FAST) && nothing_else == usual
}

/// The text of a scheme, whose limits are no more than `most`: a router has memory for each packet that may wait.
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
    use crate::World;

    fn world(extra: &str) -> HostsPlan {
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
        World::parse(&text, "w.toml").unwrap_or_else(|wrong| panic!("{wrong}")).hosts
    }

    const TWO: &str = "[[flow]]\nname = \"two\"\nfrom = \"b\"\nto = \"far\"\n";

    #[test]
    fn of_a_way_one_link_matters_and_the_others_are_a_delay() {
        for flows in ["", TWO] {
            let Passage { forward, back } = world(flows).passage(5000).unwrap();
            assert_eq!((forward.name.as_str(), back.name.as_str()), ("gateway-far", "far-gateway"));
            assert_eq!(forward.medium.to_string(), "trace x.down mode packet end repeat delay 1ms overhead -14b");
            assert_eq!(back.medium.to_string(), "rate 5500kbit delay 151ms overhead -14b");
            assert!(forward.scheme.starts_with("sfq(") && forward.scheme.matches("limit=5000").count() == 2);
            assert!(!forward.scheme.contains("100000000"), "{}", forward.scheme);
        }
    }

    #[test]
    fn what_a_laboratory_cannot_have_is_told() {
        let back = "[[flow]]\nname = \"two\"\nfrom = \"far\"\nto = \"b\"\n";
        assert_eq!(world(back).passage(9).unwrap_err(), "no link is on the way of all flows");
        let mut two = world(TWO);
        two.links[0].medium.service = Service::Constant(Rate::mbit(2));
        let error = two.passage(9).unwrap_err();
        assert_eq!(error, "on real packets only one link is slow; a-gateway is, besides gateway-far");
        let mut two = world(TWO);
        two.links[2].medium.delay = Nanos::millis(9);
        assert_eq!(two.passage(9).unwrap_err(), "on real packets all flows have one delay; two has another");
    }
}
