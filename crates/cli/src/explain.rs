//! `switchpath explain`: explains what a router would do with a packet, and why.

use crate::arguments::{ExplainArguments, UsageError};
use crate::configuration::{catalogue_of, read_valid};
use crate::output::{is_coloured, print_json};
use anyhow::{Context, Result, anyhow, bail};
use control::api::{DropExplained, ExplainReply, StepOutcome};
use control::explain::{ExplainPacket, Probe, offline};
use io::pcap::{LinkType, PcapDirection, Reader};
use packet::DropReason;
use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Explains a packet, or a drop reason.
pub fn explain(arguments: &ExplainArguments) -> Result<ExitCode> {
    if let Some(name) = &arguments.drop {
        return explain_drop(name, arguments.json);
    }
    let words = arguments.packet.join(" ");
    let asked = match &arguments.pcap {
        Some(file) => {
            let (frame, came) = frame_of(file, arguments.number)?;
            let ours = arguments.as_ours || came.as_ref().is_some_and(|came| came.is_addressed_to_port);
            ExplainPacket::Frame { port: arguments.port.clone().or(came.map(|came| came.port)), frame, ours }
        }
        None => ExplainPacket::Probe(probe(&words)?),
    };
    let explanation = match &arguments.config {
        Some(file) => {
            let (_, plan) = read_valid(file, &catalogue_of(&arguments.guests)?)?;
            offline(&plan, &asked)?
        }
        None => ask(arguments, &asked, &words)?,
    };
    let mut out = stdout();
    if arguments.json {
        print_json(&mut out, &explanation)?
    } else {
        print(&mut out, &explanation)?
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a packet in words, or reports the wrong word.
fn probe(words: &str) -> Result<Probe> {
    Probe::parse(words).map_err(|error| {
        let under = format!("{}{}", " ".repeat(error.offset), "^".repeat(error.length.max(1)));
        anyhow!(UsageError(format!(
            "the description of the packet is wrong: {}; {}\n  {words}\n  {under}",
            error.reason, error.hint
        )))
    })
}

/// Asks the running router.
fn ask(arguments: &ExplainArguments, asked: &ExplainPacket, words: &str) -> Result<ExplainReply> {
    let mut parameters = Vec::new();
    match asked {
        ExplainPacket::Probe(_) => parameters.push(("packet", words.to_owned())),
        ExplainPacket::Frame { port, frame, ours } => {
            parameters.push(("frame", frame.iter().map(|byte| format!("{byte:02x}")).collect()));
            parameters.extend(port.clone().map(|port| ("port", port)));
            parameters.push(("ours", ours.to_string()));
        }
    }
    Ok(arguments.socket.client().get_with("/v1/explain", &parameters)?)
}

/// How a packet of a capture was received, if the capture records it.
struct Ingress {
    /// The ingress port.
    port: String,
    /// True if the frame was addressed to that port.
    is_addressed_to_port: bool,
}

/// Returns the packet with that number, from 1, of a capture.
fn frame_of(file: &Path, number: u64) -> Result<(Vec<u8>, Option<Ingress>)> {
    let wrong = || format!("the capture '{}' cannot be read", file.display());
    let mut reader = Reader::new(File::open(file).with_context(wrong)?).with_context(wrong)?;
    for _ in 1..number {
        if reader.next_record().with_context(wrong)?.is_none() {
            bail!("'{}' has fewer than {number} packets", file.display());
        }
    }
    if !reader.advance().with_context(wrong)? {
        bail!("'{}' has fewer than {number} packets", file.display());
    }
    let record = reader.record().context("it has advanced to one")?;
    if record.link != LinkType::ETHERNET {
        bail!("packet {number} is no Ethernet frame");
    }
    let interface = reader.interfaces().get(record.interface as usize);
    let came = interface.filter(|_| record.direction == PcapDirection::In).and_then(|interface| {
        let ours = record.data.starts_with(&interface.mac?.0);
        Some(Ingress { port: interface.name.clone(), is_addressed_to_port: ours })
    });
    Ok((record.data.to_vec(), came))
}

fn print(out: &mut dyn Write, explanation: &ExplainReply) -> Result<()> {
    let coloured = is_coloured(&stdout());
    let paint = |code: &str, text: &str| match coloured {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    };
    writeln!(out, "{} in  {}", explanation.in_port, explanation.packet)?;
    for step in &explanation.steps {
        let mark = match step.outcome {
            StepOutcome::Pass => paint("32", "+"),
            StepOutcome::Fail => paint("31", "-"),
            StepOutcome::Note => " ".to_owned(),
        };
        writeln!(out, "  {mark} {:<10} {}", step.step, step.text)?;
    }
    writeln!(out, "{}", paint("1", &explanation.conclusion))?;
    match &explanation.drop {
        Some(drop) => Ok(writeln!(out, "  {}", drop.hint)?),
        None => Ok(()),
    }
}

fn explain_drop(name: &str, json: bool) -> Result<ExitCode> {
    let Some(reason) = DropReason::named(name) else {
        let names = DropReason::ALL.iter().map(|reason| reason.name());
        let hint = plan::did_you_mean(name, names);
        return Err(anyhow!(UsageError(format!("{} is no drop reason; {hint}", plan::quote(name)))));
    };
    let drop = DropExplained::from(reason);
    let mut out = stdout();
    if json {
        print_json(&mut out, &drop)?;
    } else {
        writeln!(out, "{}: {}\n{}", drop.reason, drop.explanation, drop.hint)?;
    }
    Ok(ExitCode::SUCCESS)
}
