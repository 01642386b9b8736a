//! A world without side effects: the host's actions become steps of the explanation.

use super::{DryRun, ExpectedFate, ExplainStep, Steps};
use crate::classify::{REPLICATED, TUNNELLED, Target};
use crate::router::config_routes::{self, RouteGoal, Routes};
use crate::routing::HeldHop;
use crate::worker::MAX_ROUNDS;
use fib::{Origin, Outcome, RouteChange, RouteReport, TableLimits, Tables};
use nat::{Nat, NatRules};
use packet::event::Event;
use packet::wire::{Arp, Ipv4Header, Ipv6Header, flow_hash};
use packet::{DropReason, Exception, Meta, Packet, Pool};
use stack::{Interface, LocalProtocols, NeighbourReport, World};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use units::{Instant, InterfaceId, VrfId};

/// The packet's fate, its path, and the unresolved neighbours.
type DryResult = (ExpectedFate, Option<usize>, Vec<(InterfaceId, IpAddr)>);

/// Sufficient for one packet.
const LIMITS: TableLimits = TableLimits { adjacencies: 4096, routes: 1 << 22 };

/// Runs the host on the packet. Returns the packet's fate, its last path, and the neighbours being resolved.
pub(super) fn run(
    dry_run: DryRun<'_>,
    pool: Pool,
    mut concerned: Vec<IpAddr>,
    packet: Packet,
    target: Target,
) -> DryResult {
    concerned.extend(self::packet_addresses(&packet));
    concerned.extend(translated_addresses(dry_run));
    for tunnel in dry_run.question.snapshot.tunnels.iter() {
        concerned.extend(tunnel.plan.remotes.iter().copied().chain([tunnel.plan.local]));
    }
    // Connections share addresses, and each address costs a look at the live tables.
    concerned.sort_unstable();
    concerned.dedup();
    let flow = flow_hash(packet.bytes(), packet.meta().l3.into(), dry_run.question.tables.flow_key());
    let (tables, mut hops) =
        copy_tables(dry_run.question.tables, &dry_run.question.snapshot.interfaces, &concerned, flow);
    hops.extend(copy_rule_hops(&dry_run, &tables));
    let mut world = DryWorld {
        dry_run,
        tables: &tables,
        pool,
        reclassified: VecDeque::new(),
        expected: None,
        path: None,
        awaited: Vec::new(),
        quiet: true,
    };
    let mut host = LocalProtocols::new(dry_run.question.snapshot.limits);
    // The host's own announcements do not concern this packet.
    host.adopt(&mut world);
    let wanted = |known: &&NeighbourReport| concerned.contains(&known.address) || hops.contains(&known.address);
    for known in dry_run.question.reports.iter().flat_map(|report| &report.neighbours).filter(wanted) {
        host.restore_neighbour(known, &mut world);
    }
    // From here on the host acts on the packet of the question.
    world.quiet = false;
    world.reclassified.push_back((packet, target));
    while let Some((packet, target)) = world.reclassified.pop_front() {
        world.travel(packet, target, &mut host);
    }
    let asked = host.neighbours().into_iter().filter(|neighbour| neighbour.pending > 0);
    let by_host = asked.map(|asked| (asked.interface, asked.address));
    let awaited: Vec<(InterfaceId, IpAddr)> = world.awaited.iter().copied().chain(by_host).collect();
    if world.expected.is_none() {
        let waits = |&(interface, address): &_| ExpectedFate::AwaitsNeighbour { interface, address };
        // The host ends every packet, forwards it, queues it for a neighbour, or keeps it until its other fragments arrive.
        world.expected = Some(awaited.first().map_or(ExpectedFate::Reassembling, waits));
    }
    world.quiet = true;
    // The host returns its packets to the pool. Their drops do not belong to the explanation.
    host.drain(&mut world);
    (world.expected.unwrap_or(ExpectedFate::Reassembling), world.path, awaited)
}

/// The addresses before and after translation that may concern the packet.
fn translated_addresses(dry_run: DryRun<'_>) -> Vec<IpAddr> {
    let known = |state: &mut nat::NatState| {
        let ends = state.table.iter().flat_map(|known| [known.inside, known.outside, known.peer]);
        ends.map(|end| end.address).collect::<Vec<u32>>()
    };
    let forwards = dry_run.question.snapshot.nat.iter().flat_map(|rules| &rules.forwards);
    let led = forwards.map(|forward| forward.inside.address);
    let all = dry_run.nat.with(known).unwrap_or_default().into_iter().chain(led);
    all.map(|address| IpAddr::V4(address.into())).collect()
}

/// The addresses in the packet.
pub(super) fn packet_addresses(packet: &Packet) -> Vec<IpAddr> {
    let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
    let ends = if packet.meta().exception == Exception::Arp as u8 {
        Arp::parse(l3).ok().map(|arp| [arp.sender_ip.into(), arp.target_ip.into()])
    } else if packet.meta().flags & Meta::IPV6 == 0 {
        Ipv4Header::of(l3).map(|header| [header.source().into(), header.destination().into()])
    } else {
        Ipv6Header::of(l3).map(|header| [header.source().into(), header.destination().into()])
    };
    ends.map_or_else(Vec::new, Vec::from)
}

/// A copy of the tables that routes these destinations and the router's own addresses as `live` does for this flow; and the next hops.
fn copy_tables(
    live: &Tables,
    interfaces: &[Interface],
    destinations: &[IpAddr],
    flow: u32,
) -> (Arc<Tables>, Vec<IpAddr>) {
    let (tables, mut hops) = (Arc::new(Tables::with_limits(LIMITS)), Vec::new());
    let vrfs: BTreeSet<VrfId> = interfaces.iter().map(|interface| live.vrf_of(interface.id)).collect();
    // Before the routes: `attach` creates the tables of a VRF.
    interfaces.iter().for_each(|interface| tables.attach(interface.id, live.vrf_of(interface.id)));
    let special = |(prefix, outcome)| RouteChange { vrf: VrfId::MAIN, prefix, origin: Origin::Local, outcome };
    let always = config_routes::martian_routes().map(special);
    // Of the other routes only those that cover a destination are copied, below.
    let own = Routes::from_addresses(interfaces, |interface| live.vrf_of(interface));
    let own = own.iter().filter_map(|(&(vrf, prefix, origin), goal)| match *goal {
        RouteGoal::Plain(outcome) => Some(RouteChange { vrf, prefix, origin, outcome }),
        RouteGoal::Via(..) | RouteGoal::Group(_) => None,
    });
    let fits = "a packet concerns no more routes than there is room for";
    tables.apply_routes(always.chain(own)).expect(fits);
    let asked = vrfs.into_iter().flat_map(|vrf| destinations.iter().map(move |&destination| (vrf, destination)));
    for route in asked.flat_map(|(vrf, destination)| live.covering(vrf, destination)) {
        let RouteReport { vrf, prefix, origin, .. } = route;
        let set = |outcome| tables.change_route(RouteChange { vrf, prefix, origin, outcome }).expect(fits);
        // For a group, the packet sees one member.
        let (outcome, leads) = match route.outcome {
            Outcome::Group(group) => {
                let member = live.groups().pick(group, flow);
                (Outcome::Via(member), live.next_hop(member))
            }
            outcome => (outcome, route.interface.zip(route.next_hop)),
        };
        match (outcome, leads) {
            // The host creates these itself, from its neighbours.
            _ if origin == Origin::Neighbour => {}
            (Outcome::Via(_), Some((interface, hop))) => {
                // The caller copies the neighbour entries of these too.
                hops.push(hop);
                let adjacency = tables.adjacency_for(interface, hop).expect(fits);
                set(Outcome::Via(adjacency));
                // The route holds the adjacency now.
                tables.release(adjacency);
            }
            (Outcome::Via(_), None) => {}
            (outcome, _) => set(outcome),
        }
    }
    (tables, hops)
}

/// Copies the next hops of routing rules, and which ports are down. Returns the addresses.
fn copy_rule_hops(dry_run: &DryRun<'_>, tables: &Tables) -> Vec<IpAddr> {
    let (live, snapshot) = (dry_run.question.tables, dry_run.question.snapshot);
    for interface in &snapshot.interfaces {
        tables.set_up(interface.id, live.is_up(interface.id));
    }
    let rules = snapshot.routing.rules();
    let hops = rules.iter().filter_map(|status| status.rule.held.get::<HeldHop>());
    // A next hop beyond the room of the copy counts as one behind a port that is down.
    hops.filter(|hop| tables.adjacency_for(hop.interface, hop.address).is_some()).map(|hop| hop.address).collect()
}

/// The host's world, with its own tables.
struct DryWorld<'a> {
    dry_run: DryRun<'a>,
    tables: &'a Arc<Tables>,
    pool: Pool,
    /// Packets to be classified again, with their targets.
    reclassified: VecDeque<(Packet, Target)>,
    expected: Option<ExpectedFate>,
    path: Option<usize>,
    /// The next hops of routing rules that the packet waits for.
    awaited: Vec<(InterfaceId, IpAddr)>,
    /// While true, nothing is recorded: the host acts for other packets.
    quiet: bool,
}

/// True if this is the packet of the question, also within a tunnel, and not one that the host generated.
fn is_original(packet: &Packet) -> bool {
    packet.meta().flags & Meta::GENERATED == 0 || packet.meta().rounds & Meta::ENCAPSULATED != 0
}

impl DryWorld<'_> {
    fn travel(&mut self, packet: Packet, target: Target, host: &mut LocalProtocols) {
        let original = is_original(&packet);
        if target == REPLICATED {
            let (expected, path) = self.dry_run.replicate(self.tables, packet, &mut self.pool);
            (self.expected, self.path) = (Some(expected), path);
            return;
        }
        // The steps of packets that the host generates are not part of the explanation.
        let others = Steps::default();
        let way = if original { self.dry_run } else { DryRun { steps: &others, ..self.dry_run } };
        match way.follow_packet(self.tables, target, packet, &mut self.pool) {
            Err((packet, _)) => {
                if original {
                    self.path = self.dry_run.path_of(&packet);
                }
                // The host knows the usual routes only.
                if let Some((interface, address)) = way.hop_by_rule(self.tables, &packet) {
                    self.awaited.extend(original.then_some((interface, address)));
                    return self.end(packet, ExpectedFate::AwaitsNeighbour { interface, address });
                }
                host.receive(packet, self);
            }
            Ok((expected, path)) if original => (self.expected, self.path) = (Some(expected), path),
            Ok(_) => {}
        }
    }

    fn end(&mut self, packet: Packet, expected: ExpectedFate) {
        if is_original(&packet) && !self.quiet {
            self.expected = Some(expected);
        }
        self.pool.give(packet);
    }
}

impl World for DryWorld<'_> {
    fn now(&self) -> Instant {
        self.dry_run.question.now
    }

    fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.dry_run.question.snapshot.interface(id)
    }

    fn interfaces(&self) -> &[Interface] {
        &self.dry_run.question.snapshot.interfaces
    }

    fn tables(&self) -> &Tables {
        self.tables
    }

    fn nat(&self) -> Option<(&NatRules, &Nat)> {
        self.dry_run.question.snapshot.nat.as_ref().map(|rules| (rules, self.dry_run.nat))
    }

    fn generate(&mut self, length: usize) -> Option<Packet> {
        let mut packet = self.pool.take_for(length)?;
        packet.meta_mut().flags = Meta::GENERATED;
        packet.meta_mut().timestamp = self.now();
        Some(packet)
    }

    fn send(&mut self, interface: InterfaceId, packet: Packet) {
        if !self.quiet {
            self.dry_run.steps.add(ExplainStep::Reply { interface, frame: packet.bytes().to_vec() });
        }
        self.pool.give(packet);
    }

    fn forward(&mut self, mut packet: Packet) {
        // Bound and reason are those of the worker, so that the explanation ends as the packet does.
        if packet.meta_mut().count_classification() > MAX_ROUNDS {
            return self.drop(packet, DropReason::NeighbourFailed);
        }
        let others = Steps::default();
        let original = is_original(&packet);
        if original {
            self.dry_run.steps.add(ExplainStep::Reclassified);
        }
        let way = if original { self.dry_run } else { DryRun { steps: &others, ..self.dry_run } };
        let target = way.classifier(self.tables).classify_again(&mut packet);
        self.reclassified.push_back((packet, target));
    }

    fn consume(&mut self, packet: Packet) {
        self.end(packet, ExpectedFate::Consumed);
    }

    fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.end(packet, ExpectedFate::Dropped(reason));
    }

    fn decapsulate(&mut self, packet: Packet) {
        // The dry run ends it like the worker does: see `DryRun::follow_packet`.
        self.reclassified.push_back((packet, TUNNELLED));
    }

    fn event(&mut self, _event: Event<'_>) {}
}
