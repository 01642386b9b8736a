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
    /// ARP and neighbour discovery messages heard a second, and at once, on one interface.
    pub neighbour_messages: u64,
    /// Fragments for the router itself that wait for the rest of their packets; of one sender a quarter of them.
    pub fragments: usize,
    /// How long they wait in IPv4; in IPv6 twice as long.
    pub reassembly: Nanos,
    /// What the numbers depend on that others should not guess, and the moments that routers should not share.
    pub secret: u64,
}

impl Default for HostLimits {
    fn default() -> HostLimits {
        HostLimits {
            icmp_rate: 1000,
            icmp_burst: 50,
            pending_per_neighbour: 16,
            pending: 1024,
            neighbours_per_interface: 4096,
            neighbour_messages: 1000,
            fragments: 1024,
            reassembly: Nanos::secs(30),
            secret: 0,
        }
    }
}
