//! The devices of a router, which its control side and its background threads open and read.

use io::devices::Devices;
use link::LinkObserver;
use packet::Region;
use packet::port::Port;
use parking_lot::Mutex;
use plan::PortPlan;
use plane::{ApplyError, Decorate, Opener};
use std::sync::Arc;

/// The devices, shared until the router ends.
#[derive(Clone)]
pub(super) struct SharedDevices(pub Arc<Mutex<Option<Devices>>>);

impl SharedDevices {
    fn with<T>(
        &self,
        port: &PortPlan,
        work: impl FnOnce(&mut Devices) -> Result<T, ApplyError>,
    ) -> Result<T, ApplyError> {
        let ended = || ApplyError {
            place: format!("port {}", port.name),
            reason: "the router is stopping".into(),
            hint: "start it again".into(),
        };
        work(self.0.lock().as_mut().ok_or_else(ended)?)
    }
}

impl Opener for SharedDevices {
    fn open(&mut self, plan: &PortPlan, region: &Arc<Region>, queues: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        self.with(plan, |devices| devices.open(plan, region, queues))
    }

    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        self.with(plan, |devices| devices.decorate(plan, queues))
    }

    fn read(&mut self, plan: &PortPlan, file: &str) -> Result<Vec<u8>, ApplyError> {
        self.with(plan, |devices| devices.read(plan, file))
    }

    fn read_file(&mut self, place: &str, file: &str) -> Result<Vec<u8>, ApplyError> {
        match self.0.lock().as_mut() {
            Some(devices) => devices.read_file(place, file),
            None => Err(ApplyError {
                place: place.to_string(),
                reason: "the router is stopping".into(),
                hint: "start it again".into(),
            }),
        }
    }

    fn link_witness(&mut self, plan: &PortPlan) -> Option<Box<dyn LinkObserver>> {
        self.0.lock().as_mut()?.link_witness(plan)
    }
}
