//! Capture files: pcap and pcapng in, pcapng out.
//!
//! Reading is streaming with a bounded buffer, so that a capture of any size and any content costs at most
//! [`MAX_BLOCK`] of memory and ends with a record, the end, or an error with its offset. Writing is pcapng
//! (draft-ietf-opsawg-pcapng) because only that carries a comment with each packet.

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
pub use write::{Application, Sink, WriteError, Writer};

use units::{Instant, Mac};

/// The largest block or record that is read, in bytes. Frames are at most 64 KB here; the rest is room for options.
pub const MAX_BLOCK: usize = 1 << 20;
/// The most interfaces one section may describe.
pub const MAX_INTERFACES: usize = 4096;

/// Which way a packet passed the interface (pcapng `epb_flags`, bits 0 and 1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Direction {
    /// The file does not say.
    #[default]
    Unknown,
    /// Received.
    In,
    /// Sent.
    Out,
}

/// An interface of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name (pcapng `if_name`); empty where the file gives none, as pcap never does.
    pub name: String,
    /// How its frames start.
    pub link: LinkType,
    /// The most bytes of a packet that were captured; zero for no limit.
    pub snap_length: u32,
    /// Its station address (pcapng `if_MACaddr`); nothing where the file gives none. With it a reader knows which frames were for
    /// the interface itself.
    pub station: Option<Mac>,
}

/// One packet of a capture, borrowed from the reader until the next one is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Nanoseconds since 1970-01-01 UTC. Packets of a pcapng simple packet block carry the time of the one before.
    pub time: Instant,
    /// Index into [`Reader::interfaces`].
    pub interface: u32,
    /// How the frame starts.
    pub link: LinkType,
    /// The length on the wire in bytes; more than `data.len()` where the capture cut it.
    pub original: u32,
    /// The bytes that were captured.
    pub data: &'a [u8],
    /// Which way it passed.
    pub direction: Direction,
    /// Its comment (pcapng `opt_comment`, the first one); empty where there is none.
    pub comment: &'a str,
}
