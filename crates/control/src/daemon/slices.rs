//! Slices while the router runs: reports and changes.

use super::failure::ApplyFailure;
use super::slow_path::{SliceRights, exception_reply, hex};
use super::{ADOPTION_TIMEOUT, Control, Daemon, RUNNING};
use crate::api;
use crate::events::{EventLog, LoggedEvent, ShareEvent};
use io::{accounts, clock};
use plan::refuse_lines;
use slice::{ReservationReport, SliceCommand, SliceError, SliceOwner, SliceQueueReport, SliceReport};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use units::Bytes;

/// The most bytes of a slice's memory in one answer.
const MOST_MEMORY: usize = 64 << 10;
/// The most packets for a slow path in one answer.
const MOST_EXCEPTIONS: usize = 256;

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
        guest: report
            .code_digest
            .map(|digest| api::SliceGuestReply { version: report.code_version, hash: format!("{digest:016x}") }),
        double_run: report.double_run.as_ref().map(|double| api::SliceDoubleRunReply {
            compared: double.compared,
            differences: double.differences,
            failure: double.failure.clone(),
        }),
        state: state.to_owned(),
        failure: report.failure.clone(),
        owner_uid: report.spec.owner.as_ref().and_then(SliceOwner::uid),
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
            cpu_ppm: quota.cpu.map(|part| part.get()),
            cpu_used_ns: quota.cpu.map(|_| report.cpu_used.get()),
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

/// The slice of this name, or all that a caller may see.
fn seen<'c>(control: &'c Control, rights: SliceRights<'_>, only: Option<&'c str>) -> Vec<&'c str> {
    let all = || control.slices.names().map(|name| &**name).filter(|name| rights.sees(control, name)).collect();
    only.map_or_else(all, |name| vec![name])
}

/// A change with the number of the owner that it names.
fn with_owner(mut command: SliceCommand) -> Result<SliceCommand, SliceError> {
    if let SliceCommand::Create(spec) = &mut command
        && let Some(SliceOwner::Name(name)) = &spec.owner
    {
        let user = accounts::user(name).ok_or_else(|| SliceError {
            reason: format!("there is no user {}", plan::quote(name)),
            hint: "write a name of /etc/passwd, or a number".to_owned(),
        })?;
        spec.owner = Some(SliceOwner::Uid(user.uid));
    }
    Ok(command)
}

/// Logs the failures of slices, each once.
pub(super) fn report_failures(control: &Control, log: &EventLog) {
    for (name, number, failure) in control.slices.take_new_failures() {
        let event = ShareEvent::SliceFailed { slice: name.to_string(), number, failure };
        log.push(clock::now(), LoggedEvent::Shares(Box::new(event)));
    }
}

impl Daemon {
    /// Returns the slices that a caller may see, or the one of this name.
    pub fn slices(&self, rights: SliceRights<'_>, only: Option<&str>) -> Result<api::SlicesReply, ApplyFailure> {
        let control = self.control.lock();
        if let Some(name) = only {
            rights.check_sees(&control, name)?;
        }
        let report = |name: &str| Ok(reply(&control.slices.report(&control.router, name)?));
        let slices: Result<Vec<api::SliceReply>, SliceError> =
            seen(&control, rights, only).into_iter().map(report).collect();
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
            slices: slices?,
        })
    }

    /// Returns at most `limit` filters of a slice from a position on.
    pub fn slice_filters(
        &self,
        rights: SliceRights<'_>,
        name: &str,
        (from, limit): (u32, usize),
    ) -> Result<api::SliceFiltersReply, ApplyFailure> {
        let control = self.control.lock();
        rights.check_sees(&control, name)?;
        let filters = control.slices.filters(name, from, limit)?;
        let total = control.slices.report(&control.router, name)?.filters as u64;
        let one = |filter: &slice::FilterReport| api::SliceFilterReply {
            position: filter.position,
            text: filter.spec.to_string(),
            entries: filter.entries,
            hits: filter.hits,
        };
        Ok(api::SliceFiltersReply { total, filters: filters.iter().map(one).collect() })
    }

    /// Returns the lines that make the slices that a caller may see, or the one of this name, as they are.
    pub fn slice_definitions(
        &self,
        rights: SliceRights<'_>,
        only: Option<&str>,
    ) -> Result<api::SliceDefinitions, ApplyFailure> {
        let control = self.control.lock();
        if let Some(name) = only {
            rights.check_sees(&control, name)?;
        }
        let mut lines = Vec::new();
        for name in seen(&control, rights, only) {
            let changes = control.slices.definition(&control.router, name)?;
            lines.extend(changes.iter().map(ToString::to_string));
        }
        Ok(api::SliceDefinitions { lines })
    }

    /// Returns the statistics indices of a slice that have counted packets.
    pub fn slice_stats(&self, rights: SliceRights<'_>, name: &str) -> Result<api::SliceStatsReply, ApplyFailure> {
        let control = self.control.lock();
        rights.check_sees(&control, name)?;
        let indices = control.slices.indices(name)?;
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
        rights: SliceRights<'_>,
        name: &str,
        (offset, length): (usize, Option<usize>),
    ) -> Result<api::SliceMemoryReply, ApplyFailure> {
        let control = self.control.lock();
        rights.check_owns(&control, name)?;
        let memory = control.slices.memory(name)?;
        let length = length.unwrap_or(memory.size().saturating_sub(offset)).min(MOST_MEMORY);
        let bytes = memory.read(offset, length).map_err(|beyond| {
            let hint = "read within the memory".to_owned();
            ApplyFailure::Slice(SliceError { reason: beyond.to_string(), hint })
        })?;
        let slice::MemoryVersion { version, staged } = control.slices.report(&control.router, name)?.memory;
        Ok(api::SliceMemoryReply {
            version,
            staged_bytes: staged as u64,
            offset: offset as u64,
            size_bytes: memory.size() as u64,
            bytes: hex(&bytes),
        })
    }

    /// Gives out packets for the slow path of a slice.
    pub fn slice_exceptions(
        &self,
        rights: SliceRights<'_>,
        name: &str,
        limit: usize,
    ) -> Result<api::SliceExceptionsReply, ApplyFailure> {
        let control = self.control.lock();
        rights.check_owns(&control, name)?;
        let taken = control.slices.take_exceptions(name, limit.min(MOST_EXCEPTIONS))?;
        let key_bytes = control.slices.key_bytes(name)?;
        let exceptions = taken.iter().map(|exception| exception_reply(exception, key_bytes)).collect();
        Ok(api::SliceExceptionsReply { exceptions })
    }

    /// Makes changes of slices, one a line. A change that is refused ends the batch; those before it were made. `source` is the name of the text in
    /// messages.
    pub fn edit_slices(
        &self,
        rights: SliceRights<'_>,
        (text, source): (&str, &str),
    ) -> Result<api::SlicesEdited, ApplyFailure> {
        let result = self.try_edit_slices(rights, (text, source));
        if let Err(failure) = &result {
            let reason = format!("{}; by {}", api::ApiError::from(failure).reason, rights.author);
            self.log.push(clock::now(), LoggedEvent::Refused { name: source.to_owned(), reason });
        }
        result
    }

    fn try_edit_slices(
        &self,
        rights: SliceRights<'_>,
        (text, source): (&str, &str),
    ) -> Result<api::SlicesEdited, ApplyFailure> {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        let refuse = |wrong: Vec<(usize, SliceError)>| {
            let lines = wrong.into_iter().map(|(number, SliceError { reason, hint })| (number, reason, hint));
            ApplyFailure::Batch(refuse_lines(text, source, lines))
        };
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.split('#').next().unwrap_or("").trim()));
        let (mut numbers, mut commands, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            match line.parse::<SliceCommand>().and_then(with_owner) {
                Ok(command) => {
                    numbers.push(number);
                    commands.push(command);
                }
                Err(error) => wrong.push((number, error)),
            }
        }
        // Nothing is changed if a line cannot be read.
        if !wrong.is_empty() {
            return Err(refuse(wrong));
        }
        // Not while a configuration is being adopted: that may give the ports other shares.
        let mut control = self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?;
        let control = &mut *control;
        // Nor if the caller may not make one of the changes.
        let checked =
            numbers.iter().zip(&commands).map(|(number, change)| (number, rights.check_change(control, change)));
        let foreign: Vec<(usize, SliceError)> =
            checked.filter_map(|(number, result)| Some((*number, result.err()?))).collect();
        if !foreign.is_empty() {
            return Err(refuse(foreign));
        }
        // A change may start a slice again, which ends its failure.
        report_failures(control, &self.log);
        control.router.set_time(clock::now());
        let made = control.slices.run(&mut control.router, &commands);
        self.publish_slice_owners(control);
        let changed = &commands[..made.as_ref().err().map_or(commands.len(), |(at, _)| *at)];
        if !changed.is_empty() {
            let names: BTreeSet<&str> = changed.iter().map(SliceCommand::slice).collect();
            let slices = names.into_iter().collect::<Vec<_>>().join(", ");
            let (changes, author) = (changed.len() as u64, rights.author.clone());
            let event = ShareEvent::Slices { slices, changes, author };
            self.log.push(clock::now(), LoggedEvent::Shares(Box::new(event)));
        }
        let entries = made.map_err(|(at, error)| refuse(vec![(numbers[at], error)]))?;
        Ok(api::SlicesEdited { changes: commands.len() as u64, entries })
    }
}
