//! Routing tables beside the main one (virtual routing and forwarding; RFC 4364 3 calls them VRFs).
//!
//! A router may have hundreds of VRFs, most of them with few routes. A VRF therefore has no table with a word for each /24. It has a tree whose
//! memory grows with its routes, the same for both families: an IPv4 address is looked up as the leading 32 bits of a longer one. The trees of all
//! VRFs share one node allocator.

use super::fib6::{Nodes, Trie};
use super::rib::Forwarding;
use std::sync::Arc;

/// Lookups whose memory is prefetched together.
const BULK: usize = 32;

/// The forwarding tables of one VRF.
pub struct Vrf {
    v4: Trie<8>,
    v6: Trie<8>,
}

impl Vrf {
    pub(super) fn new(nodes: &Arc<Nodes>) -> Vrf {
        Vrf { v4: Trie::within(nodes.clone()), v6: Trie::within(nodes.clone()) }
    }

    /// The encoded outcome for packets to an IPv4 address, 0 (`NoRoute`) without a route.
    #[inline]
    pub fn lookup4(&self, address: u32) -> u32 {
        self.v4.lookup(leading(address))
    }

    /// Looks up many IPv4 addresses and prefetches their memory together. Panics if the slices differ in length.
    pub fn lookup_bulk4(&self, addresses: &[u32], words: &mut [u32]) {
        assert_eq!(addresses.len(), words.len(), "one answer for each address");
        // `BULK` is that of the tree, so that each call below is one of its chunks.
        let mut keys = [0; BULK];
        for (addresses, words) in addresses.chunks(BULK).zip(words.chunks_mut(BULK)) {
            let keys = &mut keys[..addresses.len()];
            keys.iter_mut().zip(addresses).for_each(|(key, &address)| *key = leading(address));
            self.v4.lookup_bulk(keys, words);
        }
    }

    /// The encoded outcome for packets to an IPv6 address, 0 (`NoRoute`) without a route.
    #[inline]
    pub fn lookup6(&self, address: u128) -> u32 {
        self.v6.lookup(address)
    }

    pub(super) fn v6(&self) -> &impl Forwarding<u128> {
        &self.v6
    }

    /// Bytes of memory used by both families.
    pub fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }

    /// Groups and stretches of the trees of both families.
    pub fn nodes(&self) -> (usize, usize) {
        let (four, six) = (self.v4.nodes(), self.v6.nodes());
        (four.0 + six.0, four.1 + six.1)
    }
}

impl Forwarding<u32> for Vrf {
    fn insert(&self, prefix: u32, length: u8, word: u32) {
        self.v4.insert(leading(prefix), length, word);
    }
    fn remove(&self, prefix: u32, length: u8, covering: (u8, u32)) {
        self.v4.remove(leading(prefix), length, covering);
    }
}

#[inline(always)]
fn leading(address: u32) -> u128 {
    u128::from(address) << 96
}
