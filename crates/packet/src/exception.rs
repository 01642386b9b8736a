//! Why a packet cannot take the fast path.

/// Why a packet takes the general path, as the classifier found it; the code in `Meta::exception`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Exception {
    /// An ARP packet.
    Arp = 1,
    /// For the router itself: one of its addresses, or a group it is a member of.
    Local = 2,
    /// It carries IP options or a hop-by-hop header: options are looked at, then it is forwarded.
    Options = 3,
    /// Its time to live is used up.
    Expired = 4,
    /// No route leads to its destination.
    NoRoute = 5,
    /// An unreachable route.
    Unreachable = 6,
    /// It is larger than the next link takes.
    TooBig = 7,
    /// The next hop's link-layer address is not known, or not confirmed.
    Resolve = 8,
    /// Its source address may not leave its link, and its destination is beyond (RFC 4443 3.1, code 2).
    BeyondScope = 9,
    /// It leaves by the interface it came by, where senders are told of a better first hop.
    Redirect = 10,
    /// Its next hop did not answer: the sender is to hear of it.
    Unanswered = 11,
    /// A function has given it another destination: it is classified again.
    Again = 12,
    /// A packet filter rejects it: its sender is told.
    Prohibited = 13,
    /// A function has found out which path it takes, and `Meta::path` says which.
    Dispatched = 14,
    /// It is a fragment that waits for the first of its packet: translation knows its ports by that alone.
    Fragment = 15,
}

impl Exception {
    /// Every exception, in the order of their codes.
    pub const ALL: [Exception; 15] = [
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
    ];

    /// The exception of a code in `Meta::exception`.
    pub fn of(code: u8) -> Option<Exception> {
        Self::ALL.get(usize::from(code).wrapping_sub(1)).copied()
    }
}
