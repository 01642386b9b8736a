//! Prints the instructions in a capture.

use crate::output::{date_and_time, print_json};
use anyhow::{Context, Result, bail};
use esp::registered::RegisteredPart;
use esp::seal;
use esp::wire::{Carriage, Carriages, Locations, Part, PartError};
use io::pcap::{LinkType, PcapRecord, Reader};
use packet::wire::{ip_summary, summary};
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, Write, stdout};
use std::path::Path;
use std::process::ExitCode;

/// The link types in which IP packets are found, in words.
const KNOWN: &str = "Ethernet (1), IP without a link (101, 228, 229), Linux cooked (113, 276), BSD loopback (0, 108)";

/// A packet with an instruction.
#[derive(Serialize)]
struct Dumped {
    time_ns: u64,
    packet: String,
    carriage: &'static str,
    computation: Option<String>,
    at: Vec<&'static str>,
    instruction: Option<String>,
    piggybacked: bool,
    /// True if it is sealed. The seal is not verified.
    sealed: bool,
    /// True if its sender asks routers to trace it.
    trace: bool,
    error: bool,
    /// The reason why no router executes it.
    wrong: Option<&'static str>,
}

/// `switchpath state dump`
pub fn dump(file: &Path, carriages: &Carriages, json: bool) -> Result<ExitCode> {
    let source = File::open(file).with_context(|| format!("'{}' cannot be read", file.display()))?;
    let mut reader = Reader::new(BufReader::new(source)).with_context(|| file.display().to_string())?;
    let (mut found, mut all) = (0u64, 0u64);
    let mut out = stdout().lock();
    while let Some(record) = reader.next_record().with_context(|| file.display().to_string())? {
        all += 1;
        if !record.link.is_known() {
            bail!("'{}' has packets of link type {}; supported are {KNOWN}", file.display(), record.link.0);
        }
        let Some(l3) = record.link.packet(record.data) else { continue };
        let Some(mut dumped) = read(carriages, l3) else { continue };
        (dumped.time_ns, dumped.packet) = (record.time.get(), described(&record, l3));
        found += 1;
        if json {
            print_json(&mut out, &dumped)?;
        } else {
            writeln!(out, "{} {}", date_and_time(dumped.time_ns), line(&dumped))?;
        }
    }
    if !json {
        writeln!(out, "{found} of {all} packets carry an instruction")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Summarizes a packet, with its link header if that is Ethernet.
fn described(record: &PcapRecord<'_>, l3: &[u8]) -> String {
    if record.link == LinkType::ETHERNET { summary(record.data).to_string() } else { ip_summary(l3).to_string() }
}

fn read(carriages: &Carriages, l3: &[u8]) -> Option<Dumped> {
    let (range, carriage) = carriages.find(l3)?;
    let carriage = match carriage {
        Carriage::Protocol => "ip",
        Carriage::Udp => "udp",
        Carriage::Option => "option",
    };
    let mut dumped = Dumped {
        time_ns: 0,
        packet: String::new(),
        carriage,
        computation: None,
        at: Vec::new(),
        instruction: None,
        piggybacked: false,
        sealed: false,
        trace: false,
        error: false,
        wrong: None,
    };
    let bytes = &l3[range];
    dumped.sealed = Part::read(bytes) == Err(PartError::Sealed);
    match seal::read(bytes) {
        Ok(part) => {
            dumped.at = names(part.locations);
            dumped.computation = Some(format!("{:#x}", part.computation));
            dumped.instruction = Some(part.instruction.to_string());
            (dumped.piggybacked, dumped.trace, dumped.error) = (part.piggybacked, part.trace, part.error);
        }
        Err(PartError::NotAPart | PartError::Sealed) => return None,
        Err(PartError::Invalid(why)) => match RegisteredPart::read(&seal::unsealed(bytes)) {
            Ok(part) => {
                let RegisteredPart { locations, computation, instruction, piggybacked, trace, error } = part;
                dumped.at = names(locations);
                dumped.computation = Some(format!("{computation:#x}"));
                dumped.instruction = Some(instruction.to_string());
                (dumped.piggybacked, dumped.trace, dumped.error) = (piggybacked, trace, error);
                dumped.sealed = seal::is_sealed(bytes);
            }
            Err(_) => dumped.wrong = Some(why.name()),
        },
    }
    Some(dumped)
}

/// The places at which it is to be executed, in words.
fn names(locations: Locations) -> Vec<&'static str> {
    let places = [("input", locations.input), ("central", locations.central), ("output", locations.output)];
    places.into_iter().filter(|(_, at)| *at).map(|(name, _)| name).collect()
}

fn line(dumped: &Dumped) -> String {
    let Dumped { carriage, computation: Some(computation), instruction: Some(instruction), .. } = dumped else {
        return format!("by {}: not executed, {}; {}", dumped.carriage, dumped.wrong.unwrap_or("wrong"), dumped.packet);
    };
    let mut notes = String::new();
    if dumped.piggybacked {
        notes.push_str(", piggybacked");
    }
    if dumped.sealed {
        notes.push_str(", sealed");
    }
    if dumped.trace {
        notes.push_str(", traced");
    }
    if dumped.error {
        notes.push_str(", a router could not execute it");
    }
    let at = if dumped.at.is_empty() { "nowhere".to_owned() } else { dumped.at.join("+") };
    format!("{instruction} of {computation} at {at} by {carriage}{notes}; {}", dumped.packet)
}
