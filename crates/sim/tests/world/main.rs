//! Whole worlds, each small enough to be computed by hand.

mod common;
mod errors;
mod invariants;
mod links;
mod routers;
mod slices;
mod state;
