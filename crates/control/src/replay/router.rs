//! A router of its own in virtual time, on links whose neighbours all answer, and the fates of its packets.

use super::RecordedPacket;
use crate::api::{self, ApiError, ErrorKind};
use crate::explain::readdress;
use crate::names::Names;
use packet::event::{Event, EventInterests, Fate, NeighbourState, Observer};
use packet::port::Port;
use packet::{Batch, DropReason, Meta, Packet};
use parking_lot::Mutex;
use plan::Plan;
use plane::Command;
use plane::rig::{MemoryWires, Rig};
use plane::snapshot::Layout;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Instant, InterfaceId, Mac, Nanos, PortId};

/// Frames of the router.
const FRAMES: usize = 8192;
/// The MAC address of an assumed neighbour.
const NEIGHBOUR: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// The time before the first packet, in which the router makes its announcements.
const WARM_UP: Nanos = Nanos::secs(10);
/// The time after the last packet, in which all held packets meet their fates.
const DRAIN_TIME: Nanos = Nanos::secs(120);
/// The most neighbours assumed to answer; further ones do not.
const MOST_NEIGHBOURS: usize = 65_536;

/// The result for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayOutcome {
    /// No fate was seen: the router was full, or still holds it.
    Lost,
    /// It met its fate; for a sent packet with a hash of its bytes.
    Fate(Fate, u64),
    /// Unknown: its destination MAC address is not that of the ingress port, and the capture does not record the port's address.
    Unjudged,
}

/// A frame that left the router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The time since the replay began.
    pub after: Nanos,
    /// The name of the port.
    pub port: String,
    /// The number of its packet in the capture, from 1; none for the router's own packets.
    pub packet: Option<u64>,
    /// The frame.
    pub frame: Vec<u8>,
}

/// The observations that have not been collected yet.
#[derive(Default)]
struct Observations {
    keeps_frames: bool,
    /// Packets about to be received, and received ones, by the number of their frame.
    arriving: HashMap<usize, u64>,
    in_router: HashMap<usize, u64>,
    /// Packets that were possibly not addressed to the port.
    unknown: HashSet<u64>,
    outcomes: Vec<(u64, ReplayOutcome)>,
    own_fates: Vec<Fate>,
    departures: Vec<(Instant, PortId, Option<u64>, Vec<u8>)>,
    unresolved: Vec<(InterfaceId, IpAddr)>,
}

struct PacketObserver(Arc<Mutex<Observations>>);

impl Observer for PacketObserver {
    fn event(&mut self, now: Instant, event: &Event<'_>) {
        let mut seen = self.0.lock();
        match *event {
            Event::Packet { frame, meta, fate, number } => {
                let packet = match meta.flags & Meta::FOLLOWED {
                    0 => None,
                    _ => seen.in_router.remove(&number),
                };
                match packet {
                    Some(packet) => {
                        let outcome = match (seen.unknown.remove(&packet), fate) {
                            (true, Fate::Dropped(DropReason::OtherStation)) => ReplayOutcome::Unjudged,
                            _ => ReplayOutcome::Fate(fate, digest(frame)),
                        };
                        seen.outcomes.push((packet, outcome));
                    }
                    None => seen.own_fates.push(fate),
                }
                if let (Fate::Sent(port), true) = (fate, seen.keeps_frames) {
                    seen.departures.push((now, port, packet, frame.to_vec()));
                }
            }
            Event::Neighbour { interface, address, state: NeighbourState::Incomplete, .. } => {
                seen.unresolved.push((interface, address));
            }
            _ => {}
        }
    }

    fn interests(&self) -> EventInterests {
        EventInterests { packets: true, stages: true, arrivals: false }
    }

    fn choose(&mut self, _now: Instant, _port: PortId, packets: &mut [Packet]) {
        let mut seen = self.0.lock();
        for packet in packets {
            // A duplicate made by the port's fault injection is not counted.
            if let Some(number) = seen.arriving.remove(&packet.number()) {
                packet.meta_mut().flags |= Meta::FOLLOWED;
                seen.in_router.insert(packet.number(), number);
            }
        }
    }
}

/// Hashes bytes, the same in every run.
fn digest(frame: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(frame);
    hasher.finish()
}

/// A router without other peers.
pub struct ReplayRouter {
    rig: Rig,
    observations: Arc<Mutex<Observations>>,
    names: Names,
    began: Instant,
    batch: Batch,
    /// Neighbours that were assumed to answer.
    pub assumed: BTreeSet<(InterfaceId, IpAddr)>,
}

impl ReplayRouter {
    /// Starts a router with this configuration and lets it make its announcements; `keeps` records the frames that leave it.
    pub fn start(plan: &Plan, keeps: bool) -> Result<ReplayRouter, ApiError> {
        let seen = Arc::new(Mutex::new(Observations::default()));
        let mut rig = Rig::new(FRAMES, Layout::Three, Box::new(PacketObserver(seen.clone())));
        rig.router.set_hook_maker(std::sync::Arc::new(esp::Executor::new()));
        rig.wires = MemoryWires::replacing_devices();
        rig.wires.read_file = Some(|file| std::fs::read(file));
        rig.run(plan).map_err(|errors| ApiError {
            problems: errors.iter().map(api::Problem::from).collect(),
            ..ApiError::new(ErrorKind::CannotRun, "the configuration cannot run", "")
        })?;
        let mut names = Names::default();
        names.add_generation(rig.router.snapshot());
        let began = rig.now;
        let mut world =
            ReplayRouter { rig, observations: seen, names, began, batch: Batch::new(), assumed: BTreeSet::new() };
        world.advance(WARM_UP);
        world.began = world.rig.now;
        *world.observations.lock() = Observations { keeps_frames: keeps, ..Observations::default() };
        Ok(world)
    }

    /// Returns the names of its ports.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.rig.router.snapshot().ports.iter().flatten().map(|port| &*port.name)
    }

    /// Returns names by id.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Injects packet `number` into a port `after` the beginning. If it is `ours`, or was addressed to its recorded interface, it is addressed to the
    /// port.
    pub fn inject(&mut self, after: Nanos, number: u64, port: &str, ours: bool, recorded: &RecordedPacket<'_>) {
        let frame = recorded.frame;
        let due = self.began + after;
        if due > self.rig.now {
            self.advance(due.since(self.rig.now));
        }
        let Some(mut packet) = self.rig.pool.take_for(frame.len()) else { return };
        packet.fill(frame);
        let mac =
            self.rig.router.snapshot().ports.iter().flatten().find(|view| &*view.name == port).map(|view| view.mac);
        let mut seen = self.observations.lock();
        match mac {
            Some(mac) if ours || recorded.is_ours() => readdress(packet.bytes_mut(), mac),
            // Without the recorded MAC address, a frame to another address may have been for the port or not.
            _ if recorded.mac.is_none() => drop(seen.unknown.insert(number)),
            _ => {}
        }
        seen.arriving.insert(packet.number(), number);
        drop(seen);
        self.batch.push(packet);
        let far = self.rig.wires.far.get_mut(port).expect("the port was asked for by its name");
        far.transmit(self.rig.now, &mut self.batch, &mut self.rig.pool);
        self.settle();
    }

    /// Lets the router complete all pending work.
    pub fn finish(&mut self) {
        let end = self.rig.now + DRAIN_TIME;
        while !self.observations.lock().in_router.is_empty() && self.rig.now < end {
            self.advance(Nanos::secs(1));
        }
    }

    /// Returns the packet results since the previous call.
    pub fn take_outcomes(&mut self) -> Vec<(u64, ReplayOutcome)> {
        std::mem::take(&mut self.observations.lock().outcomes)
    }

    /// Returns the fates of the router's own packets since the previous call.
    pub fn take_own_fates(&mut self) -> Vec<Fate> {
        std::mem::take(&mut self.observations.lock().own_fates)
    }

    /// Returns the frames that have left since the previous call, in order.
    pub fn take_departures(&mut self) -> Vec<Departure> {
        let left = std::mem::take(&mut self.observations.lock().departures);
        let told = |(time, port, packet, frame): (Instant, _, _, _)| Departure {
            after: time.since(self.began),
            port: self.names.port(port),
            packet,
            frame,
        };
        left.into_iter().map(told).collect()
    }

    fn advance(&mut self, span: Nanos) {
        self.rig.advance(span);
        self.settle();
    }

    /// Completes all work due at this time, and answers for all requested neighbours.
    fn settle(&mut self) {
        loop {
            self.rig.settle();
            for far in self.rig.wires.far.values_mut() {
                while far.waiting() > 0 {
                    far.receive(self.rig.now, &mut self.batch, &mut self.rig.pool);
                    self.batch.drain().for_each(|packet| self.rig.pool.give(packet));
                }
            }
            let asked = std::mem::take(&mut self.observations.lock().unresolved);
            let mut answers = false;
            for (interface, address) in asked {
                if self.assumed.len() < MOST_NEIGHBOURS && self.assumed.insert((interface, address)) {
                    // An answer releases packets that wait for the neighbour, so settle once more.
                    self.rig.router.post(|| Command::Neighbour(interface, address, Some(NEIGHBOUR)));
                    answers = true;
                }
            }
            if !answers {
                return;
            }
        }
    }
}
