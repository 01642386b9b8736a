//! Configuration as data: text to a [`Plan`], and the difference between two.
//!
//! [`check`] reads TOML against a [`Catalogue`] and answers with a plan in which every default is filled in, or with
//! [`Diagnostics`]: every error at once, each with its place, a reason and a hint. Nothing here opens a device or knows
//! what a scheme does; the catalogue says what may be named.

#![forbid(unsafe_code)]

mod address;
pub mod admission;
mod advertise;
pub mod batch;
mod call;
mod check;
#[path = "section/router/cores.rs"]
mod cores;
#[path = "section/cpu.rs"]
mod cpu;
mod diagnostic;
#[path = "change.rs"]
mod diff;
#[path = "section/path/dispatch.rs"]
mod dispatch;
mod document;
#[path = "section/path/filter.rs"]
mod filter;
mod footprint;
#[path = "key.rs"]
mod keys;
mod matching;
mod medium;
#[path = "plan.rs"]
mod model;
mod multicast;
mod names;
mod nat;
#[path = "section/objectives.rs"]
mod objective;
mod passthrough;
mod render;
#[path = "section/port/interface.rs"]
mod reverse_path;
mod ring;
mod schema;
mod scheme;
#[path = "section/state.rs"]
pub mod state;
mod text;
pub mod throttle;

pub use address::Prefix;
pub use advertise::{Preference, RaPlan, RaPrefix};
pub use call::{Call, Catalogue, Code, Guests, InstructionDeclaration};
pub use check::{Checked, check, examine, examine_file, load};
pub use cores::Cores;
pub use cpu::{
    Admission, Batching, Charge, Congestion, Cost, CpuPlan, Discipline, EstimatorPlan, Grouping, InputShare, LENT,
    Layout, PathCpu, PortCpu, Receive, Reservation, SleepLaw, TunePlan,
};
pub use diagnostic::{Diagnostic, Diagnostics, MOST_DIAGNOSTICS, Report, Severity};
pub use diff::{Change, Edit, ValueChange, diff};
pub use dispatch::{Carries, DispatchRule, NamePattern};
pub use filter::{FilterFields, FilterRule, FilterVerdict};
pub use footprint::footprint;
pub use matching::{
    Condition, Family, Fields, Match, MatchError, dscp_name, dscp_number, protocol_name, protocol_number,
};
pub use medium::{
    BrownianPlan, LinkPlan, Loss, MediumPlan, MediumText, Service, TraceEnd, TraceMode, TracePlan, TraceSource,
};
pub use model::{
    Checksums, DevicePlan, FaultsPlan, InterfacePlan, Name, NeighbourPlan, NextHopPlan, Pace, PathPlan, Plan, PortPlan,
    RouteAction, RoutePlan, SchemeChange,
};
pub use multicast::MulticastPlan;
pub use nat::{ForwardPlan, NatPlan};
pub use objective::{CodePoints, Objective, PolicyPlan};
pub use passthrough::PassThroughPlan;
pub use reverse_path::ReversePath;
pub use ring::Ring;
pub use schema::schema;
pub use state::StatePlan;
pub use text::{TextError, did_you_mean, quote};
pub use units::Mac;
