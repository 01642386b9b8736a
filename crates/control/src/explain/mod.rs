//! `explain`: runs a packet through the plane's dry run, and puts the result into words.

mod probe;
mod report;

pub(crate) use report::exception_text;

pub use probe::Probe;

use crate::api::{self, ApiError, ErrorKind};
use packet::event::Silent;
use plan::Plan;
use plane::Command;
use plane::explain::{ExplainContext, explain};
use plane::rig::{MemoryWires, Rig};
use plane::snapshot::Layout;
use std::net::IpAddr;
use units::{Mac, PortId};

/// Frames of a router without traffic.
const FRAMES: usize = 1024;
/// The MAC address of an assumed neighbour.
const NEIGHBOUR: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);

/// A packet to explain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExplainPacket {
    /// A packet in words.
    Probe(Probe),
    /// A frame as received on a port, or on an interface of that port.
    Frame {
        /// The name of the port or interface; by default the only port.
        port: Option<String>,
        /// The frame from its first link-layer byte.
        frame: Vec<u8>,
        /// True to treat the frame as addressed to the port, despite its destination MAC address.
        ours: bool,
    },
}

/// Returns what the router would do with a packet.
pub fn answer(question: &ExplainContext<'_>, asked: &ExplainPacket) -> Result<api::ExplainReply, ApiError> {
    let (port, frame) = locate(question, asked)?;
    Ok(report::reply(question, port, &frame, &explain(question, port, &frame)))
}

/// Returns the port and the frame of a question.
fn locate(question: &ExplainContext<'_>, asked: &ExplainPacket) -> Result<(PortId, Vec<u8>), ApiError> {
    let refused = |(reason, hint): (String, String)| ApiError::new(ErrorKind::BadRequest, reason, hint);
    match asked {
        ExplainPacket::Probe(probe) => probe.frame(question.snapshot).map_err(refused),
        ExplainPacket::Frame { port, frame, ours } => {
            let port = port_of(question, port.as_deref()).map_err(refused)?;
            let mut frame = frame.clone();
            if let (true, Some(view)) = (*ours, question.snapshot.port(port)) {
                readdress(&mut frame, view.mac);
            }
            Ok((port, frame))
        }
    }
}

/// Sets the destination MAC address of a frame; multicast frames stay unchanged.
pub(crate) fn readdress(frame: &mut [u8], to: Mac) {
    if let Some(station) = frame.first_chunk_mut::<6>()
        && !Mac(*station).is_group()
    {
        *station = to.0;
    }
}

/// Returns what a router with this configuration would do with a packet, without a running router. The links are in memory, so that no device is
/// touched, and all neighbours answer.
pub fn offline(plan: &Plan, asked: &ExplainPacket) -> Result<api::ExplainReply, ApiError> {
    let mut rig = Rig::new(FRAMES, Layout::Three, Box::new(Silent));
    rig.wires = MemoryWires::replacing_devices();
    rig.wires.read_file = Some(|file| std::fs::read(file));
    rig.router.set_hook_maker(std::sync::Arc::new(esp::Executor::new()));
    rig.run(plan).map_err(|errors| ApiError {
        problems: errors.iter().map(api::Problem::from).collect(),
        ..ApiError::new(ErrorKind::CannotRun, "the configuration cannot run", "")
    })?;
    rig.settle();
    let mut assumed = Vec::new();
    loop {
        let reports = [rig.report()];
        let (snapshot, tables) = (rig.router.snapshot(), rig.router.tables());
        let question =
            ExplainContext { snapshot, tables, reports: &reports, functions: rig.router.functions(), now: rig.now };
        let (port, frame) = locate(&question, asked)?;
        let explanation = explain(&question, port, &frame);
        let new: Vec<_> =
            explanation.unresolved.iter().filter(|awaited| !assumed.contains(*awaited)).copied().collect();
        if !new.is_empty() {
            for &(interface, address) in &new {
                rig.router.post(|| Command::Neighbour(interface, address, Some(NEIGHBOUR)));
            }
            assumed.extend(new);
            rig.settle();
            continue;
        }
        let mut told = report::reply(&question, port, &frame, &explanation);
        let note = |&(_, address): &(_, IpAddr)| api::ExplainedStep {
            step: "assumed".to_owned(),
            outcome: api::StepOutcome::Note,
            text: format!("{address} answers, and is at {NEIGHBOUR}"),
        };
        told.steps.splice(..0, assumed.iter().map(note));
        return Ok(told);
    }
}

/// Returns the port with a name, or with an interface of that name; by default the only one.
fn port_of(question: &ExplainContext<'_>, name: Option<&str>) -> Result<PortId, (String, String)> {
    let snapshot = question.snapshot;
    let ports = || snapshot.ports.iter().enumerate().filter_map(|(id, port)| Some((PortId::at(id), port.as_ref()?)));
    let names: Vec<&str> = ports().map(|(_, port)| &*port.name).collect();
    let hint = format!("the ports are {}", names.join(", "));
    let Some(name) = name else {
        let mut all = ports();
        return match (all.next(), all.next()) {
            (Some((only, _)), None) => Ok(only),
            _ => Err(("the input port of the packet is missing".into(), hint)),
        };
    };
    let port = ports().find(|(_, port)| &*port.name == name).map(|(id, _)| id);
    let port = port.or_else(|| snapshot.interface_named(name).map(|interface| interface.port));
    port.ok_or_else(|| (format!("there is no port {}", plan::quote(name)), hint))
}
