//! The reasons for which the router drops packets. One enum gives each reason the same name in the command line, the metrics, the captures and the
//! logs.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal $hint:literal;)*) => {
        /// The reason for which a packet was dropped.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DropReason { $($(#[doc = $doc])+ $variant,)* }

        impl DropReason {
            /// All reasons in the order of their numbers.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant),*];
            /// The number of reasons.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in all outputs.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// Hint for the operator: the likely cause, and a remedy if there is one.
            pub const fn hint(self) -> &'static str {
                match self { $(DropReason::$variant => $hint,)* }
            }

            /// An explanation in one or two sentences, with the RFCs.
            pub const fn explanation(self) -> &'static str {
                match self { $(DropReason::$variant => concat!($($doc),+),)* }
            }
        }
    };
}

reasons! {
    /// The frame is shorter than an Ethernet header.
    FrameTooShort "frame_too_short"
        "A defective sender or cable: check the error counters of the interface (`ip -s link`).";
    /// The frame is longer than any frame of the pool, or longer than the port can receive in one piece. Usually it is a super-frame of a sender with
    /// segmentation offload (`ethtool -K INTERFACE tso off gso off` there turns it off).
    FrameTooLong "frame_too_long"
        "Lower the MTU of the senders, or turn off their segmentation offload.";
    /// The frame needs a super-frame, and all super-frames of the pool are in use (`super_frames` of `[router]`).
    NoSuperFrame "no_super_frame"
        "Raise `super_frames` in `[router]`, or set `offloads = false` on the port.";
    /// The frame's offload request (segmentation or checksum) does not fit the frame, or is not supported (OASIS virtio 1.2, 5.1.6).
    BadOffload "bad_offload"
        "A broken or hostile sender on this machine: set `offloads = false` on the port.";
    /// The frame is addressed to another host on the segment.
    OtherStation "other_station"
        "Normal on a segment with flooding. If the frame was meant for this router, its sender has a stale ARP entry, \
         or expects another `mac` than the port has.";
    /// No interface of the port has the frame's VLAN.
    UnknownVlan "unknown_vlan"
        "Add `[port.NAME.vlan.ID]`, or remove the VLAN from the switch port.";
    /// The frame has two VLAN tags, or a tag that is not 802.1Q.
    VlanStacked "vlan_stacked"
        "Remove the outer tag on the switch; the router supports one 802.1Q tag.";
    /// The router does not support the frame's protocol.
    UnknownEthertype "unknown_ethertype"
        "Normal for LLDP, spanning tree and similar protocols. No action needed unless the sender expects routing.";
    /// The interface has no address of this IP version, so the router does not route it there.
    FamilyDisabled "family_disabled"
        "Give the interface an address of this IP version if it should route it.";
    /// The IP header is truncated (RFC 1812 5.2.2, RFC 8200 3).
    HeaderTruncated "header_truncated"
        "A defective or hostile sender, or a device that truncates frames: find the sender with `switchpath capture`.";
    /// The IP version field contradicts the frame's Ethertype (RFC 1812 5.2.2).
    WrongVersion "wrong_version"
        "A defective or hostile sender, or a device that truncates frames: find the sender with `switchpath capture`.";
    /// The header length is below five words (RFC 1812 5.2.2).
    HeaderLength "header_length"
        "A defective or hostile sender, or a device that truncates frames: find the sender with `switchpath capture`.";
    /// The total length is shorter than the header, or longer than the frame (RFC 1812 5.2.2, RFC 8200 4.5).
    TotalLength "total_length"
        "A defective or hostile sender, or a device that truncates frames: find the sender with `switchpath capture`.";
    /// The IPv4 header checksum is wrong (RFC 1812 5.2.2).
    HeaderChecksum "header_checksum"
        "A defective device on the path, or a sender whose offloaded checksums are not completed before the frames \
         arrive here (`ethtool -K INTERFACE tx off` there).";
    /// An IP option or extension header is malformed (RFC 1812 4.2.2.6, RFC 8200 4.2).
    BadOption "bad_option"
        "A defective or hostile sender: find it with `switchpath capture`.";
    /// The packet asks for source routing, which the router does not support (RFC 7126 4.3, RFC 5095).
    SourceRoute "source_route"
        "Intended: source routes bypass policy. No action needed.";
    /// The source address cannot be that of a sender (RFC 1812 5.3.7, RFC 4291 2.5).
    MartianSource "martian_source"
        "A spoofed or misconfigured sender, or two hosts with the same address. If the source is one of the router's \
         own addresses, there is a loop.";
    /// The destination address cannot be forwarded to (RFC 1812 5.3.7, RFC 4291 2.5).
    MartianDestination "martian_destination"
        "A misconfigured sender: no host can have this address.";
    /// A unicast packet arrived in a link-layer broadcast (RFC 1812 5.3.4).
    LinkBroadcast "link_broadcast"
        "A misconfigured sender or an attack. No action needed on the router.";
    /// Directed and limited broadcasts are not forwarded (RFC 2644).
    Broadcast "broadcast"
        "Intended: directed broadcasts amplify attacks. Use multicast or unicast.";
    /// No `[[multicast]]` entry forwards this group, and the router is not a member of it.
    Multicast "multicast"
        "Add a `[[multicast]]` entry for the group if it should be forwarded, and check its `source`.";
    /// The route to the source leads to another interface or does not exist, and the interface checks this with `reverse_path` (RFC 3704). For
    /// multicast: packets of the group are expected on another interface (RFC 7761 4.2).
    ReversePath "reverse_path"
        "A spoofed source, or asymmetric routing: `switchpath explain` shows the route to the source, and \
         `reverse_path = \"loose\"` accepts any route. For multicast, `from` of the group's `[[multicast]]` names \
         another interface: the source has moved, or a router returns the packet.";
    /// A link-local address may not leave its link (RFC 4291 2.5.6, RFC 3927 2.7).
    LinkLocal "link_local"
        "Use an address that is valid beyond its link.";
    /// The time to live or hop limit ran out (RFC 1812 5.3.1, RFC 8200 3).
    TtlExpired "ttl_expired"
        "A traceroute or a routing loop: check `switchpath show routes` for a route back to the sender.";
    /// No route leads to the destination (RFC 1812 5.2.7.1).
    NoRoute "no_route"
        "Add a route or a default route: `switchpath show routes` lists the present ones.";
    /// A blackhole route drops the packet silently.
    Blackhole "blackhole"
        "Intended by a route with `blackhole = true`.";
    /// An unreachable route drops the packet and sends an ICMP error.
    Unreachable "unreachable"
        "Intended by a route with `unreachable = true`.";
    /// The packet exceeds the MTU of the next link and must not be fragmented (RFC 1812 4.2.2.7, RFC 8200 5).
    TooBig "too_big"
        "The router sent the MTU to the sender. If the sender does not react, a firewall on the path drops ICMP. Raise \
         `mtu` if the link supports it.";
    /// Too many packets wait for the link-layer address of this neighbour (RFC 1812 3.3.2, RFC 4861 7.2.2).
    NeighbourQueue "neighbour_queue"
        "The neighbour answers slowly or not at all: see `switchpath show neighbours`.";
    /// The neighbour did not answer (RFC 1812 5.2.7.1, RFC 4861 7.2.2).
    NeighbourFailed "neighbour_failed"
        "The next hop is down, is on another link, or does not answer ARP or neighbour discovery: see `switchpath show \
         neighbours`, or configure it with `[[neighbour]]`.";
    /// The neighbour table is full: an address scan, or a limit that is too low (RFC 6583).
    NeighbourTable "neighbour_table"
        "A host scans a large prefix, or the link has more hosts than the table holds.";
    /// The ARP packet is malformed, or claims one of the router's own addresses (RFC 826, RFC 5227).
    BadArp "bad_arp"
        "A defective sender, or another host has an address of the router: see `switchpath show events`.";
    /// The neighbour discovery message is invalid (RFC 4861 6.1, 7.1, 8.1).
    BadNeighbourDiscovery "bad_neighbour_discovery"
        "A defective or hostile sender on the link: find it with `switchpath capture`.";
    /// More neighbour messages arrived than the router accepts per second.
    NeighbourFlood "neighbour_flood"
        "A loop in the segment or an attack: find the sender with `switchpath capture`.";
    /// The ICMP message is malformed or its checksum is wrong (RFC 792, RFC 4443 2.4).
    BadIcmp "bad_icmp"
        "A defective or hostile sender. No action needed on the router.";
    /// The packet is for the router itself, which does not support its protocol (RFC 1122 3.2.2.1, RFC 4443 3.4).
    LocalProtocol "local_protocol"
        "The router itself only answers ICMP.";
    /// The packet is for a port of the router itself on which nothing listens (RFC 1122 4.1.3.1).
    LocalPort "local_port"
        "No service listens on the router itself: a port scan, or a wrong destination address.";
    /// The fragment, for the router itself or to be translated, cannot be part of any packet (RFC 791 3.2, RFC 8200 4.5).
    BadFragment "bad_fragment"
        "A defective or hostile sender. No action needed on the router.";
    /// The fragment, for the router itself, overlaps, contradicts or repeats another fragment of its packet (RFC 5722 4, RFC 8200 4.5).
    FragmentOverlap "fragment_overlap"
        "A defective or hostile sender. No action needed on the router.";
    /// The fragment, for the router itself, was not completed to a packet in time (RFC 1122 3.3.2, RFC 8200 4.5).
    FragmentTimeout "fragment_timeout"
        "Fragments are lost on the way here: look for drops before this router.";
    /// Too many fragments for the router itself wait for the rest of their packets, or too many fragments to be translated wait for the first one
    /// (RFC 8900 3.7).
    FragmentLimit "fragment_limit"
        "Many packets arrive in fragments, or without their first fragment: most likely an attack.";
    /// The packet is for an address of the router that another host on the link also has (RFC 4862 5.4.5).
    DuplicateAddress "duplicate_address"
        "Give one of the two another address: `switchpath show events` reports the other host.";
    /// The input queue of the packet's path is full.
    PathQueue "path_queue"
        "More packets arrive than the path's functions or its egress link can handle: see `switchpath show queues` and \
         `show workers`; `queue` sets the length of the queue.";
    /// The functions of the packet's path took longer than the path's `limit`.
    CpuLimit "cpu_limit"
        "Intended by the `limit` of the path: raise it, or check with `switchpath show workers` how much time a packet \
         takes.";
    /// A function of the path panicked, or did not return while a new configuration waited for it. Or it was not started, because too many earlier
    /// calls have not returned.
    FunctionFailed "function_failed"
        "`switchpath show events` reports the failure. The path continues with new functions. A function that never \
         returns keeps its thread until the router restarts: remove it from the path.";
    /// Functions sent the packet back to be classified too often.
    Rounds "rounds"
        "Functions of two paths send the packet to each other: check the matches of the paths.";
    /// The maximum number of translated connections is reached (RFC 4787 is silent, RFC 6888 REQ-4 asks for a bound).
    NatTable "nat_table"
        "Many hosts, or a host that scans: see `switchpath show nat`; raise `connections` in `[nat]`, or shorten its \
         timeouts.";
    /// No free port was found for a new translated connection (RFC 4787 REQ-3).
    NatPorts "nat_ports"
        "Nearly all ports of the address are in use: see `switchpath show nat`, or widen `ports` in `[nat]`.";
    /// The inside host has reached its limit of translated connections (RFC 6888 REQ-4).
    NatHost "nat_host_limit"
        "The host scans, is infected, or has many users: see `switchpath show nat`; raise `per_host` in `[nat]`.";
    /// The packet cannot be translated: its protocol has no ports, or its header is truncated (RFC 1858).
    NatUnsupported "nat_unsupported"
        "The router translates TCP, UDP and ICMP. Give other protocols an address of their own, or carry them in UDP.";
    /// A fragment without ports whose first fragment did not arrive within two seconds (RFC 4787 REQ-14).
    NatFragment "nat_fragment"
        "The first fragment was lost on the way here, or a host sends only later fragments: lower the sender's MTU.";
    /// The packet belongs to no known connection (RFC 5508 REQ-4).
    NatUnknown "nat_unknown"
        "A late answer, or an inside host that refers to a connection that never existed.";
    /// A rule of the path's packet filter drops the packet.
    Filtered "filtered"
        "Intended by a rule of the path: `switchpath show rules` counts the packets of each rule.";
    /// A rule of the path's packet filter drops the packet and sends an ICMP error (RFC 1812 5.2.7.1).
    Rejected "rejected"
        "Intended by a rule of the path: `switchpath show rules` counts the packets of each rule.";
    /// A rule of `[routing]` drops the packet.
    RoutingRule "routing_rule"
        "Intended by a rule: `switchpath show rules` counts the packets of each rule of the list `routing`.";
    /// A guest function of the path dropped the packet.
    Guest "guest"
        "Intended by the guest: `switchpath show functions` counts the packets of each guest and of each of its rules.";
    /// A guest function of the path is off after a failure, and the path drops its packets (`on_fault=drop`).
    GuestFailed "guest_failed"
        "`switchpath show events` reports the failure: fix the guest and apply it again, or set `on_fault=bypass`.";
    /// The packet's instruction ends the packet here.
    Instruction "instruction"
        "Intended by the computation: most reports of a group end where they are aggregated. `switchpath show state` \
         counts them by instruction.";
    /// The packet's instruction could not be executed, and the configuration drops such packets (`on_abort` of `[state]`).
    InstructionAborted "instruction_aborted"
        "`switchpath show state` lists the reasons; for `full`, raise the capacity (`switchpath state size`).";
    /// The output queue for the router's own packets is full.
    OutputQueue "output_queue"
        "The link is too slow for the packets that the router itself sends: see `switchpath show queues`.";
    /// Too many packets wait for the worker that owns the packet's flow or computation.
    HandOverFull "hand_over_full"
        "One worker is overloaded: see `switchpath show workers`. A single heavy flow or computation stays on one \
         worker; with `queues` of `[state]` each computation has its share of the room.";
    /// The worker that the packet belongs to has failed.
    WorkerFailed "worker_failed"
        "`switchpath show events` reports why it failed. The worker restarts by itself; if `switchpath show workers` \
         reports that it has failed for good, restart the router.";
    /// The queueing scheme rejected the packet on arrival.
    SchemeArrival "scheme_arrival"
        "The link is congested and its queueing scheme drops packets as intended: see `switchpath show ports`; raise \
         the scheme's limit only if delay does not matter.";
    /// The queueing scheme dropped the packet from the front of its queue.
    SchemeFront "scheme_front"
        "The link is congested and its queueing scheme drops packets as intended: see `switchpath show ports`; raise \
         the scheme's limit only if delay does not matter.";
    /// The queueing scheme dropped the packet from the tail of its queue.
    SchemeTail "scheme_tail"
        "The link is congested and its queueing scheme drops packets as intended: see `switchpath show ports`; raise \
         the scheme's limit only if delay does not matter.";
    /// The packet was queued in a queueing scheme that was replaced.
    SchemeFlush "scheme_flush"
        "Intended by `scheme_change = \"flush\"` of the port.";
    /// The physical queue of the link is full.
    BufferFull "buffer_full"
        "The scheme queues more packets than the link has room for: lower its limit.";
    /// The frame pool was empty.
    PoolEmpty "pool_empty"
        "Too many packets are queued: see `switchpath show queues`, or raise `frames` in `[router]`.";
    /// The emulated link lost the packet, as configured.
    LinkLoss "link_loss"
        "Intended by `link` of the port: its `loss`, or the end of its `trace`.";
    /// The egress interface refused the packet: it exceeds the MTU of the interface, or the interface had no room for it for too long.
    DeviceRefused "device_refused"
        "See `switchpath show ports` for the interface's MTU and `ip -s link` for its drops. A veth drops packets that \
         exceed the MTU of its other end. Behind a passthrough port, give both ends the same MTU.";
    /// A part of the packet was in a batch that was lost between two routers whose wire multiplexes quanta.
    DfqBatchLost "dfq_batch_lost"
        "The link loses frames: see `ip -s link` at both ends. Only packets with bytes in a lost frame are dropped.";
    /// The frame is no message of a wire that multiplexes quanta, or not one of the router at the other end: it is damaged, late or from another
    /// session.
    DfqBadFrame "dfq_bad_frame"
        "Normal for a moment after one of both routers has restarted. Otherwise the link damages or reorders frames, or \
         another program uses Ethertype 0x88b5.";
    /// More packets of its protocol arrived for programs of the machine than `limits` of `[linux]` admits.
    PuntLimit "punt_limit"
        "A flood, or a limit too low for the programs: `switchpath show linux` has both, and `limits` of `[linux]` changes it.";
    /// The queue of packets for programs of the machine is full.
    PuntQueue "punt_queue"
        "The machine is overloaded: lower `limits` of `[linux]`, or give the router fewer cores.";
    /// The packet arrived for a tunnel with another key (RFC 2890 2.1), or without the key that the tunnel has.
    TunnelKey "tunnel_key"
        "Give both ends the same `key` in `[port.NAME.tunnel]`, or none.";
    /// The header of the tunnel is truncated, of another version, has a wrong checksum or flags that are obsolete (RFC 2784 2.3).
    TunnelHeader "tunnel_header"
        "The other end speaks another protocol, such as PPTP or RFC 1701, or the packet was damaged: see it with \
         `switchpath capture`.";
    /// The tunnel does not carry this protocol: only IPv4 and IPv6 pass.
    TunnelProtocol "tunnel_protocol"
        "The other end sends Ethernet frames (gretap) or another protocol: configure it to send IP packets.";
    /// A router marked the packet in the tunnel as having experienced congestion, but its sender does not support ECN (RFC 6040 4.2).
    TunnelEcn "tunnel_ecn"
        "The link between both ends is congested, and the drop is the only sign that the sender understands. If it \
         happens without congestion, a device on the way sets ECN bits wrongly.";
    /// The packet was encapsulated too often (RFC 2473 4.1): the route to the tunnel's other end leads into the tunnel, or through other tunnels back
    /// to it.
    TunnelLoop "tunnel_loop"
        "Add a route to the other end of the tunnel that does not use the tunnel: `switchpath explain` shows the present \
         one.";
    /// The queue between a tunnel and the interface that its packets arrive on is full.
    TunnelQueue "tunnel_queue"
        "The worker is overloaded: see `switchpath show workers`.";
    /// No slice has the address and UDP port that the packet is for, or the packet is not UDP.
    SlicePort "slice_port"
        "A meta-interface was removed, or the match of the path with the function `slice` has ports that no slice has: \
         see `switchpath slice list`.";
    /// The outer header of a slice's packet is wrong: a fragment, a wrong length or checksum.
    SliceHeader "slice_header"
        "A broken sender, or a link on the way whose MTU is too small: outer packets are not reassembled.";
    /// The code option of the slice found the packet malformed.
    SliceMalformed "slice_malformed"
        "Another node of the slice sends another format than the code option understands.";
    /// A filter of the slice or its code option drops the packet, or no filter matches and the slice drops such packets.
    SlicePolicy "slice_policy"
        "Intended by the slice: `switchpath slice stats` has its counters.";
    /// The code option of the slice failed on the packet: it accessed memory beyond that of the slice, or panicked.
    SliceFault "slice_fault"
        "An error of the code option: see `switchpath slice list`. After a panic, `switchpath slice resume` starts the slice again.";
    /// The slice is suspended, or its code option has just used up its steps on another packet.
    SliceSuspended "slice_suspended"
        "See the state in `switchpath slice list`, and `switchpath slice resume`.";
    /// The packet was for the slow path of its slice, whose limit is reached or whose queue is full.
    SliceException "slice_exception"
        "The slice gets more exceptions than its quota has, or its program does not receive them.";
    /// The route to the packet's next hop does not leave by the port of the slice's queue.
    SliceRoute "slice_route"
        "Give the slice a queue at the port of the route, or change the route: see `switchpath slice list`.";
    /// The egress port is down.
    PortDown "port_down"
        "Bring up the port's interface: see `switchpath show ports`, and `ip link set INTERFACE up`.";
    /// The egress port or the path was removed while the packet was queued.
    PortRemoved "port_removed"
        "A new configuration removed the port or path with packets queued. No action needed.";
    /// A fault was injected on purpose.
    InjectedFault "injected_fault"
        "Intended by `faults` of the port.";
    /// The worker stopped while it held the packet.
    Shutdown "shutdown"
        "Packets queued when the router stopped. No action needed.";
}

impl DropReason {
    /// The index of its counter.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason with this name.
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
    fn drop_reasons_have_unique_names_and_an_explanation() {
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
