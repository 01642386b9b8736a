//! Tests from a configuration's text to its plan, diagnostics and differences: a file for each topic.

mod admission;
mod advertisements;
mod catalogue;
mod cpu;
mod diagnostics;
mod differences;
mod examples;
mod functions;
mod matches;
mod policies;
mod routes;
mod rule_batches;
mod rules;
mod schema;
mod sections;
mod shares;
mod state;
mod tunnels;
