//! The rules of paths and packet filters, as lists that workers look up.

use classifier::{ListedRule, RuleResult};
use plan::{FilterRule, FilterStatement, FilterVerdict, Match};
use units::{InterfaceId, VrfId};

/// The input interface and the VRF that a match names. An interface that no longer exists has an id that is never given out.
pub type RuleOrigin = (Option<InterfaceId>, Option<VrfId>);

/// The effect of a filter's rule on the packets that it decides about. It is the action of the rule's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleEffect {
    /// The verdict.
    pub verdict: FilterVerdict,
    /// The code point that the packet gets.
    pub dscp: Option<u8>,
    /// True if the packet is logged.
    pub logs: bool,
}

/// Bits of an action: the verdict, whether the packet is logged or gets a code point, and the code point.
const VERDICT: u32 = 3;
const LOGS: u32 = 1 << 2;
const SETS_DSCP: u32 = 1 << 3;
const DSCP_SHIFT: u32 = 8;

impl RuleEffect {
    /// The effect on packets that no rule matches.
    pub const ACCEPT: RuleEffect = RuleEffect { verdict: FilterVerdict::Accept, dscp: None, logs: false };

    /// The effect of a rule.
    pub fn of(rule: &FilterRule) -> RuleEffect {
        let mut effect = RuleEffect { verdict: rule.verdict, dscp: None, logs: false };
        for statement in &rule.statements {
            match statement {
                FilterStatement::SetDscp(dscp) => effect.dscp = Some(*dscp),
                FilterStatement::Log(_) => effect.logs = true,
                // Every rule counts. Limits belong to the list.
                _ => {}
            }
        }
        effect
    }

    /// The effect that an action stands for.
    #[inline]
    pub fn of_action(action: u32) -> RuleEffect {
        let verdict = match action & VERDICT {
            0 => FilterVerdict::Accept,
            1 => FilterVerdict::Drop,
            _ => FilterVerdict::Reject,
        };
        let dscp = (action & SETS_DSCP != 0).then_some((action >> DSCP_SHIFT) as u8 & 0x3f);
        RuleEffect { verdict, dscp, logs: action & LOGS != 0 }
    }

    /// The action, of 16 bits.
    pub fn action(self) -> u32 {
        let verdict = match self.verdict {
            FilterVerdict::Accept => 0,
            FilterVerdict::Drop => 1,
            FilterVerdict::Reject => 2,
        };
        let dscp = self.dscp.map_or(0, |dscp| SETS_DSCP | u32::from(dscp) << DSCP_SHIFT);
        verdict | dscp | if self.logs { LOGS } else { 0 }
    }
}

/// A rule of a filter for its list.
pub fn filter_rule(rule: &FilterRule, (interface, vrf): RuleOrigin) -> ListedRule {
    let limit = rule.statements.iter().find_map(|statement| match statement {
        FilterStatement::Limit(limit) => Some(*limit),
        _ => None,
    });
    let result = RuleResult { action: RuleEffect::of(rule).action(), ..RuleResult::default() };
    ListedRule { matching: rule.matching.clone(), interface, vrf, text: rule.to_string().into(), result, limit }
}

/// The action of a rule that gives its packets a class of its own.
const OWN_CLASS: u32 = 1;

/// The rule that selects the path at position `path` of the generation, called `name`. Its packets get `class`, or that of the path.
pub fn path_rule(
    matching: &Match,
    (interface, vrf): RuleOrigin,
    (path, name): (usize, &str),
    class: Option<u8>,
) -> ListedRule {
    let action = if class.is_some() { OWN_CLASS } else { 0 };
    let result = RuleResult { path: path as u16, class: class.unwrap_or(0).into(), action, ..RuleResult::default() };
    let mut text = format!("{matching} path {name}");
    if let Some(class) = class {
        text += &format!(" class {class}");
    }
    ListedRule { matching: matching.clone(), interface, vrf, text: text.into(), result, limit: None }
}

/// The class that the packets of a path's rule get; `None` if it is that of the path.
#[inline]
pub(crate) fn own_class(result: RuleResult) -> Option<u8> {
    (result.action & OWN_CLASS != 0).then_some(result.class as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_has_the_whole_effect() {
        for verdict in [FilterVerdict::Accept, FilterVerdict::Drop, FilterVerdict::Reject] {
            for dscp in [None, Some(0), Some(46), Some(63)] {
                for logs in [false, true] {
                    let effect = RuleEffect { verdict, dscp, logs };
                    assert!(effect.action() < 1 << 16);
                    assert_eq!(RuleEffect::of_action(effect.action()), effect);
                }
            }
        }
    }
}
