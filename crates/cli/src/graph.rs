//! `switchpath graph`: the way of packets through a configuration, as text, as a graph for Graphviz, or as a picture.

mod dot;
mod svg;

use crate::arguments::{GraphArguments, GraphFormat};
use crate::configuration::{catalogue_of, read_valid};
use crate::output::print_json;
use anyhow::{Result, anyhow};
use control::api;
use plan::{Catalogue, PathPlan, Plan};
use plane::snapshot::BEST_EFFORT_CAPACITY;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// The way of packets: ports, paths in the order of matching, and ports again.
#[derive(Serialize, Debug)]
struct PathGraph {
    /// The ports, in the order of the configuration.
    ports: Vec<GraphPort>,
    /// The paths, the first match first. The last has all other packets.
    paths: Vec<GraphPath>,
}

#[derive(Serialize, Debug)]
struct GraphPort {
    name: String,
    device: String,
    /// The queueing scheme of its link.
    scheme: String,
}

/// A path: an input queue, functions, an output queue.
#[derive(Serialize, Debug)]
struct GraphPath {
    name: String,
    /// Its packets, in words.
    packets: String,
    input: String,
    functions: Vec<String>,
    output: String,
    /// Packets that leave it for other paths: the rule, and the path.
    leads: Vec<(String, String)>,
}

impl PathGraph {
    fn of(plan: &Plan) -> PathGraph {
        let port = |port: &plan::PortPlan| GraphPort {
            name: port.name.to_string(),
            device: port.device.to_string(),
            scheme: port.scheme.brief().to_string(),
        };
        let scheduler = plan.cpu.flow_scheduler.name;
        let mut paths: Vec<GraphPath> = plan.paths.iter().map(|path| GraphPath::of(path, scheduler)).collect();
        let queue = || format!("queue {BEST_EFFORT_CAPACITY}");
        paths.push(GraphPath {
            name: "best-effort".to_string(),
            packets: "all other packets".to_string(),
            input: queue(),
            functions: vec!["ip".to_string()],
            output: queue(),
            leads: Vec::new(),
        });
        PathGraph { ports: plan.ports.iter().map(port).collect(), paths }
    }

    /// The graph in words.
    fn text(&self) -> String {
        let names: Vec<&str> = self.ports.iter().map(|port| port.name.as_str()).collect();
        let mut out =
            format!("receive by {}\n", if names.is_empty() { "no port".to_string() } else { names.join(", ") });
        out += "classify: the first path that matches\n";
        let width = self.paths.iter().map(|path| path.name.len()).max().unwrap_or(0);
        for path in &self.paths {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {:width$}  {}", path.name, path.packets);
            let way: Vec<&str> = path.way().collect();
            let _ = writeln!(out, "  {:width$}    {}", "", way.join(" -> "));
            for (rule, to) in &path.leads {
                let _ = writeln!(out, "  {:width$}    {rule} -> path {to}", "");
            }
        }
        out += "transmit\n";
        let width = self.ports.iter().map(|port| port.name.len()).max().unwrap_or(0);
        for port in &self.ports {
            let _ = writeln!(out, "  {:width$}  {} -> {}", port.name, port.scheme, port.device);
        }
        out
    }
}

impl GraphPath {
    fn of(path: &PathPlan, scheduler: &str) -> GraphPath {
        let packets = match (&path.matching, path.cpu.reservations) {
            (Some(matching), false) => matching.to_string(),
            (Some(matching), true) => format!("{matching}; flows of `switchpath reserve`"),
            (None, _) => "flows of `switchpath reserve`".to_string(),
        };
        let input = match (path.cpu.reservations, path.cpu.interleave) {
            (false, _) => format!("queue {}", path.input_queue),
            (true, false) => format!("a queue for each flow, {scheduler}"),
            (true, true) => format!("a queue for each flow, {scheduler} selects after each function"),
        };
        // A rule ends with its path.
        let lead = |rule: &plan::DispatchRule| {
            let text = rule.to_string();
            (text.trim_end().trim_end_matches(rule.path.as_str()).trim_end().to_string(), rule.path.clone())
        };
        GraphPath {
            name: path.name.clone(),
            packets,
            input,
            functions: path.functions.iter().map(|call| call.brief().to_string()).collect(),
            output: format!("queue {}", path.output_queue),
            leads: path.dispatch.iter().map(lead).collect(),
        }
    }

    /// Its stages in order.
    fn way(&self) -> impl Iterator<Item = &str> {
        let ends = [&self.input, &self.output].map(String::as_str);
        std::iter::once(ends[0]).chain(self.functions.iter().map(String::as_str)).chain(std::iter::once(ends[1]))
    }
}

/// `switchpath graph`
pub fn graph(arguments: &GraphArguments) -> Result<ExitCode> {
    let catalogue = catalogue_of(&arguments.guests)?;
    let plan = match &arguments.file {
        Some(file) => read_valid(file, &catalogue)?.1,
        None => running(arguments, &catalogue)?,
    };
    let graph = PathGraph::of(&plan);
    let mut out = stdout();
    match arguments.format {
        _ if arguments.json => print_json(&mut out, &graph)?,
        GraphFormat::Text => out.write_all(graph.text().as_bytes())?,
        GraphFormat::Dot => out.write_all(graph.dot().as_bytes())?,
        GraphFormat::Svg => out.write_all(graph.svg().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The running configuration.
fn running(arguments: &GraphArguments, catalogue: &Catalogue) -> Result<Plan> {
    let config: api::Config = arguments.socket.client().get("/v1/config")?;
    let name = config.name;
    plan::check(&config.text, &name, catalogue)
        .map_err(|wrong| anyhow!("the running configuration '{name}' cannot be read here: {wrong}"))
}
