//! Network address and port translation for IPv4: hosts inside reach the outside by the router's own addresses.
//!
//! | what | as |
//! |---|---|
//! | endpoint-independent mapping, port preservation and parity, hairpinning | RFC 4787 REQ-1, 3, 4, 9 |
//! | UDP, ICMP and TCP lifetimes | RFC 4787 REQ-5, RFC 5508 REQ-2, RFC 5382 REQ-5 |
//! | ICMP errors with the packets they quote | RFC 5508 REQ-3 to 6 |
//! | fragments that come in order | RFC 4787 REQ-14 |
//! | who may come in | by connection as packet filters do, or anyone ([`Filtering`], RFC 4787 REQ-8) |
//!
//! The state is one table for all workers, beside the routes: no part of a generation, so a reload does not touch it. A
//! worker takes its lock once a batch. What a generation says is [`Rules`].

mod table;
mod translate;

pub use table::{Connection, End, Kind, Mapping, NONE, Table, Timeouts};
pub use translate::{Form, Quoted, Side, View};

use crate::classify::Exception;
use packet::{DropReason, Meta, Packet};
use parking_lot::Mutex;
use table::Refused;
use translate::{ACK, FIN, RST, SYN, rewrite, rewrite_quoted};
use units::{Instant, InterfaceId, Nanos};

/// What a configuration says of translation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Interfaces to the outside, each with the address of ours that stands for the inside there.
    pub outside: Vec<(InterfaceId, u32)>,
    /// Every address of ours on those interfaces, sorted.
    pub addresses: Vec<u32>,
    /// The ports that are given, first and last.
    pub ports: (u16, u16),
    /// Who may come in.
    pub filtering: Filtering,
    /// How long connections are remembered.
    pub timeouts: Timeouts,
    /// Ports of ours that lead inside.
    pub forwards: Vec<Forward>,
    /// Connections there may be; taken over when the first configuration with translation is.
    pub connections: usize,
    /// Keys the table's hashes.
    pub secret: u64,
}

/// A port of ours that leads inside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Forward {
    /// The protocol.
    pub protocol: u8,
    /// Our port.
    pub port: u16,
    /// Where it leads.
    pub inside: End,
}

/// Who may come in by a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Filtering {
    /// Whom the inside has spoken to: address and port.
    #[default]
    Connection,
    /// Anybody (RFC 4787 REQ-8a, for applications that want to be reached).
    Endpoint,
}

impl Rules {
    /// The address that stands for the inside on an interface to the outside.
    #[inline]
    pub fn outside_of(&self, interface: InterfaceId) -> Option<u32> {
        self.outside.iter().find(|(id, _)| *id == interface).map(|(_, address)| *address)
    }

    /// Whether an address is ours on the outside.
    #[inline]
    pub fn is_ours(&self, address: u32) -> bool {
        self.addresses.binary_search(&address).is_ok()
    }

    fn forward_of(&self, protocol: u8, port: u16) -> Option<End> {
        self.forwards.iter().find(|f| f.protocol == protocol && f.port == port).map(|f| f.inside)
    }

    fn forward_to(&self, protocol: u8, inside: End) -> Option<u16> {
        self.forwards.iter().find(|f| f.protocol == protocol && f.inside == inside).map(|f| f.port)
    }
}

/// What the packet is to whoever looks at connections (`Meta::connection`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Standing {
    /// It is of no connection that is known.
    Untracked = 0,
    /// It makes one, or is of one that has not been answered.
    New = 1,
    /// It is of one that both sides have spoken on.
    Established = 2,
    /// It is an error about one.
    Related = 3,
}

/// What of translation has been counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets from the inside that were given an address of ours.
    pub out: u64,
    /// Packets to an address of ours that were given one of the inside.
    pub back: u64,
    /// Packets to an address of ours that are for the router itself.
    pub own: u64,
    /// ICMP errors translated.
    pub errors: u64,
    /// Fragments translated that have no ports.
    pub fragments: u64,
    /// Packets refused because there were too many connections, no port was free, they cannot be translated, or nothing is
    /// known of what they belong to.
    pub refused: u64,
}

/// A fragmented packet whose first fragment was translated.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    source: u32,
    destination: u32,
    protocol: u8,
    identification: u16,
    /// What its ends became.
    became: (u32, u32),
    until: Instant,
}

/// Fragmented packets remembered: each takes the place of an older one.
const PIECES: usize = 1024;
/// How long, from the first fragment on (RFC 791: no longer than they may wait to be put together).
const PIECES_LAST: Nanos = Nanos::secs(30);
/// Connections looked at for each batch that may be due.
const DUE_PER_BATCH: usize = 32;

/// The connections of a router, and what is to be remembered besides.
#[derive(Debug)]
pub struct State {
    /// The connections.
    pub table: Table,
    /// What was counted.
    pub counters: Counters,
    pieces: Box<[Option<Pieces>]>,
}

/// The state behind its lock; nothing as long as no configuration translates.
#[derive(Debug, Default)]
pub struct Nat {
    state: Mutex<Option<Box<State>>>,
}

impl Nat {
    /// A configuration with translation is about to run: there is a table for it. One that is there stays.
    pub fn open(&self, rules: &Rules) {
        if self.state.lock().is_some() {
            return;
        }
        let table = Table::new(rules.connections, rules.secret);
        let state = State { table, counters: Counters::default(), pieces: vec![None; PIECES].into_boxed_slice() };
        *self.state.lock() = Some(Box::new(state));
    }

    /// No configuration translates any more: everything is forgotten.
    pub fn close(&self) {
        *self.state.lock() = None;
    }

    /// A state of its own with what is known of one packet: to see what would become of it.
    pub fn sample(&self, rules: Option<&Rules>, l3: &[u8]) -> Nat {
        let sample = Nat::default();
        let (Some(rules), Some(view)) = (rules, View::of(l3)) else { return sample };
        sample.open(&Rules { connections: 16, ..rules.clone() });
        let known = self.with(|state| state.about(&view)).unwrap_or_default();
        sample.with(|state| known.into_iter().flatten().for_each(|connection| state.table.copy(&connection)));
        sample
    }

    /// Works on the state, where there is one.
    pub fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Option<T> {
        self.state.lock().as_deref_mut().map(work)
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on, translated or not.
    On,
    /// It has another destination: it is to be classified again.
    Elsewhere,
    /// It is for the router itself.
    Ours,
    /// Its time to live ends here; its sender is told of the packet as it came.
    Expired,
    /// It is dropped.
    Drop(DropReason),
}

impl State {
    /// The connections a packet may be of: as it leaves, as it comes, and as it does both.
    fn about(&self, view: &View) -> [Option<Connection>; 4] {
        let (protocol, source, destination) = match view.form {
            Form::Error(quoted) => (quoted.protocol, quoted.destination, quoted.source),
            _ => (view.protocol, view.source, view.destination),
        };
        let get = |slot: Option<u32>| slot.map(|slot| *self.table.connection(slot));
        let out = get(self.table.from_inside(protocol, source, destination));
        let back = get(self.table.from_outside(protocol, destination, source));
        let turned = out.and_then(|out| get(self.table.from_outside(protocol, destination, out.outside)));
        // Of a mapping any connection tells.
        let mapped = self.table.mapping_of_outside(protocol, destination).map(|slot| *self.table.mapping(slot));
        let any = mapped.and_then(|mapping| self.table.iter().find(|known| known.outside == mapping.outside).copied());
        [out, back, turned, any]
    }

    /// What is due is forgotten.
    pub fn begin(&mut self, rules: &Rules, now: Instant) {
        self.table.expire(now, &rules.timeouts, DUE_PER_BATCH);
    }

    /// Translates a packet on its way, or one to an address of ours (`Meta::OURS`).
    #[inline]
    pub fn translate(&mut self, rules: &Rules, packet: &mut Packet, now: Instant) -> Verdict {
        let meta = *packet.meta();
        let ours = meta.flags & Meta::OURS != 0;
        let came_from_outside = rules.outside_of(meta.in_interface).is_some();
        let leaves = if ours || came_from_outside { None } else { rules.outside_of(meta.out_interface) };
        if !ours && leaves.is_none() {
            return Verdict::On;
        }
        let l3 = packet.bytes().get(usize::from(meta.l3)..).unwrap_or_default();
        let Some(view) = View::of(l3) else {
            return if ours { self.own() } else { self.refuse(DropReason::NatUnsupported) };
        };
        if !ours {
            return self.outbound(rules, packet, &view, leaves.unwrap_or_default(), now);
        }
        if came_from_outside {
            return self.inbound(rules, packet, &view, now);
        }
        self.hairpin(rules, packet, &view, now)
    }

    fn own(&mut self) -> Verdict {
        self.counters.own += 1;
        Verdict::Ours
    }

    fn refuse(&mut self, reason: DropReason) -> Verdict {
        self.counters.refused += 1;
        Verdict::Drop(reason)
    }

    /// From the inside to an address of ours: as if it had been outside and come back (RFC 4787 REQ-9).
    fn hairpin(&mut self, rules: &Rules, packet: &mut Packet, view: &View, now: Instant) -> Verdict {
        let leads = match view.form {
            Form::Flow => {
                let mapped = self.table.mapping_of_outside(view.protocol, view.destination).is_some();
                mapped || rules.forward_of(view.protocol, view.destination.port).is_some()
            }
            Form::Fragment => self.pieces_of(view, now).is_some(),
            Form::Error(_) => false,
        };
        if !leads {
            return self.own();
        }
        if view.ttl <= 1 {
            return Verdict::Expired;
        }
        if view.form == Form::Fragment {
            return self.fragment(packet, view, now);
        }
        match self.outbound(rules, packet, view, view.destination.address, now) {
            Verdict::On => {}
            other => return other,
        }
        let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
        let Some(turned) = View::of(l3) else { return self.refuse(DropReason::NatUnsupported) };
        match self.inbound(rules, packet, &turned, now) {
            Verdict::Elsewhere => {
                // What comes behind has the ends that the first had when it came.
                self.remember(view, packet, now);
                Verdict::Elsewhere
            }
            // Its source is ours by now: nobody is to be answered with it.
            _ => self.refuse(DropReason::NatUnknown),
        }
    }

    fn outbound(&mut self, rules: &Rules, packet: &mut Packet, view: &View, address: u32, now: Instant) -> Verdict {
        match view.form {
            Form::Fragment => return self.fragment(packet, view, now),
            Form::Error(quoted) => return self.error_out(packet, view, &quoted, address),
            Form::Flow => {}
        }
        let (inside, peer) = (view.source, view.destination);
        let known = self.table.from_inside(view.protocol, inside, peer).filter(|&slot| self.stands(rules, slot, now));
        let slot = match known {
            Some(slot) => slot,
            None => match self.connect_out(rules, view, address, now) {
                Ok(slot) => slot,
                Err(refused) => return self.refuse(reason(refused)),
            },
        };
        let outside = self.table.connection(slot).outside;
        packet.meta_mut().connection = self.saw(slot, view.flags, Side::Source, now) as u8;
        rewrite(packet, view, Side::Source, outside);
        packet.meta_mut().flags |= Meta::TRANSLATED;
        self.remember(view, packet, now);
        self.counters.out += 1;
        Verdict::On
    }

    /// Whether a connection is to be believed: its time is not up, and its address is still ours. Otherwise it goes.
    fn stands(&mut self, rules: &Rules, slot: u32, now: Instant) -> bool {
        let stands = !self.table.is_due(slot, now, &rules.timeouts)
            && rules.is_ours(self.table.connection(slot).outside.address);
        if !stands {
            self.table.forget(slot);
        }
        stands
    }

    fn connect_out(&mut self, rules: &Rules, view: &View, address: u32, now: Instant) -> Result<u32, Refused> {
        let (protocol, inside, peer) = (view.protocol, view.source, view.destination);
        let outside = match self.table.mapping_of_inside(protocol, inside, address) {
            Some(mapping) => self.table.mapping(mapping).outside,
            None => {
                let taken = |port| rules.forward_of(protocol, port).is_some();
                // A port that was given away before it led inside is still somebody else's.
                let given = rules
                    .forward_to(protocol, inside)
                    .filter(|&port| self.table.mapping_of_outside(protocol, End::new(address, port)).is_none());
                let free = || self.table.free_port(protocol, inside, address, rules.ports, taken);
                End::new(address, given.or_else(free).ok_or(Refused::NoPort)?)
            }
        };
        self.table.connect(protocol, (inside, outside, peer), (first_kind(protocol), false), now, &rules.timeouts)
    }

    fn inbound(&mut self, rules: &Rules, packet: &mut Packet, view: &View, now: Instant) -> Verdict {
        match view.form {
            Form::Fragment if self.pieces_of(view, now).is_none() => return self.own(),
            Form::Fragment => return self.fragment(packet, view, now),
            Form::Error(quoted) => return self.error_in(packet, view, &quoted),
            Form::Flow => {}
        }
        let (outside, peer) = (view.destination, view.source);
        let known = self.table.from_outside(view.protocol, outside, peer).filter(|&slot| self.stands(rules, slot, now));
        let slot = match known {
            Some(slot) => slot,
            None => match self.connect_in(rules, view, now) {
                Some(Ok(slot)) => slot,
                Some(Err(refused)) => return self.refuse(reason(refused)),
                None => return self.own(),
            },
        };
        if view.ttl <= 1 {
            return Verdict::Expired;
        }
        let inside = self.table.connection(slot).inside;
        packet.meta_mut().connection = self.saw(slot, view.flags, Side::Destination, now) as u8;
        rewrite(packet, view, Side::Destination, inside);
        self.remember(view, packet, now);
        self.counters.back += 1;
        Verdict::Elsewhere
    }

    /// A connection from the outside, where somebody may make one.
    fn connect_in(&mut self, rules: &Rules, view: &View, now: Instant) -> Option<Result<u32, Refused>> {
        let (protocol, outside, peer) = (view.protocol, view.destination, view.source);
        let forward = rules.forward_of(protocol, outside.port);
        let inside = match (forward, rules.filtering, self.table.mapping_of_outside(protocol, outside)) {
            (Some(inside), ..) => inside,
            (None, Filtering::Endpoint, Some(mapping)) => self.table.mapping(mapping).inside,
            _ => return None,
        };
        // The port may have been given to somebody else before it led inside.
        let mapped = self.table.mapping_of_outside(protocol, outside).map(|slot| self.table.mapping(slot).inside);
        if mapped.is_some_and(|mapped| mapped != inside) {
            return Some(Err(Refused::NoPort));
        }
        let ends = (inside, outside, peer);
        Some(self.table.connect(protocol, ends, (first_kind(protocol), true), now, &rules.timeouts))
    }

    /// A packet of a connection came from one side: what the connection is now, and what the packet is to it.
    fn saw(&mut self, slot: u32, flags: u8, from: Side, now: Instant) -> Standing {
        let connection = self.table.connection_mut(slot);
        let from_inside = from == Side::Source;
        connection.packets[usize::from(!from_inside)] += 1;
        let answers = from_inside == connection.inbound;
        let standing = if connection.replied || answers { Standing::Established } else { Standing::New };
        connection.replied |= answers;
        let mut kind = connection.kind;
        if connection.protocol == packet::wire::protocol::TCP {
            if flags & (SYN | ACK | RST) == SYN && kind == Kind::Closing {
                // The same ports again, as clients do that are in a hurry.
                (connection.finished, connection.replied, kind) = (0, false, Kind::Opening);
            }
            if flags & FIN != 0 {
                connection.finished |= if from_inside { 1 } else { 2 };
            }
            let whole = connection.replied && !answers && flags & (ACK | SYN) == ACK;
            kind = match kind {
                _ if flags & RST != 0 || connection.finished == 3 => Kind::Closing,
                Kind::Opening if whole => Kind::Established,
                kind => kind,
            };
        }
        self.table.touch(slot, kind, now);
        standing
    }

    /// An error from the inside about a packet that came from the outside: it comes from us (RFC 5508 REQ-5).
    fn error_out(&mut self, packet: &mut Packet, view: &View, quoted: &Quoted, address: u32) -> Verdict {
        let Some(slot) = self.table.from_inside(quoted.protocol, quoted.destination, quoted.source) else {
            return self.refuse(DropReason::NatUnknown);
        };
        let outside = self.table.connection(slot).outside;
        let ours = End::new(if outside.address == 0 { address } else { outside.address }, 0);
        rewrite_quoted(packet, view, quoted, Side::Destination, outside);
        rewrite(packet, view, Side::Source, ours);
        packet.meta_mut().flags |= Meta::TRANSLATED;
        packet.meta_mut().connection = Standing::Related as u8;
        self.counters.errors += 1;
        Verdict::On
    }

    /// An error from the outside about a packet of the inside.
    fn error_in(&mut self, packet: &mut Packet, view: &View, quoted: &Quoted) -> Verdict {
        let Some(slot) = self.table.from_outside(quoted.protocol, quoted.source, quoted.destination) else {
            return self.own();
        };
        if view.ttl <= 1 {
            // Nobody is told of an error (RFC 1122 3.2.2).
            return self.refuse(DropReason::TtlExpired);
        }
        let inside = self.table.connection(slot).inside;
        rewrite_quoted(packet, view, quoted, Side::Source, inside);
        rewrite(packet, view, Side::Destination, End::new(inside.address, 0));
        packet.meta_mut().connection = Standing::Related as u8;
        self.counters.errors += 1;
        Verdict::Elsewhere
    }

    fn place(view: &View) -> usize {
        let mixed = view.source.address ^ view.destination.address.rotate_left(11) ^ u32::from(view.identification);
        (mixed.wrapping_mul(0x9e37_79b1) >> 16) as usize % PIECES
    }

    fn pieces_of(&self, view: &View, now: Instant) -> Option<Pieces> {
        self.pieces[Self::place(view)].filter(|pieces| {
            let ends = (pieces.source, pieces.destination) == (view.source.address, view.destination.address);
            ends && pieces.protocol == view.protocol
                && pieces.identification == view.identification
                && pieces.until > now
        })
    }

    /// The first fragment was translated: the others will be as it was. `view` is of the packet as it came.
    fn remember(&mut self, view: &View, packet: &Packet, now: Instant) {
        if !view.more {
            return;
        }
        let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
        let Some(header) = packet::wire::Ipv4Header::of(l3) else { return };
        self.pieces[Self::place(view)] = Some(Pieces {
            source: view.source.address,
            destination: view.destination.address,
            protocol: view.protocol,
            identification: view.identification,
            became: (header.source().into(), header.destination().into()),
            until: now + PIECES_LAST,
        });
    }

    /// A fragment without ports goes where its first went. One that overtook it has nowhere to go (RFC 4787 REQ-14 asks for
    /// those that come in order).
    fn fragment(&mut self, packet: &mut Packet, view: &View, now: Instant) -> Verdict {
        let Some(pieces) = self.pieces_of(view, now) else { return self.refuse(DropReason::NatFragment) };
        let (source, destination) = pieces.became;
        let elsewhere = destination != view.destination.address;
        if elsewhere && view.ttl <= 1 {
            return Verdict::Expired;
        }
        if source != view.source.address {
            rewrite(packet, view, Side::Source, End::new(source, 0));
        }
        if elsewhere {
            rewrite(packet, view, Side::Destination, End::new(destination, 0));
        }
        packet.meta_mut().flags |= Meta::TRANSLATED;
        packet.meta_mut().connection = Standing::Established as u8;
        self.counters.fragments += 1;
        if elsewhere { Verdict::Elsewhere } else { Verdict::On }
    }
}

fn first_kind(protocol: u8) -> Kind {
    match protocol {
        packet::wire::protocol::TCP => Kind::Opening,
        packet::wire::protocol::UDP => Kind::Datagrams,
        _ => Kind::Queries,
    }
}

fn reason(refused: Refused) -> DropReason {
    match refused {
        Refused::Full => DropReason::NatTable,
        Refused::NoPort => DropReason::NatPorts,
    }
}

/// Does to the packet what the verdict says. Answers whether it goes on.
#[inline]
pub(crate) fn settle(packet: &mut Packet, verdict: Verdict) -> bool {
    let meta = packet.meta_mut();
    match verdict {
        Verdict::On => return true,
        Verdict::Elsewhere => {
            meta.flags = meta.flags & !Meta::OURS | Meta::TRANSLATED;
            meta.exception = Exception::Again as u8;
        }
        Verdict::Ours => meta.exception = Exception::Local as u8,
        Verdict::Expired => meta.exception = Exception::Expired as u8,
        Verdict::Drop(reason) => meta.refused = reason.index() as u8 + 1,
    }
    false
}
