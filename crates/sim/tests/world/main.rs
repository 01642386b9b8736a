//! Whole worlds, each small enough to be computed by hand.

mod common;
mod laws;
mod links;
mod routers;
mod state;
mod wrong;
