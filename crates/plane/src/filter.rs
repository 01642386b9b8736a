//! The rules of paths and packet filters, as lists that workers look up.

use classifier::{ListedRule, RuleHold, RuleResult};
use packet::Meta;
use plan::{FibMatch, FilterLimit, FilterRule, FilterStatement, FilterVerdict, Match, ShareName};
use units::{InterfaceId, ShareId, VrfId};

/// The input interface and the VRF that a match names. An interface that no longer exists has an id that is never given out.
pub type RuleOrigin = (Option<InterfaceId>, Option<VrfId>);

/// The effect of a rule on the packets that it decides about. It is the action of the rule's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleEffect {
    /// The verdict.
    pub verdict: FilterVerdict,
    /// The code point that the packet gets.
    pub dscp: Option<u8>,
    /// True if the packet is logged.
    pub logs: bool,
    /// The condition on routes. The table does not test it. The reader of the result does.
    pub fib: Option<FibMatch>,
}

/// Bits of an action: the verdict, whether the packet is logged or gets a code point, and the code point.
const VERDICT: u32 = 3;
const LOGS: u32 = 1 << 2;
const SETS_DSCP: u32 = 1 << 3;
/// The condition on routes: zero for none, or its position in [`FibMatch::ALL`] plus one.
const FIB: u32 = 7 << FIB_SHIFT;
const FIB_SHIFT: u32 = 4;
const DSCP_SHIFT: u32 = 8;
/// Bits 14 and 15 belong to the lists whose rules have a verdict of their own.
pub(crate) const OWN_SHIFT: u32 = 14;

impl RuleEffect {
    /// The effect on packets that no rule matches.
    pub const ACCEPT: RuleEffect = RuleEffect { verdict: FilterVerdict::Accept, dscp: None, logs: false, fib: None };

    /// The effect of a rule.
    pub fn new(verdict: FilterVerdict, matching: &Match, statements: &[FilterStatement]) -> RuleEffect {
        let mut effect = RuleEffect { verdict, dscp: None, logs: false, fib: matching.fib };
        for statement in statements {
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
        RuleEffect { verdict, dscp, logs: action & LOGS != 0, fib: RuleEffect::fib_of(action) }
    }

    /// The condition on routes that an action stands for.
    #[inline]
    pub fn fib_of(action: u32) -> Option<FibMatch> {
        FibMatch::ALL.get(((action & FIB) >> FIB_SHIFT).checked_sub(1)? as usize).copied()
    }

    /// The action, of 16 bits.
    pub fn action(self) -> u32 {
        let verdict = match self.verdict {
            FilterVerdict::Accept => 0,
            FilterVerdict::Drop => 1,
            FilterVerdict::Reject => 2,
        };
        let dscp = self.dscp.map_or(0, |dscp| SETS_DSCP | u32::from(dscp) << DSCP_SHIFT);
        let position = self.fib.and_then(|fib| FibMatch::ALL.iter().position(|known| *known == fib));
        let fib = position.map_or(0, |position| (position as u32 + 1) << FIB_SHIFT);
        verdict | dscp | fib | if self.logs { LOGS } else { 0 }
    }
}

/// A rule of a filter for its list.
pub fn filter_rule(rule: &FilterRule, (interface, vrf): RuleOrigin) -> ListedRule {
    let FilterRule { matching, statements, verdict, .. } = rule;
    let (limit, held) = (limit_of(statements), RuleHold::default());
    let action = RuleEffect::new(*verdict, matching, statements).action();
    let result = RuleResult { action, ..RuleResult::default() };
    ListedRule { matching: matching.clone(), interface, vrf, text: rule.to_string().into(), result, limit, held }
}

/// The limit of a rule.
pub(crate) fn limit_of(statements: &[FilterStatement]) -> Option<FilterLimit> {
    statements.iter().find_map(|statement| match statement {
        FilterStatement::Limit(limit) => Some(*limit),
        _ => None,
    })
}

// Actions of a rule that selects a path: it gives its packets a class, and a share.
const OWN_CLASS: u32 = 1;
const OWN_SHARE: u32 = 2;

/// The class and the share that the rule of a path gives its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PathMarks {
    /// A class of its own; `None` for that of the path.
    pub class: Option<u8>,
    /// A share of the output port; `None` for that of the packet's circuit.
    pub share: Option<ShareId>,
}

impl PathMarks {
    #[inline]
    pub fn of(result: RuleResult) -> PathMarks {
        let class = (result.action & OWN_CLASS != 0).then_some(result.class as u8);
        PathMarks { class, share: (result.action & OWN_SHARE != 0).then_some(ShareId(result.queue)) }
    }

    /// True if it gives its packets neither.
    #[inline]
    pub fn is_empty(self) -> bool {
        self == PathMarks::default()
    }

    /// Marks a packet that has the class of its path.
    #[inline]
    pub fn mark(self, meta: &mut Meta) {
        if let Some(class) = self.class {
            meta.class = class;
        }
        if let Some(share) = self.share {
            meta.set_share_by_rule(share);
        }
    }
}

/// The rule that selects the path at position `path` of the generation, called `name`, and the share with its number.
pub fn path_rule(
    matching: &Match,
    (interface, vrf): RuleOrigin,
    (path, name): (usize, &str),
    (class, share): (Option<u8>, Option<(&ShareName, ShareId)>),
) -> ListedRule {
    let action = if class.is_some() { OWN_CLASS } else { 0 } | if share.is_some() { OWN_SHARE } else { 0 };
    let queue = share.map_or(0, |(_, id)| id.0);
    let class_number = class.unwrap_or(0).into();
    let result = RuleResult { path: path as u16, class: class_number, queue, action, ..RuleResult::default() };
    let mut text = format!("{matching} path {name}");
    if let Some(class) = class {
        text += &format!(" class {class}");
    }
    if let Some((share, _)) = share {
        text += &format!(" share {share}");
    }
    ListedRule {
        matching: matching.clone(),
        interface,
        vrf,
        text: text.into(),
        result,
        limit: None,
        held: RuleHold::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_has_the_whole_effect() {
        let [a, b, c, d] = FibMatch::ALL.map(Some);
        let fibs = [None, a, b, c, d];
        for verdict in [FilterVerdict::Accept, FilterVerdict::Drop, FilterVerdict::Reject] {
            for dscp in [None, Some(0), Some(46), Some(63)] {
                for (logs, fib) in [false, true].into_iter().flat_map(|logs| fibs.map(|fib| (logs, fib))) {
                    let effect = RuleEffect { verdict, dscp, logs, fib };
                    assert!(effect.action() < 1 << OWN_SHIFT);
                    assert_eq!(RuleEffect::of_action(effect.action()), effect);
                }
            }
        }
    }
}
