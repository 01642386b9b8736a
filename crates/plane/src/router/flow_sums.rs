//! The sum of the flows of a path, from which one flow can be taken again.

use plan::ReservedFlow;
use plan::admission::PathFlows;
use std::collections::BTreeMap;
use units::Nanos;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct PathSums {
    flows: usize,
    packets: u64,
    bytes: u64,
    granted: u64,
    /// How many flows may enter by each port, and leave by it.
    entries: BTreeMap<usize, usize>,
    exits: BTreeMap<usize, usize>,
    /// How many flows need a packet to be at its share of the link after each delay.
    latest: BTreeMap<Nanos, usize>,
}

fn count<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K, add: bool) {
    let count = counts.entry(key).or_default();
    if add {
        *count += 1;
    } else {
        *count -= 1;
    }
}

impl PathSums {
    /// Adds or takes a flow.
    pub fn change(
        &mut self,
        flow: &ReservedFlow,
        (granted, latest): (u64, Option<Nanos>),
        (entries, exit): (&[usize], usize),
        add: bool,
    ) {
        let sum = |whole: u64, part: u64| if add { whole + part } else { whole - part };
        self.flows = if add { self.flows + 1 } else { self.flows - 1 };
        self.packets = sum(self.packets, flow.packets());
        self.bytes = sum(self.bytes, flow.packets() * flow.packet.get());
        self.granted = sum(self.granted, granted);
        entries.iter().for_each(|port| count(&mut self.entries, *port, add));
        count(&mut self.exits, exit, add);
        if let Some(latest) = latest {
            count(&mut self.latest, latest, add);
        }
        for ports in [&mut self.entries, &mut self.exits] {
            ports.retain(|_, count| *count > 0);
        }
        if !add {
            self.latest.retain(|_, count| *count > 0);
        }
    }

    /// The sum as admission needs it.
    pub fn flows(&self) -> PathFlows {
        PathFlows {
            flows: self.flows,
            packets: self.packets,
            bytes: self.bytes,
            granted: self.granted,
            entries: self.entries.keys().copied().collect(),
            exits: self.exits.keys().copied().collect(),
            latest: self.latest.first_key_value().map(|(latest, _)| *latest),
        }
    }

    /// Adds a flow to a sum.
    pub fn add_one(
        sum: &mut PathFlows,
        flow: &ReservedFlow,
        (granted, latest): (u64, Option<Nanos>),
        (entries, exit): (&[usize], usize),
    ) {
        sum.flows += 1;
        sum.packets += flow.packets();
        sum.bytes += flow.packets() * flow.packet.get();
        sum.granted += granted;
        for (ports, more) in [(&mut sum.entries, entries), (&mut sum.exits, &[exit])] {
            ports.extend(more);
            ports.sort_unstable();
            ports.dedup();
        }
        sum.latest = sum.latest.into_iter().chain(latest).min();
    }
}
