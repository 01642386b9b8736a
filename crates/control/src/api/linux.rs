//! The interfaces of the kernel, and the packets for programs of the machine.

use super::CounterFields;
use plane::punt::PuntCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

units::counters! {
    /// The counters of a DHCP relay agent.
    pub struct RelayCounters {
        /// Requests passed to a server; with several servers each counts.
        requests "requests";
        /// Replies passed to a client.
        replies "replies";
        /// Messages that were malformed, forged or looping.
        refused "refused_messages";
        /// Messages that could not be sent.
        failed "failed_messages";
    }
}

/// The interfaces of the kernel, and the packets for programs of the machine (`[linux]`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Linux {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// False without `[linux]`.
    pub enabled: bool,
    /// The network namespace of the interfaces; null for the one in which the router was started.
    pub namespace: Option<String>,
    /// The side that answers ARP requests, neighbour solicitations and pings: `router` or `kernel`.
    pub answer: Option<String>,
    /// The interfaces.
    pub interfaces: Vec<LinuxInterface>,
    /// Packets by protocol.
    pub protocols: Vec<LinuxProtocol>,
    /// The DHCP relay agents.
    pub dhcp_relays: Vec<DhcpRelay>,
    /// Frames for programs that the kernel did not accept.
    pub refused_by_kernel: u64,
    /// Frames of programs that the router did not take in time.
    pub refused_by_router: u64,
}

/// An interface of the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LinuxInterface {
    /// Its name in the router and in the kernel.
    pub name: String,
    /// False if a program has set it down: the router has no addresses there.
    pub up: bool,
    /// The MTU in force, in bytes.
    pub mtu: u16,
    /// The configured addresses.
    pub addresses: Vec<String>,
    /// Addresses that programs of the machine have added, and that the router uses too.
    pub kernel_addresses: Vec<String>,
}

/// The packets of a protocol.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LinuxProtocol {
    /// Its name in `limits`.
    pub protocol: String,
    /// The limit of packets to the kernel, a second.
    pub limit_pps: u64,
    /// Its counters.
    #[serde(flatten)]
    pub counters: CounterFields<PuntCounters>,
}

/// The DHCP relay agent of an interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DhcpRelay {
    /// The interface of the clients.
    pub interface: String,
    /// The servers.
    pub servers: Vec<String>,
    /// False if it cannot be started, for instance because the interface has no address. An event has the reason.
    pub running: bool,
    /// Its counters.
    #[serde(flatten)]
    pub counters: CounterFields<RelayCounters>,
}
