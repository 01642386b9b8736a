//! Capture files: reads pcap and pcapng, writes pcapng.
//!
//! The reader streams with a bounded buffer. A capture of any size and content therefore needs at most [`MAX_BLOCK`] of memory. Each read ends with a
//! record, the end of the file, or an error with its offset. The writer uses pcapng (draft-ietf-opsawg-pcapng), because only pcapng has a comment for
//! each packet.

mod error;
mod link;
mod port;
mod read;
mod window;
mod write;

pub use error::{Fault, ReadError};
pub use link::LinkType;
pub use port::{PcapOptions, PcapPort};
pub use read::Reader;
pub use write::{CaptureProgram, PcapSink, WriteError, Writer};

use units::{Instant, Mac};

/// The maximum size of a block or record in bytes. Frames have at most 64 KB here; the rest is for options.
pub const MAX_BLOCK: usize = 1 << 20;
/// The maximum number of interfaces of one section.
pub const MAX_INTERFACES: usize = 4096;

/// The direction of a packet at the interface (pcapng `epb_flags`, bits 0 and 1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PcapDirection {
    /// Not stated in the file.
    #[default]
    Unknown,
    /// Received.
    In,
    /// Sent.
    Out,
}

/// An interface of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PcapInterface {
    /// Its name (pcapng `if_name`); empty if the file has none, as always in pcap.
    pub name: String,
    /// Its link type.
    pub link: LinkType,
    /// The maximum captured bytes of a packet; zero for no limit.
    pub snap_length: u32,
    /// Its MAC address (pcapng `if_MACaddr`), if the file has it. It shows which frames were addressed to the interface.
    pub mac: Option<Mac>,
}

/// One packet of a capture, borrowed from the reader until the next read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcapRecord<'a> {
    /// Nanoseconds since 1970-01-01 UTC. Packets in pcapng simple packet blocks have the time of the packet before.
    pub time: Instant,
    /// Index into [`Reader::interfaces`].
    pub interface: u32,
    /// The link type of the frame.
    pub link: LinkType,
    /// The length on the wire in bytes; more than `data.len()` if the capture truncated the packet.
    pub original: u32,
    /// The captured bytes.
    pub data: &'a [u8],
    /// Its direction.
    pub direction: PcapDirection,
    /// Its comment (pcapng `opt_comment`, the first one); empty if it has none.
    pub comment: &'a str,
}
