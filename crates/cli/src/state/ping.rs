//! Finds the routers on the way to a host that execute instructions.

use super::traceroute::{TracerouteEnd, TracerouteResult, trace_route};
use super::transport::PartTransport;
use crate::arguments::ProbeArguments;
use crate::output::{Rows, brief, or_dash, print_json};
use anyhow::Result;
use esp::host::{HopExecution, ProbeQuestion, Probes};
use serde::Serialize;
use std::hash::{BuildHasher, RandomState};
use std::io::{Write, stdout};
use std::net::IpAddr;
use std::process::ExitCode;

/// The result of a search.
#[derive(Serialize)]
struct PingReport {
    host: String,
    /// How the search ended: `host`, `unreachable`, `silence`, `limit`.
    end: &'static str,
    hops: Vec<PingHop>,
}

#[derive(Serialize)]
struct PingHop {
    hop: usize,
    address: Option<String>,
    delay_ns: Option<u64>,
    input: &'static str,
    central: &'static str,
    output: &'static str,
    node: Option<String>,
}

impl PingHop {
    fn executes(&self) -> bool {
        [self.input, self.central, self.output].contains(&word(HopExecution::Yes))
    }
}

fn word(executes: HopExecution) -> &'static str {
    match executes {
        HopExecution::Yes => "yes",
        HopExecution::No => "no",
        HopExecution::Failed => "failed",
        HopExecution::Unknown => "unknown",
    }
}

/// Returns random numbers of the operating system.
pub fn randomness() -> [u64; 2] {
    let random = RandomState::new();
    [random.hash_one(0), random.hash_one(1)]
}

/// `switchpath state ping`
pub fn ping(host: IpAddr, line: PartTransport, way: &ProbeArguments, json: bool) -> Result<ExitCode> {
    let walked = trace_route(host, line, Probes::new(randomness()), &ProbeQuestion::ALL, way)?;
    let told = ping_report(host, &walked);
    let mut out = stdout().lock();
    if json {
        print_json(&mut out, &told)?;
    } else {
        print(&mut out, &told, walked.end)?;
    }
    Ok(if walked.end == TracerouteEnd::Host { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn ping_report(host: IpAddr, TracerouteResult { hops, survey, end }: &TracerouteResult) -> PingReport {
    let of = |(number, hop): (u8, &super::traceroute::Hop)| {
        let executes = |question| word(survey.execution_at(question, number));
        PingHop {
            hop: number.into(),
            address: hop.address.map(|address| address.to_string()),
            delay_ns: hop.delay.map(|delay| delay.get()),
            input: executes(ProbeQuestion::Input),
            central: executes(ProbeQuestion::Central),
            output: executes(ProbeQuestion::Output),
            node: survey.node_number(number).map(|node| format!("{node:#x}")),
        }
    };
    let end = match end {
        TracerouteEnd::Host => "host",
        TracerouteEnd::Unreachable => "unreachable",
        TracerouteEnd::Silence => "silence",
        TracerouteEnd::Limit => "limit",
    };
    PingReport { host: host.to_string(), end, hops: (1..).zip(hops).map(of).collect() }
}

fn print(out: &mut dyn Write, told: &PingReport, end: TracerouteEnd) -> Result<()> {
    let mut rows = Rows::new(&[">hop", "address", ">delay", "input", "central", "output", "node"]);
    for hop in &told.hops {
        let cell = |word: &'static str| if word == "unknown" { "?".to_owned() } else { word.to_owned() };
        // The last hop is the host, which forwards nothing and so has no output place.
        let last = end == TracerouteEnd::Host && hop.hop == told.hops.len();
        rows.add([
            hop.hop.to_string(),
            hop.address.clone().unwrap_or_else(|| "no answer".to_owned()),
            hop.delay_ns.map_or_else(|| "-".to_owned(), brief),
            cell(hop.input),
            cell(hop.central),
            if last { "-".to_owned() } else { cell(hop.output) },
            or_dash(hop.node.as_deref()),
        ]);
    }
    rows.print(out)?;
    let routers = told.hops.len() - usize::from(end == TracerouteEnd::Host);
    let executing = told.hops.iter().filter(|hop| hop.executes()).count();
    let silent = told.hops.iter().filter(|hop| hop.address.is_none()).count();
    write!(out, "{executing} of {routers} routers are known to execute instructions")?;
    if silent > 0 {
        write!(out, ", {silent} do not answer")?;
    }
    let host = &told.host;
    match end {
        TracerouteEnd::Host => writeln!(out, "; {host} is reached")?,
        TracerouteEnd::Unreachable => writeln!(out, "; the last one reports that {host} is unreachable")?,
        TracerouteEnd::Silence => writeln!(out, "; {host} does not answer either, or is farther away")?,
        TracerouteEnd::Limit => writeln!(out, "; {host} is farther away")?,
    }
    if let Some(failed) =
        told.hops.iter().find(|hop| [hop.input, hop.central, hop.output].contains(&word(HopExecution::Failed)))
    {
        writeln!(out, "hop {} could not execute a probe: the abilities of routers behind it are unknown", failed.hop)?;
    }
    Ok(())
}
