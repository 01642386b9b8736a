//! The cost of work in virtual time: a distribution for each kind of work, and the meter that draws from them.

use crate::random::RandomStream;
use crate::real::Pacer;
use cpu::meter::{Work, WorkKind, WorkMeter};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Nanos, Parts, PortId, UnitError};

/// The cost of a packet: drawn from a distribution, plus a part per byte.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PacketCost {
    /// The part that does not depend on the length.
    pub packet: CostDistribution,
    /// The part for each 1000 bytes.
    pub kilobyte: Nanos,
}

/// The distribution of the cost of packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CostDistribution {
    /// The same for all packets.
    Fixed(Nanos),
    /// Uniform from the first to the second, both included.
    Uniform(Nanos, Nanos),
    /// The first value, and for this part of the packets the second.
    Bimodal(Nanos, Nanos, Parts),
    /// Heavy-tailed: a Pareto distribution of this shape, bounded on both sides.
    Pareto(Nanos, Nanos, f64),
}

impl PacketCost {
    /// Zero cost.
    pub const NOTHING: PacketCost = PacketCost::fixed(Nanos::ZERO);

    /// The same for each packet, independent of its length.
    pub const fn fixed(packet: Nanos) -> PacketCost {
        PacketCost { packet: CostDistribution::Fixed(packet), kilobyte: Nanos::ZERO }
    }

    /// Draws the cost of `packets` packets with `bytes` bytes in total.
    fn draw(&self, packets: u32, bytes: u32, chance: &mut RandomStream) -> u64 {
        let packets = u64::from(packets);
        let fixed = match self.packet {
            CostDistribution::Fixed(each) => each.get() * packets,
            other => (0..packets).map(|_| other.draw(chance)).sum(),
        };
        fixed + self.kilobyte.get() * u64::from(bytes) / 1000
    }

    /// The mean for packets of `length` bytes, in nanoseconds.
    pub fn mean(&self, length: u64) -> f64 {
        self.packet.mean() + self.kilobyte.get() as f64 * length as f64 / 1000.0
    }
}

impl CostDistribution {
    fn draw(self, chance: &mut RandomStream) -> u64 {
        match self {
            CostDistribution::Fixed(each) => each.get(),
            CostDistribution::Uniform(low, high) => low.get() + chance.below(high.get() - low.get() + 1),
            CostDistribution::Bimodal(low, high, often) => if chance.happens(often) { high } else { low }.get(),
            CostDistribution::Pareto(low, high, shape) => {
                // By inversion of the distribution function.
                let (low, high) = (low.get() as f64, high.get() as f64);
                let reach = 1.0 - libm::pow(low / high, shape);
                (low / libm::pow(1.0 - chance.unit() * reach, 1.0 / shape)) as u64
            }
        }
    }

    /// The mean, in nanoseconds.
    fn mean(self) -> f64 {
        match self {
            CostDistribution::Fixed(each) => each.get() as f64,
            CostDistribution::Uniform(low, high) => (low.get() + high.get()) as f64 / 2.0,
            CostDistribution::Bimodal(low, high, often) => {
                let part = often.as_f64();
                low.get() as f64 * (1.0 - part) + high.get() as f64 * part
            }
            CostDistribution::Pareto(low, high, shape) => {
                let (low, high) = (low.get() as f64, high.get() as f64);
                let reach = 1.0 - libm::pow(low / high, shape);
                if (shape - 1.0).abs() < 1e-9 {
                    return low * libm::log(high / low) / reach;
                }
                let tail = 1.0 - libm::pow(low / high, shape - 1.0);
                low * shape / (shape - 1.0) * tail / reach
            }
        }
    }
}

/// An example of every form, for hints.
const FORMS: &str =
    "\"6us\", \"1us + 2ns/b\", \"uniform(1us, 3us)\", \"bimodal(1us, 30us, 5%)\" or \"pareto(1us, 1ms, 1.3)\"";

fn wrong(reason: impl Into<String>) -> UnitError {
    UnitError { reason: reason.into(), hint: format!("write a cost like {FORMS}") }
}

impl FromStr for PacketCost {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<PacketCost, UnitError> {
        let (mut packet, mut kilobyte) = (None, None);
        for part in text.split('+').map(str::trim) {
            match part.strip_suffix("/b") {
                Some(each) if kilobyte.is_none() => kilobyte = Some(per_kilobyte(each)?),
                None if packet.is_none() => packet = Some(spread(part)?),
                _ => return Err(wrong(format!("'{text}' states the same part twice"))),
            }
        }
        let packet = packet.unwrap_or(CostDistribution::Fixed(Nanos::ZERO));
        Ok(PacketCost { packet, kilobyte: kilobyte.unwrap_or_default() })
    }
}

/// Converts a cost per byte to one per 1000 bytes: `0.5ns` becomes 500 ns.
fn per_kilobyte(text: &str) -> Result<Nanos, UnitError> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = match text[split..].trim() {
        "ns" => "us",
        "us" => "ms",
        "ms" => "s",
        _ => return Err(wrong(format!("'{text}/b' is no cost of a byte"))),
    };
    format!("{}{unit}", &text[..split]).parse()
}

fn spread(text: &str) -> Result<CostDistribution, UnitError> {
    let Some((name, rest)) = text.split_once('(') else { return text.parse().map(CostDistribution::Fixed) };
    let arguments = rest.strip_suffix(')').ok_or_else(|| wrong(format!("'{text}' has no closing bracket")))?;
    let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
    let (low, high) = match arguments[..] {
        [low, high] | [low, high, _] => (low.parse::<Nanos>()?, high.parse::<Nanos>()?),
        _ => return Err(wrong(format!("'{text}' has {} arguments", arguments.len()))),
    };
    if low > high {
        return Err(wrong(format!("{low} is more than {high}")));
    }
    match (name.trim(), &arguments[2..]) {
        ("uniform", []) => Ok(CostDistribution::Uniform(low, high)),
        ("bimodal", [often]) => {
            let often = often.parse::<Parts>()?;
            if often > Parts::ONE {
                return Err(wrong(format!("{often} is more than 100 % of the packets")));
            }
            Ok(CostDistribution::Bimodal(low, high, often))
        }
        ("pareto", [shape]) => {
            let value = shape.parse::<f64>().ok().filter(|shape| (0.01..=100.0).contains(shape));
            let shape = value.ok_or_else(|| wrong(format!("'{shape}' is no shape, a number from 0.01 to 100")))?;
            if low == Nanos::ZERO {
                return Err(wrong("the least of a Pareto distribution is more than zero"));
            }
            Ok(CostDistribution::Pareto(low, high, shape))
        }
        (name, _) => Err(wrong(format!("unknown distribution '{name}' with {} arguments", arguments.len()))),
    }
}

impl fmt::Display for PacketCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.packet {
            CostDistribution::Fixed(each) => write!(f, "{each}")?,
            CostDistribution::Uniform(low, high) => write!(f, "uniform({low}, {high})")?,
            CostDistribution::Bimodal(low, high, often) => write!(f, "bimodal({low}, {high}, {often})")?,
            CostDistribution::Pareto(low, high, shape) => write!(f, "pareto({low}, {high}, {shape})")?,
        }
        if self.kilobyte > Nanos::ZERO {
            write!(f, " + {}ns/b", self.kilobyte.get() as f64 / 1000.0)?;
        }
        Ok(())
    }
}

/// The cost of each kind of work of a router.
#[derive(Clone, PartialEq, Debug)]
pub struct CostModel {
    /// Selecting a task and switching to it.
    pub switch: Nanos,
    /// Polling a port that has no packets. If that is free, ports are polled all the time.
    pub poll: Nanos,
    /// Receiving and classifying a packet in an input task.
    pub input: PacketCost,
    /// The same in an interrupt, ahead of all tasks.
    pub interrupt: PacketCost,
    /// The functions of a path that has no entry below, if the configuration declares no cost.
    pub forwarding: PacketCost,
    /// The queueing scheme and transmission.
    pub output: PacketCost,
    /// An ephemeral-state instruction, in addition to the cost of its packet.
    pub instruction: PacketCost,
    /// The functions of paths, by path name.
    pub paths: Vec<(String, PacketCost)>,
}

impl Default for CostModel {
    fn default() -> CostModel {
        CostModel {
            switch: Nanos::ZERO,
            poll: Nanos::ZERO,
            input: PacketCost::NOTHING,
            interrupt: PacketCost::NOTHING,
            forwarding: PacketCost::NOTHING,
            output: PacketCost::NOTHING,
            instruction: PacketCost::NOTHING,
            paths: Vec::new(),
        }
    }
}

/// The time of a core by kind of work, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreTime {
    /// Input tasks and interrupts that received packets.
    pub input: u64,
    /// Polls of ports without packets.
    pub poll: u64,
    /// Their number.
    pub polls: u64,
    /// The functions of paths.
    pub forwarding: u64,
    /// Queueing schemes and transmission.
    pub output: u64,
    /// Task selection and switching.
    pub switch: u64,
    /// Their number.
    pub dispatches: u64,
    /// Vectors that functions processed.
    pub vectors: u64,
    /// The packets in these vectors.
    pub forwarded: u64,
}

impl CoreTime {
    /// Time spent on packets.
    pub fn useful(&self) -> u64 {
        self.input + self.forwarding + self.output
    }

    /// All time except idle time.
    pub fn busy(&self) -> u64 {
        self.useful() + self.poll + self.switch
    }

    /// Adds work that took `cost` nanoseconds.
    #[inline]
    fn add(&mut self, work: Work, cost: u64) {
        match work.kind {
            WorkKind::Switch => {
                self.dispatches += 1;
                self.switch += cost;
            }
            WorkKind::Input | WorkKind::Interrupt if work.packets == 0 => self.poll += cost,
            WorkKind::Input | WorkKind::Interrupt => self.input += cost,
            WorkKind::Forwarding => {
                self.forwarding += cost;
                // A vector that is preempted is reported in parts. It is counted with its last part, the only one that has packets.
                self.vectors += u64::from(work.predicted.is_none() || work.packets > 0);
                self.forwarded += u64::from(work.packets);
            }
            WorkKind::Output => self.output += cost,
        }
    }

    /// The time spent since `before`.
    pub fn since(&self, before: &CoreTime) -> CoreTime {
        CoreTime {
            input: self.input - before.input,
            poll: self.poll - before.poll,
            polls: self.polls - before.polls,
            forwarding: self.forwarding - before.forwarding,
            output: self.output - before.output,
            switch: self.switch - before.switch,
            dispatches: self.dispatches - before.dispatches,
            vectors: self.vectors - before.vectors,
            forwarded: self.forwarded - before.forwarded,
        }
    }
}

impl std::ops::AddAssign for CoreTime {
    fn add_assign(&mut self, other: CoreTime) {
        self.input += other.input;
        self.poll += other.poll;
        self.polls += other.polls;
        self.forwarding += other.forwarding;
        self.output += other.output;
        self.switch += other.switch;
        self.dispatches += other.dispatches;
        self.vectors += other.vectors;
        self.forwarded += other.forwarded;
    }
}

/// The meter of one core. Each lap draws the cost of the work and advances the time by it.
pub(crate) struct CostMeter {
    model: CostModel,
    /// By path id.
    paths: Vec<PacketCost>,
    /// Polls without packets, by port id.
    polls: Vec<u64>,
    chance: RandomStream,
    /// The time of the core, shared with the ports that it polls.
    clock: Arc<AtomicU64>,
    now: u64,
    pub spent: CoreTime,
    /// Spends the cost as real time, in worlds on real packets.
    pub pacer: Option<Box<Pacer>>,
}

impl CostMeter {
    pub fn new(model: CostModel, chance: RandomStream, clock: Arc<AtomicU64>) -> CostMeter {
        let (paths, polls, spent) = (Vec::new(), Vec::new(), CoreTime::default());
        CostMeter { model, paths, polls, chance, clock, now: 0, spent, pacer: None }
    }

    /// Sets the cost of the functions of each path, by path id.
    pub fn set_paths(&mut self, paths: Vec<PacketCost>) {
        self.paths = paths;
    }

    /// The number of polls of a port without packets.
    pub fn polls(&self, port: PortId) -> u64 {
        self.polls.get(port.index()).copied().unwrap_or(0)
    }

    /// Counts a poll of a port without packets.
    fn polled(&mut self, port: Option<PortId>) {
        self.spent.polls += 1;
        let Some(port) = port else { return };
        if port.index() >= self.polls.len() {
            self.polls.resize(port.index() + 1, 0);
        }
        self.polls[port.index()] += 1;
    }

    /// True if any cost depends on bytes.
    pub fn has_byte_costs(&self) -> bool {
        let costs = [&self.model.input, &self.model.interrupt, &self.model.forwarding, &self.model.output];
        costs.into_iter().chain(&self.paths).any(|cost| cost.kilobyte > Nanos::ZERO)
    }

    /// Begins a step.
    pub fn begin(&mut self, now: u64) {
        self.now = now;
        if let Some(pacer) = &mut self.pacer {
            pacer.begin(now);
        }
        self.clock.store(now, Ordering::Relaxed);
    }

    /// The time at which the step ends.
    pub fn end(&self) -> u64 {
        self.now
    }
}

impl WorkMeter for CostMeter {
    #[inline]
    fn lap(&mut self, work: Work) -> Nanos {
        if work.kind == WorkKind::Input && work.packets == 0 {
            self.polled(work.port);
        }
        let CostMeter { model, paths, chance, .. } = self;
        let mut draw = |cost: &PacketCost| cost.draw(work.packets, work.bytes, chance);
        let cost = match work.kind {
            WorkKind::Switch => model.switch.get(),
            WorkKind::Input if work.packets == 0 => model.poll.get(),
            WorkKind::Interrupt if work.packets == 0 => 0,
            WorkKind::Input => draw(&model.input),
            WorkKind::Interrupt => draw(&model.interrupt),
            WorkKind::Forwarding => match work.predicted {
                Some(cost) => cost.get(),
                None => {
                    let path = work.path.and_then(|path| paths.get(path.index())).unwrap_or(&model.forwarding);
                    forwarding(draw(path), work)
                }
            },
            WorkKind::Output => draw(&model.output),
        };
        // Without instructions nothing is drawn, so the random numbers of other worlds do not depend on them.
        let cost = match work.instructions {
            0 => cost,
            executed => cost + model.instruction.draw(executed, 0, chance),
        };
        let cost = match &mut self.pacer {
            Some(pacer) => pacer.spend(work, cost),
            None => cost,
        };
        self.spent.add(work, cost);
        self.now += cost;
        self.clock.store(self.now, Ordering::Relaxed);
        Nanos::new(cost)
    }

    fn predict(&mut self, work: Work) -> Option<Nanos> {
        let path = work.path.and_then(|path| self.paths.get(path.index())).unwrap_or(&self.model.forwarding);
        Some(Nanos::new(forwarding(path.draw(work.packets, work.bytes, &mut self.chance), work)))
    }
}

/// The time that the functions of a path take for `work`, of which `drawn` is drawn. Both this and the time that a function asks for are cut off just
/// above the limit of the path.
fn forwarding(drawn: u64, work: Work) -> u64 {
    let most = work.limit.map_or(u64::MAX, |limit| limit.get().saturating_add(1));
    drawn.saturating_add(work.extra_time.get()).min(most.saturating_mul(u64::from(work.packets.max(1))))
}

/// The same meter with byte counts, for costs that depend on bytes.
pub(crate) struct ByteCostMeter<'a>(pub &'a mut CostMeter);

impl WorkMeter for ByteCostMeter<'_> {
    const BYTES: bool = true;

    fn lap(&mut self, work: Work) -> Nanos {
        self.0.lap(work)
    }

    fn predict(&mut self, work: Work) -> Option<Nanos> {
        self.0.predict(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::PathId;

    #[test]
    fn costs_parse_and_print_alike() {
        for text in
            ["6us", "1us + 2ns/b", "uniform(1us, 3us)", "bimodal(1us, 30us, 5%) + 0.5ns/b", "pareto(1us, 1ms, 1.3)"]
        {
            assert_eq!(text.parse::<PacketCost>().unwrap().to_string(), text);
        }
        for text in
            ["", "6", "uniform(3us, 1us)", "bimodal(1us, 2us)", "pareto(0s, 1us, 1)", "gauss(1us, 2us)", "1us+1us"]
        {
            assert!(
                text.parse::<PacketCost>().unwrap_err().hint.contains('"') || text == "6" || text.is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn distributions_have_expected_mean_and_bounds() {
        let mut chance = RandomStream::new(3, "cost");
        for text in ["uniform(1us, 3us)", "bimodal(1us, 30us, 5%)", "pareto(1us, 1ms, 1.3)", "pareto(1us, 1ms, 1)"] {
            let cost: PacketCost = text.parse().unwrap();
            let draws: Vec<u64> = (0..300_000).map(|_| cost.draw(1, 0, &mut chance)).collect();
            assert!(draws.iter().all(|draw| (1000..=1_000_000).contains(draw)), "{text}");
            let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
            assert!((mean / cost.mean(0) - 1.0).abs() < 0.03, "{text}: {mean} {}", cost.mean(0));
        }
    }

    #[test]
    fn a_meter_charges_each_stage_and_moves_the_clock() {
        let clock = Arc::new(AtomicU64::new(0));
        let model = CostModel {
            switch: Nanos::new(7),
            poll: Nanos::new(3),
            input: "100ns + 1ns/b".parse().unwrap(),
            output: PacketCost::fixed(Nanos::new(10)),
            ..CostModel::default()
        };
        let mut meter = CostMeter::new(model, RandomStream::new(0, ""), clock.clone());
        meter.set_paths(vec![PacketCost::NOTHING, PacketCost::fixed(Nanos::new(50))]);
        assert!(meter.has_byte_costs());
        meter.begin(1000);
        let work = |stage, path, packets, bytes| Work {
            kind: stage,
            port: None,
            path,
            packets,
            bytes,
            instructions: 0,
            limit: None,
            extra_time: Nanos::ZERO,
            predicted: None,
        };
        assert_eq!(meter.lap(work(WorkKind::Input, None, 2, 120)), Nanos::new(320));
        assert_eq!(meter.lap(work(WorkKind::Input, None, 0, 0)), Nanos::new(3));
        assert_eq!(meter.lap(work(WorkKind::Forwarding, Some(PathId(1)), 3, 0)), Nanos::new(150));
        assert_eq!(meter.lap(work(WorkKind::Forwarding, Some(PathId(9)), 3, 0)), Nanos::ZERO);
        assert_eq!(clock.load(Ordering::Relaxed), 1473);
        assert_eq!(meter.end(), 1473);
        meter.begin(2000);
        meter.lap(Work::SWITCH);
        assert_eq!(meter.end(), 2007);
        assert_eq!((meter.spent.useful(), meter.spent.busy(), meter.spent.dispatches), (470, 480, 1));
    }
}
