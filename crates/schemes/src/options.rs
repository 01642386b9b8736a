//! The values of a scheme's options from the configuration, checked against its declaration.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use units::declare::{OptionDeclaration, Unit};
use units::{Bytes, Nanos, Parts, QueueId};

/// Every option of a scheme with its value, in the order of the declaration.
pub type OptionValues<'a> = &'a [(&'static str, u64)];

/// The name of a scheme with its options, and the schemes inside.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layer<'a> {
    /// The declared name.
    pub name: &'a str,
    /// All of its options.
    pub options: OptionValues<'a>,
    /// The schemes inside; none for a scheme that manages a single queue.
    pub inside: Vec<Layer<'a>>,
}

/// Why a scheme cannot be built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// An unknown scheme, or an option that the scheme lacks: the configuration was not checked.
    Unknown(String),
    /// The scheme has more queues than a link supports.
    TooManyQueues,
    /// A guest that does not start, with the reason.
    Guest(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Unknown(name) => write!(f, "there is no queueing scheme or option '{name}'"),
            BuildError::Guest(why) => f.write_str(why),
            BuildError::TooManyQueues => {
                write!(f, "all its queues together are more than the {} that a link has at most", QueueId::MOST)
            }
        }
    }
}

impl core::error::Error for BuildError {}

/// An option that is off or on.
pub(crate) const fn switch(name: &'static str, default: &'static str, doc: &'static str) -> OptionDeclaration {
    OptionDeclaration { name, unit: Unit::Choice(&["off", "on"]), default, least: 0, most: 1, doc }
}

/// Options by name.
pub(crate) struct Values<'a>(pub OptionValues<'a>);

impl Values<'_> {
    pub fn value(&self, wanted: &str) -> Result<u64, BuildError> {
        let found = self.0.iter().find(|(name, _)| *name == wanted);
        found.map(|&(_, value)| value).ok_or_else(|| BuildError::Unknown(wanted.to_string()))
    }

    /// A number, for example of packets.
    pub fn count(&self, name: &str) -> Result<u32, BuildError> {
        // The declared bounds of counts are below 2^32: only an unchecked value saturates.
        Ok(u32::try_from(self.value(name)?).unwrap_or(u32::MAX))
    }

    pub fn bytes(&self, name: &str) -> Result<Bytes, BuildError> {
        self.value(name).map(Bytes::new)
    }

    pub fn time(&self, name: &str) -> Result<Nanos, BuildError> {
        self.value(name).map(Nanos::new)
    }

    pub fn part(&self, name: &str) -> Result<Parts, BuildError> {
        self.count(name).map(Parts::millionths)
    }

    /// The variant of the chosen word. `all` is in the order of the words.
    pub fn choice<T: Copy>(&self, name: &str, all: &[T]) -> Result<T, BuildError> {
        // A choice is stored as the index of its word.
        let place = self.value(name)?;
        let chosen = usize::try_from(place).ok().and_then(|place| all.get(place));
        chosen.copied().ok_or_else(|| BuildError::Unknown(name.to_string()))
    }

    /// The value of a [`switch`].
    pub fn is_on(&self, name: &str) -> Result<bool, BuildError> {
        self.choice(name, &[false, true])
    }
}
