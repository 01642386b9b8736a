//! Errors of reading a capture.

use std::fmt;
use std::io;

/// The kind of error in a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The file itself could not be read.
    Io(io::Error),
    /// The first bytes are neither pcap nor pcapng.
    NotACapture,
    /// The file ends within a block or record.
    Truncated,
    /// A block or record is larger than the limit.
    TooLarge {
        /// Its stated length in bytes.
        claimed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A block contradicts the format.
    Malformed(&'static str),
    /// A packet names an undescribed interface of its section.
    UnknownInterface(u32),
}

/// A [`Fault`] and its position.
#[derive(Debug)]
pub struct ReadError {
    /// Offset of the faulty block or record in the file, in bytes.
    pub offset: u64,
    /// The kind of error.
    pub fault: Fault,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Fault::Io(error) => write!(f, "reading failed: {error}")?,
            Fault::NotACapture => write!(f, "this is neither pcap nor pcapng")?,
            Fault::Truncated => {
                write!(f, "the file ends within a record: it was cut short while being written or copied")?
            }
            Fault::TooLarge { claimed, limit } => {
                write!(f, "a record claims {claimed} bytes, more than the limit of {limit}")?
            }
            Fault::Malformed(what) => write!(f, "{what}")?,
            Fault::UnknownInterface(id) => {
                write!(f, "a packet names interface {id}, which the file does not describe")?
            }
        }
        write!(f, " (at byte {})", self.offset)
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::Io(error) => Some(error),
            _ => None,
        }
    }
}
