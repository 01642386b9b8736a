//! Several workers.

use super::{CARRIAGES, EVERYWHERE, LAN, THERE, config, executed, frame, part, store};
use esp::Executor;
use esp::isa::{Operator, StateInstruction};
use esp::report::{StateReport, StoreReport};
use esp::wire::{Locations, Part, datagram, dedicated, wrap, wrap_option};
use packet::DropReason;
use plane::rig::{UdpFrame, WorkerGroup};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Workers with a queue each, and workers that share one: all packets of a computation use the same shard, in order, regardless of their flow and
/// their ingress queue.
#[test]
fn computations_are_on_one_worker_and_their_packets_in_order() {
    const COMPUTATIONS: u64 = 20;
    const ROUNDS: u64 = 30;
    for (workers, queues, shards) in [(3u16, 3, 3), (3, 1, 3), (4, 2, 4), (2, 2, 2), (3, 3, 1), (4, 2, 2)] {
        let mut team = WorkerGroup::new(workers, queues, 4096, Layout::Three);
        team.router.set_hook_maker(Arc::new(Executor::new()));
        team.apply(&config(&format!("by_computation = true\nshards = {shards}\n[router]\nworkers = {workers}\n")));
        team.settle();
        let far: Vec<String> = team.wires.far.keys().cloned().collect();
        far.iter().for_each(|wire| drop(team.received(wire)));
        let entries: Vec<String> = far.iter().filter(|wire| wire.starts_with("lan")).cloned().collect();
        for round in 0..ROUNDS {
            // Different ingress queues have no common order, so each round waits for the one before.
            let entry = &entries[(round % entries.len() as u64) as usize];
            for value in 3 * round..3 * round + 3 {
                for computation in 0..COMPUTATIONS {
                    // A new maximum each time: a late packet would not pass.
                    let newer = StateInstruction::Compare { tag: 1, value, relation: Operator::Gt };
                    let part = Part { computation, ..part(Locations::INPUT, newer) };
                    // Another flow each time.
                    let port = 2000 + (value * 31 + computation) as u16;
                    team.send(entry, &frame(LAN, &datagram(&CARRIAGES, THERE, port, &part).unwrap()));
                }
            }
            team.settle();
        }
        let came: usize = far.iter().map(|wire| team.received(wire).len()).sum();
        let reports = team.reports();
        let told = StateReport::merge(reports.iter().filter_map(|report| report.hook.as_ref()));
        let lan = store(&told, Some(0));
        let all = COMPUTATIONS * ROUNDS * 3;
        assert_eq!(executed(lan, "input", "compare"), (all, 0), "{workers} workers, {queues} queues");
        assert_eq!((came as u64, lan.live), (all, COMPUTATIONS));
        assert!(told.handed_off > 0, "{workers} workers, {queues} queues");
        let parts = reports
            .iter()
            .filter(|report| StateReport::merge(report.hook.iter()).stores.iter().any(|store| store.live > 0))
            .count();
        assert!(parts > usize::from(shards > 1) && parts <= shards, "{workers} workers, {queues} queues: {parts}");
    }
}

/// The traces of all computations are the same with any number of workers (spec E-X11).
#[test]
fn traces_of_computations_are_those_of_a_single_worker() {
    let traces = |workers: u16, queues| {
        let mut team = WorkerGroup::new(workers, queues, 4096, Layout::Three);
        team.router.set_hook_maker(Arc::new(Executor::new()));
        team.apply(&config(&format!("by_computation = true\n[router]\nworkers = {workers}\n")));
        team.settle();
        let entries: Vec<String> = team.wires.far.keys().filter(|wire| wire.starts_with("lan")).cloned().collect();
        let mut drawn = 1u64;
        for round in 0..40usize {
            for _ in 0..60 {
                drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (computation, kind, value) = (drawn >> 33 & 0xf, drawn >> 40 & 3, drawn >> 45 & 0x3f);
                let instruction = match kind {
                    0 => StateInstruction::Count { counter: 1, threshold: value as u32, inclusive: false },
                    1 => StateInstruction::Compare { tag: 2, value, relation: Operator::Gt },
                    // Some of these arrive before the entry exists.
                    2 => StateInstruction::Get { tag: 2, value: 0 },
                    _ => StateInstruction::Setfwd { tag: 2, value, relation: Operator::Ge },
                };
                let part = Part { computation, trace: true, ..part(Locations::INPUT, instruction) };
                // Different ingress queues have no common order, so packets of a computation use one until the next round.
                let entry = &entries[(computation as usize + round) % entries.len()];
                team.send(entry, &frame(LAN, &datagram(&CARRIAGES, THERE, 2000 + computation as u16, &part).unwrap()));
            }
            team.settle();
        }
        let reports = team.reports();
        let told = StateReport::merge(reports.iter().filter_map(|report| report.hook.as_ref()));
        let mut traces = store(&told, Some(0)).places[0].traces.clone();
        traces.sort_unstable_by_key(|trace| trace.computation);
        traces
    };
    let alone = traces(1, 1);
    assert_eq!(alone.len(), 16);
    assert_eq!(alone.iter().map(|trace| trace.forwarded + trace.dropped + trace.aborted).sum::<u64>(), 2400);
    assert!(alone.iter().all(|trace| trace.forwarded > 0 && trace.dropped > 0), "{alone:?}");
    assert_eq!(traces(4, 4), alone);
    assert_eq!(traces(4, 2), alone);
}

/// Plain packets of a flow stay behind its packets with piggybacked instructions (spec E-30).
#[test]
fn flow_with_piggybacked_instructions_stays_in_order() {
    let network = (Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(198, 51, 100, 9));
    for (order, moves) in [("true", true), ("false", false)] {
        let mut team = WorkerGroup::new(4, 1, 4096, Layout::Three);
        team.router.set_hook_maker(Arc::new(Executor::new()));
        team.apply(&config(&format!("flow_order = {order}\n")));
        team.settle();
        let handed = |team: &WorkerGroup| {
            let reports = team.reports();
            StateReport::merge(reports.iter().filter_map(|report| report.hook.as_ref())).handed_off
        };
        let mut moved = 0;
        for port in 100..120 {
            let carry = if port % 2 == 0 { wrap } else { wrap_option };
            let plain = UdpFrame { link: LAN, network, ports: (port, 8), ttl: 64, length: 100 }.frame(b"data");
            let nop = Part { computation: port.into(), ..part(Locations::CENTRAL, StateInstruction::Nop) };
            team.send("lan", &frame(LAN, &carry(&CARRIAGES, &plain[14..], &nop).unwrap()));
            team.settle();
            let before = handed(&team);
            team.send("lan", &plain);
            team.settle();
            moved += handed(&team) - before;
        }
        assert_eq!(moved > 5, moves, "{moved} of 20 plain packets followed those that carried something");
    }
}

/// The owning worker never runs. Depending on `overload`, its packets are forwarded by the receiving worker, unexecuted at all locations, or dropped.
#[test]
fn packets_at_a_full_handoff_queue_pass_or_are_dropped() {
    const PACKETS: u64 = 2000;
    // Includes a receiving worker that has no shard of any store.
    let everywhere = part(EVERYWHERE, StateInstruction::Put { tag: 1, value: 1 });
    let pass = |receiver, part| ("pass", true, receiver, part);
    let ways = [
        ("execute", false, 0, everywhere),
        pass(0, everywhere),
        pass(1, everywhere),
        // A packet for the input alone, without a create, needs the least.
        pass(0, part(Locations::INPUT, StateInstruction::Nop)),
        pass(0, part(Locations::OUTPUT, StateInstruction::Nop)),
    ];
    for (overload, passes, receiver, part) in ways {
        let mut team = WorkerGroup::new(2, 2, 8192, Layout::Three);
        team.router.set_hook_maker(Arc::new(Executor::new()));
        let shards = if receiver == 0 { "" } else { "shards = 1\n" };
        team.apply(&config(&format!("overload = '{overload}'\n{shards}")));
        team.settle();
        let far: Vec<String> = team.wires.far.keys().cloned().collect();
        let put = |computation| {
            let part = Part { computation, ..part };
            frame(LAN, &dedicated(&CARRIAGES, THERE, &part))
        };
        // A wire that one worker receives from, and a computation of the other worker.
        let mut ways =
            far.iter().filter(|wire| wire.starts_with("lan")).flat_map(|wire| (0..8).map(move |n| (wire, n)));
        let (entry, computation) = ways
            .find(|&(wire, computation)| {
                team.send(wire, &put(computation));
                (0..20).for_each(|_| _ = team.step(receiver));
                let found = team.reports()[receiver].hook.as_ref().is_some_and(|told| told.handed_over > 0);
                team.settle();
                found
            })
            .expect("there are some");
        far.iter().for_each(|wire| drop(team.received(wire)));
        let mut came = 0;
        let places = [(Some(0), "input"), (None, "central"), (Some(1), "output")];
        let name = part.instruction.opcode().name();
        let done = |told: &StateReport| places.map(|(port, location)| executed(store(told, port), location, name));
        let before = done(&StateReport::merge(team.reports()[receiver].hook.iter()));
        for _ in 0..PACKETS / 100 {
            (0..100).for_each(|_| team.send(entry, &put(computation)));
            (0..30).for_each(|_| _ = team.step(receiver));
            came += far.iter().map(|wire| team.received(wire).len() as u64).sum::<u64>();
        }
        // The packets that the ring does not hold.
        let over = PACKETS - 1024;
        let reports = team.reports();
        let dropped: u64 = reports.iter().map(|report| report.ledger.dropped_for(DropReason::HandOverFull)).sum();
        let told = &StateReport::merge(reports[receiver].hook.iter());
        let overloaded = |store: &StoreReport, location: &str| {
            store.places.iter().find(|place| place.location == location).map(|place| place.overloaded)
        };
        let passed = places.map(|(port, location)| overloaded(store(told, port), location));
        let (goes, stays) = if passes { (over, 0) } else { (0, over) };
        let asked = [part.locations.input, part.locations.central, part.locations.output];
        let counted = asked.map(|asked| Some(if asked { goes } else { 0 }));
        assert_eq!((came, dropped, passed), (goes, stays, counted), "{overload}");
        assert_eq!(done(told), before, "not the receiver's to execute");
        team.settle();
        came += far.iter().map(|wire| team.received(wire).len() as u64).sum::<u64>();
        assert_eq!(came + dropped, PACKETS);
    }
}

/// Packets that pass stay behind the receiving worker's own packets of the same batch: on a path with a short queue that stalls the port, and with
/// inline forwarding.
#[test]
fn passing_packets_do_not_overtake_packets_of_the_same_batch() {
    let throttle = "[[path]]\nname = 'small'\nmatch = 'ip'\ninput_queue = 8\n";
    let inline = "[cpu]\ninline = true\n[[path]]\nname = 'small'\nmatch = 'udp'\n";
    let waits = "congestion = 'throttle'\n";
    let both = "[cpu]\ninline = true\n[[path]]\nname = 'small'\nmatch = 'udp'\ninput_queue = 8\n";
    let one = (throttle, waits, Layout::One);
    let three = [(throttle, waits), (inline, ""), (both, waits)].map(|(more, waits)| (more, waits, Layout::Three));
    for (more, congestion, layout) in three.into_iter().chain([one]) {
        let mut team = WorkerGroup::new(2, 2, 8192, layout);
        team.router.set_hook_maker(Arc::new(Executor::new()));
        let text = config("overload = 'pass'\n").replace("[port.lan]\n", &format!("[port.lan]\n{congestion}"));
        team.apply(&(text + more));
        team.settle();
        let far: Vec<String> = team.wires.far.keys().cloned().collect();
        let put = |computation, path: bool| {
            let part = Part { computation, ..part(EVERYWHERE, StateInstruction::Put { tag: 1, value: 1 }) };
            let whole = dedicated(&CARRIAGES, THERE, &part);
            frame(LAN, &if path { datagram(&CARRIAGES, THERE, 4000, &part).unwrap() } else { whole })
        };
        let handed = |team: &WorkerGroup| team.reports()[0].hook.as_ref().map_or(0, |told| told.handed_over);
        // A wire that the first worker receives from, a computation of the other worker and one of its own.
        let (mut entry, mut other, mut own) = (None, None, None);
        for wire in far.iter().filter(|wire| wire.starts_with("lan")) {
            for computation in 0..16 {
                let before = handed(&team);
                team.send(wire, &put(computation, false));
                (0..20).for_each(|_| _ = team.step(0));
                match handed(&team) > before {
                    true => (entry, other) = (Some(wire), Some(computation)),
                    false => own = Some(computation),
                }
                team.settle();
            }
            if entry.is_some() {
                break;
            }
        }
        let (entry, other, own) = (entry.unwrap(), other.unwrap(), own.unwrap());
        let received = |team: &mut WorkerGroup| far.iter().map(|wire| team.received(wire).len()).sum::<usize>();
        // Fill the ring.
        for _ in 0..16 {
            (0..64).for_each(|_| team.send(entry, &put(other, false)));
            (0..30).for_each(|_| _ = team.step(0));
        }
        received(&mut team);
        (0..60).for_each(|_| team.send(entry, &put(own, true)));
        (0..100).for_each(|_| team.send(entry, &put(other, false)));
        for _ in 0..500 {
            team.step(0);
            // A report checks the ledgers.
            team.reports();
        }
        assert_eq!(received(&mut team), 160, "{layout:?} {more}");
    }
}

/// Packets in a handoff while the number of shards changes, or stores disappear, are forwarded in any case, executed or not.
#[test]
fn packets_in_handoff_are_not_lost_while_stores_change() {
    const PACKETS: usize = 500;
    let changed = [
        config("shards = 1\n"),
        config("queues = 16\n"),
        config("capacity = 2000\n").replace("capacity = 1000\n", ""),
        super::PORTS.to_string(),
    ];
    for text in &changed {
        let mut team = WorkerGroup::new(2, 2, 8192, Layout::Three);
        team.router.set_hook_maker(Arc::new(Executor::new()));
        team.apply(&config(""));
        team.settle();
        let far: Vec<String> = team.wires.far.keys().cloned().collect();
        let received = |team: &mut WorkerGroup| far.iter().map(|wire| team.received(wire).len()).sum::<usize>();
        let handed = |team: &WorkerGroup| {
            let told = team.reports();
            told.iter().filter_map(|report| report.hook.as_ref()).map(|told| told.handed_over).sum::<u64>()
        };
        received(&mut team);
        let put = |computation| Part { computation, ..part(EVERYWHERE, StateInstruction::Put { tag: 1, value: 1 }) };
        for n in 0..PACKETS {
            let entry = far.iter().filter(|wire| wire.starts_with("lan")).nth(n % 2).expect("each worker has one");
            team.send(entry, &frame(LAN, &dedicated(&CARRIAGES, THERE, &put(n as u64))));
        }
        // The first worker has received them, and the second has not yet polled its handoff queue.
        (0..12).for_each(|_| _ = team.step(0));
        assert!(handed(&team) > 50, "{}", handed(&team));
        team.apply(text);
        team.settle();
        assert_eq!(received(&mut team), PACKETS, "{text}");
        team.apply(&config(""));
        team.settle();
        // After the second change both workers have shards again.
        let entry = far.iter().find(|wire| wire.starts_with("lan")).expect("there is one");
        let before = handed(&team);
        (0..20).for_each(|n| team.send(entry, &frame(LAN, &dedicated(&CARRIAGES, THERE, &put(n)))));
        team.settle();
        assert_eq!(received(&mut team), 20);
        let handed = handed(&team) - before;
        assert!(handed > 2 && handed < 18, "{handed}");
        assert!(team.reports().iter().all(|report| report.ledger.dropped() == 0));
    }
}

/// A flood of one computation takes no room from other queues of the same worker, neither while it waits nor after it was received.
#[test]
fn flood_of_one_computation_fills_only_its_handoff_queue() {
    for queues in [1u64, 4, 16] {
        let mut team = WorkerGroup::new(2, 2, 8192, Layout::Three);
        team.router.set_hook_maker(Arc::new(Executor::new()));
        team.apply(&config(&format!("queues = {queues}\n")));
        team.settle();
        let far: Vec<String> = team.wires.far.keys().cloned().collect();
        let nop = |computation| {
            frame(
                LAN,
                &dedicated(&CARRIAGES, THERE, &Part { computation, ..part(Locations::INPUT, StateInstruction::Nop) }),
            )
        };
        let handed = |team: &WorkerGroup| team.reports()[0].hook.as_ref().map_or(0, |told| told.handed_over);
        let dropped = |team: &WorkerGroup| team.reports()[0].ledger.dropped_for(DropReason::HandOverFull);
        // Computations of the other worker, and a wire that the first one receives from.
        let theirs = |team: &mut WorkerGroup, wire: &str| {
            let is_theirs = |computation: &u64| {
                let before = handed(team);
                team.send(wire, &nop(*computation));
                (0..20).for_each(|_| _ = team.step(0));
                let is_theirs = handed(team) > before;
                team.settle();
                is_theirs
            };
            (0..100).filter(is_theirs).collect::<Vec<u64>>()
        };
        let found = far.iter().filter(|wire| wire.starts_with("lan"));
        let (wire, computations) =
            found.map(|wire| (wire, theirs(&mut team, wire))).find(|(_, all)| !all.is_empty()).unwrap();
        let (one, others) = computations.split_first().unwrap();
        for again in 0..3 {
            let (before, at_first) = (handed(&team), dropped(&team));
            for _ in 0..15 {
                (0..100).for_each(|_| team.send(wire, &nop(*one)));
                (0..30).for_each(|_| _ = team.step(0));
            }
            let room = 1024 / queues;
            assert_eq!((handed(&team) - before, dropped(&team) - at_first), (room, 1500 - room), "{queues}, {again}");
            let lost = |team: &mut WorkerGroup, computation: u64| {
                let before = dropped(team);
                team.send(wire, &nop(computation));
                (0..20).for_each(|_| _ = team.step(0));
                dropped(team) > before
            };
            let with_it = others.iter().filter(|computation| lost(&mut team, **computation)).count();
            // All computations in the same queue; with one queue that is all of them.
            let (of, share) = (others.len(), others.len() / queues as usize);
            let as_shared = if queues == 1 { with_it == of } else { with_it > 0 && with_it < 2 * share + 4 };
            assert!(as_shared, "{queues} queues: {with_it} of {of}");
            team.settle();
        }
    }
}
