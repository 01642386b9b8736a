//! Packet functions: the work of a path on its packets between classification and the link.
//!
//! A function processes packets in place and ends none itself. It sets `Meta::refused` (a drop reason plus one) or `Meta::exception` (a code of
//! [`packet::Exception`]), and the forwarding task does the rest.

mod dispatch;
mod filter;
mod guest;
mod ip;
mod nat;
mod slice;
mod spin;

pub use dispatch::Dispatching;
pub use filter::Filter;
pub use guest::{FunctionMaker, FunctionReport, function_code};
pub use ip::Ip;
pub use nat::Translation;
pub use slice::SLICE;
pub use spin::Spin;

use crate::snapshot::{PathSpec, Snapshot};
use ::nat::Nat;
use fib::Tables;
use packet::accounting::Accounting;
use packet::event::Stage;
use packet::{Meta, Packet};
use plan::Call;
use std::cell::Cell;
use std::sync::Arc;
use units::declare::Declaration;
use units::{Instant, InterfaceId, Nanos};

/// The data that a function may read.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time of this step.
    pub now: Instant,
    /// The running configuration.
    pub snapshot: &'a Snapshot,
    /// Routes and adjacencies.
    pub tables: &'a Arc<Tables>,
    /// Translated connections. In a dry run, a copy of them.
    pub nat: &'a Nat,
    /// The maximum time for a packet before it is dropped. `None`: unlimited.
    pub limit: Option<Nanos>,
    /// True if the packet is not real: nothing is counted or logged, and no credit of a limit used.
    pub dry_run: bool,
    /// Extra time that a function requests. The worker's meter spends it, by the clock or by adding it.
    pub extra_time: &'a Cell<Nanos>,
}

/// A packet function of one path on one worker.
pub trait Function: Send {
    /// Processes each packet that is neither refused nor an exception yet. Returns true if all packets continue, false if one is refused or an
    /// exception now, or if it has made packets.
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool;
    /// The reason for its treatment of the last packet of a dry run.
    fn decision(&self) -> Option<String> {
        None
    }
    /// Its counters, always with the same names in the same order.
    fn counters(&self) -> Vec<NamedCounter> {
        Vec::new()
    }
    /// Its next report to the operator, if there is one.
    fn next_report(&mut self) -> Option<FunctionReport> {
        None
    }
    /// Its name and state, for the function of the same name that replaces it.
    fn state(&self) -> Option<FunctionState<'_>> {
        None
    }
    /// Continues with the state of the function that it replaces.
    fn restore(&mut self, _: FunctionState<'_>) {}
    /// Gives away the packets that it has made. It is called after [`Function::process`] has returned false.
    fn take_emitted(&mut self, _: &mut dyn FnMut(EmittedPacket<'_>)) {}
}

/// A packet that a function has made. It is classified like a received one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EmittedPacket<'a> {
    /// An IPv4 or IPv6 packet without a link header.
    pub bytes: &'a [u8],
    /// The interface whose VRF has its route.
    pub interface: InterfaceId,
    /// How often the packet that caused it was classified, as in [`Meta::rounds`].
    pub rounds: u8,
}

/// The state of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionState<'a> {
    /// The function's name.
    pub function: &'static str,
    /// Only a function of the same version can interpret the state.
    pub version: u32,
    /// The state.
    pub bytes: &'a [u8],
}

/// Gives the state of replaced functions to those of the same name that replace them.
pub(crate) fn hand_over_state(old: &[Box<dyn Function>], new: &mut [Box<dyn Function>]) {
    for state in old.iter().filter_map(|function| function.state()) {
        new.iter_mut().for_each(|function| function.restore(state));
    }
}

/// A counter of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedCounter {
    /// Its name: a rule, a fate.
    pub name: Arc<str>,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A registered function: its declaration, and how to make it for a path.
#[derive(Clone, Copy)]
pub struct FunctionRegistration {
    /// Its name, its options and its cost.
    pub declaration: Declaration,
    /// Makes it for a call of a path.
    pub make: fn(&Call, &PathSpec) -> Box<dyn Function>,
}

/// The built-in functions. A new function is a file, and a line here.
pub const FUNCTIONS: &[FunctionRegistration] = &[
    dispatch::REGISTRATION,
    filter::REGISTRATION,
    ip::REGISTRATION,
    spin::REGISTRATION,
    nat::REGISTRATION,
    slice::REGISTRATION,
];

/// The functions available to the paths of a router.
#[derive(Clone)]
pub struct Functions {
    registered: Arc<[FunctionRegistration]>,
    /// Makers that take the place of a registered function.
    services: Vec<(&'static str, Arc<dyn FunctionMaker>)>,
}

impl Default for Functions {
    fn default() -> Functions {
        Functions { registered: FUNCTIONS.into(), services: Vec::new() }
    }
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.registered.iter().map(|function| function.declaration.name)).finish()
    }
}

impl Functions {
    /// These and one more.
    #[must_use]
    pub fn with(&self, function: FunctionRegistration) -> Functions {
        Functions { registered: self.registered.iter().copied().chain([function]).collect(), ..self.clone() }
    }

    /// These, with the registered function `name` made by a service.
    #[must_use]
    pub fn with_service(&self, name: &'static str, maker: Arc<dyn FunctionMaker>) -> Functions {
        let mut functions = self.clone();
        functions.services.push((name, maker));
        functions
    }

    /// Their declarations, for the catalogue.
    pub fn declarations(&self) -> Vec<Declaration> {
        self.registered.iter().map(|function| function.declaration).collect()
    }

    /// The functions of a path, in order.
    ///
    /// # Errors
    /// A path calls a function that is not registered, because its configuration was checked against another catalogue. Or a guest does not start.
    pub fn build(&self, path: &PathSpec) -> Result<Vec<Box<dyn Function>>, FunctionBuildError> {
        let build = |call: &Call| {
            let service = self.services.iter().find(|(name, _)| *name == call.name).map(|(_, maker)| &**maker);
            if let Some(maker) = service.or_else(|| call.code.as_ref().and_then(guest::function_maker)) {
                return maker.make(call, path).map_err(|why| FunctionBuildError::Refused(call.name.to_string(), why));
            }
            let function = self.registered.iter().find(|function| function.declaration.name == call.name);
            let function = function.ok_or_else(|| FunctionBuildError::Unknown(call.name.to_string()))?;
            Ok((function.make)(call, path))
        };
        path.functions.iter().map(build).collect()
    }

    /// The functions of a path of the running configuration, in place of lost ones. If one cannot be made, all packets of the path are dropped.
    pub(crate) fn rebuild(&self, path: Option<&PathSpec>) -> Vec<Box<dyn Function>> {
        let rebuilt = |path| self.build(path).unwrap_or_else(|_| vec![Box::new(guest::Refusal)]);
        path.map(rebuilt).unwrap_or_default()
    }
}

/// Why the functions of a path cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FunctionBuildError {
    /// There is no function of this name: the configuration was not checked.
    Unknown(String),
    /// The guest of this name does not start, for this reason.
    Refused(String, String),
}

impl std::fmt::Display for FunctionBuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FunctionBuildError::Unknown(name) => write!(f, "there is no packet function '{name}'"),
            FunctionBuildError::Refused(name, why) => write!(f, "'{name}' does not start: {why}"),
        }
    }
}

impl std::error::Error for FunctionBuildError {}

/// Runs functions of a path on `packets`. `first` is the index of the first of them. Returns true if a packet is refused or an exception now.
#[inline]
pub(crate) fn run(
    first: usize,
    functions: &mut [Box<dyn Function>],
    context: Context<'_>,
    packets: &mut [Packet],
    accounting: &mut Accounting,
) -> bool {
    if accounting.follows_packets() {
        return run_traced(first, functions, context, packets, accounting);
    }
    let mut odd = false;
    // Without a test between them: each function skips the packets that an earlier one has diverted.
    for function in functions {
        odd |= !function.process(context, packets);
    }
    odd
}

/// The same, and reports to the observer how each function changes traced packets.
#[cold]
fn run_traced(
    first: usize,
    functions: &mut [Box<dyn Function>],
    context: Context<'_>,
    packets: &mut [Packet],
    accounting: &mut Accounting,
) -> bool {
    let mut odd = false;
    for (index, function) in functions.iter_mut().enumerate() {
        let marked = |packet: &&Packet| packet.meta().flags & Meta::FOLLOWED != 0;
        // Copied, because functions rewrite packets in place. They keep order and marks, so copies and packets pair up below.
        let before: Vec<Vec<u8>> = packets.iter().filter(marked).map(|packet| packet.bytes().to_vec()).collect();
        odd |= !function.process(context, packets);
        for (packet, before) in packets.iter().filter(marked).zip(&before) {
            accounting.record_stage(packet, Stage::Function { index: first + index, before });
        }
    }
    odd
}
