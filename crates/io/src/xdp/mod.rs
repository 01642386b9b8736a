//! `xdp:` ports: a kernel interface through AF_XDP sockets (Documentation/networking/af_xdp.rst).
//!
//! The kernel receives into and sends from the frames of the router's pool. A packet between two such ports is therefore copied only by the kernel,
//! or not at all if the drivers support zero-copy (see [`XdpMode`]). A program of six instructions ([`redirect`]) directs received frames to the
//! sockets before the host's stack sees them. It belongs to a descriptor and is removed with the process in any case.
//!
//! | file | contents |
//! |---|---|
//! | `redirect` | the program and its attachment |
//! | `ring` | the four rings of a socket |
//! | `lent_frames` | the frames lent to the kernel |
//! | `socket` | one socket: one queue of an interface |
//! | `device` | an interface with its sockets, opened and returned |
//! | `port` | some of the sockets as a port of the router |
//! | `interfaces` | the interfaces of the router's ports |
//! | `huge_pages` | the test for huge pages, without which there is no zero-copy |

mod device;
mod huge_pages;
mod interfaces;
mod lent_frames;
mod port;
mod redirect;
mod ring;
mod socket;

pub use device::XdpMode;
pub use interfaces::XdpInterfaces;
pub use port::XdpPort;

use packet::pool::FRAME;
use plan::Checksums;

/// Ethernet header and one tag.
const LINK_HEADER: usize = 18;
/// The longest IP packet that fits a frame of the router's pool: only the memory of these frames is registered with the kernel.
pub(crate) const MOST_MTU: u16 = (FRAME - LINK_HEADER) as u16;

/// Options for opening a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XdpOptions {
    /// Entries of the rings of received frames, of frames to send, and of sent frames: a power of two.
    pub ring: usize,
    /// The maximum of frames for receiving; fewer if the pool is small.
    pub fill: usize,
    /// Run the program in the driver if possible.
    pub native: bool,
    /// Let the driver receive into the pool's frames if possible.
    pub zero_copy: bool,
    /// The treatment of checksums; by default [`Checksums::Complete`] on virtual interfaces.
    pub checksums: Option<Checksums>,
}

impl Default for XdpOptions {
    fn default() -> Self {
        XdpOptions { ring: 2048, fill: 4096, native: true, zero_copy: true, checksums: None }
    }
}
