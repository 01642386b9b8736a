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
        let report = |route: &MulticastRoute, vrf: Option<&plan::Name>, origin: &str, counters: GroupCounters| {
            api::MulticastGroup {
                vrf: vrf.map(ToString::to_string),
                group: route.key.group.to_string(),
                source: route.key.source.map(|source| source.to_string()),
                origin: origin.into(),
                from: names.interface(route.from),
                to: route.to.iter().map(|&to| names.interface(to)).collect(),
                counters: api::CounterFields(counters),
            }
        };
        let configured = |(position, route): (usize, &MulticastRoute)| {
            let mut counted = GroupCounters::default();
            // A worker with an older generation counts for other groups.
            let current = reports.iter().filter(|report| report.generation == snapshot.generation);
            current.filter_map(|report| report.groups.get(position)).for_each(|&one| counted += one);
            // Plan and snapshot list the groups in the same order.
            let vrf = plan.and_then(|plan| plan.multicast.get(position)).and_then(|group| group.vrf.as_ref());
            report(route, vrf, "configuration", counted)
        };
        let mut groups: Vec<_> = snapshot.multicast.iter().enumerate().map(configured).collect();
        let of_kernel = snapshot.kernel_groups.latest();
        groups.extend(of_kernel.iter().map(|(route, counted)| report(route, None, "kernel", counted)));
        Ok(api::Multicast { time_ns: self.now_ns(), groups })
    }
}
