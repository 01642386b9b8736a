//! A pass-through unit that executes instructions, in front of a router without ephemeral state (spec E-40).
//!
//! Packets towards the router are executed at the input of the line's port, packets away from it at the output of the same port. The router's port
//! executes nothing.

use esp::Executor;
use esp::isa::{Operator, StateInstruction};
use esp::report::StateReport;
use esp::wire::{Addresses, Carriages, Locations, Part, datagram, dedicated, strip, wrap};
use packet::event::Silent;
use plane::rig::{Rig, UdpFrame, WorkerGroup};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use std::sync::Arc;
use units::Mac;

const CONFIG: &str = "version = 1\n[port.line]\ndevice = 'memory:line'\n[port.router]\ndevice = 'memory:router'\n\
    state = { at = 'none' }\n[[passthrough]]\nports = ['line', 'router']\n[state]\ncapacity = 100\ncentral = 0\n";
const HOSTS: Addresses = Addresses::V4(Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(198, 51, 100, 9));
const CARRIAGES: Carriages = Carriages::DEFAULT;
const EVERYWHERE: Locations = Locations { input: true, central: true, output: true };
const HEADERS: usize = 34;

fn rig() -> Rig {
    let mut rig = Rig::new(1024, Layout::Three, Box::new(Silent));
    rig.router.set_hook_maker(Arc::new(Executor::new()));
    rig.apply(CONFIG).unwrap_or_else(|errors| panic!("{errors:?}"));
    rig.settle();
    rig
}

fn part(locations: Locations, instruction: StateInstruction) -> Part {
    Part { locations, error: false, piggybacked: false, trace: false, computation: 7, instruction }
}

/// A frame between foreign hosts, whose packet has a TTL of one.
fn frame(tags: &[u8], l3: &[u8]) -> Vec<u8> {
    let mut l3 = l3.to_vec();
    if l3[0] == 0x45 {
        (l3[8], l3[10], l3[11]) = (1, 0, 0);
        let sum = packet::wire::checksum::checksum(&l3[..20]);
        l3[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let kind: [u8; 2] = if l3[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&[0x46, 0x60, 0x45, 0, 0, 9, 0x46, 0x60, 0x45, 0, 0, 8], tags, &kind[..], &l3].concat()
}

/// The frame that leaves at the other port.
fn forward(rig: &mut Rig, from: &str, frame: &[u8]) -> Option<Vec<u8>> {
    rig.send(from, frame);
    rig.settle();
    let (back, mut there) = (rig.received(from), rig.received(if from == "line" { "router" } else { "line" }));
    assert!(back.is_empty() && there.len() <= 1, "one frame in, one out, and nothing of its own");
    there.pop()
}

fn executed(rig: &Rig) -> Vec<(&'static str, &'static str, u64)> {
    let told = StateReport::merge([&rig.report().hook.expect("it executes")].into_iter());
    assert_eq!(told.stores.len(), 1, "only the line has a store");
    let of = |place: &esp::report::PlaceReport| {
        let location = place.location;
        place.executed.iter().map(move |&(name, went, ended)| (location, name, went + ended)).collect::<Vec<_>>()
    };
    told.stores[0].places.iter().flat_map(of).filter(|(.., count)| *count > 0).collect()
}

#[test]
fn pass_through_executes_at_the_line_port_in_both_directions() {
    for (tags, carried) in [(&[][..], false), (&[0x81, 0, 0, 5], false), (&[], true), (&[0x81, 0, 0, 5], true)] {
        let mut rig = rig();
        let by = |part: &Part| {
            let packet = if carried { datagram(&CARRIAGES, HOSTS, 9, part) } else { None };
            frame(tags, &packet.unwrap_or_else(|| dedicated(&CARRIAGES, HOSTS, part)))
        };
        // Towards the router: at the input of the line's port.
        let mark = by(&part(EVERYWHERE, StateInstruction::Mark { tag: 1, value: 4 }));
        assert_eq!(forward(&mut rig, "line", &mark), Some(mark));
        assert_eq!(executed(&rig), [("input", "mark", 1)], "{tags:?}");
        // Away from it: at the output of the line's port, on the same store.
        for (tag, goes) in [(1, true), (2, false)] {
            let test = by(&part(EVERYWHERE, StateInstruction::Test { tag }));
            assert_eq!(forward(&mut rig, "router", &test), Some(test).filter(|_| goes));
        }
        assert_eq!(executed(&rig), [("input", "mark", 1), ("output", "test", 2)]);
        // Packets for the unit's other port, or its centre, pass.
        for (from, locations) in
            [("line", Locations::OUTPUT), ("router", Locations::INPUT), ("line", Locations::CENTRAL)]
        {
            let put = by(&part(locations, StateInstruction::Put { tag: 3, value: 1 }));
            assert_eq!(forward(&mut rig, from, &put), Some(put));
        }
        assert_eq!(executed(&rig).len(), 2);
        // Only the value read and the part's checksum change.
        let get = |value| part(Locations::INPUT, StateInstruction::Get { tag: 1, value });
        assert_eq!(forward(&mut rig, "line", &by(&get(0))), Some(by(&get(4))));
    }
}

#[test]
fn data_is_dropped_with_its_piggybacked_instruction() {
    let mut rig = rig();
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 8]));
    let network = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let data = UdpFrame { link, network, ports: (7, 8), ttl: 1, length: 500 }.frame(b"layer");
    let layer = |layer| {
        let allowed = StateInstruction::Setfwd { tag: 1, value: layer, relation: Operator::Ge };
        frame(&[], &wrap(&CARRIAGES, &data[14..], &part(Locations::OUTPUT, allowed)).unwrap())
    };
    let allow =
        frame(&[], &dedicated(&CARRIAGES, HOSTS, &part(Locations::INPUT, StateInstruction::Put { tag: 1, value: 2 })));
    assert!(forward(&mut rig, "line", &allow).is_some());
    let came = forward(&mut rig, "router", &layer(2)).unwrap();
    assert_eq!(came, layer(2));
    assert_eq!(strip(&CARRIAGES, &came[14..]).unwrap().0[20..], data[34..]);
    assert_eq!(forward(&mut rig, "router", &layer(3)), None);
}

/// Frames without instructions pass unchanged in both directions, between frames with instructions. The unit sends no frames of its own.
#[test]
fn bump_in_wire_transparent() {
    let mut rig = rig();
    let mut chance = 1u64;
    let mut below = |bound: usize| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) as usize % bound
    };
    let nop = dedicated(&CARRIAGES, HOSTS, &part(EVERYWHERE, StateInstruction::Nop));
    let others: [&[u8]; 5] =
        [&[], &[0x81, 0, 0, 9], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 9], &[0x88, 0xcc], &[0, 46, 0x42, 0x42, 3]];
    let mut carried = 0;
    for _ in 0..200 {
        let mut sent = [Vec::new(), Vec::new()];
        for _ in 0..1 + below(40) {
            let tags = others[below(others.len())];
            let bytes = match below(4) {
                0 => (0..1 + below(1500)).map(|_| below(256) as u8).collect(),
                1 => {
                    let mut damaged = frame(tags, &nop);
                    let at = below(damaged.len());
                    // Damage there may give another valid instruction, which may drop the packet.
                    damaged[at] ^= if at < damaged.len() - 26 { 0x55 } else { 0 };
                    damaged
                }
                _ => frame(tags, &nop),
            };
            let which = below(2);
            rig.send(["line", "router"][which], &bytes);
            sent[1 - which].push(bytes);
            carried += 1;
        }
        rig.settle();
        assert!(rig.received("line") == sent[0] && rig.received("router") == sent[1]);
    }
    let report = rig.report();
    assert_eq!((report.ledger.received(), report.ledger.dropped(), report.held_packets), (carried, 0, 0));
    assert!(executed(&rig).len() == 2, "among them instructions on their way in and out");
}

/// Fails open: packets that cannot be executed pass.
#[test]
fn pass_through_fails_open_at_a_full_store() {
    let mut rig = rig();
    for tag in 0..200 {
        let mark = part(Locations::INPUT, StateInstruction::Mark { tag, value: 1 });
        let came = forward(&mut rig, "line", &frame(&[], &dedicated(&CARRIAGES, HOSTS, &mark))).unwrap();
        assert_eq!(Part::read(&came[HEADERS..]), Ok(Part { error: tag >= 100, ..mark }));
    }
}

#[test]
fn pass_through_sends_each_computation_to_one_worker() {
    let mut team = WorkerGroup::new(3, 3, 4096, Layout::Three);
    team.router.set_hook_maker(Arc::new(Executor::new()));
    team.apply(&CONFIG.replace("version = 1\n", "version = 1\n[router]\nworkers = 3\n"));
    team.settle();
    let far: Vec<String> = team.wires.far.keys().cloned().collect();
    far.iter().for_each(|wire| drop(team.received(wire)));
    let lines: Vec<&String> = far.iter().filter(|wire| wire.starts_with("line")).collect();
    for round in 0..30 {
        for computation in 0..10 {
            let count = StateInstruction::Count { counter: 1000 + computation, threshold: 16, inclusive: false };
            let part = Part { computation, ..part(Locations::INPUT, count) };
            let port = 2000 + (round * 31 + computation) as u16;
            let bytes = frame(&[], &datagram(&CARRIAGES, HOSTS, port, &part).unwrap());
            team.send(lines[(round as usize) % lines.len()], &bytes);
        }
        team.settle();
    }
    let came: usize = far.iter().filter(|wire| wire.starts_with("router")).map(|wire| team.received(wire).len()).sum();
    let reports = team.reports();
    let told = StateReport::merge(reports.iter().filter_map(|report| report.hook.as_ref()));
    assert_eq!((came, told.stores[0].live), (150, 10), "fifteen of each computation, whichever queue they came by");
    assert!(told.handed_off > 0);
}
