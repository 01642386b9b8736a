//! What is still to be done to a packet before it is fit for any link: cutting a super-frame, completing a checksum.
//!
//! The kernel's own terms (`struct virtio_net_hdr`: OASIS virtio 1.2, 5.1.6), so that ports pass them on unchanged.

/// By which rules a super-frame is cut into packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Segmentation {
    /// It is one packet.
    #[default]
    None = 0,
    /// TCP over IPv4.
    Tcp4 = 1,
    /// TCP over IPv6.
    Tcp6 = 2,
    /// UDP over either: each segment is a datagram of its own.
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

/// A checksum whose field holds the sum of the pseudo-header only, as senders leave it that expect a device to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartialChecksum {
    /// From where on, in bytes from the start of the frame, to its end the sum is still to be made.
    pub start: u16,
    /// Where the field is, in bytes from `start`; at most 255.
    pub offset: u16,
}

/// What is still to be done to a packet. By default nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// By which rules it is cut.
    pub segmentation: Segmentation,
    /// Bytes of transport payload in each segment but the last; zero where nothing is cut.
    pub size: u16,
    /// The checksum to complete.
    pub checksum: Option<PartialChecksum>,
}

impl Offload {
    /// Nothing is left to be done.
    pub const NONE: Offload = Offload { segmentation: Segmentation::None, size: 0, checksum: None };

    /// Whether it has to be cut before it is a packet of a link.
    #[inline]
    pub fn is_super_frame(&self) -> bool {
        self.segmentation != Segmentation::None
    }
}
