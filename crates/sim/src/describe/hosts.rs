//! Descriptions of worlds of hosts: hosts, the links between them, and the flows over these links.

use crate::hosts::Fields;
use packet::wire;
use plan::{Call, MediumPlan};
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// The key of flow hashes. It is fixed, so that runs are reproducible.
const KEY: u64 = 0x5377_6974_6368_7061;

/// A world of hosts.
#[derive(Clone, Debug, Default)]
pub struct HostsPlan {
    /// Names of hosts.
    pub hosts: Vec<String>,
    /// Links, one for each direction. The two directions of a link are adjacent.
    pub links: Vec<HostLink>,
    /// Flows.
    pub flows: Vec<FlowPlan>,
    /// If true, the hash of each flow selects a queue of its own, as long as there are enough queues. Otherwise the hash is that of its addresses and
    /// ports.
    pub exact: bool,
}

/// One direction of a link between hosts.
#[derive(Clone, Debug)]
pub struct HostLink {
    /// The sending host.
    pub from: usize,
    /// The receiving host.
    pub to: usize,
    /// The queueing scheme of its queue.
    pub scheme: Call,
    /// The most packets that may wait, regardless of the scheme.
    pub buffer: u32,
    /// The medium behind the queue.
    pub medium: MediumPlan,
}

impl HostLink {
    /// True if packets arrive in the order in which they leave the queue.
    pub fn preserves_order(&self) -> bool {
        self.medium.jitter == Nanos::ZERO && self.medium.reorder.get() == 0 && self.medium.duplicate.get() == 0
    }
}

/// A flow.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its name.
    pub name: String,
    /// The host of its sender.
    pub from: usize,
    /// The host of its receiver.
    pub to: usize,
    /// Its congestion control.
    pub transport: Call,
    /// Its application, which decides when and how much it sends.
    pub application: Call,
    /// The file with the sizes of its transfers. Without one they follow a table fitted to the distribution in the literature.
    pub sizes: Option<String>,
    /// Bytes of a packet with its headers.
    pub packet: u32,
    /// Bytes of an acknowledgement.
    pub acknowledgement: u32,
    /// When it starts.
    pub start: Instant,
    /// Its class.
    pub class: u8,
    /// Its code point.
    pub dscp: u8,
    /// The interval at which its smoothed round-trip time is sampled.
    pub rtt_interval: Nanos,
}

impl HostsPlan {
    /// The name of a direction of a link.
    pub fn name(&self, link: &HostLink) -> String {
        format!("{}-{}", self.hosts[link.from], self.hosts[link.to])
    }

    /// The shortest path of links from one host to another; of several the one described first. None if the hosts are not connected.
    fn route(&self, from: usize, to: usize) -> Option<Vec<u32>> {
        let mut came: Vec<Option<usize>> = vec![None; self.hosts.len()];
        let mut next = VecDeque::from([from]);
        while let Some(host) = next.pop_front().filter(|host| *host != to) {
            for (index, link) in self.links.iter().enumerate().filter(|(_, link)| link.from == host) {
                if link.to != from && came[link.to].is_none() {
                    came[link.to] = Some(index);
                    next.push_back(link.to);
                }
            }
        }
        let mut route = Vec::new();
        let mut host = to;
        while host != from {
            let link = came[host]?;
            route.push(link as u32);
            host = self.links[link].from;
        }
        route.reverse();
        (!route.is_empty()).then_some(route)
    }

    /// The packet fields that schemes see, for the segments of a flow and for its acknowledgements.
    pub(crate) fn fields(&self, number: usize) -> [Fields; 2] {
        let flow = &self.flows[number];
        // From the address range for benchmarks (RFC 2544, appendix C.2.2).
        let address = |host: usize| (0xc612_0000 | (host as u32 + 1)).to_be_bytes();
        let port = (1024 + number % 60_000) as u16;
        let ways = [(flow.from, flow.to, [port, 80]), (flow.to, flow.from, [80, port])];
        [0, 1].map(|way| {
            let (from, to, [source, destination]) = ways[way];
            let mut header = [0; 24];
            (header[0], header[3], header[9]) = (0x45, 24, 6);
            header[1] = flow.dscp << 2;
            header[12..16].copy_from_slice(&address(from));
            header[16..20].copy_from_slice(&address(to));
            header[20..22].copy_from_slice(&source.to_be_bytes());
            header[22..24].copy_from_slice(&destination.to_be_bytes());
            let hosts = wire::hosts(&header, 0, KEY);
            let flow_hash = match self.exact {
                // Bit reversal spreads consecutive numbers evenly over any number of queues.
                true => (number as u32 * 2 + way as u32).reverse_bits(),
                false => wire::flow_hash(&header, 0, KEY),
            };
            Fields { flow_hash, source: hosts.source, destination: hosts.destination, dscp: hosts.dscp }
        })
    }

    /// The links that the segments of a flow and its acknowledgements use; none if one direction has no path.
    pub fn routes(&self, flow: &FlowPlan) -> Option<[Vec<u32>; 2]> {
        Some([self.route(flow.from, flow.to)?, self.route(flow.to, flow.from)?])
    }
}
