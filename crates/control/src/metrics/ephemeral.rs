//! Metrics of ephemeral state (spec E-52): by store, and by instruction.

use super::{Histograms, LabelledHistogram, counter, gauge};
use crate::api::{Ephemeral, EphemeralPlace, EphemeralStore};
use prometheus_client::registry::Registry;

/// Bucket bounds of instruction times: 1, 2, 5 of each decade from 10 nanoseconds to 100 microseconds.
fn bounds() -> impl Iterator<Item = u64> {
    let decades = (1..5).map(|exponent| 10u64.pow(exponent));
    decades.flat_map(|decade| [1, 2, 5].map(|n| n * decade)).chain([100_000])
}

/// The name of the central store.
const CENTRAL: &str = "central";

fn name(store: &EphemeralStore) -> String {
    store.port.clone().unwrap_or_else(|| CENTRAL.to_owned())
}

pub(super) fn register(state: &Ephemeral, r: &mut Registry) {
    if state.lifetime_ns.is_none() {
        return;
    }
    let stores = &state.stores;
    let of = |value: fn(&EphemeralStore) -> u64| {
        stores.iter().map(move |store| ([("store", name(store))], value(store))).collect::<Vec<_>>()
    };
    gauge(r, "state_capacity_entries", "Capacity of a store of ephemeral state.", of(|s| s.capacity_entries));
    gauge(r, "state_live_entries", "Entries that have not expired.", of(|s| s.live_entries));
    gauge(r, "state_expired_entries", "Entries that have expired and are not free yet.", of(|s| s.expired_entries));
    gauge(r, "state_high_water_entries", "Largest number of entries.", of(|s| s.high_water_entries));
    gauge(
        r,
        "state_lag_ns",
        "Delay between expiry and freeing of the latest freed entry.",
        of(|s| s.lag_ns.unwrap_or(0)),
    );
    gauge(r, "state_memory_bytes", "Most memory a store can use.", of(|s| s.memory_bytes));
    counter(r, "state_created_entries", "Entries created.", of(|s| s.created_entries));
    counter(r, "state_freed_entries", "Entries freed.", of(|s| s.freed_entries));
    gauge(r, "state_limbo_entries", "Entries removed but not free yet.", of(|s| s.limbo_entries));
    let lags = stores.iter().filter_map(|s| Some(LabelledHistogram::of([("store", name(s))], s.lags.as_ref()?)));
    r.register("state_freed_late_seconds", "Delay between expiry and freeing of entries", Histograms(lags.collect()));
    counter(r, "state_cleaning_ns", "Time spent on cleaning outside of packet batches.", of(|s| s.cleaning_ns));
    counter(r, "state_assist_packets", "Packets executed by the worker that cleans for all.", of(|s| s.assist_packets));
    counter(r, "state_collisions", "Look-ups that found an entry of another computation.", of(|s| s.collisions));
    let probes = stores.iter().flat_map(|store| {
        let lines = ["2", "3", "4-7", "8-"].into_iter().zip(&store.probes);
        lines.map(|(lines, &count)| ([("store", name(store)), ("lines", lines.to_owned())], count))
    });
    counter(r, "state_probes", "Look-ups that read more than one line of memory.", probes);
    counter(
        r,
        "state_handed_packets",
        "Packets handed off to the worker that owns their entries.",
        [([("to", "owner".to_owned())], state.handed_packets)],
    );
    gauge(
        r,
        "state_waiting_packets",
        "Packets in the handoff queues of these workers.",
        [([("to", "owner".to_owned())], state.waiting_packets)],
    );
    let places = || stores.iter().flat_map(|store| store.places.iter().map(move |place| (store, place)));
    let labels = |store: &EphemeralStore, place: &EphemeralPlace, kind: &'static str, what: &str| {
        [("store", name(store)), ("location", place.location.clone()), (kind, what.to_owned())]
    };
    let instructions = |value: fn(&crate::api::EphemeralInstruction) -> u64| {
        let each = |(store, place): (&EphemeralStore, &EphemeralPlace)| {
            let one =
                |one: &crate::api::EphemeralInstruction| (labels(store, place, "instruction", &one.name), value(one));
            place.instructions.iter().map(one).collect::<Vec<_>>()
        };
        places().flat_map(each).collect::<Vec<_>>()
    };
    let help = "Packets executed and forwarded.";
    counter(r, "state_forwarded_packets", help, instructions(|one| one.forwarded_packets));
    let help = "Packets executed and dropped.";
    counter(r, "state_ended_packets", help, instructions(|one| one.dropped_packets));
    let spent = places().flat_map(|(store, place)| {
        let one = |one: &crate::api::EphemeralInstruction| {
            let labels = labels(store, place, "instruction", &one.name);
            Some(LabelledHistogram::with_bounds(labels, one.spent.as_ref()?, bounds()))
        };
        place.instructions.iter().filter_map(one).collect::<Vec<_>>()
    });
    let help = "Execution time of instructions, sampled in one of 32 uniform batches";
    r.register("state_instruction_seconds", help, Histograms(spent.collect()));
    let by_place = |value: fn(&EphemeralPlace) -> u64| {
        let of = |(store, place): (&EphemeralStore, &EphemeralPlace)| {
            ([("store", name(store)), ("location", place.location.clone())], value(place))
        };
        places().map(of).collect::<Vec<_>>()
    };
    let help = "Packets that passed unexecuted because the worker was overloaded.";
    counter(r, "state_overloaded_packets", help, by_place(|place| place.overloaded_packets));
    let help = "Packets overtaken by later ones of their computation.";
    counter(r, "state_reordered_packets", help, by_place(|place| place.reordered_packets));
    let aborted = places().flat_map(|(store, place)| {
        let labels = |(reason, instruction): (&str, &str)| {
            let [store, location, reason] = labels(store, place, "reason", reason);
            [store, location, reason, ("instruction", instruction.to_owned())]
        };
        // The instruction of a packet that failed at an earlier router is not read, so it has no label.
        let before = (labels(("failed_before", "")), place.failed_before_packets);
        let aborts = place.aborts.iter().map(|abort| (labels((&abort.reason, &abort.instruction)), abort.packets));
        aborts.chain([before]).collect::<Vec<_>>()
    });
    let help = "Packets not executed, by reason and instruction.";
    counter(r, "state_aborted_packets", help, aborted);
}
