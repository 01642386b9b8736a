//! The documents use `while`, hardware only has `if`: an evaluation here drops or sends at most one packet, and the link, still ready, evaluates
//! again. These are the loops of the documents, over a million packets each. The decisions are the same, packet for packet (spec N-04).

#[path = "../described/mod.rs"]
mod described;

mod choke;
mod codel;
mod fq;
mod head;
mod red;
mod register;

use described::described;
use proptest::prelude::*;
use schemes::Record;
use schemes::model::{Model, ModelFate};
use units::{Instant, Nanos};

/// Packets of a run; fewer where instructions are emulated, so that every test run stays short.
const PACKETS: usize = if cfg!(target_arch = "x86_64") { 1_000_000 } else { 20_000 };

/// A scheme with the loops of its document.
trait ReferenceScheme {
    /// The packet `number` arrives.
    fn arrive(&mut self, number: usize, packet: &Record, fates: &mut Vec<ModelFate>);
    /// The link accepts a packet.
    fn dequeue(&mut self, now: Instant, fates: &mut Vec<ModelFate>);
}

/// An event.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes, then a packet arrives.
    Arrives(Nanos, Record),
    /// Time passes, then the link accepts a packet.
    Leaves(Nanos),
}

/// Seeded traffic with alternating overload and underload, of several flows with a packet length each.
struct Traffic {
    state: u64,
    left: usize,
}

impl Traffic {
    fn of(seed: u64, packets: usize) -> Traffic {
        Traffic { state: seed, left: packets }
    }

    /// Source: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
    fn draw(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % below
    }
}

impl Iterator for Traffic {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.left == 0 {
            return None;
        }
        // The load changes every 700 packets. Occasionally there is a pause in which all state expires.
        let hundredths = [105, 160, 60, 120, 97][self.left / 700 % 5];
        let pause = if self.draw(20_000) == 0 { 2_000_000_000 } else { self.draw(1_000_000) };
        if self.draw(100 + hundredths) >= hundredths {
            return Some(Step::Leaves(Nanos::new(pause)));
        }
        self.left -= 1;
        let flow = self.draw(6) as u32;
        let packet = Record {
            length: [1514, 1514, 1000, 300, 64, 700][flow as usize],
            flow_hash: flow.wrapping_mul(0x9e37_79b9),
            ecn: (flow % 2) as u8,
            ..Record::default()
        };
        Some(Step::Arrives(Nanos::new(pause), packet))
    }
}

/// The decisions of the scheme and those of the loop.
fn both(
    scheme: &str,
    mut reference: impl ReferenceScheme,
    steps: impl Iterator<Item = Step>,
) -> (Vec<ModelFate>, Vec<ModelFate>) {
    let mut scheme = described(scheme);
    let (mut model, mut fates) = (Model::with_queues(scheme.queues() as usize), Vec::new());
    for step in steps {
        match step {
            Step::Arrives(pause, packet) => {
                model.now += pause;
                let number = model.offered();
                model.arrive_all(&mut *scheme, std::iter::once(packet));
                reference.arrive(number, &Record { timestamp: model.now, ..packet }, &mut fates);
            }
            Step::Leaves(pause) => {
                model.now += pause;
                model.ready(&mut *scheme, 1);
                reference.dequeue(model.now, &mut fates);
            }
        }
    }
    (model.fates, fates)
}

/// Compares a scheme with a loop over a million packets, of which several hundred are dropped.
fn check_same_decisions(scheme: &str, reference: impl ReferenceScheme) {
    let (found, expected) = both(scheme, reference, Traffic::of(0x2545_f491_4f6c_dd1d, PACKETS));
    if let Some(first) = (0..expected.len().max(found.len())).find(|i| expected.get(*i) != found.get(*i)) {
        let around = |fates: &[ModelFate]| fates[first.saturating_sub(3)..(first + 3).min(fates.len())].to_vec();
        panic!("{scheme}, fate {first}: {:?} and not {:?}", around(&found), around(&expected));
    }
    let lost = found.iter().filter(|fate| !matches!(fate, ModelFate::Sent(_))).count();
    assert!(lost > PACKETS / 1000 && found.len() > PACKETS / 10 * 9, "{scheme}: {lost} of {} are lost", found.len());
}

#[test]
fn codel_while_eq_if_level() {
    for again in codel::RestartVariant::ALL {
        check_same_decisions(&format!("codel(limit=90, again={})", again.name()), codel::Queue::new(90, again));
    }
}

#[test]
fn fq_while_eq_if_level() {
    let codel = codel::CoDel::new(codel::RestartVariant::Rfc8289);
    check_same_decisions("fq(flows=16, limit=200){codel}", fq::Fair::new(16, 1514, 200, codel));
    check_same_decisions("fq(flows=4, quantum=300b, limit=100){codel}", fq::Fair::new(4, 300, 100, codel));
    let codel = codel::CoDel::new(codel::RestartVariant::Sfqcodel);
    check_same_decisions("sfq(flows=16, limit=200){codel(again=sfqcodel)}", fq::Fair::in_turns(16, 200, codel));
}

#[test]
fn choke_while_eq_if_level() {
    check_same_decisions(
        "choke(min=4, max=30, weight=1%, limit=60, seed=9)",
        choke::Choke::new(red::Red::new(4, 30, 10_000, 60, 9), 9),
    );
}

#[test]
fn head_while_eq_if_level() {
    check_same_decisions("fifo(limit=50, bytes=20000b, drop=head)", head::Head::new(50, 20_000));
}

#[test]
fn red_lfsr_matches_rtl() {
    check_same_decisions("red(min=5, max=20, weight=1%, limit=60, seed=77)", red::Red::new(5, 20, 10_000, 60, 77));
}

#[test]
fn bufferbloat_eq_codel_target_1000s() {
    // Two descriptions of an unmanaged queue (spec N-14), alone and as the queue of each flow.
    let spellings = [
        ("fifo(unbounded=on)", "codel(target=1000s, limit=65536)"),
        (
            "sfq(flows=16, limit=65536){fifo(unbounded=on)}",
            "sfq(flows=16, limit=65536){codel(target=1000s, limit=65536)}",
        ),
    ];
    for (one, other) in spellings {
        let fates = |scheme| both(scheme, head::Head::new(1, 1), Traffic::of(7, PACKETS / 20)).0;
        let (one, other) = (fates(one), fates(other));
        assert!(one.len() > PACKETS / 25 && one.iter().all(|fate| matches!(fate, ModelFate::Sent(_))));
        assert_eq!(one, other);
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<bool>(), 0u64..4_000_000, 64u32..1515).prop_map(|(leaves, pause, length)| match leaves {
        true => Step::Leaves(Nanos::new(pause)),
        false => Step::Arrives(Nanos::new(pause), Record { length, ..Record::default() }),
    });
    prop::collection::vec(step, 0..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The same for random arrivals and departures.
    #[test]
    fn codel_while_eq_if_level_for_random_steps(
        steps in steps(),
        again in prop::sample::select(codel::RestartVariant::ALL.to_vec()),
    ) {
        let scheme = format!("codel(limit=65536, again={})", again.name());
        let (level, reference) = both(&scheme, codel::Queue::new(65536, again), steps.into_iter());
        prop_assert_eq!(level, reference);
    }
}
