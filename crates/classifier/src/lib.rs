//! Classification: which rule of a set a packet matches, among up to a million rules.
//!
//! A [`RuleSet`] is a value that many share. A change makes a new one, which shares all but the changed parts with the old one.

#![forbid(unsafe_code)]

mod build;
mod lookup;
mod partition;
mod rule;
mod rule_set;
mod selector;

pub use rule::{Key, RuleResult, TernaryRule};
pub use rule_set::RuleSet;
