//! Opens the devices of a plan's ports, with their decorators.

use crate::advisories::{Advisories, OpenError};
use crate::clock;
use crate::interfaces::{self, Interfaces};
use crate::memif::{MemifPort, MemifRole};
use crate::netns::Namespace;
use crate::pcap::{PcapOptions, PcapPort};
use crate::recorder::{self, CaptureHandle};
use link::LinkObserver;
use link::dfq_wire::{DfqWire, DfqWireOptions};
use packet::Region;
use packet::port::{FaultRates, FaultyPort, MemoryPort, MemoryWire, Port, SharedSink, TappedPort};
use plan::PortPlan;
use plane::{ApplyError, Decorate, Opener};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Nanos;

/// Capacity of an in-memory wire in packets, for each direction.
const WIRE: usize = 1024;

/// The devices of one router. Opens ports of every kind.
#[derive(Default)]
pub struct Devices {
    epoch: Nanos,
    advisories: Advisories,
    namespace: Option<Arc<Namespace>>,
    /// The ends of in-memory wires that belong to no port.
    ends: HashMap<String, MemoryPort>,
    recordings: Vec<(PathBuf, CaptureHandle)>,
    interfaces: Interfaces,
    /// The observers of packets at emulated links, by port.
    witnesses: HashMap<String, Box<dyn LinkObserver>>,
}

impl Devices {
    /// Devices of the machine as the calling threads see it. `epoch` is the offset of times in captures: see [`crate::clock::epoch`].
    pub fn new(epoch: Nanos) -> Self {
        Devices { epoch, ..Devices::default() }
    }

    /// Opens `packet:`, `xdp:` and `tap:` ports in this namespace, independent of the calling thread.
    pub fn in_namespace(self, namespace: Arc<Namespace>) -> Self {
        Devices { namespace: Some(namespace), ..self }
    }

    /// Takes the arrival time of `packet:` frames from the kernel instead of the time of reception. Ports with emulated links need this, because
    /// their link times begin at arrival.
    pub fn with_kernel_timestamps(mut self) -> Self {
        self.interfaces.kernel_timestamps = true;
        self
    }

    /// Passes every packet at the emulated link of this port to `witness`.
    pub fn with_link_witness(mut self, port: &str, witness: Box<dyn LinkObserver>) -> Self {
        self.witnesses.insert(port.to_owned(), witness);
        self
    }

    /// Advisories for the operator: missing features of a port, and later failures.
    pub fn advisories(&self) -> &Advisories {
        &self.advisories
    }

    /// The free end of the in-memory wire with this name: the other end of a port's wire, or of a new wire whose other end a later port gets. Both
    /// use frames of one region.
    pub fn take_end(&mut self, name: &str) -> MemoryPort {
        // If the other end is gone, it belonged to a port that was closed.
        if let Some(end) = self.ends.remove(name).filter(Port::is_up) {
            return end;
        }
        let (ours, theirs) = MemoryWire::pair(WIRE);
        self.ends.insert(name.to_owned(), theirs);
        ours
    }

    /// The captures in progress, with their files.
    pub fn recordings(&self) -> impl Iterator<Item = (&Path, &CaptureHandle)> {
        self.recordings.iter().map(|(path, recording)| (&**path, recording))
    }

    /// Waits until all captures are written and all interfaces released. The ports must be gone.
    pub fn finish(self) {
        self.interfaces.finish();
        self.recordings.into_iter().for_each(|(_, recording)| recording.finish());
    }

    /// Opens the device of a port: one port for each of its queues, at most `queues`.
    pub fn open_port(
        &mut self,
        plan: &PortPlan,
        region: &Arc<Region>,
        queues: usize,
    ) -> Result<Vec<Box<dyn Port>>, OpenError> {
        let device = &plan.device;
        let port: Box<dyn Port> = match &*device.kind {
            "memory" => Box::new(self.take_end(&device.target)),
            "pcap" => {
                let options = PcapOptions {
                    read: Some(Path::new(&device.target)).filter(|path| !path.as_os_str().is_empty()),
                    write: device.write.as_deref().map(Path::new),
                    pace: device.pace,
                    name: &plan.name,
                    epoch: self.epoch,
                };
                Box::new(PcapPort::open(&options, self.advisories.clone())?)
            }
            "memif" => {
                let end = MemifRole::parse(&device.target).ok_or_else(|| OpenError {
                    reason: format!("'{}' does not state an end of the link", device.target),
                    hint: "write memif:listen:PATH or memif:connect:PATH".into(),
                })?;
                Box::new(MemifPort::open(&end, &plan.name, self.advisories.clone())?)
            }
            kind if interfaces::KINDS.contains(&kind) => {
                return self.interfaces.open(plan, region, queues, &self.namespace, &self.advisories);
            }
            kind => {
                return Err(OpenError {
                    reason: format!("unknown kind of port '{kind}'"),
                    hint: "use memory, pcap, memif, packet, xdp or tap".into(),
                });
            }
        };
        Ok(vec![port])
    }

    /// Starts a capture. A file that another capture still writes to is renamed, so that neither is lost: the ports of the old capture are replaced
    /// later.
    fn start_capture(&mut self, path: &Path, name: &str) -> Result<recorder::Recorder, OpenError> {
        // The file of a finished capture may be replaced.
        self.recordings.retain(|(_, recording)| !recording.is_finished());
        if let Some(at) = self.recordings.iter().position(|(old, _)| old == path) {
            let aside = (1..).map(|n| path.with_added_extension(n.to_string())).find(|aside| !aside.exists());
            let aside = aside.expect("some number is free");
            // The old capture's writer continues with its open descriptor, now under the new name.
            fs::rename(path, &aside).map_err(|error| OpenError {
                reason: format!("cannot rename the existing capture '{}': {error}", path.display()),
                hint: "capture to another file".into(),
            })?;
            self.recordings[at].0 = aside;
        }
        let (recorder, recording) = recorder::start(path, name, self.epoch, self.advisories.clone())?;
        self.recordings.push((path.to_owned(), recording));
        Ok(recorder)
    }
}

fn refused(plan: &PortPlan, error: OpenError) -> ApplyError {
    ApplyError { place: format!("port {}", plan.name), reason: error.reason, hint: error.hint }
}

impl Opener for Devices {
    fn open(&mut self, plan: &PortPlan, region: &Arc<Region>, queues: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        self.open_port(plan, region, queues).map_err(|error| refused(plan, error))
    }

    /// Faults are next to the device, so that captures show the packets that the router receives. A wire that multiplexes quanta is outside both:
    /// captures show its frames.
    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        let capture = plan.capture.as_deref().map(|path| self.start_capture(Path::new(path), &plan.name));
        let recorder = capture.transpose().map_err(|error| refused(plan, error))?;
        let faults = plan.faults;
        let shared = recorder.map(|recorder| SharedSink::new(Box::new(recorder)));
        // A new number at each opening tells the other end that this one has restarted.
        let opened = (clock::now() + self.epoch).get();
        let one = |queue: usize| -> Decorate {
            let (sink, plan) = (shared.clone(), plan.clone());
            Box::new(move |mut port| {
                let wire = DfqWireOptions::of(&plan, port.mac(), opened);
                if let Some(f) = faults {
                    let rates =
                        FaultRates { loss: f.loss, corrupt: f.corrupt, truncate: f.truncate, duplicate: f.duplicate };
                    // Each queue has its own fault generator.
                    port = Box::new(FaultyPort::new(port, rates, f.seed.wrapping_add(queue as u64)));
                }
                if let Some(sink) = sink {
                    port = Box::new(TappedPort::new(port, Box::new(sink)));
                }
                match wire {
                    Some(options) => Box::new(DfqWire::new(port, &options)),
                    None => port,
                }
            })
        };
        Ok((0..queues).map(one).collect())
    }

    fn read(&mut self, plan: &PortPlan, file: &str) -> Result<Vec<u8>, ApplyError> {
        std::fs::read(file).map_err(|error| ApplyError {
            place: format!("port {}", plan.name),
            reason: format!("the trace '{file}' cannot be read: {error}"),
            hint: "name an existing file, or write trace = \"lte\" for a synthetic trace".into(),
        })
    }

    fn read_file(&mut self, place: &str, file: &str) -> Result<Vec<u8>, ApplyError> {
        std::fs::read(file).map_err(|error| ApplyError {
            place: place.to_string(),
            reason: format!("'{file}' cannot be read: {error}"),
            hint: "name a file that the router may read; a relative name begins at the directory of the configuration"
                .into(),
        })
    }

    fn link_witness(&mut self, plan: &PortPlan) -> Option<Box<dyn LinkObserver>> {
        self.witnesses.remove(&*plan.name)
    }
}
