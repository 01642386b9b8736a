//! The kinds of port.

/// The kinds of port available to a configuration. All but `memory` and the tunnels are opened by crate `io`.
pub const DECLARATIONS: &[units::declare::Declaration] = &[
    units::declare::Declaration {
        name: "memory",
        summary: "a wire in memory: two ports of the same name are its ends",
        cost: units::declare::DeclaredCost::None,
        source: "",
        options: &[],
    },
    units::declare::Declaration {
        name: "pcap",
        summary: "a capture file replayed, and one written",
        cost: units::declare::DeclaredCost::None,
        source: "draft-ietf-opsawg-pcapng",
        options: &[],
    },
    units::declare::Declaration {
        name: "memif",
        summary: "another process of this machine, over shared memory: `memif:listen:PATH` at one end, \
                  `memif:connect:PATH` at the other",
        cost: units::declare::DeclaredCost::None,
        source: "memif version 2, as VPP and DPDK speak it",
        options: &[],
    },
    units::declare::Declaration {
        name: "packet",
        summary: "a network interface of the kernel, by AF_PACKET rings",
        cost: units::declare::DeclaredCost::None,
        source: "packet(7)",
        options: &[],
    },
    units::declare::Declaration {
        name: "xdp",
        summary: "a network interface of the kernel, by AF_XDP sockets",
        cost: units::declare::DeclaredCost::None,
        source: "Documentation/networking/af_xdp.rst",
        options: &[],
    },
    units::declare::Declaration {
        name: "gre",
        summary: "a GRE tunnel to the address behind the colon, with `[port.NAME.tunnel]`",
        cost: units::declare::DeclaredCost::None,
        source: "RFC 2784, RFC 2890",
        options: &[],
    },
    units::declare::Declaration {
        name: "ipip",
        summary: "a tunnel of IP in IP to the address behind the colon, with `[port.NAME.tunnel]`",
        cost: units::declare::DeclaredCost::None,
        source: "RFC 2003, RFC 4213, RFC 2473",
        options: &[],
    },
    units::declare::Declaration {
        name: "vxlan",
        summary: "an Ethernet segment of the network identifier behind the colon in UDP, with `[port.NAME.tunnel]`",
        cost: units::declare::DeclaredCost::None,
        source: "RFC 7348",
        options: &[],
    },
    units::declare::Declaration {
        name: "tap",
        summary: "a virtual cable to the kernel of the machine, whose end is a network interface",
        cost: units::declare::DeclaredCost::None,
        source: "Documentation/networking/tuntap.rst of Linux",
        options: &[],
    },
];
