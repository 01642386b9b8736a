//! Configuration as data: from text to a [`Plan`], and the difference between two plans.
//!
//! [`check()`] parses TOML against a [`Catalogue`]. It returns a plan in which every default is filled in, or [`Diagnostics`]: all errors at once, each
//! with its position, a reason and a hint. Nothing here opens a device or knows how a scheme works. The catalogue lists the available names.

#![forbid(unsafe_code)]

mod address;
pub mod admission;
pub mod batch;
mod call;
mod change;
mod check;
mod connected;
mod cost;
mod diagnostic;
mod diff;
mod document;
mod element;
mod flow_batch;
mod footprint;
pub mod import;
mod include;
mod key;
mod matching;
mod medium;
mod named;
mod names;
mod plan;
mod reference;
mod render;
mod ring;
mod rule_batch;
mod schema;
mod scheme;
mod section;
mod share;
mod share_batch;
mod share_cycles;
mod share_tree;
pub mod subscribers;
mod table;
mod text;
pub mod throttle;
mod words;

pub use address::Prefix;
pub use call::{Call, Catalogue, CpuSchedulerDeclaration, GuestCode, Guests, InstructionDeclaration, Lag};
pub use change::{Change, ValueChange, diff};
pub use check::{
    CheckResult, check, examine, examine_file, load, load_set, load_shares, load_subscribers, read_file, with_files,
};
pub use cost::Cost;
pub use diagnostic::{Diagnostic, Diagnostics, MOST_DIAGNOSTICS, Report, Severity, refuse_lines};
pub use diff::PropertyChange;
pub use element::{SetEntry, SetKind, SetValue, lifetime, set_entries};
pub use flow_batch::{FlowBatch, FlowChange, ReservedFlow, flow_batch};
pub use footprint::footprint;
pub use matching::{
    AddressMatch, Condition, FibMatch, MOST_COMBINATIONS, MOST_SETS_USED, Match, MatchError, MatchFamily, MatchFields,
    MatchFragment, NoSets, PortMatch, SetLookup, dscp_name, dscp_number, protocol_name, protocol_number,
};
pub use medium::{
    BrownianPlan, LinkService, Loss, MediumPlan, MediumText, TraceEnd, TraceMode, TracePlan, TraceSource,
};
pub use names::Name;
pub use plan::Plan;
pub use reference::{ReferenceKey, ReferenceTable, reference};
pub use ring::Ring;
pub use rule_batch::{PathRule, RuleBatch, RuleChange, RuleListKind, RulePlace, RuleText, rule_batch};
pub use schema::schema;
pub use section::cpu::{
    Admission, Batching, Charge, CpuPlan, CpuSchedulerChoice, DEFAULT_PREEMPTIBLE_SLICE, Grouping, InputShare, Layout,
    Receive, TunePlan,
};
pub use section::linux::{Answerer, DhcpRelayPlan, LinuxPlan, PuntLimits, PuntedProtocol};
pub use section::multicast::MulticastPlan;
pub use section::nat::{ForwardPlan, NatPlan};
pub use section::neighbour::NeighbourPlan;
pub use section::objectives::{CodePoints, Objective};
pub use section::passthrough::PassThroughPlan;
pub use section::path::PathPlan;
pub use section::path::cpu::{PathCpu, Reservation};
pub use section::path::dispatch::{DispatchRule, NamePattern, PayloadCondition};
pub use section::path::filter::rule::{
    FilterLimit, FilterRule, FilterStatement, FilterVerdict, LimitPeriod, LimitRate,
};
pub use section::path::guest::{GuestRule, GuestTreatment};
pub use section::policy::PolicyPlan;
pub use section::port::cpu::{Congestion, EstimatorPlan, PortCpu, SleepLaw};
pub use section::port::device::{Checksums, DevicePlan, ReplayPace};
pub use section::port::dfq_wire::DfqWirePlan;
pub use section::port::faults::FaultsPlan;
pub use section::port::interface::{InterfacePlan, KernelSettings, ReversePath};
pub use section::port::link::LinkPlan;
pub use section::port::ra::{RaPlan, RaPrefix, RouterPreference};
pub use section::port::shares::SharesPlan;
pub use section::port::tunnel::{TunnelKind, TunnelPlan};
pub use section::port::{PortPlan, SchemeChange};
pub use section::route::RoutePlan;
pub use section::route::hop::{NextHopPlan, RouteAction};
pub use section::router::Cores;
pub use section::routing::rule::{RoutingRule, RoutingVerdict};
pub use section::set::{MOST_SET_ELEMENTS, SetPlan};
pub use section::state::{self, StatePlan};
pub use section::subscribers::{SubscriberSection, SubscriberSource};
pub use share::{ShareName, ShareSettings};
pub use share_batch::{ShareBatch, ShareChange, share_batch, share_file};
pub use share_tree::{MOST_SHARE_LEVELS, MOST_SHARES, ShareNode, ShareOrigin, ShareTree};
pub use text::{TextError, did_you_mean, quote};
pub use units::Mac;
