//! The rules of a packet filter, made ready for look-ups once and shared by all workers.

use crate::fields::match_fields;
use classifier::{PacketKeys, PacketRule, PacketRules, RuleResult, SetStore};
use fib::Tables;
use packet::Packet;
use parking_lot::Mutex;
use plan::{FilterLimit, FilterRule, FilterStatement, FilterVerdict, LimitRate};
use std::fmt;
use std::sync::Arc;
use units::{Bucket, Bytes, Instant, InterfaceId, Meter, Nanos, VrfId};

/// The input interface and the VRF that a match names. An interface that no longer exists has an id that is never given out.
pub type RuleOrigin = (Option<InterfaceId>, Option<VrfId>);

/// The rules of one filter, and the state of their limits. Equal if the rules are.
#[derive(Default)]
pub struct FilterTable {
    rules: Vec<(FilterRule, RuleOrigin)>,
    names: Vec<Arc<str>>,
    effects: Vec<RuleEffect>,
    sets: Arc<SetStore>,
    table: PacketRules,
    limits: Vec<Limit>,
}

/// The effect of a rule on the packets that it decides about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleEffect {
    /// The verdict.
    pub verdict: FilterVerdict,
    /// The code point that the packet gets.
    pub dscp: Option<u8>,
    /// The position of its limit.
    limit: Option<u16>,
}

/// The limit of a rule, for the packets of all workers together.
struct Limit {
    /// True if the rule is for the packets beyond the rate.
    over: bool,
    meter: Mutex<LimitMeter>,
    /// The rules behind this one, for packets that it leaves.
    behind: PacketRules,
}

/// The credit of a limit.
enum LimitMeter {
    Packets(Bucket),
    Bits(Meter),
}

impl LimitMeter {
    fn new(rate: &LimitRate) -> LimitMeter {
        match *rate {
            LimitRate::Packets { packets, per, burst } => {
                let period = u64::from(per.seconds()) * 1_000_000_000;
                LimitMeter::Packets(Bucket::every(Nanos::new(period / u64::from(packets.max(1))), burst.into()))
            }
            LimitRate::Bits { rate, burst } => LimitMeter::Bits(Meter::new(rate, burst)),
        }
    }

    /// True if the rate admits an IP packet of this length, which then uses credit.
    fn admits(&mut self, now: Instant, length: usize) -> bool {
        match self {
            LimitMeter::Packets(bucket) => bucket.take(now),
            LimitMeter::Bits(meter) => {
                let allowed = meter.allows(now);
                if allowed {
                    meter.charge(Bytes::new(length as u64));
                }
                allowed
            }
        }
    }
}

impl FilterTable {
    /// The filter with these rules, each with its required input interface and VRF. The first that matches a packet decides about it.
    pub fn new(rules: Vec<(FilterRule, RuleOrigin)>, sets: &Arc<SetStore>) -> FilterTable {
        fn packet_rule((position, (rule, came)): (usize, &(FilterRule, RuleOrigin))) -> PacketRule<'_> {
            let result = RuleResult { counter: position as u32, ..RuleResult::default() };
            let (matching, (interface, vrf)) = (&rule.matching, *came);
            PacketRule { matching, interface, vrf, rank: position as u32, result }
        }
        // The check of a plan refuses what a table cannot have: lists with too many combinations, and unknown sets.
        let table_from = |first: usize| {
            let rules = rules.iter().enumerate().skip(first).map(packet_rule);
            PacketRules::build(rules, |name, kind| Some(sets.promise(name, kind)))
                .unwrap_or_else(|(rule, error)| unreachable!("rule {rule}: {error}"))
        };
        let (mut limits, mut effects) = (Vec::new(), Vec::with_capacity(rules.len()));
        for (position, (rule, _)) in rules.iter().enumerate() {
            let mut effect = RuleEffect { verdict: rule.verdict, dscp: None, limit: None };
            for statement in &rule.statements {
                match statement {
                    FilterStatement::SetDscp(dscp) => effect.dscp = Some(*dscp),
                    FilterStatement::Limit(FilterLimit { over, rate }) => {
                        effect.limit = Some(limits.len() as u16);
                        let meter = Mutex::new(LimitMeter::new(rate));
                        limits.push(Limit { over: *over, meter, behind: table_from(position + 1) });
                    }
                    _ => {}
                }
            }
            effects.push(effect);
        }
        let names = rules.iter().map(|(rule, _)| rule.to_string().into()).collect();
        let table = table_from(0);
        FilterTable { rules, names, effects, sets: sets.clone(), table, limits }
    }

    /// The filter with these rules: the one of the last generation if that has the same, for a table of many rules takes time to make.
    pub fn shared(
        rules: Vec<(FilterRule, RuleOrigin)>,
        sets: &Arc<SetStore>,
        last: Option<&Arc<FilterTable>>,
    ) -> Arc<FilterTable> {
        match last.filter(|last| last.rules == rules) {
            Some(last) => last.clone(),
            None => Arc::new(FilterTable::new(rules, sets)),
        }
    }

    /// The number of rules.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// The text of each rule.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The effect of a rule.
    #[inline]
    pub fn effect(&self, rule: usize) -> RuleEffect {
        self.effects[rule]
    }

    /// The position of the first rule that matches each packet of a batch, limits left out. Packets that match no rule are left out.
    pub fn look_up(&self, keys: &mut PacketKeys, mut matched: impl FnMut(usize, u32)) {
        self.table.look_up(keys, &self.sets, |packet, result| matched(packet, result.counter));
    }

    /// The rule that decides about a packet: `first`, which matches it, or a later one if limits forbid.
    #[inline]
    pub fn within_limits(&self, first: u32, packet: &Packet, tables: &Tables, now: Instant) -> Option<u32> {
        if self.effects[first as usize].limit.is_none() {
            return Some(first);
        }
        self.after_limits(first, packet, tables, now)
    }

    #[cold]
    fn after_limits(&self, first: u32, packet: &Packet, tables: &Tables, now: Instant) -> Option<u32> {
        let came = packet.meta().in_interface;
        let came = (came, tables.vrf_of(came));
        let length = packet.len().saturating_sub(packet.meta().l3.into());
        let fields = match_fields(packet.bytes(), packet.meta().connection)?;
        let mut found = first;
        // Each step leads to a later rule.
        while let Some(limit) = self.effects[found as usize].limit {
            let limit = &self.limits[usize::from(limit)];
            if limit.meter.lock().admits(now, length) != limit.over {
                break;
            }
            found = limit.behind.find(&fields, came, &self.sets)?.counter;
        }
        Some(found)
    }
}

impl PartialEq for FilterTable {
    fn eq(&self, other: &FilterTable) -> bool {
        self.rules == other.rules
    }
}

impl Eq for FilterTable {}

impl fmt::Debug for FilterTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterTable").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}
