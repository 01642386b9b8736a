//! The function `filter`: a list of rules in the manner of nftables. The first matching rule decides.
//!
//! The rules of a whole batch are looked up together. Each counts the packets that it decides about; the list has these counters.

use super::{Context, Function, FunctionRegistration, NamedCounter};
use crate::fields::{match_fields, push_key};
use crate::filter::RuleEffect;
use crate::packet_log::LoggedPacket;
use crate::reverse_path;
use classifier::{PacketKeys, RuleList, RuleReader, RuleResult};
use packet::wire::set_dscp;
use packet::{BATCH, DropReason, Exception, Packet};
use plan::FilterVerdict;
use std::sync::Arc;
use units::declare::{Declaration, DeclaredCost};
use units::{Nanos, PathId};

pub(super) const REGISTRATION: FunctionRegistration = FunctionRegistration {
    declaration: Filter::DECLARATION,
    make: |_, path| Box::new(Filter::new(path.id, &path.filter)),
};

/// The function `filter`.
pub struct Filter {
    path: PathId,
    rules: RuleReader,
    keys: Box<PacketKeys>,
    /// The result of the first rule that matches each packet of a batch.
    matched: Box<[Option<RuleResult>; BATCH]>,
    /// Packets and bytes by fate: accepted, dropped, rejected. Packets that match no rule are accepted.
    fates: [(u64, u64); 3],
    /// The rule that has decided about the packet of a dry run, or none that matches. `None` before a packet with an IP header.
    decided: Option<Option<RuleResult>>,
}

/// The names of the fates.
const FATES: [&str; 3] = ["accepted", "dropped", "rejected"];

impl Filter {
    /// Its declaration.
    pub const DECLARATION: Declaration = Declaration {
        name: "filter",
        summary: "accept, drop and reject by the rules in `filter` of the path",
        cost: DeclaredCost::Measured { packet: Nanos::new(60), kilobyte: Nanos::ZERO },
        source: "nftables",
        options: &[],
    };

    /// The function with these rules, for this path.
    pub fn new(path: PathId, rules: &Arc<RuleList>) -> Filter {
        let rules = RuleReader::new(rules).with_flow_caches();
        Filter {
            path,
            rules,
            keys: Box::default(),
            matched: Box::new([None; BATCH]),
            fates: Default::default(),
            decided: None,
        }
    }

    /// Decides about up to [`BATCH`] packets. Frames without an IP header are accepted, and not counted.
    fn process_batch(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        let mut all = true;
        self.keys.clear();
        self.rules.refresh();
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
        let matched = &mut self.matched[..packets.len()];
        matched.fill(None);
        let rules = &self.rules;
        rules.look_up(&mut self.keys, |i, result| {
            // A list of many rules has many counters.
            rules.prefetch_count(result);
            matched[i] = Some(result);
        });
        for i in self.keys.positions() {
            let packet = &mut packets[i];
            let mut result = matched[i];
            let is_conditional =
                |first: &RuleResult| self.rules.is_limited(*first) || RuleEffect::fib_of(first.action).is_some();
            if let Some(first) = result.filter(is_conditional) {
                result = deciding_rule(&self.rules, first, context, packet);
            }
            let effect = result.map_or(RuleEffect::ACCEPT, |result| RuleEffect::of_action(result.action));
            if context.dry_run {
                self.decided = Some(result);
            } else {
                self.rules.count(result, packet.len(), context.now);
                let (packets, bytes) = &mut self.fates[effect.verdict as usize];
                (*packets, *bytes) = (*packets + 1, *bytes + packet.len() as u64);
                if effect.logs {
                    let rule = result.map_or(0, |result| result.counter);
                    context.snapshot.log.add(context.now, || LoggedPacket::new(self.path, rule, context.now, packet));
                }
            }
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

/// The rule that decides about a packet whose first matching rule has a limit, or a condition on routes.
#[cold]
fn deciding_rule(rules: &RuleReader, first: RuleResult, context: Context<'_>, packet: &Packet) -> Option<RuleResult> {
    let meta = packet.meta();
    let came = (meta.in_interface, context.tables.vrf_of(meta.in_interface));
    let length = packet.len().saturating_sub(meta.l3.into());
    let fields = match_fields(packet.bytes(), meta.connection)?;
    let holds = |result: RuleResult| {
        let fib = RuleEffect::fib_of(result.action);
        fib.is_none_or(|fib| reverse_path::holds(context.tables, fib, meta.in_interface, fields.source))
    };
    rules.decide(first, (&fields, came), (context.now, length, context.dry_run), holds)
}

impl Function for Filter {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        packets.chunks_mut(BATCH).fold(true, |all, packets| self.process_batch(context, packets) & all)
    }

    fn counters(&self) -> Vec<NamedCounter> {
        let counter = |(name, &(packets, bytes)): (&str, _)| NamedCounter { name: name.into(), packets, bytes };
        FATES.into_iter().zip(&self.fates).map(counter).collect()
    }

    fn decision(&self) -> Option<String> {
        let Some(result) = self.decided? else { return Some("no rule matches".into()) };
        let rule = self.rules.list().rule_of(result.counter);
        rule.map(|(id, rule)| format!("rule {id}: {}", rule.text))
    }
}
