//! All declared counters of ports, links, paths, multicast groups and workers.

use super::Daemon;
use super::report::Answer;
use crate::api;

impl Daemon {
    /// Returns all counters.
    pub fn counters(&self) -> Answer<api::CountersReply> {
        let mut all = api::CountersReply { time_ns: self.now_ns(), counters: Vec::new() };
        for port in self.ports()?.ports {
            all.add("port", &port.name, &port.counters.0);
            all.add("port", &port.name, &port.link.0);
            all.add("port", &port.name, &port.route_cache.0);
            all.add("port", &port.name, &port.dfq_counters.0);
        }
        for link in self.links(None, 0)?.links {
            all.add("link", &format!("{}, worker {}", link.port, link.worker), &link.counters.0);
        }
        for path in self.paths()?.paths {
            all.add("path", &path.name, &path.counters.0);
        }
        for group in self.multicast()?.groups {
            let source = group.source.map_or_else(String::new, |source| format!(" from {source}"));
            all.add("multicast", &format!("{}{source}", group.group), &group.counters.0);
        }
        let linux = self.linux();
        for protocol in linux.protocols {
            all.add("punt", &protocol.protocol, &protocol.counters.0);
        }
        for relay in linux.dhcp_relays {
            all.add("dhcp_relay", &relay.interface, &relay.counters.0);
        }
        for worker in self.workers().workers {
            all.add("worker", &worker.worker.to_string(), &worker.stalls.0);
        }
        Ok(all)
    }
}
