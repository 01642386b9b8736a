//! Text forms of values: enumerations by the names of their members, quantities as in the configuration.

use serde::Serializer;
use std::fmt;
use units::Nanos;

/// Declares an enumeration whose members have names in the configuration.
macro_rules! named {
    ($($type:ident { $($member:ident $name:literal),* $(,)? })*) => {$(
        impl $type {
            /// All members, in the order of their declaration.
            pub const ALL: &'static [$type] = &[$($type::$member),*];
            /// Their names, in the order of [`Self::ALL`].
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// Its name in the configuration.
            pub const fn name(self) -> &'static str {
                match self { $($type::$member => $name),* }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl crate::table::Value for $type {
            fn read(
                report: &mut crate::diagnostic::Report<'_>,
                section: &crate::document::Section<'_>,
                name: &'static str,
            ) -> Option<Self> {
                section.choice(report, name, Self::ALL)
            }

            fn from_default(text: &'static str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == text)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}
pub(crate) use named;

pub(crate) fn as_text<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(crate) fn as_optional_text<T: fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

pub(crate) fn nanoseconds<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.get())
}
