//! Conditions on the routes to a packet's source, in the language of nftables: reverse-path checks (RFC 3704).

use std::fmt;

/// A condition on the route to the source of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FibMatch {
    /// True if only a route that leaves by the input interface of the packet counts (RFC 3704 2.2). False for any route (RFC 3704 2.4).
    pub by_input: bool,
    /// True if the condition holds for packets without such a route, false if it holds for all others.
    pub missing: bool,
}

impl FibMatch {
    /// All conditions.
    pub const ALL: [FibMatch; 4] = [
        FibMatch { by_input: false, missing: false },
        FibMatch { by_input: false, missing: true },
        FibMatch { by_input: true, missing: false },
        FibMatch { by_input: true, missing: true },
    ];
}

impl fmt::Display for FibMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.by_input { " . iif" } else { "" };
        write!(f, "fib saddr{by} oif {}", if self.missing { "missing" } else { "exists" })
    }
}
