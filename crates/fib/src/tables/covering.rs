//! All routes that cover a destination: the route that packets use and the less preferred ones.

use super::{RouteReport, Tables};
use plan::Prefix;
use std::net::IpAddr;
use units::VrfId;

impl Tables {
    /// The routes of every prefix of a VRF that covers `destination`. Longer prefixes come first, and within a prefix the preferred route. Packets
    /// use the first route in this list.
    pub fn covering(&self, vrf: VrfId, destination: IpAddr) -> Vec<RouteReport> {
        let longest = if destination.is_ipv4() { 32 } else { 128 };
        let state = self.state.lock();
        let mut reports = Vec::new();
        for length in (0..=longest).rev() {
            let Some(prefix) = Prefix::new(destination, length).map(Prefix::network) else { continue };
            let candidates = state.candidates(vrf, prefix);
            let best = candidates.best();
            // The best is not always the first by origin: see [`Candidates::best`].
            let others = candidates.iter().filter(|candidate| Some(*candidate) != best);
            for (origin, word) in best.into_iter().chain(others) {
                reports.push(self.report((vrf, prefix), (origin, word), &candidates));
            }
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Outcome};
    use units::InterfaceId;

    #[test]
    fn covering_routes_are_listed_longest_first() {
        let tables = Tables::new();
        let lan = InterfaceId(1);
        for (prefix, origin, outcome) in [
            ("0.0.0.0/0", Origin::Static, Outcome::Unreachable),
            ("10.0.0.0/8", Origin::Static, Outcome::Blackhole),
            ("10.1.0.0/16", Origin::Connected, Outcome::Connected(lan)),
            ("10.1.0.0/16", Origin::Static, Outcome::Blackhole),
            ("10.2.0.0/16", Origin::Static, Outcome::Unreachable),
        ] {
            tables.set_route(prefix.parse().unwrap(), origin, outcome).unwrap();
        }
        let of = |address: &str| -> Vec<String> {
            let routes = tables.covering(VrfId::MAIN, address.parse().unwrap());
            assert_eq!(
                routes.first().map_or(Outcome::NoRoute, |first| first.outcome),
                tables.lookup(address.parse().unwrap())
            );
            routes
                .iter()
                .map(|r| format!("{} {}{}", r.prefix, r.origin.name(), if r.active { "*" } else { "" }))
                .collect()
        };
        assert_eq!(
            of("10.1.2.3"),
            ["10.1.0.0/16 static*", "10.1.0.0/16 connected", "10.0.0.0/8 static*", "0.0.0.0/0 static*"]
        );
        assert_eq!(of("10.3.0.1"), ["10.0.0.0/8 static*", "0.0.0.0/0 static*"]);
        assert_eq!(of("2001:db8::1"), [""; 0]);
    }
}
