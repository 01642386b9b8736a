//! Packets that create entries at a given rate in the store of a router's port (spec E-X1, E-X7).

use super::network::{Network, plain};
use super::{Values, sleep_until};
use anyhow::Result;
use control::api::EphemeralStore;
use esp::host::Computation;
use esp::isa::StateInstruction;
use esp::store::Key;
use esp::wire::{Carriages, Locations, Part};
use io::clock;
use link::RandomStream;
use sim::ephemeral::{StorePlan, StoreWho};
use std::collections::VecDeque;
use std::net::UdpSocket;
use units::{Instant, Nanos};

/// How often the sender checks for due packets.
const LOOK: Nanos = Nanos::micros(500);
/// Time limit for the last packets in flight.
const FLIGHT_LIMIT: Nanos = Nanos::millis(50);

/// Instructions executed at the input, and aborted because the store was full.
pub fn executed_and_aborted(store: &EphemeralStore) -> (u64, u64) {
    let input = store.places.iter().filter(|place| place.location == "input");
    let executed = |place: &control::api::EphemeralPlace| -> u64 {
        place.instructions.iter().map(|one| one.forwarded_packets + one.dropped_packets).sum()
    };
    let aborted = |place: &control::api::EphemeralPlace| -> u64 {
        place.aborts.iter().filter(|one| one.reason == "full").map(|one| one.packets).sum()
    };
    input.fold((0, 0), |(e, a), place| (e + executed(place), a + aborted(place)))
}

fn part(plan: &StorePlan, tags: Key, n: u64) -> Part {
    let tag = tags.hash(n);
    let instruction = match plan.creates {
        1 => StateInstruction::Count { counter: tag, threshold: 2, inclusive: false },
        _ => StateInstruction::Rchld { counter: tag, child: n },
    };
    Part { computation: tags.hash(!n), ..Computation::seeded([plan.seed, 0]).at(Locations::INPUT).part(instruction) }
}

/// Runs the trial, from a receiver to the root. Measurements have the same names as in virtual time. `sent` is additional.
pub fn run(plan: &StorePlan) -> Result<Values> {
    let cleaning = if plan.cleaning == StoreWho::Inline { "inline" } else { "assist" };
    let (capacity, lifetime) = (plan.capacity, plan.lifetime.get());
    let state = format!(
        "[state]\ncapacity = {capacity}\ncentral = 1000\nlifetime = \"{lifetime}ns\"\ncleaner = \"{cleaning}\""
    );
    let network = Network::new(&[1], &state, plain)?;
    let seat = network.tree.receivers[0];
    let socket = Network::socket(&network.receivers[0])?;
    socket.connect((network.root_address(), Carriages::PORT))?;
    // Open the socket, else the root answers with ICMP port unreachable.
    let _taken = Network::socket(&network.root)?;
    let begin = clock::now() + Nanos::millis(50);
    let mut sender = Sender::new(plan, &socket, begin);
    sender.send((Nanos::ZERO, plan.lifetime))?;
    sleep_until(begin + plan.lifetime)?;
    let store = network.store(seat)?;
    let (first, sent_before, lag_before) = (executed_and_aborted(&store), sender.sent, store.lag_ns);
    sender.send((plan.lifetime, plan.duration))?;
    let sent = sender.sent;
    sleep_until(begin + plan.duration)?;
    // Both ends of the measured interval include the duration of one such query, so it cancels out.
    let store = network.store(seat)?;
    let seconds = plan.duration.saturating_sub(plan.lifetime).as_secs_f64();
    sleep_until(clock::now() + FLIGHT_LIMIT)?;
    let last = network.store(seat)?;
    let ((executed, aborted), (behind, _)) = (executed_and_aborted(&last), executed_and_aborted(&store));
    let executed_pps = (behind - first.0) as f64 / seconds;
    let offered_pps = (sent - sent_before) as f64 / seconds;
    let size = plan.capacity as f64 / plan.lifetime.as_secs_f64() / plan.creates.max(1) as f64;
    let lag = [lag_before, last.lag_ns].into_iter().flatten().max().unwrap_or(0);
    Ok([
        ("sent", sent as f64),
        ("executed", executed as f64),
        ("aborted", aborted as f64),
        ("executed_pps", executed_pps),
        ("offered_pps", offered_pps),
        ("size_pps", size),
        ("of_size", executed_pps / size),
        ("of_offered", executed_pps / offered_pps.max(1.0)),
        ("high_water", last.high_water_entries as f64),
        ("lag_us", lag as f64 / 1e3),
        ("late", 0.0),
        ("real.lost", (sent - (executed + aborted).min(sent)).max(network.lost()?) as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into())
}

/// Sends the packets of a plan.
struct Sender<'a> {
    plan: &'a StorePlan,
    socket: &'a UdpSocket,
    begin: Instant,
    tags: Key,
    sent: u64,
    /// The send times within the last lifetime, oldest first, if the plan limits their number.
    recent: VecDeque<Instant>,
}

impl<'a> Sender<'a> {
    fn new(plan: &'a StorePlan, socket: &'a UdpSocket, begin: Instant) -> Sender<'a> {
        let tags = Key::new([plan.seed, clock::now().get()]);
        Sender { plan, socket, begin, tags, sent: 0, recent: VecDeque::new() }
    }

    /// Sends the packets due between two times after the start.
    fn send(&mut self, (from, to): (Nanos, Nanos)) -> Result<()> {
        let plan = self.plan;
        let mut chance = RandomStream::new(plan.seed ^ self.sent, "arrivals");
        let gap = 1e9 / plan.rate.get().max(1) as f64;
        let mut at = from.get() as f64;
        sleep_until(self.begin + from)?;
        while at < to.get() as f64 {
            let due = clock::now().since(self.begin).get() as f64;
            while at <= due && at < to.get() as f64 && self.acquire_send(clock::now()) {
                self.socket.send(&part(plan, self.tags, self.sent).to_bytes())?;
                self.sent += 1;
                at += if plan.random { gap * chance.exponential() } else { gap };
            }
            sleep_until(clock::now() + LOOK)?;
        }
        Ok(())
    }

    /// Returns true and records the packet if one more respects the rate. At the nominal rate no lifetime has more than the limit. So the sender does
    /// not exceed it to catch up after a stall.
    fn acquire_send(&mut self, now: Instant) -> bool {
        let StorePlan { rate, lifetime, random, .. } = self.plan;
        if *random {
            return true;
        }
        let most = (rate.get() as f64 * lifetime.as_secs_f64()) as usize;
        if self.recent.len() >= most.max(1) {
            if self.recent.front().is_some_and(|&oldest| now.since(oldest) < *lifetime) {
                return false;
            }
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        true
    }
}
