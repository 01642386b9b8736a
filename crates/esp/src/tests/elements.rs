//! The graph of elements does the same as [`crate::site`].

use super::*;
use crate::elements::Graph;
use crate::isa::{Abort, Operator};
use link::RandomStream;

fn drawn(chance: &mut RandomStream) -> StateInstruction {
    let mut tag = || chance.below(12);
    let (counter, result, child) = (tag(), 20 + tag(), 40 + tag());
    let value = chance.below(1 << 40);
    match chance.below(12) {
        0 => StateInstruction::Nop,
        1 => count(counter, 3),
        2 => StateInstruction::Compare { tag: counter, value, relation: Operator::Gt },
        3 => StateInstruction::Collect { counter, result, value, operator: Operator::Max },
        4 => StateInstruction::Rcollect { counter, result, child, value, operator: Operator::Add },
        5 => StateInstruction::Rchld { counter, child },
        6 => StateInstruction::Mark { tag: counter, value },
        7 => StateInstruction::Test { tag: child },
        8 => StateInstruction::Get { tag: counter, value },
        9 => StateInstruction::Setfwd { tag: counter, value: 2, relation: Operator::Le },
        10 => put(chance.below(1000), value),
        // A router variable, which is not permitted here.
        _ => StateInstruction::Get { tag: u64::MAX, value },
    }
}

/// A packet with an instruction, sometimes malformed.
fn any(chance: &mut RandomStream) -> Vec<u8> {
    let mut packet = packet(&part(drawn(chance)));
    let last = packet.len() - 1;
    match chance.below(20) {
        0 => packet[last] ^= 1,
        1 => packet[20 + 1] = 99,
        2 => packet[20 + 2] = 24,
        3 => packet[20] ^= 1 << 4,
        4 => packet[20] |= 1 << 1,
        5 => packet[9] = 17,
        _ => {}
    }
    packet
}

#[test]
fn graph_of_elements_equals_the_integrated_place() {
    let mut seen = std::collections::BTreeSet::new();
    for (seed, scoped) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let spec = StoreSpec { lifetime: Nanos::millis(50), ..StoreSpec::of(30) };
        let mut place = Place::new(spec);
        place.rules = ExecutionRules { batch: 8, scoped, allowed: !(1 << 9), ..place.rules };
        let mut other = Store::new(spec, &Arc::new(WorkerEpochs::new(1)), Grace::Counters);
        let mut graph = Graph::new(other.shards.remove(0), place.rules, Location::Input);
        let mut chance = RandomStream::new(seed, "elements");
        for _ in 0..40 {
            let mut packets: Vec<Vec<u8>> = (0..20).map(|_| any(&mut chance)).collect();
            let mut same = packets.clone();
            let (mut fates, mut others) = ([InstructionFate::PassedThrough; 20], [InstructionFate::PassedThrough; 20]);
            place.site.process((&place.rules, Location::Input), place.now, &mut packets, &mut fates);
            graph.process(place.now, &mut same, &mut others);
            assert_eq!((fates, packets), (others, same), "seed {seed}");
            seen.extend(fates.iter().map(|fate| format!("{fate:?}")));
            place.wait(Nanos::millis(5));
        }
    }
    for fate in [InstructionFate::PassedThrough, InstructionFate::Forwarded, InstructionFate::Dropped]
        .map(|fate| format!("{fate:?}"))
    {
        assert!(seen.contains(&fate), "{fate} was not tried: {seen:?}");
    }
    for why in
        [Abort::Full, Abort::AbsentTag, Abort::BadLength, Abort::BadChecksum, Abort::BadOpcode, Abort::NotEnabled]
    {
        assert!(seen.contains(&format!("{:?}", InstructionFate::Aborted(why))), "{why:?} was not tried: {seen:?}");
    }
}
