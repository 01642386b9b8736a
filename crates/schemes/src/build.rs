//! From a scheme's declared name and options to the scheme.

use crate::{Fifo, Priority, Scheme, Wires};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;
use units::Bytes;
use units::declare::Declaration;

/// Every scheme there is.
pub const DECLARATIONS: &[Declaration] = &[Fifo::DECLARATION, Priority::DECLARATION];

/// Every option of a scheme with its value, in the order of the declaration, checked against it.
pub type Options<'a> = &'a [(&'static str, u64)];

/// A name no scheme has, or an option the scheme lacks: the configuration was not checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown(String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no queueing scheme or option '{}'", self.0)
    }
}

impl core::error::Error for Unknown {}

/// The scheme called `name`, with `options`.
pub fn build<W: Wires>(name: &str, options: Options<'_>) -> Result<Box<dyn Scheme<W>>, Unknown> {
    let value = |wanted: &str| {
        options.iter().find(|(name, _)| *name == wanted).map(|&(_, v)| v).ok_or_else(|| Unknown(wanted.to_string()))
    };
    let packets = |wanted: &str| value(wanted).map(|packets| u32::try_from(packets).unwrap_or(u32::MAX));
    match name {
        "fifo" => Ok(Box::new(Fifo::new(packets("limit")?, Bytes::new(value("bytes")?)))),
        "priority" => {
            let levels = u16::try_from(value("levels")?).unwrap_or(u16::MAX);
            Ok(Box::new(Priority::new(levels, packets("limit")?, Bytes::new(value("bytes")?))))
        }
        other => Err(Unknown(other.to_string())),
    }
}
