//! A function that only spends time: work of a known cost, to try schedulers with (Qie et al. 2001, section 4).
//!
//! It requests a time for each packet. The worker's meter spends it, in virtual time by adding it, and on a real processor by waiting for the
//! cycle counter. The costs of packets may vary: evenly around the mean, or with a few that are far more expensive, like functions whose work
//! depends on the data (spec Q-53).

use super::{Context, Function, FunctionRegistration};
use packet::{DropReason, Packet};
use plan::Call;
use units::Nanos;
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};

pub(super) const REGISTRATION: FunctionRegistration =
    FunctionRegistration { declaration: Spin::DECLARATION, make: |call, _| Box::new(Spin::of(call)) };

/// The function `spin`.
#[derive(Clone, Debug)]
pub struct Spin {
    cost: u64,
    kilobyte: u64,
    /// The maximum deviation of a packet's cost from `cost`, in millionths of it.
    spread: u64,
    /// The share of packets that cost `rare_cost` instead, in millionths.
    rare: u64,
    rare_cost: u64,
    /// The state of the random numbers, the same in every run with the same seed.
    state: u64,
}

/// The maximum cost of a packet: an hour, which simulates a function that does not return. Costs above 10 ms are only for preemptible paths,
/// because otherwise the watchdog considers the worker stuck.
const LONGEST: u64 = 3_600_000_000_000;
/// The maximum cost of 1000 bytes.
const LONGEST_KILOBYTE: u64 = 10_000_000;

const fn option(
    name: &'static str,
    unit: Unit,
    default: &'static str,
    most: u64,
    doc: &'static str,
) -> OptionDeclaration {
    OptionDeclaration { name, unit, default, least: 0, most, doc }
}

impl Spin {
    /// Its declaration.
    pub const DECLARATION: Declaration = Declaration {
        name: "spin",
        summary: "use processor time without effect, to test schedulers",
        cost: DeclaredCost::Declared(mean),
        source: "",
        options: &[
            option("cost", Unit::Time, "1us", LONGEST, "The cost of a packet."),
            option("kilobyte", Unit::Time, "0ns", LONGEST_KILOBYTE, "The additional cost of each 1000 bytes."),
            option(
                "spread",
                Unit::Part,
                "0%",
                1_000_000,
                "The largest deviation from `cost`, uniformly distributed in both directions.",
            ),
            option(
                "rare",
                Unit::Part,
                "0%",
                1_000_000,
                "The fraction of packets that cost `rare_cost` instead of `cost`.",
            ),
            option("rare_cost", Unit::Time, "0ns", LONGEST, "The cost of those packets."),
            option("seed", Unit::Count, "1", u64::MAX, "The seed of the random choices."),
        ],
    };

    /// Builds the function from `call`.
    pub fn of(call: &Call) -> Spin {
        let of = |name| call.option(name).unwrap_or(0);
        Spin {
            cost: of("cost"),
            kilobyte: of("kilobyte"),
            spread: of("spread"),
            rare: of("rare"),
            rare_cost: of("rare_cost"),
            state: of("seed"),
        }
    }

    /// The cost of a packet of this length, in nanoseconds.
    #[inline]
    fn draw(&mut self, bytes: u64) -> u64 {
        let mut cost = self.cost;
        if self.rare > 0 && self.below(1_000_000) < self.rare {
            cost = self.rare_cost;
        } else if self.spread > 0 {
            // No overflow: an hour in nanoseconds times a million is below 2^62.
            let reach = cost * self.spread / 1_000_000;
            // Both ends are possible, hence one more than twice the reach.
            cost = cost - reach + self.below(2 * reach + 1);
        }
        cost + self.kilobyte * bytes / 1000
    }

    /// A random number below `bound`: the high bits of a product (Lemire 2019) with the next number of SplitMix64 (Steele, Lea, Flood 2014).
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ z >> 31) * u128::from(bound)) >> 64) as u64
    }
}

/// The mean cost of a packet, and of each 1000 bytes.
fn mean(options: &[(&'static str, u64)]) -> (Nanos, Nanos) {
    let of = |name: &str| options.iter().find(|(option, _)| *option == name).map_or(0, |(_, value)| *value);
    let (often, rare) = (1_000_000 - of("rare"), of("rare"));
    // No overflow, as in `draw`: the two shares add up to a million. The spread is even, so it leaves the mean alone.
    (Nanos::new((of("cost") * often + of("rare_cost") * rare) / 1_000_000), Nanos::new(of("kilobyte")))
}

impl Function for Spin {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        let (mut all, mut asked) = (true, 0);
        let most = context.limit.map_or(u64::MAX, Nanos::get);
        for packet in packets {
            if packet.meta().refused | packet.meta().exception != 0 {
                all = false;
                continue;
            }
            let cost = self.draw(packet.len() as u64);
            if cost > most {
                // Stops when the limit is reached, like a function whose time is supervised (spec Q-41).
                packet.meta_mut().refused = DropReason::CpuLimit.index() as u8 + 1;
                all = false;
            }
            asked += cost.min(most);
        }
        context.extra_time.set(context.extra_time.get() + Nanos::new(asked));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Functions;
    use crate::snapshot::Snapshot;
    use fib::Tables;
    use packet::{Pool, Region};
    use plan::admission::CostSource;
    use std::cell::Cell;
    use std::sync::Arc;
    use units::Instant;

    fn call(text: &str) -> Call {
        Call::parse(text, &Functions::default().declarations(), "function").unwrap()
    }

    /// The cost of each of `count` packets of `length` bytes, and whether it was stopped.
    fn run(text: &str, (count, length): (usize, usize), limit: Option<Nanos>) -> Vec<(u64, bool)> {
        let (tables, snapshot, mut pool) = (Arc::new(Tables::new()), Snapshot::empty(), Pool::new(Region::new(2)));
        let mut spin = Spin::of(&call(text));
        let mut taken = Vec::new();
        for _ in 0..count {
            let mut packet = pool.take().unwrap();
            assert!(packet.fill(&vec![0; length]));
            let asked = Cell::default();
            let context = Context {
                now: Instant::START,
                snapshot: &snapshot,
                tables: &tables,
                nat: &snapshot.translations,
                limit,
                dry_run: false,
                extra_time: &asked,
            };
            let all = spin.process(context, std::slice::from_mut(&mut packet));
            assert_eq!(all, packet.meta().refused == 0);
            taken.push((asked.get().get(), !all));
            pool.give(packet);
        }
        taken
    }

    #[test]
    fn spin_cost_is_as_configured_and_grows_with_packet_length() {
        assert_eq!(run("spin(cost=6us)", (2, 64), None), [(6000, false); 2]);
        assert_eq!(run("spin(cost=1us,kilobyte=2us)", (1, 1500), None), [(4000, false)]);
        assert_eq!(run("spin", (1, 64), None), [(1000, false)]);
    }

    #[test]
    fn spin_stops_at_the_limit_of_its_path() {
        assert_eq!(run("spin(cost=6us)", (1, 64), Some(Nanos::micros(5))), [(5000, true)]);
        assert_eq!(run("spin(cost=5us)", (1, 64), Some(Nanos::micros(5))), [(5000, false)]);
    }

    #[test]
    fn random_costs_stay_in_bounds_and_have_the_declared_mean() {
        for (text, bounds) in [
            ("spin(cost=10us,spread=50%)", 5_000..=15_000),
            ("spin(cost=1us,rare=5%,rare_cost=30us)", 1_000..=30_000),
            ("spin(cost=2us,spread=100%,rare=1%,rare_cost=9us,seed=7)", 0..=9_000),
        ] {
            let taken = run(text, (50_000, 64), None);
            assert!(taken.iter().all(|(cost, _)| bounds.contains(cost)), "{text}");
            let mean = taken.iter().map(|(cost, _)| *cost).sum::<u64>() as f64 / taken.len() as f64;
            let figure = call(text).cost;
            assert_eq!(figure.source, CostSource::Declared);
            let declared = figure.cost.packet.get() as f64;
            assert!((mean / declared - 1.0).abs() < 0.05, "{text}: {mean} {declared}");
            assert_eq!(taken, run(text, (50_000, 64), None), "the same in every run");
        }
    }
}
