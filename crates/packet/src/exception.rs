//! The reasons why a packet cannot use the fast path.

/// The reason why the classifier sends a packet to the general path; the code in `Meta::exception`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Exception {
    /// An ARP packet.
    Arp = 1,
    /// For the router itself: one of its addresses, or a group that it has joined.
    Local = 2,
    /// It has IP options or a hop-by-hop header. The general path processes them and forwards the packet.
    Options = 3,
    /// Its time to live or hop limit has expired.
    Expired = 4,
    /// There is no route to its destination.
    NoRoute = 5,
    /// Its route is an unreachable route.
    Unreachable = 6,
    /// It exceeds the MTU of the next link.
    TooBig = 7,
    /// The next hop's link-layer address is unknown or not confirmed.
    Resolve = 8,
    /// Its source address may not leave its link, but its destination is on another one (RFC 4443 3.1, code 2).
    BeyondScope = 9,
    /// Its egress interface is its ingress interface, and the interface sends redirects.
    Redirect = 10,
    /// Its next hop did not answer: the sender receives an ICMP error.
    Unanswered = 11,
    /// A function changed its destination: it is classified again.
    Again = 12,
    /// A packet filter rejects it: the sender receives an ICMP error.
    Prohibited = 13,
    /// A function has chosen its path, in `Meta::path`.
    Dispatched = 14,
    /// A fragment that waits for the first fragment of its packet, which alone has the ports that translation needs.
    Fragment = 15,
    /// For a program of the machine: the router's own protocols do not process it.
    Kernel = 16,
    /// It has arrived at the end of a tunnel, and waits to be decapsulated.
    Tunnel = 17,
    /// A function has given it to a program, and the packet ends.
    Delivered = 18,
    /// A service of the router has made it for its own function. Other functions leave it as it is.
    Originated = 19,
}

impl Exception {
    /// All exceptions in the order of their codes.
    pub const ALL: [Exception; 19] = [
        Exception::Arp,
        Exception::Local,
        Exception::Options,
        Exception::Expired,
        Exception::NoRoute,
        Exception::Unreachable,
        Exception::TooBig,
        Exception::Resolve,
        Exception::BeyondScope,
        Exception::Redirect,
        Exception::Unanswered,
        Exception::Again,
        Exception::Prohibited,
        Exception::Dispatched,
        Exception::Fragment,
        Exception::Kernel,
        Exception::Tunnel,
        Exception::Delivered,
        Exception::Originated,
    ];

    /// The exception with this code in `Meta::exception`.
    pub fn of(code: u8) -> Option<Exception> {
        Self::ALL.get(usize::from(code).wrapping_sub(1)).copied()
    }
}
