//! The first matching rule of a list: the cost of a look-up for lists of 10 to 10^5 rules, memory, changes, and large named sets.
//!
//! Packets are looked up as the router does it: 256 at once, with keys of all fields that a match may name, made just before. Making the keys is a
//! figure of its own.
//!
//! Short pieces of work are timed, and each piece is the median over the rounds: so a figure has no time in which another process had the core.

mod flows;
pub(super) mod lists;
mod tenants;

use super::components::{random_prefixes, sequence};
use super::writer::{beside_changes, timed};
use super::{BenchFigure, Rounds, median};
use classifier::{
    Key, PacketKeys, PacketRule, PacketRules, Published, PublishedReader, RuleResult, Set, SetEdit, SetElement, Sets,
    TernaryRule,
};
use io::clock::CycleCounter;
use lists::{Packet, Rule, RuleList, bits, generated, lists, packets};
use packet::BATCH;
use plan::{MatchFields, SetKind, SetValue};
use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use units::{Instant, InterfaceId, VrfId};

/// Packets of a measurement: so many that those of a large list are not in a cache by repetition.
const PACKETS: usize = 1 << 18;
/// Packets that are looked up in a plain list, which takes longer.
const LIST_PACKETS: usize = 1 << 14;
/// Changes of which the mean and the slowest are reported: a removed rule and the same rule added are two.
const CHANGES: usize = 1 << 12;
/// Changes that are published together.
const BATCH_OF_CHANGES: usize = 10_000;
/// Changes a second beside look-ups.
const RATE: u64 = 10_000;
/// The largest number of bytes that a rule may use, where there are many.
const MOST_BYTES: f64 = 400.0;
/// The longest time that one change and its publication may take, in microseconds.
const LONGEST_CHANGE: f64 = 1000.0;

/// Numbers of rules, how they are written, and the budget for a look-up in nanoseconds.
const SIZES: [(usize, &str, f64); 4] =
    [(10, "10", 10.0), (1_000, "10^3", 40.0), (10_000, "10^4", 80.0), (100_000, "10^5", 150.0)];
const LARGEST: usize = 100_000;

/// Look-ups in lists of all sizes, changes of the largest, a named set, and filters of tenants.
pub fn measure(rounds: Rounds) -> Vec<BenchFigure> {
    lists::report_missing_lists();
    let mut figures = Vec::new();
    for (size, label, budget) in SIZES {
        let mut worst = 0.0f64;
        for list in lists(size) {
            let name = format!("{label} rules, {}", list.name);
            let subject = Subject::new(&list);
            let cost = subject.look_up(rounds, &subject.packets);
            worst = worst.max(cost);
            figures.push(figure(format!("{name}: look-up"), cost, "ns/packet", Some(budget)));
            if size <= 1_000 {
                figures.push(subject.against_list(rounds, &name));
            }
            if size >= 1_000 {
                let bytes = subject.table.bytes() as f64 / list.rules.len() as f64;
                figures.push(figure(format!("{name}: memory"), bytes, "bytes/rule", Some(MOST_BYTES)));
                figures.push(figure(format!("{name}: built"), subject.built * 1e3, "ms", None));
            }
            if size == 1_000 || size == 10_000 {
                figures.extend(flows::measure(rounds, &list));
            }
            if size == LARGEST {
                figures.extend(subject.changes(rounds, &name));
                figures.extend(subject.beside_changes(rounds, &name));
            }
        }
        figures.push(figure(format!("{label} rules, the slowest list: look-up"), worst, "ns/packet", Some(budget)));
    }
    figures.push(keys_made(rounds));
    figures.push(named_set(rounds));
    figures.extend(tenants::measure(rounds));
    figures
}

fn figure(name: String, value: f64, unit: &'static str, budget: Option<f64>) -> BenchFigure {
    BenchFigure::alone("rules", name, value, unit, budget)
}

/// A list of rules as the router has it, and packets to look up.
struct Subject<'a> {
    rules: &'a [Rule],
    matches: Vec<plan::Match>,
    table: PacketRules,
    /// The seconds that building the table took.
    built: f64,
    packets: Vec<Packet>,
}

fn packet_rule(number: usize, matching: &plan::Match) -> PacketRule<'_> {
    let result = RuleResult { action: number as u32, ..RuleResult::default() };
    PacketRule { matching, interface: None, vrf: None, rank: number as u32, result }
}

fn make_keys(keys: &mut PacketKeys, packets: &[Packet]) {
    keys.clear();
    for (position, (fields, _)) in packets.iter().enumerate() {
        keys.push(position, fields, InterfaceId(1), VrfId::MAIN);
    }
}

/// Nanoseconds an item that `work` takes for batches of `items`. `prepare` is called before each, outside of the measured time.
fn cost_of_batches<T, S>(
    Rounds(rounds): Rounds,
    items: &[T],
    state: &mut S,
    prepare: impl Fn(&mut S, &[T]),
    work: impl Fn(&mut S),
) -> f64 {
    let counter = CycleCounter::calibrated();
    let mut times = vec![Vec::new(); items.len().div_ceil(BATCH)];
    for _ in 0..=rounds {
        for (batch, times) in items.chunks(BATCH).zip(&mut times) {
            prepare(state, batch);
            times.push(timed(&counter, || work(state)).0);
        }
    }
    // The first round fills the caches.
    times.into_iter().map(|times| median(times[1..].to_vec())).sum::<f64>() * 1e9 / items.len() as f64
}

/// Looks up a batch of packets, of which all have a rule.
fn numbers(table: &PacketRules, keys: &mut PacketKeys) -> [u32; BATCH] {
    // The rules name no sets.
    static NO_SETS: LazyLock<Sets> = LazyLock::new(Sets::default);
    let mut numbers = [u32::MAX; BATCH];
    table.look_up(keys, &NO_SETS, |position, result| numbers[position] = result.action);
    numbers
}

impl<'a> Subject<'a> {
    fn new(list: &'a RuleList) -> Self {
        let rules = &list.rules;
        let matches: Vec<plan::Match> = rules.iter().map(Rule::matching).collect();
        let (built, table) = timed(&CycleCounter::calibrated(), || {
            let rules = matches.iter().enumerate().map(|(number, matching)| packet_rule(number, matching));
            PacketRules::build(rules, |_, _| None).expect("the rules have no lists and no sets")
        });
        let packets = packets(rules, PACKETS);
        let mut keys = PacketKeys::default();
        for batch in packets.chunks(BATCH) {
            make_keys(&mut keys, batch);
            let found = numbers(&table, &mut keys);
            let right = batch.iter().zip(found).all(|((_, number), found)| found <= *number);
            assert!(right, "{}: a packet did not find its rule, nor an earlier one", list.name);
        }
        Subject { rules, matches, table, built, packets }
    }

    /// Nanoseconds a packet.
    fn look_up(&self, rounds: Rounds, packets: &[Packet]) -> f64 {
        let look_up = |keys: &mut PacketKeys| _ = black_box(numbers(&self.table, keys));
        cost_of_batches(rounds, packets, &mut PacketKeys::default(), make_keys, look_up)
    }

    /// Look-ups beside those in a plain list of the same rules, one after the other.
    fn against_list(&self, rounds: Rounds, name: &str) -> BenchFigure {
        let list: Vec<TernaryRule<3>> =
            self.rules.iter().zip(0..).map(|(rule, number)| narrow_rule(rule, number)).collect();
        let find = |keys: &[Key<3>]| {
            let mut numbers = [u32::MAX; BATCH];
            for (number, key) in numbers.iter_mut().zip(keys) {
                *number = list.iter().find(|rule| rule.matches(key)).map_or(u32::MAX, |rule| rule.rank);
            }
            numbers
        };
        let narrow_keys = |keys: &mut Vec<Key<3>>, packets: &[Packet]| {
            keys.clear();
            keys.extend(packets.iter().map(|(fields, _)| narrow_key(fields)));
        };
        let packets = &self.packets[..LIST_PACKETS];
        let (mut keys, mut narrow) = (PacketKeys::default(), Vec::new());
        for batch in packets.chunks(BATCH) {
            make_keys(&mut keys, batch);
            narrow_keys(&mut narrow, batch);
            assert_eq!(numbers(&self.table, &mut keys), find(&narrow), "{name}: the table and the list agree");
        }
        let linear = cost_of_batches(rounds, packets, &mut narrow, narrow_keys, |keys| _ = black_box(find(keys)));
        let cost = self.look_up(rounds, packets);
        let name = format!("{name}: look-up of {LIST_PACKETS} packets, against a list");
        BenchFigure::against("rules", name, (cost, linear, cost / linear), "ns/packet", None)
    }

    /// One change and its publication, and many changes published together.
    fn changes(&self, Rounds(rounds): Rounds, name: &str) -> [BenchFigure; 3] {
        let counter = CycleCounter::calibrated();
        let mut times = vec![Vec::new(); CHANGES];
        let mut together = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let published = Published::new(self.table.clone());
            // The same changes in each round.
            let mut flips = self.flips();
            for times in &mut times {
                times.push(timed(&counter, || self.publish_change(&published, &mut flips)).0 * 1e6);
            }
            let (took, ()) = timed(&counter, || {
                let mut table = PacketRules::clone(&published.latest());
                (0..BATCH_OF_CHANGES).for_each(|_| self.change(&mut table, &mut flips));
                published.publish(table);
            });
            together.push(took * 1e3);
        }
        let times: Vec<f64> = times.into_iter().map(median).collect();
        let one = |what, value| figure(format!("{name}: one change, {what}"), value, "us", Some(LONGEST_CHANGE));
        [
            one("mean", times.iter().sum::<f64>() / CHANGES as f64),
            one("the slowest of 4096", times.iter().copied().fold(0.0, f64::max)),
            figure(format!("{name}: 10^4 changes published together"), median(together), "ms", None),
        ]
    }

    /// Random rules, each to be removed and then to be added.
    fn flips(&self) -> impl Iterator<Item = (usize, bool)> + Send + use<'a> {
        let count = self.rules.len();
        let number = move |random: u64| (random >> 16) as usize % count;
        sequence(77).map(number).flat_map(|number| [(number, false), (number, true)])
    }

    fn change(&self, table: &mut PacketRules, flips: &mut impl Iterator<Item = (usize, bool)>) {
        let Some((number, add)) = flips.next() else { return };
        let rule = packet_rule(number, &self.matches[number]);
        if add {
            table.insert(&rule, |_, _| None).expect("the table had it before");
        } else {
            assert!(table.remove(&rule, |_, _| None), "the table has all rules");
        }
    }

    fn publish_change(&self, published: &Published<PacketRules>, flips: &mut impl Iterator<Item = (usize, bool)>) {
        let mut table = PacketRules::clone(&published.latest());
        self.change(&mut table, flips);
        published.publish(table);
    }

    /// Look-ups while another thread changes rules.
    fn beside_changes(&self, rounds: Rounds, name: &str) -> [BenchFigure; 2] {
        let published = Arc::new(Published::new(self.table.clone()));
        let mut reader = PublishedReader::new(&published);
        let mut flips = self.flips();
        let mut keys = PacketKeys::default();
        let counter = CycleCounter::calibrated();
        let work = || {
            let look_up = |batch| {
                make_keys(&mut keys, batch);
                timed(&counter, || _ = black_box(numbers(reader.refresh(), &mut keys))).0
            };
            let times: Vec<f64> = self.packets.chunks(BATCH).map(look_up).collect();
            // In batches that take many times as long, another process had the core.
            let most = median(times.clone()) * 5.0;
            let undisturbed = || times.iter().filter(|time| **time < most);
            undisturbed().sum::<f64>() * 1e9 / (undisturbed().count() * BATCH) as f64
        };
        // A pass takes some tens of milliseconds, too short for one to be undisturbed by other processes: the median is of more passes.
        let rounds = if rounds.0 == 1 { rounds } else { Rounds(rounds.0 * 4) };
        let measured = beside_changes(rounds, (RATE, 1), || self.publish_change(&published, &mut flips), work);
        let unit = "ns/packet";
        [
            BenchFigure::against(
                "rules",
                format!("{name}: look-up beside changes, against without"),
                measured.costs,
                unit,
                Some(1.10),
            ),
            figure(format!("{name}: changes beside look-ups"), measured.rate, "changes/s", None),
        ]
    }
}

/// Bits of the second word of [`narrow_key`].
const HAS_PORTS: u64 = 1 << 16;
const HAS_FLAGS: u64 = 1 << 17;

/// A rule with the fields of these lists alone: the shortest that a plain list can compare.
fn narrow_rule(rule: &Rule, number: u32) -> TernaryRule<3> {
    let mask = |length: u8| u64::from(u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0));
    let (source, destination) = (rule.source, rule.destination);
    let (flags, of) = (u64::from(rule.flags.0) << 8, u64::from(rule.flags.1) << 8);
    let mut narrow = TernaryRule::any(number, RuleResult::default())
        .bits(
            0,
            u64::from(bits(source)) << 32 | u64::from(bits(destination)),
            mask(source.length) << 32 | mask(destination.length),
        )
        .lane(0, rule.sport.clone())
        .lane(1, rule.dport.clone());
    if let Some(protocol) = rule.protocol {
        narrow = narrow.bits(1, protocol.into(), 0xff);
    }
    if of != 0 {
        narrow = narrow.bits(1, flags | HAS_FLAGS, of | HAS_FLAGS);
    }
    if rule.needs_ports() { narrow.bits(1, HAS_PORTS, HAS_PORTS) } else { narrow }
}

/// The key of a packet for [`narrow_rule`].
fn narrow_key(fields: &MatchFields) -> Key<3> {
    let address = |address| match address {
        std::net::IpAddr::V4(address) => u64::from(address.to_bits()),
        std::net::IpAddr::V6(_) => unreachable!("all packets are of IPv4"),
    };
    let flags = fields.tcp_flags.map_or(0, |flags| u64::from(flags) << 8 | HAS_FLAGS);
    let (sport, dport) = fields.sport.zip(fields.dport).unwrap_or_default();
    let has_ports = if fields.sport.is_some() { HAS_PORTS } else { 0 };
    Key([
        address(fields.source) << 32 | address(fields.destination),
        u64::from(fields.protocol) | flags | has_ports,
        u64::from(sport) | u64::from(dport) << 16,
    ])
}

/// The keys of a batch, from the fields of the packets. Look-ups are measured without.
fn keys_made(rounds: Rounds) -> BenchFigure {
    let list = lists(10).pop().expect("generated rules are always there");
    let packets = packets(&list.rules, PACKETS);
    let mut state = (PacketKeys::default(), Vec::with_capacity(BATCH));
    let prepare = |(_, fresh): &mut (PacketKeys, Vec<Packet>), batch: &[Packet]| {
        fresh.clear();
        fresh.extend_from_slice(batch);
    };
    let cost = cost_of_batches(rounds, &packets, &mut state, prepare, |(keys, fresh)| {
        make_keys(keys, fresh);
        black_box(&keys);
    });
    figure("key of a packet, made from its fields".to_owned(), cost, "ns/packet", None)
}

/// The addresses of 256 packets in a set of a million prefixes, half of them inside.
fn named_set(rounds: Rounds) -> BenchFigure {
    let prefixes: Vec<plan::Prefix> = random_prefixes(1_000_000).map(|(prefix, _)| prefix).collect();
    let add = |prefix: &plan::Prefix| {
        SetEdit::Add(SetElement { value: SetValue::Addresses(*prefix), expires: Instant::NEVER })
    };
    let empty = Set::new(SetKind::Address, prefixes.len());
    let (set, _) = empty.edited(prefixes.iter().map(add)).expect("all are addresses");
    let address = |(i, random): (usize, u64)| {
        if i % 2 == 0 { (random >> 32) as u32 } else { bits(prefixes[(random >> 16) as usize % prefixes.len()]) }
    };
    let addresses: Vec<u32> = sequence(3).take(PACKETS).enumerate().map(address).collect();
    let prepare = |state: &mut Vec<u32>, batch: &[u32]| {
        state.clear();
        state.extend_from_slice(batch);
    };
    let cost = cost_of_batches(rounds, &addresses, &mut Vec::with_capacity(BATCH), prepare, |addresses| {
        let mut marks = [0; BATCH];
        set.mark4(addresses, &mut marks[..addresses.len()], 1);
        black_box(marks);
    });
    figure("named set of 10^6 prefixes: look-up of an address".to_owned(), cost, "ns/packet", Some(30.0))
}
