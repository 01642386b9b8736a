//! Reports about ephemeral state, with names instead of ids.

use super::report::{Answer, NoReport};
use super::{Daemon, REPORT_TIMEOUT};
use crate::api;
use crate::names::Names;
use esp::Cleaners;
use esp::report::{ComputationTrace, PlaceReport, StateReport, StoreReport};
use io::clock;
use plane::{Command, StoreReaders};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use units::{Nanos, PortId, WorkerId};

/// The pause before the next pass of a cleaner. `AT_ONCE`: entries are due, or a worker still uses some; its batches take some microseconds.
/// `OFTEN`: an entry expires soon, and is cleaned together with others. `SELDOM`: the longest pause. `NOBODY`: there are no stores.
const AT_ONCE: Nanos = Nanos::micros(50);
const OFTEN: Nanos = Nanos::millis(1);
const SELDOM: Nanos = Nanos::millis(10);
const NO_STORES: Nanos = Nanos::millis(100);

impl Daemon {
    /// Starts the thread of stores with a dedicated cleaner.
    pub(super) fn start_cleaning(self: &Arc<Self>, cleaners: Cleaners) -> Result<(), std::io::Error> {
        let clean = move |_: &Daemon| {
            let due = cleaners.clean(clock::now);
            let now = clock::now();
            match due {
                _ if cleaners.count() == 0 => NO_STORES,
                due if due <= now => AT_ONCE,
                due => due.since(now).clamp(OFTEN, SELDOM),
            }
        };
        self.spawn_background("cleaner", clean, |pause: Nanos| thread::park_timeout(pause.into()))
    }

    /// Returns the executed instructions, and the fill levels of the stores.
    pub fn ephemeral(&self) -> Answer<api::Ephemeral> {
        let reports = self.reports()?;
        let told = StateReport::merge(reports.iter().filter_map(|report| report.hook.as_ref()));
        let snapshot = self.snapshot();
        let names = self.names();
        Ok(api::Ephemeral {
            time_ns: self.now_ns(),
            lifetime_ns: snapshot.hooks.as_ref().map(|stations| stations.state.plan.lifetime.get()),
            handed_packets: told.handed_off,
            waiting_packets: told.queued_handoffs,
            stores: told.stores.iter().map(|store| store_reply(store, &names)).collect(),
        })
    }

    /// Returns at most `limit` live entries, of the store of `port` or of all.
    pub fn ephemeral_entries(&self, port: Option<&str>, limit: usize) -> Answer<api::EphemeralEntries> {
        let wanted = port.filter(|name| *name != "central").map(|name| self.port_named(name)).transpose()?;
        let of = |store: Option<PortId>| port.is_none() || store == wanted;
        let onlookers = self.store_readers()?;
        let (names, now) = (self.names(), clock::now());
        let mut entries = Vec::new();
        for (store, onlooker) in onlookers.iter().filter(|(store, _)| of(*store)) {
            let port = store.map(|port| names.port(port));
            // One more than requested, to know whether there are more.
            let seen = onlooker.entries(now, limit + 1 - entries.len().min(limit));
            entries.extend(seen.into_iter().map(|entry| api::EphemeralEntry {
                port: port.clone(),
                worker: entry.shard as u16,
                tag: format!("{:#018x}", entry.tag),
                value: entry.value,
                age_ns: entry.age.get(),
                creator: entry.creator.map(|creator| format!("{creator:#06x}")),
            }));
        }
        let truncated = entries.len() > limit;
        entries.truncate(limit);
        Ok(api::EphemeralEntries { time_ns: self.now_ns(), truncated, entries })
    }

    /// Returns read access to the stores. Any worker that answers can provide it for a whole store.
    fn store_readers(&self) -> Answer<StoreReaders> {
        let Some(&first) = self.responsive_workers().first() else { return Err(NoReport.into()) };
        let first: WorkerId = first;
        let (sender, receiver) = channel();
        self.control.lock().router.post_to(first, Command::StoreReaders(sender));
        receiver.recv_timeout(REPORT_TIMEOUT).map_err(|_| NoReport.into())
    }
}

fn store_reply(store: &StoreReport, names: &Names) -> api::EphemeralStore {
    api::EphemeralStore {
        port: store.port.map(|port| names.port(port)),
        capacity_entries: store.capacity,
        live_entries: store.live,
        expired_entries: store.expired,
        created_entries: store.created,
        high_water_entries: store.high_water,
        lag_ns: store.lag.map(|lag| lag.get()),
        lags: api::LatencyReply::of(&store.lags),
        freed_entries: store.freed,
        limbo_entries: store.limbo,
        cleaning_ns: store.cleaning.get(),
        assist_packets: store.assisting,
        probes: store.probed.to_vec(),
        collisions: store.collisions,
        memory_bytes: store.memory.get(),
        places: store.places.iter().filter(|place| is_used(place)).map(place_reply).collect(),
    }
}

/// Returns whether any packet has reached a place.
fn is_used(place: &PlaceReport) -> bool {
    let executed = place.executed.iter().any(|(_, forwarded, dropped)| forwarded + dropped > 0);
    executed || place.failed_before + place.overloaded > 0 || !place.aborted.is_empty()
}

fn place_reply(place: &PlaceReport) -> api::EphemeralPlace {
    let spent = |name: &str| place.execution_times.iter().find(|(known, _)| *known == name).map(|(_, spent)| spent);
    let instruction =
        |(name, forwarded_packets, dropped_packets): (&'static str, u64, u64)| api::EphemeralInstruction {
            name: name.into(),
            forwarded_packets,
            dropped_packets,
            spent: spent(name).and_then(api::LatencyReply::of),
        };
    // The execution time of mixed batches belongs to no single instruction.
    let several =
        place.execution_times.iter().filter(|(name, _)| place.executed.iter().all(|(known, ..)| known != name));
    let executed = place.executed.iter().copied().filter(|(_, f, d)| f + d > 0);
    let executed = executed.chain(several.map(|(name, _)| (*name, 0, 0)));
    let abort = |&(reason, instruction, packets): &(&'static str, &'static str, u64)| api::EphemeralAbort {
        reason: reason.into(),
        instruction: instruction.into(),
        packets,
    };
    let trace = |trace: &ComputationTrace| api::EphemeralTrace {
        computation: format!("{:#018x}", trace.computation),
        forwarded_packets: trace.forwarded,
        dropped_packets: trace.dropped,
        aborted_packets: trace.aborted,
        digest: format!("{:016x}", trace.digest),
    };
    api::EphemeralPlace {
        location: place.location.into(),
        failed_before_packets: place.failed_before,
        overloaded_packets: place.overloaded,
        reordered_packets: place.reordered,
        instructions: executed.map(instruction).collect(),
        aborts: place.aborted.iter().map(abort).collect(),
        traces: place.traces.iter().map(trace).collect(),
    }
}
