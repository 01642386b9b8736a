//! Why a router drops a packet: one enum, and so one name in the command line, the metrics, the captures and the logs.

mod hint;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal;)*) => {
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

            /// One sentence for the operator, with its source.
            pub const fn explanation(self) -> &'static str {
                match self { $(DropReason::$variant => concat!($($doc),+),)* }
            }
        }
    };
}

reasons! {
    /// The frame is shorter than an Ethernet header.
    FrameTooShort "frame_too_short";
    /// The frame is longer than any frame of the pool, or than the port could hand over whole: a super-frame, if its sender's
    /// segmentation offload is on (`ethtool -K INTERFACE tso off gso off` there).
    FrameTooLong "frame_too_long";
    /// The frame needs a super-frame, and all of the pool are in use (`super_frames` of `[router]`).
    NoSuperFrame "no_super_frame";
    /// What the sender says is left to do to the frame, segmentation or a checksum, does not fit the frame, or is not done
    /// here (OASIS virtio 1.2, 5.1.6).
    BadOffload "bad_offload";
    /// The frame is for another station of the segment.
    OtherStation "other_station";
    /// No interface of the port has the VLAN of the frame.
    UnknownVlan "unknown_vlan";
    /// The frame has two VLAN tags, or one in another form than 802.1Q.
    VlanStacked "vlan_stacked";
    /// The router does not speak the protocol the frame carries.
    UnknownEthertype "unknown_ethertype";
    /// The interface has no address of this IP version, so it does not route it.
    FamilyDisabled "family_disabled";
    /// The IP header is cut short (RFC 1812 5.2.2, RFC 8200 3).
    HeaderTruncated "header_truncated";
    /// The version field disagrees with the frame (RFC 1812 5.2.2).
    WrongVersion "wrong_version";
    /// The header length is below five words (RFC 1812 5.2.2).
    HeaderLength "header_length";
    /// The total length is shorter than the header, or longer than the frame (RFC 1812 5.2.2, RFC 8200 4.5).
    TotalLength "total_length";
    /// The IPv4 header checksum is wrong (RFC 1812 5.2.2).
    HeaderChecksum "header_checksum";
    /// An IP option or extension header is malformed (RFC 1812 4.2.2.6, RFC 8200 4.2).
    BadOption "bad_option";
    /// Source routing is not done (RFC 7126 4.3, RFC 5095).
    SourceRoute "source_route";
    /// The source address cannot be that of a sender (RFC 1812 5.3.7, RFC 4291 2.5).
    MartianSource "martian_source";
    /// The destination address cannot be forwarded to (RFC 1812 5.3.7, RFC 4291 2.5).
    MartianDestination "martian_destination";
    /// A unicast packet came in a link-layer broadcast (RFC 1812 5.3.4).
    LinkBroadcast "link_broadcast";
    /// A directed or limited broadcast is not forwarded (RFC 2644).
    Broadcast "broadcast";
    /// No `[[multicast]]` says where packets to this group go, and the router is no member of it.
    Multicast "multicast";
    /// The route to its source leads to another interface or does not exist, and `reverse_path` of the interface checks that
    /// (RFC 3704). Or packets to its group come in by another interface (RFC 7761 4.2).
    ReversePath "reverse_path";
    /// A link-local address may not leave its link (RFC 4291 2.5.6, RFC 3927 2.7).
    LinkLocal "link_local";
    /// The time to live or hop limit ran out (RFC 1812 5.3.1, RFC 8200 3).
    TtlExpired "ttl_expired";
    /// No route leads to the destination (RFC 1812 5.2.7.1).
    NoRoute "no_route";
    /// A blackhole route says to drop it without a word.
    Blackhole "blackhole";
    /// An unreachable route says to drop it and tell the sender.
    Unreachable "unreachable";
    /// It is larger than the next link takes and must not be fragmented (RFC 1812 4.2.2.7, RFC 8200 5).
    TooBig "too_big";
    /// Too many packets wait for this neighbour's link address (RFC 1812 3.3.2, RFC 4861 7.2.2).
    NeighbourQueue "neighbour_queue";
    /// The neighbour did not answer (RFC 1812 5.2.7.1, RFC 4861 7.2.2).
    NeighbourFailed "neighbour_failed";
    /// The neighbour table is full: an address scan, or a limit set too low (RFC 6583).
    NeighbourTable "neighbour_table";
    /// The ARP packet is malformed, or claims one of the router's own addresses (RFC 826, RFC 5227).
    BadArp "bad_arp";
    /// The neighbour discovery message is invalid (RFC 4861 6.1, 7.1, 8.1).
    BadNeighbourDiscovery "bad_neighbour_discovery";
    /// More neighbour messages came than the router takes a second.
    NeighbourFlood "neighbour_flood";
    /// The ICMP message is malformed or its checksum is wrong (RFC 792, RFC 4443 2.4).
    BadIcmp "bad_icmp";
    /// It is for the router itself, which does not speak this protocol (RFC 1122 3.2.2.1, RFC 4443 3.4).
    LocalProtocol "local_protocol";
    /// It is for the router itself, which has nothing on this port (RFC 1122 4.1.3.1).
    LocalPort "local_port";
    /// A fragment for the router itself, or to be translated, that can be part of no packet (RFC 791 3.2, RFC 8200 4.5).
    BadFragment "bad_fragment";
    /// A fragment for the router itself that another of its packet overlaps or contradicts, or repeats (RFC 5722 4, RFC 8200 4.5).
    FragmentOverlap "fragment_overlap";
    /// A fragment for the router itself whose packet was not whole in time (RFC 1122 3.3.2, RFC 8200 4.5).
    FragmentTimeout "fragment_timeout";
    /// Too many fragments for the router itself wait for the rest of their packets, or too many to be translated for the first (RFC 8900 3.7).
    FragmentLimit "fragment_limit";
    /// It is for an address of the router's that another station has as well (RFC 4862 5.4.5).
    DuplicateAddress "duplicate_address";
    /// The input queue of its path is full.
    PathQueue "path_queue";
    /// Its path's functions took longer than the path's limit.
    CpuLimit "cpu_limit";
    /// A function of its path panicked, did not return while a new configuration waited for it, or found nobody to run it:
    /// too many of those before it have not returned.
    FunctionFailed "function_failed";
    /// Functions sent it back to be classified too often.
    Rounds "rounds";
    /// There are as many translated connections as there may be (RFC 4787 is silent, RFC 6888 REQ-4 asks for a bound).
    NatTable "nat_table";
    /// No port was found free for a new translated connection (RFC 4787 REQ-3).
    NatPorts "nat_ports";
    /// The host inside has begun as many translated connections as one may (RFC 6888 REQ-4).
    NatHost "nat_host_limit";
    /// It cannot be translated: its protocol has no ports, or its header is cut short (RFC 1858).
    NatUnsupported "nat_unsupported";
    /// A fragment without ports, and the first of its packet did not come within two seconds (RFC 4787 REQ-14).
    NatFragment "nat_fragment";
    /// It is about a connection that is not known (RFC 5508 REQ-4).
    NatUnknown "nat_unknown";
    /// A rule of its path's packet filter drops it.
    Filtered "filtered";
    /// A rule of its path's packet filter drops it and tells its sender (RFC 1812 5.2.7.1).
    Rejected "rejected";
    /// The instruction it carries says that it ends here.
    Instruction "instruction";
    /// The instruction it carries could not be executed, and the configuration says to drop it (`on_abort` of `[state]`).
    InstructionAborted "instruction_aborted";
    /// The output queue of the router's own packets is full.
    OutputQueue "output_queue";
    /// Too many packets wait for the worker it belongs to.
    HandOverFull "hand_over_full";
    /// The worker it belongs to has failed.
    WorkerFailed "worker_failed";
    /// The queueing scheme refused it when it arrived.
    SchemeArrival "scheme_arrival";
    /// The queueing scheme dropped it from the front of its queue.
    SchemeFront "scheme_front";
    /// The queueing scheme dropped it from the tail of its queue.
    SchemeTail "scheme_tail";
    /// It waited at a queueing scheme that was replaced.
    SchemeFlush "scheme_flush";
    /// The physical queue of the link is full.
    BufferFull "buffer_full";
    /// No frame was left in the pool.
    PoolEmpty "pool_empty";
    /// It was lost on an emulated link, as its description says.
    LinkLoss "link_loss";
    /// The interface it should leave by refused it: it is longer than the interface accepts, or the interface had no room for
    /// it for too long.
    DeviceRefused "device_refused";
    /// The port it should leave by is down.
    PortDown "port_down";
    /// The port it should leave by, or its path, was removed while it waited.
    PortRemoved "port_removed";
    /// A fault injected on purpose.
    InjectedFault "injected_fault";
    /// The worker stopped while it held the packet.
    Shutdown "shutdown";
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
