//! End systems against each other and against hand-written sequences.

mod dumbbell;
mod kernel;
mod newreno;
mod reliability;
mod script;
mod selective;
mod theory;
mod web;
