//! Computations spread over workers, in any interleaving. Each must have the same result as with one worker (spec E-29, E-30, E-X11).
//!
//! A deterministic scheduler chooses the next worker and its batch size. Sites and dispatch are those of a router.

use super::Values;
use super::packet_executor::HEADER;
use crate::digest::digest;
use crate::random::RandomStream;
use esp::hook::{HookPoint, PortSpec, RouterSpec, StateHook};
use esp::isa::{Operator, StateInstruction};
use esp::site::{ExecutionRules, InstructionFate};
use esp::store::{Key, LIFETIME, StoreSpec, mix};
use esp::variables::PermittedVariables;
use esp::wire::{Addresses, Carriages, Locations, Part, dedicated};
use serde::Deserialize;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use units::{Instant, PortId};

/// The most packets that arrive between two turns, and the most that a worker processes in one turn.
const ARRIVE: u64 = 200;
const TAKE: u64 = 64;
/// The most packets that wait. One worker is slower than the arrivals; without a bound it would hold nearly all packets: 2 GB.
const WAITING: u64 = 4096;
/// The input port and the output port.
const PORTS: [PortId; 2] = [PortId(0), PortId(1)];

/// The workers and their traffic.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct WorkersPlan {
    workers: usize,
    computations: u64,
    packets: u64,
    /// The dispatch rule: `computation` or `addresses`.
    dispatch: Dispatch,
    seed: u64,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Dispatch {
    Computation,
    Addresses,
}

/// Runs the trial, and the same packets with one worker.
///
/// | value | meaning |
/// |---|---|
/// | `differ` | computations with a packet whose fate, result or order differs |
/// | `computations`, `forwarded`, `dropped`, `aborted` | of the run with one worker: computations with packets, and fates of packets |
/// | `waited` | the most packets that waited for workers at one time, in either run |
pub fn run(plan: &WorkersPlan) -> Values {
    let (one, several) = (carry_out(plan, 1), carry_out(plan, plan.workers));
    let differ = one.computations.iter().zip(&several.computations).filter(|(one, other)| one != other).count();
    let active = one.computations.iter().filter(|digest| **digest != 0).count();
    let [forwarded, dropped, aborted] = one.fates;
    [
        ("differ", differ as f64),
        ("computations", active as f64),
        ("forwarded", forwarded as f64),
        ("dropped", dropped as f64),
        ("aborted", aborted as f64),
        ("waited", one.waited.max(several.waited) as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn stations(plan: &WorkersPlan, workers: usize) -> Vec<StateHook> {
    let store = StoreSpec { shards: workers, ..StoreSpec::of(plan.computations * 16) };
    let of_port = |port| PortSpec { port, store, input: true, output: true, variables: PermittedVariables::default() };
    let spec = RouterSpec {
        ports: PORTS.map(of_port).to_vec(),
        central: None,
        single: false,
        rules: ExecutionRules::of(7),
        key: Key::new([3, 4]),
        workers,
        shards: workers,
        queues: 1,
        lifetime: LIFETIME,
        flow_order: false,
        drops_aborted: false,
    };
    spec.make().hooks
}

/// Draws a packet, and the number of its computation.
fn draw(plan: &WorkersPlan, traffic: &mut RandomStream) -> (u64, Vec<u8>) {
    let computation = traffic.below(plan.computations);
    // Every host may take part in every computation, and several hosts use the same tag.
    let host = Ipv4Addr::from_bits(0xc633_6400 + traffic.below(250) as u32 + 1);
    let (value, tag) = (traffic.below(1000), |n| computation << 8 | n);
    let instruction = match traffic.below(6) {
        0 => StateInstruction::Count { counter: tag(0), threshold: 40, inclusive: false },
        1 => StateInstruction::Compare { tag: tag(1), value, relation: Operator::Ne },
        2 => StateInstruction::Put { tag: tag(2), value },
        3 => StateInstruction::Get { tag: tag(2), value: 0 },
        4 => StateInstruction::Rchld { counter: tag(4), child: value % 8 },
        _ => StateInstruction::Collect { counter: tag(0), result: tag(3), value, operator: Operator::Add },
    };
    let locations = Locations { input: true, central: false, output: true };
    let part = Part { locations, error: false, piggybacked: false, trace: false, computation, instruction };
    let addresses = Addresses::V4(host, Ipv4Addr::new(203, 0, 113, 9));
    (computation, dedicated(&Carriages::default(), addresses, &part))
}

/// The results of all packets.
struct Outcome {
    /// A hash for each computation, over the fates and bytes of its packets in order.
    computations: Vec<u64>,
    /// The numbers of packets forwarded, dropped and aborted.
    fates: [u64; 3],
    /// The most packets that waited at one time.
    waited: u64,
}

fn carry_out(plan: &WorkersPlan, workers: usize) -> Outcome {
    let (mut traffic, mut order) =
        (RandomStream::new(plan.seed, "traffic"), RandomStream::new(plan.seed, "interleaving"));
    let mut queues: Vec<VecDeque<(u64, u64, Vec<u8>)>> = (0..workers).map(|_| VecDeque::new()).collect();
    let mut stations = stations(plan, workers);
    let (mut told, mut fates) = (vec![0u64; plan.computations as usize], [0; 3]);
    let (mut came, mut left, mut waited) = (0, 0, 0);
    while left < plan.packets {
        let worker = order.below(workers as u64 + 1) as usize;
        let Some(queue) = queues.get_mut(worker) else {
            let room = (left + WAITING).min(plan.packets) - came;
            for _ in 0..order.below(ARRIVE).min(room) {
                let (computation, packet) = draw(plan, &mut traffic);
                let to = match plan.dispatch {
                    Dispatch::Computation => stations[0].worker(&packet).unwrap_or(0),
                    // As a network card hashes a flow by its addresses.
                    Dispatch::Addresses => digest(&packet[12..HEADER]) as usize % workers,
                };
                queues[to].push_back((came, computation, packet));
                came += 1;
            }
            waited = waited.max(came - left);
            continue;
        };
        let count = (order.below(TAKE) as usize).min(queue.len());
        let (mut numbers, mut packets) = (Vec::new(), Vec::new());
        for (number, computation, packet) in queue.drain(..count) {
            numbers.push((number, computation));
            packets.push(packet);
        }
        let now = Instant::new(left);
        let (mut first, mut second) =
            (vec![InstructionFate::PassedThrough; count], vec![InstructionFate::PassedThrough; count]);
        stations[worker].visit(HookPoint::Input(PORTS[0]), now, &mut packets, &mut first);
        // Dropped packets never reach the output; their buffers are emptied.
        let ended = |fate: &InstructionFate| *fate == InstructionFate::Dropped;
        packets.iter_mut().zip(&first).filter(|(_, fate)| ended(fate)).for_each(|(packet, _)| packet.clear());
        stations[worker].visit(HookPoint::Output(PORTS[1]), now, &mut packets, &mut second);
        for (n, packet) in packets.iter().enumerate() {
            let (number, computation) = numbers[n];
            // An instruction that aborted at the input is not executed at the output either, so the first fate counts.
            let fate = if second[n] == InstructionFate::PassedThrough { first[n] } else { second[n] };
            let code = |fate: InstructionFate| match fate {
                InstructionFate::PassedThrough | InstructionFate::Forwarded => 0,
                InstructionFate::Dropped => 1,
                InstructionFate::Aborted(_) => 2,
            };
            fates[code(fate)] += 1;
            let what = digest(packet) ^ mix(number, code(first[n]) as u64 * 3 + code(second[n]) as u64);
            let told = &mut told[computation as usize];
            *told = mix(*told, what);
        }
        left += count as u64;
    }
    Outcome { computations: told, fates, waited }
}
