//! Parses the sources of a description.

use super::read::Reader;
use super::tables::{InnerTable, SourceTable};
use super::text::{Text, parsed, quantity, quantity_or, within};
use super::{FlowFields, SourcePlan};
use crate::ephemeral::CarriedInstruction;
use crate::frame::{CHECK_SEQUENCE, HEADERS, TAG};
use crate::inner::{InnerIpv4, InnerPackets};
use crate::source::Pattern;
use esp::isa::InvalidInstruction;
use esp::wire::{Carriages, Locations};
use plan::{Report, did_you_mean, quote};
use std::net::Ipv4Addr;
use toml::Spanned;
use units::{Bytes, Instant, Nanos, Pace, UnitError};

impl Reader<'_> {
    pub fn sources(&mut self, tables: &[Spanned<SourceTable>], duration: Nanos) -> Vec<SourcePlan> {
        let mut sources: Vec<SourcePlan> = Vec::new();
        self.bounded(tables.len(), "source");
        for (index, table) in tables.iter().enumerate() {
            let (span, table) = (table.span(), table.get_ref());
            let name = table.name.get_ref().clone();
            let path = format!("source[{index}]");
            if name.is_empty() || sources.iter().any(|source| source.name == name) {
                let reason = format!("{} is the name of another source", quote(&name));
                self.report.error(table.name.span(), &path, || (reason, "give each source a name of its own".into()));
            }
            let card = self.card(&table.card, &format!("{path}.card"));
            let carries = carries(&mut self.report, table, &path);
            let inner = self.inner(table, &path);
            // Inner packets may have no payload at all. They have no tag then.
            let load = match &inner {
                Some(inner) => inner.header_length(),
                None => carries.map_or(0, |carries| carries.length()) + TAG,
            };
            let sizes = self.sizes(table, &path, load);
            let report = &mut self.report;
            let start = Instant::START + quantity_or(report, &table.start, format!("{path}.start"), Nanos::ZERO);
            let stop = Instant::START + quantity_or(report, &table.stop, format!("{path}.stop"), duration);
            let staggered = table.phase.as_ref().and_then(|text| parsed(report, text, &path, phase)).unwrap_or(false);
            let pattern = pattern(report, table, &path, start);
            let replays = matches!(pattern, Some(Pattern::Replay { .. }));
            let fields = fields(report, table, &path, (index, carries.is_some()), !replays, span);
            if let (Some(card), Some(pattern), Some(fields)) = (card, pattern, fields) {
                let stop = stop.min(Instant::START + duration);
                sources.push(SourcePlan { name, card, sizes, fields, carries, inner, pattern, start, stop, staggered });
            }
        }
        sources
    }

    /// Parses the inner packets of a source.
    fn inner(&mut self, table: &SourceTable, path: &str) -> Option<InnerPackets> {
        let inner = table.inner.as_ref()?;
        let (span, inner, path) = (inner.span(), inner.get_ref(), format!("{path}.inner"));
        if table.instruction.is_some() || table.kind.get_ref() == "replay" {
            let hint = "remove the inner packets, or give the source another kind and no instruction".into();
            let reason = "packets of a capture, and those with an instruction, have no inner packets".into();
            self.report.error(span.clone(), &path, || (reason, hint));
        }
        match inner.code.get_ref().as_str() {
            "ipv4" => inner_ipv4(&mut self.report, inner, &path).map(InnerPackets::Ipv4),
            "i3" => {
                let count = within(&mut self.report, &inner.triggers, format!("{path}.triggers"), (1, 4096), 256);
                let Some(ring) = &self.ring else {
                    let say = || ("the world has no ring".into(), "add [ring]".into());
                    self.report.error(span, path, say);
                    return None;
                };
                let mut workload = ring.workload.clone();
                Some(InnerPackets::I3((0..count).map(|_| workload.packet(0)).collect()))
            }
            other => {
                let reason = format!("there is no generator of packets for the code option {}", quote(other));
                let hint = did_you_mean(other, ["ipv4", "i3"]);
                self.report.error(inner.code.span(), path, || (reason, hint));
                None
            }
        }
    }

    /// Parses the packet sizes of a source; `load` bytes follow the headers at least.
    fn sizes(&mut self, table: &SourceTable, path: &str, load: usize) -> Vec<u64> {
        let least = (HEADERS + load) as u64 + CHECK_SEQUENCE;
        let Some(text) = &table.size else { return vec![least] };
        let mut sizes = Vec::new();
        for word in text.get_ref().split([',', ' ']).filter(|word| !word.is_empty()) {
            let size = word.parse::<Bytes>().map_err(|error| (error.reason, error.hint)).and_then(|size| {
                let hint = || format!("give {least}b to 2040b, including the frame check sequence");
                let fits = (least..=2040).contains(&size.get());
                if fits { Ok(size.get()) } else { Err((format!("no packet of a source has {size}"), hint())) }
            });
            match size {
                Ok(size) => sizes.push(size),
                Err(wrong) => self.report.error(text.span(), format!("{path}.size"), || wrong),
            }
        }
        if sizes.is_empty() { vec![least] } else { sizes }
    }
}

/// The instruction that packets of a source carry. Its keys without an instruction are an error, and so is an instruction in a capture.
fn carries(report: &mut Report<'_>, table: &SourceTable, path: &str) -> Option<CarriedInstruction> {
    let Some(text) = &table.instruction else {
        let at = table.at.as_ref().map(|text| (text.span(), "at"));
        for (span, key) in at.into_iter().chain(table.computations.as_ref().map(|n| (n.span(), "computations"))) {
            let reason = format!("the key '{key}' needs an instruction");
            report.error(span, format!("{path}.{key}"), || (reason, "add instruction = \"count 0x2a upto 1\"".into()));
        }
        return None;
    };
    let read = |text: &str| {
        text.parse().map_err(|no: InvalidInstruction| (format!("{} is no instruction", quote(text)), no.to_string()))
    };
    let instruction = parsed(report, text, &format!("{path}.instruction"), read)?;
    if table.kind.get_ref() == "replay" {
        let reason = "packets of a capture are sent as recorded".to_owned();
        let say = || (reason, "remove the instruction, or give the source another kind".into());
        report.error(text.span(), format!("{path}.instruction"), say);
    }
    let at =
        table.at.as_ref().map_or(Some(Locations::INPUT), |at| parsed(report, at, &format!("{path}.at"), places))?;
    let computations = within(report, &table.computations, format!("{path}.computations"), (0, 1 << 40), 1);
    Some(CarriedInstruction { instruction, at, computations })
}

fn inner_ipv4(report: &mut Report<'_>, table: &InnerTable, path: &str) -> Option<InnerIpv4> {
    let addresses = |text: &str| text.split([',', ' ']).filter(|word| !word.is_empty()).map(ipv4_address).collect();
    let Some(text) = &table.destination else {
        let say = || ("the key 'destination' is missing".to_owned(), "add destination = \"10.0.0.1\"".to_owned());
        report.error(table.code.span(), path, say);
        return None;
    };
    let destinations: Vec<Ipv4Addr> = parsed(report, text, &format!("{path}.destination"), addresses)?;
    if destinations.is_empty() {
        let say = || ("there is no destination".to_owned(), "write an address like \"10.0.0.1\"".to_owned());
        report.error(text.span(), path, say);
        return None;
    }
    let source = match &table.source {
        Some(text) => parsed(report, text, &format!("{path}.source"), ipv4_address)?,
        None => Ipv4Addr::new(172, 16, 0, 1),
    };
    let ports = table.ports.as_ref().map_or([5000, 6000], |ports| *ports.get_ref());
    let ttl = within(report, &table.ttl, format!("{path}.ttl"), (0, 255), 64) as u8;
    Some(InnerIpv4 { destinations, source, ports: (ports[0], ports[1]), ttl, options: table.options })
}

fn ipv4_address(text: &str) -> Result<Ipv4Addr, (String, String)> {
    text.parse().map_err(|_| (format!("{} is no IPv4 address", quote(text)), "write one like \"10.0.0.1\"".into()))
}

/// Parses a list of locations like `"input, output"`.
fn places(text: &str) -> Result<Locations, (String, String)> {
    let mut all = Locations { input: false, central: false, output: false };
    for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
        match word {
            "input" => all.input = true,
            "central" => all.central = true,
            "output" => all.output = true,
            other => {
                let hint = "write one or several of input, central and output".to_owned();
                return Err((format!("unknown place {}", quote(other)), hint));
            }
        }
    }
    Ok(all)
}

/// Parses rates that follow each other: `"10mbit 0 20mbit"`.
fn paces(text: &str) -> Result<Vec<Option<Pace>>, (String, String)> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    let pace = |word: &str| match word {
        "0" => Ok(None),
        _ => word.parse().map(Some).map_err(|error: UnitError| (error.reason, error.hint)),
    };
    let paces: Vec<Option<Pace>> = words.map(pace).collect::<Result<_, _>>()?;
    match paces.iter().any(Option::is_some) {
        true => Ok(paces),
        false => Err(("the source never sends".into(), "write rates like \"10mbit 0 20mbit\"".into())),
    }
}

fn phase(text: &str) -> Result<bool, (String, String)> {
    match text {
        "aligned" => Ok(false),
        "staggered" => Ok(true),
        other => Err((format!("unknown phase {}", quote(other)), "write \"aligned\" or \"staggered\"".into())),
    }
}

/// The arrival pattern of a source. Keys that belong to other kinds are errors.
fn pattern(report: &mut Report<'_>, table: &SourceTable, path: &str, start: Instant) -> Option<Pattern> {
    let kind = table.kind.get_ref().as_str();
    let allowed: &[&str] = match kind {
        "constant" | "poisson" => &["rate"],
        "onoff" => &["rate", "on", "off", "random"],
        "ramp" => &["from", "to", "step", "every", "rise"],
        "steps" => &["rates", "every"],
        "replay" => &["file", "rate", "again"],
        other => {
            let hint = did_you_mean(other, ["constant", "poisson", "onoff", "ramp", "steps", "replay"]);
            let reason = format!("unknown kind of source {}", quote(other));
            report.error(table.kind.span(), format!("{path}.kind"), || (reason, hint));
            return None;
        }
    };
    let texts = [
        ("rate", &table.rate),
        ("on", &table.on),
        ("off", &table.off),
        ("from", &table.from),
        ("to", &table.to),
        ("step", &table.step),
        ("every", &table.every),
        ("rise", &table.rise),
        ("rates", &table.rates),
        ("file", &table.file),
    ];
    let flags = [("random", &table.random), ("again", &table.again)];
    let given = texts.iter().filter_map(|(key, text)| Some((*key, text.as_ref()?.span())));
    let given = given.chain(flags.iter().filter_map(|(key, flag)| Some((*key, flag.as_ref()?.span()))));
    for (key, span) in given.filter(|(key, _)| !allowed.contains(key)) {
        report.error(span, format!("{path}.{key}"), || {
            (format!("a {kind} source has no '{key}'"), format!("its keys are {}", allowed.join(", ")))
        });
    }
    let mut missing = |text: &Option<Text>, key: &str| {
        if text.is_none() {
            let reason = format!("a {kind} source has '{key}'");
            report.error(table.kind.span(), path, || (reason, format!("add {key}")));
        }
    };
    match kind {
        "onoff" => {
            [("rate", &table.rate), ("on", &table.on), ("off", &table.off)].map(|(key, text)| missing(text, key)).len()
        }
        "ramp" => [("from", &table.from), ("to", &table.to), ("step", &table.step)]
            .map(|(key, text)| missing(text, key))
            .len(),
        "steps" => [("rates", &table.rates), ("every", &table.every)].map(|(key, text)| missing(text, key)).len(),
        "replay" => [("file", &table.file)].map(|(key, text)| missing(text, key)).len(),
        _ => [("rate", &table.rate)].map(|(key, text)| missing(text, key)).len(),
    };
    let mut pace = |text: &Option<Text>, key: &str| {
        let (text, path) = (text.as_ref()?, format!("{path}.{key}"));
        let pace = quantity::<Pace>(report, text, &path)?;
        let (part, whole) = pace.gap((HEADERS + TAG) as u64);
        if part < whole {
            let reason = format!("at {pace} the packets are less than a nanosecond apart");
            report.error(text.span(), path, || (reason, "write 1000mpps or less".into()));
        }
        Some(pace)
    };
    let flag = |flag: &Option<Spanned<bool>>| flag.as_ref().is_some_and(|flag| *flag.get_ref());
    Some(match kind {
        "constant" => Pattern::Constant(pace(&table.rate, "rate")?),
        "poisson" => Pattern::Poisson(pace(&table.rate, "rate")?),
        "onoff" => {
            let pace = pace(&table.rate, "rate")?;
            let on = quantity(report, table.on.as_ref()?, &format!("{path}.on"))?;
            let off = quantity(report, table.off.as_ref()?, &format!("{path}.off"))?;
            Pattern::OnOff { pace, spans: (on, off), random: flag(&table.random) }
        }
        "ramp" => {
            let (from, to, step) = (pace(&table.from, "from")?, pace(&table.to, "to")?, pace(&table.step, "step")?);
            if !from.has_same_unit(to) || !from.has_same_unit(step) {
                let reason = "from, to and step mix packets and bits".to_owned();
                report.error(table.kind.span(), path, || (reason, "write all three as packets or as bits".into()));
                return None;
            }
            let every = quantity_or(report, &table.every, format!("{path}.every"), Nanos::secs(1));
            let rise = quantity_or(report, &table.rise, format!("{path}.rise"), start.since(Instant::START));
            Pattern::Ramp { from, to, step, every, rise }
        }
        "steps" => {
            let paces = parsed(report, table.rates.as_ref()?, &format!("{path}.rates"), paces)?;
            let every: Nanos = quantity(report, table.every.as_ref()?, &format!("{path}.every"))?;
            if every == Nanos::ZERO {
                let say = || ("steps without duration".to_owned(), "write a time like \"1s\"".to_owned());
                report.error(table.kind.span(), path, say);
                return None;
            }
            Pattern::Steps { paces, every }
        }
        _ => {
            let rate = pace(&table.rate, "rate");
            Pattern::Replay { file: table.file.as_ref()?.get_ref().clone(), pace: rate, again: flag(&table.again) }
        }
    })
}

fn fields(
    report: &mut Report<'_>,
    table: &SourceTable,
    path: &str,
    (index, carries): (usize, bool),
    needed: bool,
    span: std::ops::Range<usize>,
) -> Option<FlowFields> {
    let destination = match &table.destination {
        Some(text) => parsed(report, text, &format!("{path}.destination"), ipv4_address)?,
        None if needed => {
            let say = || ("the key 'destination' is missing".to_owned(), "add destination = \"10.0.0.1\"".to_owned());
            report.error(span, path, say);
            return None;
        }
        None => Ipv4Addr::UNSPECIFIED,
    };
    let source = match &table.source {
        Some(text) => parsed(report, text, &format!("{path}.source"), ipv4_address)?,
        // From the address range for benchmarks (RFC 2544, appendix C.2.2).
        None => Ipv4Addr::from(0xc612_0000 | (index as u32 + 1)),
    };
    let dscp = |text: &str| {
        let wrong =
            || (format!("{} is no code point", quote(text)), "write \"ef\", \"af31\", \"cs5\" or a number".into());
        plan::dscp_number(text).or_else(|| text.parse().ok()).filter(|&dscp| dscp < 64).ok_or_else(wrong)
    };
    let dscp = match &table.dscp {
        Some(text) => parsed(report, text, &format!("{path}.dscp"), dscp)?,
        None => 0,
    };
    let port = if carries { Carriages::PORT } else { 9 };
    let ports = table.ports.as_ref().map_or([1024 + index as u16, port], |ports| *ports.get_ref());
    let ttl = within(report, &table.ttl, format!("{path}.ttl"), (2, 255), 64) as u8;
    let flows = within(report, &table.flows, format!("{path}.flows"), (1, 60_000), 1);
    Some(FlowFields { source, destination, ports: (ports[0], ports[1]), dscp, ttl, flows })
}
