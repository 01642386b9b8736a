//! Limits of the router's own protocols.

use units::Nanos;

/// Rates and table sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalProtocolLimits {
    /// ICMP errors a second for packets received by one interface (RFC 1812 4.3.2.8, RFC 4443 2.4(f)).
    pub icmp_rate: u64,
    /// The burst of ICMP errors for packets received by one interface.
    pub icmp_burst: u64,
    /// The packets that may wait for one neighbour.
    pub pending_per_neighbour: usize,
    /// The packets that may wait for all neighbours together.
    pub pending: usize,
    /// The neighbours of one interface.
    pub neighbours_per_interface: usize,
    /// The ARP and neighbour discovery messages accepted from other senders, a second and at once, on one interface. Answers to requests and messages
    /// of neighbours in use are accepted in addition.
    pub neighbour_messages: u64,
    /// Multicast and broadcast requests on a link, a second and at once.
    pub neighbour_requests: u64,
    /// Waiting fragments of packets for the router; one sender may have a quarter.
    pub fragments: usize,
    /// The reassembly timeout in IPv4; that of IPv6 is twice as long.
    pub reassembly: Nanos,
    /// The seed of unpredictable numbers, of random delays, and of the keys of all packet hashes. Zero makes runs repeatable.
    pub secret: u64,
}

impl LocalProtocolLimits {
    /// The key of the hash with this number. A key does not reveal another. Without a secret the key is the number.
    pub fn key(&self, purpose: u64) -> u64 {
        if self.secret == 0 {
            return purpose;
        }
        // The mixing function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
        let mut mixed = (self.secret ^ purpose.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) ^ purpose
    }
}

impl Default for LocalProtocolLimits {
    fn default() -> LocalProtocolLimits {
        LocalProtocolLimits {
            icmp_rate: 1000,
            icmp_burst: 50,
            pending_per_neighbour: 16,
            pending: 1024,
            neighbours_per_interface: 4096,
            neighbour_messages: 30_000,
            neighbour_requests: 25_000,
            fragments: 1024,
            reassembly: Nanos::secs(30),
            secret: 0,
        }
    }
}
