//! Guarantees of more than a site's bandwidth: they are reduced in proportion.
//!
//! No site can keep guarantees above its bandwidth. Other shapers accept such plans, so they are no errors here. If the guarantees below a site exceed its
//! bandwidth, all of them are reduced by the same factor. The site above it then counts the reduced guarantees.

use super::{PlanRates, Subscriber, SubscriberPlan, SubscriberSite};
use crate::share::{SHARE_RATES, ShareName};
use std::collections::HashMap;
use units::Rate;

/// A site whose guarantees had to be reduced in one direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OversubscribedSite {
    /// The site; `None` for the port.
    pub site: Option<ShareName>,
    /// True for the direction toward the subscribers.
    pub is_down: bool,
    /// The sum of the guarantees below it, as the sites below it reduced them.
    pub guaranteed: Rate,
    /// Its bandwidth, to which they were reduced.
    pub bandwidth: Rate,
}

/// One direction: the bandwidth of a site, and the rates of a subscriber.
struct Direction {
    is_down: bool,
    bandwidth: fn(&SubscriberSite) -> Option<Rate>,
    rates: fn(&mut Subscriber) -> &mut PlanRates,
}

const DIRECTIONS: [Direction; 2] = [
    Direction { is_down: true, bandwidth: |site| site.down, rates: |one| &mut one.down },
    Direction { is_down: false, bandwidth: |site| site.up, rates: |one| &mut one.up },
];

impl SubscriberPlan {
    /// Reduces guarantees in proportion wherever they exceed the bandwidth of their site, or that of the port, and reports each of these sites, in each
    /// direction the port first. A guarantee that would be below 1kbit is removed. The files of subscribers are read with the sites' bandwidths, so only the port's remain
    /// to be compared by the caller.
    pub fn reduce_guarantees(&mut self, down: Option<Rate>, up: Option<Rate>) -> Vec<OversubscribedSite> {
        let SubscriberPlan { sites, subscribers } = self;
        let places: HashMap<&ShareName, usize> =
            sites.iter().enumerate().map(|(place, site)| (&site.name, place)).collect();
        // The port comes behind the sites.
        let port = sites.len();
        let place = |parent: &Option<ShareName>| parent.as_ref().map_or(port, |name| places[name]);
        let above: Vec<usize> = sites.iter().map(|site| place(&site.parent)).collect();
        let above_subscriber: Vec<usize> = subscribers.iter().map(|one| place(&one.parent)).collect();
        let mut all = Vec::new();
        for (direction, port_rate) in DIRECTIONS.iter().zip([down, up]) {
            let mut reduced = Vec::new();
            let mut sums = vec![0u128; port + 1];
            for (one, above) in subscribers.iter_mut().zip(&above_subscriber) {
                sums[*above] += u128::from((direction.rates)(one).rate.map_or(0, Rate::get));
            }
            // The factor of each site, as a fraction. Children come before their parents.
            let mut factors: Vec<Option<(u128, u128)>> = vec![None; port + 1];
            for at in (0..port).rev().chain([port]) {
                let bandwidth = if at == port { port_rate } else { (direction.bandwidth)(&sites[at]) };
                if let Some(bandwidth) = bandwidth.filter(|bandwidth| sums[at] > u128::from(bandwidth.get())) {
                    factors[at] = Some((u128::from(bandwidth.get()), sums[at]));
                    let guaranteed = Rate::bits(u64::try_from(sums[at]).unwrap_or(u64::MAX));
                    let site = sites.get(at).map(|site| site.name.clone());
                    reduced.push(OversubscribedSite { site, is_down: direction.is_down, guaranteed, bandwidth });
                    sums[at] = u128::from(bandwidth.get());
                }
                if at < port {
                    let sum = sums[at];
                    sums[above[at]] += sum;
                }
            }
            if reduced.is_empty() {
                continue;
            }
            all.extend(reduced.into_iter().rev());
            for (one, first) in subscribers.iter_mut().zip(&above_subscriber) {
                let rates = (direction.rates)(one);
                let path = std::iter::successors(Some(*first), |at| above.get(*at).copied());
                // Rounding down at each site keeps every sum within its bandwidth.
                let left = |rate: Rate| {
                    let product = |rate, (numerator, denominator): (u128, u128)| rate * numerator / denominator;
                    let reduced = path.filter_map(|at| factors[at]).fold(u128::from(rate.get()), product);
                    Rate::bits(reduced as u64)
                };
                rates.rate = rates.rate.map(left).filter(|rate| rate >= SHARE_RATES.start());
            }
        }
        all
    }
}
