//! Links, addresses, neighbours and rules.

use crate::rig::{batch, batch_with, rig};
use io::netlink::{AddressFlags, ChangeKind, KernelChange, KernelNeighbourState, RuleAction};

fn is_no_route(change: &KernelChange<'_>) -> bool {
    !matches!(change, KernelChange::Route { .. })
}

#[test]
fn addresses_appear_with_their_flags_and_disappear() {
    let Some(mut rig) = rig() else { return };
    rig.update();
    rig.ip("addr add 10.0.0.7/24 dev a\naddr add 10.9.0.1 peer 10.9.0.2/32 dev a\naddr add fd00:9::1/64 dev b preferred_lft 0 valid_lft 900");
    // The kernel adds an address before it is deprecated.
    let changes = rig.differences(|change| matches!(change, KernelChange::Address(ChangeKind::Added, _)));
    assert_eq!(changes, ["+ address 10.0.0.7/24", "+ address 10.9.0.1/32", "+ address fd00:9::1/64"]);
    let find = |rig: &crate::rig::Rig, text: &str| {
        let address = text.parse::<std::net::IpAddr>().unwrap();
        *rig.tables.addresses().find(|own| own.address == address).unwrap()
    };
    let own = find(&rig, "10.0.0.1");
    assert!(own.link == rig.index("a") && own.flags.is_permanent() && !own.flags.is_secondary() && own.peer.is_none());
    assert!(find(&rig, "10.0.0.7").flags.is_secondary());
    assert_eq!(find(&rig, "10.9.0.1").peer, Some("10.9.0.2".parse().unwrap()));
    rig.wait_until(|tables| tables.addresses().any(|own| own.flags.is_deprecated() && !own.flags.is_tentative()));
    let deprecated = find(&rig, "fd00:9::1").flags;
    assert!(deprecated.is_deprecated() && !deprecated.is_permanent() && !deprecated.is_tentative());
    assert_eq!(find(&rig, "127.0.0.1").scope, 254);
    rig.check_equal();
    // The kernel removes the secondary address with the primary one.
    rig.ip("addr del 10.0.0.1/24 dev a\naddr del fd00:9::1/64 dev b");
    assert_eq!(
        rig.differences(is_no_route),
        ["- address 10.0.0.1/24", "- address 10.0.0.7/24", "- address fd00:9::1/64"]
    );
    rig.check_equal();
}

#[test]
fn address_is_tentative_until_no_other_host_answers() {
    let Some(mut rig) = rig() else { return };
    rig.update();
    rig.host.sysctl("net/ipv6/conf/a/accept_dad", "1").unwrap();
    let is_undecided = |flags: AddressFlags| flags.is_tentative() && !flags.is_duplicate();
    let state = |rig: &crate::rig::Rig, last: u16| {
        let address = std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
        rig.tables.addresses().find(|own| own.address == address).map(|own| own.flags)
    };
    batch(&rig.peer, "addr add fd00:0::77/64 dev a nodad");
    rig.ip("addr add fd00:0::77/64 dev a\naddr add fd00:0::78/64 dev a");
    rig.update();
    assert!(state(&rig, 0x78).unwrap().is_tentative());
    rig.wait_until(|tables| {
        tables.addresses().any(|own| own.flags.is_duplicate()) && !tables.addresses().any(|own| is_undecided(own.flags))
    });
    assert!(state(&rig, 0x77).unwrap().is_duplicate(), "the peer has it");
    assert!(!state(&rig, 0x78).unwrap().is_tentative(), "nobody has it");
    rig.check_equal();
}

#[test]
fn neighbours_appear_change_and_disappear() {
    let Some(mut rig) = rig() else { return };
    rig.update();
    rig.ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev a\nneigh add fd00:0::3 lladdr 02:00:00:00:00:03 dev a nud stale router");
    rig.ip("neigh add 10.0.1.9 lladdr 02:00:00:00:00:09 dev b extern_learn\nneigh add proxy 10.0.0.50 dev a");
    assert_eq!(rig.differences(is_no_route), ["+ neighbour 10.0.0.2", "+ neighbour 10.0.1.9", "+ neighbour fd00::3"]);
    let find = |rig: &crate::rig::Rig, text: &str| {
        let address = text.parse::<std::net::IpAddr>().unwrap();
        *rig.tables.neighbours().find(|neighbour| neighbour.address == address).unwrap()
    };
    let stale = find(&rig, "fd00::3");
    assert_eq!(
        (stale.state, stale.is_router, stale.mac),
        (Some(KernelNeighbourState::Stale), true, "02:00:00:00:00:03".parse().ok())
    );
    assert!(find(&rig, "10.0.1.9").is_extern_learned && !find(&rig, "10.0.0.2").is_extern_learned);
    rig.check_equal();
    rig.ip("neigh replace 10.0.0.2 lladdr 02:00:00:00:00:22 dev a\nneigh del fd00:0::3 dev a");
    // A removed neighbour has failed before.
    assert_eq!(rig.differences(is_no_route), ["- neighbour fd00::3", "~ neighbour 10.0.0.2", "~ neighbour fd00::3"]);
    rig.ip("link set dev b down");
    let changes = rig.differences(|change| matches!(change, KernelChange::Neighbour(..)));
    assert_eq!(changes, ["- neighbour 10.0.1.9"]);
    rig.check_equal();
}

#[test]
fn rules_are_in_the_order_of_the_kernel() {
    let Some(mut rig) = rig() else { return };
    rig.update();
    rig.ip("rule add from 7.0.0.0/8 to 8.8.0.0/16 table 100 prio 77\nrule add iif a fwmark 1/3 lookup 101 prio 50");
    rig.ip("rule add l3mdev prio 1000\nrule add ipproto tcp dport 80 table 7 prio 77");
    rig.ip("rule add goto 32766 prio 60 oif b");
    batch_with(&rig.host, &["-6"], "rule add not from 2001::/32 unreachable prio 9");
    assert_eq!(
        rig.differences(is_no_route),
        ["+ rule 1000", "+ rule 50", "+ rule 60", "+ rule 77", "+ rule 77", "+ rule 9"]
    );
    rig.check_equal();
    let rules = rig.tables.rules();
    assert_eq!(
        rules.iter().map(|rule| (rule.is_ipv6, rule.priority)).collect::<Vec<_>>(),
        [(false, 0), (false, 50), (false, 60), (false, 77), (false, 77), (false, 1000), (false, 32766), (false, 32767)]
            .into_iter()
            .chain([(true, 0), (true, 9), (true, 32766)])
            .collect::<Vec<_>>()
    );
    let v4 = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    let [_, marked, jump, from, ports, vrf, ..] = rules else { panic!("{rules:?}") };
    assert_eq!((marked.ingress.as_deref(), marked.mark, marked.table), (Some("a"), Some((1, 3)), 101));
    assert_eq!((jump.action, jump.egress.as_deref()), (RuleAction::Goto(32766), Some("b")));
    assert_eq!((from.from, from.to, from.table), ((v4("7.0.0.0"), 8), (v4("8.8.0.0"), 16), 100));
    assert!(ports.has_more_conditions && !from.has_more_conditions && vrf.is_vrf && vrf.action == RuleAction::Lookup);
    let reject = rules.iter().find(|rule| rule.priority == 9).unwrap();
    assert!(reject.is_inverted && reject.action == RuleAction::Unreachable && reject.from == (v4("2001::"), 32));
    rig.ip("rule del prio 50\nlink set dev a down");
    assert_eq!(rig.differences(|change| matches!(change, KernelChange::Rule(..))), ["- rule 50"]);
    rig.check_equal();
}

#[test]
fn links_report_state_kind_and_place() {
    let Some(mut rig) = rig() else { return };
    rig.update();
    let find = |rig: &crate::rig::Rig, name: &str| rig.tables.links().find(|link| link.name == name).cloned();
    let (a, lo) = (find(&rig, "a").unwrap(), find(&rig, "lo").unwrap());
    assert!(a.up && a.carrier && a.running && a.operational_state == 6 && a.kind == "veth" && a.lower.is_none());
    assert!(lo.kind.is_empty() && a.master.is_none() && a.vrf_table.is_none());
    rig.ip("link add name br type bridge\nlink set dev a master br\ntuntap add name t0 mode tap\nlink add link b name mv type macvlan");
    rig.update();
    let bridge = find(&rig, "br").unwrap();
    assert_eq!((bridge.kind.as_str(), find(&rig, "a").unwrap().master), ("bridge", Some(bridge.index)));
    let (tap, macvlan) = (find(&rig, "t0").unwrap(), find(&rig, "mv").unwrap());
    assert_eq!((tap.kind.as_str(), tap.up, macvlan.lower), ("tun", false, Some(rig.index("b"))));
    rig.check_equal();
    rig.ip("link set dev a nomaster\nlink set dev t0 name t1\nlink del dev mv\nlink set dev b mtu 1400");
    let changes = rig.differences(|change| matches!(change, KernelChange::Link(..)));
    assert_eq!(changes, ["- link mv", "~ link a", "~ link b", "~ link br", "~ link t1"]);
    rig.check_equal();
    batch(&rig.peer, "link set dev b down");
    rig.check_equal();
    assert!(find(&rig, "b").is_some_and(|link| link.up && !link.carrier && link.operational_state != 6));
}
