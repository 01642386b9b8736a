//! Declarations of schemes, functions and port kinds: name, summary and options.
//!
//! Each is written once, beside the code it declares. The configuration parser, `--help`, the JSON schema and the reference page are generated from
//! it.

use crate::{Bytes, Nanos, Parts, Rate, UnitError};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The unit of an option; it decides how the text is parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A plain whole number.
    Count,
    /// A whole number greater than the value of the named option of the same declaration.
    CountAbove(&'static str),
    /// Bits per second, as `10mbit`.
    Rate,
    /// Nanoseconds, as `5ms`.
    Time,
    /// Bytes, as `1500b`.
    Size,
    /// Millionths of a whole, as `10%`.
    Part,
    /// One of these words; the value is its position in the list.
    Choice(&'static [&'static str]),
    /// Up to eight numbers from 1 to 255, as `1:2:4`. The value holds one in each byte, the lowest first, and zero for a missing one.
    Weights,
}

impl Unit {
    /// Reads an option's text: packets, bits per second, nanoseconds, bytes or millionths.
    pub fn read(self, text: &str) -> Result<u64, UnitError> {
        match self {
            Unit::Count | Unit::CountAbove(_) => text.trim().parse().map_err(|_| UnitError {
                reason: format!("'{text}' is no whole number"),
                hint: "write a number like '1000'".to_string(),
            }),
            Unit::Rate => text.parse().map(Rate::get),
            Unit::Time => text.parse().map(Nanos::get),
            Unit::Size => text.parse().map(Bytes::get),
            Unit::Part => text.parse().map(|part: Parts| part.get().into()),
            Unit::Weights => weights(text).ok_or_else(|| UnitError {
                reason: format!("'{text}' are no weights"),
                hint: "write one to eight numbers from 1 to 255, like '1:2:4'".to_string(),
            }),
            Unit::Choice(words) => {
                let place = words.iter().position(|word| *word == text.trim());
                place.map(|place| place as u64).ok_or_else(|| UnitError {
                    reason: format!("'{text}' is none of the choices"),
                    hint: format!("write one of {}", words.join(", ")),
                })
            }
        }
    }

    /// Writes a value in the form that [`Unit::read`] accepts.
    pub fn write(self, value: u64) -> String {
        match self {
            Unit::Count | Unit::CountAbove(_) => value.to_string(),
            Unit::Rate => Rate::bits(value).to_string(),
            Unit::Time => Nanos::new(value).to_string(),
            Unit::Size => Bytes::new(value).to_string(),
            Unit::Part => Parts::millionths(u32::try_from(value).unwrap_or(u32::MAX)).to_string(),
            Unit::Weights => {
                let weights: Vec<String> =
                    value.to_le_bytes().iter().filter(|weight| **weight > 0).map(ToString::to_string).collect();
                weights.join(":")
            }
            Unit::Choice(words) => match usize::try_from(value).ok().and_then(|place| words.get(place)) {
                Some(word) => word.to_string(),
                None => value.to_string(),
            },
        }
    }
}

/// Packs weights into one number.
fn weights(text: &str) -> Option<u64> {
    let mut bytes = [0; 8];
    let mut places = bytes.iter_mut();
    for weight in text.split(':') {
        *places.next()? = weight.trim().parse().ok().filter(|weight| *weight > 0)?;
    }
    Some(u64::from_le_bytes(bytes))
}

/// One option of a declaration.
#[derive(Clone, Copy, Debug)]
pub struct OptionDeclaration {
    /// As written in the configuration.
    pub name: &'static str,
    /// How its value is read.
    pub unit: Unit,
    /// The default value, as text.
    pub default: &'static str,
    /// The smallest accepted value.
    pub least: u64,
    /// The largest accepted value.
    pub most: u64,
    /// One sentence for the operator.
    pub doc: &'static str,
}

/// An option and its value.
pub type OptionValue = (&'static str, u64);

/// The cost of a packet in a function: a fixed part, and a part for each 1000 bytes.
#[derive(Clone, Copy, Debug)]
pub enum DeclaredCost {
    /// The declared part does not process packets.
    None,
    /// The cost is measured at run time. Until then these values are assumed.
    Measured {
        /// For any packet.
        packet: Nanos,
        /// For each 1000 bytes.
        kilobyte: Nanos,
    },
    /// It follows from the values of the options, for a packet and for each 1000 bytes.
    Declared(fn(&[OptionValue]) -> (Nanos, Nanos)),
}

/// A scheme that contains other schemes.
#[derive(Clone, Copy, Debug)]
pub struct OrderDeclaration {
    /// The declaration of the scheme itself.
    pub declaration: Declaration,
    /// The kinds of schemes it may contain.
    pub inner: Inside,
    /// The inner scheme if the configuration names none.
    pub usual: &'static str,
    /// The option that sets the number of its queues; none if the inner schemes determine it.
    pub queues: Option<&'static str>,
}

impl OrderDeclaration {
    /// True if it schedules a whole link: no scheme contains it.
    pub fn is_outermost(&self) -> bool {
        matches!(self.inner, Inside::Leaves | Inside::Flows)
    }
}

/// The kinds of schemes that a scheme may contain.
#[derive(Clone, Copy, Debug)]
pub enum Inside {
    /// One queue management for each of its queues.
    Manager,
    /// Any scheme.
    Any,
    /// Any scheme: a copy for each leaf of a tree. The scheme itself is always the outermost.
    Leaves,
    /// One queue management for each flow of a link. The scheme itself is always the outermost.
    Flows,
    /// A list of branches, with the most it may have; no two have the same `class`.
    Branches(&'static OrderDeclaration, usize),
}

/// One scheme, function or port kind.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// As written in the configuration.
    pub name: &'static str,
    /// One sentence for the operator.
    pub summary: &'static str,
    /// The RFC or paper it follows.
    pub source: &'static str,
    /// The cost of a packet in it.
    pub cost: DeclaredCost,
    /// Its options, in the order they are printed.
    pub options: &'static [OptionDeclaration],
}

#[cfg(test)]
mod tests {
    use super::*;
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    #[test]
    fn weights_are_read_as_they_are_written() {
        assert_eq!(Unit::Weights.read("1").unwrap(), 1);
        assert_eq!(Unit::Weights.read(" 1 : 2:255").unwrap(), 0x00ff_0201);
        assert_eq!(Unit::Weights.write(0x00ff_0201), "1:2:255");
        assert_eq!(Unit::Weights.read("1:2:3:4:5:6:7:8").map(|w| Unit::Weights.write(w)).unwrap(), "1:2:3:4:5:6:7:8");
        for wrong in ["", "0", "1:", ":1", "256", "1:2:3:4:5:6:7:8:9", "1,2"] {
            assert!(Unit::Weights.read(wrong).is_err(), "{wrong}");
        }
    }
}
