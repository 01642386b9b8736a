//! Lists of rules on packets: the rules of paths, filters and translation.

use crate::packet_key::{KeyFields, WORDS4, WORDS6, ids_word, ternary_rules};
use crate::rule::{Key, RuleResult, TernaryRule};
use crate::rule_set::RuleSet;
use crate::set::{SetId, Sets};
use packet::BATCH;
use plan::{Condition, MOST_COMBINATIONS, MOST_SETS_USED, Match, MatchFields, SetKind};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use units::{InterfaceId, VrfId};

/// A rule on packets.
#[derive(Clone, Copy, Debug)]
pub struct PacketRule<'a> {
    /// The conditions.
    pub matching: &'a Match,
    /// The input interface that `iif` of the match names. An id that is never given out matches no packet.
    pub interface: Option<InterfaceId>,
    /// The VRF that the match names.
    pub vrf: Option<VrfId>,
    /// The rule with the lowest rank wins.
    pub rank: u32,
    /// The result.
    pub result: RuleResult,
}

/// A reason to refuse a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PacketRuleError {
    /// Its lists have too many combinations.
    TooManyCombinations {
        /// Their number.
        combinations: usize,
    },
    /// It names a set that does not exist.
    UnknownSet {
        /// The name.
        name: String,
    },
    /// The list of rules asks too many sets about fields.
    TooManySets,
}

impl fmt::Display for PacketRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketRuleError::TooManyCombinations { combinations } => write!(
                f,
                "the lists of the rule have {combinations} combinations, more than {MOST_COMBINATIONS}; use a named set for one of them"
            ),
            PacketRuleError::UnknownSet { name } => write!(f, "there is no set {}", plan::quote(name)),
            PacketRuleError::TooManySets => write!(
                f,
                "the rules use more than {MOST_SETS_USED} sets, counting a set once for each field; join some of them"
            ),
        }
    }
}

impl std::error::Error for PacketRuleError {}

/// A list of rules. A clone costs little, because it shares all memory with the original. A change copies only the changed parts.
#[derive(Clone, Debug, Default)]
pub struct PacketRules {
    v4: RuleSet<WORDS4>,
    v6: RuleSet<WORDS6>,
    /// The sets that rules use. Each has the bit of its position in the word of ids.
    sets: Arc<Vec<(SetId, Condition)>>,
    /// The bits of keys that rules test. Removed rules may have tested some of them.
    tested4: Key<WORDS4>,
    tested6: Key<WORDS6>,
}

impl PacketRules {
    /// The list of these rules. An error has the position of the rule.
    pub fn build<'a>(
        rules: impl IntoIterator<Item = PacketRule<'a>>,
        set_named: impl Fn(&str, SetKind) -> Option<SetId>,
    ) -> Result<Self, (usize, PacketRuleError)> {
        let mut list = PacketRules::default();
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (position, rule) in rules.into_iter().enumerate() {
            let (some, more) = list.parts(&rule, &set_named).map_err(|error| (position, error))?;
            v4.extend(some);
            v6.extend(more);
        }
        (list.tested4, list.tested6) = (tested(&v4), tested(&v6));
        Ok(PacketRules { v4: RuleSet::build(v4), v6: RuleSet::build(v6), ..list })
    }

    /// Adds a rule. Returns the number of parts that lists of values and both IP versions make of it.
    pub fn insert(
        &mut self,
        rule: &PacketRule<'_>,
        set_named: impl Fn(&str, SetKind) -> Option<SetId>,
    ) -> Result<usize, PacketRuleError> {
        let (v4, v6) = self.parts(rule, &set_named)?;
        let parts = v4.len() + v6.len();
        join(&mut self.tested4, &tested(&v4));
        join(&mut self.tested6, &tested(&v6));
        for part in v4 {
            self.v4.insert(part);
        }
        for part in v6 {
            self.v6.insert(part);
        }
        Ok(parts)
    }

    /// Removes a rule that was added with these values; false if there is none.
    pub fn remove(&mut self, rule: &PacketRule<'_>, set_named: impl Fn(&str, SetKind) -> Option<SetId>) -> bool {
        let Ok((v4, v6)) = self.parts(rule, &set_named) else { return false };
        let v4 = v4.iter().fold(false, |any, part| self.v4.remove(part) | any);
        let v6 = v6.iter().fold(false, |any, part| self.v6.remove(part) | any);
        v4 | v6
    }

    /// True if so much has changed that [`rebuilt`](PacketRules::rebuilt) would make look-ups faster.
    pub fn is_worn(&self) -> bool {
        self.v4.is_worn() || self.v6.is_worn()
    }

    /// The same rules in a table that is made for them. This takes about a microsecond a part.
    pub fn rebuilt(&self) -> Self {
        let (v4, v6) = (self.v4.rebuilt(), self.v6.rebuilt());
        let (tested4, tested6) = (tested(&v4.rules()), tested(&v6.rules()));
        PacketRules { v4, v6, sets: self.sets.clone(), tested4, tested6 }
    }

    /// True without rules.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// The number of parts of all rules.
    pub fn parts_count(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// The bits of IPv4 keys that decide about the result, also by the named sets that have a field of the key.
    pub(crate) fn flow_mask4(&self) -> Key<WORDS4> {
        let mut mask = self.tested4;
        for (_, field) in self.sets.iter() {
            match field {
                Condition::Source => mask.0[0] |= 0xffff_ffff << 32,
                Condition::Destination => mask.0[0] |= 0xffff_ffff,
                other => mask.0[WORDS4 - 1] |= port_lane(*other),
            }
        }
        without_marks(mask)
    }

    /// The same for IPv6.
    pub(crate) fn flow_mask6(&self) -> Key<WORDS6> {
        let mut mask = self.tested6;
        for (_, field) in self.sets.iter() {
            match field {
                Condition::Source => mask.0[..2].fill(u64::MAX),
                Condition::Destination => mask.0[2..4].fill(u64::MAX),
                other => mask.0[WORDS6 - 1] |= port_lane(*other),
            }
        }
        without_marks(mask)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }

    /// True if a rule names a set.
    pub(crate) fn uses_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    /// The result of the first matching rule for each packet of `keys`, at its position in `results`. Packets without a matching rule are left out.
    pub fn look_up(&self, keys: &mut PacketKeys, sets: &Sets, mut matched: impl FnMut(usize, RuleResult)) {
        self.look_up4(&mut keys.v4, sets, &mut matched);
        self.look_up6(&mut keys.v6, sets, &mut matched);
    }

    /// The results for IPv4 packets.
    pub(crate) fn look_up4(
        &self,
        keys: &mut FamilyKeys<WORDS4>,
        sets: &Sets,
        matched: &mut dyn FnMut(usize, RuleResult),
    ) {
        self.mark4(keys, sets);
        keys.find(&self.v4, matched);
    }

    /// The results for IPv6 packets.
    pub(crate) fn look_up6(
        &self,
        keys: &mut FamilyKeys<WORDS6>,
        sets: &Sets,
        matched: &mut dyn FnMut(usize, RuleResult),
    ) {
        self.mark6(keys, sets);
        keys.find(&self.v6, matched);
    }

    /// Sets the bits of the named sets that have a field of a key.
    fn mark4(&self, keys: &mut FamilyKeys<WORDS4>, sets: &Sets) {
        keys.mark(&self.sets, sets, |set, field, keys, marks, bit| match field {
            Condition::Source | Condition::Destination => {
                let shift = if field == Condition::Source { 32 } else { 0 };
                let mut addresses = [0; BATCH];
                addresses.iter_mut().zip(keys).for_each(|(address, key)| *address = (key.0[0] >> shift) as u32);
                set.mark4(&addresses[..keys.len()], marks, bit);
            }
            _ => mark_ports(set, field, keys, marks, bit),
        });
    }

    fn mark6(&self, keys: &mut FamilyKeys<WORDS6>, sets: &Sets) {
        keys.mark(&self.sets, sets, |set, field, keys, marks, bit| match field {
            Condition::Source | Condition::Destination => {
                let word = if field == Condition::Source { 0 } else { 2 };
                let mut addresses = [0; BATCH];
                let join = |key: &Key<WORDS6>| u128::from(key.0[word]) << 64 | u128::from(key.0[word + 1]);
                addresses.iter_mut().zip(keys).for_each(|(address, key)| *address = join(key));
                set.mark6(&addresses[..keys.len()], marks, bit);
            }
            _ => mark_ports(set, field, keys, marks, bit),
        });
    }

    /// The result of the first rule that matches one packet. For several packets [`look_up`](PacketRules::look_up) is faster.
    pub fn find(&self, fields: &MatchFields, came: (InterfaceId, VrfId), sets: &Sets) -> Option<RuleResult> {
        self.find_behind(fields, came, sets, None).map(|(_, result)| result)
    }

    /// The rank and the result of the first rule of a higher rank than `rank` that matches one packet.
    pub fn find_behind(
        &self,
        fields: &MatchFields,
        came: (InterfaceId, VrfId),
        sets: &Sets,
        rank: Option<u32>,
    ) -> Option<(u32, RuleResult)> {
        let shared = KeyFields::of(fields, came.0, came.1);
        let mut marks = 0;
        for (bit, (id, field)) in self.sets.iter().enumerate() {
            let Some(set) = sets.get(*id) else { continue };
            let has = match field {
                Condition::Source => set.contains_address(fields.source),
                Condition::Destination => set.contains_address(fields.destination),
                Condition::SourcePort => fields.sport.is_some_and(|port| set.contains_port(port)),
                Condition::DestinationPort => fields.dport.is_some_and(|port| set.contains_port(port)),
                _ => false,
            };
            marks |= u64::from(has) << bit;
        }
        match (fields.source, fields.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                find_one(&self.v4, shared.key4(source.to_bits(), destination.to_bits()), (marks, rank))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                find_one(&self.v6, shared.key6(source.to_bits(), destination.to_bits()), (marks, rank))
            }
            _ => None,
        }
    }

    /// The parts of a rule for IPv4 and for IPv6.
    #[allow(clippy::type_complexity)]
    fn parts(
        &mut self,
        rule: &PacketRule<'_>,
        set_named: &impl Fn(&str, SetKind) -> Option<SetId>,
    ) -> Result<(Vec<TernaryRule<WORDS4>>, Vec<TernaryRule<WORDS6>>), PacketRuleError> {
        let combinations = rule.matching.combinations();
        if combinations > MOST_COMBINATIONS {
            return Err(PacketRuleError::TooManyCombinations { combinations });
        }
        let mut error = None;
        let mut used = self.sets.clone();
        let mut bit = |name: &str, field: Condition| {
            let kind = field.set_kind().unwrap_or(SetKind::Address);
            let Some(id) = set_named(name, kind) else {
                error = Some(PacketRuleError::UnknownSet { name: name.to_string() });
                return 0;
            };
            let at = used.iter().position(|known| *known == (id, field)).unwrap_or_else(|| {
                Arc::make_mut(&mut used).push((id, field));
                used.len() - 1
            });
            if at >= MOST_SETS_USED {
                error = Some(PacketRuleError::TooManySets);
                return 0;
            }
            at as u32
        };
        let came = (rule.interface, rule.vrf);
        let v4 = ternary_rules(rule.matching, came, TernaryRule::any(rule.rank, rule.result), &mut bit);
        let v6 = ternary_rules(rule.matching, came, TernaryRule::any(rule.rank, rule.result), &mut bit);
        if let Some(error) = error {
            return Err(error);
        }
        self.sets = used;
        Ok((v4, v6))
    }
}

/// The bits that rules test.
fn tested<const W: usize>(rules: &[TernaryRule<W>]) -> Key<W> {
    let mut all = Key([0; W]);
    rules.iter().for_each(|rule| join(&mut all, &rule.tested()));
    all
}

fn join<const W: usize>(all: &mut Key<W>, more: &Key<W>) {
    all.0.iter_mut().zip(more.0).for_each(|(all, more)| *all |= more);
}

/// The lane of ports that a set is asked about.
fn port_lane(field: Condition) -> u64 {
    if field == Condition::SourcePort { 0xffff } else { 0xffff << 16 }
}

/// The bits of sets are not in a key before its look-up.
fn without_marks<const W: usize>(mut mask: Key<W>) -> Key<W> {
    mask.0[ids_word(W)] &= !0xffff_ffff;
    mask
}

fn mark_ports<const W: usize>(set: &crate::Set, field: Condition, keys: &[Key<W>], marks: &mut [u64], bit: u64) {
    let shift = if field == Condition::SourcePort { 0 } else { 16 };
    let mut ports = [0; BATCH];
    // A packet without ports may have its ICMP type here, but then no rule on ports matches it.
    ports.iter_mut().zip(keys).for_each(|(port, key)| *port = (key.0[W - 1] >> shift) as u16);
    set.mark_ports(&ports[..keys.len()], marks, bit);
}

fn find_one<const W: usize>(
    rules: &RuleSet<W>,
    mut key: Key<W>,
    (marks, rank): (u64, Option<u32>),
) -> Option<(u32, RuleResult)> {
    key.0[ids_word(W)] |= marks;
    rules.find_behind(&key, rank).map(|rule| (rule.rank, rule.result))
}

/// The keys of a batch of packets: up to [`BATCH`], each with its position in the batch.
// Boxed by its owner: a worker has one for all its batches.
#[derive(Clone)]
pub struct PacketKeys {
    pub(crate) v4: FamilyKeys<WORDS4>,
    pub(crate) v6: FamilyKeys<WORDS6>,
}

#[derive(Clone, Debug)]
pub(crate) struct FamilyKeys<const W: usize> {
    len: usize,
    keys: [Key<W>; BATCH],
    positions: [u16; BATCH],
}

impl Default for PacketKeys {
    fn default() -> Self {
        PacketKeys { v4: FamilyKeys::EMPTY, v6: FamilyKeys::EMPTY }
    }
}

impl PacketKeys {
    /// Removes all keys.
    #[inline]
    pub fn clear(&mut self) {
        (self.v4.len, self.v6.len) = (0, 0);
    }

    /// The positions of all packets that have a key.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        let of4 = self.v4.positions[..self.v4.len].iter();
        of4.chain(&self.v6.positions[..self.v6.len]).map(|position| usize::from(*position))
    }

    /// Adds the packet at `position`. The keys of more than [`BATCH`] packets are ignored.
    #[inline]
    pub fn push(&mut self, position: usize, fields: &MatchFields, interface: InterfaceId, vrf: VrfId) {
        let shared = KeyFields::of(fields, interface, vrf);
        match (fields.source, fields.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.push4(position, (source.to_bits(), destination.to_bits()), &shared);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                self.v6.push(position, shared.key6(source.to_bits(), destination.to_bits()));
            }
            // Both addresses of a packet are of one version.
            _ => {}
        }
    }

    /// Adds an IPv4 packet with these addresses, the source first.
    #[inline(always)]
    pub fn push4(&mut self, position: usize, (source, destination): (u32, u32), fields: &KeyFields) {
        self.v4.push(position, fields.key4(source, destination));
    }
}

impl<const W: usize> FamilyKeys<W> {
    pub(crate) const EMPTY: Self = FamilyKeys { len: 0, keys: [Key([0; W]); BATCH], positions: [0; BATCH] };

    /// The number of keys.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The keys, and all positions.
    #[inline(always)]
    pub(crate) fn parts(&self) -> (&[Key<W>], &[u16; BATCH]) {
        (&self.keys[..self.len], &self.positions)
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, position: usize, key: Key<W>) {
        if let (Some(place), Some(at)) = (self.keys.get_mut(self.len), self.positions.get_mut(self.len)) {
            (*place, *at) = (key, position as u16);
            self.len += 1;
        }
    }

    /// Sets the bits of the sets that have a field of a key.
    fn mark(
        &mut self,
        used: &[(SetId, Condition)],
        sets: &Sets,
        mark: impl Fn(&crate::Set, Condition, &[Key<W>], &mut [u64], u64),
    ) {
        if self.len == 0 || used.is_empty() {
            return;
        }
        let mut marks = [0; BATCH];
        let (keys, marks) = (&mut self.keys[..self.len], &mut marks[..self.len]);
        for (bit, (id, field)) in used.iter().enumerate() {
            // A set that was removed meanwhile has no elements.
            if let Some(set) = sets.get(*id) {
                mark(set, *field, keys, marks, 1 << bit);
            }
        }
        keys.iter_mut().zip(marks).for_each(|(key, marks)| key.0[ids_word(W)] |= *marks);
    }

    fn find(&self, rules: &RuleSet<W>, mut matched: impl FnMut(usize, RuleResult)) {
        if self.len == 0 || rules.is_empty() {
            return;
        }
        let mut found = [None; BATCH];
        rules.look_up(&self.keys[..self.len], &mut found[..self.len]);
        for (found, position) in found.iter().zip(&self.positions).take(self.len) {
            if let Some(rule) = found {
                matched(usize::from(*position), rule.result);
            }
        }
    }
}
