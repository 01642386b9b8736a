//! The cost of each packet function by itself on packets of 64 and 1500 bytes (spec E2, Table 1 of the paper). Each cost is a ratio to the
//! straight-line loop on the same packets in the same round.
//!
//! `ip` is the function of the fast path. General IP is the processing of a packet with a record-route option after reception. The host (`stack`)
//! parses its options and writes into them. Then the packet is classified again and forwarded.

use super::{BenchFigure, BudgetBound, Rounds, medians};
use io::clock::CycleCounter;
use packet::Packet;
use packet::wire::{checksum, transport};
use plane::function::Function;
use plane::rig::{Bench, StraightLine, UdpFrame};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;
use units::{Mac, Nanos};

const COUNT: usize = 256;
const IN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OUT: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// The paths whose functions are measured: their name in figures, and their keys.
const PATHS: [(&str, &str); 7] = [
    ("ip", "functions = [\"ip\"]"),
    ("filter of 1 rule", "functions = [\"filter\"]\nfilter = [\"udp dport 53 accept\"]"),
    ("filter of 1 set of 100 ports", ""),
    ("filter of 100 rules", ""),
    ("nat, known connections", "functions = [\"nat\"]"),
    (
        "dispatch by a name and by bytes, to none",
        "functions = [\"dispatch\"]\ndispatch = [\"dns name a.example.org p0\", \"payload 2 0x0102 p0\"]",
    ),
    ("spin of 1 us, by the clock", "functions = [\"spin(cost=1us)\"]"),
];

fn config() -> String {
    let mut text = String::from(
        "version = 1\n[port.in]\ndevice = \"memory:in\"\nmac = \"02:00:00:00:00:01\"\naddress = [\"192.0.2.1/24\"]\n\
         [port.out]\ndevice = \"memory:out\"\nmac = \"02:00:00:00:00:02\"\naddress = [\"198.51.100.1/24\"]\n\
         [[neighbour]]\naddress = \"198.51.100.9\"\nmac = \"02:00:00:00:00:09\"\nport = \"out\"\n\
         [[route]]\nto = \"10.0.0.0/8\"\nvia = \"198.51.100.9\"\n[nat]\noutside = \"out\"\n",
    );
    let ports: Vec<String> = (0..100).map(|i| (1000 + 7 * i).to_string()).collect();
    for (index, (_, keys)) in PATHS.iter().enumerate() {
        let keys = match index {
            2 => format!("functions = [\"filter\"]\nfilter = [\"udp dport {{ {} }} drop\"]", ports.join(", ")),
            3 => {
                let rules: Vec<String> = ports.iter().map(|port| format!("\"udp dport {port} drop\"")).collect();
                format!("functions = [\"filter\"]\nfilter = [{}]", rules.join(", "))
            }
            _ => keys.to_string(),
        };
        // The benchmark selects paths by name. The match only has to be different for each.
        write!(text, "[[path]]\nname = \"p{index}\"\nmatch = \"tcp dport {index}\"\n{keys}\n").expect("it is a string");
    }
    text
}

/// A packet with a correct checksum to one of many hosts.
fn frame(i: usize, length: usize) -> Vec<u8> {
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::from(0x0a00_0000 + i as u32));
    let link = (Mac([2, 0, 0, 0, 0, 9]), IN);
    // Minus the frame check sequence, which frames here do not have.
    let mut frame = UdpFrame { link, network, ports: (5000 + i as u16, 53), ttl: 64, length: length - 4 }.frame(&[]);
    let sum = transport::transport_checksum(network.0.into(), network.1.into(), 17, &frame[34..]);
    frame[40..42].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The same packet with a record-route option: nine slots, the first is free.
fn with_options(frame: &[u8]) -> Vec<u8> {
    const OPTION: [u8; 4] = [7, 39, 4, 0];
    let mut long = frame[..34].to_vec();
    long.extend(OPTION);
    long.resize(34 + 40, 0);
    let keep = frame.len().min(1500 - 40 + 14);
    long.extend(&frame[34..keep]);
    long[14] = 0x4f;
    let total = (long.len() - 14) as u16;
    long[16..18].copy_from_slice(&total.to_be_bytes());
    long[24..26].fill(0);
    let sum = checksum::checksum(&long[14..74]);
    long[24..26].copy_from_slice(&sum.to_be_bytes());
    long
}

/// Packets, and a pristine copy that restores them before each pass.
struct Load {
    frames: Vec<Vec<u8>>,
    packets: Vec<Packet>,
}

impl Load {
    fn new(bench: &mut Bench, frames: Vec<Vec<u8>>) -> Load {
        let packets = frames.iter().map(|frame| bench.packet(frame)).collect();
        Load { frames, packets }
    }

    fn arrive(&mut self, bench: &Bench) {
        self.packets.iter_mut().zip(&self.frames).for_each(|(packet, frame)| bench.arrive(packet, frame));
    }
}

/// Nanoseconds per packet that `work` takes with freshly received packets, over several passes.
fn cost(
    counter: &CycleCounter,
    bench: &mut Bench,
    load: &mut Load,
    mut work: impl FnMut(&mut Bench, &mut Vec<Packet>),
) -> f64 {
    const PASSES: usize = 40;
    let mut spent = Nanos::ZERO;
    for _ in 0..PASSES {
        load.arrive(bench);
        let began = counter.read();
        work(bench, &mut load.packets);
        spent += counter.between(began, counter.read());
        assert_eq!(load.packets.len(), load.frames.len(), "none was lost");
    }
    spent.get() as f64 / (PASSES * COUNT) as f64
}

/// The cost of each function in nanoseconds per packet, by name and packet size.
pub fn function_costs(rounds: usize) -> BTreeMap<String, f64> {
    // The last figure of each size is a ratio of two others.
    measure(Rounds(rounds)).into_iter().filter(|f| f.bound == BudgetBound::Most).map(|f| (f.name, f.value)).collect()
}

pub fn measure(Rounds(rounds): Rounds) -> Vec<BenchFigure> {
    let counter = CycleCounter::calibrated();
    let mut figures = Vec::new();
    for length in [64, 1500] {
        // A frame of 1518 bytes carries a packet of 1500.
        let length = if length == 64 { 64 } else { 1518 };
        let mut bench = Bench::new(4096, &config());
        let plain: Vec<Vec<u8>> = (0..COUNT).map(|i| frame(i, length)).collect();
        let mut optioned = Load::new(&mut bench, plain.iter().map(|frame| with_options(frame)).collect());
        let mut load = Load::new(&mut bench, plain);
        let mut functions: Vec<Vec<Box<dyn Function>>> =
            (0..PATHS.len()).map(|index| bench.functions(&format!("p{index}"))).collect();
        let mut forward = bench.functions("p0");
        let tables = bench.tables();
        let straight = StraightLine::new(&tables, IN, OUT, 64);
        let mut costs: Vec<Vec<(f64, f64)>> = vec![Vec::new(); PATHS.len() + 1];
        for round in 0..=rounds {
            let mut one = Vec::with_capacity(costs.len());
            for functions in &mut functions {
                one.push(cost(&counter, &mut bench, &mut load, |bench, packets| {
                    let (all, asked) = bench.run(functions, packets);
                    counter.spin(asked);
                    assert!(all, "each goes on");
                }));
            }
            one.push(cost(&counter, &mut bench, &mut optioned, |bench, packets| {
                bench.general(&mut forward, packets);
            }));
            let reference = cost(&counter, &mut bench, &mut load, |_, packets| {
                assert_eq!(straight.run(packets), COUNT);
            });
            if round > 0 {
                // The first round only warms up.
                costs.iter_mut().zip(one).for_each(|(costs, cost)| costs.push((cost, reference)));
            }
        }
        let size = if length == 64 { "64 B" } else { "1500 B" };
        let names = PATHS.iter().map(|(name, _)| *name).chain(["general IP, record route"]);
        for (name, costs) in names.zip(&costs) {
            figures.push(BenchFigure::against(
                "functions",
                format!("{name}, {size}"),
                medians(costs),
                "ns/packet",
                None,
            ));
        }
        let (fast, general) = (&costs[0], &costs[PATHS.len()]);
        let against: Vec<(f64, f64)> = general.iter().zip(fast).map(|(general, fast)| (general.0, fast.0)).collect();
        let name = format!("general IP against ip, {size} (E2: 5 times and more)");
        figures.push(BenchFigure::at_least("functions", name, medians(&against), "ns/packet", Some(5.0)));
    }
    figures.push(super::preempt::measure(Rounds(rounds)));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_passes_packets_and_general_ip_records_its_address() {
        let mut bench = Bench::new(4096, &config());
        let plain: Vec<Vec<u8>> = (0..COUNT).map(|i| frame(i, 64)).collect();
        let mut optioned = Load::new(&mut bench, plain.iter().map(|frame| with_options(frame)).collect());
        let mut load = Load::new(&mut bench, plain);
        for (index, (name, _)) in PATHS.iter().enumerate() {
            load.arrive(&bench);
            let mut functions = bench.functions(&format!("p{index}"));
            assert!(bench.run(&mut functions, &mut load.packets).0, "{name}");
        }
        optioned.arrive(&bench);
        let mut forward = bench.functions("p0");
        assert_eq!(bench.general(&mut forward, &mut optioned.packets), COUNT);
        for packet in &optioned.packets {
            let bytes = packet.bytes();
            assert_eq!((bytes[36], &bytes[37..41], bytes[22]), (8, &[198, 51, 100, 1][..], 63), "it has left");
        }
    }
}
