//! The invariants of every scheme, for any options and any arrivals.

use crate::conformance::{Round, Rounds, SchemeInvariant, Trial};
use crate::model::Model;
use crate::{DECLARATIONS, Layer, Next, ORDERS, Progress, Record, Scheme, Wires, build};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use proptest::prelude::*;
use units::declare::{Declaration, Inside, OptionDeclaration, OrderDeclaration, Unit};
use units::{Instant, Nanos, QueueId};

/// Other architectures are emulated in continuous integration, where an instruction costs thirty times as much.
const CASES: u32 = if cfg!(target_arch = "x86_64") { 1000 } else { 50 };

fn record() -> impl Strategy<Value = Record> {
    (64u32..1515, 0u8..4, 0u32..4, 0u32..5, 0u8..4).prop_map(|(length, class, queue, flow, ecn)| {
        // 2^32 over the golden ratio: the hashes of a few flows spread over the whole range.
        let flow_hash = flow.wrapping_mul(0x9e37_79b9);
        // Several flows share a destination, and the code points 0, 11, 22, 33 and 44 select several tins.
        let (source, destination, dscp) = (flow_hash ^ flow_hash << 16, flow.min(1), flow as u8 * 11);
        Record { length, class, queue: QueueId(queue), flow_hash, source, destination, dscp, ecn, ..Record::default() }
    })
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    // None, up to a packet time, up to a usual queueing delay, and beyond the second after which a queue must accept a packet.
    let pause = prop_oneof![Just(0), 0u64..1_000_000, 0u64..50_000_000, 0u64..3_000_000_000];
    let round = (prop::collection::vec(record(), 0..24), pause, 0usize..24);
    let round = round.prop_map(|(packets, pause, room)| Round { packets, pause: Nanos::new(pause), room });
    prop::collection::vec(round, 1..60)
}

/// A value of an option: its default, its least, a small one, or any.
fn value(option: &OptionDeclaration) -> BoxedStrategy<u64> {
    let (least, most) = (option.least, option.most);
    let default = option.unit.read(option.default).expect("defaults are checked");
    // Few packets reach such a bound, so the rounds test it often.
    let small = least.saturating_add(20).min(most);
    // The memory of a test grows with the leaves.
    if option.name == "leaves" {
        return Just(4).boxed();
    }
    prop_oneof![3 => Just(default), 1 => Just(least), 2 => least..=small, 1 => least..=most].boxed()
}

/// Values for all options of a scheme.
fn options(declaration: &'static Declaration) -> impl Strategy<Value = Vec<(&'static str, u64)>> {
    let values: Vec<_> = declaration.options.iter().map(value).collect();
    values.prop_map(move |values| {
        let mut options: Vec<_> = declaration.options.iter().map(|o| o.name).zip(values).collect();
        for (place, option) in declaration.options.iter().enumerate() {
            // A configuration with `max` below `min` is refused before it is built.
            if let Unit::CountAbove(below) = option.unit {
                let least = options.iter().find(|(name, _)| *name == below).expect("it is declared").1;
                options[place].1 = options[place].1.max(least + 1);
            }
        }
        options
    })
}

/// A scheme with its options and the schemes inside.
#[derive(Clone, Debug)]
struct SchemeConfig {
    name: &'static str,
    options: Vec<(&'static str, u64)>,
    inside: Vec<SchemeConfig>,
}

impl SchemeConfig {
    fn build(&self) -> Box<dyn Scheme<Model>> {
        build(&self.layer()).expect("it is declared")
    }

    fn layer(&self) -> Layer<'_> {
        Layer { name: self.name, options: &self.options, inside: self.inside.iter().map(SchemeConfig::layer).collect() }
    }

    /// Its name and those inside, in the syntax of a configuration.
    fn text(&self) -> alloc::string::String {
        let inside: Vec<_> = self.inside.iter().map(SchemeConfig::text).collect();
        if inside.is_empty() { self.name.into() } else { alloc::format!("{}{{{}}}", self.name, inside.join(", ")) }
    }

    /// Sets every option of this name.
    fn set(&mut self, option: &str, value: u64) {
        self.options.iter_mut().filter(|(name, _)| *name == option).for_each(|(_, old)| *old = value);
        self.inside.iter_mut().for_each(|inside| inside.set(option, value));
    }

    /// True if it or a scheme inside has this name.
    fn has(&self, name: &str) -> bool {
        self.name == name || self.inside.iter().any(|inside| inside.has(name))
    }
}

fn alone() -> BoxedStrategy<SchemeConfig> {
    let one = |i: usize| {
        let declaration = &DECLARATIONS[i];
        options(declaration).prop_map(|options| SchemeConfig { name: declaration.name, options, inside: Vec::new() })
    };
    (0..DECLARATIONS.len()).prop_flat_map(one).boxed()
}

/// An order with schemes inside, `depth` levels deep.
fn ordered(order: &'static OrderDeclaration, depth: u32) -> BoxedStrategy<SchemeConfig> {
    let inside = match order.inner {
        Inside::Manager | Inside::Flows => prop::collection::vec(alone(), 1).boxed(),
        Inside::Any | Inside::Leaves => prop::collection::vec(any_scheme(depth - 1), 1).boxed(),
        // A branch is part of its tree and counts as no level.
        Inside::Branches(branch, _) => prop::collection::vec(ordered(branch, depth), 1..4).boxed(),
    };
    let built = |(options, inside)| SchemeConfig { name: order.declaration.name, options, inside };
    (options(&order.declaration), inside).prop_map(built).boxed()
}

/// Any scheme: one that manages a queue, or one that orders queues or contains other schemes.
fn any_scheme(depth: u32) -> BoxedStrategy<SchemeConfig> {
    if depth == 0 {
        return alone();
    }
    let inner: Vec<_> = ORDERS.iter().filter(|order| !order.is_outermost()).collect();
    let order = (0..inner.len()).prop_flat_map(move |i| ordered(inner[i], depth));
    prop_oneof![1 => alone(), 2 => order].boxed()
}

/// Any scheme of a port.
fn outermost() -> BoxedStrategy<SchemeConfig> {
    let whole: Vec<_> = ORDERS.iter().filter(|order| order.is_outermost()).collect();
    let whole = (0..whole.len()).prop_flat_map(move |i| ordered(whole[i], 2));
    prop_oneof![4 => any_scheme(3), 2 => whole].boxed()
}

fn declared(name: &str) -> &'static Declaration {
    let branch = |order: &'static OrderDeclaration| match order.inner {
        Inside::Branches(branch, _) => Some(&branch.declaration),
        Inside::Manager | Inside::Any | Inside::Leaves | Inside::Flows => None,
    };
    let all = ORDERS.iter().map(|order| &order.declaration).chain(DECLARATIONS).chain(ORDERS.iter().filter_map(branch));
    all.into_iter().find(|declaration| declaration.name == name).expect("it is declared")
}

/// The options that determine the number and kind of queues.
const STRUCTURE: &[&str] = &["flows", "levels", "by", "tins", "class", "drop", "leaves"];

/// The same scheme with other parameters.
fn retuned(built: SchemeConfig) -> BoxedStrategy<SchemeConfig> {
    let SchemeConfig { name, options: old, inside } = built;
    let inside: Vec<_> = inside.into_iter().map(retuned).collect();
    let keep = move |mut options: Vec<(&'static str, u64)>| {
        for (option, old) in options.iter_mut().zip(&old).filter(|(option, _)| STRUCTURE.contains(&option.0)) {
            *option = *old;
        }
        options
    };
    (options(declared(name)), inside)
        .prop_map(move |(options, inside)| SchemeConfig { name, options: keep(options), inside })
        .boxed()
}

/// The fates of all packets, and the state that the scheme reports after each round.
fn run_rounds(
    vectors: bool,
    built: &SchemeConfig,
    capacity: usize,
    rounds: &[Round],
) -> impl PartialEq + core::fmt::Debug + use<> {
    let mut scheme = built.build();
    let mut model = Model::with_queues(1);
    (model.vectors, model.capacity) = (vectors, capacity);
    let mut told = Vec::new();
    for Round { packets, pause, room } in rounds {
        model.arrive_all(&mut *scheme, packets.iter().copied());
        model.ready(&mut *scheme, *room);
        let waiting = model.size(QueueId(0));
        scheme.state(QueueId(0), model.now, waiting, &mut |name, value| told.push((name, value.to_bits())));
        model.now += *pause;
    }
    (model.fates, model.marked, told)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn every_scheme_satisfies_invariants(scheme in outermost(), rounds in rounds()) {
        let mut trial = Trial::new(scheme.build());
        rounds.iter().for_each(|round| trial.round(round));
        trial.end();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// A change of parameters while packets wait loses no packet, reorders none and leaves none behind.
    #[test]
    fn tuned_scheme_satisfies_invariants(
        (scheme, other) in outermost().prop_flat_map(|built| (Just(built.clone()), retuned(built))),
        (before, after) in (rounds(), rounds()),
    ) {
        let mut trial = Trial::new(scheme.build());
        before.iter().for_each(|round| trial.round(round));
        // CHOKe cannot change its limit: it remembers as many packets as that.
        let tuned = trial.tune(&*other.build());
        prop_assert!(tuned || scheme.has("choke"), "{scheme:?} takes the parameters of {other:?}");
        if tuned {
            trial.check_conservation();
            after.iter().for_each(|round| trial.round(round));
            trial.end();
        }
    }
}

#[test]
fn tune_refuses_other_kind_or_other_queues() {
    let of = |name: &str, inside: &[&str]| {
        let inside = inside.iter().map(|name| defaults(declared(name), Vec::new())).collect();
        defaults(declared(name), inside)
    };
    let all = [
        of("fifo", &[]),
        of("codel", &[]),
        of("red", &[]),
        of("fq", &["codel"]),
        of("fq", &["red"]),
        of("drr", &["codel"]),
        of("wf2q", &["codel"]),
        of("shape", &["codel"]),
        of("shape", &["fifo"]),
        of("cake", &["codel"]),
        of("priority", &["fifo"]),
    ];
    for (i, one) in all.iter().enumerate() {
        for (j, other) in all.iter().enumerate() {
            assert_eq!(Trial::new(one.build()).tune(&*other.build()), i == j, "{one:?} and {other:?}");
        }
    }
    let mut fewer = of("fq", &["codel"]);
    fewer.options.iter_mut().filter(|(name, _)| *name == "flows").for_each(|(_, flows)| *flows = 16);
    assert!(!Trial::new(of("fq", &["codel"]).build()).tune(&*fewer.build()));
}

/// A scheme with default options and `inside`.
fn defaults(declaration: &'static Declaration, inside: Vec<SchemeConfig>) -> SchemeConfig {
    let default = |o: &OptionDeclaration| (o.name, o.unit.read(o.default).unwrap());
    let options: Vec<_> = declaration.options.iter().map(default).collect();
    assert!(options.iter().zip(declaration.options).all(|((_, v), o)| (o.least..=o.most).contains(v)));
    SchemeConfig { name: declaration.name, options, inside }
}

fn is_built(built: &SchemeConfig) -> bool {
    build::<Model>(&built.layer()).is_ok()
}

#[test]
fn every_declared_scheme_builds_with_its_defaults() {
    for declaration in DECLARATIONS {
        let alone = defaults(declaration, Vec::new());
        assert!(is_built(&alone));
        assert!(!is_built(&SchemeConfig { options: Vec::new(), ..alone.clone() }));
        for order in ORDERS {
            let inside = match order.inner {
                Inside::Manager | Inside::Any | Inside::Leaves | Inside::Flows => alone.clone(),
                Inside::Branches(branch, _) => defaults(&branch.declaration, Vec::from([alone.clone()])),
            };
            let whole = defaults(&order.declaration, Vec::from([inside]));
            assert!(is_built(&whole), "{whole:?}");
            assert!(whole.options.is_empty() || !is_built(&SchemeConfig { options: Vec::new(), ..whole.clone() }));
            assert!(!is_built(&SchemeConfig { inside: Vec::new(), ..whole.clone() }), "nothing manages its queues");
            let twice = defaults(&order.declaration, Vec::from([whole.clone()]));
            // Only these contain another order directly. The rest contain a manager, or branches.
            assert_eq!(is_built(&twice), matches!(order.inner, Inside::Any), "{twice:?}");
        }
    }
    assert!(build::<Model>(&Layer::default()).is_err());
    assert!(build::<Model>(&Layer { name: "none", ..Layer::default() }).is_err());
    let is_one = |order: &OrderDeclaration| match order.inner {
        Inside::Manager | Inside::Any | Inside::Flows => DECLARATIONS.iter().any(|scheme| scheme.name == order.usual),
        // With options, so that many leaves fit a link: a test of the configuration parses it.
        Inside::Leaves => order.usual.starts_with("fq("),
        Inside::Branches(branch, _) => branch.declaration.name == order.usual,
    };
    assert!(ORDERS.iter().all(is_one));
}

#[test]
fn declared_names_are_unique_and_have_summary_and_source() {
    let all = || ORDERS.iter().map(|order| &order.declaration).chain(DECLARATIONS);
    let names: BTreeSet<&str> = all().map(|declaration| declaration.name).collect();
    assert_eq!(names.len(), all().count());
    for declaration in all() {
        assert!(!declaration.source.is_empty() && !declaration.summary.is_empty(), "{}", declaration.name);
        assert!(declaration.options.iter().all(|option| !option.doc.is_empty()), "{}", declaration.name);
    }
}

mod overload;

/// A FIFO that breaks one law.
struct ViolatingScheme(SchemeInvariant, u32);

impl Scheme<Model> for ViolatingScheme {
    fn arrival(&mut self, wires: &mut Model) {
        let idle = wires.waiting() == 0;
        while wires.arriving().is_some() {
            // Packets in alternate queues overtake each other, which breaks `Order`.
            self.1 ^= 1;
            if self.0 == SchemeInvariant::IdleBypass && idle {
                wires.mark();
            }
            if self.0 != SchemeInvariant::Admission || !idle || wires.now() == Instant::START {
                wires.enqueue(QueueId(if self.0 == SchemeInvariant::Order { self.1 } else { 0 }));
            }
        }
    }

    fn link_ready(&mut self, wires: &mut Model) -> Progress {
        let queue = QueueId(u32::from(wires.size(QueueId(1)).packets > 0));
        if self.0 == SchemeInvariant::WorkConservation || wires.dequeue(queue).is_none() {
            return Progress::None;
        }
        wires.transmit();
        if self.0 == SchemeInvariant::OneAtATime {
            wires.drop_front(queue);
        }
        Progress::Made
    }

    fn next(&self, wires: &Model) -> Next {
        if self.0 == SchemeInvariant::NextEvaluation || wires.waiting() == 0 { Next::Idle } else { Next::Ready }
    }

    fn passes_when_idle(&self) -> bool {
        self.0 == SchemeInvariant::IdleBypass
    }

    fn queues(&self) -> u32 {
        2
    }
}

#[test]
fn scheme_test_reports_violated_invariant() {
    for law in [
        SchemeInvariant::OneAtATime,
        SchemeInvariant::WorkConservation,
        SchemeInvariant::NextEvaluation,
        SchemeInvariant::Order,
        SchemeInvariant::IdleBypass,
        SchemeInvariant::Admission,
    ] {
        let mut trial = Trial::new(Box::new(ViolatingScheme(law, 0)));
        let broken = Rounds::seeded(7, 2000).find_map(|round| trial.try_round(&round).err());
        let broken = broken.or_else(|| trial.try_end().err()).expect("it breaks a law");
        assert_eq!(broken.invariant, law, "{broken}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// Wires that move several packets at once change the fate of none.
    #[test]
    fn batch_wires_do_not_change_any_fate(
        scheme in alone(),
        capacity in prop_oneof![Just(usize::MAX), 5usize..50],
        rounds in rounds(),
    ) {
        prop_assert_eq!(run_rounds(true, &scheme, capacity, &rounds), run_rounds(false, &scheme, capacity, &rounds));
    }
}
