//! Shares by the longest prefix of an address.
//!
//! An access network has few lengths of prefixes: single IPv4 addresses, a few networks of business customers, IPv6 prefixes of 56 or 48 bits. With up to
//! four lengths in a family each length has a table of exact keys, and a look-up tries them from the longest on: one access to memory for most packets.
//! With more lengths the forwarding table of crate `fib` has the prefixes, with the number of the share in place of a route's outcome.

use crate::exact_keys::{ExactKey, ExactKeys};
use fib::{Fib4, Fib6};
use units::ShareId;

/// The maximum number of lengths with tables of exact keys.
const LENGTHS: usize = 4;

/// An address of a family, and the forwarding table behind it.
pub(super) trait PrefixAddress: ExactKey {
    /// The forwarding table of the family.
    type Trie: Default;
    /// The first `length` bits; the others are zero.
    fn network(self, length: u8) -> Self;
    /// The first half of an IPv6 address. `None` in IPv4, whose addresses are short anyway.
    fn half(self) -> Option<u64>;
    /// Adds a prefix to a forwarding table.
    fn insert(trie: &Self::Trie, prefix: Self, length: u8, share: ShareId);
    /// Finds the shares of many addresses, zero for none.
    fn look_up(trie: &Self::Trie, addresses: &[Self], shares: &mut [u32]);
    /// Bytes of memory and reserved address space of a forwarding table.
    fn bytes(trie: &Self::Trie) -> usize;
}

macro_rules! prefix_address {
    ($address:ty, $trie:ty, $half:expr) => {
        impl PrefixAddress for $address {
            type Trie = $trie;

            #[inline(always)]
            fn network(self, length: u8) -> Self {
                self & <$address>::MAX.checked_shl(<$address>::BITS - u32::from(length)).unwrap_or(0)
            }

            #[inline(always)]
            fn half(self) -> Option<u64> {
                $half(self)
            }

            fn insert(trie: &$trie, prefix: Self, length: u8, share: ShareId) {
                trie.insert(prefix, length, share.0);
            }

            #[inline(always)]
            fn look_up(trie: &$trie, addresses: &[Self], shares: &mut [u32]) {
                trie.lookup_bulk(addresses, shares);
            }

            fn bytes(trie: &$trie) -> usize {
                trie.bytes()
            }
        }
    };
}

prefix_address!(u32, Fib4, |_| None);
prefix_address!(u128, Fib6, |address| Some((address >> 64) as u64));

/// The shares of the prefixes of one family.
pub(super) enum Prefixes<A: PrefixAddress> {
    /// Lengths in descending order, each with its prefixes. Empty without prefixes.
    ByLength(Vec<(u8, PrefixKeys<A>)>),
    /// More lengths than [`LENGTHS`].
    Trie(Box<A::Trie>),
}

/// The prefixes of one length.
pub(super) enum PrefixKeys<A> {
    /// By the whole address.
    Whole(ExactKeys<A>),
    /// By the first half, for IPv6 prefixes of at most 64 bits: half the memory.
    Half(ExactKeys<u64>),
}

impl<A: PrefixAddress> PrefixKeys<A> {
    /// The table of these prefixes.
    fn new(length: u8, prefixes: &[(A, ShareId)]) -> Self {
        let halves = prefixes.iter().map(|(prefix, share)| Some((prefix.half()?, *share)));
        match halves.collect::<Option<Vec<_>>>().filter(|_| length <= 64) {
            Some(halves) => PrefixKeys::Half(ExactKeys::new(&halves)),
            None => PrefixKeys::Whole(ExactKeys::new(prefixes)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            PrefixKeys::Whole(keys) => keys.bytes(),
            PrefixKeys::Half(keys) => keys.bytes(),
        }
    }
}

impl<A: PrefixAddress> Prefixes<A> {
    /// The table of these prefixes, each with its length. Bits after a prefix are zero, and each prefix occurs once.
    pub fn new(entries: &[(A, u8, ShareId)]) -> Self {
        let mut lengths: Vec<u8> = entries.iter().map(|(_, length, _)| *length).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        if lengths.len() <= LENGTHS {
            let of = |length: u8| {
                let same = entries.iter().filter(|(_, other, _)| *other == length);
                (length, PrefixKeys::new(length, &same.map(|&(prefix, _, share)| (prefix, share)).collect::<Vec<_>>()))
            };
            return Prefixes::ByLength(lengths.into_iter().map(of).collect());
        }
        let trie = Box::<A::Trie>::default();
        entries.iter().for_each(|&(prefix, length, share)| A::insert(&trie, prefix, length, share));
        Prefixes::Trie(trie)
    }

    /// True without prefixes.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        matches!(self, Prefixes::ByLength(lengths) if lengths.is_empty())
    }

    /// Bytes of memory, and of address space reserved by a forwarding table.
    pub fn bytes(&self) -> usize {
        match self {
            Prefixes::ByLength(lengths) => lengths.iter().map(|(_, keys)| keys.bytes()).sum(),
            Prefixes::Trie(trie) => A::bytes(trie),
        }
    }

    /// Looks up the addresses of a batch. Each has the position of its packet, of which there are at most [`BATCH`]. Calls `found` with the position of each
    /// packet that has a share, and afterwards `missed` with those of the others.
    #[inline(always)]
    pub fn look_up(&self, batch: &mut Addresses<A>, mut found: impl FnMut(u8, ShareId), mut missed: impl FnMut(u8)) {
        match self {
            Prefixes::ByLength(lengths) => {
                for (length, keys) in lengths {
                    if batch.count == 0 {
                        return;
                    }
                    match keys {
                        PrefixKeys::Whole(keys) => batch.look_up(keys, |address| address.network(*length), &mut found),
                        PrefixKeys::Half(keys) => {
                            let network = |address: A| address.network(*length).half().unwrap_or(0);
                            batch.look_up(keys, network, &mut found);
                        }
                    }
                }
                batch.packets[..batch.count].iter().for_each(|&packet| missed(packet));
            }
            Prefixes::Trie(trie) => {
                let mut shares = [0; BATCH];
                A::look_up(trie, &batch.addresses[..batch.count], &mut shares[..batch.count]);
                for (&packet, &share) in batch.packets[..batch.count].iter().zip(&shares) {
                    if share == 0 { missed(packet) } else { found(packet, ShareId(share)) }
                }
            }
        }
    }
}

/// The maximum number of packets of a batch. The arrays for larger ones would be cleared in vain when a batch has few packets.
pub(super) const BATCH: usize = 64;

/// The addresses of some packets of a batch, and the positions of the packets.
pub(super) struct Addresses<A> {
    addresses: [A; BATCH],
    packets: [u8; BATCH],
    count: usize,
}

impl<A: PrefixAddress> Addresses<A> {
    /// No addresses.
    #[inline(always)]
    pub fn new() -> Self {
        const { assert!(BATCH <= 1 << u8::BITS) };
        Addresses { addresses: [A::default(); BATCH], packets: [0; BATCH], count: 0 }
    }

    /// Adds the address of a packet.
    #[inline(always)]
    pub fn push(&mut self, packet: usize, address: A) {
        self.addresses[self.count] = address;
        self.packets[self.count] = packet as u8;
        self.count += 1;
    }

    /// True without addresses.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Looks up all addresses among prefixes of one length, and keeps those that have none. `network` makes the key of an address.
    #[inline(always)]
    fn look_up<K: ExactKey>(
        &mut self,
        keys: &ExactKeys<K>,
        network: impl Fn(A) -> K,
        found: &mut impl FnMut(u8, ShareId),
    ) {
        let mut networks = [K::default(); BATCH];
        for (&address, key) in self.addresses[..self.count].iter().zip(&mut networks) {
            *key = network(address);
        }
        let Addresses { addresses, packets, count } = self;
        let mut kept = 0;
        keys.look_up(&networks[..*count], |i, share| match share {
            Some(share) => found(packets[i], share),
            None => {
                // At or before the position being read.
                (addresses[kept], packets[kept]) = (addresses[i], packets[i]);
                kept += 1;
            }
        });
        *count = kept;
    }
}
