//! The lifetime of entries, by a real clock (spec E-X15).

use super::network::{Network, plain, receive};
use super::{Values, sleep_until};
use anyhow::{Result, anyhow};
use esp::host::Computation;
use esp::isa::StateInstruction;
use esp::store::Key;
use esp::wire::{Carriages, Locations, Part};
use io::clock;
use sim::ephemeral::LifetimePlan;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use units::{Instant, Nanos};

/// Time between two entries.
const SPACING: Nanos = Nanos::millis(2);
/// Time limit for the last packets in flight.
const FLIGHT_LIMIT: Nanos = Nanos::millis(200);

/// The age that a packet tests, encoded in its computation.
fn tested_age(part: &Part) -> Option<u64> {
    matches!(part.instruction, StateInstruction::Test { .. }).then_some(part.computation)
}

/// The schedule of packets.
fn schedule(plan: &LifetimePlan, begin: Instant) -> Vec<(Instant, Part)> {
    let (tags, computation) =
        (Key::new([plan.seed, begin.get()]), Computation::seeded([plan.seed, 1]).at(Locations::INPUT));
    let of = |thousandths: u64| Nanos::new(plan.lifetime.get() / 1000 * thousandths);
    let mut all = Vec::new();
    for n in 0..plan.entries {
        let (tag, start) = (tags.hash(n), begin + SPACING * n);
        all.push((start, computation.mark(tag, 1)));
        let writes = [computation.put(tag, 5), computation.mark(tag, 6), computation.count(tag, 9)];
        all.extend(writes.map(|part| (start + of(plan.writes), part)));
        for age in &plan.looks {
            // After the packets that write at the same age.
            let at = start + of(*age) + Nanos::micros(50);
            all.push((at, Part { computation: *age, ..computation.if_marked(tag) }));
        }
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Receives at the root until the end: the ages at which the entry was still found.
fn receive_ages(root: &UdpSocket, end: Instant) -> Result<Vec<u64>> {
    let mut came = Vec::new();
    while clock::now() < end {
        came.extend(receive(root, Duration::from_millis(20))?.and_then(|(part, _)| tested_age(&part)));
    }
    Ok(came)
}

/// Runs the trial. Returns `present.AGE` as in virtual time, and the largest delay of a sent packet.
pub fn run(plan: &LifetimePlan) -> Result<Values> {
    let lifetime = plan.lifetime.get();
    let state = format!("[state]\ncapacity = 10000\ncentral = 1000\nlifetime = \"{lifetime}ns\"");
    let network = Network::new(&[1], &state, plain)?;
    let (socket, root) = (Network::socket(&network.receivers[0])?, Network::socket(&network.root)?);
    socket.connect((network.root_address(), Carriages::PORT))?;
    let all = schedule(plan, clock::now() + Nanos::millis(20));
    let end = all.last().map_or(Instant::START, |(at, _)| *at) + FLIGHT_LIMIT;
    let (late, came) = thread::scope(|scope| {
        let hears = scope.spawn(|| receive_ages(&root, end));
        let mut late = Nanos::ZERO;
        for (at, part) in all {
            sleep_until(at)?;
            late = late.max(clock::now().since(at));
            socket.send(&part.to_bytes())?;
        }
        let came = hears.join().map_err(|_| anyhow!("the root's thread panicked"))??;
        Ok::<_, anyhow::Error>((late, came))
    })?;
    let count = |age: u64| came.iter().filter(|came| **came == age).count() as f64;
    let present = |age: &u64| (format!("present.{age}"), count(*age) / plan.entries.max(1) as f64);
    let mut values: Values = plan.looks.iter().map(present).collect();
    values.insert("late_us".to_owned(), late.get() as f64 / 1e3);
    values.insert("real.lost".to_owned(), network.lost()? as f64);
    Ok(values)
}
