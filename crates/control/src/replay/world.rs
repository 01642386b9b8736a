//! A router of its own in virtual time, with links whose neighbours all answer, and what becomes of packets in it.

use super::Recorded;
use crate::api::{self, ApiError, ErrorKind};
use crate::explain::readdress;
use crate::names::Names;
use packet::event::{Event, Fate, NeighbourState, Observer, Wants};
use packet::port::Port;
use packet::{Batch, DropReason, Meta, Packet};
use parking_lot::Mutex;
use plan::Plan;
use plane::Command;
use plane::rig::{Rig, Wires};
use plane::snapshot::Layout;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Instant, InterfaceId, Mac, Nanos, PortId};

/// Frames of the router.
const FRAMES: usize = 8192;
/// Where a neighbour is that answers by assumption.
const NEIGHBOUR: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// How long a router is given before the first packet: its announcements are made by then.
const BEFORE: Nanos = Nanos::secs(10);
/// How long it is given after the last: whatever it holds has met its fate by then.
const AFTER: Nanos = Nanos::secs(120);
/// Neighbours that are assumed to answer at most; further ones do not.
const MOST_NEIGHBOURS: usize = 65_536;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// None that was seen: the router had no room for it, or still holds it.
    Lost,
    /// It met its fate; where it was sent, these are its bytes in short.
    Met(Fate, u64),
    /// It names another station than the port it came in by, and the capture does not say which station that port had: whether it
    /// was for the router is not known.
    Unjudged,
}

/// A frame that left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Departure {
    /// When, since the replay began.
    pub after: Nanos,
    /// The name of the port.
    pub port: String,
    /// The packet it came in as, by its number in the capture, from 1; nothing where the router made it.
    pub packet: Option<u64>,
    /// The frame.
    pub frame: Vec<u8>,
}

/// What the observer has seen and nobody has taken.
#[derive(Default)]
struct Seen {
    keeps: bool,
    /// Packets that are to come in, and those that have, by the number of their frame.
    coming: HashMap<usize, u64>,
    inside: HashMap<usize, u64>,
    /// Packets of which it is not known whether they were for the port.
    unknown: HashSet<u64>,
    met: Vec<(u64, Outcome)>,
    made: Vec<Fate>,
    left: Vec<(Instant, PortId, Option<u64>, Vec<u8>)>,
    asked: Vec<(InterfaceId, IpAddr)>,
}

struct Watcher(Arc<Mutex<Seen>>);

impl Observer for Watcher {
    fn event(&mut self, now: Instant, event: &Event<'_>) {
        let mut seen = self.0.lock();
        match *event {
            Event::Packet { frame, meta, fate, number } => {
                let packet = match meta.flags & Meta::FOLLOWED {
                    0 => None,
                    _ => seen.inside.remove(&number),
                };
                match packet {
                    Some(packet) => {
                        let outcome = match (seen.unknown.remove(&packet), fate) {
                            (true, Fate::Dropped(DropReason::OtherStation)) => Outcome::Unjudged,
                            _ => Outcome::Met(fate, digest(frame)),
                        };
                        seen.met.push((packet, outcome));
                    }
                    None => seen.made.push(fate),
                }
                if let (Fate::Sent(port), true) = (fate, seen.keeps) {
                    seen.left.push((now, port, packet, frame.to_vec()));
                }
            }
            Event::Neighbour { interface, address, state: NeighbourState::Incomplete, .. } => {
                seen.asked.push((interface, address));
            }
            _ => {}
        }
    }

    fn wants(&self) -> Wants {
        Wants { packets: true, stages: true, arrivals: false }
    }

    fn choose(&mut self, _now: Instant, _port: PortId, packets: &mut [Packet]) {
        let mut seen = self.0.lock();
        for packet in packets {
            // A copy that a port's faults have made of one is nobody's packet.
            if let Some(number) = seen.coming.remove(&packet.number()) {
                packet.meta_mut().flags |= Meta::FOLLOWED;
                seen.inside.insert(packet.number(), number);
            }
        }
    }
}

/// Bytes in short, the same in every run.
fn digest(frame: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(frame);
    hasher.finish()
}

/// A router that nobody else talks to.
pub struct World {
    rig: Rig,
    seen: Arc<Mutex<Seen>>,
    names: Names,
    began: Instant,
    batch: Batch,
    /// Neighbours that answered by assumption.
    pub assumed: BTreeSet<(InterfaceId, IpAddr)>,
}

impl World {
    /// A router with this configuration, its announcements made; `keeps` frames that leave it.
    pub fn start(plan: &Plan, keeps: bool) -> Result<World, ApiError> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut rig = Rig::new(FRAMES, Layout::Three, Box::new(Watcher(seen.clone())));
        rig.router.execute_by(std::sync::Arc::new(esp::Executor::new()));
        rig.wires = Wires::standing_in();
        rig.run(plan).map_err(|errors| ApiError {
            problems: errors.iter().map(api::Problem::from).collect(),
            ..ApiError::new(ErrorKind::CannotRun, "the configuration cannot run", "")
        })?;
        let mut names = Names::default();
        names.learn(rig.router.snapshot());
        let began = rig.now;
        let mut world = World { rig, seen, names, began, batch: Batch::new(), assumed: BTreeSet::new() };
        world.pass(BEFORE);
        world.began = world.rig.now;
        *world.seen.lock() = Seen { keeps, ..Seen::default() };
        Ok(world)
    }

    /// The names of its ports.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.rig.router.snapshot().ports.iter().flatten().map(|port| &*port.name)
    }

    /// Names by id.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// A packet that is called `number` comes in by a port `after` the beginning; where it is `ours`, or was for the interface that it
    /// came in by, as one for that port.
    pub fn arrive(&mut self, after: Nanos, number: u64, port: &str, ours: bool, recorded: &Recorded<'_>) {
        let frame = recorded.frame;
        let due = self.began + after;
        if due > self.rig.now {
            self.pass(due.since(self.rig.now));
        }
        let Some(mut packet) = self.rig.pool.take_for(frame.len()) else { return };
        packet.fill(frame);
        let mac =
            self.rig.router.snapshot().ports.iter().flatten().find(|view| &*view.name == port).map(|view| view.mac);
        let mut seen = self.seen.lock();
        match mac {
            Some(mac) if ours || recorded.is_ours() => readdress(packet.bytes_mut(), mac),
            _ if recorded.station.is_none() => drop(seen.unknown.insert(number)),
            _ => {}
        }
        seen.coming.insert(packet.number(), number);
        drop(seen);
        self.batch.push(packet);
        let far = self.rig.wires.far.get_mut(port).expect("the port was asked for by its name");
        far.transmit(self.rig.now, &mut self.batch, &mut self.rig.pool);
        self.settle();
    }

    /// Lets it bring to an end what it has begun.
    pub fn finish(&mut self) {
        let end = self.rig.now + AFTER;
        while !self.seen.lock().inside.is_empty() && self.rig.now < end {
            self.pass(Nanos::secs(1));
        }
    }

    /// What became of packets since this was last asked.
    pub fn met(&mut self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut self.seen.lock().met)
    }

    /// What became of the router's own packets since this was last asked.
    pub fn made(&mut self) -> Vec<Fate> {
        std::mem::take(&mut self.seen.lock().made)
    }

    /// What left since this was last asked, in that order.
    pub fn left(&mut self) -> Vec<Departure> {
        let left = std::mem::take(&mut self.seen.lock().left);
        let told = |(time, port, packet, frame): (Instant, _, _, _)| Departure {
            after: time.since(self.began),
            port: self.names.port(port),
            packet,
            frame,
        };
        left.into_iter().map(told).collect()
    }

    fn pass(&mut self, span: Nanos) {
        self.rig.pass(span);
        self.settle();
    }

    /// Everything is done that there is to do at this time, and whoever was asked for has answered.
    fn settle(&mut self) {
        loop {
            self.rig.settle();
            for far in self.rig.wires.far.values_mut() {
                while far.waiting() > 0 {
                    far.receive(self.rig.now, &mut self.batch, &mut self.rig.pool);
                    self.batch.drain().for_each(|packet| self.rig.pool.give(packet));
                }
            }
            let asked = std::mem::take(&mut self.seen.lock().asked);
            let mut answers = false;
            for (interface, address) in asked {
                if self.assumed.len() < MOST_NEIGHBOURS && self.assumed.insert((interface, address)) {
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
