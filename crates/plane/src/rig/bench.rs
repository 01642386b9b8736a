//! Benchmarks of functions: classified packets, and one function after the other on them, without queues, tasks and ports. The cost of a
//! function is a ratio to that of the straight-line loop on the same packets.

use super::Rig;
use crate::classify::{Classifier, Dispatch, Target, Unwitnessed};
use crate::function::{Context, Function};
use crate::snapshot::{PathSpec, Snapshot};
use fib::Tables;
use packet::event::Event;
use packet::{DropReason, Packet, Pool};
use stack::{Interface, LocalProtocolLimits, LocalProtocols, NextHopState, World};
use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Instant, InterfaceId, Nanos, PortId};

/// A running generation, its functions, and the host that processes options.
pub struct Bench {
    rig: Rig,
    snapshot: Arc<Snapshot>,
    tables: Arc<Tables>,
    dispatch: Dispatch,
    host: LocalProtocols,
    /// Packets that the host has forwarded.
    forwarded: Vec<Packet>,
}

impl Bench {
    /// A router that runs `config`, with so many frames.
    ///
    /// # Panics
    /// When the configuration is wrong.
    pub fn new(frames: usize, config: &str) -> Bench {
        let rig = Rig::running(frames, crate::snapshot::Layout::Three, config);
        let (snapshot, tables) = (rig.router.snapshot().clone(), rig.router.tables().clone());
        let (paths, ports) = (snapshot.paths.len(), snapshot.ports.len());
        // Every path has an instance at every port. Which target it has does not matter here.
        let places = (0..paths).flat_map(|path| (0..ports).map(move |port| (path, PortId::at(port), 2)));
        let best_effort = snapshot.paths.iter().position(|path| path.id == crate::snapshot::BEST_EFFORT).unwrap_or(0);
        let dispatch = Dispatch::new((paths, ports), best_effort, (0, 1), &snapshot, places);
        Bench {
            rig,
            snapshot,
            tables,
            dispatch,
            host: LocalProtocols::new(LocalProtocolLimits::default()),
            forwarded: Vec::with_capacity(256),
        }
    }

    /// A packet of these bytes.
    ///
    /// # Panics
    /// When there is no frame for it.
    pub fn packet(&mut self, frame: &[u8]) -> Packet {
        self.rig.packet(frame)
    }

    /// The packet arrives at the first port, with these bytes, and is classified.
    pub fn arrive(&self, packet: &mut Packet, frame: &[u8]) {
        assert!(packet.fill(frame), "it is as long as it was");
        let port = PortId(0);
        let view = self.snapshot.port(port).expect("there is a port");
        self.classifier().classify_one((port, view), self.rig.now, packet);
    }

    fn classifier(&self) -> Classifier<'_, Unwitnessed> {
        Classifier { snapshot: &self.snapshot, tables: &self.tables, dispatch: &self.dispatch, witness: Unwitnessed }
    }

    /// The functions of the configured path of this name.
    ///
    /// # Panics
    /// When there is none.
    pub fn functions(&self, name: &str) -> Vec<Box<dyn Function>> {
        let named = |path: &&PathSpec| *path.name == *name;
        self.rig
            .router
            .functions()
            .build(self.snapshot.paths.iter().find(named).expect("the path is there"))
            .expect("they are known")
    }

    /// Runs functions on packets. Returns true if all continue, and the time the functions request.
    #[inline(never)]
    pub fn run(&self, functions: &mut [Box<dyn Function>], packets: &mut [Packet]) -> (bool, Nanos) {
        let asked = Cell::default();
        let (now, snapshot, tables) = (self.rig.now, &*self.snapshot, &self.tables);
        let context = Context {
            now,
            snapshot,
            tables,
            nat: &snapshot.translations,
            limit: None,
            dry_run: false,
            extra_time: &asked,
        };
        let mut all = true;
        for function in functions {
            all &= function.process(context, packets);
        }
        (all, asked.get())
    }

    /// The general path of packets with options: the host reads the options and writes into them, and the packets are classified again and
    /// forwarded. Returns the number forwarded.
    #[inline(never)]
    pub fn general(&mut self, forward: &mut [Box<dyn Function>], packets: &mut Vec<Packet>) -> usize {
        let Bench { rig, snapshot, tables, dispatch, host, forwarded: onward } = self;
        let mut outlet =
            BenchWorld { now: rig.now, snapshot, tables, dispatch, pool: &mut rig.pool, forwarded: onward };
        packets.drain(..).for_each(|packet| host.receive(packet, &mut outlet));
        packets.append(onward);
        self.run(forward, packets);
        packets.len()
    }

    /// Its tables, for a straight-line loop beside it.
    pub fn tables(&self) -> Arc<Tables> {
        self.tables.clone()
    }
}

/// The host's world: packets that it forwards are classified again and kept.
struct BenchWorld<'a> {
    now: Instant,
    snapshot: &'a Snapshot,
    tables: &'a Tables,
    dispatch: &'a Dispatch,
    pool: &'a mut Pool,
    forwarded: &'a mut Vec<Packet>,
}

impl World for BenchWorld<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.snapshot.interface(id)
    }

    fn interfaces(&self) -> &[Interface] {
        &self.snapshot.interfaces
    }

    fn tables(&self) -> &Tables {
        self.tables
    }

    fn generate(&mut self, length: usize) -> Option<Packet> {
        self.pool.take_for(length)
    }

    fn send(&mut self, _: InterfaceId, packet: Packet) {
        self.pool.give(packet);
    }

    fn forward(&mut self, mut packet: Packet) {
        let (snapshot, tables, dispatch) = (self.snapshot, self.tables, self.dispatch);
        let _: Target = Classifier { snapshot, tables, dispatch, witness: Unwitnessed }.classify_again(&mut packet);
        self.forwarded.push(packet);
    }

    fn consume(&mut self, packet: Packet) {
        self.pool.give(packet);
    }

    fn drop(&mut self, packet: Packet, _: DropReason) {
        self.pool.give(packet);
    }

    fn next_hop_settled(&mut self, _: InterfaceId, _: IpAddr, _: NextHopState) {}

    fn event(&mut self, _: Event<'_>) {}
}
