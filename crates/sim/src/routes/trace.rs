//! Routing tables and destinations for trials of route lookup, from a seed.

use crate::random::RandomStream;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Prefixes of each length from 8 on, in a table of the Internet: the counts of DPDK's performance test of longest-prefix match
/// (`app/test/test_lpm_perf.c`).
const LENGTHS: [u64; 24] = [
    200, 37, 55, 97, 381, 775, 2104, 3712, 69319, 12983, 23667, 69068, 62354, 48531, 72355, 85427, 583_898, 2654, 5650,
    6467, 7127, 12936, 5999, 13,
];
/// Bits of the blocks in which prefixes are allocated.
const BLOCK: u8 = 12;
/// One in so many prefixes has another outcome than the one before: real tables have long runs of one outcome.
const RUN: u64 = 8;

/// A routing table: prefixes with one of a few outcomes each.
#[derive(Clone)]
pub struct RouteTable {
    /// Outcomes, from 1, by prefix and length.
    routes: BTreeMap<(u32, u8), u32>,
    /// The prefixes, for draws.
    prefixes: Vec<(u32, u8)>,
    outcomes: u32,
    chance: RandomStream,
}

impl RouteTable {
    /// A table of `count` prefixes with the lengths of the Internet. They are anywhere in the unicast space; with `blocks` they are in so many
    /// random blocks of /12, as providers get them. Outcomes come in runs of neighbours.
    pub fn new(count: usize, outcomes: u32, blocks: usize, seed: u64) -> RouteTable {
        let mut chance = RandomStream::new(seed, "prefixes");
        // 1.0.0.0 to 223.255.255.255.
        let unicast = |chance: &mut RandomStream| (0x0100_0000 + chance.below(0xdf00_0000)) as u32;
        let blocks: Vec<u32> = (0..blocks).map(|_| unicast(&mut chance) & (u32::MAX << (32 - BLOCK))).collect();
        let mut routes = BTreeMap::new();
        while routes.len() < count {
            let mut draw = chance.below(LENGTHS.iter().sum());
            let at = LENGTHS.iter().position(|&count| {
                let here = draw < count;
                draw = draw.saturating_sub(count);
                here
            });
            let length = 8 + at.expect("the draw is below the sum") as u8;
            let address = unicast(&mut chance);
            let address = match blocks.get(chance.below(blocks.len() as u64) as usize) {
                Some(block) if length > BLOCK => block | (address & (u32::MAX >> BLOCK)),
                _ => address,
            };
            routes.insert((address & (u32::MAX << (32 - length)), length), 0);
        }
        let mut outcome = 1;
        for route in routes.values_mut() {
            if chance.below(RUN) == 0 {
                outcome = 1 + chance.below(outcomes.into()) as u32;
            }
            *route = outcome;
        }
        let prefixes = routes.keys().copied().collect();
        RouteTable { routes, prefixes, outcomes, chance }
    }

    /// The routes.
    pub fn routes(&self) -> impl Iterator<Item = fib::route_cache::Route<u32>> + '_ {
        self.routes.iter().map(|(&(prefix, length), &outcome)| (prefix, length, outcome))
    }

    /// Gives a random prefix another outcome. Returns the changed route.
    pub fn change(&mut self) -> fib::route_cache::Route<u32> {
        let (prefix, length) = self.prefixes[self.chance.below(self.prefixes.len() as u64) as usize];
        let outcome = 1 + self.chance.below(self.outcomes.into()) as u32;
        self.routes.insert((prefix, length), outcome);
        (prefix, length, outcome)
    }

    /// The routes of longer prefixes within one.
    pub fn within(&self, prefix: u32, length: u8) -> impl Iterator<Item = fib::route_cache::Route<u32>> + '_ {
        let last = prefix | u32::MAX.checked_shr(length.into()).unwrap_or(0);
        let range = self.routes.range((prefix, length)..=(last, 32));
        // The prefix itself is the first of them. Shorter ones at the same address come before it.
        range
            .filter(move |((_, other), _)| *other > length)
            .map(|(&(prefix, length), &outcome)| (prefix, length, outcome))
    }

    /// A random address of a random prefix.
    fn host(&self, chance: &mut RandomStream) -> u32 {
        let (prefix, length) = self.prefixes[chance.below(self.prefixes.len() as u64) as usize];
        prefix + chance.below(1 << (32 - length)) as u32
    }
}

/// The places of the hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// At random addresses of random prefixes.
    #[default]
    Scattered,
    /// At the low addresses of random /24 networks, up to 64 in each, as in networks with servers. Low address bits are then not random.
    Clustered,
}

/// An endless sequence of destinations. Packets arrive in trains: most go to one of the destinations that were used last. The others go to a host
/// by Zipf's law.
pub struct DestinationTrace {
    hosts: Vec<u32>,
    /// The sum of the weights of the hosts up to each.
    weights: Vec<f64>,
    active: Vec<u32>,
    repeat: f64,
    chance: RandomStream,
}

impl DestinationTrace {
    /// A trace to `hosts` hosts. With probability `repeat` a packet goes to one of `active` destinations.
    pub fn new(
        table: &RouteTable,
        (hosts, place): (usize, Placement),
        (active, repeat): (usize, f64),
        seed: u64,
    ) -> DestinationTrace {
        // All ports see the same hosts, but draw their own packets.
        let mut placement = table.chance.clone();
        placement.branch();
        let mut network = 0;
        let host = |n: usize| match place {
            Placement::Scattered => table.host(&mut placement),
            Placement::Clustered => {
                if n.is_multiple_of(64) {
                    network = table.host(&mut placement) & !255;
                }
                network + 1 + (n % 64) as u32
            }
        };
        let mut hosts: Vec<u32> = (0..hosts).map(host).collect();
        // Popular hosts are not neighbours.
        for n in (1..hosts.len()).rev() {
            hosts.swap(n, placement.below(n as u64 + 1) as usize);
        }
        let mut sum = 0.0;
        let weights = (1..=hosts.len()).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let weights = weights.collect();
        let mut trace =
            DestinationTrace { hosts, weights, active: Vec::new(), repeat, chance: RandomStream::new(seed, "packets") };
        trace.active = (0..active).map(|_| trace.draw()).collect();
        trace
    }

    fn draw(&mut self) -> u32 {
        let all = self.weights[self.weights.len() - 1];
        let at = self.chance.unit() * all;
        self.hosts[self.weights.partition_point(|&sum| sum <= at).min(self.hosts.len() - 1)]
    }
}

impl Iterator for DestinationTrace {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let place = self.chance.below(self.active.len() as u64) as usize;
        if self.active.is_empty() {
            return Some(self.draw());
        }
        if self.chance.unit() >= self.repeat {
            self.active[place] = self.draw();
        }
        Some(self.active[place])
    }
}
