//! The places of a router: which instruction is executed where, and on which store.

use super::{NODE, packet, part, part_of};
use crate::isa::Instruction;
use crate::site::{Fate, Rules};
use crate::station::{Made, Place, PortSpec, RouterSpec, Station};
use crate::store::{Key, LIFETIME, StoreSpec, mix};
use crate::variables::Permitted;
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
        .map(|port| PortSpec { port, store, input: true, output: true, variables: Permitted::default() })
        .to_vec();
    let (rules, key) = (Rules::of(NODE), Key::new([5, 6]));
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

fn alone(spec: &RouterSpec) -> (Station, Made) {
    let mut made = spec.make();
    (made.stations.remove(0), made)
}

fn visit(station: &mut Station, place: Place, packet: &mut Vec<u8>) -> Fate {
    let mut fates = [Fate::Dropped];
    station.visit(place, Instant::START, std::slice::from_mut(packet), &mut fates);
    fates[0]
}

/// Subcast: one packet arrives, and each replicated copy is executed at its egress port.
#[test]
fn output_after_duplication() {
    let (mut station, _made) = alone(&router(1));
    let mark = packet(&part(Instruction::Mark { tag: 9, value: 1 }));
    assert_eq!(visit(&mut station, Place::Input(LEFT), &mut mark.clone()), Fate::Forwarded);
    let locations = Locations { input: true, central: false, output: true };
    let test = Part { locations, ..part(Instruction::Mark { tag: 5, value: 1 }) };
    // Execution before replication happens once, after it once per copy.
    let mut data = packet(&test);
    assert_eq!(visit(&mut station, Place::Input(UP), &mut data), Fate::Forwarded);
    for port in [LEFT, RIGHT] {
        assert_eq!(visit(&mut station, Place::Output(port), &mut data.clone()), Fate::Forwarded);
    }
    let executed = |station: &mut Station, port| {
        let counters = station.site(Some(port)).unwrap().counters();
        counters.executed.iter().map(|count| count.forwarded + count.dropped).sum::<u64>()
    };
    assert_eq!([UP, LEFT, RIGHT].map(|port| executed(&mut station, port)), [1, 2, 1]);
    let subcast = packet(&Part { locations: Locations::OUTPUT, ..part(Instruction::Test { tag: 9 }) });
    let copies = [LEFT, RIGHT].map(|port| visit(&mut station, Place::Output(port), &mut subcast.clone()));
    assert_eq!(copies, [Fate::Forwarded, Fate::Dropped], "only the branch that somebody has marked");
}

/// With one store for all ports, a mark on one branch marks all.
#[test]
fn a_single_store_breaks_subcast() {
    let (mut station, _made) = alone(&RouterSpec { single: true, ..router(1) });
    assert_eq!(station.inspectors().count(), 1);
    visit(&mut station, Place::Input(LEFT), &mut packet(&part(Instruction::Mark { tag: 9, value: 1 })));
    let subcast = packet(&Part { locations: Locations::OUTPUT, ..part(Instruction::Test { tag: 9 }) });
    let copies = [LEFT, RIGHT].map(|port| visit(&mut station, Place::Output(port), &mut subcast.clone()));
    assert_eq!(copies, [Fate::Forwarded, Fate::Forwarded]);
}

#[test]
fn disabled_locations_pass_packets_unexecuted() {
    let mut spec = router(1);
    spec.central = None;
    spec.ports[1].input = false;
    let (mut station, _made) = alone(&spec);
    let locations = Locations { input: true, central: true, output: true };
    let mut bytes = packet(&Part { locations, ..part(Instruction::Mark { tag: 9, value: 1 }) });
    let before = bytes.clone();
    for place in [Place::Input(LEFT), Place::Central, Place::Input(PortId(2)), Place::Output(PortId(77))] {
        assert_eq!(visit(&mut station, place, &mut bytes), Fate::Passed, "{place:?}");
    }
    assert_eq!(bytes, before);
    assert_eq!(visit(&mut station, Place::Output(LEFT), &mut bytes), Fate::Forwarded);
}

/// At the input each port is a separate child to the next router, so each port writes its own number. At the output and in the centre the router is
/// one child.
#[test]
fn router_writes_a_separate_number_for_each_input_port() {
    let (mut station, _made) = alone(&router(1));
    let mut name = |place, locations| {
        let mut packet = packet(&Part { locations, ..part(Instruction::Rchld { counter: 5, child: 9 }) });
        assert_eq!(visit(&mut station, place, &mut packet), Fate::Forwarded);
        let Instruction::Rchld { child, .. } = part_of(&packet).instruction else { panic!("another instruction") };
        child
    };
    let [up, left] = [UP, LEFT].map(|port| name(Place::Input(port), Locations::INPUT));
    let [out, other] = [LEFT, RIGHT].map(|port| name(Place::Output(port), Locations::OUTPUT));
    let central = name(Place::Central, Locations::CENTRAL);
    assert!(up != left && up != out && left != out, "{up:x} {left:x} {out:x}");
    assert_eq!((out, other), (central, mix(NODE, 5)));
}

/// All packets of a computation belong to one worker, which has their entries at every place.
#[test]
fn a_computation_is_on_one_worker_at_every_place() {
    let made = router(4).make();
    let mut stations = made.stations;
    let mut load = [0; 4];
    for computation in 0..200 {
        let of = |locations, instruction| packet(&Part { computation, locations, ..part(instruction) });
        let mark = of(Locations::INPUT, Instruction::Mark { tag: computation, value: 3 });
        let mut get = of(Locations::OUTPUT, Instruction::Get { tag: computation, value: 0 });
        let worker = stations[0].worker(&mark).unwrap();
        assert!(stations.iter().all(|station| station.worker(&get) == Some(worker)), "all agree");
        assert_eq!(visit(&mut stations[worker], Place::Input(UP), &mut mark.clone()), Fate::Forwarded);
        assert_eq!(visit(&mut stations[worker], Place::Output(UP), &mut get), Fate::Forwarded);
        assert_eq!(part_of(&get).instruction, Instruction::Get { tag: computation, value: 3 });
        load[worker] += 1;
    }
    assert!(load.iter().all(|load| *load > 25), "{load:?}");
    assert_eq!(stations[0].worker(&[0x45; 40]), None);
}

#[test]
fn a_station_is_tended_when_something_has_expired() {
    let (mut station, _made) = alone(&router(1));
    assert_eq!(station.tend(Instant::START, 100), Instant::FAR);
    visit(&mut station, Place::Input(UP), &mut packet(&part(Instruction::Mark { tag: 9, value: 1 })));
    let due = station.tend(Instant::START, 100);
    assert_eq!(due, Instant::START + LIFETIME);
    assert_eq!(station.tend(due, 100), Instant::FAR);
    let (port, inspector) = station.inspectors().next().unwrap();
    assert_eq!(port, Some(UP));
    let occupancy = inspector.occupancy(due)[0];
    assert_eq!((occupancy.live, occupancy.expired, occupancy.created), (0, 0, 1));
}

/// By arrival time at the router. Packets of other computations in between do not matter.
#[test]
fn packets_that_overtook_others_of_their_computation_are_counted_with_diagnostics() {
    for (diagnostics, counted) in [(false, 0), (true, 1)] {
        let mut spec = router(1);
        spec.ports.iter_mut().for_each(|port| port.store.diagnostics = diagnostics);
        let (mut station, _made) = alone(&spec);
        let mut pool = Pool::new(Region::new(5));
        let mut packets = [(1, 10), (1, 30), (2, 15), (1, 20), (2, 40)].map(|(computation, came)| {
            let mut one = pool.take().unwrap();
            one.fill(&packet(&Part { computation, ..part(Instruction::Nop) }));
            one.meta_mut().timestamp = Instant::new(came);
            one
        });
        let variables = plane::hook::Variables::default();
        plane::hook::PacketHook::visit(
            &mut station,
            Place::Input(UP),
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
