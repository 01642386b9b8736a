//! The route cache of a port on one worker, in front of the IPv4 forwarding table of the port's VRF.

use fib::route_cache::{CacheFeed, CacheShape, RouteCache, RouteCacheCounters};
use std::sync::Arc;

/// A cache and the feed that keeps it current.
pub(crate) struct ActiveCache {
    pub feed: Arc<CacheFeed<u32>>,
    pub cache: RouteCache<u32>,
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
