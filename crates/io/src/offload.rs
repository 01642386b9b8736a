//! Offloads of an interface, and its speed (ethtool(8)).
//!
//! Super-frames of up to 64 KB do not fit the frames of the pool, and partial checksums must be completed. The router therefore switches off the
//! offloads of interfaces that it owns, and a port switches off the joining of received frames (GRO, LRO) on its own interface.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use units::Rate;

/// One offload, with its two commands of <linux/ethtool.h>.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EthtoolOffload {
    /// Verifying checksums of received packets.
    ReceiveChecksum,
    /// Computing checksums of sent packets; segmentation depends on it.
    TransmitChecksum,
    /// Segmenting TCP super-frames in the interface (TSO).
    TcpSegmentation,
    /// Segmenting super-frames just before the interface (GSO).
    GenericSegmentation,
    /// Joining received frames to super-frames (GRO).
    GenericReceive,
    /// Joining received frames in the interface itself (LRO).
    LargeReceive,
    /// Removing 802.1Q tags from received frames and passing them as metadata.
    TagStripping,
}

impl EthtoolOffload {
    /// The offloads that produce frames no wire carries, in the order in which they can be switched off.
    pub const ALL: [EthtoolOffload; 6] = [
        EthtoolOffload::LargeReceive,
        EthtoolOffload::GenericReceive,
        EthtoolOffload::GenericSegmentation,
        EthtoolOffload::TcpSegmentation,
        EthtoolOffload::TransmitChecksum,
        EthtoolOffload::ReceiveChecksum,
    ];

    /// Its name as ethtool(8) prints it.
    pub const fn name(self) -> &'static str {
        match self {
            EthtoolOffload::ReceiveChecksum => "rx-checksumming",
            EthtoolOffload::TransmitChecksum => "tx-checksumming",
            EthtoolOffload::TcpSegmentation => "tcp-segmentation-offload",
            EthtoolOffload::GenericSegmentation => "generic-segmentation-offload",
            EthtoolOffload::GenericReceive => "generic-receive-offload",
            EthtoolOffload::LargeReceive => "large-receive-offload",
            EthtoolOffload::TagStripping => "rx-vlan-offload",
        }
    }

    const fn commands(self) -> (u32, u32) {
        match self {
            EthtoolOffload::ReceiveChecksum => (0x14, 0x15),
            EthtoolOffload::TransmitChecksum => (0x16, 0x17),
            EthtoolOffload::TcpSegmentation => (0x1e, 0x1f),
            EthtoolOffload::GenericSegmentation => (0x23, 0x24),
            EthtoolOffload::GenericReceive => (0x2b, 0x2c),
            EthtoolOffload::LargeReceive | EthtoolOffload::TagStripping => (0x25, 0x26),
        }
    }

    /// The bits of the command's value: some offloads are flags of one word (ETH_FLAG_LRO, ETH_FLAG_RXVLAN).
    const fn mask(self) -> u32 {
        match self {
            EthtoolOffload::LargeReceive => 1 << 15,
            EthtoolOffload::TagStripping => 1 << 8,
            _ => u32::MAX,
        }
    }
}

/// Queries and changes interfaces of the network namespace in which its socket was opened.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    /// For the network namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
        Ok(Ethtool { socket: socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)? })
    }

    /// True if an offload is on.
    pub fn is_on(&self, interface: &str, offload: EthtoolOffload) -> io::Result<bool> {
        let mut words = [offload.commands().0, 0];
        sys::ethtool(&self.socket, interface, &mut words)?;
        Ok(words[1] & offload.mask() != 0)
    }

    /// Switches an offload; needs CAP_NET_ADMIN. Returns true if that was a change. `EOPNOTSUPP` if it is fixed.
    pub fn switch(&self, interface: &str, offload: EthtoolOffload, on: bool) -> io::Result<bool> {
        let (get, set) = offload.commands();
        let mut words = [get, 0];
        sys::ethtool(&self.socket, interface, &mut words)?;
        if (words[1] & offload.mask() != 0) == on {
            return Ok(false);
        }
        // The value of a command for one offload is 0 or 1. The flags of a shared word keep their other bits.
        let bits = if offload.mask() == u32::MAX { 1 } else { offload.mask() };
        let value = if on { words[1] | bits } else { words[1] & !offload.mask() };
        sys::ethtool(&self.socket, interface, &mut [set, value])?;
        Ok(true)
    }

    /// Switches off all offloads. Unknown ones count as off.
    pub fn switch_all_off(&self, interface: &str) -> io::Result<()> {
        for offload in EthtoolOffload::ALL {
            match self.switch(interface, offload, false) {
                Err(error) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// True if the interface has a carrier (ETHTOOL_GLINK). With most drivers the kernel also reports a change of the carrier that it would report only up to a second
    /// later.
    pub fn has_carrier(&self, interface: &str) -> io::Result<bool> {
        let mut words = [0x0a, 0];
        sys::ethtool(&self.socket, interface, &mut words)?;
        Ok(words[1] != 0)
    }

    /// The name of the interface's driver.
    pub fn driver(&self, interface: &str) -> io::Result<String> {
        // struct ethtool_drvinfo: the name has 32 bytes after the command.
        let mut words = [0; 49];
        words[0] = 3;
        sys::ethtool(&self.socket, interface, &mut words)?;
        let bytes: Vec<u8> = words[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|b| *b != 0).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// True if the interface with this name still has this index and is operational.
    pub fn is_running(&self, interface: &str, index: u32) -> bool {
        sys::is_running(&self.socket, interface, index)
    }

    /// The index of the interface of that name.
    fn index(&self, interface: &str) -> Option<u32> {
        rustix::net::netdevice::name_to_index(&self.socket, interface).ok()
    }

    /// The MTU of the interface of that name, in bytes.
    pub fn mtu(&self, interface: &str) -> io::Result<u32> {
        sys::interface_mtu(&self.socket, interface)
    }

    /// The interface's reported speed. `None` if it reports none (no carrier, or no speed of its own).
    pub fn link_rate(&self, interface: &str) -> Option<Rate> {
        link_rate(&self.socket, interface)
    }
}

/// Offloads of an interface that were on, and are off as long as this value lives.
#[derive(Debug)]
pub struct DisabledOffloads {
    ethtool: Ethtool,
    interface: String,
    /// Its index: a new interface with the same name was not changed and is not restored.
    index: Option<u32>,
    offloads: Vec<EthtoolOffload>,
}

impl DisabledOffloads {
    /// Switches `offloads` off, in the network namespace of the calling thread. Unknown ones count as off. Needs CAP_NET_ADMIN if one is on.
    pub fn new(interface: &str, offloads: &[EthtoolOffload]) -> io::Result<Self> {
        let ethtool = Ethtool::open()?;
        let index = ethtool.index(interface);
        let mut off = DisabledOffloads { ethtool, interface: interface.to_owned(), index, offloads: Vec::new() };
        for &offload in offloads {
            match off.ethtool.switch(interface, offload, false) {
                Ok(true) => off.offloads.push(offload),
                Ok(false) => {}
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(off)
    }

    /// True if any of them was on.
    pub fn has_changed_any(&self) -> bool {
        !self.offloads.is_empty()
    }
}

impl Drop for DisabledOffloads {
    fn drop(&mut self) {
        if self.ethtool.index(&self.interface) != self.index {
            return;
        }
        for offload in &self.offloads {
            // The interface may be gone.
            let _ = self.ethtool.switch(&self.interface, *offload, true);
        }
    }
}

/// Like [`Ethtool::link_rate`], with any socket of the namespace.
pub(crate) fn link_rate(socket: impl AsFd, interface: &str) -> Option<Rate> {
    // struct ethtool_cmd: the speed in Mbit/s is the first half of word 3 and, its higher bits, of word 7.
    let mut words = [0; 11];
    words[0] = 1;
    sys::ethtool(socket, interface, &mut words).ok()?;
    let [[low, _], [high, _]] = [words[3], words[7]].map(|word| {
        let [a, b, c, d] = word.to_ne_bytes();
        [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])]
    });
    let mbits = u32::from(high) << 16 | u32::from(low);
    // An unknown speed is -1 (SPEED_UNKNOWN). Old drivers set only its lower half.
    (mbits != 0 && mbits != u32::MAX && mbits != 0xffff).then(|| Rate::mbit(mbits.into()))
}
