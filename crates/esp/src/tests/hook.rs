//! The places of a router: which instruction is executed where, and on which store.

use super::{NODE, packet, part, part_of};
use crate::hook::{HookPoint, PortSpec, RouterHooks, RouterSpec, StateHook};
use crate::isa::StateInstruction;
use crate::site::{ExecutionRules, InstructionFate};
use crate::store::{Key, LIFETIME, StoreSpec, mix};
use crate::variables::PermittedVariables;
use crate::wire::{Locations, Part};
use packet::{Pool, Region};
use plane::hook::UNKNOWN;
use units::{Instant, PortId};

pub const UP: PortId = PortId(0);
pub const LEFT: PortId = PortId(1);
pub const RIGHT: PortId = PortId(3);

pub fn router(workers: usize) -> RouterSpec {
    let store = StoreSpec::of(1000);
    let ports = [UP, LEFT, RIGHT]
        .map(|port| PortSpec { port, store, input: true, output: true, variables: PermittedVariables::default() })
        .to_vec();
    let (rules, key) = (ExecutionRules::of(NODE), Key::new([5, 6]));
    RouterSpec {
        ports,
        central: Some(store),
        single: false,
        rules,
        key,
        workers,
        shards: workers,
        queues: 1,
        lifetime: LIFETIME,
        flow_order: true,
        drops_aborted: false,
    }
}

fn single_worker(spec: &RouterSpec) -> (StateHook, RouterHooks) {
    let mut made = spec.make();
    (made.hooks.remove(0), made)
}

fn visit(station: &mut StateHook, place: HookPoint, packet: &mut Vec<u8>) -> InstructionFate {
    let mut fates = [InstructionFate::Dropped];
    station.visit(place, Instant::START, std::slice::from_mut(packet), &mut fates);
    fates[0]
}

/// Subcast: one packet arrives, and each replicated copy is executed at its egress port.
#[test]
fn output_after_duplication() {
    let (mut station, _made) = single_worker(&router(1));
    let mark = packet(&part(StateInstruction::Mark { tag: 9, value: 1 }));
    assert_eq!(visit(&mut station, HookPoint::Input(LEFT), &mut mark.clone()), InstructionFate::Forwarded);
    let locations = Locations { input: true, central: false, output: true };
    let test = Part { locations, ..part(StateInstruction::Mark { tag: 5, value: 1 }) };
    // Execution before replication happens once, after it once per copy.
    let mut data = packet(&test);
    assert_eq!(visit(&mut station, HookPoint::Input(UP), &mut data), InstructionFate::Forwarded);
    for port in [LEFT, RIGHT] {
        assert_eq!(visit(&mut station, HookPoint::Output(port), &mut data.clone()), InstructionFate::Forwarded);
    }
    let executed = |station: &mut StateHook, port| {
        let counters = station.site(Some(port)).unwrap().counters();
        counters.executed.iter().map(|count| count.forwarded + count.dropped).sum::<u64>()
    };
    assert_eq!([UP, LEFT, RIGHT].map(|port| executed(&mut station, port)), [1, 2, 1]);
    let subcast = packet(&Part { locations: Locations::OUTPUT, ..part(StateInstruction::Test { tag: 9 }) });
    let copies = [LEFT, RIGHT].map(|port| visit(&mut station, HookPoint::Output(port), &mut subcast.clone()));
    assert_eq!(
        copies,
        [InstructionFate::Forwarded, InstructionFate::Dropped],
        "only the branch that somebody has marked"
    );
}

/// With one store for all ports, a mark on one branch marks all.
#[test]
fn a_single_store_breaks_subcast() {
    let (mut station, _made) = single_worker(&RouterSpec { single: true, ..router(1) });
    assert_eq!(station.inspectors().count(), 1);
    visit(&mut station, HookPoint::Input(LEFT), &mut packet(&part(StateInstruction::Mark { tag: 9, value: 1 })));
    let subcast = packet(&Part { locations: Locations::OUTPUT, ..part(StateInstruction::Test { tag: 9 }) });
    let copies = [LEFT, RIGHT].map(|port| visit(&mut station, HookPoint::Output(port), &mut subcast.clone()));
    assert_eq!(copies, [InstructionFate::Forwarded, InstructionFate::Forwarded]);
}

#[test]
fn disabled_locations_pass_packets_unexecuted() {
    let mut spec = router(1);
    spec.central = None;
    spec.ports[1].input = false;
    let (mut station, _made) = single_worker(&spec);
    let locations = Locations { input: true, central: true, output: true };
    let mut bytes = packet(&Part { locations, ..part(StateInstruction::Mark { tag: 9, value: 1 }) });
    let before = bytes.clone();
    for place in
        [HookPoint::Input(LEFT), HookPoint::Central, HookPoint::Input(PortId(2)), HookPoint::Output(PortId(77))]
    {
        assert_eq!(visit(&mut station, place, &mut bytes), InstructionFate::PassedThrough, "{place:?}");
    }
    assert_eq!(bytes, before);
    assert_eq!(visit(&mut station, HookPoint::Output(LEFT), &mut bytes), InstructionFate::Forwarded);
}

/// At the input each port is a separate child to the next router, so each port writes its own number. At the output and in the centre the router is
/// one child.
#[test]
fn router_writes_a_separate_number_for_each_input_port() {
    let (mut station, _made) = single_worker(&router(1));
    let mut name = |place, locations| {
        let mut packet = packet(&Part { locations, ..part(StateInstruction::Rchld { counter: 5, child: 9 }) });
        assert_eq!(visit(&mut station, place, &mut packet), InstructionFate::Forwarded);
        let StateInstruction::Rchld { child, .. } = part_of(&packet).instruction else { panic!("another instruction") };
        child
    };
    let [up, left] = [UP, LEFT].map(|port| name(HookPoint::Input(port), Locations::INPUT));
    let [out, other] = [LEFT, RIGHT].map(|port| name(HookPoint::Output(port), Locations::OUTPUT));
    let central = name(HookPoint::Central, Locations::CENTRAL);
    assert!(up != left && up != out && left != out, "{up:x} {left:x} {out:x}");
    assert_eq!((out, other), (central, mix(NODE, 5)));
}

/// All packets of a computation belong to one worker, which has their entries at every place.
#[test]
fn computation_has_one_worker_at_every_place() {
    let made = router(4).make();
    let mut stations = made.hooks;
    let mut load = [0; 4];
    for computation in 0..200 {
        let of = |locations, instruction| packet(&Part { computation, locations, ..part(instruction) });
        let mark = of(Locations::INPUT, StateInstruction::Mark { tag: computation, value: 3 });
        let mut get = of(Locations::OUTPUT, StateInstruction::Get { tag: computation, value: 0 });
        let worker = stations[0].worker(&mark).unwrap();
        assert!(stations.iter().all(|station| station.worker(&get) == Some(worker)), "all agree");
        assert_eq!(visit(&mut stations[worker], HookPoint::Input(UP), &mut mark.clone()), InstructionFate::Forwarded);
        assert_eq!(visit(&mut stations[worker], HookPoint::Output(UP), &mut get), InstructionFate::Forwarded);
        assert_eq!(part_of(&get).instruction, StateInstruction::Get { tag: computation, value: 3 });
        load[worker] += 1;
    }
    assert!(load.iter().all(|load| *load > 25), "{load:?}");
    assert_eq!(stations[0].worker(&[0x45; 40]), None);
}

#[test]
fn hook_cleans_when_an_entry_expires() {
    let (mut station, _made) = single_worker(&router(1));
    assert_eq!(station.clean_expired(Instant::START, 100), Instant::NEVER);
    visit(&mut station, HookPoint::Input(UP), &mut packet(&part(StateInstruction::Mark { tag: 9, value: 1 })));
    let due = station.clean_expired(Instant::START, 100);
    assert_eq!(due, Instant::START + LIFETIME);
    assert_eq!(station.clean_expired(due, 100), Instant::NEVER);
    let (port, inspector) = station.inspectors().next().unwrap();
    assert_eq!(port, Some(UP));
    let occupancy = inspector.occupancy(due)[0];
    assert_eq!((occupancy.live, occupancy.expired, occupancy.created), (0, 0, 1));
}

/// By arrival time at the router. Packets of other computations in between do not matter.
#[test]
fn diagnostics_count_reordered_packets_of_a_computation() {
    for (diagnostics, counted) in [(false, 0), (true, 1)] {
        let mut spec = router(1);
        spec.ports.iter_mut().for_each(|port| port.store.diagnostics = diagnostics);
        let (mut station, _made) = single_worker(&spec);
        let mut pool = Pool::new(Region::new(5));
        let mut packets = [(1, 10), (1, 30), (2, 15), (1, 20), (2, 40)].map(|(computation, came)| {
            let mut one = pool.take().unwrap();
            one.fill(&packet(&Part { computation, ..part(StateInstruction::Nop) }));
            one.meta_mut().timestamp = Instant::new(came);
            one
        });
        let variables = plane::hook::PortVariables::default();
        plane::hook::PacketHook::visit(
            &mut station,
            HookPoint::Input(UP),
            variables,
            Instant::START,
            (&mut packets, UNKNOWN),
        );
        let told = plane::hook::PacketHook::report(&station, Instant::START);
        let stores = told.downcast_ref::<Vec<crate::report::StoreReport>>().expect("a station tells of stores");
        let reordered: u64 = stores.iter().flat_map(|store| &store.places).map(|place| place.reordered).sum();
        assert_eq!(reordered, counted);
        packets.into_iter().for_each(|packet| pool.give(packet));
    }
}
