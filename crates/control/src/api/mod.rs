//! The types of the API, version 1: the JSON on the socket, and the output of `show -j`.
//!
//! All names come from the configuration; internal ids are never exposed. The suffix of a field is its unit: `_bps` is bits per second, `_ns` is
//! nanoseconds, and `_bytes` and `_packets` count since the object was made. Version 1 may get further fields, but no field is removed or changes its
//! meaning.

mod changes;
mod counted;
mod endpoints;
mod ephemeral;
mod explained;
mod functions;
mod history;
mod latency;
mod links;
mod multicast;
mod policy;
mod reports;
mod traced;
mod work;

pub use changes::{
    ApiError, Applied, Change, Changes, Checked, Config, Diagnostic, Edited, Editing, ErrorKind, Problem,
};
pub use counted::{Counted, CounterValue, Counters};
pub(crate) use endpoints::LINES;
pub use endpoints::{ENDPOINTS, Endpoint, Needs, Parameter, openapi, reference};
pub use ephemeral::{
    Ephemeral, EphemeralAbort, EphemeralEntries, EphemeralEntry, EphemeralInstruction, EphemeralPlace, EphemeralStore,
    EphemeralTrace,
};
pub use explained::{DropExplained, ExplainedStep, Explanation, FieldChange, StepOutcome};
pub use functions::{Function, FunctionCounter, Functions, Nat, NatConnection, NatHost};
pub use history::{Confirmed, History, HistoryEntry, HistoryState, Pending, Via, Who};
pub use latency::{Latency, LatencyBucket};
pub use links::{EmulatedLink, Link, LinkDrop, LinkSeries, Links, LongQueue, QueueGroup, StateSeries, StateValue};
pub use multicast::{Multicast, MulticastGroup};
pub use policy::{CodePoints, InterfaceWants, Policies, PortPolicy, Wanted};
pub use reports::{
    Capture, Confinement, Drop, DropAt, Drops, Event, EventKind, Events, Gateway, Interface, Ledger, Ledgers,
    Neighbour, Neighbours, Path, Paths, Port, Ports, Queue, QueueStage, Queues, Route, Routes, State, Status,
};
pub use traced::{Injected, TracedPacket, TracedStage};
pub use work::{Core, Task, Tasks, Worker, WorkerState, Workers};
