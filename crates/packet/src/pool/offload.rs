//! Pending offloads of a packet: segmentation of a super-frame, completion of a checksum.
//!
//! The terms are the kernel's (`struct virtio_net_hdr`: OASIS virtio 1.2, 5.1.6), so that ports can pass them on unchanged.

/// The kind of segmentation of a super-frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Segmentation {
    /// Not a super-frame.
    #[default]
    None = 0,
    /// TCP over IPv4.
    Tcp4 = 1,
    /// TCP over IPv6.
    Tcp6 = 2,
    /// UDP over IPv4 or IPv6: each segment is a datagram.
    Udp = 3,
}

impl Segmentation {
    pub(super) const MASK: u8 = 3;

    #[inline]
    pub(super) fn of(code: u8) -> Segmentation {
        match code & Self::MASK {
            0 => Segmentation::None,
            1 => Segmentation::Tcp4,
            2 => Segmentation::Tcp6,
            _ => Segmentation::Udp,
        }
    }
}

/// A partial checksum: its field holds only the sum of the pseudo-header. Senders leave it so for a device to complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartialChecksum {
    /// The start of the bytes to sum, from the start of the frame. They extend to its end.
    pub start: u16,
    /// The offset of the checksum field, in bytes from `start`; at most 255.
    pub offset: u16,
}

/// The pending offload of a packet. None by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// The kind of segmentation.
    pub segmentation: Segmentation,
    /// Bytes of transport payload in each segment but the last; zero without segmentation.
    pub size: u16,
    /// The checksum to complete.
    pub checksum: Option<PartialChecksum>,
}

impl Offload {
    /// No pending offload.
    pub const NONE: Offload = Offload { segmentation: Segmentation::None, size: 0, checksum: None };

    /// True if it has to be segmented before it fits a link.
    #[inline]
    pub fn is_super_frame(&self) -> bool {
        self.segmentation != Segmentation::None
    }
}
