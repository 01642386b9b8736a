//! The objectives of packets select the port's scheme while packets flow. No packet is lost or overtakes another.

use cpu::meter::ConstantMeter;
use link::{Demand, GuestFactory, LinkWires};
use packet::wire::{Ipv6Spec, ethernet, ethertype, protocol};
use plan::{Catalogue, CodePoints, GuestCode, Guests, Objective};
use plane::rig::{Rig, UdpFrame, WorkerGroup};
use plane::snapshot::Layout;
use plane::{PolicyChange, WorkerReport};
use proptest::prelude::*;
use schemes::{Layer, Scheme};
use stack::{ObjectiveSource, ObjectiveTable};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use units::declare::{Declaration, DeclaredCost};
use units::{Mac, Nanos, PortId};

const WAN: PortId = PortId(1);
const EF: u8 = 46;
const CS1: u8 = 8;

/// A configuration with these keys of port `lan` and of its VLAN 7, followed by `more`.
fn config(lan: &str, vlan: &str, more: &str) -> String {
    format!(
        "version = 1\n[objectives]\ndelay = ['ef']\nthroughput = ['cs1']\n\
         [policy.edge]\nwindow = '100ms'\ndwell = '1s'\npackets = 10\n\
         delay = 'codel(target=1ms)'\nthroughput = 'drr{{fifo(limit=4000)}}'\n\
         [port.lan]\ndevice = 'memory:lan'\nmac = '02:00:00:00:00:01'\naddress = ['192.0.2.1/24', '2001:db8:1::1/64']\n{lan}\n\
         [port.lan.vlan.7]\naddress = ['10.7.0.1/24']\n{vlan}\n\
         [port.wan]\ndevice = 'memory:wan'\nmac = '02:00:00:00:00:02'\naddress = ['198.51.100.1/24', '2001:db8:2::1/64']\n\
         scheme = 'fifo(limit=3000)'\npolicy = 'edge'\n\
         [[neighbour]]\naddress = '198.51.100.9'\nmac = '02:00:00:00:00:99'\nport = 'wan'\n\
         [[neighbour]]\naddress = '2001:db8:2::9'\nmac = '02:00:00:00:00:99'\nport = 'wan'\n{more}"
    )
}

fn frame(dscp: u8, sequence: u32) -> Vec<u8> {
    UdpFrame { length: 64, ..UdpFrame::between_ports(9, 2) }.frame_with_dscp(dscp, &sequence.to_be_bytes())
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[42..46].try_into().unwrap())
}

/// The same packet in a VLAN.
fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend([0x81, 0]);
    tagged.extend(vlan.to_be_bytes());
    tagged.extend(&frame[12..]);
    tagged
}

fn over_ipv6(dscp: u8) -> Vec<u8> {
    let mut frame = vec![0; 62];
    let (link, rest) = frame.split_at_mut(14);
    ethernet::write_header(link, Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 9]), None, ethertype::IPV6).unwrap();
    let spec = Ipv6Spec {
        traffic_class: dscp << 2,
        flow_label: 0,
        next_header: protocol::UDP,
        hop_limit: 64,
        source: "2001:db8:1::7".parse().unwrap(),
        destination: "2001:db8:2::9".parse().unwrap(),
    };
    spec.write(rest, 8).unwrap();
    frame
}

fn demand(reports: &[WorkerReport]) -> Demand {
    let mut sum = Demand::default();
    reports.iter().flat_map(|report| &report.ports).filter(|port| port.port == WAN).for_each(|port| sum += port.demand);
    sum
}

/// Packets offered to `wan` since the start, by objective, without the router's own packets.
fn wanted(rig: &mut Rig, frames: &[Vec<u8>]) -> Vec<(Objective, u64)> {
    let before = demand(&[rig.report()]);
    frames.iter().for_each(|frame| rig.send("lan", frame));
    rig.settle();
    assert_eq!(rig.received("wan").len(), frames.len());
    let since = demand(&[rig.report()]).since(&before);
    let bytes: u64 = since.bytes.iter().sum();
    // Packets leave without their tags.
    let sent: usize = frames.iter().map(|f| if f[12..14] == [0x81, 0] { f.len() - 4 } else { f.len() }).sum();
    assert_eq!(bytes, sent as u64);
    let all = Objective::ALL.iter().map(|objective| (*objective, since.packets[objective.index()]));
    all.filter(|(_, packets)| *packets > 0).collect()
}

#[test]
fn a_trusted_code_point_selects_the_objective_else_the_interface_does() {
    use Objective::{Delay, Fct, None as Nothing, Tail};
    let mut frames = vec![frame(EF, 0), frame(0, 1), over_ipv6(EF), over_ipv6(0)];
    frames.extend([tagged(&frame(EF, 2), 7), tagged(&frame(0, 3), 7)]);
    for (lan, vlan, expected) in [
        ("trust = true", "", vec![(Nothing, 3), (Delay, 3)]),
        ("", "trust = true", vec![(Nothing, 5), (Delay, 1)]),
        ("trust = true", "trust = false", vec![(Nothing, 4), (Delay, 2)]),
        ("trust = true\nobjective = 'fct'", "", vec![(Delay, 3), (Fct, 3)]),
        ("objective = 'fct'", "objective = 'tail'", vec![(Fct, 4), (Tail, 2)]),
        (
            "trust = true\nobjective = 'fct'",
            "trust = false\nobjective = 'none'",
            vec![(Nothing, 2), (Delay, 2), (Fct, 2)],
        ),
    ] {
        for layout in [Layout::One, Layout::Three] {
            let mut rig = Rig::running(1024, layout, &config(lan, vlan, ""));
            assert_eq!(wanted(&mut rig, &frames), expected, "{lan} {vlan}");
        }
    }
}

#[test]
fn path_objective_overrides_packet_objective() {
    let path = |wants: &str| format!("[[path]]\nname = 'calls'\nmatch = 'udp dport 2'\n{wants}\n");
    let frames = [frame(CS1, 0), frame(0, 1), over_ipv6(CS1)];
    for (wants, expected) in [
        ("", vec![(Objective::None, 1), (Objective::Throughput, 2)]),
        ("objective = 'delay'", vec![(Objective::Throughput, 1), (Objective::Delay, 2)]),
        ("objective = 'none'", vec![(Objective::None, 2), (Objective::Throughput, 1)]),
    ] {
        let mut rig = Rig::running(1024, Layout::Three, &config("trust = true", "", &path(wants)));
        assert_eq!(wanted(&mut rig, &frames), expected, "{wants}");
    }
}

#[test]
fn a_port_without_a_policy_counts_no_objectives() {
    let text = config("trust = true", "", "").replace("policy = 'edge'", "");
    let mut rig = Rig::running(1024, Layout::Three, &text);
    (0..50).for_each(|number| rig.send("lan", &frame(EF, number)));
    rig.settle();
    assert_eq!((rig.received("wan").len(), demand(&[rig.report()])), (50, Demand::default()));
    assert_eq!(
        (rig.router.policies_due_in(rig.now), rig.router.run_policies(rig.now, &[rig.report()])),
        (None, vec![])
    );
}

/// Traffic of one code point after another flows while the policies are consulted every 100 ms.
struct Traffic {
    rig: Rig,
    sent: u32,
    seen: u32,
    choices: Vec<PolicyChange>,
}

impl Traffic {
    fn new(text: &str) -> Traffic {
        Traffic { rig: Rig::running(8192, Layout::Three, text), sent: 0, seen: 0, choices: Vec::new() }
    }

    /// Sends packets of these code points in turn for `windows` windows.
    fn flow(&mut self, windows: u64, dscps: &[u8]) {
        for _ in 0..windows {
            for round in 0..10 {
                for dscp in dscps.iter().cycle().take(8) {
                    self.rig.send("lan", &frame(*dscp, self.sent));
                    self.sent += 1;
                }
                // Few steps, so that packets are queued when the scheme changes.
                for _ in 0..3 {
                    self.rig.step(&mut ConstantMeter(Nanos::new(10)));
                }
                if round == 5 {
                    self.consult();
                }
                self.receive();
            }
            self.rig.advance(Nanos::millis(100));
        }
    }

    fn consult(&mut self) {
        let reports = [self.rig.report()];
        self.choices.extend(self.rig.router.run_policies(self.rig.now, &reports));
    }

    fn receive(&mut self) {
        // The router's own packets are IPv6.
        for frame in self.rig.received("wan").into_iter().filter(|frame| frame[12..14] == [8, 0]) {
            assert_eq!(number(&frame), self.seen);
            self.seen += 1;
        }
    }

    fn finish(mut self) -> Vec<PolicyChange> {
        self.rig.settle();
        self.receive();
        assert_eq!(self.seen, self.sent);
        let report = self.rig.report();
        assert_eq!(report.ledger.dropped(), 0);
        self.choices
    }

    /// The objective in force, and the scheme in the snapshot.
    fn in_force(&self) -> (Objective, String) {
        let view = self.rig.router.snapshot().port(WAN).unwrap();
        (view.objective.unwrap(), view.scheme.to_string())
    }
}

#[test]
fn policy_switches_scheme_by_objective_without_loss() {
    let mut traffic = Traffic::new(&config("trust = true", "", ""));
    let generation = traffic.rig.router.snapshot().generation;
    traffic.flow(5, &[0]);
    assert!(traffic.in_force().1.starts_with("fifo(limit=3000"), "{:?}", traffic.in_force());
    traffic.flow(5, &[EF]);
    assert_eq!(traffic.in_force().0, Objective::Delay);
    // With half of each, no objective has a majority.
    traffic.flow(20, &[EF, CS1]);
    assert_eq!(traffic.in_force().0, Objective::Delay);
    traffic.flow(5, &[CS1]);
    assert!(traffic.in_force().1.starts_with("drr("), "{:?}", traffic.in_force());
    // The dwell is not over.
    traffic.flow(4, &[0]);
    assert_eq!(traffic.in_force().0, Objective::Throughput);
    traffic.flow(12, &[0]);
    assert_eq!((traffic.in_force().0, traffic.rig.router.snapshot().generation), (Objective::None, generation));
    let choices = traffic.finish();
    let told: Vec<_> = choices.iter().map(|c| (c.port, c.decision.to, c.scheme.is_some(), c.failed.clone())).collect();
    let expected = [Objective::Delay, Objective::Throughput, Objective::None];
    assert_eq!(told, expected.map(|objective| (WAN, objective, true, None)));
}

#[test]
fn objective_in_force_survives_reload_with_the_new_policy_table() {
    let text = config("trust = true", "", "");
    let mut traffic = Traffic::new(&text);
    traffic.flow(4, &[EF]);
    let other = text.replace("codel(target=1ms)", "codel(target=2ms)");
    traffic.rig.apply(&other).unwrap();
    assert!(traffic.in_force().1.contains("target=2ms"), "{:?}", traffic.in_force());
    // The port's own scheme is another, but not in force.
    traffic.rig.apply(&other.replace("limit=3000", "limit=2000")).unwrap();
    assert!(traffic.in_force().1.contains("target=2ms"), "{:?}", traffic.in_force());
    // Without a policy the port uses its own scheme. A new policy begins with that scheme.
    traffic.rig.apply(&other.replace("policy = 'edge'", "")).unwrap();
    assert_eq!(traffic.rig.router.snapshot().port(WAN).unwrap().objective, None);
    traffic.rig.apply(&text).unwrap();
    assert_eq!(traffic.in_force().0, Objective::None);
    // The table has no entry for this objective, so the port's own scheme serves it.
    traffic.flow(4, &[EF]);
    traffic.rig.apply(&text.replace("delay = 'codel(target=1ms)'", "")).unwrap();
    let (objective, scheme) = traffic.in_force();
    assert!(objective == Objective::Delay && scheme.starts_with("fifo(limit=3000"), "{objective} {scheme}");
    traffic.finish();
}

/// A scheme that can be built a limited number of times.
#[derive(Clone, Debug, Default)]
struct Flaky(Arc<AtomicI64>);

impl GuestFactory for Flaky {
    fn make(&self, _: &[u64]) -> Result<Box<dyn Scheme<LinkWires>>, String> {
        if self.0.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err("it does not start".into());
        }
        let options = [("limit", 4000), ("bytes", 1 << 30), ("drop", 0), ("unbounded", 0)];
        schemes::build(&Layer { name: "fifo", options: &options, inside: Vec::new() })
            .map_err(|error| error.to_string())
    }
}

impl Guests for Flaky {
    fn find(&self, _: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        let cost = DeclaredCost::None;
        let declaration = Declaration { name: "guest:flaky", summary: "", cost, source: "", options: &[] };
        Ok((declaration, link::guest_code(1, Arc::new(self.clone()))))
    }
}

#[test]
fn failed_scheme_is_reported_and_the_previous_one_stays() {
    let flaky = Flaky::default();
    let catalogue = Catalogue { guests: Some(Arc::new(flaky.clone())), ..plane::catalogue() };
    let plan = |text: &str| plan::check(text, "t", &catalogue).unwrap();
    let plain = config("trust = true", "", "");
    let text = plain.replace("'codel(target=1ms)'", "'guest:flaky'");
    let mut traffic = Traffic::new(&plain);
    // An apply builds the scheme as a check, though it is not in force.
    let refused = traffic.rig.run(&plan(&text)).unwrap_err();
    let told: Vec<_> = refused.iter().map(|error| (&*error.place, &*error.reason)).collect();
    assert_eq!((told.len(), told[0].0), (1, "policy edge, guest:flaky"), "{told:?}");
    assert!(told[0].1.contains("it does not start"), "{told:?}");
    // The build may still fail later, when the policy selects the scheme.
    flaky.0.store(1, Ordering::Relaxed);
    traffic.rig.run(&plan(&text)).unwrap();
    traffic.flow(3, &[EF]);
    assert_eq!(traffic.in_force(), (Objective::None, traffic.in_force().1));
    assert!(traffic.in_force().1.starts_with("fifo(limit=3000"), "{:?}", traffic.in_force());
    let failed =
        |choice: &PolicyChange| choice.failed.as_ref().map(|error| (error.place.clone(), error.reason.clone()));
    let [ref choice] = traffic.choices[..] else { panic!("{:?}", traffic.choices) };
    let (place, reason) = failed(choice).unwrap();
    assert!(place == "port wan" && reason.contains("it does not start"), "{place}: {reason}");
    // The policy tries it again after the dwell time.
    flaky.0.store(1, Ordering::Relaxed);
    traffic.flow(11, &[EF]);
    assert_eq!(traffic.in_force(), (Objective::Delay, "guest:flaky".to_string()));
    let choices = traffic.finish();
    assert_eq!(choices.iter().map(|choice| failed(choice).is_some()).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_policy_decides_again_only_after_every_worker_has_adopted_the_change() {
    let mut team = WorkerGroup::new(2, 1, 4096, Layout::Three);
    team.apply(&config("trust = true", "", "").replace("dwell = '1s'", "dwell = '100ms'"));
    team.settle();
    let mut wanted = Demand::default();
    let mut consult = |team: &mut WorkerGroup, objective: Objective| {
        wanted.packets[objective.index()] += 1000;
        wanted.bytes[objective.index()] += 64_000;
        team.now += Nanos::millis(100);
        let mut reports = team.reports();
        reports[0].ports.iter_mut().filter(|port| port.port == WAN).for_each(|port| port.demand = wanted);
        reports[1].ports.iter_mut().for_each(|port| port.demand = Demand::default());
        team.router.run_policies(team.now, &reports).len()
    };
    consult(&mut team, Objective::Delay);
    assert_eq!(consult(&mut team, Objective::Delay), 1);
    // The second worker does not move.
    for _ in 0..5 {
        team.step(0);
        assert_eq!(consult(&mut team, Objective::Throughput), 0);
        assert!(team.router.policies_due_in(team.now) >= Some(Nanos::millis(100)));
    }
    team.settle();
    assert_eq!(consult(&mut team, Objective::Throughput), 1);
}

#[test]
fn policy_changes_the_scheme_on_all_workers() {
    let mut team = WorkerGroup::new(3, 2, 8192, Layout::Three);
    team.apply(&config("trust = true", "", ""));
    team.settle();
    let (mut choices, mut arrived) = (Vec::new(), 0);
    for round in 0..6u32 {
        for flow in 0..40 {
            let network = (Ipv4Addr::new(192, 0, 2, 10 + flow as u8), Ipv4Addr::new(198, 51, 100, 9));
            let wire = if flow % 2 == 0 { "lan" } else { "lan#1" };
            team.send(
                wire,
                &UdpFrame { network, ..UdpFrame::between_ports(9, 2) }.frame_with_dscp(EF, &round.to_be_bytes()),
            );
        }
        for worker in 0..3 {
            team.step(worker);
        }
        let reports = team.reports();
        choices.extend(team.router.run_policies(team.now, &reports));
        team.settle();
        arrived += team.received("wan").len() + team.received("wan#1").len();
        team.advance(Nanos::millis(100));
    }
    assert_eq!((choices.len(), choices[0].decision.to), (1, Objective::Delay));
    let reports = team.reports();
    assert_eq!(reports.iter().map(|report| report.ledger.dropped()).sum::<u64>(), 0);
    assert!(arrived >= 240, "{arrived}");
    assert_eq!(demand(&reports).packets[Objective::Delay.index()], 240);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]
    /// Code points that arrive on an untrusted port select no objective and change no scheme.
    #[test]
    fn untrusted_code_points_change_no_scheme(bursts in prop::collection::vec((0u8..64, 1usize..60), 1..12)) {
        let mut traffic = Traffic::new(&config("", "trust = true", ""));
        for (dscp, packets) in bursts {
            for _ in 0..packets {
                traffic.rig.send("lan", &frame(dscp, traffic.sent));
                traffic.sent += 1;
            }
            traffic.rig.advance(Nanos::millis(150));
            traffic.consult();
            let counted = demand(&[traffic.rig.report()]);
            prop_assert_eq!(counted.packets[1..].iter().sum::<u64>(), 0);
            prop_assert!(counted.packets[0] >= u64::from(traffic.sent));
        }
        prop_assert_eq!(traffic.finish(), vec![]);
    }
}

fn code_points() -> CodePoints {
    let text = "version = 1\n[objectives]\ndelay = ['ef', '0']\n[port.a]\ndevice = 'memory:a'\ntrust = true\n";
    plan::check(text, "t", &plane::catalogue()).unwrap().objectives
}

#[test]
fn trusted_code_points_select_objectives() {
    let trusted = ObjectiveTable::new(true, Objective::Fct, &code_points());
    assert_eq!(trusted.objective_and_source(46), (Objective::Delay, ObjectiveSource::CodePoint));
    assert_eq!(trusted.objective_and_source(0), (Objective::Delay, ObjectiveSource::CodePoint));
    assert_eq!(trusted.objective_and_source(8), (Objective::Fct, ObjectiveSource::Unmapped));
    let not = ObjectiveTable::new(false, Objective::Fct, &code_points());
    for dscp in 0..64 {
        assert_eq!(not.objective_and_source(dscp), (Objective::Fct, ObjectiveSource::Untrusted));
        for ecn in 0..4 {
            assert_eq!(usize::from(not.get(dscp << 2 | ecn)), Objective::Fct.index());
            assert_eq!(usize::from(trusted.get(dscp << 2 | ecn)), trusted.objective_and_source(dscp).0.index());
        }
    }
    assert!(not.matters() && ObjectiveTable::new(false, Objective::None, &code_points()).matters());
    assert_eq!(ObjectiveTable::new(false, Objective::None, &CodePoints::default()), ObjectiveTable::EMPTY);
}
