//! Generates instructions at a given rate, to measure routers.

use super::transport::PartTransport;
use crate::arguments::UsageError;
use crate::output::print_json;
use anyhow::{Result, bail};
use esp::isa::{Opcode, Operator, StateInstruction};
use esp::store::{Key, mix};
use esp::wire::{Locations, Part};
use io::clock;
use io::wait::{Sleeper, Waker};
use serde::Serialize;
use std::io::{Write, stdout};
use std::net::IpAddr;
use std::process::ExitCode;
use std::str::FromStr;
use units::{Nanos, PacketRate};

/// Lengths of IP headers in bytes.
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Bytes between an instruction part and the data.
const TRAILER: usize = 2;
/// The largest weight of an instruction in a mix.
const MOST_OFTEN: u64 = 1_000_000;

/// The longest pause between two checks for due packets.
const PAUSE: Nanos = Nanos::micros(200);
/// Packets due before the end are still sent for this time, because this host may have overslept.
const LATE: Nanos = Nanos::millis(10);

/// A mix of instructions, each with its weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mix(Vec<(Opcode, u64)>);

impl FromStr for Mix {
    type Err = String;

    /// Parses `count`, or `count=3,compare=1`.
    fn from_str(text: &str) -> Result<Mix, String> {
        let one = |text: &str| {
            let (name, often) = text.split_once('=').unwrap_or((text, "1"));
            let names = || Opcode::ALL.map(Opcode::name).join(", ");
            let opcode = Opcode::ALL.into_iter().find(|opcode| opcode.name() == name.trim());
            let opcode = opcode.ok_or_else(|| format!("unknown instruction '{name}'; write one of {}", names()))?;
            let often = often.trim().parse().ok().filter(|often| (1..=MOST_OFTEN).contains(often));
            Ok((opcode, often.ok_or_else(|| format!("write a weight from 1 to {MOST_OFTEN}, like {name}=3"))?))
        };
        text.split(',').map(one).collect::<Result<_, String>>().map(Mix)
    }
}

impl Mix {
    /// Returns the instruction for a random number.
    fn drawn(&self, number: u64) -> Opcode {
        let mut left = number % self.0.iter().map(|(_, often)| often).sum::<u64>().max(1);
        let found = self.0.iter().find(|(_, often)| {
            let here = left < *often;
            left = left.saturating_sub(*often);
            here
        });
        found.map_or(Opcode::Nop, |(opcode, _)| *opcode)
    }
}

/// Builds an instruction for `tag` and tags derived from it. COLLECT thus decrements the counters of COUNT, and RCOLLECT those of RCHLD.
fn instruction_for(opcode: Opcode, tag: u64, value: u64) -> StateInstruction {
    let [result, child] = [1, 2].map(|which| mix(tag, which) >> 1);
    match opcode {
        Opcode::Nop => StateInstruction::Nop,
        Opcode::Count => StateInstruction::Count { counter: tag, threshold: u32::MAX, inclusive: true },
        Opcode::Compare => StateInstruction::Compare { tag, value, relation: Operator::Ge },
        Opcode::Collect => StateInstruction::Collect { counter: tag, result, value, operator: Operator::Add },
        Opcode::Rcollect => StateInstruction::Rcollect { counter: tag, result, child, value, operator: Operator::Add },
        Opcode::Rchld => StateInstruction::Rchld { counter: tag, child },
        Opcode::Mark => StateInstruction::Mark { tag, value },
        Opcode::Test => StateInstruction::Test { tag },
        Opcode::Get => StateInstruction::Get { tag, value: 0 },
        Opcode::Put => StateInstruction::Put { tag, value },
        Opcode::Setfwd => StateInstruction::Setfwd { tag, value: 0, relation: Operator::Ge },
    }
}

/// The generated load.
#[derive(Clone, Debug)]
pub struct InstructionLoad {
    /// The packet rate.
    pub rate: PacketRate,
    /// The duration.
    pub time: Nanos,
    /// How many of a hundred packets carry a new tag.
    pub new: u64,
    /// The number of computations, used in turn.
    pub computations: u64,
    /// The instructions.
    pub mix: Mix,
    /// Bytes of each IP packet; a packet that needs more is longer.
    pub size: u64,
    /// The seed of tags and computations.
    pub seed: u64,
    /// True if routers are to record the results.
    pub trace: bool,
}

impl InstructionLoad {
    /// Returns the `n`th packet.
    fn part(&self, n: u64) -> Part {
        let key = Key::new([self.seed, !self.seed]);
        // The number of tags used so far. Each hundred packets use `new` tags, and the first packet always has a new one.
        let used = (n / 100 * self.new + (n % 100).min(self.new)).max(1);
        let fresh = n % 100 < self.new;
        let tag = key.hash(if fresh { used } else { key.hash(!n) % used });
        let computation = key.derive(1).hash(n % self.computations);
        let (locations, instruction) =
            (Locations::INPUT, instruction_for(self.mix.drawn(key.derive(2).hash(n)), tag, n));
        Part { locations, error: false, piggybacked: false, trace: self.trace, computation, instruction }
    }
}

/// Returns the payload with a part, padded with data to this size.
fn padded_payload(line: PartTransport, part: &Part, size: usize) -> Vec<u8> {
    let bare = line.bytes(part);
    match size.checked_sub(bare.len() + TRAILER) {
        Some(data) if data > 0 => line.bytes_with_data(part, &vec![0; data]),
        _ => bare,
    }
}

/// The result.
#[derive(Serialize)]
struct LoadReport {
    time_ns: u64,
    sent_packets: u64,
    /// Packets refused by the socket of this host.
    refused_packets: u64,
    packets_per_second: u64,
    asked_packets: u64,
    asked_packets_per_second: u64,
}

/// `switchpath state generate`
pub fn generate(host: IpAddr, line: PartTransport, load: &InstructionLoad, json: bool) -> Result<ExitCode> {
    if load.rate == PacketRate::ZERO {
        bail!(UsageError("a rate of 0 sends nothing; write --rate 1kpps".to_owned()));
    }
    let socket = line.connect(host)?;
    let headers = line.encapsulation.header() + if host.is_ipv4() { IPV4 } else { IPV6 };
    let size = (load.size as usize).saturating_sub(headers);
    let mut sleeper = Sleeper::new(Waker::new()?);
    let start = clock::now();
    let (mut tried, mut refused) = (0, 0);
    let took = loop {
        let passed = clock::now().since(start);
        if tried < load.rate.within(passed.min(load.time)) && passed < load.time + LATE {
            // The send buffer of this host is full.
            refused += u64::from(socket.send(&padded_payload(line, &load.part(tried), size)).is_err());
            tried += 1;
        } else if passed >= load.time {
            break passed;
        } else {
            sleeper.sleep([], PAUSE.min(load.time.saturating_sub(passed)))?;
        }
    };
    let sent = tried - refused;
    print_report(&mut stdout(), load, (sent, refused), took, json)?;
    Ok(ExitCode::SUCCESS)
}

fn print_report(
    out: &mut dyn Write,
    load: &InstructionLoad,
    (sent, refused): (u64, u64),
    took: Nanos,
    json: bool,
) -> Result<()> {
    let seconds = took.as_secs_f64();
    let (asked, reached) = (load.rate.within(load.time), (sent as f64 / seconds).round() as u64);
    if json {
        let told = LoadReport {
            time_ns: took.get(),
            sent_packets: sent,
            refused_packets: refused,
            packets_per_second: reached,
            asked_packets: asked,
            asked_packets_per_second: load.rate.get(),
        };
        return print_json(out, &told);
    }
    write!(out, "{sent} packets in {seconds:.1} s, {refused} refused by this host's kernel")?;
    if sent < asked {
        write!(out, "; {reached} a second instead of {}", load.rate.get())?;
    }
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::socket::Encapsulation;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn load_uses_the_requested_share_of_new_tags() {
        for new in [0, 1, 50, 100] {
            let (rate, time) = (PacketRate::kpps(1), Nanos::secs(1));
            let load = InstructionLoad {
                rate,
                time,
                new,
                computations: 3,
                mix: "mark".parse().unwrap(),
                size: 0,
                seed: 7,
                trace: true,
            };
            let mut known = BTreeSet::new();
            let fresh = (0..1000).filter(|&n| match load.part(n).instruction {
                StateInstruction::Mark { tag, .. } => known.insert(tag),
                _ => false,
            });
            assert!(load.part(0).trace, "as is asked");
            let fresh = fresh.count() as u64;
            assert!(fresh.abs_diff(10 * new) <= 1, "{new} of a hundred: {fresh} of a thousand");
        }
    }

    #[test]
    fn generate_reports_a_rate_below_the_requested_one() {
        let (rate, time) = (PacketRate::kpps(1), Nanos::secs(2));
        let load = InstructionLoad {
            rate,
            time,
            new: 50,
            computations: 1,
            mix: "nop".parse().unwrap(),
            size: 0,
            seed: 7,
            trace: true,
        };
        let told = |sent, refused| {
            let mut out = Vec::new();
            print_report(&mut out, &load, (sent, refused), time, false).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(told(2000, 0), "2000 packets in 2.0 s, 0 refused by this host's kernel\n");
        let less = "1500 packets in 2.0 s, 3 refused by this host's kernel; 750 a second instead of 1000\n";
        assert_eq!(told(1500, 3), less);
    }

    #[test]
    fn mix_respects_the_weights_of_instructions() {
        let mix: Mix = "count=3, compare=1".parse().unwrap();
        let key = Key::new([1, 2]);
        let counts = (0..4000).filter(|n| mix.drawn(key.hash(*n)) == Opcode::Count).count();
        assert!(counts.abs_diff(3000) < 150, "{counts} of 4000");
        for (text, wrong) in [
            ("", "instruction ''"),
            ("cuont", "instruction 'cuont'"),
            ("nop=0", "write a weight"),
            ("nop=x", "write a weight"),
        ] {
            assert!(text.parse::<Mix>().is_err_and(|error| error.contains(wrong)), "{text}");
        }
        let all = Opcode::ALL.map(Opcode::name).join(",").parse::<Mix>().unwrap();
        let kinds: BTreeSet<u8> = (0..11).map(|n| instruction_for(all.drawn(n), 7, 8).opcode().number()).collect();
        assert_eq!(kinds.len(), 11);
    }

    #[test]
    fn packets_are_padded_to_the_requested_size() {
        let line = PartTransport::of(Encapsulation::Datagrams(5937), None).unwrap();
        let part = Part {
            locations: Locations::INPUT,
            error: false,
            piggybacked: false,
            trace: false,
            computation: 1,
            instruction: StateInstruction::Nop,
        };
        assert_eq!([0, 14, 16, 17, 1000].map(|size| padded_payload(line, &part, size).len()), [14, 14, 14, 17, 1000]);
    }
}
