//! Exports a trace for ui.perfetto.dev and chrome://tracing, in the JSON object format of the Trace Event Format document (Google, 2016). A router is
//! a process, and each of its tasks is a track. Each core is a track too, with the runs of all tasks, so that the use of the processor is visible at
//! a glance.

use super::{TaskEvent, TaskTrace, TraceRecord};
use crate::task::CoreTimes;
use std::collections::BTreeMap;
use std::io::{Result, Write};
use units::{Instant, Nanos, TaskId};

/// The number of windows over which the efficiency is computed, and their least length.
const WINDOWS: u64 = 200;
const LEAST_WINDOW: Nanos = Nanos::micros(20);
/// Track ids of a core: one for itself and one for each task.
const TRACKS: u64 = 1_000_000;

/// The traces of a router.
pub struct TracedRouter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its cores.
    pub cores: Vec<TracedCore<'a>>,
}

/// The trace of a core.
pub struct TracedCore<'a> {
    /// The number of its worker.
    pub worker: u16,
    /// Its trace.
    pub trace: &'a TaskTrace,
    /// The names of its tasks.
    pub tasks: BTreeMap<TaskId, String>,
}

/// Writes the traces of `routers` from `since` until `until`. `started_ns` is the start in ns since 1970-01-01 UTC, if there is a wall clock.
/// Fails with the first error of `out`.
pub fn write(
    out: &mut impl Write,
    routers: &[TracedRouter<'_>],
    (since, until): (Instant, Instant),
    started_ns: Option<u64>,
) -> Result<()> {
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"producer\":\"switchpath\"")?;
    if let Some(ns) = started_ns {
        write!(out, ",\"started_ns\":{ns}")?;
    }
    let cores = || routers.iter().flat_map(|router| &router.cores);
    let lost: u64 = cores().map(|core| core.trace.lost()).sum();
    write!(out, ",\"took_ns\":{},\"lost_events\":{lost}}},\"traceEvents\":[", until.since(since).get())?;
    let mut events = Events { out, since, first: true, process: 0 };
    for (index, router) in routers.iter().enumerate() {
        events.process = index + 1;
        events.name("process_name", 0, router.name)?;
        // Task names repeat on every core, so the number of the core precedes them.
        let several = router.cores.len() > 1;
        router.cores.iter().try_for_each(|core| events.core(core, several, until))?;
    }
    events.out.write_all(b"\n]}\n")
}

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

struct Events<'w, W> {
    out: &'w mut W,
    since: Instant,
    first: bool,
    process: usize,
}

/// A task while the trace is being written.
struct Track {
    name: String,
    id: u64,
    /// The state in which it waits, and since when: for more packets, or for the processor.
    state: Option<(&'static str, Instant)>,
}

impl<W: Write> Events<'_, W> {
    /// Writes an event of this phase on this track, with its name and further JSON members.
    fn event(&mut self, phase: char, track: u64, at: Instant, name: &str, rest: &str) -> Result<()> {
        let comma = if std::mem::replace(&mut self.first, false) { "" } else { "," };
        // The format counts in microseconds: three decimals keep the nanoseconds.
        let ns = at.since(self.since).get();
        write!(
            self.out,
            "{comma}\n{{\"ph\":\"{phase}\",\"pid\":{},\"tid\":{track},\"ts\":{}.{:03},\"name\":{}{rest}}}",
            self.process,
            ns / 1000,
            ns % 1000,
            quoted(name)
        )
    }

    fn name(&mut self, what: &str, track: u64, name: &str) -> Result<()> {
        self.event('M', track, self.since, what, &format!(",\"args\":{{\"name\":{}}}", quoted(name)))
    }

    /// Writes an event with a duration. One of zero length and without arguments is omitted.
    fn slice(&mut self, track: u64, name: &str, (from, to): (Instant, Instant), args: &str) -> Result<()> {
        let ns = to.since(from).get();
        if ns == 0 && args.is_empty() {
            return Ok(());
        }
        let rest = format!(",\"dur\":{}.{:03},\"args\":{{{args}}}", ns / 1000, ns % 1000);
        self.event('X', track, from, name, &rest)
    }

    fn instant(&mut self, track: u64, name: &str, at: Instant, args: &str) -> Result<()> {
        self.event('i', track, at, name, &format!(",\"s\":\"t\",\"args\":{{{args}}}"))
    }

    fn counter(&mut self, track: u64, name: &str, at: Instant, value: &str) -> Result<()> {
        self.event('C', track, at, name, &format!(",\"args\":{{{value}}}"))
    }

    fn core(&mut self, core: &TracedCore<'_>, several: bool, until: Instant) -> Result<()> {
        let prefix = if several { format!("{}: ", core.worker) } else { String::new() };
        let base = u64::from(core.worker) * TRACKS + 1;
        self.name("thread_name", base, &format!("core {}", core.worker))?;
        let mut tracks: BTreeMap<TaskId, Track> = BTreeMap::new();
        // Records may belong to tasks that were removed: these have a track too.
        for task in core.tasks.keys().copied().chain(core.trace.records().map(|record| record.task)) {
            if tracks.contains_key(&task) {
                continue;
            }
            let gone = || format!("task {task} (gone)");
            let name = format!("{prefix}{}", core.tasks.get(&task).cloned().unwrap_or_else(gone));
            let id = base + 1 + task.index() as u64;
            self.name("thread_name", id, &name)?;
            tracks.insert(task, Track { name, id, state: None });
        }
        let mut windows = Windows::new(self.since, until);
        // The clock is read at each step and the meter at each lap: one of them may be slightly ahead.
        let (mut now, mut began, mut polls) = (self.since, None, None::<(Instant, Instant, u64, Nanos)>);
        for record in core.trace.records() {
            let Some(track) = tracks.get_mut(&record.task) else { continue };
            // Consecutive polls, also of different ports, become one slice on the track of the core.
            if let TaskEvent::Polled { times, used, until } = record.event {
                let from = record.at.max(now);
                let to = until.max(from);
                // An empty poll ends any waiting state of the task.
                if let Some((name, began)) = track.state.take() {
                    self.slice(track.id, name, (began, from), "")?;
                }
                self.slice(track.id, "looks", (from, to), &format!("\"times\":{times},\"used_ns\":{}", used.get()))?;
                let (first, last, sum, time) = polls.unwrap_or((from, to, 0, Nanos::ZERO));
                polls = Some((first, last.max(to), sum + u64::from(times), time + used));
                continue;
            }
            if let Some((from, to, times, used)) = polls.take() {
                let args = format!("\"times\":{times},\"used_ns\":{}", used.get());
                self.slice(base, "poll", (from, to), &args)?;
                windows.add((from, to), |sum| &mut sum.polling, used);
                now = now.max(to);
            }
            now = now.max(record.at);
            match record.event {
                TaskEvent::Dispatched { switch } => {
                    windows.add((now, now + switch), |sum| &mut sum.switching, switch);
                    self.slice(base, "switch", (now, now + switch), "")?;
                    began = Some(now + switch);
                }
                TaskEvent::Yielded { packets, bytes, waiting, used } => {
                    // The dispatch record may be lost. The start follows from the length of the run.
                    let from = began.take().unwrap_or((now - used).max(self.since));
                    now = now.max(from);
                    let to = now;
                    let args = format!(
                        "\"packets\":{packets},\"bytes\":{bytes},\"used_ns\":{},\"cost_ns\":{},\"waiting\":{waiting}",
                        used.get(),
                        used.get() / u64::from(packets.max(1))
                    );
                    self.slice(track.id, "runs", (from, to), &args)?;
                    self.slice(base, &track.name, (from, to), &args)?;
                    windows.add((from, to), |sum| &mut sum.useful, used);
                    let name = format!("queue of {}", track.name);
                    self.counter(track.id, &name, now, &format!("\"packets\":{waiting}"))?;
                }
                _ => {}
            }
            self.task(track, record, now)?;
        }
        if let Some((from, to, times, used)) = polls {
            self.slice(base, "poll", (from, to), &format!("\"times\":{times},\"used_ns\":{}", used.get()))?;
            windows.add((from, to), |sum| &mut sum.polling, used);
        }
        for track in tracks.values() {
            if let Some((name, from)) = track.state {
                self.slice(track.id, name, (from, until.max(from)), "")?;
            }
        }
        for (at, times) in windows.iter() {
            let percent = |part: f64| format!("\"percent\":{:.1}", part * 100.0);
            self.counter(base, &format!("{prefix}efficiency"), at, &percent(times.efficiency()))?;
            let literal = percent(times.efficiency_literal());
            self.counter(base, &format!("{prefix}efficiency, empty looks as work"), at, &literal)?;
        }
        Ok(())
    }

    /// Writes the part of a record that is not about runs.
    fn task(&mut self, track: &mut Track, record: &TraceRecord, now: Instant) -> Result<()> {
        let waits = match record.event {
            TaskEvent::Eligible => Some("waits for packets"),
            TaskEvent::Active => Some("wait for the core"),
            TaskEvent::Dispatched { .. } | TaskEvent::Yielded { .. } | TaskEvent::Idle => None,
            TaskEvent::Arrived { packets, waiting } => {
                let args = format!("\"packets\":{waiting}");
                self.counter(track.id, &format!("queue of {}", track.name), now, &args)?;
                let came = format!("\"packets\":{packets},\"waiting\":{waiting}");
                return if packets > 0 { self.instant(track.id, "packets received", now, &came) } else { Ok(()) };
            }
            TaskEvent::Dropped { packets } => {
                return self.instant(track.id, "dropped", now, &format!("\"packets\":{packets}"));
            }
            TaskEvent::Timeout => return self.instant(track.id, "timeout", now, ""),
            TaskEvent::Harvested => return self.instant(track.id, "runs because nothing else would", now, ""),
            TaskEvent::Polled { .. } => return Ok(()),
        };
        let state = waits.map(|name| (name, now));
        if let Some((name, from)) = std::mem::replace(&mut track.state, state) {
            self.slice(track.id, name, (from, now), "")?;
        }
        Ok(())
    }
}

/// The time of a core by use, window by window.
struct Windows {
    since: Instant,
    length: u64,
    sums: Vec<CoreTimes>,
}

impl Windows {
    fn new(since: Instant, until: Instant) -> Windows {
        let span = until.since(since).get();
        let length = (span / WINDOWS).max(LEAST_WINDOW.get());
        // One more window for the end itself, and for the remainder of the division.
        Windows { since, length, sums: vec![CoreTimes::default(); (span / length + 1) as usize] }
    }

    /// Adds time spent between two moments. A duration longer than a window is divided in proportion.
    fn add(&mut self, (from, to): (Instant, Instant), part: fn(&mut CoreTimes) -> &mut Nanos, used: Nanos) {
        let (from, to) = (from.since(self.since).get(), to.since(self.since).get());
        let last = self.sums.len() - 1;
        let (first, end) = (((from / self.length) as usize).min(last), ((to / self.length) as usize).min(last));
        let mut left = used.get();
        for window in first..end {
            let within = (window as u64 + 1) * self.length - from.max(window as u64 * self.length);
            // In proportion to the time within the window. The last window gets the remainder, so that the sum is exact.
            let here = u128::from(used.get()) * u128::from(within) / u128::from((to - from).max(1));
            let here = (here as u64).min(left);
            *part(&mut self.sums[window]) += Nanos::new(here);
            left -= here;
        }
        *part(&mut self.sums[end]) += Nanos::new(left);
    }

    /// The windows with any activity.
    fn iter(&self) -> impl Iterator<Item = (Instant, &CoreTimes)> {
        let sums = self.sums.iter().enumerate().filter(|(_, times)| **times != CoreTimes::default());
        sums.map(|(index, times)| (self.since + Nanos::new(index as u64 * self.length), times))
    }
}

#[cfg(test)]
mod tests;
