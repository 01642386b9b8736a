//! A dry run: shows step by step what the router does with a packet, and why.
//!
//! The packet goes through the same classifier, functions and host as in a worker. A witness receives the classifier's findings, and a world
//! without side effects records the host's actions. So an explanation is exact. Nothing is counted or sent, and neither routes nor neighbours
//! change. The host learns from packets; so it has its own tables with a copy of the entries that concern this packet (`dry_run`).
//!
//! A dry run cannot predict effects of other packets: a full queue, an exhausted rate limit, the packet's other fragments, decisions of a
//! queueing scheme about a backlog. The current state of these is in the reports of [`ExplainContext`].

mod dry_run;
mod instruction;

pub use instruction::InstructionVisit;

use crate::classify::{Classifier, Dispatch, Finding, REFUSED, REPLICATED, TUNNELLED, Target, Witness};
use crate::function::{Context, Functions};
use crate::multicast::REPLICA;
use crate::snapshot::{BEST_EFFORT, Snapshot};
use crate::tunnel::{OtherEnds, Tunnel, Unencapsulated};
use crate::worker::{MAX_ROUNDS, WorkerReport};
use fib::{RouteReport, Tables};
use nat::Nat;
use packet::port::refusal_reason;
use packet::segment::is_to_fragment;
use packet::wire::Fragmenter;
use packet::{DropReason, Exception, Packet, Pool, Region, segment};
use stack::NeighbourReport;
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Instant, InterfaceId, PortId};

/// Frames for the packet and all packets it causes: more than the longest packet has fragments.
const FRAMES: usize = 128;
const SUPER_FRAMES: usize = 2;

/// The state of the router that is asked about a packet.
#[derive(Clone, Copy)]
pub struct ExplainContext<'a> {
    /// The running generation.
    pub snapshot: &'a Snapshot,
    /// The routes and adjacencies.
    pub tables: &'a Arc<Tables>,
    /// The reports of the workers: neighbours, ports and queues.
    pub reports: &'a [WorkerReport],
    /// The time of the packet's arrival.
    pub now: Instant,
    /// The functions available to its paths.
    pub functions: &'a Functions,
}

/// A step in the packet's processing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExplainStep {
    /// A finding of the classifier.
    Found(Finding),
    /// The routes that cover the destination just looked up, the longest prefix first: see [`Tables::covering`].
    Routes(Vec<RouteReport>),
    /// The neighbour entry of the next hop just found.
    Neighbour {
        /// The interface of its link.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
        /// The entry; `None` if there is none.
        entry: Option<NeighbourReport>,
    },
    /// A function of a path processes it.
    Function {
        /// The path's position in the snapshot.
        path: usize,
        /// The function's position in the path.
        index: usize,
        /// The frame before.
        before: Vec<u8>,
        /// The frame after.
        after: Vec<u8>,
        /// The reason for its treatment, if it gives one.
        decision: Option<String>,
    },
    /// The host sends a frame in response: a reply, an ICMP error, a solicitation.
    Reply {
        /// The interface it leaves by.
        interface: InterfaceId,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A replica is made for this interface. Its own steps follow, and its fate is in [`ExpectedFate::Replicated`].
    Replica {
        /// The interface.
        interface: InterfaceId,
    },
    /// A fragment of it leaves by this port, because the packet is longer than the MTU.
    Fragment {
        /// The port.
        port: PortId,
        /// The frame.
        frame: Vec<u8>,
    },
    /// The tunnel of this port encapsulates it: the outer packet is classified next.
    Encapsulated {
        /// The port.
        port: PortId,
        /// The outer packet, behind a link header without addresses.
        frame: Vec<u8>,
    },
    /// It has arrived at the end of a tunnel: the packet within arrives at the tunnel's port.
    Decapsulated {
        /// The port.
        port: PortId,
        /// The frame that arrives.
        frame: Vec<u8>,
    },
    /// It carries an instruction for this place.
    Instruction(InstructionVisit),
    /// The host forwards it: it is classified again.
    Reclassified,
}

/// The packet's fate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExpectedFate {
    /// It is given to the link of this port.
    Sent {
        /// The port.
        port: PortId,
        /// The interface.
        interface: InterfaceId,
        /// The frame as it leaves.
        frame: Vec<u8>,
    },
    /// Each interface of its group gets a replica: their fates, in the order of interfaces.
    Replicated(Vec<ExpectedFate>),
    /// It is consumed: it was for the router itself, or was fragmented.
    Consumed,
    /// It is dropped.
    Dropped(DropReason),
    /// It is queued until a neighbour is resolved.
    AwaitsNeighbour {
        /// The interface of its link.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
    },
    /// It is a fragment, and is kept until the others arrive: it is for the router itself, or its translation needs the first fragment.
    Reassembling,
}

/// The result of a dry run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The steps, in their order.
    pub steps: Vec<ExplainStep>,
    /// The packet's fate.
    pub expected: ExpectedFate,
    /// The last path it takes, as a position in the snapshot. `None` if it is refused before.
    pub path: Option<usize>,
    /// The neighbours to be resolved: for the packet, its fragments, or ICMP errors about it.
    pub unresolved: Vec<(InterfaceId, IpAddr)>,
}

/// The steps so far. As a witness it adds the classifier's findings.
#[derive(Default)]
struct Steps(RefCell<Vec<ExplainStep>>);

impl Steps {
    fn add(&self, step: ExplainStep) {
        self.0.borrow_mut().push(step);
    }
}

impl Witness for &Steps {
    fn observe(self, finding: impl FnOnce() -> Finding) {
        self.add(ExplainStep::Found(finding()));
    }
}

/// Explains what the router does with `frame` if it arrives on `port` now.
///
/// # Panics
/// If the snapshot has no such port.
pub fn explain(question: &ExplainContext<'_>, port: PortId, frame: &[u8]) -> Explanation {
    let view = question.snapshot.port(port).expect("the caller names a port of the snapshot");
    let steps = Steps::default();
    let dispatch = dispatch(question.snapshot);
    let mut pool = Pool::new(Region::with_super_frames(FRAMES, SUPER_FRAMES));
    let mut packet = pool.take_for(frame.len()).expect("a new pool has frames");
    if !packet.fill(frame) {
        pool.give(packet);
        let expected = ExpectedFate::Dropped(DropReason::FrameTooLong);
        return Explanation { steps: vec![], expected, path: None, unresolved: vec![] };
    }
    let nothing = Nat::default();
    let way = DryRun { question, dispatch: &dispatch, steps: &steps, nat: &nothing };
    let target = way.classifier(question.tables).classify_one((port, view), question.now, &mut packet);
    way.add_input_instructions(port, &packet);
    let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
    // After the classification, which needs no translations: only now the packet's addresses are known.
    let nat = question.snapshot.translations.sample(question.snapshot.nat.as_ref(), l3, question.now);
    let way = DryRun { nat: &nat, ..way };
    let concerned = dry_run::packet_addresses(&packet);
    let (expected, path, awaited) = if target == REPLICATED {
        let (expected, path) = way.replicate(question.tables, packet, &mut pool);
        (expected, path, Vec::new())
    } else {
        match way.follow_packet(question.tables, target, packet, &mut pool) {
            Ok((expected, path)) => (expected, path, Vec::new()),
            Err((packet, target)) => dry_run::run(way, pool, concerned, packet, target),
        }
    };
    let steps = steps.0.into_inner().into_iter().flat_map(|step| with_details(question, step)).collect();
    Explanation { steps, expected, path, unresolved: awaited }
}

/// Adds the covering routes and the neighbour entry to a step.
fn with_details(question: &ExplainContext<'_>, step: ExplainStep) -> Vec<ExplainStep> {
    let known = |interface, address| {
        let all = question.reports.iter().flat_map(|report| &report.neighbours);
        all.into_iter().find(|known| (known.interface, known.address) == (interface, address)).cloned()
    };
    match step {
        ExplainStep::Found(Finding::Member { adjacency, .. }) => {
            let hop = question.tables.next_hop(adjacency);
            let neighbour = hop.map(|(interface, address)| ExplainStep::Neighbour {
                interface,
                address,
                entry: known(interface, address),
            });
            [step].into_iter().chain(neighbour).collect()
        }
        ExplainStep::Found(Finding::Lookup { vrf, destination, .. } | Finding::RuleLookup { vrf, destination, .. }) => {
            let routes = question.tables.covering(vrf, destination);
            // A route to a group has no next hop here: the neighbour follows with the finding `Member`.
            let first = routes.first();
            let hop = first.and_then(|route| {
                // On a connected network the destination is its own next hop.
                let connected = matches!(route.outcome, fib::Outcome::Connected(_)).then_some(destination);
                Some((route.interface?, route.next_hop.or(connected)?))
            });
            let neighbour = hop.map(|(interface, address)| ExplainStep::Neighbour {
                interface,
                address,
                entry: known(interface, address),
            });
            [step, ExplainStep::Routes(routes)].into_iter().chain(neighbour).collect()
        }
        ExplainStep::Found(Finding::Gateway { interface, address }) => {
            vec![step, ExplainStep::Neighbour { interface, address, entry: known(interface, address) }]
        }
        step => vec![step],
    }
}

/// Each path at each port is an instance, numbered by position. The two instances of the host follow.
fn dispatch(snapshot: &Snapshot) -> Dispatch {
    let (paths, ports) = (snapshot.paths.len(), snapshot.ports.len());
    let host = ((paths * ports) as Target, (paths * ports) as Target + 1);
    // Removed ports keep their numbers but have no instances, as in a worker.
    let open = |port: &usize| snapshot.ports[*port].is_some();
    let served = (0..paths).flat_map(|path| {
        (0..ports).filter(open).map(move |port| (path, PortId::at(port), (path * ports + port) as Target))
    });
    let best_effort = snapshot.paths.iter().position(|path| path.id == BEST_EFFORT).unwrap_or(0);
    Dispatch::new((paths, ports), best_effort, host, snapshot, served)
}

/// The way of one packet through the router.
#[derive(Clone, Copy)]
struct DryRun<'a> {
    question: &'a ExplainContext<'a>,
    dispatch: &'a Dispatch,
    steps: &'a Steps,
    /// The translation table, as far as it matters to the packet.
    nat: &'a Nat,
}

impl DryRun<'_> {
    fn classifier<'b>(&'b self, tables: &'b Tables) -> Classifier<'b, &'b Steps> {
        Classifier { snapshot: self.question.snapshot, tables, dispatch: self.dispatch, witness: self.steps }
    }

    /// The next hop that a packet waits for because a routing rule selects it.
    fn hop_by_rule(&self, tables: &Tables, packet: &Packet) -> Option<(InterfaceId, IpAddr)> {
        if packet.meta().exception != Exception::Resolve as u8 {
            return None;
        }
        // The destination is the second of the packet's addresses.
        let &destination = dry_run::packet_addresses(packet).get(1)?;
        let classifier = self.classifier(tables);
        let (_, is_selected) = classifier.preview_route(packet, destination);
        classifier.next_hop(packet, destination).filter(|_| is_selected)
    }

    /// The position of the path of an instance, and its port. `None` for the instances of the host.
    fn position(&self, target: Target) -> Option<(usize, PortId)> {
        let ports = self.question.snapshot.ports.len();
        let of_host = target == self.dispatch.control || target == self.dispatch.general;
        // Without ports there are only the host's instances, and the division is undefined.
        (!of_host && ports > 0).then(|| (usize::from(target) / ports, PortId::at(usize::from(target) % ports)))
    }

    /// The position of the packet's path.
    fn path_of(&self, packet: &Packet) -> Option<usize> {
        self.question.snapshot.paths.iter().position(|path| path.id == packet.meta().path)
    }

    /// Follows a packet until it ends or the host receives it. Returns its fate and its last path, or the packet and its target.
    fn follow_packet(
        &self,
        tables: &Arc<Tables>,
        mut target: Target,
        mut packet: Packet,
        pool: &mut Pool,
    ) -> Result<(ExpectedFate, Option<usize>), (Packet, Target)> {
        let mut path = None;
        let (packet, expected) = loop {
            if target == TUNNELLED || packet.meta().exception == Exception::Tunnel as u8 {
                match self.end_tunnel(tables, &mut packet) {
                    Ok(next) => target = next,
                    Err(reason) => break (packet, ExpectedFate::Dropped(reason)),
                }
                continue;
            }
            match self.position(target).filter(|_| target != REFUSED) {
                Some((position, _)) => path = Some(position),
                None if target != REFUSED => return Err((packet, target)),
                None => {}
            }
            match self.forward(tables, target, packet) {
                Ok((back, ExpectedFate::Sent { port, interface, frame })) => {
                    packet = back;
                    match self.enter_tunnel(tables, port, &mut packet) {
                        Some(Ok(next)) => target = next,
                        Some(Err(expected)) => break (packet, expected),
                        None => break (packet, ExpectedFate::Sent { port, interface, frame }),
                    }
                    continue;
                }
                Ok(ended) => break ended,
                Err(back) => packet = back,
            }
            if packet.is_offloaded() && !segment::complete_for_local(&mut packet) {
                break (packet, ExpectedFate::Dropped(DropReason::BadOffload));
            }
            // All other exceptions are for the host.
            let onward = [Exception::Again as u8, Exception::Dispatched as u8].contains(&packet.meta().exception);
            if !onward {
                return Err((packet, self.dispatch.control));
            }
            // The same bound as in a worker: functions and classifier could pass a packet to each other for ever.
            if packet.meta_mut().count_classification() > MAX_ROUNDS {
                break (packet, ExpectedFate::Dropped(DropReason::Rounds));
            }
            self.steps.add(ExplainStep::Reclassified);
            target = self.classifier(tables).classify_again(&mut packet);
        };
        pool.give(packet);
        Ok((expected, path))
    }

    /// Encapsulates a packet that leaves by the port of a tunnel. Returns the target of the outer packet, or the fate of a packet that is not
    /// encapsulated. `None` if the port is no tunnel.
    fn enter_tunnel(&self, tables: &Tables, port: PortId, packet: &mut Packet) -> Option<Result<Target, ExpectedFate>> {
        // A copy with numbers of its own: those of the tunnel are for real packets.
        let tunnel = Tunnel { state: Arc::default(), ..self.question.snapshot.tunnels.of_port(port)?.clone() };
        // The stations that the tunnel has learned are not in the copy. Of several other ends, a packet to all goes to the last one last.
        let known = self.question.snapshot.tunnels.of_port(port)?;
        let remote = match known.other_ends(packet.bytes(), self.question.now) {
            OtherEnds::One(remote) => remote,
            OtherEnds::All(remotes) => *remotes.last()?,
        };
        Some(match tunnel.encapsulate(packet, remote, tables.flow_key()) {
            Ok(()) => {
                self.steps.add(ExplainStep::Encapsulated { port, frame: packet.bytes().to_vec() });
                Ok(self.classifier(tables).classify_again(packet))
            }
            Err(Unencapsulated::Ignored) => Err(ExpectedFate::Consumed),
            Err(Unencapsulated::Dropped(reason)) => Err(ExpectedFate::Dropped(reason)),
        })
    }

    /// Ends a packet at the end of its tunnel. Returns the target of the packet within.
    fn end_tunnel(&self, tables: &Tables, packet: &mut Packet) -> Result<Target, DropReason> {
        let snapshot = self.question.snapshot;
        let inner = snapshot.tunnels.inner(packet.meta().out_interface, packet)?;
        let port = inner.tunnel.port;
        let view = snapshot.port(port).ok_or(DropReason::PortRemoved)?;
        if !inner.cut(packet, None) {
            return Err(DropReason::FrameTooShort);
        }
        self.steps.add(ExplainStep::Decapsulated { port, frame: packet.bytes().to_vec() });
        Ok(self.classifier(tables).classify_one((port, view), self.question.now, packet))
    }

    /// The fates of the replicas of a packet, and their path.
    fn replicate(&self, tables: &Arc<Tables>, packet: Packet, pool: &mut Pool) -> (ExpectedFate, Option<usize>) {
        let snapshot = self.question.snapshot;
        let (position, path) = (packet.meta().adjacency.index(), usize::from(packet.meta().version));
        let groups = self.dispatch.groups.borrow();
        let route = snapshot.multicast.get(position).or_else(|| groups.get().get(position));
        let routes: &[InterfaceId] = route.map_or(&[], |route| &route.to);
        let copied = routes.iter().map(|&interface| {
            self.steps.add(ExplainStep::Replica { interface });
            let Some(mut copy) = pool.take_for(packet.len()) else {
                return ExpectedFate::Dropped(DropReason::PoolEmpty);
            };
            // A worker lets replicas share the payload. The bytes on the wire are the same.
            copy.copy(&packet);
            let meta = copy.meta_mut();
            // Until here adjacency and version hold the positions of route and path: see `REPLICATED`.
            (meta.adjacency, meta.version, meta.out_interface) = (REPLICA, 0, interface);
            let egress = snapshot.egress(interface);
            let length = copy.len() - usize::from(copy.meta().l3);
            let mtu = tables.mtu(interface, egress.mtu);
            self.steps.add(ExplainStep::Found(Finding::Mtu { interface, length, mtu }));
            if length > usize::from(mtu) {
                pool.give(copy);
                return ExpectedFate::Dropped(DropReason::TooBig);
            }
            let target = self.dispatch.instance(path, egress.port);
            let copied = self.follow_packet(tables, target, copy, pool);
            // The link has changed since the lookup just before.
            copied.map_or_else(
                |(copy, _)| {
                    pool.give(copy);
                    ExpectedFate::Dropped(DropReason::NeighbourFailed)
                },
                |(expected, _)| expected,
            )
        });
        let copied = copied.collect();
        pool.give(packet);
        (ExpectedFate::Replicated(copied), Some(path))
    }

    /// Runs the functions of a path. Returns the packet with its fate, or the packet alone if it goes to the host.
    fn forward(
        &self,
        tables: &Arc<Tables>,
        target: Target,
        mut packet: Packet,
    ) -> Result<(Packet, ExpectedFate), Packet> {
        let Some((path, port)) = self.position(target).filter(|_| target != REFUSED) else {
            let reason = refusal_reason(&packet).unwrap_or(DropReason::PortRemoved);
            return Ok((packet, ExpectedFate::Dropped(reason)));
        };
        let snapshot = self.question.snapshot;
        let asked = std::cell::Cell::default();
        // No limit: the time of a function is not predicted.
        let context = Context {
            now: self.question.now,
            snapshot,
            tables,
            nat: self.nat,
            limit: None,
            dry_run: true,
            extra_time: &asked,
        };
        let functions =
            self.question.functions.build(&snapshot.paths[path]).expect("the functions of a generation exist");
        for (index, mut function) in functions.into_iter().enumerate() {
            let before = packet.bytes().to_vec();
            function.process(context, std::slice::from_mut(&mut packet));
            let (after, decision) = (packet.bytes().to_vec(), function.decision());
            self.steps.add(ExplainStep::Function { path, index, before, after, decision });
            // A worker runs the other functions too, but they skip a diverted packet.
            if packet.meta().refused | packet.meta().exception != 0 {
                break;
            }
        }
        if let Some(reason) = refusal_reason(&packet) {
            return Ok((packet, ExpectedFate::Dropped(reason)));
        }
        if packet.meta().exception != 0 {
            return Err(packet);
        }
        self.add_output_instructions(port, &packet);
        if is_to_fragment(&packet) {
            let cut = self.fragment(tables, port, &packet);
            return Ok((packet, cut));
        }
        // Several workers may report the port; the state is that of the device.
        let down = self.question.reports.iter().flat_map(|report| &report.ports).any(|r| r.port == port && !r.up);
        let sent = |packet: &Packet| ExpectedFate::Sent {
            port,
            interface: packet.meta().out_interface,
            frame: packet.bytes().to_vec(),
        };
        let expected = if down { ExpectedFate::Dropped(DropReason::PortDown) } else { sent(&packet) };
        Ok((packet, expected))
    }

    /// The fate of a packet that is cut into fragments.
    fn fragment(&self, tables: &Tables, port: PortId, packet: &Packet) -> ExpectedFate {
        let out = packet.meta().out_interface;
        let mtu = tables.mtu(out, self.question.snapshot.egress(out).mtu);
        let cut = Fragmenter::new(packet.bytes(), usize::from(packet.meta().l3), usize::from(mtu));
        let Some(mut cut) = cut else { return ExpectedFate::Dropped(DropReason::TooBig) };
        while cut.next_length() > 0 {
            let mut frame = vec![0; cut.next_length()];
            if cut.write(packet.bytes(), &mut frame).is_none() {
                break;
            }
            self.steps.add(ExplainStep::Fragment { port, frame });
        }
        ExpectedFate::Consumed
    }
}
