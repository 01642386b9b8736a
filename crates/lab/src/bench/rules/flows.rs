//! The flow cache in front of a list: packets of few flows, and a flood of random flows.

use super::lists::{Packet, Rule, RuleList as Rules, packets};
use super::{cost_of_batches, figure, make_keys};
use crate::bench::{BenchFigure, Rounds};
use classifier::{ListedRule, PacketKeys, RuleHold, RuleList, RuleReader, RuleResult};
use packet::BATCH;
use std::hint::black_box;
use std::sync::Arc;

/// Flows that the cache has room for.
const FLOWS: usize = 1000;
/// Packets of a measurement.
const PACKETS: usize = 1 << 16;
/// The longest time of a look-up that finds an entry, in nanoseconds.
const HIT: f64 = 15.0;
/// The most that the cache may slow a mixture of few flows and a flood of random ones, beside no cache.
const FLOOD: f64 = 1.0 / 0.9;

/// Look-ups of packets of few flows, alone and in a flood.
pub fn measure(rounds: Rounds, list: &Rules) -> Vec<BenchFigure> {
    let listed = |(number, rule): (usize, &Rule)| ListedRule {
        matching: rule.matching(),
        interface: None,
        vrf: None,
        text: number.to_string().into(),
        result: RuleResult { action: number as u32 & 0xffff, ..RuleResult::default() },
        limit: None,
        held: RuleHold::default(),
    };
    let rules = list.rules.iter().enumerate().map(listed).collect();
    let rules = Arc::new(RuleList::new(rules, &Arc::default()).expect("the rules have no lists and no sets"));
    let random = packets(&list.rules, PACKETS);
    let of_flows: Vec<Packet> = random[..FLOWS].iter().cycle().take(PACKETS).cloned().collect();
    // Of ten packets of a mixture so many are random.
    let mixture = |random_of_ten: usize| -> Vec<Packet> {
        let pick = |i: usize| if (i * random_of_ten) % 10 < random_of_ten { random[i] } else { of_flows[i] };
        (0..PACKETS).map(pick).collect()
    };
    let name = format!("{} rules, {}", list.rules.len(), list.name);
    let cost = |packets: &[Packet], cached: bool| {
        let reader = RuleReader::new(&rules);
        let mut reader = if cached { reader.with_flow_caches() } else { reader };
        reader.refresh();
        let mut state = (PacketKeys::default(), reader);
        let prepare = |state: &mut (PacketKeys, RuleReader), packets: &[Packet]| make_keys(&mut state.0, packets);
        let look_up = |(keys, reader): &mut (PacketKeys, RuleReader)| {
            let mut actions = [u32::MAX; BATCH];
            reader.look_up(keys, |position, result| actions[position] = result.action);
            black_box(&actions);
        };
        cost_of_batches(rounds, packets, &mut state, prepare, look_up)
    };
    let (hit, without) = (cost(&of_flows, true), cost(&of_flows, false));
    let ratio = |name: String, (with, without): (f64, f64), budget| {
        BenchFigure::against("rules", name, (with, without, with / without), "ns/packet", budget)
    };
    let mut figures = vec![
        figure(format!("{name}, {FLOWS} flows: look-up with a flow cache"), hit, "ns/packet", Some(HIT)),
        ratio(format!("{name}, {FLOWS} flows: with a flow cache, beside none"), (hit, without), None),
    ];
    for random_of_ten in [5, 9] {
        let mixture = mixture(random_of_ten);
        let costs = (cost(&mixture, true), cost(&mixture, false));
        let name = format!("{name}, {random_of_ten} of 10 packets random: with a flow cache, beside none");
        figures.push(ratio(name, costs, Some(FLOOD)));
    }
    figures
}
