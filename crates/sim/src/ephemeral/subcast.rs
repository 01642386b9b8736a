//! Data along the marked branches of a multicast tree (Calvert et al. 2003, 4.2; spec E-45, E-X13). Whole routers, with their forwarding, replication
//! and stores, are connected by cables without delay.

use super::Values;
use super::tree::{GROUP, HostLocation, Tree};
use esp::Executor;
use esp::host::Computation;
use esp::wire::{Addresses, Carriages, Locations, datagram, dedicated, wrap};
use packet::event::Silent;
use packet::wire::ipv4::multicast_mac;
use plane::rig::Rig;
use plane::snapshot::Layout;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Mac;

/// Frames of each router.
const FRAMES: usize = 512;
/// The port of the data's datagrams.
const PORT: u16 = 5004;

/// The tree and the receivers that want data.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct SubcastPlan {
    /// The number of receivers at each router of the last level.
    pub receivers: Vec<usize>,
    /// The receivers that want data, numbered from 1 across all routers.
    pub marked: Vec<usize>,
    /// True if each router has a single store for all locations.
    pub single_store: bool,
    /// The number of data packets.
    pub packets: u64,
}

/// The values of a run, from the number of data packets that each receiver got.
///
/// | value | meaning |
/// |---|---|
/// | `copies.N` | data packets that receiver N got |
/// | `wanted_least`, `wanted_most` | the fewest and the most that a marked receiver got |
/// | `unwanted_most`, `unwanted` | the most that an unmarked receiver got, and how many of them got any |
/// | `nodes` | hosts and routers |
pub fn report_copies(plan: &SubcastPlan, copies: &[usize]) -> Values {
    let is_marked = |n: usize| plan.marked.contains(&(n + 1));
    let of = |marked: bool| copies.iter().enumerate().filter(move |(n, _)| is_marked(*n) == marked).map(|(_, c)| *c);
    let mut values: Values =
        copies.iter().enumerate().map(|(n, copies)| (format!("copies.{}", n + 1), *copies as f64)).collect();
    values.insert("wanted_least".to_owned(), of(true).min().unwrap_or(0) as f64);
    values.insert("wanted_most".to_owned(), of(true).max().unwrap_or(0) as f64);
    values.insert("unwanted_most".to_owned(), of(false).max().unwrap_or(0) as f64);
    values.insert("unwanted".to_owned(), of(false).filter(|copies| *copies > 0).count() as f64);
    values.insert("nodes".to_owned(), (2 + plan.receivers.len() + copies.len()) as f64);
    values
}

/// The state section of each router's configuration.
pub fn state(plan: &SubcastPlan) -> String {
    format!("[state]\ncapacity = 1000\ncentral = 1000\nsingle_store = {}", plan.single_store)
}

/// Runs the trial.
///
/// # Errors
///
/// The tree is impossible.
pub fn run(plan: &SubcastPlan) -> Result<Values, String> {
    let mut network = Network::new(plan)?;
    let (root, seats) = (network.tree.root, network.tree.receivers.clone());
    let to = network.tree.host(root);
    let mut computation = Computation::seeded([13, 14]);
    let tag = computation.tag();
    let carriages = Carriages::default();
    for number in &plan.marked {
        let seat = *seats.get(number.wrapping_sub(1)).ok_or("no receiver has that number")?;
        let mark = computation.clone().at(Locations::INPUT).mark(tag, 1);
        let addresses = Addresses::V4(network.tree.host(seat), to);
        network.send(seat, None, &dedicated(&carriages, addresses, &mark));
    }
    let test = computation.at(Locations::OUTPUT).if_marked(tag);
    for _ in 0..plan.packets {
        // Any datagram will do. Its port is not that of instructions, so no router interprets the payload.
        let elsewhere = Carriages { port: Some(PORT), ..carriages };
        let data = datagram(&elsewhere, Addresses::V4(to, GROUP), PORT, &test).ok_or("a datagram has a port")?;
        let data = wrap(&carriages, &data, &test).map_err(|error| error.to_string())?;
        network.send(root, Some(multicast_mac(GROUP)), &data);
    }
    let copies: Vec<usize> = seats.iter().map(|seat| network.copies(*seat)).collect();
    Ok(report_copies(plan, &copies))
}

/// The routers, and the frames that hosts received, by router and port.
struct Network {
    tree: Tree,
    routers: Vec<Rig>,
    received: BTreeMap<(usize, usize), Vec<Vec<u8>>>,
}

impl Network {
    fn new(plan: &SubcastPlan) -> Result<Network, String> {
        let tree = Tree::new(&plan.receivers)?;
        let texts = tree.routers.iter().map(|router| router.configuration("memory", |_| String::new(), &state(plan)));
        let routers = texts.map(|text| router(&text)).collect::<Result<Vec<Rig>, String>>()?;
        Ok(Network { tree, routers, received: BTreeMap::new() })
    }

    /// A host sends an IP packet, to its router unless another link address is given. Then all routers forward until they are idle.
    fn send(&mut self, seat: HostLocation, to: Option<Mac>, l3: &[u8]) {
        let port = self.tree.port(seat);
        let frame = [&to.unwrap_or(port.local.1).0[..], &port.remote.1.0[..], &[8, 0], l3].concat();
        let name = port.name.clone();
        self.routers[seat.router].send(&name, &frame);
        self.forward_all();
    }

    /// Lets all routers forward until no frame is in flight.
    fn forward_all(&mut self) {
        let Network { tree, routers, received } = self;
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for (number, router) in tree.routers.iter().enumerate() {
                routers[number].settle();
                for (of, port) in router.ports.iter().enumerate() {
                    let frames = routers[number].received(&port.name);
                    moved |= !frames.is_empty();
                    match port.router {
                        Some((other, at)) => {
                            let name = &tree.routers[other].ports[at].name;
                            frames.iter().for_each(|frame| routers[other].send(name, frame));
                        }
                        None => received.entry((number, of)).or_default().extend(frames),
                    }
                }
            }
        }
    }

    /// The packets to the group that a host has received.
    fn copies(&self, seat: HostLocation) -> usize {
        let frames = self.received.get(&(seat.router, seat.port));
        frames.map_or(0, |frames| frames.iter().filter(|frame| frame[..6] == multicast_mac(GROUP).0).count())
    }
}

/// A router that has already sent its initial packets.
fn router(text: &str) -> Result<Rig, String> {
    let mut rig = Rig::new(FRAMES, Layout::Three, Box::new(Silent));
    rig.router.set_hook_maker(Arc::new(Executor::new()));
    rig.apply(text).map_err(|errors| format!("{errors:?}"))?;
    rig.settle();
    let wires: Vec<String> = rig.wires.far.keys().cloned().collect();
    wires.iter().for_each(|wire| drop(rig.received(wire)));
    Ok(rig)
}
