//! Host isolation: hosts share the link equally, and the flows of a host share its part. A host gains nothing by opening more connections
//! (Høiland-Jørgensen, Täht and Morton, "Piece of CAKE", IEEE LANMAN 2018, section III-B).
//!
//! The weight of a flow is the inverse of its load: the number of flows of its source, of its destination, or of the host with more of them. Bins are
//! ordered by start tags (Goyal, Vin and Cheng, SIGCOMM 1996); a packet of length L advances its bin by L times the load. With the quanta of CAKE, a
//! host of a thousand flows would have turns of a byte. A new flow starts at the virtual time of the link, ahead of all waiting ones.

use super::BinOrder;
use crate::Record;
use alloc::vec::Vec;
use units::Heap;

/// The isolated hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostIsolation {
    /// None: all flows have equal parts.
    Flows,
    /// Sources.
    Sources,
    /// Destinations.
    Destinations,
    /// Both.
    Both,
}

/// The number of host buckets.
const HOSTS: usize = 1024;
/// Tags are set back by this when they reach twice its value.
const EPOCH: u64 = 1 << 61;

#[derive(Clone, Copy, Debug)]
struct Bin {
    /// The start of its next packet.
    start: u64,
    /// The buckets of its source and its destination.
    hosts: [u16; 2],
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct HostOrder {
    isolate: HostIsolation,
    bins: Vec<Bin>,
    waiting: Heap,
    /// The number of waiting flows of each source and each destination.
    loads: [Vec<u32>; 2],
    /// The start of the packet sent last.
    now: u64,
}

impl HostOrder {
    /// `bins` empty bins.
    pub fn new(bins: usize, isolate: HostIsolation) -> HostOrder {
        let mut waiting = Heap::default();
        waiting.grow(bins);
        let loads = [alloc::vec![0; HOSTS], alloc::vec![0; HOSTS]];
        HostOrder { isolate, bins: alloc::vec![Bin { start: 0, hosts: [0; 2] }; bins], waiting, loads, now: 0 }
    }

    /// The load of a bin: the number of flows that it shares with.
    #[inline]
    fn load(&self, bin: usize) -> u64 {
        let [source, destination] = self.bins[bin].hosts.map(usize::from);
        let (sources, destinations) = (self.loads[0][source], self.loads[1][destination]);
        let load = match self.isolate {
            HostIsolation::Flows => 1,
            HostIsolation::Sources => sources,
            HostIsolation::Destinations => destinations,
            // Like CAKE: the larger of both loads.
            HostIsolation::Both => sources.max(destinations),
        };
        load.max(1).into()
    }

    #[inline]
    fn go_on(&mut self, bin: usize, length: u32) {
        self.now = self.now.max(self.bins[bin].start);
        // The load at this moment: flows that start or end later affect later packets only.
        self.bins[bin].start += u64::from(length) * self.load(bin);
    }

    #[cold]
    fn set_back(&mut self) {
        self.now -= EPOCH;
        self.waiting.subtract(EPOCH);
        // Tags of bins that are empty for long are lower than the epoch.
        self.bins.iter_mut().for_each(|bin| bin.start = bin.start.saturating_sub(EPOCH));
    }
}

impl BinOrder for HostOrder {
    fn wake(&mut self, bin: usize, _: u32, packet: &Record) {
        if self.waiting.contains(bin) {
            return;
        }
        // The upper bits of a product spread hashes evenly over the buckets.
        let place = |hash: u32| ((u64::from(hash) * HOSTS as u64) >> 32) as u16;
        let hosts = [packet.source, packet.destination].map(place);
        for (loads, host) in self.loads.iter_mut().zip(hosts) {
            loads[usize::from(host)] += 1;
        }
        // Idle time earns no credit, and a flow that ran ahead keeps its lead.
        let start = self.bins[bin].start.max(self.now);
        self.bins[bin] = Bin { start, hosts };
        self.waiting.insert(start, bin);
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        self.waiting.first().map(|(_, bin)| bin)
    }

    #[inline]
    fn sent(&mut self, bin: usize, length: u32, _: u32) {
        self.go_on(bin, length);
        self.waiting.set(self.bins[bin].start, bin);
        // A packet advances a tag by less than 2^49: 2^32 bytes times 2^17 flows. No tag overflows before this.
        if self.now >= 2 * EPOCH {
            self.set_back();
        }
    }

    fn empty(&mut self, bin: usize, length: u32) {
        if !self.waiting.contains(bin) {
            return;
        }
        if length > 0 {
            self.go_on(bin, length);
        }
        // After `go_on`: the last packet was sent while the flow still counted for its hosts.
        self.waiting.remove(bin);
        for (loads, host) in self.loads.iter_mut().zip(self.bins[bin].hosts) {
            loads[usize::from(host)] -= 1;
        }
    }

    fn tune(&mut self, other: &HostOrder) -> Option<bool> {
        self.isolate = other.isolate;
        Some(false)
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.loads.iter_mut().for_each(|loads| loads.fill(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet between two hosts, whose hashes are far apart.
    fn between(source: u32, destination: u32) -> Record {
        let far = |host: u32| host.wrapping_mul(0x1000_0000);
        Record { length: 1000, source: far(source), destination: far(destination), ..Record::default() }
    }

    /// The turns of each of the backlogged bins, out of `turns`.
    fn turns<const N: usize>(isolate: HostIsolation, packets: [Record; N], turns: usize) -> [usize; N] {
        let mut order = HostOrder::new(N, isolate);
        packets.iter().enumerate().for_each(|(bin, packet)| order.wake(bin, 1, packet));
        let mut had = [0; N];
        for _ in 0..turns {
            let bin = order.pick().expect("all have something");
            order.sent(bin, 1000, 0);
            had[bin] += 1;
        }
        had
    }

    #[test]
    fn host_share_is_independent_of_its_flow_count() {
        // Host 1 has three flows, host 2 has one. Three of the four go to host 7, among them the first of host 1.
        let packets = [between(1, 7), between(1, 8), between(1, 7), between(2, 7)];
        assert_eq!(turns(HostIsolation::Flows, packets, 1200), [300; 4]);
        let [a, b, c, d] = turns(HostIsolation::Sources, packets, 1200);
        assert!([a, b, c].iter().all(|turns| turns.abs_diff(200) <= 1) && d.abs_diff(600) <= 1);
        let [a, b, c, d] = turns(HostIsolation::Destinations, packets, 1200);
        assert!([a, c, d].iter().all(|turns| turns.abs_diff(200) <= 1) && b.abs_diff(600) <= 1);
        let both = turns(HostIsolation::Both, packets, 1200);
        assert!(
            both.iter().all(|turns| turns.abs_diff(300) <= 1),
            "each shares with two others, where it has more: {both:?}"
        );
    }

    #[test]
    fn new_flow_is_served_next_and_ended_flows_do_not_count() {
        let mut order = HostOrder::new(4, HostIsolation::Sources);
        order.wake(0, 1, &between(1, 7));
        order.wake(1, 1, &between(1, 7));
        (0..10).for_each(|_| {
            let bin = order.pick().unwrap();
            order.sent(bin, 1000, 0);
        });
        order.wake(2, 1, &between(3, 7));
        assert_eq!(order.pick(), Some(2));
        order.empty(1, 0);
        assert_eq!(order.load(0), 1);
        order.clear();
        assert_eq!((order.pick(), order.load(0)), (None, 1));
    }
}
