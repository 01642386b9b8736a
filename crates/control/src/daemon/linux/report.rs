//! Reports about the interfaces of the kernel.

use super::Linux;
use crate::api;
use crate::daemon::Daemon;
use plan::{LinuxPlan, PuntLimits, PuntedProtocol};

impl Daemon {
    /// Returns the interfaces of the kernel, and the packets of each protocol.
    pub fn linux(&self) -> api::Linux {
        let (plan, punt) = {
            let control = self.control.lock();
            (control.router.plan().cloned(), control.router.punt().clone())
        };
        let linux = plan.as_ref().and_then(|plan| plan.linux.as_ref());
        let served = plan
            .iter()
            .flat_map(|plan| plan.interfaces())
            .filter(|(port, _)| linux.is_some_and(|linux| linux.ports.contains(&port.name)));
        let interfaces = served.map(|(_, interface)| api::LinuxInterface {
            name: interface.name.to_string(),
            up: !interface.kernel.down,
            mtu: interface.kernel.mtu.unwrap_or(interface.mtu),
            addresses: interface.addresses.iter().map(ToString::to_string).collect(),
            kernel_addresses: interface.kernel.addresses.iter().map(ToString::to_string).collect(),
        });
        let limits = linux.map_or_else(PuntLimits::default, |linux| linux.limits);
        let protocols =
            PuntedProtocol::ALL.iter().zip(punt.counters()).map(|(&protocol, counters)| api::LinuxProtocol {
                protocol: protocol.to_string(),
                limit_pps: limits.of(protocol).get(),
                counters: api::CounterFields(counters),
            });
        api::Linux {
            time_ns: self.now_ns(),
            enabled: linux.is_some(),
            namespace: linux.and_then(|linux| linux.namespace.clone()),
            answer: linux.map(|linux| linux.answer.to_string()),
            interfaces: interfaces.collect(),
            protocols: protocols.collect(),
            dhcp_relays: self.dhcp_relays(linux),
            refused_by_kernel: self.linux.get().map_or(0, Linux::refused),
            refused_by_router: punt.refused(),
        }
    }

    fn dhcp_relays(&self, plan: Option<&LinuxPlan>) -> Vec<api::DhcpRelay> {
        let counters = self.linux.get().map(|linux| linux.relays.lock().clone()).unwrap_or_default();
        let relays = plan.into_iter().flat_map(|linux| &linux.dhcp_relay);
        let report = relays.map(|relay| api::DhcpRelay {
            interface: relay.interface.to_string(),
            servers: relay.servers.iter().map(ToString::to_string).collect(),
            running: counters.contains_key(&relay.interface),
            counters: api::CounterFields(counters.get(&relay.interface).copied().unwrap_or_default()),
        });
        report.collect()
    }
}
