//! Why a capture could not be read on.

use std::fmt;
use std::io;

/// What is wrong with a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The file itself could not be read.
    Io(io::Error),
    /// The first bytes are those of neither pcap nor pcapng.
    NotACapture,
    /// The file ends within a block or record.
    Truncated,
    /// A block or record says it is larger than is read here.
    TooLarge {
        /// What it claims, in bytes.
        claimed: u64,
        /// What is read at most, in bytes.
        limit: u64,
    },
    /// A block contradicts the format.
    Malformed(&'static str),
    /// A packet names an interface that its section has not described.
    UnknownInterface(u32),
}

/// A [`Fault`] and where it is.
#[derive(Debug)]
pub struct ReadError {
    /// Bytes from the start of the file to the block or record at fault.
    pub offset: u64,
    /// What is wrong.
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
                write!(f, "a record claims {claimed} bytes, more than the {limit} that are read")?
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
