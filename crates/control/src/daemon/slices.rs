//! Slices while the router runs: reports and changes.

use super::failure::ApplyFailure;
use super::{ADOPTION_TIMEOUT, Daemon, RUNNING};
use crate::api;
use io::clock;
use plan::refuse_lines;
use slice::{FilterAction, FilterSpec, ReservationReport, SliceCommand, SliceError, SliceQueueReport, SliceReport};
use std::fmt::Write;
use std::sync::atomic::Ordering;
use units::Bytes;

/// The most bytes of a slice's memory in one answer.
const MOST_MEMORY: usize = 64 << 10;
/// The most packets for a slow path in one answer.
const MOST_EXCEPTIONS: usize = 256;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A filter as the line that inserts it has it, behind its position.
fn filter_text(filter: &FilterSpec) -> String {
    let mut words = Vec::new();
    if !filter.value.is_empty() {
        words.push(format!("value {} mask {}", hex(&filter.value), hex(&filter.mask)));
    }
    let range = |range: &classifier::KeyRange| {
        format!("range {} {} {} {}", range.first_bit, range.width, range.low, range.high)
    };
    words.extend(filter.ranges.iter().map(range));
    words.push(match &filter.action {
        FilterAction::Drop => "drop".to_owned(),
        FilterAction::Exception(code) => format!("exception {code}"),
        FilterAction::Send { queue, interface, next, data } => {
            let used = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let data = if used == 0 { String::new() } else { format!(" data {}", hex(&data[..used])) };
            format!("send {queue} {interface} {next}{data}")
        }
    });
    words.extend(filter.index.map(|index| format!("count {index}")));
    words.join(" ")
}

fn reservation(report: &ReservationReport) -> api::SliceReservationReply {
    api::SliceReservationReply {
        port: report.scheduler.port.to_string(),
        scheduler: report.scheduler.share.as_ref().map(|share| share.as_str().to_owned()),
        rate_bps: report.rates.rate.map(|rate| rate.get()),
        ceiling_bps: report.rates.ceiling.map(|rate| rate.get()),
        weight: report.rates.weight,
    }
}

fn queue(report: &SliceQueueReport) -> api::SliceQueueReply {
    let SliceQueueReport { queue, spec, counts } = report;
    api::SliceQueueReply {
        queue: *queue,
        port: spec.scheduler.port.to_string(),
        scheduler: spec.scheduler.share.as_ref().map(|share| share.as_str().to_owned()),
        weight: spec.weight,
        limit_bytes: spec.limit.map(Bytes::get),
        packets: counts.packets,
        bytes: counts.bytes.get(),
        dropped_packets: counts.dropped,
        waiting_packets: counts.waiting.packets.into(),
        waiting_bytes: counts.waiting.bytes.get(),
    }
}

fn reply(report: &SliceReport) -> api::SliceReply {
    let quota = report.spec.quota;
    let state = match (report.is_suspended, &report.failure) {
        (_, Some(_)) => "failed",
        (true, None) => "suspended",
        (false, None) => "running",
    };
    api::SliceReply {
        name: report.spec.name.to_string(),
        code: report.spec.code.clone(),
        code_version: report.code_version,
        code_hash: report.code_digest.map(|digest| format!("{digest:016x}")),
        double_run: report.double_run.as_ref().map(|double| api::SliceDoubleRunReply {
            compared: double.compared,
            differences: double.differences,
            failure: double.failure.clone(),
        }),
        state: state.to_owned(),
        failure: report.failure.clone(),
        unmatched: if report.spec.drops_unmatched { "drop" } else { "exception" }.to_owned(),
        quota: api::SliceQuotaReply {
            filters: quota.filters as u64,
            queues: quota.queues as u64,
            interfaces: quota.interfaces as u64,
            stats: quota.indices as u64,
            memory_bytes: quota.memory.get(),
            buffers_bytes: quota.buffers.get(),
            rate_bps: quota.rate.get(),
            exceptions_pps: quota.exceptions.get(),
        },
        filters: report.filters as u64,
        entries: report.entries as u64,
        counters: api::CounterFields(report.counters),
        interfaces: report
            .interfaces
            .iter()
            .map(|(number, address)| api::SliceInterfaceReply { number: *number, address: address.to_string() })
            .collect(),
        reservations: report.reservations.iter().map(reservation).collect(),
        queues: report.queues.iter().map(queue).collect(),
    }
}

impl Daemon {
    /// Returns the slices, or the one of this name.
    pub fn slices(&self, only: Option<&str>) -> Result<api::SlicesReply, ApplyFailure> {
        let control = self.control.lock();
        let names: Vec<&str> = match only {
            Some(name) => vec![name],
            None => control.slices.names().map(|name| &**name).collect(),
        };
        let report = |name: &str| Ok(reply(&control.slices.report(&control.router, name)?));
        let slices: Result<Vec<api::SliceReply>, SliceError> = names.into_iter().map(report).collect();
        let code = |code: &&slice::code::CodeRegistration| api::CodeOptionReply {
            name: code.name.to_owned(),
            summary: code.summary.to_owned(),
            version: code.version,
            key_bytes: code.key_bytes as u64,
        };
        Ok(api::SlicesReply {
            time_ns: self.now_ns(),
            free_filters: control.slices.free_filters() as u64,
            code_options: control.slices.codes().iter().map(code).collect(),
            slices: slices.map_err(ApplyFailure::Slice)?,
        })
    }

    /// Returns at most `limit` filters of a slice from a position on.
    pub fn slice_filters(&self, name: &str, from: u32, limit: usize) -> Result<api::SliceFiltersReply, ApplyFailure> {
        let control = self.control.lock();
        let filters = control.slices.filters(name, from, limit).map_err(ApplyFailure::Slice)?;
        let total = control.slices.report(&control.router, name).map_err(ApplyFailure::Slice)?.filters as u64;
        let one = |filter: &slice::FilterReport| api::SliceFilterReply {
            position: filter.position,
            text: filter_text(&filter.spec),
            entries: filter.entries,
            hits: filter.hits,
        };
        Ok(api::SliceFiltersReply { total, filters: filters.iter().map(one).collect() })
    }

    /// Returns the statistics indices of a slice that have counted packets.
    pub fn slice_stats(&self, name: &str) -> Result<api::SliceStatsReply, ApplyFailure> {
        let indices = self.control.lock().slices.indices(name).map_err(ApplyFailure::Slice)?;
        let used = indices.iter().enumerate().filter(|(_, [packets, _])| *packets > 0);
        let one = |(index, [packets, bytes]): (usize, &[u64; 2])| api::SliceIndexReply {
            index: index as u64,
            packets: *packets,
            bytes: *bytes,
        };
        Ok(api::SliceStatsReply { time_ns: self.now_ns(), indices: used.map(one).collect() })
    }

    /// Returns a part of a slice's memory: to its end without a length.
    pub fn slice_memory(
        &self,
        name: &str,
        offset: usize,
        length: Option<usize>,
    ) -> Result<api::SliceMemoryReply, ApplyFailure> {
        let control = self.control.lock();
        let memory = control.slices.memory(name).map_err(ApplyFailure::Slice)?;
        let length = length.unwrap_or(memory.size().saturating_sub(offset)).min(MOST_MEMORY);
        let bytes = memory.read(offset, length).map_err(|beyond| {
            let hint = "read within the memory".to_owned();
            ApplyFailure::Slice(SliceError { reason: beyond.to_string(), hint })
        })?;
        Ok(api::SliceMemoryReply { offset: offset as u64, size_bytes: memory.size() as u64, bytes: hex(&bytes) })
    }

    /// Gives out packets for the slow path of a slice.
    pub fn slice_exceptions(&self, name: &str, limit: usize) -> Result<api::SliceExceptionsReply, ApplyFailure> {
        let control = self.control.lock();
        let taken = control.slices.take_exceptions(name, limit.min(MOST_EXCEPTIONS)).map_err(ApplyFailure::Slice)?;
        let one = |exception: &slice::SliceException| api::SliceExceptionReply {
            code: exception.code.to_string(),
            interface: exception.interface,
            key: hex(&exception.key.bytes::<{ slice::code::KEY_BYTES }>()),
            packet: hex(&exception.packet),
        };
        Ok(api::SliceExceptionsReply { exceptions: taken.iter().map(one).collect() })
    }

    /// Makes changes of slices, one a line. A change that is refused ends the batch; those before it were made. `source` is the name of the text in
    /// messages.
    pub fn edit_slices(&self, (text, source): (&str, &str)) -> Result<api::SlicesEdited, ApplyFailure> {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.split('#').next().unwrap_or("").trim()));
        let read = |(number, line): (usize, &str)| (number, line.parse::<SliceCommand>());
        let read: Vec<_> = lines.filter(|(_, line)| !line.is_empty()).map(read).collect();
        let wrong: Vec<(usize, String, String)> = read
            .iter()
            .filter_map(|(number, result)| {
                let error = result.as_ref().err()?;
                Some((*number, error.reason.clone(), error.hint.clone()))
            })
            .collect();
        // Nothing is changed if a line cannot be read.
        if !wrong.is_empty() {
            return Err(ApplyFailure::Batch(refuse_lines(text, source, wrong)));
        }
        let (numbers, commands): (Vec<usize>, Vec<SliceCommand>) =
            read.into_iter().filter_map(|(number, command)| Some((number, command.ok()?))).unzip();
        // Not while a configuration is being adopted: that may give the ports other shares.
        let mut control = self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?;
        let control = &mut *control;
        control.router.set_time(clock::now());
        let made = control.slices.run(&mut control.router, &commands);
        let entries = made.map_err(|(at, SliceError { reason, hint })| {
            ApplyFailure::Batch(refuse_lines(text, source, [(numbers[at], reason, hint)]))
        })?;
        Ok(api::SlicesEdited { changes: commands.len() as u64, entries })
    }
}
