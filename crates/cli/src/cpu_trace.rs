//! `switchpath trace --cpu`: traces the CPU scheduler of the running router, as a file for a viewer and as a table of processor time.

mod file;
#[cfg(test)]
mod tests;

use crate::arguments::TraceArguments;
use crate::capture::end_with_signals;
use crate::output::{Rows, brief, print_json, short};
use anyhow::{Context, Result, bail};
use file::{TraceEvent, TraceFile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Traces for the requested time, or until a signal.
pub fn trace(arguments: &TraceArguments) -> Result<ExitCode> {
    // Open the file first: if that fails, the router need not be asked.
    let to_stdout = arguments.write.as_deref() == Some(Path::new("-"));
    let path = arguments.write.as_deref().filter(|_| !to_stdout);
    let create = |path: &Path| File::create(path).with_context(|| format!("{} cannot be written", path.display()));
    let mut written = path.map(create).transpose()?;
    let parameters = [("time", arguments.time.to_string()), ("events", arguments.events.to_string())];
    let mut body = arguments.socket.client().open_stream("/v1/schedule", &parameters)?;
    end_with_signals(&body)?;
    let mut text = Vec::new();
    body.read_to_end(&mut text).context("the trace ended early")?;
    if text.is_empty() {
        bail!("the trace ended without an event; give --time a longer time");
    }
    let mut out = stdout().lock();
    if to_stdout {
        out.write_all(&text)?;
    }
    if let (Some(file), Some(path)) = (&mut written, path) {
        file.write_all(&text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let trace = TraceFile::read(&text).context("the trace cannot be read")?;
    let had = CpuUsage::of(&trace);
    match (to_stdout, arguments.json) {
        (true, _) => {}
        (false, true) => print_json(&mut out, &had)?,
        (false, false) => had.print(&mut out)?,
    }
    let lost = match trace.other.lost_events {
        0 => String::new(),
        lost => format!(", {} older events lost (see --events)", short(lost as f64)),
    };
    let events = short(trace.events.len() as f64);
    let place = path.map_or_else(String::new, |path| format!(" in {}: open it in ui.perfetto.dev", path.display()));
    writeln!(stderr(), "{} watched, {events} events{lost}{place}", brief(trace.other.took_ns))?;
    Ok(ExitCode::SUCCESS)
}

/// How the processor time was divided.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct CpuUsage {
    /// The duration of the trace.
    took_ns: u64,
    /// The part of it with complete data: it begins with the first event that was not lost.
    covers_ns: u64,
    lost_events: u64,
    tasks: Vec<TaskUsage>,
}

/// The processor time of one task, or the switches or empty polls of a core.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
struct TaskUsage {
    task: String,
    /// The part of the covered time, from 0 to 1.
    cpu: f64,
    used_ns: u64,
    runs: u64,
    packets: u64,
    bytes: u64,
    longest_run_ns: u64,
    /// The longest time it waited for the processor while it was runnable.
    longest_wait_ns: u64,
    timeouts: u64,
    dropped_packets: u64,
    longest_queue_packets: u64,
}

impl CpuUsage {
    fn of(trace: &TraceFile<'_>) -> CpuUsage {
        let names = trace.tracks();
        let mut tasks: BTreeMap<(u64, u64, &str), TaskUsage> = BTreeMap::new();
        let (mut first, mut last) = (u64::MAX, 0);
        for event in &trace.events {
            let track = (event.process, event.track);
            let Some(&name) = names.get(&track) else { continue };
            if event.phase == 'X' || event.phase == 'i' {
                (first, last) = (first.min(event.at_ns), last.max(event.at_ns + event.lasts_ns));
            }
            let on_core = name.starts_with("core ");
            let of = match (event.phase, &*event.name) {
                ('X', "switch" | "poll") if on_core => &*event.name,
                _ if on_core => continue,
                _ => name,
            };
            let task = tasks.entry((event.process, event.track, of)).or_default();
            task.count(event);
        }
        let covers = last.saturating_sub(first);
        let mut list: Vec<TaskUsage> = Vec::new();
        for ((_, track, of), mut task) in tasks {
            task.cpu = task.used_ns as f64 / covers.max(1) as f64;
            task.task = match names.values().filter(|name| name.starts_with("core ")).count() {
                0 | 1 => of.to_owned(),
                _ if track % file::TRACKS == 1 => format!("{}: {of}", track / file::TRACKS),
                _ => of.to_owned(),
            };
            list.push(task);
        }
        list.sort_by(|a, b| b.used_ns.cmp(&a.used_ns).then_with(|| a.task.cmp(&b.task)));
        CpuUsage { took_ns: trace.other.took_ns, covers_ns: covers, lost_events: trace.other.lost_events, tasks: list }
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let columns = [
            "task",
            ">cpu",
            ">runs",
            ">packets",
            ">a run",
            ">a packet",
            ">longest",
            ">waited",
            ">late",
            ">lost",
            ">queue",
        ];
        let mut rows = Rows::new(&columns);
        for task in
            self.tasks.iter().filter(|task| **task != TaskUsage { task: task.task.clone(), ..TaskUsage::default() })
        {
            let each = |count: u64| task.used_ns.checked_div(count).map_or_else(|| "-".into(), brief);
            let time = |ns: u64| if ns == 0 { "-".into() } else { brief(ns) };
            rows.add([
                task.task.clone(),
                format!("{:.1}%", task.cpu * 100.0),
                short(task.runs as f64),
                short(task.packets as f64),
                each(task.runs),
                each(task.packets),
                time(task.longest_run_ns),
                time(task.longest_wait_ns),
                task.timeouts.to_string(),
                short(task.dropped_packets as f64),
                task.longest_queue_packets.to_string(),
            ]);
        }
        rows.print(out)
    }
}

impl TaskUsage {
    fn count(&mut self, event: &TraceEvent<'_>) {
        match (event.phase, &*event.name) {
            ('X', "runs") => {
                self.runs += 1;
                self.used_ns += event.args.used_ns.unwrap_or(0);
                self.packets += event.args.packets.unwrap_or(0);
                self.bytes += event.args.bytes.unwrap_or(0);
                self.longest_run_ns = self.longest_run_ns.max(event.lasts_ns);
            }
            ('X', "switch") => {
                self.runs += 1;
                self.used_ns += event.lasts_ns;
                self.longest_run_ns = self.longest_run_ns.max(event.lasts_ns);
            }
            ('X', "poll") => {
                self.runs += event.args.times.unwrap_or(0);
                self.used_ns += event.args.used_ns.unwrap_or(0);
            }
            ('X', "wait for the core") => self.longest_wait_ns = self.longest_wait_ns.max(event.lasts_ns),
            ('i', "timeout") => self.timeouts += 1,
            ('i', "dropped") => self.dropped_packets += event.args.packets.unwrap_or(0),
            ('C', _) => {
                self.longest_queue_packets = self.longest_queue_packets.max(event.args.packets.unwrap_or(0));
            }
            _ => {}
        }
    }
}
