//! The published schemes that guests can start from: each keeps the laws, and has its known advantage over FIFO.

use crate::guest_kits::{can_build, made};
use crate::rig::TestDirectory;
use extension::{GuestInstruction, GuestProgram, Runtime};
use plane::instructions::{InstructionCall, InstructionOutcome};
use schemes::model::{Model, ModelFate};
use schemes::{DECLARATIONS, Layer, Record, Scheme, build};
use units::Nanos;

/// A new guest from that example, checked and built.
fn example(name: &str, language: &str) -> Option<GuestProgram> {
    if !can_build(language) {
        return None;
    }
    let place = TestDirectory::new(0);
    let said = made(&place, name, language, &["--example", name]);
    assert!(said.contains("obeys every law"), "{said}");
    let module = std::fs::read(place.path("guests").join(name).with_extension("wasm")).unwrap();
    Some(GuestProgram::load(&module, &Runtime::counted().unwrap()).unwrap())
}

/// The guest with its defaults, except for these options by index.
fn guest(program: &GuestProgram, options: &[(usize, u64)]) -> Box<dyn Scheme<Model>> {
    let mut values = program.declared().defaults();
    options.iter().for_each(|&(place, value)| values[place] = value);
    Box::new(program.guest(&values).unwrap())
}

fn fifo(limit: u64) -> Box<dyn Scheme<Model>> {
    let declaration = DECLARATIONS.iter().find(|scheme| scheme.name == "fifo").unwrap();
    let value = |o: &units::declare::OptionDeclaration| match o.name {
        "limit" => (o.name, limit),
        _ => (o.name, o.unit.read(o.default).unwrap()),
    };
    let options: Vec<_> = declaration.options.iter().map(value).collect();
    build(&Layer { name: "fifo", options: &options, inside: Vec::new() }).unwrap()
}

/// The fate of a packet: its sender, its arrival and its departure in milliseconds.
#[derive(Clone, Copy)]
struct PacketTimes {
    from: usize,
    arrived: u64,
    left: Option<u64>,
}

/// A link that sends a packet of 1000 bytes each millisecond. `arrivals` returns the flows or classes that send in a millisecond, in any order.
fn play(mut scheme: Box<dyn Scheme<Model>>, time: u64, arrivals: impl Fn(u64) -> Vec<usize>) -> Vec<PacketTimes> {
    let mut model = Model::with_queues(scheme.queues() as usize);
    let (mut told, mut seen, mut chance) = (Vec::new(), 0, 1u64);
    for now in 0..time {
        let mut from = arrivals(now);
        // The order within a millisecond is random (xorshift: Marsaglia 2003).
        for i in (1..from.len()).rev() {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            from.swap(i, ((chance >> 20) % (i as u64 + 1)) as usize);
        }
        told.extend(from.iter().map(|&from| PacketTimes { from, arrived: now, left: None }));
        let record = |from: usize| Record {
            length: 1000,
            class: from as u8,
            flow_hash: (from as u32 + 1).wrapping_mul(0x9e37_79b9),
            ..Record::default()
        };
        model.arrive_all(&mut *scheme, from.into_iter().map(record));
        model.ready(&mut *scheme, 1);
        for fate in &model.fates[seen..] {
            if let ModelFate::Sent(number) = *fate {
                told[number].left = Some(now);
            }
        }
        seen = model.fates.len();
        model.now += Nanos::millis(1);
    }
    assert!(scheme.next_fault().is_none(), "it was put aside");
    told
}

/// The fraction sent of the packets from these senders that arrived from `start` to `end`.
fn part_sent(told: &[PacketTimes], (start, end): (u64, u64), from: impl Fn(usize) -> bool) -> f64 {
    let of = told.iter().filter(|packet| (start..end).contains(&packet.arrived) && from(packet.from));
    let (sent, all) = of.fold((0, 0), |(sent, all), packet| (sent + u32::from(packet.left.is_some()), all + 1));
    f64::from(sent) / f64::from(all)
}

/// Flow 0 sends four times the link's rate without reacting to drops; eight others send a fiftieth each.
#[test]
fn stochastic_fair_blue_limits_a_flood_and_spares_other_flows() {
    let Some(program) = example("sfb", "rust") else { return };
    let arrivals = |now: u64| {
        let others = (1..9).filter(|from| now % 50 == from * 6).map(|from| from as usize);
        [0; 4].into_iter().chain(others).collect()
    };
    let part = |scheme| {
        let told = play(scheme, 6000, arrivals);
        let busy = told.iter().filter(|packet| packet.left.is_some_and(|left| left >= 2000)).count();
        (part_sent(&told, (2000, 5500), |from| from > 0), busy as f64 / 4000.0)
    };
    let (of_fifo, _) = part(fifo(100));
    let (of_guest, busy) = part(guest(&program, &[(0, 100), (1, 20)]));
    assert!(of_fifo < 0.35, "FIFO sends {of_fifo} of the small flows");
    assert!(of_guest > 0.98, "the guest sends {of_guest} of the small flows");
    assert!(busy > 0.9, "the link is busy {busy} of the time");
}

/// Three flows send half of the link's rate, all of it, and twice as much.
#[test]
fn approximate_fair_dropping_gives_equal_rates_to_unequal_senders() {
    let Some(program) = example("afd", "c") else { return };
    let arrivals = |now: u64| if now.is_multiple_of(2) { vec![0, 1, 2, 2] } else { vec![1, 2, 2] };
    let shares = |scheme| {
        let told = play(scheme, 8000, arrivals);
        let sent = |from| {
            let of = told.iter().filter(|packet| packet.from == from && packet.left.is_some_and(|left| left >= 3000));
            of.count() as f64
        };
        [0, 1, 2].map(sent)
    };
    // Jain, Chiu and Hawe, DEC research report TR-301, 1984: one for equal shares, a third if one flow has everything.
    let fairness = |shares: [f64; 3]| {
        let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
        sum * sum / (3.0 * squares)
    };
    let (of_fifo, of_guest) = (shares(fifo(200)), shares(guest(&program, &[(0, 200), (1, 20_000)])));
    assert!(fairness(of_fifo) < 0.85, "FIFO: {of_fifo:?}");
    assert!(fairness(of_guest) > 0.97, "the guest: {of_guest:?}");
    assert!(of_guest.iter().sum::<f64>() > 4750.0, "the link is busy: {of_guest:?}");
}

/// Class 3 sends a packet each 20 ms, class 0 a burst of sixty each 100 ms.
#[test]
fn earliest_due_date_meets_the_deadlines_of_all_classes_where_fifo_does_not() {
    let Some(program) = example("edd", "assemblyscript") else { return };
    let bursts = |now: u64| {
        let bulk = if now.is_multiple_of(100) { 60 } else { 0 };
        [0].repeat(bulk).into_iter().chain(now.is_multiple_of(20).then_some(3)).collect()
    };
    let worst = |told: &[PacketTimes], from: usize| {
        let of = told.iter().filter(|packet| packet.from == from && packet.arrived < 4500);
        of.map(|packet| packet.left.map_or(u64::MAX, |left| left - packet.arrived)).max().unwrap()
    };
    let (of_fifo, of_guest) = (play(fifo(1000), 5000, bursts), play(guest(&program, &[]), 5000, bursts));
    assert!(worst(&of_fifo, 3) > 5, "FIFO: {} ms", worst(&of_fifo, 3));
    assert!(worst(&of_guest, 3) <= 5 && worst(&of_guest, 0) <= 200, "the guest: {} ms", worst(&of_guest, 3));
    // Class 3 alone saturates the link. Strict priority would starve class 0; here its packets leave soon after their deadline.
    let flood = |now: u64| if now.is_multiple_of(50) { vec![3, 0] } else { vec![3] };
    let told = play(guest(&program, &[]), 5000, flood);
    assert!(worst(&told, 0) <= 300, "class 0 waits {} ms", worst(&told, 0));
}

/// No scheme but an instruction of ephemeral state: created, tested, built and checked as schemes are.
#[test]
fn instruction_example_computes_means() {
    if !can_build("rust") {
        return;
    }
    let place = TestDirectory::new(0);
    let said = made(&place, "mean", "rust", &["--example", "mean"]);
    for wanted in ["an instruction of", "obeys every law", "[state.instruction.mean] number = 128"] {
        assert!(said.contains(wanted), "no {wanted}: {said}");
    }
    let module = std::fs::read(place.path("guests/mean.wasm")).unwrap();
    let instruction = GuestInstruction::load(&module, &Runtime::counted().unwrap()).unwrap();
    let mut mean = instruction.start().unwrap();
    let (mut there, mut means) = ([None; 4], Vec::new());
    for value in [10, 20, 60] {
        let now = units::Instant::START;
        let mut call = InstructionCall { now, node: 7, operator: 0, value, entries: there, written: [None; 4] };
        assert_eq!(mean.execute(&mut call), Ok(InstructionOutcome::Forward));
        means.push(call.value);
        there = call.written;
    }
    assert_eq!((means, there), (vec![10, 15, 30], [Some(3), Some(90), None, None]));
}
