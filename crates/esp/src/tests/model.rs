//! A second, plain implementation of the specification, compared with the real one: a map from tags to values and expiry times.

use super::{NODE, Place};
use crate::isa::{Abort, Operator, StateInstruction, mark_tag};
use crate::site::InstructionFate;
use crate::store::{CleanerMode, LIFETIME, StoreSpec, mix};
use proptest::prelude::*;
use std::collections::HashMap;
use units::{Instant, Nanos};

/// A tick of the store: entries live up to one tick less than their lifetime.
const TICK: u64 = 10_000;

pub struct Model {
    entries: HashMap<u64, (u64, u64)>,
    capacity: usize,
    now: u64,
}

impl Model {
    pub fn new(capacity: usize) -> Model {
        Model { entries: HashMap::new(), capacity, now: 0 }
    }

    pub fn at(&mut self, now: Instant) {
        self.now = now.get() / TICK;
        self.entries.retain(|_, (_, end)| *end > self.now);
    }

    pub fn get(&self, tag: u64) -> Option<u64> {
        self.entries.get(&tag).map(|(value, _)| *value)
    }

    fn set(&mut self, tag: u64, value: u64) {
        let end = self.now + LIFETIME.get() / TICK;
        self.entries.entry(tag).or_insert((value, end)).0 = value;
    }

    /// Executes an instruction. Returns its fate and the instruction afterwards. An abort leaves the store unchanged.
    pub fn run(&mut self, instruction: StateInstruction) -> (InstructionFate, StateInstruction) {
        let before = self.entries.clone();
        let mut after = instruction;
        let fate = match self.literally(&mut after) {
            Ok(_) if self.entries.len() > self.capacity => {
                // Without room for the mark, a repeat after completion passes if it is the first child's.
                if let Some(first) = self.repeated_by_first(&before, instruction) {
                    self.entries = before;
                    return if first {
                        (InstructionFate::Forwarded, after)
                    } else {
                        (InstructionFate::Dropped, instruction)
                    };
                }
                InstructionFate::Aborted(Abort::Full)
            }
            Ok(true) => InstructionFate::Forwarded,
            Ok(false) => InstructionFate::Dropped,
            Err(why) => InstructionFate::Aborted(why),
        };
        if matches!(fate, InstructionFate::Aborted(_)) {
            self.entries = before;
            return (fate, instruction);
        }
        (fate, after)
    }

    /// For an RCOLLECT that repeats after completion: true if it is the first child's. `None` for other instructions.
    fn repeated_by_first(&self, before: &HashMap<u64, (u64, u64)>, instruction: StateInstruction) -> Option<bool> {
        let StateInstruction::Rcollect { counter, child, .. } = instruction else { return None };
        let bits = before.get(&mix(child, counter))?.0;
        (before.get(&counter)?.0 == 0 && bits & 2 == 2).then_some(bits & 1 == 1)
    }

    /// Spec E-20 to E-25, line by line.
    fn literally(&mut self, instruction: &mut StateInstruction) -> Result<bool, Abort> {
        let rel = |o: Operator, left: u64, right: u64| match o {
            Operator::Lt => left < right,
            Operator::Le => left <= right,
            Operator::Eq => left == right,
            Operator::Ne => left != right,
            Operator::Ge => left >= right,
            _ => left > right,
        };
        match instruction {
            StateInstruction::Nop => Ok(true),
            StateInstruction::Count { counter, threshold, inclusive } => {
                let new = self.get(*counter).map_or(1, |c| c.saturating_add(1));
                self.set(*counter, new);
                Ok(if *inclusive { new <= u64::from(*threshold) } else { new < u64::from(*threshold) })
            }
            StateInstruction::Compare { tag, value, relation } => {
                if let Some(there) = self.get(*tag)
                    && !rel(*relation, *value, there)
                {
                    return Ok(false);
                }
                self.set(*tag, *value);
                Ok(true)
            }
            StateInstruction::Collect { counter, result, value, operator } => {
                if self.get(*counter).ok_or(Abort::AbsentTag)? == 0 {
                    return Err(Abort::Underflow);
                }
                self.combine(*result, *value, *operator);
                let left = self.entries[counter].0.saturating_sub(1);
                self.set(*counter, left);
                *value = if left == 0 { self.entries[result].0 } else { *value };
                Ok(left == 0)
            }
            StateInstruction::Rchld { counter, child } => {
                let k = mix(*child, *counter);
                let first = match self.get(k) {
                    Some(bits) => bits & 1 == 1,
                    None => {
                        let first = self.get(*counter).unwrap_or(0) == 0;
                        let children = self.get(*counter).unwrap_or(0);
                        self.set(k, u64::from(first));
                        self.set(*counter, children.saturating_add(1));
                        first
                    }
                };
                *child = if first { mix(NODE, *counter) } else { *child };
                Ok(first)
            }
            StateInstruction::Rcollect { counter, result, child, value, operator } => {
                let k = mix(*child, *counter);
                let bits = self.get(k).ok_or(Abort::AbsentTag)?;
                let left = self.get(*counter).ok_or(Abort::AbsentTag)?;
                if bits & 2 == 0 {
                    if left == 0 {
                        return Err(Abort::Underflow);
                    }
                    let is_only = self.get(*result).is_none();
                    self.set(k, bits | 2);
                    self.combine(*result, *value, *operator);
                    let left = self.entries[counter].0.saturating_sub(1);
                    self.set(*counter, left);
                    if left == 0 && is_only {
                        self.set(k, bits | 2 | 4);
                    }
                } else if left == 0 && bits & 4 == 0 {
                    // One repeat per wave passes: that of a child which saw the present mark.
                    self.get(*result).ok_or(Abort::AbsentTag)?;
                    let mark = self.get(mark_tag(*counter)).unwrap_or(0);
                    if bits >> 3 != mark {
                        self.set(k, mark << 3 | bits & 7);
                        return Ok(false);
                    }
                    self.set(k, (mark + 1) << 3 | bits & 7);
                    self.set(mark_tag(*counter), mark + 1);
                }
                if self.entries[counter].0 != 0 {
                    return Ok(false);
                }
                *value = self.get(*result).ok_or(Abort::AbsentTag)?;
                *child = mix(NODE, *counter);
                Ok(true)
            }
            StateInstruction::Mark { tag, value } => {
                if self.get(*tag).is_none() {
                    self.set(*tag, *value);
                }
                Ok(true)
            }
            StateInstruction::Test { tag } => Ok(self.get(*tag).is_some()),
            StateInstruction::Get { tag, value } => {
                *value = self.get(*tag).ok_or(Abort::AbsentTag)?;
                Ok(true)
            }
            StateInstruction::Put { tag, value } => {
                self.set(*tag, *value);
                Ok(true)
            }
            StateInstruction::Setfwd { tag, value, relation } => {
                Ok(self.get(*tag).is_some_and(|there| rel(*relation, there, *value)))
            }
        }
    }

    fn combine(&mut self, tag: u64, comes: u64, operator: Operator) {
        let new = self.get(tag).map_or(comes, |there| match operator {
            Operator::Add => there.saturating_add(comes),
            Operator::Min => there.min(comes),
            Operator::Max => there.max(comes),
            Operator::And => there & comes,
            Operator::Or => there | comes,
            Operator::Xor => there ^ comes,
            Operator::First => there,
            _ => comes,
        });
        self.set(tag, new);
    }
}

/// Instructions on so few tags that they often use the same ones.
pub fn meeting() -> impl Strategy<Value = StateInstruction> {
    let tag = || 0u64..6;
    let value = || prop_oneof![0u64..4, Just(u64::MAX)];
    let combines = (0u8..8).prop_map(|number| Operator::of(number).unwrap());
    let compares = || (8u8..14).prop_map(|number| Operator::of(number).unwrap());
    prop_oneof![
        (tag(), 0u32..4, any::<bool>())
            .prop_map(|(counter, threshold, inclusive)| { StateInstruction::Count { counter, threshold, inclusive } }),
        (tag(), value(), compares()).prop_map(|(tag, value, relation)| StateInstruction::Compare {
            tag,
            value,
            relation
        }),
        (tag(), tag(), value(), combines.clone()).prop_map(|(counter, result, value, operator)| {
            StateInstruction::Collect { counter, result, value, operator }
        }),
        (tag(), tag(), tag(), value(), combines).prop_map(|(counter, result, child, value, operator)| {
            StateInstruction::Rcollect { counter, result, child, value, operator }
        }),
        (tag(), tag()).prop_map(|(counter, child)| StateInstruction::Rchld { counter, child }),
        (tag(), value()).prop_map(|(tag, value)| StateInstruction::Mark { tag, value }),
        tag().prop_map(|tag| StateInstruction::Test { tag }),
        (tag(), value()).prop_map(|(tag, value)| StateInstruction::Get { tag, value }),
        (tag(), value()).prop_map(|(tag, value)| StateInstruction::Put { tag, value }),
        (tag(), value(), compares()).prop_map(|(tag, value, relation)| StateInstruction::Setfwd {
            tag,
            value,
            relation
        }),
    ]
}

proptest! {
    /// Random instructions at random times, in a store that is often full: same fates, same packets, same entries.
    #[test]
    fn place_matches_the_specification_model(
        steps in proptest::collection::vec((meeting(), 0u64..4_000), 1..200),
        capacity in 1usize..12,
        (dedicated, diagnostics) in any::<(bool, bool)>(),
    ) {
        let cleaning = if dedicated { CleanerMode::Dedicated } else { CleanerMode::Inline };
        // With creators recorded, packets take the two stages; otherwise the fast path.
        let mut place = Place::new(StoreSpec { cleaning, diagnostics, ..StoreSpec::of(capacity as u64) });
        let mut model = Model::new(capacity);
        for (instruction, milliseconds) in steps {
            place.wait(Nanos::millis(milliseconds));
            model.at(place.now);
            let expected = model.run(instruction);
            prop_assert_eq!(place.run(instruction), expected, "{:?}", instruction);
            let mut entries: Vec<(u64, u64)> = place.inspector.entries(place.now).map(|e| (e.tag, e.value)).collect();
            let mut plain: Vec<(u64, u64)> = model.entries.iter().map(|(tag, (value, _))| (*tag, *value)).collect();
            entries.sort_unstable();
            plain.sort_unstable();
            prop_assert_eq!(entries, plain);
            if let Some(cleaner) = &mut place.cleaner {
                while cleaner.step(place.now) > 0 {}
            }
        }
    }
}
