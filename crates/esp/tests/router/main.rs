//! Packets with instructions through a whole router in memory.

mod classification;
mod cleaning;
mod workers;

use esp::isa::{Operator, StateInstruction};
use esp::report::{StateReport, StoreReport};
use esp::seal::OperatorKey;
use esp::wire::{Addresses, Carriages, Locations, Part, datagram, dedicated, strip, wrap, wrap_option};
use esp::{Executor, InstructionClock, variables};
use packet::event::Silent;
use packet::{DropReason, Offload};
use plan::state::Variable;
use plane::ApplyError;
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Mac, Nanos, PortId, Rate};

const PORTS: &str = "version = 1\n[port.lan]\ndevice = 'memory:lan'\naddress = ['192.0.2.1/24', '2001:db8:1::1/64']\n\
    mac = '02:00:00:00:00:01'\n[port.wan]\ndevice = 'memory:wan'\naddress = ['198.51.100.1/24', '2001:db8:2::1/64']\n\
    mac = '02:00:00:00:00:02'\n\
    [[neighbour]]\naddress = '192.0.2.9'\nmac = '02:00:00:00:00:09'\nport = 'lan'\n\
    [[neighbour]]\naddress = '198.51.100.9'\nmac = '02:00:00:00:00:0a'\nport = 'wan'\n\
    [[neighbour]]\naddress = '2001:db8:2::9'\nmac = '02:00:00:00:00:0a'\nport = 'wan'\n";

const LAN: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
const WAN: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 0x0a]), Mac([2, 0, 0, 0, 0, 2]));
const THERE: Addresses = Addresses::V4(Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(198, 51, 100, 9));
const BACK: Addresses = Addresses::V4(Ipv4Addr::new(198, 51, 100, 9), Ipv4Addr::new(192, 0, 2, 9));
const EVERYWHERE: Locations = Locations { input: true, central: true, output: true };
const CARRIAGES: Carriages = Carriages::DEFAULT;
/// The length of the link and IPv4 headers.
const HEADERS: usize = 34;

fn config(state: &str) -> String {
    format!("{PORTS}[state]\ncapacity = 1000\ncentral = 1000\n{state}")
}

fn rig_of(layout: Layout, config: &str) -> Rig {
    let mut rig = Rig::new(512, layout, Box::new(Silent));
    rig.router.set_hook_maker(Arc::new(Executor::new()));
    rig.apply(config).unwrap_or_else(|errors| panic!("{errors:?}"));
    rig.settle();
    for wire in ["lan", "wan"] {
        rig.received(wire);
    }
    rig
}

fn rig(state: &str) -> Rig {
    rig_of(Layout::Three, &config(state))
}

fn part(locations: Locations, instruction: StateInstruction) -> Part {
    Part { locations, error: false, piggybacked: false, trace: false, computation: 7, instruction }
}

fn frame((from, to): (Mac, Mac), l3: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if l3[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&to.0[..], &from.0[..], &kind[..], l3].concat()
}

/// Sends a part from lan to wan, and returns the part that leaves there.
fn send_through(rig: &mut Rig, part: &Part) -> Option<Part> {
    rig.send("lan", &frame(LAN, &dedicated(&CARRIAGES, THERE, part)));
    rig.settle();
    let mut came = rig.received("wan");
    // Ignore the router's own packets.
    came.retain(|frame| frame[12..14] == [8, 0]);
    assert!(came.len() <= 1, "one packet in, one out");
    came.pop().map(|frame| Part::read(&frame[HEADERS..]).unwrap())
}

fn state_report(rig: &Rig) -> StateReport {
    let report = rig.report().hook.expect("it executes");
    StateReport::merge([&report].into_iter())
}

fn store(report: &StateReport, port: Option<u16>) -> &StoreReport {
    report.stores.iter().find(|store| store.port == port.map(PortId)).expect("it has a store")
}

fn executed(store: &StoreReport, location: &str, instruction: &str) -> (u64, u64) {
    let place = store.places.iter().find(|place| place.location == location).expect("it is told of");
    let one = place.executed.iter().find(|(name, ..)| *name == instruction).expect("every instruction is told of");
    (one.1, one.2)
}

fn dropped(rig: &Rig, reason: DropReason) -> u64 {
    rig.report().ledger.dropped_for(reason)
}

const COUNT: StateInstruction = StateInstruction::Count { counter: 42, threshold: 3, inclusive: false };

/// In the order of spec E-37, each location on its own store. The third copy ends at the input.
#[test]
fn instructions_are_executed_at_input_centre_and_output() {
    for layout in [Layout::One, Layout::Two, Layout::Three] {
        let mut rig = rig_of(layout, &config(""));
        let count = part(EVERYWHERE, COUNT);
        let came: Vec<bool> = (0..3).map(|_| send_through(&mut rig, &count).is_some()).collect();
        assert_eq!(came, [true, true, false], "{layout:?}");
        let told = state_report(&rig);
        let [lan, wan, central] = [Some(0), Some(1), None].map(|port| store(&told, port));
        assert_eq!(executed(lan, "input", "count"), (2, 1));
        assert_eq!(executed(central, "central", "count"), (2, 0));
        assert_eq!(executed(wan, "output", "count"), (2, 0));
        assert_eq!([lan, wan, central].map(|store| store.live), [1, 1, 1]);
        assert_eq!(dropped(&rig, DropReason::Instruction), 1);
        rig.report().ledger.check(rig.worker.report().held_packets).unwrap();
    }
}

/// Subcast needs this: a packet that leaves by a port finds the marks of packets that arrived there.
#[test]
fn input_and_output_of_a_port_share_one_store() {
    for (state, goes) in [("", true), ("[port.lan.state]\nat = 'output'\n", false)] {
        let mut rig = rig(state);
        send_through(&mut rig, &part(Locations::INPUT, StateInstruction::Mark { tag: 9, value: 1 }));
        for (tag, goes) in [(9, goes), (8, false)] {
            let test = dedicated(&CARRIAGES, BACK, &part(Locations::OUTPUT, StateInstruction::Test { tag }));
            rig.send("wan", &frame(WAN, &test));
            rig.settle();
            assert_eq!(rig.received("lan").len(), usize::from(goes), "{state} {tag}");
        }
    }
}

/// A single store marks every branch (spec E-09).
#[test]
fn single_store_serves_all_ports() {
    let mut rig = rig("single_store = true\n");
    send_through(&mut rig, &part(Locations::INPUT, StateInstruction::Mark { tag: 9, value: 1 }));
    assert!(send_through(&mut rig, &part(Locations::OUTPUT, StateInstruction::Test { tag: 9 })).is_some());
    let told = state_report(&rig);
    assert_eq!((told.stores.len(), told.stores[0].port, told.stores[0].live), (1, None, 1));
}

#[test]
fn udp_ipv6_and_vlan_packets_carry_instructions() {
    let mut rig = rig("");
    let count = part(Locations::CENTRAL, COUNT);
    let six = Addresses::V6("2001:db8:1::9".parse::<Ipv6Addr>().unwrap(), "2001:db8:2::9".parse().unwrap());
    let packets = [
        datagram(&CARRIAGES, THERE, 4000, &count).unwrap(),
        dedicated(&CARRIAGES, six, &count),
        datagram(&CARRIAGES, six, 4000, &count).unwrap(),
    ];
    let mut came = Vec::new();
    for packet in &packets {
        rig.send("lan", &frame(LAN, packet));
        rig.settle();
        came.push(rig.received("wan").len());
    }
    assert_eq!(came, [1, 1, 0], "the third is one too many");
    assert_eq!(executed(store(&state_report(&rig), None), "central", "count"), (2, 1));
    // Datagram checksums stay valid, since the sum over a part is constant.
    let get = part(Locations::CENTRAL, StateInstruction::Get { tag: 42, value: 0 });
    rig.send("lan", &frame(LAN, &datagram(&CARRIAGES, THERE, 4000, &get).unwrap()));
    rig.settle();
    let answer = rig.received("wan").pop().unwrap();
    let read = Part::read(&answer[HEADERS + 8..]).unwrap();
    assert_eq!(read.instruction, StateInstruction::Get { tag: 42, value: 3 });
    let expected = datagram(&CARRIAGES, THERE, 4000, &read).unwrap();
    assert_eq!(answer[HEADERS..], expected[20..], "the very datagram that a sender would have made");
}

/// An instruction's fate is the fate of the data that carries it (spec E-17). Forwarded data is unchanged.
#[test]
fn piggybacked_data_shares_the_fate_of_its_instruction() {
    let mut rig = rig("");
    let network = (Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(198, 51, 100, 9));
    let plain = UdpFrame { link: LAN, network, ports: (7, 8), ttl: 64, length: 200 }.frame(b"data");
    let test = part(Locations::CENTRAL, StateInstruction::Test { tag: 5 });
    let wrapped = frame(LAN, &wrap(&CARRIAGES, &plain[14..], &test).unwrap());
    rig.send("lan", &wrapped);
    rig.settle();
    assert_eq!((rig.received("wan").len(), dropped(&rig, DropReason::Instruction)), (0, 1));
    send_through(&mut rig, &part(Locations::CENTRAL, StateInstruction::Mark { tag: 5, value: 1 }));
    rig.send("lan", &wrapped);
    rig.settle();
    let (data, carried) = strip(&CARRIAGES, &rig.received("wan").pop().unwrap()[14..]).unwrap();
    assert_eq!(carried.instruction, test.instruction);
    assert_eq!(data[20..], plain[34..], "what it carried");
}

/// A part in an option of a datagram is executed at every location, and the datagram is forwarded like any packet with options (spec E-17).
#[test]
fn parts_in_ipv4_options_are_executed_at_every_location() {
    let network = (Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(198, 51, 100, 9));
    let plain = UdpFrame { link: LAN, network, ports: (7, 8), ttl: 64, length: 100 }.frame(b"data");
    let carrying = wrap_option(&CARRIAGES, &plain[14..], &part(EVERYWHERE, COUNT)).unwrap();
    for (state, at_input, elsewhere) in [("", (2, 1), (2, 0)), ("ip_option = 0\n", (0, 0), (0, 0))] {
        let mut rig = rig(state);
        (0..3).for_each(|_| rig.send("lan", &frame(LAN, &carrying)));
        rig.settle();
        let mut came = rig.received("wan");
        came.retain(|frame| frame[12..14] == [8, 0]);
        assert_eq!(came.len(), if state.is_empty() { 2 } else { 3 });
        for frame in came {
            let (inner, _) = strip(&CARRIAGES, &frame[14..]).unwrap();
            assert_eq!((inner[8], &inner[20..]), (63, &plain[34..]));
        }
        let told = state_report(&rig);
        let of = |port, location| executed(store(&told, port), location, "count");
        assert_eq!(
            [of(Some(0), "input"), of(None, "central"), of(Some(1), "output")],
            [at_input, elsewhere, elsewhere]
        );
    }
}

#[test]
fn aborted_packet_gets_the_error_bit_or_is_dropped() {
    for (state, goes) in [("", true), ("on_abort = 'drop'\n", false)] {
        let mut rig = rig(state);
        let get = part(EVERYWHERE, StateInstruction::Get { tag: 1, value: 0 });
        let came = send_through(&mut rig, &get);
        assert_eq!(came, goes.then_some(Part { error: true, ..get }), "{state}");
        let told = state_report(&rig);
        let aborted = |port, location: &str| {
            let place = store(&told, port).places.iter().find(|place| place.location == location).unwrap();
            (place.aborted_for("absent_tag"), place.failed_before)
        };
        let later = u64::from(goes);
        assert_eq!([aborted(Some(0), "input"), aborted(None, "central")], [(1, 0), (0, later)]);
        assert_eq!(dropped(&rig, DropReason::InstructionAborted), u64::from(!goes));
    }
}

#[test]
fn instructions_off_the_allow_list_are_not_executed() {
    let mut rig = rig("instructions = ['put']\n");
    assert!(send_through(&mut rig, &part(EVERYWHERE, COUNT)).unwrap().error);
    assert!(!send_through(&mut rig, &part(EVERYWHERE, StateInstruction::Put { tag: 1, value: 2 })).unwrap().error);
}

/// A router without `[state]`, a port that executes nothing, other protocol numbers: packets pass unchanged (spec E-18, E-19).
#[test]
fn packets_pass_unchanged_where_nothing_is_executed() {
    let nowhere = "central = 0\n[port.lan.state]\nat = 'none'\n[port.wan.state]\nat = 'input'\n";
    let [without, nowhere, other] =
        [PORTS.to_string(), config(nowhere).replace("central = 1000\n", ""), config("protocol = 254\nudp_port = 0\n")];
    for config in [without, nowhere, other] {
        let mut rig = rig_of(Layout::Three, &config);
        let count = part(EVERYWHERE, StateInstruction::Count { counter: 42, threshold: 1, inclusive: false });
        assert_eq!(send_through(&mut rig, &count), Some(count), "{config}");
        let stores = rig.report().hook.map_or(0, |_| state_report(&rig).stores.iter().map(|store| store.created).sum());
        assert_eq!(stores, 0);
    }
}

#[test]
fn later_fragments_pass_and_refused_packets_are_not_executed() {
    let mut rig = rig("");
    let whole = frame(LAN, &dedicated(&CARRIAGES, THERE, &part(EVERYWHERE, COUNT)));
    let mut later = whole.clone();
    // An offset of 8 bytes, with a valid checksum.
    later[20..22].copy_from_slice(&[0, 1]);
    let sum = packet::wire::checksum::checksum(&[&later[14..24], &[0, 0], &later[26..34]].concat());
    later[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut broken = whole.clone();
    broken[24] ^= 1;
    let mut elsewhere = whole;
    elsewhere[5] ^= 0x40;
    for frame in [&later, &broken, &elsewhere] {
        rig.send("lan", frame);
    }
    rig.settle();
    assert_eq!(rig.received("wan").len(), 1, "the fragment");
    assert!(state_report(&rig).stores.iter().all(|store| store.created == 0));
}

/// Expiry is exact at access, and a reload does not move it. Another lifetime means another store.
#[test]
fn unchanged_stores_survive_reloads() {
    let mut rig = rig("");
    let put = part(Locations::CENTRAL, StateInstruction::Put { tag: 1, value: 5 });
    let get = part(Locations::CENTRAL, StateInstruction::Get { tag: 1, value: 0 });
    let found = |rig: &mut Rig| !send_through(rig, &get).unwrap().error;
    send_through(&mut rig, &put);
    rig.advance(Nanos::secs(4));
    let more = "[port.dmz]\ndevice = 'memory:dmz'\n[port.lan.state]\nvariables = ['queue']\n";
    rig.apply(&config(&format!("batch = 1\non_abort = 'forward'\nfull = 'abort_creates'\n{more}"))).unwrap();
    assert!(found(&mut rig), "the same store, beside another port's that is new");
    assert_eq!(state_report(&rig).stores.len(), 4);
    rig.advance(Nanos::millis(5990));
    assert!(found(&mut rig), "9.99 s");
    rig.advance(Nanos::millis(20));
    assert!(!found(&mut rig), "its lifetime is over");
    send_through(&mut rig, &put);
    rig.apply(&config("lifetime = '9s'\n")).unwrap();
    assert!(!found(&mut rig));
    rig.apply(PORTS).unwrap();
    assert!(rig.report().hook.is_none() && found(&mut rig), "it passes");
    rig.apply(&config("")).unwrap();
    assert!(!found(&mut rig));
}

#[test]
fn store_at_the_bound_has_no_aborts_and_a_smaller_one_has() {
    for (capacity, full) in [(200, 0), (190, 10)] {
        let mut rig = rig_of(Layout::Three, &config("").replace("central = 1000", &format!("central = {capacity}")));
        for child in 0..100 {
            send_through(&mut rig, &part(Locations::CENTRAL, StateInstruction::Rchld { counter: 1000 + child, child }));
        }
        let told = state_report(&rig);
        let central = &store(&told, None).places.iter().find(|place| place.location == "central").unwrap();
        assert_eq!(central.aborted_for("full") * 2, full, "{capacity}");
    }
}

#[test]
fn sources_are_limited_in_instructions_and_creates() {
    let mut rig = rig("source_creates = '10pps'\n");
    let mark = |tag| part(Locations::CENTRAL, StateInstruction::Mark { tag, value: 1 });
    let failed = |rig: &mut Rig, tags: std::ops::Range<u64>| {
        tags.filter(|tag| send_through(rig, &mark(*tag)).unwrap().error).count()
    };
    assert_eq!(failed(&mut rig, 0..15), 5, "a second's worth at once");
    assert_eq!(failed(&mut rig, 0..10), 10, "it might create: nobody knows before");
    rig.advance(Nanos::millis(500));
    assert_eq!(failed(&mut rig, 20..30), 5);
    let mut rig = self::rig("source_rate = '4pps'\n");
    assert_eq!(failed(&mut rig, 0..10), 3 * 2, "at one of its places each is one");
}

/// Limits apply to traced packets, and the trace shows the aborts. Traces live as long as the store.
#[test]
fn traced_packets_have_limits_and_traces_survive_reloads() {
    let mut rig = rig("source_rate = '4pps'\n");
    let mark = Part { trace: true, ..part(Locations::CENTRAL, StateInstruction::Mark { tag: 1, value: 1 }) };
    let failed = (0..10).filter(|_| send_through(&mut rig, &mark).unwrap().error).count();
    let traced = |rig: &Rig| {
        let told = state_report(rig);
        let central = store(&told, None).places.iter().find(|place| place.location == "central").unwrap();
        central.traces.iter().map(|trace| (trace.computation, trace.forwarded, trace.aborted)).collect::<Vec<_>>()
    };
    assert_eq!((failed, traced(&rig)), (6, vec![(7, 4, 6)]));
    rig.apply(&config("source_rate = '1000pps'\non_abort = 'forward'\n")).unwrap();
    rig.advance(Nanos::secs(1));
    assert!(!send_through(&mut rig, &mark).unwrap().error);
    assert_eq!(traced(&rig), [(7, 5, 6)], "of the same store");
    rig.apply(&config("source_rate = '1000pps'\nlifetime = '9s'\n")).unwrap();
    assert_eq!(traced(&rig), [], "another store");
}

#[test]
fn router_variables_are_readable_where_a_port_permits_them() {
    let mut rig = rig("[port.wan.state]\nvariables = ['rate', 'time', 'node']\n");
    let ask = |locations, variable| part(locations, StateInstruction::Get { tag: variables::tag(variable), value: 1 });
    let mut read = |locations, variable| match send_through(&mut rig, &ask(locations, variable)).unwrap() {
        Part { instruction: StateInstruction::Get { value, .. }, error: false, .. } => value,
        other => panic!("{other:?}"),
    };
    assert!(read(Locations::OUTPUT, Variable::Time) > 1);
    assert!(read(Locations::OUTPUT, Variable::Rate) >= 1_000_000);
    assert!(read(Locations::OUTPUT, Variable::Node) > 1);
    // As at a router without this variable.
    assert_eq!(read(Locations::OUTPUT, Variable::Queue), 1);
    assert_eq!(read(Locations::INPUT, Variable::Rate), 1);
    assert_eq!(read(Locations::CENTRAL, Variable::Rate), 1);
    let put = part(Locations::OUTPUT, StateInstruction::Put { tag: variables::tag(Variable::Node), value: 1 });
    assert!(send_through(&mut rig, &put).unwrap().error, "and never written");
    let fast = |bits| {
        let tag = variables::tag(Variable::Rate);
        part(Locations::OUTPUT, StateInstruction::Setfwd { tag, value: bits, relation: Operator::Gt })
    };
    assert!(send_through(&mut rig, &fast(1)).is_some() && send_through(&mut rig, &fast(u64::MAX)).is_none());
}

#[test]
fn super_frames_pass() {
    let wires = [("lan", packet::port::Offloads { super_frames: true, checksums: true, ..Default::default() })];
    let mut rig = Rig::new(512, Layout::Three, Box::new(Silent));
    rig.wires.offloads = wires.iter().map(|&(wire, takes)| (wire.to_string(), takes)).collect();
    rig.router.set_hook_maker(Arc::new(Executor::new()));
    rig.apply(&config("")).unwrap();
    rig.settle();
    rig.received("wan");
    let checksum = Some(packet::pool::PartialChecksum { start: 34, offset: 6 });
    let offload = Offload { segmentation: packet::pool::Segmentation::Udp, size: 26, checksum };
    let count = part(EVERYWHERE, COUNT).to_bytes();
    let mut both = datagram(&CARRIAGES, THERE, 4000, &part(EVERYWHERE, COUNT)).unwrap();
    both.extend_from_slice(&count);
    let length = both.len() as u16;
    both[2..4].copy_from_slice(&length.to_be_bytes());
    both[24..26].copy_from_slice(&(length - 20).to_be_bytes());
    both[10..12].fill(0);
    let sum = packet::wire::checksum::checksum(&both[..20]);
    both[10..12].copy_from_slice(&sum.to_be_bytes());
    rig.send_as("lan", &frame(LAN, &both), offload);
    rig.settle();
    assert_eq!(rig.received("wan").len(), 2, "cut, not executed");
    assert!(state_report(&rig).stores.iter().all(|store| store.created == 0));
}

/// With a key only sealed parts are executed. An error about a key names the file and never its content.
#[test]
fn router_with_a_key_executes_only_sealed_parts() {
    const TEXT: &str = "00112233445566778899aabbccddeeff";
    let file = std::env::temp_dir().join(format!("state-{}.key", std::process::id()));
    let (name, key) = (file.display().to_string(), TEXT.parse::<OperatorKey>().unwrap());
    let config = config(&format!("key = '{name}'\n"));
    let mut rig = rig("");
    for text in [None, Some("TOP SECRET"), Some("00112233")] {
        match text {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => drop(std::fs::remove_file(&file)),
        }
        let refused = rig.apply(&config).unwrap_err();
        let told = format!("{refused:?}");
        assert!(told.contains(&name) && text.is_none_or(|text| !told.contains(text)), "{told}");
    }
    std::fs::write(&file, format!("{TEXT}\n")).unwrap();
    rig.apply(&config).unwrap();
    let put = part(EVERYWHERE, StateInstruction::Put { tag: 1, value: 5 });
    assert!(send_through(&mut rig, &put).unwrap().error, "anybody's");
    let mut sealed = |instruction| {
        rig.send("lan", &frame(LAN, &dedicated(&CARRIAGES, THERE, &key.sealed(part(EVERYWHERE, instruction)))));
        rig.settle();
        rig.received("wan").iter().map(|frame| key.read(&frame[HEADERS..]).unwrap()).collect::<Vec<Part>>()
    };
    assert_eq!(sealed(put.instruction), [put]);
    let get = |value| StateInstruction::Get { tag: 1, value };
    assert_eq!(sealed(get(0)), [part(EVERYWHERE, get(5))], "sealed anew at each of its places");
    let told = state_report(&rig);
    let lan = &store(&told, Some(0)).places[0];
    assert_eq!(lan.aborted, [("unauthenticated", "put", 1)]);
    assert_eq!((executed(store(&told, Some(0)), "input", "put"), store(&told, Some(0)).live), ((1, 0), 1));
    renewed(&mut rig, (&file, TEXT), key);
    // Explanations and printed configurations name the file, never the key.
    let maker = Executor::new();
    let plan = rig.router.plan().unwrap().state.clone().unwrap();
    let asks = |packet: &[u8]| plane::hook::HookMaker::read(&maker, &plan, packet).unwrap();
    assert_eq!(asks(&dedicated(&CARRIAGES, THERE, &put)).refusal.as_deref(), Some("unauthenticated"));
    assert_eq!(asks(&dedicated(&CARRIAGES, THERE, &key.sealed(put))).refusal, None);
    let told = format!("{plan} {plan:?} {:?} {:?}", rig.router.snapshot(), asks(&dedicated(&CARRIAGES, THERE, &put)));
    assert!(told.contains(&name) && !told.contains(&TEXT[4..12]), "{told}");
    std::fs::remove_file(&file).unwrap();
}

/// A key change in the same file, by way of two lines: stores stay, and parts with either key are accepted.
fn renewed(rig: &mut Rig, (file, text): (&std::path::Path, &str), old: OperatorKey) {
    const NEW: &str = "ffeeddccbbaa99887766554433221100";
    let new: OperatorKey = NEW.parse().unwrap();
    let plan = rig.router.plan().unwrap().clone();
    let get = |value| part(EVERYWHERE, StateInstruction::Get { tag: 1, value });
    let steps = [
        (format!("{text}\n{NEW}\n"), [true, true]),
        (format!("{NEW}\n{text}"), [true, true]),
        (NEW.into(), [false, true]),
    ];
    for (lines, executed) in steps {
        assert!(!rig.router.files_changed(&plan), "nothing was written yet");
        std::fs::write(file, &lines).unwrap();
        assert!(rig.router.files_changed(&plan), "{lines}");
        rig.run(&plan).unwrap();
        for (key, executed) in [old, new].into_iter().zip(executed) {
            rig.send("lan", &frame(LAN, &dedicated(&CARRIAGES, THERE, &key.sealed(get(0)))));
            rig.settle();
            let came = key.read(&rig.received("wan")[0][HEADERS..]).unwrap();
            assert_eq!((came.error, came.instruction == get(5).instruction), (!executed, executed), "{lines}");
        }
    }
    std::fs::write(file, text).unwrap();
    rig.run(&plan).unwrap();
}

/// A batch of 32 packets with the same instruction is timed.
#[test]
fn instructions_are_timed_where_there_is_a_clock() {
    let ticks = AtomicU64::new(0);
    let clock = InstructionClock::new(move || Nanos::new(70 * ticks.fetch_add(1, Ordering::Relaxed)));
    let mut rig = Rig::new(512, Layout::Three, Box::new(Silent));
    rig.router.set_hook_maker(Arc::new(Executor::new().timed_by(clock)));
    rig.apply(&config("")).unwrap();
    rig.settle();
    for value in 0..96 {
        send_through(&mut rig, &part(Locations::INPUT, StateInstruction::Put { tag: 1, value }));
    }
    let told = state_report(&rig);
    let spent = &store(&told, Some(0)).places[0].execution_times;
    let [(name, spread)] = &spent[..] else { panic!("one instruction: {spent:?}") };
    assert_eq!((*name, spread.count(), spread.most()), ("put", 3, Nanos::new(70)));
    assert!(store(&told, Some(1)).places.iter().all(|place| place.execution_times.is_empty()));
}

#[test]
fn configuration_with_state_is_refused_without_an_executor() {
    let mut rig = Rig::new(512, Layout::Three, Box::new(Silent));
    let refused = |errors: Vec<ApplyError>| errors.into_iter().map(|error| error.reason).collect::<String>();
    assert_eq!(refused(rig.apply(&config("")).unwrap_err()), "this router executes no instructions");
    rig.router.set_hook_maker(Arc::new(Executor::new()));
    rig.apply(&config("")).unwrap();
}

/// Subcast (spec E-45): a multicast packet is replicated, each copy is executed at its egress port, and only the marked branch receives one. With one
/// store for all ports every branch does.
#[test]
fn output_after_duplication() {
    let group = Addresses::V4(Ipv4Addr::new(198, 51, 100, 9), Ipv4Addr::new(239, 1, 2, 3));
    let groups = "[[multicast]]\ngroup = '239.1.2.3'\nfrom = 'wan'\nto = ['lan', 'dmz']\n[port.dmz]\ndevice = 'memory:dmz'\n\
        address = ['203.0.113.1/24']\nmac = '02:00:00:00:00:03'\n";
    let to_group = (WAN.0, Mac([1, 0, 0x5e, 1, 2, 3]));
    for (state, dmz) in [("", 0), ("single_store = true\n", 1)] {
        let mut rig = rig_of(Layout::Three, &(config(state) + groups));
        rig.received("dmz");
        send_through(&mut rig, &part(Locations::INPUT, StateInstruction::Mark { tag: 9, value: 1 }));
        // Long enough that the copies share their payload.
        let network = (Ipv4Addr::new(198, 51, 100, 9), Ipv4Addr::new(239, 1, 2, 3));
        let data = UdpFrame { link: WAN, network, ports: (7, 8), ttl: 64, length: 900 }.frame(b"data");
        let test = part(Locations::OUTPUT, StateInstruction::Test { tag: 9 });
        rig.send("wan", &frame(to_group, &wrap(&CARRIAGES, &data[14..], &test).unwrap()));
        rig.send("wan", &frame(to_group, &dedicated(&CARRIAGES, group, &Part { computation: 8, ..test })));
        rig.settle();
        let of = |frames: Vec<Vec<u8>>| frames.iter().filter(|frame| frame[12..14] == [8, 0]).count();
        assert_eq!((of(rig.received("lan")), of(rig.received("dmz"))), (2, 2 * dmz), "{state}");
        let told = state_report(&rig);
        let at = |port: u16| executed(store(&told, Some(port).filter(|_| dmz == 0)), "output", "test");
        // Ports are numbered by name: dmz, lan, wan.
        assert_eq!(at(1).0, if dmz == 0 { 2 } else { 4 });
    }
}

/// The bound of spec E-04, with the link rates of the devices.
#[test]
fn store_below_the_bound_gives_a_warning_or_is_refused() {
    let slow_rig = || {
        let mut rig = Rig::new(512, Layout::Three, Box::new(Silent));
        rig.router.set_hook_maker(Arc::new(Executor::new()));
        rig.wires.wrap = Some(Box::new(|near| Box::new(near.with_rate(Rate::mbit(10)))));
        rig
    };
    let slow_wan = PORTS.replace("'memory:wan'", "'memory:wan'\nline_rate = '10pps'");
    let remarks = |rig: &mut Rig, text: &str| {
        let plan = plan::check(text, "bound.toml", &plane::catalogue()).unwrap();
        rig.router.prepare(&plan, &mut rig.wires).map(|prepared| prepared.advisories().collect::<Vec<String>>())
    };
    let prepared = |more: &str, capacity: u64| {
        remarks(&mut slow_rig(), &format!("{slow_wan}[state]\ncapacity = {capacity}\n{more}"))
    };
    // 14881 frames per second, of two creates each, for ten seconds.
    let remark = "port lan: its store has 297619 entries, but its device with 10mbit can fill 297620; \
        write `capacity = 297620`, or the real line_rate; a full store aborts instructions";
    assert_eq!(prepared("", 297_619).unwrap(), [remark]);
    let refused = prepared("strict = true\n", 297_619).unwrap_err();
    assert_eq!(refused.iter().map(ToString::to_string).collect::<Vec<String>>(), [remark]);
    assert!(prepared("strict = true\n", 297_620).unwrap().is_empty());
    assert!(prepared("single_store = true\nstrict = true\n", 1).unwrap().is_empty());
    // Reported once, and again after it changes: here because a line rate is no longer configured.
    let state = "[state]\ncapacity = 297619\n";
    let slow = slow_wan.replace("'memory:lan'", "'memory:lan'\nline_rate = '10pps'");
    let mut rig = slow_rig();
    rig.apply(&format!("{slow}{state}")).unwrap();
    assert_eq!(remarks(&mut rig, &format!("{slow_wan}{state}")).unwrap(), [remark]);
    rig.apply(&format!("{slow_wan}{state}")).unwrap();
    assert!(remarks(&mut rig, &format!("{slow_wan}{state}by_computation = true\n")).unwrap().is_empty());
}
