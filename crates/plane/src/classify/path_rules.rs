//! The rules that select the paths of packets.

use super::scratch::{CHUNK, ROUTE, ROUTE_BITS};
use super::{Classifier, Finding, Scratch, UNDECIDED, Witness};
use crate::fields::{match_fields, push_key};
use crate::filter::PathMarks;
use crate::snapshot::Snapshot;
use classifier::{ListedRule, RuleStatus};
use fib::Tables;
use packet::Packet;
use plan::{Condition, MatchFields, SetLookup};
use units::{Instant, InterfaceId, VrfId};

/// The path of a packet by the rules: its position in the snapshot, and what the rule gives the packet.
pub(super) type PathChoice = (usize, PathMarks);

impl<W: Witness> Classifier<'_, W> {
    /// Finds the path of each plain packet of a chunk by the rules, and stores its position behind the word of its route: a memo is for one route and
    /// one path.
    #[inline(never)]
    pub(super) fn match_rules(
        &self,
        (came, arrival): (InterfaceId, Option<Instant>),
        packets: &[Packet],
        (from, scratch): (usize, &mut Scratch),
    ) {
        let Scratch { rule_keys, fields, targets, marks, matched, .. } = scratch;
        let mut rules = self.dispatch.rules.borrow_mut();
        if let Some(result) = rules.always().filter(|result| PathMarks::of(*result).is_empty()) {
            let (mut count, mut bytes) = (0, 0);
            for (i, packet) in packets.iter().enumerate().take(CHUNK).filter(|(i, _)| targets[from + i] == UNDECIDED) {
                fields.words[i] = fields.words[i] & ROUTE | u32::from(result.path) << ROUTE_BITS;
                matched[i] = Some(result);
                (count, bytes) = (count + 1, bytes + packet.len());
            }
            if let Some(first) = packets.first().filter(|_| count > 0) {
                rules.count_many(Some(result), count, bytes, arrival.unwrap_or(first.meta().timestamp));
            }
            return;
        }
        let came = (came, self.tables.vrf_of(came));
        rule_keys.clear();
        for (i, packet) in packets.iter().enumerate().take(CHUNK) {
            if targets[from + i] == UNDECIDED {
                fields.words[i] = fields.words[i] & ROUTE | (self.dispatch.best_effort as u32) << ROUTE_BITS;
                // Connections are not known yet: the path's function `nat` looks them up.
                push_key(rule_keys, i, packet.bytes(), 0, came);
            }
        }
        *matched = [None; CHUNK];
        rules.look_up(rule_keys, |i, result| matched[i] = Some(result));
        for i in rule_keys.positions() {
            let (packet, result) = (&packets[i], matched[i]);
            if let Some(result) = result {
                fields.words[i] = fields.words[i] & ROUTE | u32::from(result.path) << ROUTE_BITS;
                let own = PathMarks::of(result);
                if !own.is_empty() {
                    marks.push((i as u8, own));
                }
            }
            rules.count(result, packet.len(), arrival.unwrap_or(packet.meta().timestamp));
        }
    }

    /// The known path of the packet, or that of the first rule it matches, or `best-effort`.
    pub(super) fn path_choice(&self, packet: &Packet, known: Option<PathChoice>) -> PathChoice {
        known.or_else(|| self.match_rule(packet)).unwrap_or((self.dispatch.best_effort, PathMarks::default()))
    }

    /// The path of the first rule that the packet matches.
    #[inline(never)]
    pub(super) fn match_rule(&self, packet: &Packet) -> Option<PathChoice> {
        if W::WANTS_RULES {
            return try_rules(self.snapshot, self.tables, self.witness, packet);
        }
        let mut rules = self.dispatch.rules.borrow_mut();
        if rules.is_empty() {
            return None;
        }
        // Connections are not known yet: the path's function `nat` looks them up.
        let fields = match_fields(packet.bytes(), 0)?;
        let came = packet.meta().in_interface;
        let result = rules.find(&fields, (came, self.tables.vrf_of(came)));
        rules.count(result, packet.len(), packet.meta().timestamp);
        result.map(|result| (result.path.into(), PathMarks::of(result)))
    }
}

/// The result of [`Classifier::match_rule`]. Tries one rule after the other, reports each, and counts nothing.
#[cold]
fn try_rules(snapshot: &Snapshot, tables: &Tables, witness: impl Witness, packet: &Packet) -> Option<PathChoice> {
    let fields = match_fields(packet.bytes(), 0)?;
    let came = packet.meta().in_interface;
    let (vrf, sets) = (tables.vrf_of(came), snapshot.sets.latest());
    for RuleStatus { id, rule, .. } in snapshot.rules.rules() {
        let unmet = unmet(&rule, &fields, (came, vrf), &*sets);
        let result = rule.result;
        witness.observe(|| Finding::Rule { id, rule, unmet });
        if unmet.is_none() {
            return Some((result.path.into(), PathMarks::of(result)));
        }
    }
    None
}

/// The first condition of a rule that does not hold for a packet, except for that on routes.
pub(super) fn unmet(
    rule: &ListedRule,
    fields: &MatchFields,
    (came, vrf): (InterfaceId, VrfId),
    sets: &impl SetLookup,
) -> Option<Condition> {
    if rule.interface.is_some_and(|interface| interface != came) {
        Some(Condition::Interface)
    } else if rule.vrf.is_some_and(|required| required != vrf) {
        Some(Condition::Vrf)
    } else {
        rule.matching.unmet(fields, sets)
    }
}
