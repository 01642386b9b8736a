//! Recovery from overload. After any load, a queue that was empty for a second accepts a packet, and nearly all packets of a light load are sent.
//! Tested for every nesting of schemes.

use super::{SchemeConfig, declared, defaults, outermost, retuned};
use crate::conformance::{self, InvariantViolation, Load, Trial};
use crate::model::ModelFate;
use crate::{DECLARATIONS, ORDERS};
use alloc::vec::Vec;
use proptest::prelude::*;
use units::Nanos;
use units::declare::{Inside, OrderDeclaration};

/// Overloads in thousandths of the link rate, and milliseconds: a slight one for long, a flood, and for BLUE one that lasts until it drops nearly
/// all.
const OVERLOADS: &[(u64, u64)] = &[(1_500, 1_000), (4_000, 100), (40_000, 100)];
const LONG: (u64, u64) = (3_000, 6_000);
/// A scheme with its defaults, but few queues: a thousand need a thousand times the memory and test nothing else.
fn usual(name: &'static str, inside: Vec<SchemeConfig>) -> SchemeConfig {
    let mut built = defaults(declared(name), inside);
    let few = |(name, value): &mut (&str, u64)| {
        *value = match *name {
            "flows" => 16,
            "leaves" => 4,
            _ => *value,
        };
    };
    built.options.iter_mut().for_each(few);
    built
}

/// `inside` in several branches, one for each class.
fn branches(branch: &OrderDeclaration, inside: &SchemeConfig) -> Vec<SchemeConfig> {
    let of = |class: u64| {
        let mut built = usual(branch.declaration.name, Vec::from([inside.clone()]));
        built.options.iter_mut().filter(|(name, _)| *name == "class").for_each(|(_, value)| *value = class);
        built
    };
    (0..3).map(of).collect()
}

/// Every nesting of up to `depth` schemes: each order with each scheme that it may have inside.
fn nestings(depth: usize, outermost: bool) -> Vec<SchemeConfig> {
    let alone: Vec<SchemeConfig> = DECLARATIONS.iter().map(|declaration| usual(declaration.name, Vec::new())).collect();
    if depth <= 1 {
        return alone;
    }
    let deeper = nestings(depth - 1, false);
    let around = |order: &'static OrderDeclaration| {
        let of = |inside: &SchemeConfig| match order.inner {
            Inside::Manager | Inside::Any | Inside::Leaves | Inside::Flows => {
                usual(order.declaration.name, Vec::from([inside.clone()]))
            }
            Inside::Branches(branch, _) => usual(order.declaration.name, branches(branch, inside)),
        };
        let managed = matches!(order.inner, Inside::Manager | Inside::Flows);
        if managed { alone.iter().map(of).collect::<Vec<_>>() } else { deeper.iter().map(of).collect() }
    };
    let orders = ORDERS.iter().filter(|order| outermost || !order.is_outermost());
    alone.iter().cloned().chain(orders.flat_map(around)).collect()
}

/// Like [`Trial::try_overload`].
fn recovers(built: &SchemeConfig, (load, millis): (u64, u64)) -> Result<(), InvariantViolation> {
    let mut trial = Trial::new(built.build());
    trial.try_overload(Load(load), Nanos::millis(millis))?;
    trial.try_end()
}

#[test]
fn every_nesting_recovers_from_overload() {
    let nestings = nestings(3, true);
    assert!(nestings.len() > 200, "{}", nestings.len());
    let mut broken = Vec::new();
    for built in &nestings {
        // BLUE rises by 2 % in each 100 ms: it needs five seconds to drop nearly all packets.
        let long = built.has("blue").then_some(&LONG);
        for overload in OVERLOADS.iter().chain(long) {
            broken.extend(
                recovers(built, *overload).err().map(|how| alloc::format!("{} {overload:?}: {how}", built.text())),
            );
        }
    }
    assert!(broken.is_empty(), "{} are broken:\n{}", broken.len(), broken.join("\n"));
}

/// While other classes or flows overload the link, the queue of one, which was overloaded before, has been empty for a second.
#[test]
fn idle_queue_admits_packet_while_others_are_full() {
    for built in nestings(3, true) {
        let [first, others @ ..] = conformance::flows();
        let mut trial = Trial::new(built.build());
        // The test needs a queue that stays empty while the other flows send.
        let shares = |trial: &mut Trial| {
            let queue = trial.scheme().queue_of(&first);
            queue.is_none() || others.iter().any(|other| trial.scheme().queue_of(other) == queue)
        };
        if shares(&mut trial) {
            continue;
        }
        let held = (|| {
            trial.try_load(&conformance::flows(), Load(4_000), Nanos::millis(200))?;
            // The other flows have the link, except for the share of the first one. Its packets leave, and no more arrive.
            trial.try_load(&others, Load(700), Nanos::secs(5))?;
            trial.try_load(&others, Load(2_000), Nanos::millis(1500))?;
            trial.try_load(&[first], Load(1000), Nanos::millis(1))
        })();
        held.unwrap_or_else(|how| panic!("{}: {how}", built.text()));
    }
}

/// RED with an average above its thresholds, an empty queue, and no time for the average to decay.
#[test]
fn changed_parameter_makes_an_empty_queue_admit_at_once() {
    for mut built in nestings(3, true).into_iter().filter(|built| built.has("red")) {
        for (option, value) in [("weight", 500_000), ("gentle", 0), ("mean", 1 << 20)] {
            built.set(option, value);
        }
        let mut other = built.clone();
        other.set("min", 4);
        let mut trial = Trial::new(built.build());
        let flow = [conformance::flows()[0]];
        let held =
            |result: Result<(), InvariantViolation>| result.unwrap_or_else(|how| panic!("{}: {how}", built.text()));
        held(trial.try_load(&flow, Load(40_000), Nanos::millis(200)));
        held(trial.try_drain());
        let refuses = |trial: &mut Trial| {
            let refused = |trial: &Trial| trial.model().count_fates(|fate| matches!(fate, ModelFate::Refused(_)));
            let before = refused(trial);
            // 800 us is the time of one packet of 1000 bytes at 10 Mbit/s.
            held(trial.try_load(&flow, Load(1000), Nanos::micros(800)));
            refused(trial) > before
        };
        assert!(refuses(&mut trial), "{} has an average above its thresholds", built.text());
        assert!(trial.tune(&*other.build()), "{}", built.text());
        assert!(!refuses(&mut trial), "{} refuses a packet though nothing waits", built.text());
    }
}

fn overloads() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1_000u64..60_000, 1u64..60), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(super::CASES / 8))]

    /// For any options and link rate, also with a change of parameters in between.
    #[test]
    fn empty_queue_admits_after_overload_with_any_options(
        (built, other) in outermost().prop_flat_map(|built| (Just(built.clone()), retuned(built))),
        overloads in overloads(),
        rate in 100_000u64..20_000_000,
        tunes in any::<bool>(),
    ) {
        let mut trial = Trial::new(built.build()).with_link_rate(units::Rate::bits(rate));
        let packets = conformance::flows();
        for (load, millis) in overloads {
            trial.try_load(&packets, Load(load), Nanos::millis(millis)).unwrap();
            if tunes {
                trial.tune(&*other.build());
            }
            for packet in &packets {
                trial.drain_and_idle().unwrap();
                trial.try_load(core::slice::from_ref(packet), Load(1000), units::Rate::bits(rate).time_for(units::Bytes::new(1000))).unwrap();
            }
        }
        trial.try_end().unwrap();
    }
}
