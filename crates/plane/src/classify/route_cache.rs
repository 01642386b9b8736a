//! The route cache of a port on one worker, in front of the IPv4 forwarding table of the port's VRF.

use fib::route_cache::{CacheFeed, CacheShape, RouteCache, RouteCacheCounters};
use fib::{Tables, Vrf};
use std::sync::Arc;

/// A cache and the feed that keeps it current.
pub(crate) struct ActiveCache {
    feed: Arc<CacheFeed<u32>>,
    cache: RouteCache<u32>,
}

impl ActiveCache {
    /// Looks up the routes of packets of one port in its cache, then in the table of its VRF; `None` for the main one. Not inlined, so that a router
    /// without caches has only one branch more for each chunk.
    #[inline(never)]
    pub fn look_up(&mut self, tables: &Tables, vrf: Option<&Vrf>, keys: &[u32], words: &mut [u32]) {
        let table = |keys: &[u32], words: &mut [u32]| match vrf {
            None => tables.fib4().lookup_bulk(keys, words),
            Some(vrf) => vrf.lookup_bulk4(keys, words),
        };
        self.feed.lookup_bulk(&mut self.cache, keys, words, table);
    }
}

/// The route cache of a port, if the configuration has route caches.
#[derive(Default)]
pub(crate) struct PortRouteCache {
    active: Option<Box<ActiveCache>>,
    /// The counters of earlier caches: those of a port only grow.
    earlier: RouteCacheCounters,
}

impl PortRouteCache {
    /// Uses the caches of `feed`. A cache of the same feed stays.
    pub fn adopt(&mut self, feed: Option<Arc<CacheFeed<u32>>>) {
        let same = match (&self.active, &feed) {
            (Some(active), Some(feed)) => Arc::ptr_eq(&active.feed, feed),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.earlier = self.counters();
            let active = feed.map(|feed| ActiveCache { cache: feed.cache(CacheShape::default()), feed });
            self.active = active.map(Box::new);
        }
    }

    /// The counters since the port was opened.
    pub fn counters(&self) -> RouteCacheCounters {
        let mut sum = self.earlier;
        self.active.iter().for_each(|active| sum += *active.cache.counters());
        sum
    }

    /// The cache, if there is one.
    #[inline(always)]
    pub fn active(&mut self) -> Option<&mut ActiveCache> {
        self.active.as_deref_mut()
    }
}
