//! Worlds of hosts as they are described: hosts, the links between them, and the flows that go over these.

use crate::hosts::Fields;
use packet::wire;
use plan::{Call, MediumPlan};
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// What hashes of flows follow from.
const KEY: u64 = 0x5377_6974_6368_7061;

/// A world of hosts.
#[derive(Clone, Debug, Default)]
pub struct HostsPlan {
    /// Names of hosts.
    pub hosts: Vec<String>,
    /// Links, one for each direction: both of one stand beside each other.
    pub links: Vec<HostLink>,
    /// Flows.
    pub flows: Vec<FlowPlan>,
    /// Whether the hash of each flow has it in a queue of its own, as far as there are queues; else it is that of its addresses and ports.
    pub exact: bool,
}

/// One direction of a link between hosts.
#[derive(Clone, Debug)]
pub struct HostLink {
    /// The host from which packets come.
    pub from: usize,
    /// The host they go to.
    pub to: usize,
    /// What decides about those that wait.
    pub scheme: Call,
    /// Packets that wait at most, whatever the scheme says.
    pub buffer: u32,
    /// What comes behind.
    pub medium: MediumPlan,
}

impl HostLink {
    /// Whether packets come out in the order in which they leave the queue.
    pub fn keeps_order(&self) -> bool {
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
    /// How it reacts to congestion.
    pub transport: Call,
    /// What it has to send.
    pub application: Call,
    /// The file with the sizes of its transfers; without one those of a table that is like the one of the literature.
    pub sizes: Option<String>,
    /// Bytes of a packet with its headers.
    pub packet: u32,
    /// Bytes of an acknowledgement.
    pub acknowledgement: u32,
    /// When it begins.
    pub start: Instant,
    /// Its class.
    pub class: u8,
    /// Its code point.
    pub dscp: u8,
    /// How often its smoothed round-trip time is looked at.
    pub look: Nanos,
}

impl HostsPlan {
    /// What a direction of a link is called.
    pub fn name(&self, link: &HostLink) -> String {
        format!("{}-{}", self.hosts[link.from], self.hosts[link.to])
    }

    /// The links by which packets get from a host to another, over as few as can be, of several ways the one first described. None where
    /// there is none.
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

    /// What schemes may know of the segments of a flow, and of its acknowledgements.
    pub(crate) fn fields(&self, number: usize) -> [Fields; 2] {
        let flow = &self.flows[number];
        // Of the addresses for benchmarks (RFC 2544, appendix C.2.2).
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
                // Far apart however many queues there are.
                true => (number as u32 * 2 + way as u32).reverse_bits(),
                false => wire::flow_hash(&header, 0, KEY),
            };
            Fields { flow_hash, source: hosts.source, destination: hosts.destination, dscp: hosts.dscp }
        })
    }

    /// The links that the segments of a flow take, and its acknowledgements; nothing where there are none.
    pub fn routes(&self, flow: &FlowPlan) -> Option<[Vec<u32>; 2]> {
        Some([self.route(flow.from, flow.to)?, self.route(flow.to, flow.from)?])
    }
}
