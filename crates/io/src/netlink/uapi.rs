//! Numbers of <linux/rtnetlink.h>, <linux/nexthop.h>, <linux/fib_rules.h>, <linux/netconf.h> and <linux/if_addr.h> that `libc` lacks.

/// Messages about next-hop objects (since Linux 5.3).
pub(super) const RTM_NEWNEXTHOP: u16 = 104;
pub(super) const RTM_DELNEXTHOP: u16 = 105;
pub(super) const RTM_GETNEXTHOP: u16 = 106;

/// A route from a router advertisement.
pub(super) const RTPROT_RA: u8 = 9;
/// The id of a route's next-hop object.
pub(super) const RTA_NH_ID: u16 = 30;
/// In RTA_METRICS: the MTU towards the destination.
pub(super) const RTAX_MTU: u16 = 2;

/// Flags of a hop, in `rtm_flags`, `rtnh_flags` and `nh_flags`.
pub(super) const RTNH_F_DEAD: u8 = 1;
pub(super) const RTNH_F_ONLINK: u8 = 4;
pub(super) const RTNH_F_LINKDOWN: u8 = 16;

/// The protocol that installed an address (since Linux 5.18).
pub(super) const IFA_PROTO: u16 = 11;

/// Attributes of a next-hop object.
pub(super) const NHA_ID: u16 = 1;
pub(super) const NHA_GROUP: u16 = 2;
pub(super) const NHA_BLACKHOLE: u16 = 4;
pub(super) const NHA_OIF: u16 = 5;
pub(super) const NHA_GATEWAY: u16 = 6;
pub(super) const NHA_ENCAP_TYPE: u16 = 7;
pub(super) const NHA_FDB: u16 = 11;

/// Attributes of a rule.
pub(super) const FRA_DST: u16 = 1;
pub(super) const FRA_SRC: u16 = 2;
pub(super) const FRA_IIFNAME: u16 = 3;
pub(super) const FRA_GOTO: u16 = 4;
pub(super) const FRA_PRIORITY: u16 = 6;
pub(super) const FRA_FWMARK: u16 = 10;
pub(super) const FRA_TUN_ID: u16 = 12;
pub(super) const FRA_SUPPRESS_IFGROUP: u16 = 13;
pub(super) const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
pub(super) const FRA_TABLE: u16 = 15;
pub(super) const FRA_FWMASK: u16 = 16;
pub(super) const FRA_OIFNAME: u16 = 17;
pub(super) const FRA_L3MDEV: u16 = 19;
pub(super) const FRA_UID_RANGE: u16 = 20;
pub(super) const FRA_PROTOCOL: u16 = 21;
pub(super) const FRA_IP_PROTO: u16 = 22;
pub(super) const FRA_SPORT_RANGE: u16 = 23;
pub(super) const FRA_DPORT_RANGE: u16 = 24;
/// Actions of a rule.
pub(super) const FR_ACT_TO_TBL: u8 = 1;
pub(super) const FR_ACT_GOTO: u8 = 2;
pub(super) const FR_ACT_NOP: u8 = 3;
pub(super) const FR_ACT_BLACKHOLE: u8 = 6;
pub(super) const FR_ACT_UNREACHABLE: u8 = 7;
pub(super) const FR_ACT_PROHIBIT: u8 = 8;
/// The rule applies to packets that do not meet its conditions.
pub(super) const FIB_RULE_INVERT: u32 = 2;

/// The families of multicast routes.
pub(super) const RTNL_FAMILY_IPMR: u8 = 128;
pub(super) const RTNL_FAMILY_IP6MR: u8 = 129;
/// Attributes of the settings of a link.
pub(super) const NETCONFA_IFINDEX: u16 = 1;
pub(super) const NETCONFA_MC_FORWARDING: u16 = 4;
