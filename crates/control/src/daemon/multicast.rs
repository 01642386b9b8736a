//! Reports about multicast groups.

use super::Daemon;
use super::report::Answer;
use crate::api;
use plane::multicast::{GroupCounters, MulticastRoute};

impl Daemon {
    /// Returns the multicast groups.
    pub fn multicast(&self) -> Answer<api::Multicast> {
        let reports = self.reports()?;
        let names = self.names();
        let control = self.control.lock();
        let (snapshot, plan) = (control.router.snapshot(), control.router.plan());
        let told = |(position, route): (usize, &MulticastRoute)| {
            let mut counted = GroupCounters::default();
            // A worker with an older generation counts for other groups.
            let current = reports.iter().filter(|report| report.generation == snapshot.generation);
            current.filter_map(|report| report.groups.get(position)).for_each(|&one| counted += one);
            // Plan and snapshot list the groups in the same order.
            let vrf = plan.and_then(|plan| plan.multicast.get(position)).and_then(|group| group.vrf.as_ref());
            api::MulticastGroup {
                vrf: vrf.map(ToString::to_string),
                group: route.key.group.to_string(),
                source: route.key.source.map(|source| source.to_string()),
                from: names.interface(route.from),
                to: route.to.iter().map(|&to| names.interface(to)).collect(),
                counters: api::CounterFields(counted),
            }
        };
        Ok(api::Multicast { time_ns: self.now_ns(), groups: snapshot.multicast.iter().enumerate().map(told).collect() })
    }
}
