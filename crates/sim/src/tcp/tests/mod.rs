//! End systems against each other and against hand-written sequences.

mod dumbbell;
mod kernel;
mod laws;
mod newreno;
mod script;
mod selective;
mod theory;
mod web;
