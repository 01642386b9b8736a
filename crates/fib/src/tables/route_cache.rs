//! The feeds of the route caches: ranges of the IPv4 routes of each VRF that change with the routes.
//!
//! A route changes in the forwarding table first and in the feed second, both while the lock of the routes is held. The next hop of the old route is
//! released after both, so that no cache leads to it any more.

use super::Tables;
use crate::route_cache::{CacheFeed, IndexPlan, Invalidation, PlanOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::VrfId;

/// Bits of an address.
const WIDTH: u8 = 32;
/// New index bits are chosen when a table has this many times the ranges that it had at the last choice, and at least [`FEW`].
const GROWTH: usize = 2;
const FEW: usize = 1024;

/// The feeds of all VRFs.
#[derive(Default)]
pub(super) struct Feeds {
    /// Index bits of a cache.
    bits: u8,
    feeds: BTreeMap<VrfId, Feed>,
}

struct Feed {
    feed: Arc<CacheFeed<u32>>,
    /// The number of ranges when its index bits were chosen.
    ranges: usize,
}

impl Feeds {
    /// The feed of a VRF, if there are route caches.
    pub fn get(&self, vrf: VrfId) -> Option<Arc<CacheFeed<u32>>> {
        self.feeds.get(&vrf).map(|feed| feed.feed.clone())
    }
}

impl Tables {
    /// Prepares route caches of `entries` ranges, a power of two, for all VRFs with interfaces. With 0 no cache may be in use any more.
    pub fn set_route_cache(&self, entries: usize) {
        let mut state = self.state.lock();
        if entries == 0 {
            state.feeds = Feeds::default();
            return;
        }
        assert!(entries.is_power_of_two(), "one set for each value of the index bits");
        let bits = entries.trailing_zeros() as u8;
        let resized = std::mem::replace(&mut state.feeds.bits, bits) != bits;
        for vrf in self.attached_vrfs() {
            let ranges = state.rib(vrf).v4.ranges_within((0, 0));
            let options = PlanOptions::new(bits);
            match state.feeds.feeds.get_mut(&vrf) {
                Some(_) if !resized => {}
                Some(Feed { feed, .. }) => feed.replace(IndexPlan::choose(WIDTH, &ranges, &options), &ranges),
                None => {
                    let feed = CacheFeed::new(WIDTH, &ranges, &options, Invalidation::Affected);
                    let made = Feed { ranges: feed.totals().ranges, feed: feed.into() };
                    state.feeds.feeds.insert(vrf, made);
                }
            }
        }
    }

    /// The feed for route caches of a VRF. `None` without route caches.
    pub fn route_feed(&self, vrf: VrfId) -> Option<Arc<CacheFeed<u32>>> {
        self.state.lock().feeds.get(vrf)
    }

    /// Chooses new index bits for the tables that have grown much since the last choice.
    pub(super) fn replan_route_caches(&self) {
        let grown: Vec<VrfId> = {
            let state = self.state.lock();
            let much = |feed: &Feed| feed.feed.totals().ranges > FEW.max(feed.ranges * GROWTH);
            state.feeds.feeds.iter().filter(|(_, feed)| much(feed)).map(|(&vrf, _)| vrf).collect()
        };
        for vrf in grown {
            let (bits, ranges) = {
                let mut state = self.state.lock();
                (state.feeds.bits, state.rib(vrf).v4.ranges_within((0, 0)))
            };
            // The choice takes long with many routes, and need not see the last changes: any bits are correct.
            let plan = IndexPlan::choose(WIDTH, &ranges, &PlanOptions::new(bits));
            let mut state = self.state.lock();
            let ranges = state.rib(vrf).v4.ranges_within((0, 0));
            if let Some(of) = state.feeds.feeds.get_mut(&vrf) {
                of.feed.replace(plan, &ranges);
                of.ranges = of.feed.totals().ranges;
            }
        }
    }

    /// The VRFs that have or had interfaces, and the main one.
    fn attached_vrfs(&self) -> impl Iterator<Item = VrfId> + '_ {
        let others = (0..).zip(&self.vrfs).filter(|(_, vrf)| vrf.get().is_some()).map(|(id, _)| VrfId(id));
        std::iter::once(VrfId::MAIN).chain(others)
    }
}
