//! `switchpath trace`: follows packets of the running router through its stages.

use crate::arguments::TraceArguments;
use crate::capture::{Output, create, end_with_signals, matching};
use crate::cpu_trace;
use crate::output::{is_coloured, time_of_day};
use anyhow::{Context, Result, anyhow};
use control::Body;
use control::api::TracedPacket;
use io::pcap::{LinkType, PcapDirection, PcapInterface, PcapRecord, Writer};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write, stderr, stdout};
use std::process::ExitCode;
use units::{Instant, Mac};

/// Follows packets until the packet limit, the end of the router, or a signal.
pub fn trace(arguments: &TraceArguments) -> Result<ExitCode> {
    if arguments.cpu {
        return cpu_trace::trace(arguments);
    }
    let mut parameters = vec![("match", matching(&arguments.matching)?), ("rate", arguments.rate.to_string())];
    parameters.extend(arguments.count.map(|count| ("limit", count.to_string())));
    parameters.extend(arguments.port.clone().map(|port| ("port", port)));
    // Open the file first: if that fails, the router need not be asked.
    let mut file = arguments.write.as_deref().map(create).transpose()?.map(File::new);
    let body = arguments.socket.client().open_stream("/v1/trace", &parameters)?;
    end_with_signals(&body)?;
    let mut lines = BufReader::new(body);
    let (mut line, mut packets) = (String::new(), 0);
    while lines.read_line(&mut line).context("the trace ended early")? > 0 {
        let packet: TracedPacket = serde_json::from_str(&line).context("the trace cannot be read")?;
        packets += 1;
        let mut out = stdout().lock();
        if arguments.json {
            out.write_all(line.as_bytes())?
        } else {
            print(&mut out, &packet)?
        }
        out.flush()?;
        if let Some(file) = &mut file {
            file.add(&packet)?;
        }
        line.clear();
    }
    if let Some(file) = file {
        file.writer.finish()?;
    }
    let missed = Body::missed(lines.get_ref()).filter(|&missed| missed > 0);
    let missed = missed.map_or_else(String::new, |missed| format!(", {missed} missed"));
    writeln!(stderr(), "{packets} packet{}{missed}", if packets == 1 { "" } else { "s" })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a headline, then a line for each stage: the time since arrival, the event, and the time waited before.
fn print(out: &mut dyn Write, packet: &TracedPacket) -> Result<()> {
    let (bold, plain) = if is_coloured(&stdout()) { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    writeln!(out, "{bold}{} {}  {}{plain}", time_of_day(packet.time_ns), packet.in_port, packet.packet)?;
    for stage in &packet.stages {
        writeln!(out, "  {:>10} {:<10} {}", after(stage.after_ns), stage.stage, stage.text)?;
    }
    if let Some(drop) = &packet.drop {
        writeln!(out, "  {:>10} {:<10} {}", "", "", drop.hint)?;
    }
    if packet.skipped_stages > 0 {
        writeln!(out, "  and {} more stages", packet.skipped_stages)?;
    }
    Ok(())
}

/// Formats a short time with its unit: `+12.3us`.
fn after(ns: u64) -> String {
    match ns {
        0..1000 => format!("+{ns}ns"),
        1000..1_000_000 => format!("+{:.1}us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("+{:.1}ms", ns as f64 / 1e6),
        _ => format!("+{:.2}s", ns as f64 / 1e9),
    }
}

/// The capture that also receives the frames.
struct File {
    writer: Writer<Output>,
    /// The numbers of the interfaces in the file, by name and MAC address.
    interfaces: HashMap<(String, Option<Mac>), u32>,
}

impl File {
    fn new(writer: Writer<Output>) -> File {
        File { writer, interfaces: HashMap::new() }
    }

    /// Adds the frame as received, with its stages, and as sent.
    fn add(&mut self, packet: &TracedPacket) -> Result<()> {
        let way: Vec<String> = packet
            .stages
            .iter()
            .map(|stage| format!("{} {}: {}", after(stage.after_ns), stage.stage, stage.text))
            .collect();
        let came = (packet.in_port.as_str(), packet.in_station.as_deref());
        self.write(packet.time_ns, came, PcapDirection::In, &packet.frame, &way.join("\n"))?;
        if let (Some(port), Some(frame)) = (&packet.out_port, &packet.sent_frame) {
            let comment = format!("sent {port}, {} after it arrived on {}", after(packet.took_ns), packet.in_port);
            let left = (port.as_str(), packet.out_station.as_deref());
            self.write(packet.time_ns + packet.took_ns, left, PcapDirection::Out, frame, &comment)?;
        }
        Ok(self.writer.flush()?)
    }

    /// Adds a frame that passed a port, which has a name and a MAC address.
    fn write(
        &mut self,
        time_ns: u64,
        (port, station): (&str, Option<&str>),
        direction: PcapDirection,
        hex: &str,
        comment: &str,
    ) -> Result<()> {
        let data = bytes(hex).ok_or_else(|| anyhow!("the router answered with a frame that is not hexadecimal"))?;
        let key = (port.to_owned(), station.and_then(|station| station.parse().ok()));
        let interface = match self.interfaces.get(&key) {
            Some(&known) => known,
            None => {
                let (name, station) = key.clone();
                let new = PcapInterface { name, link: LinkType::ETHERNET, snap_length: 0, mac: station };
                let number = self.writer.add_interface(new)?;
                self.interfaces.insert(key, number);
                number
            }
        };
        let (time, link, original) = (Instant::new(time_ns), LinkType::ETHERNET, data.len() as u32);
        Ok(self.writer.packet(&PcapRecord { time, interface, link, original, data: &data, direction, comment })?)
    }
}

/// Decodes pairs of hexadecimal digits.
pub fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    hex.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (ns, text) in
            [(0, "+0ns"), (999, "+999ns"), (12_345, "+12.3us"), (5_000_000, "+5.0ms"), (3_210_000_000, "+3.21s")]
        {
            assert_eq!(after(ns), text);
        }
    }
}
