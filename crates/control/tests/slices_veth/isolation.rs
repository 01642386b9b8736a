//! A tenant that attacks the router, and the packets of another: spec S-26.

use crate::site::{OWN_PATHS, SHARED_PATH, Site, inner, operator, without_stall, worker_wait};
use io::clock;
use io::thread_priority::RealtimePriority;
use io::wait::{Sleeper, Waker};
use slice::code::{CodeEnv, CodeOption, CodeRegistration, Diversion, Formatted, InnerEdit, LookupKey, LookupResult};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use units::{Instant, Nanos};

/// Panics on packets that begin with zero, makes the key of the first three bytes of all others, and sends them unchanged.
static BOMB: CodeRegistration = CodeRegistration {
    name: "bomb",
    summary: "panics on packets that begin with zero",
    version: 1,
    key_bytes: 3,
    parse_steps: 0,
    format_steps: 0,
    memory: 0,
    settings: &[],
    make: |_| Ok(Box::new(Bomb)),
};

struct Bomb;

impl CodeOption for Bomb {
    fn parse(&mut self, packet: &[u8], _: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        assert_ne!(packet.first(), Some(&0), "a packet of the attack");
        Ok(LookupKey::new(&packet[..packet.len().min(3)]))
    }

    fn format(&mut self, _: &mut InnerEdit<'_>, _: &LookupResult, _: &mut CodeEnv<'_>) -> Result<Formatted, Diversion> {
        Ok(Formatted::Send)
    }
}

/// The length of a round, and the time in which its last packets arrive.
const ROUND: Nanos = Nanos::millis(400);
const REST: Nanos = Nanos::millis(100);
/// Pairs of rounds, without and with the attack. A pair in which the machine stalls is repeated.
const ROUNDS: usize = 3;
const ATTEMPTS: usize = 5;
/// The victim's packets of each millisecond: 2.3 Mbit/s of its 60.
const PACKETS: usize = 3;
/// The part by which goodput and loss may change. Delays are printed: they follow the processor time that other programs leave to the worker.
const MOST: f64 = 0.05;

/// The victim's packets of a round, the delay that 99 of 100 do not exceed, and the time that the router's worker waited for a processor.
struct Round {
    sent: usize,
    arrived: usize,
    p99: Nanos,
    waited: Nanos,
}

/// A round of the victim.
fn round(site: &Site) -> Round {
    let (is_over, waited) = (AtomicBool::new(false), worker_wait());
    let (sender, receiver) = (&site.near[0], &site.far[0]);
    receiver.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    thread::scope(|scope| {
        let delays = scope.spawn(|| {
            let _first = RealtimePriority::acquire().ok();
            let (mut bytes, mut delays) = ([0; 2000], Vec::new());
            while !is_over.load(Relaxed) {
                let Ok(length) = receiver.recv(&mut bytes) else { continue };
                let sent = bytes[..length].last_chunk().map_or(0, |sent| u64::from_be_bytes(*sent));
                delays.push(clock::now().since(Instant::new(sent)));
            }
            delays
        });
        let sent = scope.spawn(|| {
            let _first = RealtimePriority::acquire().ok();
            let mut sleeper = Sleeper::new(Waker::new().unwrap());
            let (mut due, end, mut sent) = (clock::now(), clock::now() + ROUND, 0);
            while due < end {
                for _ in 0..PACKETS {
                    let stamp = clock::now().since(Instant::START).get().to_be_bytes();
                    sender.send(&inner([10, 0, 3, 4], &stamp)).unwrap();
                    sent += 1;
                }
                due += Nanos::millis(1);
                sleeper.sleep([], due.since(clock::now())).unwrap();
            }
            sleeper.sleep([], REST).unwrap();
            sent
        });
        let sent = sent.join().unwrap();
        is_over.store(true, Relaxed);
        let mut delays = delays.join().unwrap();
        delays.sort_unstable();
        let p99 = delays.get(delays.len() * 99 / 100).copied().unwrap_or(Nanos::MAX);
        let waited = Nanos::new(worker_wait().get().saturating_sub(waited.get()));
        Round { sent, arrived: delays.len(), p99, waited }
    })
}

/// Compares the victim without and with an attack, which `attack` repeats as fast as it can. Returns the harm, if it exceeds the bounds.
fn harm(site: &Site, name: &str, mut attack: impl FnMut(&Site) + Send) -> Option<String> {
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS {
        // Both or none, so that other programs disturb both alike.
        let pair = without_stall(ATTEMPTS, || {
            let before = round(site);
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        attack(site);
                    }
                });
                let beside = round(site);
                is_over.store(true, Relaxed);
                [before, beside]
            })
        });
        let Some(pair) = pair else { break };
        pairs.push(pair);
    }
    if pairs.is_empty() {
        println!("{name}: this machine has stalled in all rounds");
        return None;
    }
    // The pair whose attack changed the goodput by the median, the median delay, and the part of the time that the worker waited: other programs may
    // disturb one pair.
    let goodput = |round: &Round| round.arrived as f64 / round.sent as f64;
    pairs.sort_by(|[a, b], [c, d]| (goodput(b) / goodput(a)).total_cmp(&(goodput(d) / goodput(c))));
    let [alone, attacked] = pairs[pairs.len() / 2].each_ref().map(goodput);
    let of = |which: usize| {
        let mut delays: Vec<Nanos> = pairs.iter().map(|pair| pair[which].p99).collect();
        delays.sort_unstable();
        let waited: u64 = pairs.iter().map(|pair| pair[which].waited.get()).sum();
        let waited = waited as f64 / (pairs.len() as u64 * (ROUND + REST).get()) as f64 * 100.0;
        (delays[delays.len() / 2].get() as f64 / 1e3, waited)
    };
    let ((before, waited), (beside, longer)) = (of(0), of(1));
    let found = format!(
        "{name}: {:.2} and {:.2} % delivered, p99 {before:.0} and {beside:.0} us, {waited:.0} and {longer:.0} % of the time \
         the worker had no processor, {} pairs of rounds",
        alone * 100.0,
        attacked * 100.0,
        pairs.len()
    );
    println!("{found}");
    (attacked < alone * (1.0 - MOST)).then_some(found)
}

/// Attacks with more packets than the attacker's queue, or the worker, can take.
fn floods(site: &Site) -> Vec<String> {
    let [short, long] = [20, 1400].map(|length| inner([10, 0, 3, 4], &vec![0; length]));
    let flood = harm(site, "a flood", |site| _ = site.near[1].send(&short));
    let full = harm(site, "full queues", |site| _ = site.near[1].send(&long));
    flood.into_iter().chain(full).collect()
}

/// One after the other: each has the machine for itself.
#[test]
fn isolation_flood() {
    // Slices of one path share its queue. Without a limit of processor time a flood that is faster than the worker fills it.
    let Some(site) = Site::new(SHARED_PATH, None, "unmatched exception cpu 5%") else { return };
    let mut harms = floods(&site);
    let unknown = inner([10, 7, 3, 4], &[0; 20]);
    harms.extend(harm(&site, "exceptions", |site| _ = site.near[1].send(&unknown)));
    let mut changes = 0_u32;
    harms.extend(harm(&site, "changes of filters", |site| {
        // It fills its quota, and then replaces one filter after the other.
        let position = 1 + changes % 1900;
        let change = if changes < 1900 { "insert" } else { "replace" };
        changes += 1;
        let text = format!("filter {change} b {position} value 000b{position:04x} mask 00ffffff drop");
        site.daemon.edit_slices(operator(), (&text, "attack")).unwrap_or_else(|failure| panic!("{failure:?}"));
    }));
    assert!(site.slice("b").counters.received > 1000, "the attacks reached the slice");
    assert!(changes > 100, "the filters have changed {changes} times");
    site.daemon.stop();
    let Some(site) = Site::new(OWN_PATHS, None, "unmatched drop") else { return };
    println!("paths of their own, without a limit of processor time:");
    harms.extend(floods(&site));
    assert!(site.slice("b").counters.received > 1000, "the floods reached the slice");
    site.daemon.stop();
    let Some(site) = Site::new(SHARED_PATH, Some(&BOMB), "unmatched drop") else { return };
    let mut panics = 0;
    harms.extend(harm(&site, "panics", |site| {
        site.near[1].send(&[0; 60]).unwrap();
        panics += u32::from(site.slice("b").state == "failed");
        site.daemon.edit_slices(operator(), ("resume b", "attack")).unwrap_or_else(|failure| panic!("{failure:?}"));
    }));
    assert!(panics > 10, "the code option has panicked {panics} times");
    site.daemon.stop();
    assert!(harms.is_empty(), "{harms:#?}");
}
