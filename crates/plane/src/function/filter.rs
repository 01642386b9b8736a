//! The function `filter`: a list of rules in the manner of nftables. The first matching rule decides.
//!
//! The rules of a whole batch are looked up together. Each counts the packets that it decides about.

use super::{Context, Function, FunctionRegistration, NamedCounter};
use crate::fields::push_key;
use crate::filter::FilterTable;
use classifier::PacketKeys;
use packet::wire::set_dscp;
use packet::{BATCH, DropReason, Exception, Packet};
use plan::FilterVerdict;
use std::sync::Arc;
use units::Nanos;
use units::declare::{Declaration, DeclaredCost};

pub(super) const REGISTRATION: FunctionRegistration = FunctionRegistration {
    declaration: Filter::DECLARATION,
    make: |_, path| Box::new(Filter::new(path.filter.clone())),
};

/// The function `filter`.
#[derive(Clone)]
pub struct Filter {
    table: Arc<FilterTable>,
    keys: Box<PacketKeys>,
    /// The first rule that matches each packet of a batch.
    matched: Box<[Option<u32>; BATCH]>,
    /// Packets and bytes that each rule has decided about; last those that matched no rule.
    counters: Vec<(u64, u64)>,
}

impl Filter {
    /// Its declaration.
    pub const DECLARATION: Declaration = Declaration {
        name: "filter",
        summary: "accept, drop and reject by the rules in `filter` of the path",
        cost: DeclaredCost::Measured { packet: Nanos::new(60), kilobyte: Nanos::ZERO },
        source: "nftables",
        options: &[],
    };

    /// Builds the function.
    pub fn new(table: Arc<FilterTable>) -> Filter {
        let counters = vec![(0, 0); table.rule_count() + 1];
        Filter { table, keys: Box::default(), matched: Box::new([None; BATCH]), counters }
    }

    /// Decides about up to [`BATCH`] packets. Frames without an IP header are accepted, and not counted.
    fn process_batch(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        let mut all = true;
        self.keys.clear();
        for (i, packet) in packets.iter().enumerate() {
            let meta = packet.meta();
            // In Rust `|` binds tighter than `!=`, unlike in C.
            if meta.refused | meta.exception != 0 {
                all = false;
                continue;
            }
            let came = (meta.in_interface, context.tables.vrf_of(meta.in_interface));
            push_key(&mut self.keys, i, packet.bytes(), meta.connection, came);
        }
        let (matched, counters) = (&mut self.matched[..packets.len()], &mut self.counters);
        matched.fill(None);
        self.table.look_up(&mut self.keys, |i, rule| matched[i] = Some(rule));
        let others = counters.len() - 1;
        for i in self.keys.positions() {
            let packet = &mut packets[i];
            let within = |first| self.table.within_limits(first, packet, context.tables, context.now);
            let rule = matched[i].and_then(within);
            let effect = rule.map(|rule| self.table.effect(rule as usize));
            let rule = rule.map_or(others, |rule| rule as usize);
            let (packets, bytes) = &mut counters[rule];
            (*packets, *bytes) = (*packets + 1, *bytes + packet.len() as u64);
            let Some(effect) = effect else { continue };
            if let Some(dscp) = effect.dscp {
                let l3 = usize::from(packet.meta().l3);
                set_dscp(packet.bytes_mut(), l3, dscp);
            }
            match effect.verdict {
                FilterVerdict::Accept => continue,
                FilterVerdict::Drop => packet.meta_mut().refused = DropReason::Filtered.index() as u8 + 1,
                // The general path sends the ICMP error.
                FilterVerdict::Reject => packet.meta_mut().exception = Exception::Prohibited as u8,
            }
            all = false;
        }
        all
    }
}

impl Function for Filter {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        packets.chunks_mut(BATCH).fold(true, |all, packets| self.process_batch(context, packets) & all)
    }

    fn counters(&self) -> Vec<NamedCounter> {
        let no_rule: Arc<str> = "no rule".into();
        let names = self.table.names().iter().chain([&no_rule]);
        let counter = |(name, &(packets, bytes)): (&Arc<str>, _)| NamedCounter { name: name.clone(), packets, bytes };
        names.zip(&self.counters).map(counter).collect()
    }
}
