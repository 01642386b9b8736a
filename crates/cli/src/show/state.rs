//! `switchpath show state`: ephemeral state.

use super::{ShowOptions, ShowView, per_second};
use crate::output::{Rows, brief, or_dash, short, span};
use anyhow::Result;
use control::{Client, api};
use std::io::Write;
use std::process::ExitCode;

/// Shows the entries behind an address of the API, once.
pub fn entries(client: &Client, target: &str, json: bool) -> Result<ExitCode> {
    ShowOptions { json, watch: None }.show::<api::EphemeralEntries>(client, target)
}

/// The name of the store of a port, or of the central one.
fn store_name(port: Option<&String>) -> String {
    port.map_or_else(|| "central".to_owned(), String::clone)
}

impl ShowView for api::Ephemeral {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let Some(lifetime) = self.lifetime_ns else {
            return Ok(writeln!(out, "no ephemeral state: the configuration has no [state]")?);
        };
        let (lifetime, handed, waiting) = (span(lifetime), self.handed_packets, self.waiting_packets);
        writeln!(
            out,
            "lifetime of entries {lifetime}; {handed} packets handed to other workers, {waiting} of them queued"
        )?;
        let mut rows = Rows::new(&[
            "store",
            ">capacity",
            ">live",
            ">most",
            ">expired",
            ">created",
            ">created/s",
            ">freed",
            ">freed/s",
            ">lag",
            ">lag p99",
            ">limbo",
            ">far",
            ">collisions",
        ]);
        for store in &self.stores {
            let then = before.and_then(|before| {
                let then = before.stores.iter().find(|then| then.port == store.port)?;
                Some((then, before.time_ns))
            });
            let a_second = |count: fn(&api::EphemeralStore) -> u64| {
                per_second((count(store), self.time_ns), then.map(|(then, time)| (count(then), time)), short)
            };
            rows.add([
                store_name(store.port.as_ref()),
                store.capacity_entries.to_string(),
                store.live_entries.to_string(),
                store.high_water_entries.to_string(),
                store.expired_entries.to_string(),
                store.created_entries.to_string(),
                a_second(|store| store.created_entries),
                store.freed_entries.to_string(),
                a_second(|store| store.freed_entries),
                or_dash(store.lag_ns.map(brief).as_deref()),
                or_dash(store.lags.as_ref().map(|lags| brief(lags.p99_ns)).as_deref()),
                store.limbo_entries.to_string(),
                store.probes.iter().sum::<u64>().to_string(),
                store.collisions.to_string(),
            ]);
        }
        rows.print(out)?;
        let mut rows = Rows::new(&["store", "where", "instruction", ">forwarded", ">ended", ">takes", ">p99"]);
        let mut aborts = Rows::new(&["store", "where", "not executed", "instruction", ">packets"]);
        let mut traces =
            Rows::new(&["store", "where", "computation", ">forwarded", ">ended", ">not executed", "in this order"]);
        let mut any = (false, false, false);
        for store in &self.stores {
            for place in &store.places {
                let (name, location) = (store_name(store.port.as_ref()), place.location.clone());
                for one in &place.instructions {
                    any.0 = true;
                    let (forwarded, dropped) = (one.forwarded_packets.to_string(), one.dropped_packets.to_string());
                    let spent = one.spent.as_ref();
                    let [takes, p99] = [spent.map(|spent| spent.p50_ns), spent.map(|spent| spent.p99_ns)]
                        .map(|time| or_dash(time.map(brief).as_deref()));
                    rows.add([name.clone(), location.clone(), one.name.clone(), forwarded, dropped, takes, p99]);
                }
                let before = ("failed_before", place.failed_before_packets);
                let overloaded = ("overloaded, passed", place.overloaded_packets);
                let reordered = ("out of order, executed", place.reordered_packets);
                let reasons =
                    place.aborts.iter().map(|abort| (abort.reason.as_str(), abort.instruction.as_str(), abort.packets));
                let others = [before, overloaded, reordered].map(|(reason, packets)| (reason, "-", packets));
                for (reason, instruction, packets) in reasons.chain(others).filter(|(.., packets)| *packets > 0) {
                    any.1 = true;
                    let [reason, instruction] = [reason, instruction].map(str::to_owned);
                    aborts.add([name.clone(), location.clone(), reason, instruction, packets.to_string()]);
                }
                for trace in &place.traces {
                    any.2 = true;
                    let counts = [trace.forwarded_packets, trace.dropped_packets, trace.aborted_packets];
                    let [forwarded, dropped, aborted] = counts.map(|count| count.to_string());
                    let (computation, digest) = (trace.computation.clone(), trace.digest.clone());
                    traces.add([name.clone(), location.clone(), computation, forwarded, dropped, aborted, digest]);
                }
            }
        }
        if any.0 {
            writeln!(out)?;
            rows.print(out)?;
        }
        if any.1 {
            writeln!(out)?;
            aborts.print(out)?;
        }
        if any.2 {
            writeln!(out)?;
            traces.print(out)?;
        }
        Ok(())
    }
}

impl ShowView for api::EphemeralEntries {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&["store", ">worker", "tag", ">value", ">age", "creator"]);
        for entry in &self.entries {
            rows.add([
                store_name(entry.port.as_ref()),
                entry.worker.to_string(),
                entry.tag.clone(),
                entry.value.to_string(),
                span(entry.age_ns),
                or_dash(entry.creator.as_deref()),
            ]);
        }
        rows.print(out)?;
        if self.truncated {
            writeln!(out, "and more: see --limit")?;
        }
        Ok(())
    }
}
