//! Limits of the router's own protocols.

use units::Nanos;

/// How much the router does for others, and remembers of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostLimits {
    /// ICMP errors a second for packets that came in by one interface (RFC 1812 4.3.2.8, RFC 4443 2.4(f)).
    pub icmp_rate: u64,
    /// ICMP errors at once for packets that came in by one interface.
    pub icmp_burst: u64,
    /// Packets that wait for one neighbour.
    pub pending_per_neighbour: usize,
    /// Packets that wait for any neighbour.
    pub pending: usize,
    /// Neighbours remembered on one interface.
    pub neighbours_per_interface: usize,
    /// ARP and neighbour discovery messages of strangers heard a second, and at once, on one interface. Answers to
    /// questions, and neighbours in use, are heard besides.
    pub neighbour_messages: u64,
    /// Questions to everybody on a link, a second and at once.
    pub neighbour_questions: u64,
    /// Fragments for the router itself that wait for the rest of their packets; of one sender a quarter of them.
    pub fragments: usize,
    /// How long they wait in IPv4; in IPv6 twice as long.
    pub reassembly: Nanos,
    /// The source of numbers that others should not guess, of moments that routers should not share, and of the keys of all hashes
    /// over packets. Zero where runs are to repeat.
    pub secret: u64,
}

impl HostLimits {
    /// The key of the hash with this number. One key does not reveal another. Without a secret the key is the number.
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

impl Default for HostLimits {
    fn default() -> HostLimits {
        HostLimits {
            icmp_rate: 1000,
            icmp_burst: 50,
            pending_per_neighbour: 16,
            pending: 1024,
            neighbours_per_interface: 4096,
            neighbour_messages: 30_000,
            neighbour_questions: 25_000,
            fragments: 1024,
            reassembly: Nanos::secs(30),
            secret: 0,
        }
    }
}
