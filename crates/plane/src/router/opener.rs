//! Opens the resources that a configuration names, or says why it cannot.

use crate::worker::Decorate;
use link::LinkObserver;
use packet::Region;
use packet::port::Port;
use plan::PortPlan;
use std::fmt;
use std::sync::Arc;

/// Why a configuration cannot run here and now. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApplyError {
    /// The part of the configuration: `port lan`.
    pub place: String,
    /// The fault.
    pub reason: String,
    /// What to change.
    pub hint: String,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.reason, self.hint)
    }
}

impl std::error::Error for ApplyError {}

/// Opens the device of a port.
pub trait Opener {
    /// Opens the device of `plan`. Returns one port for each of its queues, at least one and at most `queues`. It keeps no frame of `region`
    /// before its first receive.
    fn open(&mut self, plan: &PortPlan, region: &Arc<Region>, queues: usize) -> Result<Vec<Box<dyn Port>>, ApplyError>;
    /// Opens the resources of the decorators of `plan` (a capture file). Returns for each of `queues` queues how to wrap its port.
    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError>;
    /// Reads the trace file for the link of `plan`.
    fn read(&mut self, plan: &PortPlan, file: &str) -> Result<Vec<u8>, ApplyError> {
        Err(ApplyError {
            place: format!("port {}", plan.name),
            reason: format!("'{file}' cannot be read: files are not opened here"),
            hint: "write trace = \"lte\" for a generated trace".into(),
        })
    }
    /// Reads a file that the configuration names at `place`, like `set bad`.
    fn read_file(&mut self, place: &str, file: &str) -> Result<Vec<u8>, ApplyError> {
        let reason = format!("'{file}' cannot be read: files are not opened here");
        Err(ApplyError { place: place.to_string(), reason, hint: "write the content into the configuration".into() })
    }
    /// Observes every packet at the emulated link of the port.
    fn link_witness(&mut self, _plan: &PortPlan) -> Option<Box<dyn LinkObserver>> {
        None
    }
}
