//! The function `filter`: a list of rules in the manner of nftables. The first matching rule decides.
//!
//! Rules are tried in order, sets in logarithmic time. Each counts the packets that it decides about.

use super::{Context, Function, FunctionRegistration, NamedCounter};
use crate::fields::match_fields;
use packet::{DropReason, Exception, Packet};
use plan::{FilterRule, FilterVerdict, NoSets};
use units::declare::{Declaration, DeclaredCost};
use units::{InterfaceId, Nanos};

/// A rule with its counters.
#[derive(Clone, Debug)]
struct Rule {
    rule: FilterRule,
    interface: Option<InterfaceId>,
    packets: u64,
    bytes: u64,
}

pub(super) const REGISTRATION: FunctionRegistration =
    FunctionRegistration { declaration: Filter::DECLARATION, make: |_, path| Box::new(Filter::of(&path.filter)) };

/// The function `filter`.
#[derive(Clone, Debug)]
pub struct Filter {
    rules: Vec<Rule>,
    /// Packets and bytes that matched no rule.
    others: (u64, u64),
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

    /// Builds the function from these rules, each with its required input interface.
    pub fn of(rules: &[(FilterRule, Option<InterfaceId>)]) -> Filter {
        let rule = |(rule, interface): &(FilterRule, _)| Rule {
            rule: rule.clone(),
            interface: *interface,
            packets: 0,
            bytes: 0,
        };
        Filter { rules: rules.iter().map(rule).collect(), others: (0, 0) }
    }

    /// The verdict on a packet. Frames without an IP header are accepted.
    #[inline]
    fn evaluate(&mut self, packet: &Packet) -> FilterVerdict {
        let length = packet.len() as u64;
        let Some(fields) = match_fields(packet.bytes(), packet.meta().connection) else { return FilterVerdict::Accept };
        let came = packet.meta().in_interface;
        let holds = |rule: &&mut Rule| {
            rule.interface.is_none_or(|interface| interface == came) && rule.rule.matching.matches(&fields, &NoSets)
        };
        match self.rules.iter_mut().find(holds) {
            Some(rule) => {
                rule.packets += 1;
                rule.bytes += length;
                rule.rule.verdict
            }
            None => {
                self.others = (self.others.0 + 1, self.others.1 + length);
                FilterVerdict::Accept
            }
        }
    }
}

impl Function for Filter {
    fn process(&mut self, _: Context<'_>, packets: &mut [Packet]) -> bool {
        let mut all = true;
        for packet in packets {
            // In Rust `|` binds tighter than `!=`, unlike in C.
            if packet.meta().refused | packet.meta().exception != 0 {
                all = false;
                continue;
            }
            let verdict = self.evaluate(packet);
            let meta = packet.meta_mut();
            match verdict {
                FilterVerdict::Accept => continue,
                FilterVerdict::Drop => meta.refused = DropReason::Filtered.index() as u8 + 1,
                // The general path sends the ICMP error.
                FilterVerdict::Reject => meta.exception = Exception::Prohibited as u8,
            }
            all = false;
        }
        all
    }

    fn counters(&self) -> Vec<NamedCounter> {
        let rule = |rule: &Rule| NamedCounter { name: rule.rule.to_string(), packets: rule.packets, bytes: rule.bytes };
        let (packets, bytes) = self.others;
        let others = NamedCounter { name: "no rule".to_string(), packets, bytes };
        self.rules.iter().map(rule).chain([others]).collect()
    }
}
