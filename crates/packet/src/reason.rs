//! Why a router drops a packet: one enum, and so one name in the command line, the metrics, the captures and the logs.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal $hint:literal;)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DropReason { $($(#[doc = $doc])+ $variant,)* }

        impl DropReason {
            /// Every reason, in the order of their numbers.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant),*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name everywhere a person or a program reads it.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// What to look at, or to do, where it should not have been dropped: one sentence for the operator who asks why.
            pub const fn hint(self) -> &'static str {
                match self { $(DropReason::$variant => $hint,)* }
            }

            /// One sentence for the operator, with its source.
            pub const fn explanation(self) -> &'static str {
                match self { $(DropReason::$variant => concat!($($doc),+),)* }
            }
        }
    };
}

reasons! {
    /// The frame is shorter than an Ethernet header.
    FrameTooShort "frame_too_short"
        "A sender or a cable is broken: look at the error counters of the device (`ip -s link`).";
    /// The frame is longer than any frame of the pool, or than the port could hand over whole: a super-frame, if its sender's
    /// segmentation offload is on (`ethtool -K INTERFACE tso off gso off` there).
    FrameTooLong "frame_too_long"
        "Lower the MTU of the senders, or switch their segmentation offload off.";
    /// The frame needs a super-frame, and all of the pool are in use (`super_frames` of `[router]`).
    NoSuperFrame "no_super_frame"
        "Raise `super_frames` in `[router]`, or set `offloads = false` on the port.";
    /// What the sender says is left to do to the frame, segmentation or a checksum, does not fit the frame, or is not done
    /// here (OASIS virtio 1.2, 5.1.6).
    BadOffload "bad_offload"
        "A broken or hostile sender on this machine: set `offloads = false` on the port.";
    /// The frame is for another station of the segment.
    OtherStation "other_station"
        "Usual on a segment that floods. If it should have come here, its sender has a stale ARP entry, or the port's \
         `mac` is another than it believes.";
    /// No interface of the port has the VLAN of the frame.
    UnknownVlan "unknown_vlan"
        "Add `[port.NAME.vlan.ID]`, or take the VLAN off the switch port.";
    /// The frame has two VLAN tags, or one in another form than 802.1Q.
    VlanStacked "vlan_stacked"
        "Take the outer tag off on the switch; one 802.1Q tag is understood.";
    /// The router does not speak the protocol the frame carries.
    UnknownEthertype "unknown_ethertype"
        "Usual: LLDP, spanning tree and the like. Nothing to do unless a sender expected routing.";
    /// The interface has no address of this IP version, so it does not route it.
    FamilyDisabled "family_disabled"
        "Give the interface an address of this IP version if it should route it.";
    /// The IP header is cut short (RFC 1812 5.2.2, RFC 8200 3).
    HeaderTruncated "header_truncated"
        "A broken or hostile sender, or a device that cuts frames: capture some and look at who sends them.";
    /// The version field disagrees with the frame (RFC 1812 5.2.2).
    WrongVersion "wrong_version"
        "A broken or hostile sender, or a device that cuts frames: capture some and look at who sends them.";
    /// The header length is below five words (RFC 1812 5.2.2).
    HeaderLength "header_length"
        "A broken or hostile sender, or a device that cuts frames: capture some and look at who sends them.";
    /// The total length is shorter than the header, or longer than the frame (RFC 1812 5.2.2, RFC 8200 4.5).
    TotalLength "total_length"
        "A broken or hostile sender, or a device that cuts frames: capture some and look at who sends them.";
    /// The IPv4 header checksum is wrong (RFC 1812 5.2.2).
    HeaderChecksum "header_checksum"
        "A broken device on the way, or a sender whose checksum offload is not completed before frames come here \
         (`ethtool -K INTERFACE tx off` there).";
    /// An IP option or extension header is malformed (RFC 1812 4.2.2.6, RFC 8200 4.2).
    BadOption "bad_option"
        "A broken or hostile sender: capture some and look.";
    /// Source routing is not done (RFC 7126 4.3, RFC 5095).
    SourceRoute "source_route"
        "Meant so: source routes bypass policy. Nothing to do.";
    /// The source address cannot be that of a sender (RFC 1812 5.3.7, RFC 4291 2.5).
    MartianSource "martian_source"
        "A spoofed or misconfigured sender, or two hosts with one address. One of the router's own addresses as a \
         source means a loop.";
    /// The destination address cannot be forwarded to (RFC 1812 5.3.7, RFC 4291 2.5).
    MartianDestination "martian_destination"
        "A misconfigured sender: such an address is nobody's.";
    /// A unicast packet came in a link-layer broadcast (RFC 1812 5.3.4).
    LinkBroadcast "link_broadcast"
        "A misconfigured sender or an attack: nothing to do here.";
    /// A directed or limited broadcast is not forwarded (RFC 2644).
    Broadcast "broadcast"
        "Meant so: directed broadcasts amplify attacks. Use multicast or unicast.";
    /// No `[[multicast]]` says where packets to this group go, and the router is no member of it.
    Multicast "multicast"
        "Add a `[[multicast]]` for the group if it should be forwarded, and look at its `source`.";
    /// The route to its source leads to another interface or does not exist, and `reverse_path` of the interface checks that
    /// (RFC 3704). Or packets to its group come in by another interface (RFC 7761 4.2).
    ReversePath "reverse_path"
        "A spoofed source, or one that sends and receives by different interfaces: `switchpath explain` shows the \
         route to it, and `reverse_path = \"loose\"` accepts any route. For a group, `from` of its `[[multicast]]` is \
         another interface: its source has moved, or a router returns the packet.";
    /// A link-local address may not leave its link (RFC 4291 2.5.6, RFC 3927 2.7).
    LinkLocal "link_local"
        "Use an address that reaches further than its link.";
    /// The time to live or hop limit ran out (RFC 1812 5.3.1, RFC 8200 3).
    TtlExpired "ttl_expired"
        "A traceroute, or a routing loop: see whether `switchpath show routes` sends it back.";
    /// No route leads to the destination (RFC 1812 5.2.7.1).
    NoRoute "no_route"
        "Add a route, or a default route: `switchpath show routes` has those there are.";
    /// A blackhole route says to drop it without a word.
    Blackhole "blackhole"
        "Meant so by a route with `blackhole = true`.";
    /// An unreachable route says to drop it and tell the sender.
    Unreachable "unreachable"
        "Meant so by a route with `unreachable = true`.";
    /// It is larger than the next link takes and must not be fragmented (RFC 1812 4.2.2.7, RFC 8200 5).
    TooBig "too_big"
        "Its sender was told the MTU; if it goes on, a firewall between eats ICMP. Raise `mtu` where the link takes \
         more.";
    /// Too many packets wait for this neighbour's link address (RFC 1812 3.3.2, RFC 4861 7.2.2).
    NeighbourQueue "neighbour_queue"
        "The neighbour answers slowly or not at all: see `switchpath show neighbours`.";
    /// The neighbour did not answer (RFC 1812 5.2.7.1, RFC 4861 7.2.2).
    NeighbourFailed "neighbour_failed"
        "The next hop is down, elsewhere, or does not answer ARP or neighbour discovery: `switchpath show \
         neighbours`, or configure it with `[[neighbour]]`.";
    /// The neighbour table is full: an address scan, or a limit set too low (RFC 6583).
    NeighbourTable "neighbour_table"
        "Somebody scans a large prefix, or the link has more hosts than are remembered.";
    /// The ARP packet is malformed, or claims one of the router's own addresses (RFC 826, RFC 5227).
    BadArp "bad_arp"
        "A broken sender, or another host has an address of the router: see `switchpath show events`.";
    /// The neighbour discovery message is invalid (RFC 4861 6.1, 7.1, 8.1).
    BadNeighbourDiscovery "bad_neighbour_discovery"
        "A broken or hostile sender on the link: capture some and look.";
    /// More neighbour messages came than the router takes a second.
    NeighbourFlood "neighbour_flood"
        "A loop in the segment or an attack: look for the sender with `switchpath capture`.";
    /// The ICMP message is malformed or its checksum is wrong (RFC 792, RFC 4443 2.4).
    BadIcmp "bad_icmp"
        "A broken or hostile sender: nothing to do here.";
    /// It is for the router itself, which does not speak this protocol (RFC 1122 3.2.2.1, RFC 4443 3.4).
    LocalProtocol "local_protocol"
        "Nothing here speaks that protocol; the router only answers ICMP.";
    /// It is for the router itself, which has nothing on this port (RFC 1122 4.1.3.1).
    LocalPort "local_port"
        "Nothing listens on the router itself; a scan, or the wrong address.";
    /// A fragment for the router itself, or to be translated, that can be part of no packet (RFC 791 3.2, RFC 8200 4.5).
    BadFragment "bad_fragment"
        "A broken or hostile sender: nothing to do here.";
    /// A fragment for the router itself that another of its packet overlaps or contradicts, or repeats (RFC 5722 4, RFC 8200 4.5).
    FragmentOverlap "fragment_overlap"
        "A broken or hostile sender: nothing to do here.";
    /// A fragment for the router itself whose packet was not whole in time (RFC 1122 3.3.2, RFC 8200 4.5).
    FragmentTimeout "fragment_timeout"
        "Fragments are lost on the way here: look for drops before this router.";
    /// Too many fragments for the router itself wait for the rest of their packets, or too many to be translated for the first (RFC 8900 3.7).
    FragmentLimit "fragment_limit"
        "Many packets for the router come in fragments, or without the first of them: most likely an attack.";
    /// It is for an address of the router's that another station has as well (RFC 4862 5.4.5).
    DuplicateAddress "duplicate_address"
        "Give one of the two stations another address: `switchpath show events` says whose it is.";
    /// The input queue of its path is full.
    PathQueue "path_queue"
        "More comes than the path's functions keep up with, or its link is slower: see `switchpath show queues` and \
         `show workers`; `queue` sets how many packets wait.";
    /// Its path's functions took longer than the path's limit.
    CpuLimit "cpu_limit"
        "Meant so by the `limit` of its path: raise it, or see with `switchpath show workers` what a packet costs.";
    /// A function of its path panicked, did not return while a new configuration waited for it, or found nobody to run it:
    /// too many of those before it have not returned.
    FunctionFailed "function_failed"
        "See `switchpath show events` for what it did. Its path goes on with fresh functions; a function that never \
         returns keeps a thread until the router is restarted: take it off the path.";
    /// Functions sent it back to be classified too often.
    Rounds "rounds"
        "Functions of two paths send it to each other: look at their matches.";
    /// There are as many translated connections as there may be (RFC 4787 is silent, RFC 6888 REQ-4 asks for a bound).
    NatTable "nat_table"
        "Many hosts, or one that scans: see `switchpath show nat`; raise `connections` in `[nat]`, or shorten its \
         times.";
    /// No port was found free for a new translated connection (RFC 4787 REQ-3).
    NatPorts "nat_ports"
        "Nearly all ports of the address are taken: see `switchpath show nat`, or widen `ports` in `[nat]`.";
    /// The host inside has begun as many translated connections as one may (RFC 6888 REQ-4).
    NatHost "nat_host_limit"
        "That host scans, or is infected, or has many users: see `switchpath show nat`; raise `per_host` in `[nat]`.";
    /// It cannot be translated: its protocol has no ports, or its header is cut short (RFC 1858).
    NatUnsupported "nat_unsupported"
        "TCP, UDP and ICMP are translated. Give other protocols an address of their own, or carry them in UDP.";
    /// A fragment without ports, and the first of its packet did not come within two seconds (RFC 4787 REQ-14).
    NatFragment "nat_fragment"
        "The first fragment was lost on the way here, or somebody sends others only: lower the sender's MTU.";
    /// It is about a connection that is not known (RFC 5508 REQ-4).
    NatUnknown "nat_unknown"
        "An answer that came too late, or a host inside that speaks of what it never had.";
    /// A rule of its path's packet filter drops it.
    Filtered "filtered"
        "Meant so by a rule of its path: `switchpath show functions` counts each.";
    /// A rule of its path's packet filter drops it and tells its sender (RFC 1812 5.2.7.1).
    Rejected "rejected"
        "Meant so by a rule of its path: `switchpath show functions` counts each.";
    /// The instruction it carries says that it ends here.
    Instruction "instruction"
        "Meant so by who computes: most reports of a group end where they are added up. `switchpath show state` has \
         them by instruction.";
    /// The instruction it carries could not be executed, and the configuration says to drop it (`on_abort` of `[state]`).
    InstructionAborted "instruction_aborted"
        "`switchpath show state` has the reasons; where it is `full`, raise the capacity (`switchpath state size`).";
    /// The output queue of the router's own packets is full.
    OutputQueue "output_queue"
        "The link is too slow for what the router itself sends: see `switchpath show queues`.";
    /// Too many packets wait for the worker it belongs to.
    HandOverFull "hand_over_full"
        "One worker gets more than it can take: see `switchpath show workers`. A single heavy flow, or computation, \
         stays on one worker; with `queues` of `[state]` a computation has its part of the room.";
    /// The worker it belongs to has failed.
    WorkerFailed "worker_failed"
        "See `switchpath show events` for why it failed. It begins anew by itself; where `switchpath show workers` \
         says that it has failed for good, restart the router.";
    /// The queueing scheme refused it when it arrived.
    SchemeArrival "scheme_arrival"
        "The link is busy and its queueing scheme sheds load, as it should: see `switchpath show ports`; raise the \
         scheme's limit only if delay does not matter.";
    /// The queueing scheme dropped it from the front of its queue.
    SchemeFront "scheme_front"
        "The link is busy and its queueing scheme sheds load, as it should: see `switchpath show ports`; raise the \
         scheme's limit only if delay does not matter.";
    /// The queueing scheme dropped it from the tail of its queue.
    SchemeTail "scheme_tail"
        "The link is busy and its queueing scheme sheds load, as it should: see `switchpath show ports`; raise the \
         scheme's limit only if delay does not matter.";
    /// It waited at a queueing scheme that was replaced.
    SchemeFlush "scheme_flush"
        "Meant so by `scheme_change = \"flush\"` of the port.";
    /// The physical queue of the link is full.
    BufferFull "buffer_full"
        "The scheme lets more wait than the link has room for: lower its limit.";
    /// No frame was left in the pool.
    PoolEmpty "pool_empty"
        "Too many packets wait somewhere: see `switchpath show queues`, or raise `frames` in `[router]`.";
    /// It was lost on an emulated link, as its description says.
    LinkLoss "link_loss"
        "Meant so by `link` of the port: its `loss`, or the end of its `trace`.";
    /// The interface it should leave by refused it: it is longer than the interface accepts, or the interface had no room for
    /// it for too long.
    DeviceRefused "device_refused"
        "See `switchpath show ports` for the interface's MTU and `ip -s link` for what it dropped; a veth drops what \
         its other end is too small for. Behind a passthrough port, give both ends one MTU.";
    /// The port it should leave by is down.
    PortDown "port_down"
        "Connect the port's medium: `switchpath show ports`, `ip link set INTERFACE up`.";
    /// The port it should leave by, or its path, was removed while it waited.
    PortRemoved "port_removed"
        "Packets that waited for what a new configuration removed. Nothing to do.";
    /// A fault injected on purpose.
    InjectedFault "injected_fault"
        "Meant so by `faults` of the port.";
    /// The worker stopped while it held the packet.
    Shutdown "shutdown"
        "Packets in queues when the router ended. Nothing to do.";
}

impl DropReason {
    /// The position of its counter.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason of a name.
    pub fn named(name: &str) -> Option<DropReason> {
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_one_name_and_a_sentence() {
        let names: std::collections::BTreeSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        for (i, &reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), i);
            assert_eq!(DropReason::named(reason.name()), Some(reason));
            assert!(reason.explanation().trim_end().ends_with('.'), "{reason}");
            assert!(reason.hint().ends_with('.'), "{reason}");
        }
    }
}
