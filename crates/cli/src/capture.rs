//! `switchpath capture`: packets of the running router with their fates, to the terminal or to a file.

use crate::arguments::{CaptureArguments, UsageError};
use crate::output::time_of_day;
use anyhow::{Context, Result, anyhow};
use control::Body;
use io::pcap::{CaptureProgram, PcapDirection, PcapInterface, PcapRecord, PcapSink, Reader, Writer};
use packet::wire;
use plan::Match;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Stdout, Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use units::Nanos;

/// Captures until the packet limit, the end of the router, or a signal.
pub fn capture(arguments: &CaptureArguments) -> Result<ExitCode> {
    let mut parameters = vec![("match", matching(&arguments.matching)?)];
    parameters.extend(arguments.count.map(|count| ("limit", count.to_string())));
    parameters.extend(arguments.snaplen.map(|bytes| ("snaplen", bytes.to_string())));
    // A file also gets arriving packets, which `replay` needs. On the terminal one line with the fate is enough.
    parameters.extend(arguments.write.as_ref().map(|_| ("arrivals", "true".to_owned())));
    // Open the file first: if that fails, the router need not be asked.
    let output = arguments.write.as_deref().map(create).transpose()?;
    let body = arguments.socket.client().open_stream("/v1/capture", &parameters)?;
    end_with_signals(&body)?;
    let output = Rc::new(RefCell::new(output));
    let missed = Rc::new(RefCell::new(None));
    let source = Source { body, output: output.clone(), missed: missed.clone() };
    let mut reader = Reader::new(source).context("the capture cannot be read")?;
    let mut packets: u64 = 0;
    // The numbers of the interfaces in the output.
    let mut interfaces: Vec<u32> = Vec::new();
    // The comment of a received packet. If the next record has the same comment, it is the same packet as sent.
    let mut came: Option<String> = None;
    while let Some(record) = reader.next_record().context("the capture ended early")? {
        let is_second = record.direction == PcapDirection::Out && came.as_deref() == Some(record.comment);
        packets += u64::from(!is_second);
        let is_first = record.direction == PcapDirection::In && record.comment.starts_with("sent ");
        came = is_first.then(|| record.comment.to_owned());
        // A copy: the record borrows from the reader, and the list of interfaces, which may have a new one, belongs to the reader too.
        let (data, comment) = (record.data.to_vec(), record.comment.to_owned());
        let record = PcapRecord { data: &data, comment: &comment, ..record };
        match &mut *output.borrow_mut() {
            None => print(&record, reader.interfaces())?,
            Some(writer) => write(writer, &record, &mut interfaces, reader.interfaces())?,
        }
    }
    if let Some(writer) = output.borrow_mut().take() {
        writer.finish()?;
    }
    let missed = missed.borrow().filter(|&missed| missed > 0).map_or_else(String::new, |n| format!(", {n} missed"));
    writeln!(stderr(), "{packets} packet{}{missed}", if packets == 1 { "" } else { "s" })?;
    Ok(ExitCode::SUCCESS)
}

/// Parses the words of a match, or reports the wrong one.
pub fn matching(words: &[String]) -> Result<String> {
    let text = if words.is_empty() { "any".to_owned() } else { words.join(" ") };
    match Match::parse_without_routes(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            let under = format!("{}{}", " ".repeat(error.offset), "^".repeat(error.length.max(1)));
            let reason = format!("the match is wrong: {}; {}\n  {text}\n  {under}", error.reason, error.hint);
            Err(anyhow!(UsageError(reason)))
        }
    }
}

/// Prints one line: time, port and direction, summary, fate.
fn print(record: &PcapRecord<'_>, interfaces: &[PcapInterface]) -> Result<()> {
    let port = interfaces.get(record.interface as usize).map_or("?", |interface| interface.name.as_str());
    let way = if record.direction == PcapDirection::Out { "out" } else { "in" };
    let summary = wire::summary(record.data);
    writeln!(stdout(), "{} {port} {way}  {summary}  [{}]", time_of_day(record.time.get()), record.comment)?;
    Ok(())
}

fn write(
    writer: &mut Writer<Output>,
    record: &PcapRecord<'_>,
    numbers: &mut Vec<u32>,
    interfaces: &[PcapInterface],
) -> Result<()> {
    for interface in &interfaces[numbers.len()..] {
        numbers.push(writer.add_interface(interface.clone())?);
    }
    let interface = numbers.get(record.interface as usize).copied().context("a packet of an unknown interface")?;
    Ok(writer.packet(&PcapRecord { interface, ..*record })?)
}

/// Creates a capture for a file, or for the standard output with `-`. Its times already count from 1970.
pub fn create(path: &Path) -> Result<Writer<Output>> {
    let output = match path {
        path if path == Path::new("-") => Output::Standard(stdout()),
        path => Output::File(File::create(path).with_context(|| format!("{} cannot be written", path.display()))?),
    };
    Ok(Writer::new(output, &CaptureProgram::here(concat!("switchpath ", env!("CARGO_PKG_VERSION"))), Nanos::ZERO)?)
}

/// The output of a capture.
pub enum Output {
    /// A file.
    File(File),
    /// The standard output.
    Standard(Stdout),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Output::File(file) => file.write(bytes),
            Output::Standard(out) => out.write(bytes),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Output::File(file) => file.flush(),
            Output::Standard(out) => out.flush(),
        }
    }
}

impl PcapSink for Output {
    fn truncate_to(&mut self, length: u64) -> std::io::Result<()> {
        match self {
            Output::File(file) => file.truncate_to(length),
            // A pipe cannot be truncated.
            Output::Standard(_) => Ok(()),
        }
    }
}

/// The growing capture. Before it waits for more data it flushes the output. So a reader of the file sees every packet at once, and a burst costs one
/// write.
struct Source {
    body: Body,
    output: Rc<RefCell<Option<Writer<Output>>>>,
    missed: Rc<RefCell<Option<u64>>>,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Some(writer) = &mut *self.output.borrow_mut() {
            writer.flush().map_err(|error| error.error)?;
        }
        let read = self.body.read(buffer)?;
        *self.missed.borrow_mut() = self.body.missed();
        Ok(read)
    }
}

/// Lets a signal end the capture as if the router had ended it.
pub fn end_with_signals(body: &Body) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let end = body.stopper();
    let wait = move || {
        if signals.forever().next().is_some() {
            end();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}
