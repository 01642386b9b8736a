//! Rules that select the routing table of a packet: RTM_NEWRULE and RTM_DELRULE (ip-rule(8), <linux/fib_rules.h>).

use super::message::{DUMP, Message, address, attributes, text, u32_at};
use super::{KernelError, Netlink, uapi};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The action of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleAction {
    /// Looks the packet up in the rule's table.
    Lookup,
    /// Continues at the rule with this priority.
    Goto(u32),
    /// Continues at the next rule.
    Nothing,
    /// Drops the packet.
    Blackhole,
    /// Drops the packet and reports that the network is unreachable.
    Unreachable,
    /// Drops the packet and reports that it is prohibited.
    Prohibit,
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelRule {
    /// True for IPv6, false for IPv4.
    pub is_ipv6: bool,
    /// The kernel tries rules in the order of this number, from zero.
    pub priority: u32,
    /// The prefix of the packet's source; length 0 for all.
    pub from: (IpAddr, u8),
    /// The prefix of the packet's destination; length 0 for all.
    pub to: (IpAddr, u8),
    /// The packet's type of service; 0 for all.
    pub tos: u8,
    /// The name of the ingress link.
    pub ingress: Option<String>,
    /// The name of the egress link to which the sender's socket is bound.
    pub egress: Option<String>,
    /// The packet's mark and the mask of the compared bits.
    pub mark: Option<(u32, u32)>,
    /// The table of [`RuleAction::Lookup`]; 0 for that of the packet's VRF.
    pub table: u32,
    /// The action.
    pub action: RuleAction,
    /// True if it applies to packets of VRFs, and looks up their table.
    pub is_vrf: bool,
    /// True if it applies to packets that do not meet the conditions.
    pub is_inverted: bool,
    /// True if it has further conditions, which are not parsed: ports, protocol, user, tunnel, suppressed routes.
    pub has_more_conditions: bool,
    /// The program that added it (RTPROT_* of <linux/rtnetlink.h>).
    pub protocol: u8,
}

impl KernelRule {
    /// Parses a message's body. `None` for other families and unknown actions.
    pub(super) fn parse(body: &[u8]) -> Option<KernelRule> {
        // `struct fib_rule_hdr`: family, lengths of the prefixes, type of service, table, two reserved bytes, action, flags.
        let [kind, to_length, from_length, tos, table, _, _, action] = *body.first_chunk()?;
        let any = match i32::from(kind) {
            libc::AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            libc::AF_INET6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => return None,
        };
        let mut rule = KernelRule {
            is_ipv6: any.is_ipv6(),
            priority: 0,
            from: (any, from_length),
            to: (any, to_length),
            tos,
            ingress: None,
            egress: None,
            mark: None,
            table: u32::from(table),
            action: RuleAction::Nothing,
            is_vrf: false,
            // The other flags change with the presence of links, without a notification.
            is_inverted: u32_at(body, 8)? & uapi::FIB_RULE_INVERT != 0,
            has_more_conditions: false,
            protocol: 0,
        };
        let mut target = 0;
        for (attribute, value) in attributes(body.get(12..)?) {
            match attribute {
                uapi::FRA_SRC => rule.from.0 = address(kind, value)?,
                uapi::FRA_DST => rule.to.0 = address(kind, value)?,
                uapi::FRA_IIFNAME => rule.ingress = Some(text(value)),
                uapi::FRA_OIFNAME => rule.egress = Some(text(value)),
                uapi::FRA_PRIORITY => rule.priority = u32_at(value, 0)?,
                uapi::FRA_FWMARK => rule.mark.get_or_insert((0, u32::MAX)).0 = u32_at(value, 0)?,
                uapi::FRA_FWMASK => rule.mark.get_or_insert((0, u32::MAX)).1 = u32_at(value, 0)?,
                uapi::FRA_TABLE => rule.table = u32_at(value, 0)?,
                uapi::FRA_GOTO => target = u32_at(value, 0)?,
                uapi::FRA_L3MDEV => rule.is_vrf = value.first().is_some_and(|&set| set != 0),
                uapi::FRA_PROTOCOL => rule.protocol = *value.first()?,
                // The kernel always sends the length of suppressed prefixes; all ones means none.
                uapi::FRA_SUPPRESS_IFGROUP | uapi::FRA_SUPPRESS_PREFIXLEN => {
                    rule.has_more_conditions |= u32_at(value, 0)? != u32::MAX;
                }
                uapi::FRA_TUN_ID
                | uapi::FRA_UID_RANGE
                | uapi::FRA_IP_PROTO
                | uapi::FRA_SPORT_RANGE
                | uapi::FRA_DPORT_RANGE => rule.has_more_conditions = true,
                _ => {}
            }
        }
        rule.action = match action {
            uapi::FR_ACT_TO_TBL => RuleAction::Lookup,
            uapi::FR_ACT_GOTO => RuleAction::Goto(target),
            uapi::FR_ACT_NOP => RuleAction::Nothing,
            uapi::FR_ACT_BLACKHOLE => RuleAction::Blackhole,
            uapi::FR_ACT_UNREACHABLE => RuleAction::Unreachable,
            uapi::FR_ACT_PROHIBIT => RuleAction::Prohibit,
            _ => return None,
        };
        Some(rule)
    }

    /// The request for all rules of both families.
    pub(super) fn to_dump() -> Message {
        Message::new(libc::RTM_GETRULE, DUMP, &[0; 12])
    }
}

impl Netlink {
    /// All rules of the network namespace, in the kernel's order within each family.
    pub fn rules(&mut self) -> Result<Vec<KernelRule>, KernelError> {
        self.list("the rules", KernelRule::to_dump, libc::RTM_NEWRULE, KernelRule::parse)
    }
}
