//! `switchpath replay`: replays a capture through a configuration in virtual time, or into the running router, and reports the fate of each packet.

mod live;

use crate::arguments::{ReplayArguments, UsageError};
use crate::configuration::{catalogue_of, read_valid};
use crate::output::{Rows, is_coloured, print_json, span};
use anyhow::{Context, Result, anyhow};
use control::replay::{
    Comparison, Departure, NamedPlan, ReplayListener, ReplayOptions, ReplayReport, ReplaySource, replay as run,
};
use io::pcap::{CaptureProgram, LinkType, PcapDirection, PcapInterface, PcapRecord, Writer};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use units::{Instant, Nanos};

/// Replays a capture and reports the packet fates. Fails if another configuration treats a packet differently.
pub fn replay(arguments: &ReplayArguments) -> Result<ExitCode> {
    let source = ReplaySource::open(&arguments.file)?;
    if let Some(write) = &arguments.write
        && same(write, &arguments.file)
    {
        return Err(anyhow!(UsageError(format!(
            "'{}' is both the capture to read and the file to write; write to another file",
            write.display()
        ))));
    }
    let Some(config) = &arguments.config else { return live::replay(arguments, &source) };
    let new = read_plan(config, arguments)?;
    let old = arguments.against.as_ref().map(|file| read_plan(file, arguments)).transpose()?;
    let options = ReplayOptions {
        port: arguments.port.clone(),
        ours: arguments.as_ours,
        speed: arguments.speed,
        times: arguments.rounds,
    };
    let mut watching = ReplayObserver::new(arguments, &source);
    let report = run(&source, &options, (named(&new), old.as_ref().map(named)), &mut watching)?;
    watching.finish()?;
    let mut out = stdout().lock();
    match arguments.json {
        true => print_json(&mut out, &report)?,
        false => print(&mut out, arguments, &report)?,
    }
    let changed = report.against.as_ref().is_some_and(|against| against.changed_packets > 0);
    Ok(if changed || none_judged(&report)? { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns whether no packet could be judged. Such a replay is a failure, reported on the standard error.
fn none_judged(report: &ReplayReport) -> Result<bool> {
    let none = report.judged_packets() == 0;
    if none {
        writeln!(stderr(), "The replay could judge no packet, so it does not test {}.", report.config)?;
    }
    Ok(none)
}

fn named((name, plan): &(String, plan::Plan)) -> NamedPlan<'_> {
    NamedPlan { name, plan }
}

/// Returns a configuration without errors, and its name.
fn read_plan(file: &Path, arguments: &ReplayArguments) -> Result<(String, plan::Plan)> {
    let (configuration, plan) = read_valid(file, &catalogue_of(&arguments.guests)?)?;
    Ok((configuration.name, plan))
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The audience of a replay: a progress display for a person, and a capture file of sent packets.
struct ReplayObserver {
    file: Option<SentCapture>,
    failed: Option<anyhow::Error>,
    /// The percentage displayed last; none without a terminal.
    shown: Option<u64>,
}

impl ReplayListener for ReplayObserver {
    fn progress(&mut self, done: u64, all: u64) {
        let hundredths = 100 * done / all.max(1);
        if self.shown.is_some_and(|shown| shown < hundredths) {
            self.shown = Some(hundredths);
            let end = if done == all { "\r\x1b[K" } else { "" };
            let _ = write!(stderr(), "\r{hundredths:3}% of {all} packets{end}");
        }
    }

    fn departed(&mut self, departures: Vec<Departure>) {
        let Some(file) = self.file.as_mut().filter(|_| self.failed.is_none()) else { return };
        if let Err(error) = departures.iter().try_for_each(|departure| file.add(departure)) {
            self.failed = Some(error);
        }
    }

    fn wants_departures(&self) -> bool {
        self.file.is_some()
    }
}

impl ReplayObserver {
    fn new(arguments: &ReplayArguments, source: &ReplaySource) -> ReplayObserver {
        ReplayObserver {
            file: arguments.write.as_deref().map(|path| SentCapture::new(path, source.first)),
            failed: None,
            shown: stderr().is_terminal().then_some(0),
        }
    }

    fn finish(self) -> Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.file.map_or(Ok(()), SentCapture::finish)
    }
}

/// The capture of sent packets. It is created with the first packet, so that a failed replay leaves no file.
struct SentCapture {
    path: PathBuf,
    first: Instant,
    writer: Option<Writer<File>>,
    interfaces: HashMap<String, u32>,
}

impl SentCapture {
    fn new(path: &Path, first: Instant) -> SentCapture {
        SentCapture { path: path.to_owned(), first, writer: None, interfaces: HashMap::new() }
    }

    fn writer(&mut self) -> Result<&mut Writer<File>> {
        if self.writer.is_none() {
            let file =
                File::create(&self.path).with_context(|| format!("{} cannot be written", self.path.display()))?;
            // The file names nothing of the machine: the same packets make the same file everywhere.
            let name = concat!("switchpath ", env!("CARGO_PKG_VERSION")).to_owned();
            let application = CaptureProgram { name, ..CaptureProgram::default() };
            self.writer = Some(Writer::new(file, &application, Nanos::new(self.first.get()))?);
        }
        self.writer.as_mut().context("it was just made")
    }

    fn add(&mut self, departure: &Departure) -> Result<()> {
        let Departure { after, port, packet, frame } = departure;
        let interface = match self.interfaces.get(port) {
            Some(&known) => known,
            None => {
                let new = PcapInterface { name: port.clone(), link: LinkType::ETHERNET, snap_length: 0, mac: None };
                let number = self.writer()?.add_interface(new)?;
                self.interfaces.insert(port.clone(), number);
                number
            }
        };
        let comment = packet.map_or_else(|| "generated".to_owned(), |packet| format!("packet {packet}"));
        let record = PcapRecord {
            time: Instant::new(after.get()),
            interface,
            link: LinkType::ETHERNET,
            original: frame.len() as u32,
            data: frame,
            direction: PcapDirection::Out,
            comment: &comment,
        };
        Ok(self.writer()?.packet(&record)?)
    }

    fn finish(mut self) -> Result<()> {
        self.writer()?.flush()?;
        Ok(())
    }
}

/// Prints the packet fates, and the differences to another configuration.
fn print(out: &mut dyn Write, arguments: &ReplayArguments, report: &ReplayReport) -> Result<()> {
    let (bold, plain) = if is_coloured(&stdout()) { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let (packets, config) = (report.packets, &report.config);
    let lasted = span(report.duration_ns);
    writeln!(out, "{bold}{packets} packets of {} ({lasted}) through {config}{plain}", arguments.file.display())?;
    let mut rows = Rows::new(&["fate", "", ">packets", ">first", "meaning"]);
    let empty = String::new;
    for (port, count) in &report.sent {
        rows.add(["sent".into(), port.clone(), count.to_string(), empty(), empty()]);
    }
    if report.consumed_packets > 0 {
        let what = "for the router itself, or split into fragments".into();
        rows.add(["consumed".into(), empty(), report.consumed_packets.to_string(), empty(), what]);
    }
    for drop in &report.dropped {
        let (name, first) =
            (drop.drop.reason.clone(), drop.first_packet.map_or_else(String::new, |first| first.to_string()));
        rows.add(["dropped".into(), name, drop.packets.to_string(), first, drop.drop.explanation.clone()]);
    }
    if report.unjudged_packets > 0 {
        let what = "for another MAC address than the port's".into();
        rows.add(["not judged".into(), empty(), report.unjudged_packets.to_string(), empty(), what]);
    }
    if report.lost_packets > 0 {
        let what = "the router had no free frame, or still holds them".into();
        rows.add(["lost".into(), empty(), report.lost_packets.to_string(), empty(), what]);
    }
    rows.print(out)?;
    for drop in &report.dropped {
        writeln!(out, "  {}: {}", drop.drop.reason, drop.drop.hint)?;
    }
    notes(out, report)?;
    report.against.as_ref().map_or(Ok(()), |against| print_comparison(out, arguments, report, against))
}

/// Prints warnings on the replay, such as generated packets and assumed neighbours.
fn notes(out: &mut dyn Write, report: &ReplayReport) -> Result<()> {
    if !report.generated.is_empty() {
        writeln!(out, "The router generated packets: {}.", counted(&report.generated))?;
    }
    if report.unjudged_packets > 0 {
        writeln!(
            out,
            "The fate of {} packets is unknown: the capture does not state the MAC addresses of its interfaces, so the \
             packets may have been for other hosts. --as-ours treats them as packets for the port.",
            report.unjudged_packets
        )?;
    }
    if report.outgoing_packets > 0 {
        writeln!(out, "{} packets are marked as sent in the capture, and are skipped.", report.outgoing_packets)?;
    }
    if report.cut_packets > 0 {
        writeln!(out, "The capture truncated {} packets; zeros replace the missing bytes.", report.cut_packets)?;
    }
    match &report.assumed_neighbours[..] {
        [] => {}
        few @ ([_] | [_, _] | [_, _, _]) => writeln!(out, "Neighbours assumed to answer: {}.", few.join(", "))?,
        many => writeln!(out, "{} neighbours are assumed to answer, {} first.", many.len(), many[0])?,
    }
    Ok(())
}

fn counted(ports: &BTreeMap<String, u64>) -> String {
    ports.iter().map(|(port, count)| format!("{count} by {port}")).collect::<Vec<_>>().join(", ")
}

fn print_comparison(
    out: &mut dyn Write,
    arguments: &ReplayArguments,
    report: &ReplayReport,
    against: &Comparison,
) -> Result<()> {
    let (same, changed, old) = (against.same_packets, against.changed_packets, &against.config);
    let unjudged = match against.unjudged_packets {
        0 => String::new(),
        n => format!("; {n} not judged"),
    };
    if changed == 0 {
        let judged = match same {
            0 => format!("No packet could be compared with {old}"),
            1 => format!("The one packet has the same fate with {old}"),
            n => format!("All {n} packets have the same fate with {old}"),
        };
        writeln!(out, "\n{judged}{unjudged}.")?;
        return Ok(());
    }
    writeln!(out, "\n{changed} packets have another fate than with {old}, {same} the same{unjudged}:")?;
    let mut rows = Rows::new(&["before", "now", ">packets", ">first", "packet"]);
    for group in &against.groups {
        let (first, packets) = (group.first_packet.to_string(), group.packets.to_string());
        rows.add([group.before.clone(), group.after.clone(), packets, first, group.first.clone()]);
    }
    rows.print(out)?;
    if let Some(group) = against.groups.first() {
        let (packet, config, file) = (group.first_packet, &report.config, arguments.file.display());
        let port = arguments.port.as_ref().map_or_else(String::new, |port| format!(" --port {port}"));
        let ours = if arguments.as_ours { " --as-ours" } else { "" };
        for (when, config) in [("Why", config), ("Before", old)] {
            writeln!(out, "{when}: switchpath explain --config {config} --pcap {file} --packet {packet}{port}{ours}")?;
        }
    }
    Ok(())
}
