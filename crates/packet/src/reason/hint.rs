//! What to do about a drop: one sentence for the operator who asks why.

use super::DropReason::{self, *};

impl DropReason {
    /// What to look at, or to do, where it should not have been dropped.
    pub const fn hint(self) -> &'static str {
        match self {
            FrameTooShort => "A sender or a cable is broken: look at the error counters of the device (`ip -s link`).",
            FrameTooLong => "Lower the MTU of the senders, or switch their segmentation offload off.",
            NoSuperFrame => "Raise `super_frames` in `[router]`, or set `offloads = false` on the port.",
            BadOffload => "A broken or hostile sender on this machine: set `offloads = false` on the port.",
            OtherStation => {
                "Usual on a segment that floods. If it should have come here, its sender has a stale ARP entry, or the \
                 port's `mac` is another than it believes."
            }
            UnknownVlan => "Add `[port.NAME.vlan.ID]`, or take the VLAN off the switch port.",
            VlanStacked => "Take the outer tag off on the switch; one 802.1Q tag is understood.",
            UnknownEthertype => {
                "Usual: LLDP, spanning tree and the like. Nothing to do unless a sender expected routing."
            }
            FamilyDisabled => "Give the interface an address of this IP version if it should route it.",
            HeaderTruncated | WrongVersion | HeaderLength | TotalLength => {
                "A broken or hostile sender, or a device that cuts frames: capture some and look at who sends them."
            }
            HeaderChecksum => {
                "A broken device on the way, or a sender whose checksum offload is not completed before frames come here \
                 (`ethtool -K INTERFACE tx off` there)."
            }
            BadOption => "A broken or hostile sender: capture some and look.",
            SourceRoute => "Meant so: source routes bypass policy. Nothing to do.",
            MartianSource => {
                "A spoofed or misconfigured sender, or two hosts with one address. One of the router's own addresses as a \
                 source means a loop."
            }
            MartianDestination => "A misconfigured sender: such an address is nobody's.",
            LinkBroadcast => "A misconfigured sender or an attack: nothing to do here.",
            Broadcast => "Meant so: directed broadcasts amplify attacks. Use multicast or unicast.",
            Multicast => "Add a `[[multicast]]` for the group if it should be forwarded, and look at its `source`.",
            ReversePath => {
                "A spoofed source, or one that sends and receives by different interfaces: `switchpath explain` shows the route to \
                 it, and `reverse_path = \"loose\"` accepts any route. For a group, `from` of its `[[multicast]]` is another \
                 interface: its source has moved, or a router returns the packet."
            }
            LinkLocal => "Use an address that reaches further than its link.",
            TtlExpired => "A traceroute, or a routing loop: see whether `switchpath show routes` sends it back.",
            NoRoute => "Add a route, or a default route: `switchpath show routes` has those there are.",
            Blackhole => "Meant so by a route with `blackhole = true`.",
            Unreachable => "Meant so by a route with `unreachable = true`.",
            TooBig => {
                "Its sender was told the MTU; if it goes on, a firewall between eats ICMP. Raise `mtu` where the link takes \
                 more."
            }
            NeighbourQueue => "The neighbour answers slowly or not at all: see `switchpath show neighbours`.",
            NeighbourFailed => {
                "The next hop is down, elsewhere, or does not answer ARP or neighbour discovery: `switchpath show \
                 neighbours`, or configure it with `[[neighbour]]`."
            }
            NeighbourTable => "Somebody scans a large prefix, or the link has more hosts than are remembered.",
            BadArp => "A broken sender, or another host has an address of the router: see `switchpath show events`.",
            BadNeighbourDiscovery => "A broken or hostile sender on the link: capture some and look.",
            NeighbourFlood => "A loop in the segment or an attack: look for the sender with `switchpath capture`.",
            BadIcmp => "A broken or hostile sender: nothing to do here.",
            LocalProtocol => "Nothing here speaks that protocol; the router only answers ICMP.",
            LocalPort => "Nothing listens on the router itself; a scan, or the wrong address.",
            BadFragment | FragmentOverlap => "A broken or hostile sender: nothing to do here.",
            DuplicateAddress => {
                "Give one of the two stations another address: `switchpath show events` says whose it is."
            }
            FragmentTimeout => "Fragments are lost on the way here: look for drops before this router.",
            FragmentLimit => {
                "Many packets for the router come in fragments, or without the first of them: most likely an attack."
            }
            PathQueue => {
                "More comes than the path's functions keep up with, or its link is slower: see `switchpath show queues` and \
                 `show workers`; `queue` sets how many packets wait."
            }
            CpuLimit => {
                "Meant so by the `limit` of its path: raise it, or see with `switchpath show workers` what a packet costs."
            }
            FunctionFailed => {
                "See `switchpath show events` for what it did. Its path goes on with fresh functions; a function that never \
                 returns keeps a thread until the router is restarted: take it off the path."
            }
            Rounds => "Functions of two paths send it to each other: look at their matches.",
            NatTable => {
                "Many hosts, or one that scans: see `switchpath show nat`; raise `connections` in `[nat]`, or shorten its times."
            }
            NatPorts => {
                "Nearly all ports of the address are taken: see `switchpath show nat`, or widen `ports` in `[nat]`."
            }
            NatHost => {
                "That host scans, or is infected, or has many users: see `switchpath show nat`; raise `per_host` in `[nat]`."
            }
            NatUnsupported => {
                "TCP, UDP and ICMP are translated. Give other protocols an address of their own, or carry them in UDP."
            }
            NatFragment => {
                "The first fragment was lost on the way here, or somebody sends others only: lower the sender's MTU."
            }
            NatUnknown => "An answer that came too late, or a host inside that speaks of what it never had.",
            Filtered | Rejected => "Meant so by a rule of its path: `switchpath show functions` counts each.",
            Instruction => {
                "Meant so by who computes: most reports of a group end where they are added up. `switchpath show state` has them \
                 by instruction."
            }
            InstructionAborted => {
                "`switchpath show state` has the reasons; where it is `full`, raise the capacity (`switchpath state size`)."
            }
            OutputQueue => "The link is too slow for what the router itself sends: see `switchpath show queues`.",
            HandOverFull => {
                "One worker gets more than it can take: see `switchpath show workers`. A single heavy flow, or computation, \
                 stays on one worker; with `queues` of `[state]` a computation has its part of the room."
            }
            WorkerFailed => {
                "See `switchpath show events` for why it failed. It begins anew by itself; where `switchpath show workers` says \
                 that it has failed for good, restart the router."
            }
            SchemeArrival | SchemeFront | SchemeTail => {
                "The link is busy and its queueing scheme sheds load, as it should: see `switchpath show ports`; raise the \
                 scheme's limit only if delay does not matter."
            }
            SchemeFlush => "Meant so by `scheme_change = \"flush\"` of the port.",
            BufferFull => "The scheme lets more wait than the link has room for: lower its limit.",
            PoolEmpty => {
                "Too many packets wait somewhere: see `switchpath show queues`, or raise `frames` in `[router]`."
            }
            DeviceRefused => {
                "See `switchpath show ports` for the interface's MTU and `ip -s link` for what it dropped; a veth drops what its \
                 other end is too small for. Behind a passthrough port, give both ends one MTU."
            }
            PortDown => "Connect the port's medium: `switchpath show ports`, `ip link set INTERFACE up`.",
            PortRemoved => "Packets that waited for what a new configuration removed. Nothing to do.",
            LinkLoss => "Meant so by `link` of the port: its `loss`, or the end of its `trace`.",
            InjectedFault => "Meant so by `faults` of the port.",
            Shutdown => "Packets in queues when the router ended. Nothing to do.",
        }
    }
}
