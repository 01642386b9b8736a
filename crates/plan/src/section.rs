//! The sections of the configuration. Each has a file with its keys, its plan, its checks and its differences.
//!
//! A section uses nothing of this file, and other sections only in one direction:
//!
//! ```text
//! objectives <- policy <- port <- {passthrough, path, state, subscribers};  passthrough <- linux;  {path, linux} <- nat;  path <- routing;  router, cpu, route, neighbour, multicast, set
//! ```

pub(crate) mod cpu;
pub(crate) mod linux;
pub(crate) mod multicast;
pub(crate) mod nat;
pub(crate) mod neighbour;
pub(crate) mod objectives;
pub(crate) mod passthrough;
pub(crate) mod path;
pub(crate) mod policy;
pub(crate) mod port;
pub(crate) mod route;
pub(crate) mod router;
pub(crate) mod routing;
pub(crate) mod set;
pub mod state;
pub(crate) mod subscribers;

use crate::key::{Key, Kind, required};

/// The supported version of the format.
pub(crate) const VERSION: u64 = 1;

/// The top-level keys of the file.
pub(crate) const ROOT: &[Key] = &[
    required("version", Kind::Integer { least: VERSION, most: VERSION }, "1", "The version of the format."),
    router::KEY,
    cpu::KEY,
    port::KEY,
    route::KEY,
    neighbour::KEY,
    multicast::KEY,
    passthrough::KEY,
    subscribers::KEY,
    path::KEY,
    routing::KEY,
    set::KEY,
    objectives::KEY,
    policy::KEY,
    nat::KEY,
    state::KEY,
    linux::KEY,
];
