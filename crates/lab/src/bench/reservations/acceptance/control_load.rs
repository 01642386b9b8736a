//! The changes that a busy operator makes beside the traffic: new builds of a guest, routes, and reservations that come and go.

use super::router::{AcceptanceRouter, edit_flows};
use crate::bench::guests::WORK;
use anyhow::{Context, Result, anyhow, bail};
use control::Client;
use control::api::{Applied, Edited};
use io::clock;
use io::wait::{Sleeper, Waker};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use units::Nanos;

/// The name of [`WORK`] in the directory of guests.
pub const GUEST: &str = "work";
/// The section id and the name of a custom section, with its length first (WebAssembly core specification 2.0, section 5.5.3).
const CUSTOM: [u8; 6] = [0, 12, 3, b'n', b'e', b'w'];

/// The time between two batches of changes, and the changes of a batch: 1000 routes, 100 new reservations and 100 ended ones a second.
const BATCH: Nanos = Nanos::millis(50);
const ROUTES: u64 = 50;
const RESERVATIONS: u64 = 5;
/// The time between two builds of the guest.
const BUILD: Nanos = Nanos::millis(200);
/// Batches for which a reservation lasts.
const LIFE: u64 = 20;

/// The next hops that a route of the flows alternates between. Both are at the same port.
const NEXT_HOPS: [&str; 2] = ["198.51.100.8", "198.51.100.9"];

/// The changes that were carried out, and the longest time that one took.
#[derive(Clone, Copy, Default, Debug)]
pub struct ChangeCounts {
    /// Changes.
    pub changes: u64,
    /// The longest time that a request took.
    pub longest: Nanos,
}

/// The result of a load.
#[derive(Clone, Copy, Default, Debug)]
pub struct ControlResult {
    /// Builds of the guest that replaced the previous one.
    pub builds: ChangeCounts,
    /// Routes that were added, changed or removed.
    pub routes: ChangeCounts,
    /// Reservations that came.
    pub reservations: ChangeCounts,
    /// Reservations that the router had no room for: on a busy machine packets cost more, so the bounds of the others leave less.
    pub refused: u64,
}

/// The guest with another name in a custom section: another build with the same code.
fn build(number: u64) -> Vec<u8> {
    [WORK, &CUSTOM, &number.to_be_bytes()].concat()
}

/// Calls `change` with 0, 1, ... at this interval until `over`. A late call is made up for.
fn repeat(interval: Nanos, over: &AtomicBool, mut change: impl FnMut(u64) -> Result<u64>) -> Result<ChangeCounts> {
    let mut sleeper = Sleeper::new(Waker::new()?);
    let (mut counts, begin) = (ChangeCounts::default(), clock::now());
    for number in 0.. {
        sleeper.sleep([], (begin + interval * number).since(clock::now()))?;
        if over.load(Ordering::Acquire) {
            break;
        }
        let before = clock::now();
        counts.changes += change(number)?;
        counts.longest = counts.longest.max(clock::now().since(before));
    }
    Ok(counts)
}

/// Replaces the guest by build after build.
fn replace_guests(router: &AcceptanceRouter, over: &AtomicBool) -> Result<ChangeCounts> {
    let client = router.client();
    repeat(BUILD, over, |number| {
        router.put_guest(GUEST, &build(number))?;
        let applied: Applied = client.post("/v1/apply", "acceptance.toml", router.text())?;
        if applied.changes.len() != 1 {
            bail!("build {number} of the guest was not adopted: {applied:?}");
        }
        Ok(1)
    })
    .context("replacing the guest")
}

/// Changes routes: those of the flows, and others that come and go.
fn change_routes(client: &Client, over: &AtomicBool) -> Result<ChangeCounts> {
    let route = |number: u64| {
        let [.., a, b] = (number % 65_536).to_be_bytes();
        format!("10.64.{a}.{b}/32")
    };
    repeat(BATCH, over, |batch| {
        let hop = NEXT_HOPS[batch as usize % 2];
        let mut text = format!("add 10.1.0.1/32 via {hop}\nadd 10.1.0.2/32 via {hop}\n");
        let each = ROUTES / 2 - 1;
        for number in batch * each..(batch + 1) * each {
            writeln!(text, "add {} via {hop}", route(number))?;
            if batch > 0 {
                writeln!(text, "del {}", route(number - each))?;
            }
        }
        let edited: Edited = client.post("/v1/routes", "acceptance", &text)?;
        Ok(edited.routes_added + edited.routes_removed)
    })
    .context("changing routes")
}

/// Reserves small flows, and ends them a second later. Returns the number of refused ones, too.
fn change_reservations(client: &Client, over: &AtomicBool) -> Result<(ChangeCounts, u64)> {
    let mut present = VecDeque::new();
    let mut refused = 0;
    let counts = repeat(BATCH, over, |batch| {
        let first = batch * RESERVATIONS;
        let mut text = String::new();
        while present.front().is_some_and(|number| number + LIFE * RESERVATIONS <= first) {
            writeln!(text, "remove small{}", present.pop_front().unwrap_or(first))?;
        }
        let mut flows = String::new();
        for number in first..first + RESERVATIONS {
            let port = 20_000 + number % 20_000;
            writeln!(
                flows,
                "add small{number} rate 8kbit packet 100b match iif in ip daddr 10.3.0.1 udp dport {port}"
            )?;
        }
        match edit_flows(client, &flows, true)?.refused {
            None => {
                text += &flows;
                present.extend(first..first + RESERVATIONS);
            }
            Some(why) if why.resource.is_some() => refused += RESERVATIONS,
            Some(wrong) => bail!("{wrong:?}"),
        }
        let edited = edit_flows(client, &text, false)?;
        if !edited.carried_out {
            bail!("a batch of reservations was not carried out in time");
        }
        Ok(edited.added.len() as u64)
    });
    counts.map(|counts| (counts, refused)).context("changing reservations")
}

/// Makes all changes, each kind in a thread of its own, until `over`.
///
/// # Errors
///
/// The router refuses a change.
pub fn run(router: &AcceptanceRouter, over: &AtomicBool) -> Result<ControlResult> {
    let gone = |_| anyhow!("a thread of the changes panicked");
    thread::scope(|scope| {
        let builds = scope.spawn(|| replace_guests(router, over));
        let routes = scope.spawn(|| change_routes(&router.client(), over));
        let reservations = scope.spawn(|| change_reservations(&router.client(), over));
        let (reservations, refused) = reservations.join().map_err(gone)??;
        Ok(ControlResult {
            builds: builds.join().map_err(gone)??,
            routes: routes.join().map_err(gone)??,
            reservations,
            refused,
        })
    })
}
