//! Many instructions, at a rate: what routers are measured with.

use super::wire::Line;
use crate::arguments::Usage;
use anyhow::{Result, bail};
use esp::isa::{Instruction, Operator};
use esp::store::Key;
use esp::wire::{Locations, Part};
use io::clock;
use io::wait::{Sleeper, Waker};
use std::io::{Write, stdout};
use std::net::IpAddr;
use std::process::ExitCode;
use units::{Nanos, PacketRate};

/// Which instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Nop,
    Count,
    Compare,
    Mark,
    Put,
    Get,
    Test,
}

impl Kind {
    const ALL: [(&'static str, Kind); 7] = [
        ("nop", Kind::Nop),
        ("count", Kind::Count),
        ("compare", Kind::Compare),
        ("mark", Kind::Mark),
        ("put", Kind::Put),
        ("get", Kind::Get),
        ("test", Kind::Test),
    ];

    /// The one of a name.
    pub fn named(name: &str) -> Result<Kind, Usage> {
        let found = Kind::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind);
        let names = Kind::ALL.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| Usage(format!("'{name}' is not generated; write one of {names}")))
    }

    fn of(self, tag: u64, value: u64) -> Instruction {
        match self {
            Kind::Nop => Instruction::Nop,
            Kind::Count => Instruction::Count { counter: tag, threshold: u32::MAX, inclusive: true },
            Kind::Compare => Instruction::Compare { tag, value, relation: Operator::Ge },
            Kind::Mark => Instruction::Mark { tag, value },
            Kind::Put => Instruction::Put { tag, value },
            Kind::Get => Instruction::Get { tag, value: 0 },
            Kind::Test => Instruction::Test { tag },
        }
    }
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Packets a second.
    pub rate: PacketRate,
    /// How long.
    pub time: Nanos,
    /// Of a hundred packets so many with a tag that was not used before.
    pub new: u64,
    /// Computations, in turn.
    pub computations: u64,
    /// Which instruction.
    pub kind: Kind,
    /// What tags and computations are drawn from.
    pub seed: u64,
}

impl Load {
    /// The `n`th packet.
    fn part(&self, n: u64) -> Part {
        let key = Key::new([self.seed, !self.seed]);
        // Tags so far: each hundred packets use as many as there are new ones in it, and at least the first is one.
        let used = (n / 100 * self.new + (n % 100).min(self.new)).max(1);
        let fresh = n % 100 < self.new;
        let tag = key.hash(if fresh { used } else { key.hash(!n) % used });
        let computation = key.derive(1).hash(n % self.computations);
        let (locations, instruction) = (Locations::INPUT, self.kind.of(tag, n));
        Part { locations, error: false, piggybacked: false, trace: false, computation, instruction }
    }
}

/// `switchpath state generate`
pub fn generate(host: IpAddr, line: Line, load: &Load) -> Result<ExitCode> {
    if load.rate == PacketRate::ZERO {
        bail!(Usage("a rate of nothing sends nothing".to_owned()));
    }
    let socket = line.to(host)?;
    let mut sleeper = Sleeper::new(Waker::new()?);
    let start = clock::now();
    let (mut sent, mut refused) = (0u64, 0u64);
    loop {
        let passed = clock::now().since(start);
        if passed >= load.time {
            break;
        }
        let due = load.rate.within(passed);
        while sent < due {
            // An answer to an earlier one, or a full queue of this host.
            refused += u64::from(socket.send(&line.bytes(&load.part(sent))).is_err());
            sent += 1;
        }
        sleeper.sleep([], Nanos::micros(200))?;
    }
    let seconds = clock::now().since(start).as_secs_f64();
    writeln!(stdout(), "{} packets in {seconds:.1} s, {refused} not taken by this host", sent - refused)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn as_many_tags_are_new_as_is_said_and_the_others_were_there_before() {
        for new in [0, 1, 50, 100] {
            let (rate, time) = (PacketRate::kpps(1), Nanos::secs(1));
            let load = Load { rate, time, new, computations: 3, kind: Kind::Mark, seed: 7 };
            let mut known = BTreeSet::new();
            let fresh = (0..1000).filter(|&n| match load.part(n).instruction {
                Instruction::Mark { tag, .. } => known.insert(tag),
                _ => false,
            });
            let fresh = fresh.count() as u64;
            assert!(fresh.abs_diff(10 * new) <= 1, "{new} of a hundred: {fresh} of a thousand");
        }
    }
}
