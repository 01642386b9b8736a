//! Small dense ids: an index into the table of its kind.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($repr:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $repr);

        impl $name {
            /// The position in a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
            /// The id of a position in a table. Panics if the position exceeds the id's type. That cannot happen: tables are bounded when they are
            /// built.
            pub fn at(index: usize) -> Self {
                $name(<$repr>::try_from(index).expect(concat!(stringify!($name), " out of range")))
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}

ids! {
    /// A port: packets enter and leave the router there.
    PortId(u16);
    /// A layer 3 attachment: a port, or one 802.1Q VLAN of it.
    InterfaceId(u16);
    /// A switching path.
    PathId(u16);
    /// A task of one worker: an input, forwarding or output continuation.
    TaskId(u32);
    /// A queue of one link.
    QueueId(u32);
    /// A worker: one core's tasks, queues and ring ends.
    WorkerId(u16);
    /// A neighbour as the fast path sees it: the egress port and the link-layer address.
    AdjacencyId(u32);
    /// Several neighbours that share a route's packets.
    GroupId(u32);
    /// A table of routes of its own: 0 is the main one.
    VrfId(u16);
    /// The name of a share in link-sharing trees; 0 is none.
    ShareId(u32);
    /// A published configuration; counts up from 1.
    Generation(u64);
}

impl QueueId {
    /// The most queues of a link: 2^22 of schemes, and one for a lone packet of each share. It bounds their memory.
    pub const MOST: u32 = (1 << 22) + ShareId::MOST;
}

impl ShareId {
    /// The most shares of a router, and of a port.
    pub const MOST: u32 = 1 << 20;
}

impl VrfId {
    /// The table of interfaces that belong to no other VRF.
    pub const MAIN: VrfId = VrfId(0);
}
