//! A configuration, from its text to a plan, its messages and its differences: a file for each thing that is checked.

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
mod schema;
mod sections;
mod state;
