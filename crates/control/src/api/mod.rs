//! The types of the API, version 1: the JSON on the socket, and the output of `show -j`.
//!
//! All names come from the configuration; internal ids are never exposed. The suffix of a field is its unit: `_bps` is bits per second, `_ns` is
//! nanoseconds, and `_bytes` and `_packets` count since the object was made. Version 1 may get further fields, but no field is removed or changes its
//! meaning.

mod changes;
mod counters;
mod description;
mod dfq_wire;
mod endpoint;
mod endpoints;
mod ephemeral;
mod explained;
mod flows;
mod functions;
mod history;
mod latency;
mod links;
mod linux;
mod multicast;
mod policy;
mod reports;
mod rules;
mod sets;
mod shares;
mod slices;
mod subscribers;
mod traced;
mod workers;

pub use changes::{
    ApiError, Applied, ChangeReply, Changes, CheckReply, Config, DiagnosticReply, Edited, Editing, ErrorKind, Problem,
};
pub use counters::{CounterFields, CounterValue, CountersReply};
pub use description::{openapi, reference};
pub use dfq_wire::DfqWireReply;
pub(crate) use endpoint::LINES;
pub use endpoint::{AccessLevel, Endpoint, Parameter};
pub use endpoints::ENDPOINTS;
pub use ephemeral::{
    Ephemeral, EphemeralAbort, EphemeralEntries, EphemeralEntry, EphemeralInstruction, EphemeralPlace, EphemeralStore,
    EphemeralTrace,
};
pub use explained::{DropExplained, ExplainReply, ExplainedStep, FieldChange, StepOutcome};
pub use flows::{
    FlowAdded, FlowFunctions, FlowPromiseReply, FlowRefusedReply, FlowReply, FlowsEdited, FlowsReply, PromiseChain,
};
pub use functions::{FunctionCounter, FunctionReply, FunctionsReply, NatConnection, NatHost, NatReply};
pub use history::{Author, Confirmed, History, HistoryEntry, HistoryState, Pending, Via};
pub use latency::{LatencyBucket, LatencyReply};
pub use links::{
    EmulatedLink, LinkDrop, LinkReply, LinkSeries, Links, LongQueue, QueueGroup, StateSeriesReply, StateValue,
};
pub use linux::{DhcpRelay, Linux, LinuxInterface, LinuxProtocol, RelayCounters};
pub use multicast::{Multicast, MulticastGroup};
pub use policy::{CodePointsReply, InterfaceObjective, ObjectiveReply, Policies, PortPolicy};
pub use reports::{
    Capture, Confinement, Drop, DropAt, Drops, EventKind, EventReply, Events, Gateway, InterfaceReply, LedgerReply,
    Ledgers, NeighbourReply, Neighbours, Path, Paths, PortReply, Ports, QueueReply, QueueStage, QueuesReply,
    RouteReply, RouterState, Routes, Status,
};
pub use rules::{FlowCacheReply, RuleListReply, RuleLists, RuleReply, RulesEdited};
pub use sets::{SetEdited, SetElementReply, SetElements, SetReply, SetsReply};
pub use shares::{PortSharesReply, ShareOrder, ShareReply, ShareTraffic, SharesEdited, SharesReply};
pub use slices::{
    CodeOptionReply, SliceDefinitions, SliceDoubleRunReply, SliceExceptionReply, SliceExceptionsReply,
    SliceFilterReply, SliceFiltersReply, SliceGuestReply, SliceIndexReply, SliceInterfaceReply, SliceMemoryReply,
    SliceQueueReply, SliceQuotaReply, SliceReinjected, SliceReply, SliceReservationReply, SliceStatsReply,
    SlicesEdited, SlicesReply,
};
pub use subscribers::{
    RttReply, RttSideReply, SiteReply, SitesReply, SubscriberOrder, SubscriberReply, SubscribersReloaded,
    SubscribersReply,
};
pub use traced::{Injected, TracedPacket, TracedStage};
pub use workers::{CoreReply, Task, TasksReply, WorkerReply, WorkerState, Workers};
