//! `xdp:` ports: a network interface of the kernel through AF_XDP sockets
//! (Documentation/networking/af_xdp.rst).
//!
//! The frames of the router's pool are the memory the kernel receives into and sends from, so a packet that goes from one
//! such port to another is copied by nobody but the kernel, and by nobody at all where the drivers can do without (see
//! [`Way`]). A program of six instructions ([`redirect`]) hands received frames to the sockets before the host's own stack
//! sees them; it belongs to a descriptor and goes with the process, however that ends.
//!
//! | file | what |
//! |---|---|
//! | `redirect` | the program and where it is attached |
//! | `ring` | the four rings of a socket |
//! | `lent` | which frames the kernel has |
//! | `socket` | one socket: one queue of an interface |
//! | `device` | an interface with its sockets, how it is taken and given back |
//! | `port` | some of the sockets as a port of the router |
//! | `interfaces` | the interfaces that the ports of a router have |
//! | `huge` | whether memory lies in huge pages, without which there is no zero-copy |

mod device;
mod huge;
mod interfaces;
mod lent;
mod port;
mod redirect;
mod ring;
mod socket;

pub use device::Way;
pub use interfaces::Interfaces;
pub use port::XdpPort;

use packet::pool::FRAME;
use plan::Checksums;

/// Ethernet header and one tag.
const LINK_HEADER: usize = 18;
/// The longest IP packet that fits a frame of the router's pool: the kernel is told of no larger memory.
pub(crate) const MOST_MTU: u16 = (FRAME - LINK_HEADER) as u16;

/// How a port is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XdpOptions {
    /// Entries of the rings of received frames, of frames to send, and of sent frames: a power of two.
    pub ring: usize,
    /// Frames that wait to be received into, at most; fewer where the pool is small.
    pub fill: usize,
    /// Have the driver run the program where it can.
    pub native: bool,
    /// Have the driver receive into the frames of the pool where it can.
    pub zero_copy: bool,
    /// What to make of checksums; without it, [`Checksums::Complete`] on interfaces that exist in this machine only.
    pub checksums: Option<Checksums>,
}

impl Default for XdpOptions {
    fn default() -> Self {
        XdpOptions { ring: 2048, fill: 4096, native: true, zero_copy: true, checksums: None }
    }
}
