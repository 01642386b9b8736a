//! `switchpath slice list`, `slice filter list` and `slice stats`.

use super::shares::bits;
use super::{ShowOptions, ShowView};
use crate::output::{Rows, short};
use anyhow::Result;
use control::{Client, api};
use std::io::Write;
use std::process::ExitCode;
use units::{Nanos, Parts};

/// Filters in a list.
const FILTERS: &str = "1000";

/// Shows all slices, or one: once, or every `watch`.
pub fn list(client: &Client, name: Option<&str>, json: bool, watch: Option<Nanos>) -> Result<ExitCode> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(name) = name {
        query.append_pair("only", name);
    }
    let target = format!("/v1/slices?{}", query.finish());
    ShowOptions { json, watch }.show::<api::SlicesReply>(client, &target)
}

/// Shows filters of a slice from a position on, once.
pub fn filters(client: &Client, name: &str, from: &str, json: bool) -> Result<ExitCode> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("slice", name).append_pair("from", from).append_pair("limit", FILTERS);
    let target = format!("/v1/slices/filters?{}", query.finish());
    ShowOptions { json, watch: None }.show::<api::SliceFiltersReply>(client, &target)
}

/// Shows the statistics of a slice: once, or every `watch`.
pub fn stats(client: &Client, name: &str, json: bool, watch: Option<Nanos>) -> Result<ExitCode> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let target = format!("/v1/slices/stats?{}", query.append_pair("slice", name).finish());
    ShowOptions { json, watch }.show::<api::SliceStatsReply>(client, &target)
}

impl ShowView for api::SlicesReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        if self.slices.is_empty() {
            writeln!(out, "no slices; {} entries for filters are free", self.free_filters)?;
            return Ok(());
        }
        let columns = [
            "slice",
            "code",
            ">owner",
            "state",
            ">filters",
            ">queues",
            ">received",
            ">forwarded",
            ">exceptions",
            ">drops",
        ];
        let mut rows = Rows::new(&columns);
        for slice in &self.slices {
            let counters = &slice.counters;
            rows.line(vec![
                slice.name.clone(),
                code(slice),
                slice.owner_uid.map_or_else(|| "-".to_owned(), |uid| uid.to_string()),
                slice.failure.as_ref().map_or_else(|| slice.state.clone(), |failure| format!("failed: {failure}")),
                format!("{}/{}", slice.entries, slice.quota.filters),
                format!("{}/{}", slice.queues.len(), slice.quota.queues),
                counters.received.to_string(),
                counters.forwarded.to_string(),
                counters.exceptions.to_string(),
                (counters.received - counters.forwarded - counters.exceptions).to_string(),
            ]);
        }
        rows.print(out)?;
        // One slice with its parts; of many only the sums.
        if let [slice] = &self.slices[..] {
            parts(slice, out)?;
        }
        Ok(())
    }
}

fn scheduler(port: &str, share: Option<&String>) -> String {
    share.map_or_else(|| port.to_owned(), |share| format!("{port}/{share}"))
}

/// The code option; a guest with its version and the first digits of its hash.
fn code(slice: &api::SliceReply) -> String {
    let named = |guest: &api::SliceGuestReply| {
        let digits = guest.hash.get(..8).unwrap_or(&guest.hash);
        format!("{} v{} {digits}", slice.code, guest.version)
    };
    slice.guest.as_ref().map_or_else(|| slice.code.clone(), named)
}

/// Its use of each resource, and its quota.
fn resources(slice: &api::SliceReply, out: &mut dyn Write) -> Result<()> {
    let quota = &slice.quota;
    let bytes = |count: u64| short(count as f64);
    let buffers = slice.queues.iter().filter_map(|queue| queue.limit_bytes).sum();
    let rate = slice.reservations.iter().filter_map(|part| part.rate_bps).sum();
    let unused = || "-".to_owned();
    let rows = [
        ("entries of filters", slice.entries.to_string(), quota.filters.to_string()),
        ("queues", slice.queues.len().to_string(), quota.queues.to_string()),
        ("meta-interfaces", slice.interfaces.len().to_string(), quota.interfaces.to_string()),
        ("bytes of buffers", bytes(buffers), bytes(quota.buffers_bytes)),
        ("reserved rate", bits(Some(rate)), bits(Some(quota.rate_bps))),
        ("bytes of memory", unused(), bytes(quota.memory_bytes)),
        ("statistics indices", unused(), quota.stats.to_string()),
        ("exceptions a second", unused(), quota.exceptions_pps.to_string()),
        (
            "processor time",
            quota.cpu_used_ns.map_or_else(unused, |used| Nanos::new(used).to_string()),
            quota.cpu_ppm.map_or_else(unused, |part| Parts::millionths(part).to_string()),
        ),
    ];
    let mut table = Rows::new(&["resource", ">used", ">quota"]);
    rows.into_iter().for_each(|(name, used, most)| table.line(vec![name.to_owned(), used, most]));
    writeln!(out)?;
    table.print(out)
}

fn parts(slice: &api::SliceReply, out: &mut dyn Write) -> Result<()> {
    resources(slice, out)?;
    if let Some(api::SliceDoubleRunReply { compared, differences, failure }) = &slice.double_run {
        let failed = failure.as_ref().map_or_else(String::new, |failure| format!("; it has failed: {failure}"));
        writeln!(out, "\ndouble run: {differences} of {compared} results differ{failed}")?;
    }
    if !slice.interfaces.is_empty() {
        writeln!(out)?;
        let mut rows = Rows::new(&[">mi", "address"]);
        slice.interfaces.iter().for_each(|mi| rows.line(vec![mi.number.to_string(), mi.address.clone()]));
        rows.print(out)?;
    }
    if !slice.reservations.is_empty() {
        writeln!(out)?;
        let mut rows = Rows::new(&["scheduler", ">rate", ">ceiling", ">weight"]);
        for part in &slice.reservations {
            rows.line(vec![
                scheduler(&part.port, part.scheduler.as_ref()),
                bits(part.rate_bps),
                bits(part.ceiling_bps),
                part.weight.unwrap_or(1).to_string(),
            ]);
        }
        rows.print(out)?;
    }
    if !slice.queues.is_empty() {
        writeln!(out)?;
        let columns = [">queue", "scheduler", ">weight", ">limit", ">packets", ">bytes", ">drops", ">waiting"];
        let mut rows = Rows::new(&columns);
        for queue in &slice.queues {
            rows.line(vec![
                queue.queue.to_string(),
                scheduler(&queue.port, queue.scheduler.as_ref()),
                queue.weight.to_string(),
                queue.limit_bytes.map_or_else(|| "-".to_owned(), |limit| short(limit as f64)),
                queue.packets.to_string(),
                short(queue.bytes as f64),
                queue.dropped_packets.to_string(),
                queue.waiting_packets.to_string(),
            ]);
        }
        rows.print(out)?;
    }
    Ok(())
}

impl ShowView for api::SliceFiltersReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&[">position", ">hits", ">entries", "filter"]);
        for filter in &self.filters {
            let (position, hits, entries) = (filter.position, filter.hits, filter.entries);
            rows.line(vec![position.to_string(), hits.to_string(), entries.to_string(), filter.text.clone()]);
        }
        rows.print(out)?;
        writeln!(out, "{} of {} filters", self.filters.len(), self.total)?;
        Ok(())
    }
}

impl ShowView for api::SliceStatsReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&[">index", ">packets", ">bytes"]);
        for index in &self.indices {
            rows.line(vec![index.index.to_string(), index.packets.to_string(), index.bytes.to_string()]);
        }
        rows.print(out)
    }
}
