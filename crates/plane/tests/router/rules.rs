//! Rules of paths and filters in a whole router: named sets that change while packets flow, VRFs, and many rules.

use classifier::{Place, RuleEdit, RuleList, SetEdit, SetElement};
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::{Instant, Mac};

const LINK: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));

fn frame(source: [u8; 4], port: u16) -> Vec<u8> {
    let network = (Ipv4Addr::from(source), Ipv4Addr::new(198, 51, 100, 9));
    UdpFrame { link: LINK, network, ports: (9, port), ttl: 64, length: 60 }.frame(&[])
}

/// Sends a packet of each source and port, and returns the ports of those that leave.
fn passed(rig: &mut Rig, packets: &[([u8; 4], u16)]) -> Vec<u16> {
    packets.iter().for_each(|(source, port)| rig.send("lan", &frame(*source, *port)));
    rig.settle();
    rig.received("wan").iter().map(|frame| u16::from_be_bytes([frame[36], frame[37]])).collect()
}

/// The packets that each configured path has taken.
fn taken(rig: &Rig) -> Vec<(String, u64)> {
    let (report, snapshot) = (rig.report(), rig.router.snapshot());
    let counted =
        |id: units::PathId| report.paths.iter().find(|path| path.path == id).map_or(0, |path| path.counters.entered);
    snapshot.paths.iter().skip(3).map(|path| (path.name.to_string(), counted(path.id))).collect()
}

fn edit(rig: &Rig, set: &str, edit: impl Fn(plan::SetValue) -> SetEdit, value: &str) {
    rig.router.sets().edit(set, [edit(value.parse().unwrap())], Instant::START).unwrap();
}

fn add(value: plan::SetValue) -> SetEdit {
    SetEdit::Add(SetElement { value, expires: Instant::NEVER })
}

#[test]
fn filter_drops_the_elements_of_a_set_that_changes_meanwhile() {
    let text = format!(
        "{LAN_AND_WAN}[set.bad]\nelements = [\"192.0.2.64/26\"]\n[set.web]\ntype = \"port\"\nelements = [\"80\"]\n\
         [[path]]\nname = \"tried\"\nmatch = \"any\"\nfunctions = [\"filter\", \"ip\"]\n\
         filter = [\"ip saddr @bad drop\", \"udp dport @web drop\"]\n"
    );
    let mut rig = Rig::running(1024, Layout::Three, &text);
    let packets = [([192, 0, 2, 7], 1), ([192, 0, 2, 70], 2), ([192, 0, 2, 7], 80), ([192, 0, 2, 8], 81)];
    assert_eq!(passed(&mut rig, &packets), [1, 81]);
    edit(&rig, "bad", add, "192.0.2.7");
    edit(&rig, "bad", SetEdit::Remove, "192.0.2.64/26");
    edit(&rig, "web", add, "81-90");
    assert_eq!(passed(&mut rig, &packets), [2]);
    // The elements survive a new generation that does not touch the sets.
    rig.apply(&text.replace("name = \"tried\"", "name = \"tried\"\nclass = 3")).unwrap();
    assert_eq!(passed(&mut rig, &packets), [2]);
    // A set that a new generation defines is there for the first packet.
    let more = text.replace("[[path]]", "[set.more]\nelements = [\"192.0.2.70\"]\n[[path]]").replace("@bad", "@more");
    rig.apply(&more).unwrap();
    assert_eq!(passed(&mut rig, &packets), [1]);
}

#[test]
fn path_takes_the_packets_of_a_set_and_of_its_vrf() {
    let text = format!(
        "{LAN_AND_WAN}[set.voice]\nelements = [\"192.0.2.7\"]\n\
         [[path]]\nname = \"none\"\nmatch = \"vrf main ip saddr 192.0.2.9\"\n\
         [[path]]\nname = \"set\"\nmatch = \"ip saddr @voice udp dport 5000-6000\"\n\
         [[path]]\nname = \"main\"\nmatch = \"vrf main\"\n"
    );
    let mut rig = Rig::running(1024, Layout::Three, &text);
    let packets = [([192, 0, 2, 7], 5000), ([192, 0, 2, 7], 4999), ([192, 0, 2, 8], 5000), ([192, 0, 2, 9], 1)];
    assert_eq!(passed(&mut rig, &packets).len(), 4);
    let named = |counts: [(&str, u64); 3]| counts.map(|(name, packets)| (name.to_string(), packets));
    assert_eq!(taken(&rig), named([("none", 1), ("set", 1), ("main", 2)]));
    edit(&rig, "voice", add, "192.0.2.8");
    assert_eq!(passed(&mut rig, &packets).len(), 4);
    assert_eq!(taken(&rig), named([("none", 2), ("set", 3), ("main", 3)]));
}

#[test]
fn first_of_a_thousand_rules_decides() {
    // Each rule of an odd port is hidden for half of the sources by a rule in front of it.
    let rule = |n: u16| match n % 2 {
        0 => format!("\"ip saddr 192.0.2.0/25 udp dport {} drop\"", 1000 + n / 2),
        _ => format!("\"udp dport {} {}\"", 1000 + n / 2, if n % 4 == 1 { "accept" } else { "drop" }),
    };
    let rules: Vec<String> = (0..1000).map(rule).collect();
    let text = format!(
        "{LAN_AND_WAN}[[path]]\nname = \"tried\"\nmatch = \"any\"\nfunctions = [\"filter\", \"ip\"]\nfilter = [{}]\n",
        rules.join(",")
    );
    let mut rig = Rig::running(2048, Layout::Three, &text);
    let mut expected = Vec::new();
    for n in 0..500u16 {
        let source = [192, 0, 2, if n % 3 == 0 { 7 } else { 200 }];
        let left = passed(&mut rig, &[(source, 1000 + n)]);
        let passes = source[3] == 200 && n % 2 == 0;
        expected.push((n, if passes { vec![1000 + n] } else { vec![] }));
        assert_eq!((n, left), *expected.last().unwrap());
    }
    assert_eq!(passed(&mut rig, &[([192, 0, 2, 7], 1), ([192, 0, 2, 7], 1500)]), [1, 1500]);
}

/// A router with one path whose filter has these rules.
fn filtering(rules: &str) -> Rig {
    let path = "[[path]]\nname = \"tried\"\nmatch = \"any\"\nfunctions = [\"filter\", \"ip\"]";
    Rig::running(1024, Layout::Three, &format!("{LAN_AND_WAN}{path}\nfilter = {rules}\n"))
}

/// The name and the rules of the only filter.
fn filter_list(rig: &Rig) -> (String, Arc<RuleList>) {
    let (name, kind, list) = rig.router.rule_lists().pop().unwrap();
    assert_eq!(kind, plan::RuleListKind::Filter);
    (name.to_string(), list)
}

/// Changes a list as the control side does.
fn change(rig: &Rig, list: &RuleList, kind: plan::RuleListKind, text: &str) -> Vec<u32> {
    let plan = rig.router.plan().unwrap().clone();
    let batch = plan::rule_batch(text, "test", &plan, kind).unwrap();
    let place = |place| match place {
        plan::RulePlace::End => Place::End,
        plan::RulePlace::Before(id) => Place::Before(id),
        plan::RulePlace::After(id) => Place::After(id),
    };
    let edits = batch.changes.iter().map(|(_, change)| match change {
        plan::RuleChange::Add(at, rule) => RuleEdit::Add(place(*at), rig.router.listed_rule(rule).unwrap()),
        plan::RuleChange::Remove(id) => RuleEdit::Remove(*id),
        plan::RuleChange::Replace(id, rule) => RuleEdit::Replace(*id, rig.router.listed_rule(rule).unwrap()),
    });
    list.edit(edits).unwrap()
}

#[test]
fn rules_of_a_filter_change_without_a_generation() {
    let mut rig = filtering("[\"udp dport 5 accept\", \"drop\"]");
    let source = [192, 0, 2, 7];
    assert_eq!(passed(&mut rig, &[(source, 5), (source, 6)]), [5]);
    let generation = rig.router.snapshot().generation;
    let (name, list) = filter_list(&rig);
    assert_eq!(name, "tried");
    let added =
        change(&rig, &list, plan::RuleListKind::Filter, "add before 2 udp dport 6 accept\nreplace 1 udp dport 5 drop");
    assert_eq!(added, [3, 4]);
    assert_eq!(passed(&mut rig, &[(source, 5), (source, 6)]), [6]);
    // New rules begin at zero; the last one keeps its count.
    assert_eq!(decided(&rig), [1, 1, 1, 0]);
    change(&rig, &list, plan::RuleListKind::Filter, "remove 2");
    assert_eq!(passed(&mut rig, &[(source, 7), (source, 5)]), [7]);
    assert_eq!((decided(&rig), list.is_changed()), (vec![2, 1, 1], true));
    assert_eq!(rig.router.snapshot().generation, generation);
    // Another configuration with the same rules keeps the changes; one with others replaces the list.
    let path = "[[path]]\nname = \"tried\"\nmatch = \"any\"\nclass = 3\nfunctions = [\"filter\", \"ip\"]";
    let apply = |rig: &mut Rig, rules| rig.apply(&format!("{LAN_AND_WAN}{path}\nfilter = {rules}\n")).unwrap();
    apply(&mut rig, "[\"udp dport 5 accept\", \"drop\"]");
    assert_eq!(passed(&mut rig, &[(source, 7), (source, 5)]), [7]);
    assert_eq!(decided(&rig), [3, 1, 2]);
    apply(&mut rig, "[\"udp dport 7 drop\", \"accept\"]");
    assert_eq!(passed(&mut rig, &[(source, 7), (source, 5)]), [5]);
    assert_eq!(decided(&rig), [1, 1, 0]);
}

#[test]
fn rules_of_paths_change_without_a_generation() {
    let path = |name, matching| format!("[[path]]\nname = \"{name}\"\nmatch = \"{matching}\"\nfunctions = [\"ip\"]\n");
    let (gold, silver) = (path("gold", "udp dport 1"), path("silver", "udp dport 2"));
    let mut rig = Rig::running(1024, Layout::Three, &format!("{LAN_AND_WAN}{gold}{silver}"));
    let source = [192, 0, 2, 7];
    passed(&mut rig, &[(source, 1), (source, 2), (source, 3)]);
    let named = |gold, silver| [("gold".to_string(), gold), ("silver".to_string(), silver)];
    assert_eq!(taken(&rig), named(1, 1));
    let (name, kind, list) = rig.router.rule_lists().remove(0);
    assert_eq!(&*name, plane::PATH_RULES);
    let added =
        change(&rig, &list, kind, "add udp dport 3 path silver\nadd before 1 udp dport 1 path best-effort\nremove 2");
    passed(&mut rig, &[(source, 1), (source, 2), (source, 3), (source, 3)]);
    assert_eq!(taken(&rig), named(1, 3));
    let counts: Vec<(u32, u64)> = list.rules().iter().map(|status| (status.id, status.count.packets)).collect();
    assert_eq!(counts, [(added[1], 1), (1, 1), (added[0], 2)]);
    // A list without rules at its start gets some later.
    let mut rig = Rig::running(1024, Layout::Three, &format!("{LAN_AND_WAN}{gold}"));
    let (_, kind, list) = rig.router.rule_lists().remove(0);
    change(&rig, &list, kind, "remove 1");
    passed(&mut rig, &[(source, 1)]);
    assert_eq!(taken(&rig), [("gold".to_string(), 0)]);
    change(&rig, &list, kind, "add udp dport 1 path gold");
    passed(&mut rig, &[(source, 1)]);
    assert_eq!(taken(&rig), [("gold".to_string(), 1)]);
}

#[test]
fn rule_without_conditions_takes_all_packets_until_another_comes_before_it() {
    let path = |name, matching| format!("[[path]]\nname = \"{name}\"\nmatch = \"{matching}\"\nfunctions = [\"ip\"]\n");
    let (gold, silver) = (path("gold", "any"), path("silver", "udp dport 2"));
    let mut rig = Rig::running(1024, Layout::Three, &format!("{LAN_AND_WAN}{gold}{silver}"));
    let source = [192, 0, 2, 7];
    passed(&mut rig, &[(source, 1), (source, 2), (source, 3)]);
    let named = |gold, silver| [("gold".to_string(), gold), ("silver".to_string(), silver)];
    assert_eq!(taken(&rig), named(3, 0));
    let (_, kind, list) = rig.router.rule_lists().remove(0);
    // The first packet counts again after the neighbour is known.
    let before = list.rules()[0].count;
    passed(&mut rig, &[(source, 2), (source, 3)]);
    let after = list.rules()[0].count;
    assert_eq!((after.packets - before.packets, after.bytes - before.bytes), (2, 120));
    change(&rig, &list, kind, "add before 1 udp dport 2 path silver");
    passed(&mut rig, &[(source, 1), (source, 2), (source, 3)]);
    assert_eq!(taken(&rig), named(7, 1));
    assert_eq!(
        list.rules()
            .iter()
            .map(|status| status.count.packets - after.packets * u64::from(status.id == 1))
            .collect::<Vec<_>>(),
        [1, 2, 0]
    );
}

#[test]
fn packet_that_is_fragmented_is_looked_up_once() {
    let config = LAN_AND_WAN.replacen("mac = \"02:00:00:00:00:02\"", "mac = \"02:00:00:00:00:02\"\nmtu = 600", 1);
    let path = "[[path]]\nname = \"gold\"\nmatch = \"udp\"\nfunctions = [\"ip\"]\n";
    let mut rig = Rig::running(1024, Layout::Three, &format!("{config}{path}"));
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(198, 51, 100, 9));
    let mut frame = UdpFrame { link: LINK, network, ports: (9, 5), ttl: 64, length: 1000 }.frame(&[]);
    // Fragmentation is allowed: without the bit DF the checksum grows by as much (RFC 1624).
    frame[20] &= !0x40;
    let (sum, carry) = u16::from_be_bytes([frame[24], frame[25]]).overflowing_add(0x4000);
    frame[24..26].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    rig.send("lan", &frame);
    rig.settle();
    assert_eq!(rig.received("wan").len(), 2);
    let (_, _, list) = rig.router.rule_lists().remove(0);
    assert_eq!(list.rules()[0].count.packets, 1);
}

#[test]
fn rule_with_log_keeps_the_packets_for_the_control_side() {
    let mut rig = filtering("[\"udp dport 5 log accept\", \"drop\"]");
    let source = [192, 0, 2, 7];
    passed(&mut rig, &[(source, 5), (source, 6), (source, 5)]);
    let (packets, left_out) = rig.router.snapshot().log.take();
    assert_eq!((packets.len(), left_out), (2, 0));
    let (_, list) = filter_list(&rig);
    assert_eq!(list.rule_of(packets[0].rule).unwrap().0, 1);
    assert_eq!((packets[0].length, &packets[0].head[..]), (60, &frame(source, 5)[..60]));
    // A flood is logged as far as the log takes it, and the rest counted.
    (0..20).for_each(|_| drop(passed(&mut rig, &[(source, 5); 50])));
    let (packets, left_out) = rig.router.snapshot().log.take();
    assert_eq!(packets.len() as u64 + left_out, 1000);
    assert!(packets.len() <= 300, "{}", packets.len());
}

/// The packets that each rule of the filter has decided about, and those of no rule.
fn decided(rig: &Rig) -> Vec<u64> {
    let (_, list) = filter_list(rig);
    list.rules().iter().map(|status| status.count.packets).chain([list.others().packets]).collect()
}

#[test]
fn packets_beyond_a_limit_reach_the_next_rule_that_matches() {
    let mut rig = filtering(
        "[\"udp dport 5 limit rate 10/second burst 3 packets accept\", \"udp dport 6 accept\", \"udp dport 5-6 limit rate over \
         1/minute burst 2 packets drop\", \"udp dport 5 accept\"]",
    );
    let source = [192, 0, 2, 7];
    // Three by the first rule, two more within the third, the others beyond it.
    assert_eq!(passed(&mut rig, &[(source, 5); 10]).len(), 5);
    assert_eq!(decided(&rig), [3, 0, 5, 2, 0]);
    assert_eq!(passed(&mut rig, &[(source, 6); 10]).len(), 10);
    assert_eq!(decided(&rig), [3, 10, 5, 2, 0]);
    // In a second the first limit has ten packets again, of which its burst keeps three.
    rig.advance(units::Nanos::secs(1));
    assert_eq!(passed(&mut rig, &[(source, 5); 4]).len(), 3);
    assert_eq!(decided(&rig), [6, 10, 6, 2, 0]);
}

#[test]
fn limit_of_bits_counts_ip_packets() {
    // Packets of 46 bytes: 368 bits. The burst is ten of them, and one more may begin while there is credit.
    let mut rig = filtering("[\"limit rate 1 mbit burst 460b accept\", \"drop\"]");
    let first = passed(&mut rig, &[([192, 0, 2, 7], 5); 40]).len();
    assert!((10..=11).contains(&first), "{first}");
    // In 3.68 ms ten more.
    rig.advance(units::Nanos::micros(3_680));
    let later = passed(&mut rig, &[([192, 0, 2, 7], 5); 40]).len();
    assert!((9..=11).contains(&later), "{later}");
}

#[test]
fn rule_sets_the_code_point_of_packets_that_it_accepts() {
    let mut rig = filtering("[\"udp dport 5 ip dscp set ef accept\", \"udp dport 6 ip dscp set cs1 accept\"]");
    [5, 6, 7].iter().for_each(|port| rig.send("lan", &frame([192, 0, 2, 7], *port)));
    rig.settle();
    let received = rig.received("wan");
    let marks: Vec<(u16, u8)> =
        received.iter().map(|frame| (u16::from_be_bytes([frame[36], frame[37]]), frame[15] >> 2)).collect();
    assert_eq!(marks, [(5, 46), (6, 8), (7, 0)]);
    // The checksum of the header is still right: the sum of all its words is zero (RFC 791 3.1).
    for frame in received {
        let sum: u32 = frame[14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
