//! `switchpath guest bench`: the cost of a guest per packet, beside built-in schemes.

use super::Named;
use crate::bench::guests::{BATCHES, compare};
use crate::bench::{BenchFigure, table};
use anyhow::Result;
use cli::arguments::BenchGuest;
use cli::output::{Rows, brief, print_json};
use extension::Runtime;
use io::clock;
use serde::Serialize;
use std::io::{Write, stdout};
use std::process::ExitCode;

#[derive(Serialize)]
struct Json<'a> {
    file: String,
    scheme: &'a str,
    /// Time from the file to compiled code.
    compile_ns: u64,
    /// Time from compiled code to a guest that is ready.
    instantiate_ns: u64,
    costs: Vec<JsonCost<'a>>,
    /// The figures that have a budget.
    figures: &'a [BenchFigure],
}

#[derive(Serialize)]
struct JsonCost<'a> {
    scheme: &'a str,
    batch: usize,
    ns_per_packet: f64,
}

/// Measures, and prints a table or JSON.
pub fn bench(arguments: &BenchGuest) -> Result<ExitCode> {
    let of = &arguments.of;
    if cfg!(debug_assertions) {
        eprintln!("note: this is a debug build; its figures say nothing about a release build");
    }
    let runtime = Runtime::timed(clock::processor_time).map_err(cli::guests::no_runtime)?;
    let named = Named::find(&of.file, of.options.as_deref(), runtime)?;
    let costs = compare(&named.program, &named.values(), arguments.quick)?;
    let name = named.call.text.as_str();
    let each = || costs.schemes.iter().map(|(scheme, each)| (scheme.unwrap_or(name), each));
    let out = &mut stdout();
    let (compile, instantiate) = (named.compile, costs.instantiate);
    if of.json {
        let cost = |(scheme, each): (_, &[f64; BATCHES.len()])| {
            let of = |(batch, cost): (&usize, &f64)| JsonCost { scheme, batch: *batch, ns_per_packet: *cost };
            BATCHES.iter().zip(each).map(of).collect::<Vec<_>>()
        };
        let json = Json {
            file: of.file.display().to_string(),
            scheme: name,
            compile_ns: compile.get(),
            instantiate_ns: instantiate.get(),
            costs: each().flat_map(cost).collect(),
            figures: &costs.figures,
        };
        print_json(out, &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "ns a packet, in addition to queues without a scheme, for batches of this size:")?;
    let mut rows = Rows::new(&["SCHEME", ">1", ">8", ">32"]);
    for (scheme, costs) in each() {
        let [one, some, many] = costs.map(|cost| format!("{cost:.1}"));
        rows.add([scheme.into(), one, some, many]);
    }
    rows.print(out)?;
    writeln!(out, "{}", table(&costs.figures))?;
    writeln!(out, "compiled in {}, instantiated in {}", brief(compile.get()), brief(instantiate.get()))?;
    Ok(ExitCode::SUCCESS)
}
