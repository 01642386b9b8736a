//! Finds where the paths to several hosts diverge.

use super::ping::randomness;
use super::traceroute::{TracerouteResult, trace_route};
use super::transport::PartTransport;
use crate::arguments::ProbeArguments;
use crate::output::{Rows, or_dash, print_json};
use anyhow::Result;
use esp::host::{ProbeQuestion, Probes, branches};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::net::IpAddr;
use std::process::ExitCode;

/// A router. One that executes instructions is known by the name it gets in this search, others by their address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Router {
    Named(u64),
    At(IpAddr),
}

/// The result of the search.
#[derive(Serialize)]
struct BranchReport {
    hops: Vec<BranchHop>,
    branches: Vec<BranchPoint>,
    /// Hosts that were not reached.
    not_reached: Vec<String>,
}

#[derive(Serialize)]
struct BranchHop {
    hop: usize,
    router: Option<String>,
    name: Option<String>,
    towards: Vec<String>,
}

#[derive(Serialize)]
struct BranchPoint {
    hop: usize,
    router: Option<String>,
    exact: bool,
    towards: Vec<Vec<String>>,
}

/// `switchpath state branch`
pub fn branch(hosts: &[IpAddr], line: PartTransport, way: &ProbeArguments, json: bool) -> Result<ExitCode> {
    let probes = Probes::new(randomness());
    let walk = |host: &IpAddr| trace_route(*host, line, probes, &[ProbeQuestion::Input], way);
    let walked = hosts.iter().map(walk).collect::<Result<Vec<TracerouteResult>>>()?;
    let told = find_branches(hosts, &walked);
    let mut out = stdout().lock();
    if json {
        print_json(&mut out, &told)?;
    } else {
        print(&mut out, &told)?;
    }
    Ok(if told.not_reached.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn find_branches(hosts: &[IpAddr], walked: &[TracerouteResult]) -> BranchReport {
    let mut addresses: BTreeMap<Router, IpAddr> = BTreeMap::new();
    let mut path = |TracerouteResult { hops, survey, .. }: &TracerouteResult| -> Vec<Option<Router>> {
        let router = |(number, hop): (u8, &super::traceroute::Hop)| {
            let router = survey.child_number(number).map(Router::Named).or(hop.address.map(Router::At))?;
            hop.address.map(|address| addresses.insert(router, address));
            Some(router)
        };
        (1..).zip(hops).map(router).collect()
    };
    let paths: Vec<_> = walked.iter().map(&mut path).collect();
    let (shared, parted) = branches(&paths);
    let names = |paths: &[usize]| paths.iter().map(|path| hosts[*path].to_string()).collect::<Vec<_>>();
    let address = |router: Option<Router>| router.and_then(|router| addresses.get(&router)).map(IpAddr::to_string);
    let hops = shared.iter().map(|shared| BranchHop {
        hop: shared.hop,
        router: address(shared.router),
        name: shared.router.and_then(|router| match router {
            Router::Named(name) => Some(format!("{name:#018x}")),
            Router::At(_) => None,
        }),
        towards: names(&shared.paths),
    });
    let branches = parted.iter().map(|branch| BranchPoint {
        hop: branch.hop,
        router: address(branch.router),
        exact: branch.exact,
        towards: branch.towards.iter().map(|paths| names(paths)).collect(),
    });
    let lost = hosts.iter().zip(walked).filter(|(_, walked)| walked.end != super::traceroute::TracerouteEnd::Host);
    let not_reached = lost.map(|(host, _)| host.to_string()).collect();
    BranchReport { hops: hops.collect(), branches: branches.collect(), not_reached }
}

fn print(out: &mut dyn Write, told: &BranchReport) -> Result<()> {
    let mut rows = Rows::new(&[">hop", "router", "name", "towards"]);
    for hop in &told.hops {
        let router = hop.router.clone().unwrap_or_else(|| "no answer".to_owned());
        rows.add([hop.hop.to_string(), router, or_dash(hop.name.as_deref()), hop.towards.join(" ")]);
    }
    rows.print(out)?;
    for branch in &told.branches {
        let towards: Vec<String> = branch.towards.iter().map(|towards| towards.join(" ")).collect();
        let at = branch.router.as_deref().unwrap_or("this host");
        let behind = if branch.exact { "" } else { " or behind it, because a router does not answer" };
        writeln!(out, "the paths diverge at {at}{behind}: {}", towards.join(" | "))?;
    }
    if told.branches.is_empty() {
        writeln!(out, "the paths do not diverge, as far as routers answer")?;
    }
    for host in &told.not_reached {
        writeln!(out, "{host} does not answer: the path behind the last hop shown is unknown")?;
    }
    Ok(())
}
