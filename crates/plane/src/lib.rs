//! The plane: receive, classify, functions, queue, transmit, on one worker a core.
//!
//! It is pure: it owns no thread, no socket and no randomness except from a seed, and reads no clock. [`Router`] is its control side and makes
//! [`Worker`]s. A driver passes the time and a meter to [`Worker::step`]. So the daemon and a simulation run the same code.

#![forbid(unsafe_code)]

pub mod classify;
pub mod explain;
pub mod fields;
pub mod filter;
mod flow_queues;
mod flow_rates;
pub mod function;
pub mod hook;
mod input_queue;
pub mod instructions;
pub mod multicast;
pub mod packet_log;
mod parker;
mod path;
pub mod policy;
pub mod port;
pub mod preempt;
pub mod punt;
mod relay;
mod reverse_path;
pub mod rig;
mod router;
mod routing;
pub mod snapshot;
mod sync;
pub mod tunnel;
mod worker;

pub use flow_rates::{FlowGrant, FlowRates, FlowUse};
pub use path::PathCounters;
pub use router::{
    ApplyError, Build, CostlyFlow, EditError, EditSummary, Edits, FlowPromise, FlowRefusal, FlowReport, FlowsChanged,
    KnownCosts, LinuxHop, LinuxRoute, LinuxRouteAction, LinuxRouteSummary, Opener, PATH_RULES, PolicyChange,
    PolicyReport, Prepared, PublishedGeneration, ROUTING_RULES, Router, RunningSubscriber, ShareRefusal, ShareReport,
    SharesChanged, WakeFn,
};
pub use worker::{
    Adopted, AdoptionUnfinished, Command, Decorate, LinksReport, Mailbox, NewFunctions, NewHook, NewPort,
    OriginatedPacket, PathReport, PortReport, QueueReport, Reschedule, StepResult, StoreReaders, TaskReport,
    TraceReport, Worker, WorkerChange, WorkerReport, add_counters,
};

/// The names available to a configuration: the schemes, the functions and the kinds of port of this build.
pub fn catalogue() -> plan::Catalogue {
    plan::Catalogue {
        functions: function::Functions::default().declarations(),
        cpu_schedulers: cpu::Schedulers::default().declarations(),
        devices: port::DECLARATIONS.to_vec(),
        ..link::catalogue()
    }
}
