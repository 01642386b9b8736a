//! Network address and port translation for IPv4: inside hosts reach the outside by the router's own addresses.
//!
//! | function | reference |
//! |---|---|
//! | endpoint-independent mapping, port preservation and parity, hairpinning | RFC 4787 REQ-1, 3, 4, 9 |
//! | UDP, ICMP and TCP lifetimes | RFC 4787 REQ-5, RFC 5508 REQ-2, RFC 5382 REQ-5 |
//! | ICMP errors with the packets they quote | RFC 5508 REQ-3 to 6 |
//! | fragments in any order | RFC 4787 REQ-14 |
//! | a limit on the connections of each inside host | RFC 6888 REQ-4 |
//! | filtering of inbound packets | per connection as in packet filters, or none ([`Filtering`], RFC 4787 REQ-8) |
//!
//! All workers share one table, which belongs to no generation, so a reload does not touch it. A worker locks it once per batch. A generation's
//! configuration is [`NatRules`].

#![forbid(unsafe_code)]

mod forwards;
mod fragments;
mod restore;
mod slots;
mod table;
mod translate;

pub use forwards::{Forward, Forwards};
pub use fragments::{Datagram, FragmentFate, Fragments};
pub use table::{Connection, ConnectionKind, ConnectionTable, Mapping, NONE, NatEndpoint, Timeouts};
pub use translate::{Form, PacketEnd, PacketView, QuotedPacket};

use packet::{DropReason, Exception, Meta, Packet};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use table::ConnectError;
use translate::{ACK, FIN, RST, SYN, rewrite, rewrite_quoted};
use units::{Instant, InterfaceId};

/// The configuration of translation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NatRules {
    /// Outside interfaces, each with the address of ours that replaces inside addresses there.
    pub outside: Vec<(InterfaceId, u32)>,
    /// All our addresses on those interfaces, sorted.
    pub addresses: Vec<u32>,
    /// The ports for mappings, first and last.
    pub ports: (u16, u16),
    /// The filter for inbound packets.
    pub filtering: Filtering,
    /// The lifetimes of idle connections.
    pub timeouts: Timeouts,
    /// Forwarded ports.
    pub forwards: Forwards,
    /// The capacity of the table, read only from the first configuration with translation.
    pub connections: usize,
    /// The most connections that one inside host may have opened at a time.
    pub per_host: usize,
    /// The key of the table's hashes.
    pub secret: u64,
}

/// The filter for inbound packets at a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Filtering {
    /// Only peers that the inside end has sent to: address and port.
    #[default]
    Connection,
    /// Any peer (RFC 4787 REQ-8a, for applications that accept connections).
    Endpoint,
}

impl NatRules {
    /// The address that replaces inside addresses on an outside interface.
    #[inline]
    pub fn outside_of(&self, interface: InterfaceId) -> Option<u32> {
        self.outside.iter().find(|(id, _)| *id == interface).map(|(_, address)| *address)
    }

    /// True if an address is one of ours on the outside.
    #[inline]
    pub fn is_ours(&self, address: u32) -> bool {
        self.addresses.binary_search(&address).is_ok()
    }
}

/// The state of a packet's connection (`Meta::connection`), which filters match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum ConnectionState {
    /// The packet belongs to no known connection.
    Untracked = 0,
    /// The packet opens a connection, or belongs to one that was not answered yet.
    New = 1,
    /// Both sides of the connection have sent packets.
    Established = 2,
    /// An ICMP error about a packet of a connection.
    Related = 3,
}

/// The counters of translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NatCounters {
    /// Packets from the inside whose source was replaced by an address of ours.
    pub outbound: u64,
    /// Packets to an address of ours whose destination was replaced by an inside address.
    pub inbound: u64,
    /// Packets to an address of ours that are for the router itself.
    pub local: u64,
    /// ICMP errors translated.
    pub errors: u64,
    /// Translated fragments without ports.
    pub fragments: u64,
    /// Packets refused: table full, host at its limit, no free port, not translatable, or no known connection.
    pub refused: u64,
}

/// Expired connections removed per batch.
const EXPIRED_PER_BATCH: usize = 32;

/// The translation state of a router.
#[derive(Debug)]
pub struct NatState {
    /// The connections.
    pub table: ConnectionTable,
    /// The counters.
    pub counters: NatCounters,
    /// Fragmented packets whose first fragment has arrived.
    pub fragments: Fragments,
}

/// The state behind its lock; `None` while no configuration translates.
#[derive(Debug, Default)]
pub struct Nat {
    state: Mutex<Option<Box<NatState>>>,
    /// First fragments so far. Readable without the lock.
    first_fragments: AtomicU64,
}

impl Nat {
    /// Creates the table for a configuration with translation, unless there is one.
    pub fn open(&self, rules: &NatRules) {
        let mut state = self.state.lock();
        if state.is_none() {
            *state = Some(Box::new(NatState::new(ConnectionTable::new(rules.connections, rules.secret), rules.secret)));
        }
    }

    /// Deletes the state: the configuration no longer translates.
    pub fn close(&self) {
        *self.state.lock() = None;
    }

    /// A small copy of the state that gives one packet the verdict that the state would give it at `now`.
    pub fn sample(&self, rules: Option<&NatRules>, l3: &[u8], now: Instant) -> Nat {
        let (Some(rules), Some(view)) = (rules, PacketView::of(l3)) else {
            return Nat { state: Mutex::new(rules.map(|rules| Box::new(NatState::empty(rules)))), ..Nat::default() };
        };
        let sampled = self.with(|state| state.sample(rules, &view, now));
        let state = sampled.unwrap_or_else(|| NatState::empty(rules));
        Nat { state: Mutex::new(Some(Box::new(state))), ..Nat::default() }
    }

    /// Runs `work` on the state, if there is one.
    pub fn with<T>(&self, work: impl FnOnce(&mut NatState) -> T) -> Option<T> {
        let mut state = self.state.lock();
        let state = state.as_deref_mut()?;
        let done = work(state);
        // Before the lock is released, so that no worker stores an older number later. Workers with held fragments read it without the lock.
        self.first_fragments.store(state.fragments.first_fragments(), Ordering::Release);
        Some(done)
    }

    /// First fragments so far.
    #[inline]
    pub fn first_fragments(&self) -> u64 {
        self.first_fragments.load(Ordering::Acquire)
    }
}

/// The verdict on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NatVerdict {
    /// Continue, translated or not.
    Continue,
    /// Classify again: the destination has changed.
    Reclassify,
    /// Deliver to the router itself.
    Local,
    /// The TTL expires here. The ICMP error must quote the packet as it arrived.
    TtlExpired,
    /// Hold the fragment until the first fragment of its packet arrives.
    HoldFragment,
    /// Drop it.
    Drop(DropReason),
}

impl NatState {
    fn new(table: ConnectionTable, secret: u64) -> NatState {
        NatState { table, counters: NatCounters::default(), fragments: Fragments::new(secret) }
    }

    /// A small, empty state.
    fn empty(rules: &NatRules) -> NatState {
        NatState::new(ConnectionTable::new(16, rules.secret), rules.secret)
    }

    /// A small state that gives this packet the same verdict.
    fn sample(&mut self, rules: &NatRules, view: &PacketView, now: Instant) -> NatState {
        self.expire_batch(rules, now);
        // The real packet would find these connections expired too, so remove them first.
        if let Some(slot) = self.table.from_inside(view.protocol, view.source, view.destination) {
            self.validate(rules, slot, now);
        }
        if let Some(slot) = self.table.from_outside(view.protocol, view.destination, view.source) {
            self.validate(rules, slot, now);
        }
        let port = |&address: &u32| {
            let found = self.port_for(rules, view.protocol, view.source, address);
            (address, found.map(|(port, _)| port))
        };
        let ports = rules.addresses.iter().map(port).collect();
        let mut sample = NatState::new(self.table.sampled(view.source.address, ports), rules.secret);
        self.connections_of(view).iter().flatten().for_each(|connection| sample.table.copy(connection));
        if let Some(became) = self.fragments.find(&view.datagram(), now) {
            sample.fragments.remember(view.datagram(), became, now);
        }
        sample
    }

    /// The connections that concern a packet: outbound, inbound, and for a hairpinned packet both.
    fn connections_of(&self, view: &PacketView) -> [Option<Connection>; 4] {
        let (protocol, source, destination) = match view.form {
            Form::Error(quoted) => (quoted.protocol, quoted.destination, quoted.source),
            _ => (view.protocol, view.source, view.destination),
        };
        let get = |slot: Option<u32>| slot.map(|slot| *self.table.connection(slot));
        let out = get(self.table.from_inside(protocol, source, destination));
        let back = get(self.table.from_outside(protocol, destination, source));
        let turned = out.and_then(|out| get(self.table.from_outside(protocol, destination, out.outside)));
        // Any connection of a mapping brings the mapping along.
        let mapped = self.table.mapping_of_outside(protocol, destination).map(|slot| *self.table.mapping(slot));
        let any = mapped.and_then(|mapping| self.table.iter().find(|known| known.outside == mapping.outside).copied());
        [out, back, turned, any]
    }

    /// Removes expired connections at the start of a batch.
    pub fn expire_batch(&mut self, rules: &NatRules, now: Instant) {
        self.table.expire(now, &rules.timeouts, EXPIRED_PER_BATCH);
    }

    /// Translates a packet in transit, or one to an address of ours (`Meta::OURS`).
    #[inline]
    pub fn translate(&mut self, rules: &NatRules, packet: &mut Packet, now: Instant) -> NatVerdict {
        let meta = *packet.meta();
        let ours = meta.flags & Meta::LOCAL != 0;
        let came_from_outside = rules.outside_of(meta.in_interface).is_some();
        let leaves = if ours || came_from_outside { None } else { rules.outside_of(meta.out_interface) };
        // From inside to inside, or from outside to a routed address: nothing to translate.
        if !ours && leaves.is_none() {
            return NatVerdict::Continue;
        }
        let l3 = packet.bytes().get(usize::from(meta.l3)..).unwrap_or_default();
        // Read before the rewrite: later fragments carry the original addresses.
        let begun = Datagram::of_first_fragment(l3);
        let verdict = match PacketView::of(l3) {
            // Not translatable: at our address the router handles it; in transit it would reveal an inside address.
            None if ours => self.deliver_locally(),
            None => self.refuse(DropReason::NatUnsupported),
            Some(view) if view.form == Form::Fragment => return self.fragment(packet, &view, now),
            Some(view) if !ours => self.outbound(rules, packet, &view, leaves.unwrap_or_default(), now),
            Some(view) if came_from_outside => self.inbound(rules, packet, &view, now),
            Some(view) => self.hairpin(rules, packet, &view, now),
        };
        if let Some(datagram) = begun {
            let became = fragment_fate(packet, verdict);
            self.fragments.remember(datagram, became, now);
        }
        verdict
    }

    fn deliver_locally(&mut self) -> NatVerdict {
        self.counters.local += 1;
        NatVerdict::Local
    }

    fn refuse(&mut self, reason: DropReason) -> NatVerdict {
        self.counters.refused += 1;
        NatVerdict::Drop(reason)
    }

    /// Hairpinning: a packet from the inside to an address of ours is translated as if it had left and returned (RFC 4787 REQ-9).
    fn hairpin(&mut self, rules: &NatRules, packet: &mut Packet, view: &PacketView, now: Instant) -> NatVerdict {
        let leads = match view.form {
            Form::Flow => {
                let mapped = self.table.mapping_of_outside(view.protocol, view.destination).is_some();
                mapped || rules.forwards.inside_of(view.protocol, view.destination.port).is_some()
            }
            Form::Error(_) | Form::Fragment => false,
        };
        if !leads {
            return self.deliver_locally();
        }
        // Checked before the translation: an ICMP error must quote the original packet.
        if view.ttl <= 1 {
            return NatVerdict::TtlExpired;
        }
        match self.outbound(rules, packet, view, view.destination.address, now) {
            NatVerdict::Continue => {}
            other => return other,
        }
        let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
        let Some(turned) = PacketView::of(l3) else { return self.refuse(DropReason::NatUnsupported) };
        match self.inbound(rules, packet, &turned, now) {
            NatVerdict::Reclassify => NatVerdict::Reclassify,
            // The source is translated by now, so an ICMP error would go to ourselves.
            _ => self.refuse(DropReason::NatUnknown),
        }
    }

    fn outbound(
        &mut self,
        rules: &NatRules,
        packet: &mut Packet,
        view: &PacketView,
        address: u32,
        now: Instant,
    ) -> NatVerdict {
        if let Form::Error(quoted) = view.form {
            return self.error_out(packet, view, &quoted, address);
        }
        let (inside, peer) = (view.source, view.destination);
        let known = self.table.from_inside(view.protocol, inside, peer).filter(|&slot| self.validate(rules, slot, now));
        let slot = match known {
            Some(slot) => slot,
            None => match self.connect_out(rules, view, address, now) {
                Ok(slot) => slot,
                Err(refused) => return self.refuse(drop_reason(refused)),
            },
        };
        let outside = self.table.connection(slot).outside;
        packet.meta_mut().connection = self.record_packet(slot, view.flags, PacketEnd::Source, now) as u8;
        rewrite(packet, view, PacketEnd::Source, outside);
        packet.meta_mut().flags |= Meta::TRANSLATED;
        self.counters.outbound += 1;
        NatVerdict::Continue
    }

    /// True if a connection is valid: not expired, and its outside address is still ours. Removes it otherwise.
    fn validate(&mut self, rules: &NatRules, slot: u32, now: Instant) -> bool {
        // A connection outlives the removal of an address, because a reload does not touch the table.
        let stands = !self.table.is_expired(slot, now, &rules.timeouts)
            && rules.is_ours(self.table.connection(slot).outside.address);
        if !stands {
            self.table.remove(slot);
        }
        stands
    }

    /// The port of an inside host at one of our addresses, existing or new, and the connection to evict for it.
    fn port_for(
        &self,
        rules: &NatRules,
        protocol: u8,
        inside: NatEndpoint,
        address: u32,
    ) -> Option<(u16, Option<u32>)> {
        if let Some(port) = self.table.predetermined_port(address) {
            return port.map(|port| (port, None));
        }
        if let Some(mapping) = self.table.mapping_of_inside(protocol, inside, address) {
            return Some((self.table.mapping(mapping).outside.port, None));
        }
        let taken = |port| rules.forwards.inside_of(protocol, port).is_some();
        // A host may have got the port before it became a forwarded one.
        let given = rules
            .forwards
            .port_of(protocol, inside)
            .filter(|&port| self.table.mapping_of_outside(protocol, NatEndpoint::new(address, port)).is_none());
        // An eviction is the last resort: first the forwarded port, then a free one.
        let free = || self.table.free_port(protocol, inside, address, rules.ports, taken);
        given.or_else(free).map(|port| (port, None)).or_else(|| {
            let victim = self.table.port_victim(protocol, inside, address, rules.ports, taken)?;
            Some((self.table.connection(victim).outside.port, Some(victim)))
        })
    }

    fn connect_out(
        &mut self,
        rules: &NatRules,
        view: &PacketView,
        address: u32,
        now: Instant,
    ) -> Result<u32, ConnectError> {
        let (protocol, inside, peer) = (view.protocol, view.source, view.destination);
        // The limit comes before the port, so a host at its limit cannot evict other hosts' connections.
        if self.table.opened_by(inside.address) >= rules.per_host {
            self.table.limited += 1;
            return Err(ConnectError::HostLimit);
        }
        let (port, victim) = self.port_for(rules, protocol, inside, address).ok_or(ConnectError::NoPort)?;
        if let Some(victim) = victim {
            self.table.evict(victim);
        }
        let outside = NatEndpoint::new(address, port);
        self.table.connect(protocol, (inside, outside, peer), (first_kind(protocol), false), now, &rules.timeouts)
    }

    fn inbound(&mut self, rules: &NatRules, packet: &mut Packet, view: &PacketView, now: Instant) -> NatVerdict {
        if let Form::Error(quoted) = view.form {
            return self.error_in(packet, view, &quoted);
        }
        let (outside, peer) = (view.destination, view.source);
        let known =
            self.table.from_outside(view.protocol, outside, peer).filter(|&slot| self.validate(rules, slot, now));
        let slot = match known {
            Some(slot) => slot,
            None => match self.connect_in(rules, view, now) {
                Some(Ok(slot)) => slot,
                Some(Err(refused)) => return self.refuse(drop_reason(refused)),
                // No mapping and no forward: the packet may be for a service of the router itself.
                None => return self.deliver_locally(),
            },
        };
        // Looked at only now: a packet for the router itself is delivered even with a TTL of one.
        if view.ttl <= 1 {
            return NatVerdict::TtlExpired;
        }
        let inside = self.table.connection(slot).inside;
        packet.meta_mut().connection = self.record_packet(slot, view.flags, PacketEnd::Destination, now) as u8;
        rewrite(packet, view, PacketEnd::Destination, inside);
        self.counters.inbound += 1;
        NatVerdict::Reclassify
    }

    /// Opens a connection from the outside, if a forward or the filter permits it.
    fn connect_in(&mut self, rules: &NatRules, view: &PacketView, now: Instant) -> Option<Result<u32, ConnectError>> {
        let (protocol, outside, peer) = (view.protocol, view.destination, view.source);
        let forward = rules.forwards.inside_of(protocol, outside.port);
        let inside = match (forward, rules.filtering, self.table.mapping_of_outside(protocol, outside)) {
            (Some(inside), ..) => inside,
            (None, Filtering::Endpoint, Some(mapping)) => self.table.mapping(mapping).inside,
            _ => return None,
        };
        // Another host may have got the port before it was forwarded.
        let mapped = self.table.mapping_of_outside(protocol, outside).map(|slot| self.table.mapping(slot).inside);
        if mapped.is_some_and(|mapped| mapped != inside) {
            return Some(Err(ConnectError::NoPort));
        }
        let ends = (inside, outside, peer);
        Some(self.table.connect(protocol, ends, (first_kind(protocol), true), now, &rules.timeouts))
    }

    /// Counts a packet of a connection from one side. Updates the connection, and returns the packet's state.
    fn record_packet(&mut self, slot: u32, flags: u8, from: PacketEnd, now: Instant) -> ConnectionState {
        let connection = self.table.connection_mut(slot);
        let from_inside = from == PacketEnd::Source;
        connection.packets[usize::from(!from_inside)] += 1;
        // True for packets of the side that did not open the connection.
        let answers = from_inside == connection.inbound;
        let standing = if connection.replied || answers { ConnectionState::Established } else { ConnectionState::New };
        let (mut kind, mut replied) = (connection.kind, connection.replied || answers);
        if connection.protocol == packet::wire::protocol::TCP {
            if flags & (SYN | ACK | RST) == SYN && kind == ConnectionKind::Closing {
                // The client reuses its ports early: treat this as a new connection.
                (connection.finished, replied, kind) = (0, false, ConnectionKind::Opening);
            }
            if flags & FIN != 0 {
                connection.finished |= if from_inside { 1 } else { 2 };
            }
            // The opener's ACK completes the handshake. Only then the long lifetime of established connections applies.
            let whole = replied && !answers && flags & (ACK | SYN) == ACK;
            kind = match kind {
                _ if flags & RST != 0 || connection.finished == 3 => ConnectionKind::Closing,
                ConnectionKind::Opening if whole => ConnectionKind::Established,
                kind => kind,
            };
        }
        self.table.touch(slot, (kind, replied), now);
        standing
    }

    /// An ICMP error from the inside about a packet from the outside: its source becomes ours (RFC 5508 REQ-5).
    fn error_out(&mut self, packet: &mut Packet, view: &PacketView, quoted: &QuotedPacket, address: u32) -> NatVerdict {
        let Some(slot) = self.table.from_inside(quoted.protocol, quoted.destination, quoted.source) else {
            return self.refuse(DropReason::NatUnknown);
        };
        let outside = self.table.connection(slot).outside;
        let ours = NatEndpoint::new(if outside.address == 0 { address } else { outside.address }, 0);
        rewrite_quoted(packet, view, quoted, PacketEnd::Destination, outside);
        rewrite(packet, view, PacketEnd::Source, ours);
        packet.meta_mut().flags |= Meta::TRANSLATED;
        packet.meta_mut().connection = ConnectionState::Related as u8;
        self.counters.errors += 1;
        NatVerdict::Continue
    }

    /// An ICMP error from the outside about a packet from the inside.
    fn error_in(&mut self, packet: &mut Packet, view: &PacketView, quoted: &QuotedPacket) -> NatVerdict {
        let Some(slot) = self.table.from_outside(quoted.protocol, quoted.source, quoted.destination) else {
            return self.deliver_locally();
        };
        if view.ttl <= 1 {
            // No ICMP error about an ICMP error (RFC 1122 3.2.2).
            return self.refuse(DropReason::TtlExpired);
        }
        let inside = self.table.connection(slot).inside;
        rewrite_quoted(packet, view, quoted, PacketEnd::Source, inside);
        rewrite(packet, view, PacketEnd::Destination, NatEndpoint::new(inside.address, 0));
        packet.meta_mut().connection = ConnectionState::Related as u8;
        self.counters.errors += 1;
        NatVerdict::Reclassify
    }

    /// A later fragment has no ports: it shares the fate of the first fragment (RFC 4787 REQ-14).
    fn fragment(&mut self, packet: &mut Packet, view: &PacketView, now: Instant) -> NatVerdict {
        let (source, destination) = match self.fragments.find(&view.datagram(), now) {
            None => return NatVerdict::HoldFragment,
            Some(FragmentFate::Local) => return self.deliver_locally(),
            Some(FragmentFate::Dropped(reason)) => return self.refuse(reason),
            Some(FragmentFate::Translated(source, destination)) => (source, destination),
        };
        // A changed destination means another route, so the packet is classified again.
        let elsewhere = destination != view.destination.address;
        if elsewhere && view.ttl <= 1 {
            return NatVerdict::TtlExpired;
        }
        if source != view.source.address {
            rewrite(packet, view, PacketEnd::Source, NatEndpoint::new(source, 0));
        }
        if elsewhere {
            rewrite(packet, view, PacketEnd::Destination, NatEndpoint::new(destination, 0));
        }
        packet.meta_mut().flags |= Meta::TRANSLATED;
        packet.meta_mut().connection = ConnectionState::Established as u8;
        self.counters.fragments += 1;
        if elsewhere { NatVerdict::Reclassify } else { NatVerdict::Continue }
    }
}

/// The fate of a first fragment, which its later fragments share.
fn fragment_fate(packet: &Packet, verdict: NatVerdict) -> FragmentFate {
    let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
    match (verdict, packet::wire::Ipv4Header::of(l3)) {
        (NatVerdict::Drop(reason), _) => FragmentFate::Dropped(reason),
        (NatVerdict::TtlExpired, _) => FragmentFate::Dropped(DropReason::TtlExpired),
        // A first fragment is never held: `translate` returns before this for later fragments.
        (NatVerdict::Local | NatVerdict::HoldFragment, _) | (_, None) => FragmentFate::Local,
        (NatVerdict::Continue | NatVerdict::Reclassify, Some(header)) => {
            // The header is rewritten by now, so it has the translated addresses.
            FragmentFate::Translated(header.source().into(), header.destination().into())
        }
    }
}

fn first_kind(protocol: u8) -> ConnectionKind {
    match protocol {
        packet::wire::protocol::TCP => ConnectionKind::Opening,
        packet::wire::protocol::UDP => ConnectionKind::Datagrams,
        _ => ConnectionKind::Queries,
    }
}

fn drop_reason(refused: ConnectError) -> DropReason {
    match refused {
        ConnectError::Full => DropReason::NatTable,
        ConnectError::NoPort => DropReason::NatPorts,
        ConnectError::HostLimit => DropReason::NatHost,
    }
}

/// Applies a verdict to a packet. Returns true if the packet continues.
#[inline]
pub fn apply_verdict(packet: &mut Packet, verdict: NatVerdict) -> bool {
    let meta = packet.meta_mut();
    match verdict {
        NatVerdict::Continue => return true,
        NatVerdict::Reclassify => {
            meta.flags = meta.flags & !Meta::LOCAL | Meta::TRANSLATED;
            meta.exception = Exception::Again as u8;
        }
        NatVerdict::Local => meta.exception = Exception::Local as u8,
        NatVerdict::TtlExpired => meta.exception = Exception::Expired as u8,
        NatVerdict::HoldFragment => meta.exception = Exception::Fragment as u8,
        NatVerdict::Drop(reason) => meta.refused = reason.index() as u8 + 1,
    }
    false
}
