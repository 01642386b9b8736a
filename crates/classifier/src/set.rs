//! Named sets of addresses or ports, up to millions of elements, changed while packets flow.
//!
//! A set is a value that never changes. A change makes a new set, which shares all but the changed parts with the old one. Workers look up a whole
//! batch at once, and the memory of all look-ups is prefetched together.

mod index;
mod intervals;
mod key;
mod node;
mod store;
#[cfg(test)]
mod tests;

use index::Indexed;
use intervals::{Edit, Effect, Intervals};
use node::Item;
use plan::{Prefix, SetKind, SetValue};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
pub use store::{SetId, SetStore, SetWriteError, Sets, SetsDraft, StoredSet};
use units::{Bytes, Instant};

/// An element and its expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetElement {
    /// The addresses or ports.
    pub value: SetValue,
    /// The time at which the element leaves the set; [`Instant::NEVER`] for an element that stays.
    pub expires: Instant,
}

/// A change of one element.
#[derive(Clone, Copy, Debug)]
pub enum SetEdit {
    /// Adds an element. If the set has it, only its expiry changes.
    Add(SetElement),
    /// Removes an element. Other elements that overlap it stay.
    Remove(SetValue),
}

/// The effects of edits. Their sum is the number of edits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetEditCounts {
    /// New elements.
    pub added: usize,
    /// Elements whose expiry changed.
    pub renewed: usize,
    /// Removed elements.
    pub removed: usize,
    /// Edits without an effect: the set had the element already, had it not, or a later edit concerned the same element.
    pub unchanged: usize,
}

/// A reason to refuse edits. The set stays as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetError {
    /// An element is of the other kind.
    WrongKind {
        /// The element.
        value: SetValue,
        /// The kind of the set.
        kind: SetKind,
    },
    /// The set would exceed its limit.
    TooMany {
        /// The number of elements after the edits.
        elements: usize,
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::WrongKind { value, kind: SetKind::Address } => {
                write!(
                    f,
                    "{value} is no address; the set holds addresses and prefixes, like 192.0.2.1 or 2001:db8::/32"
                )
            }
            SetError::WrongKind { value, kind: SetKind::Port } => {
                write!(f, "{value} is no port; the set holds ports and ranges of ports, like 443 or 8000-8080")
            }
            SetError::TooMany { elements, limit } => {
                write!(f, "the set would have {elements} elements, more than its limit of {limit}; raise its 'size'")
            }
        }
    }
}

impl std::error::Error for SetError {}

/// Addresses or ports. A clone shares all memory with the original.
#[derive(Clone)]
pub struct Set {
    limit: usize,
    elements: Elements,
}

#[derive(Clone)]
enum Elements {
    Addresses { v4: Intervals<u32>, v6: Intervals<u128> },
    Ports(Intervals<u16>),
}

impl Set {
    /// An empty set that holds up to `limit` elements.
    pub fn new(kind: SetKind, limit: usize) -> Set {
        let elements = match kind {
            SetKind::Address => Elements::Addresses { v4: Intervals::default(), v6: Intervals::default() },
            SetKind::Port => Elements::Ports(Intervals::default()),
        };
        Set { limit, elements }
    }

    /// The kind of its elements.
    pub fn kind(&self) -> SetKind {
        match &self.elements {
            Elements::Addresses { .. } => SetKind::Address,
            Elements::Ports(_) => SetKind::Port,
        }
    }

    /// The largest number of elements.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.elements {
            Elements::Addresses { v4, v6 } => v4.len() + v6.len(),
            Elements::Ports(ports) => ports.len(),
        }
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of the elements. Parts that other versions of the set share are included. Takes time in proportion to the number of elements.
    pub fn memory(&self) -> Bytes {
        Bytes::new(match &self.elements {
            Elements::Addresses { v4, v6 } => v4.bytes() + v6.bytes(),
            Elements::Ports(ports) => ports.bytes(),
        } as u64)
    }

    /// The first expiry of an element; [`Instant::NEVER`] if none expires.
    pub fn next_expiry(&self) -> Instant {
        match &self.elements {
            Elements::Addresses { v4, v6 } => v4.next_expiry().min(v6.next_expiry()),
            Elements::Ports(ports) => ports.next_expiry(),
        }
    }

    /// ORs `bit` into the marks of the IPv4 addresses in the set. Elements that have expired count until [`Set::unexpired`] removes them. Panics if the
    /// slices differ in length. A set of ports marks nothing.
    pub fn mark4(&self, addresses: &[u32], marks: &mut [u64], bit: u64) {
        if let Elements::Addresses { v4, .. } = &self.elements {
            v4.mark(addresses, marks, bit);
        }
    }

    /// Like [`Set::mark4`] for IPv6 addresses.
    pub fn mark6(&self, addresses: &[u128], marks: &mut [u64], bit: u64) {
        if let Elements::Addresses { v6, .. } = &self.elements {
            v6.mark(addresses, marks, bit);
        }
    }

    /// Like [`Set::mark4`] for ports. A set of addresses marks nothing.
    pub fn mark_ports(&self, ports: &[u16], marks: &mut [u64], bit: u64) {
        if let Elements::Ports(intervals) = &self.elements {
            intervals.mark(ports, marks, bit);
        }
    }

    /// True if an element holds the address.
    pub fn contains_address(&self, address: IpAddr) -> bool {
        let mut mark = [0];
        match address {
            IpAddr::V4(address) => self.mark4(&[address.to_bits()], &mut mark, 1),
            IpAddr::V6(address) => self.mark6(&[address.to_bits()], &mut mark, 1),
        }
        mark != [0]
    }

    /// True if an element holds the port.
    pub fn contains_port(&self, port: u16) -> bool {
        let mut mark = [0];
        self.mark_ports(&[port], &mut mark, 1);
        mark != [0]
    }

    /// The set after all edits, or after none if one is refused. Of several edits of one element the last counts. Takes time in proportion to the edits,
    /// not to the elements.
    pub fn edited(&self, edits: impl IntoIterator<Item = SetEdit>) -> Result<(Set, SetEditCounts), SetError> {
        let (mut first, mut second, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        for edit in edits {
            let (value, expires) = match edit {
                SetEdit::Add(element) => (element.value, Some(element.expires)),
                SetEdit::Remove(value) => (value, None),
            };
            if value.kind() != self.kind() {
                return Err(SetError::WrongKind { value, kind: self.kind() });
            }
            match value {
                SetValue::Addresses(prefix) => match prefix.network().address {
                    IpAddr::V4(address) => first.push(key_edit(address.to_bits(), prefix.length, expires)),
                    IpAddr::V6(address) => second.push(key_edit(address.to_bits(), prefix.length, expires)),
                },
                SetValue::Ports(start, last) => ports.push(key_edit(start, last, expires)),
            }
        }
        let total = first.len() + second.len() + ports.len();
        let (elements, effects) = match &self.elements {
            Elements::Addresses { v4, v6 } => {
                let ((v4, some), (v6, more)) = (v4.edited(first), v6.edited(second));
                (Elements::Addresses { v4, v6 }, [some, more])
            }
            Elements::Ports(intervals) => {
                let (intervals, effect) = intervals.edited(ports);
                (Elements::Ports(intervals), [effect, Effect::default()])
            }
        };
        let set = Set { limit: self.limit, elements };
        // A set above its limit, because that was lowered, may still shrink.
        if set.len() > self.limit.max(self.len()) {
            return Err(SetError::TooMany { elements: set.len(), limit: self.limit });
        }
        let sum = |count: fn(&Effect) -> usize| effects.iter().map(count).sum();
        let mut counts = SetEditCounts {
            added: sum(|effect| effect.added),
            renewed: sum(|effect| effect.renewed),
            removed: sum(|effect| effect.removed),
            unchanged: 0,
        };
        counts.unchanged = total - counts.added - counts.renewed - counts.removed;
        Ok((set, counts))
    }

    /// The set without the elements that have expired at `now`, and those elements. Takes time in proportion to them.
    pub fn unexpired(&self, now: Instant) -> (Set, Vec<SetElement>) {
        let mut expired = Vec::new();
        let elements = match &self.elements {
            Elements::Addresses { v4, v6 } => {
                let (mut first, mut second) = (Vec::new(), Vec::new());
                let left =
                    Elements::Addresses { v4: v4.unexpired(now, &mut first), v6: v6.unexpired(now, &mut second) };
                expired.extend(first.into_iter().map(SetElement::from));
                expired.extend(second.into_iter().map(SetElement::from));
                left
            }
            Elements::Ports(ports) => {
                let mut gone = Vec::new();
                let left = Elements::Ports(ports.unexpired(now, &mut gone));
                expired.extend(gone.into_iter().map(SetElement::from));
                left
            }
        };
        (Set { limit: self.limit, elements }, expired)
    }

    /// The elements as they were added, in ascending order: IPv4 before IPv6, a prefix before longer ones in it.
    pub fn elements(&self) -> impl Iterator<Item = SetElement> + '_ {
        self.elements_from(None)
    }

    /// The elements from `first` on in the order of [`Set::elements`], also if the set has no such element. A value of the other kind gives none.
    pub fn elements_from(&self, first: Option<SetValue>) -> Box<dyn Iterator<Item = SetElement> + '_> {
        match (&self.elements, first.map(start)) {
            (Elements::Addresses { v4, v6 }, None) => Box::new(elements(v4, None).chain(elements(v6, None))),
            (Elements::Addresses { v4, v6 }, Some(Start::V4(from))) => {
                Box::new(elements(v4, Some(from)).chain(elements(v6, None)))
            }
            (Elements::Addresses { v6, .. }, Some(Start::V6(from))) => Box::new(elements(v6, Some(from))),
            (Elements::Ports(ports), None) => Box::new(elements(ports, None)),
            (Elements::Ports(ports), Some(Start::Port(from))) => Box::new(elements(ports, Some(from))),
            _ => Box::new(std::iter::empty()),
        }
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set").field("kind", &self.kind()).field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The key of an element in its tree.
enum Start {
    V4((u32, u8)),
    V6((u128, u8)),
    Port((u16, u16)),
}

fn start(value: SetValue) -> Start {
    match value {
        SetValue::Addresses(Prefix { address: IpAddr::V4(address), length }) => Start::V4((address.to_bits(), length)),
        SetValue::Addresses(Prefix { address: IpAddr::V6(address), length }) => Start::V6((address.to_bits(), length)),
        SetValue::Ports(first, last) => Start::Port((first, last)),
    }
}

fn key_edit<K: Indexed>(start: K, tail: K::Tail, expires: Option<Instant>) -> Edit<K> {
    match expires {
        Some(expires) => Edit::Add(Item { start, tail, expires }),
        None => Edit::Remove((start, tail)),
    }
}

fn elements<K: Indexed>(intervals: &Intervals<K>, from: Option<(K, K::Tail)>) -> impl Iterator<Item = SetElement> + '_
where
    SetElement: From<Item<K>>,
{
    intervals.iter_from(from).map(SetElement::from)
}

fn prefix(address: impl Into<IpAddr>, length: u8) -> SetValue {
    SetValue::Addresses(Prefix { address: address.into(), length })
}

impl From<Item<u32>> for SetElement {
    fn from(item: Item<u32>) -> SetElement {
        SetElement { value: prefix(Ipv4Addr::from_bits(item.start), item.tail), expires: item.expires }
    }
}

impl From<Item<u128>> for SetElement {
    fn from(item: Item<u128>) -> SetElement {
        SetElement { value: prefix(Ipv6Addr::from_bits(item.start), item.tail), expires: item.expires }
    }
}

impl From<Item<u16>> for SetElement {
    fn from(item: Item<u16>) -> SetElement {
        SetElement { value: SetValue::Ports(item.start, item.tail), expires: item.expires }
    }
}
