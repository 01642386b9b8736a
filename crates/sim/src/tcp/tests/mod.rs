//! End systems against each other and against hand-written sequences.

mod dumbbell;
mod laws;
mod newreno;
mod script;
mod theory;
mod web;
