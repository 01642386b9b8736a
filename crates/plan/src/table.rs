//! Tables whose keys are the fields of their plan. [`table!`] declares both at once. The parser, the defaults, the output of `diff`, the schema and
//! the reference page follow from the declaration.

use crate::diagnostic::Report;
use crate::diff::{PropertyChange, edit, file, joined, or_none};
use crate::document::{Path, Section};
use crate::key::Key;
use std::fmt::Display;
use toml::de::DeTable;
use units::{Nanos, PacketRate, Parts};

/// A value of a key without further rules.
pub(crate) trait Value: Sized + Display {
    /// Parses the key. `None` if it is missing or was reported.
    fn read(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Option<Self>;

    /// Parses a default, without quotes. `None` if there is none.
    fn from_default(text: &'static str) -> Option<Self>;
}

/// A field that is parsed by its type alone.
pub(crate) trait Read: Sized {
    /// The value of a key; its default if it is missing or was reported.
    fn read_or_default(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Self;
}

impl<T: Value> Read for T {
    fn read_or_default(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> T {
        let read = section.node(name).and_then(|_| T::read(report, section, name));
        read.unwrap_or_else(|| T::from_default(section.default(name)).expect("the key has a default"))
    }
}

impl<T: Value> Read for Option<T> {
    fn read_or_default(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Option<T> {
        section.node(name).and_then(|_| T::read(report, section, name))
    }
}

/// A field as `diff` prints it.
pub(crate) trait ValueText {
    fn value_text(&self) -> String;
}

impl<T: Value> ValueText for T {
    fn value_text(&self) -> String {
        self.to_string()
    }
}

impl<T: Value> ValueText for Option<T> {
    fn value_text(&self) -> String {
        or_none(self)
    }
}

impl<T: Display> ValueText for Vec<T> {
    fn value_text(&self) -> String {
        joined(self)
    }
}

impl ValueText for String {
    fn value_text(&self) -> String {
        self.clone()
    }
}

impl ValueText for Option<String> {
    fn value_text(&self) -> String {
        file(self)
    }
}

/// The plan of an empty table: all defaults.
pub(crate) fn defaults<P>(keys: &'static [Key], read: impl FnOnce(&mut Report<'_>, &Section<'_>) -> P) -> P {
    let (nothing, mut report) = (DeTable::new(), Report::new("", ""));
    let section = Section::open(&mut report, &nothing, 0..0, Path::Root(&[]), keys);
    read(&mut report, &section)
}

/// The edits between the fields of two plans.
pub(crate) fn edits(old: &[(&'static str, String)], new: &[(&'static str, String)]) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    old.iter().zip(new).for_each(|((name, old), (_, new))| edit(&mut what, name, old, new));
    what
}

/// The fields as one line: `period 10ms least 2%`.
pub(crate) fn text(fields: &[(&'static str, String)]) -> String {
    fields.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(" ")
}

macro_rules! values {
    ($($type:ty),*: |$report:ident, $section:ident, $name:ident| $read:expr) => {$(
        impl Value for $type {
            fn read($report: &mut Report<'_>, $section: &Section<'_>, $name: &'static str) -> Option<$type> {
                $read
            }

            fn from_default(text: &'static str) -> Option<$type> {
                text.parse().ok()
            }
        }
    )*};
}

// The declared range of a number fits its type.
values! { u8, u16, u32, u64: |report, section, name| section.integer(report, name).map(|number| number as _) }
values! { bool: |report, section, name| Some(section.boolean(report, name)) }
values! { Nanos, Parts, PacketRate: |report, section, name| section.quantity(report, name) }

/// Declares a plan and, for each field, its key: kind, default, example and description. The key's name is that of the field, or the one after `as`.
/// A function after `by` parses a field that its type alone cannot.
macro_rules! table {
    (
        $(#[$meta:meta])*
        pub struct $plan:ident, $keys_vis:vis $keys:ident {
            $(
                $(#[$field_meta:meta])*
                pub $field:ident $(as $name:literal)?: $type:ty =
                    ($kind:expr, $default:expr, $example:expr, $doc:expr $(,)?) $(by $read:expr)?;
            )*
        }
    ) => {
        $(#[$meta])*
        pub struct $plan {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        $keys_vis const $keys: &[crate::key::Key] =
            &[$(crate::key::key(table!(@name $field $($name)?), $kind, $default, $example, $doc)),*];

        impl $plan {
            /// Parses the table.
            fn read(report: &mut Report<'_>, section: &Section<'_>) -> $plan {
                $plan { $($field: table!(@read report, section, table!(@name $field $($name)?) $(, $read)?),)* }
            }

            /// Its keys with their values.
            fn fields(&self) -> Vec<(&'static str, String)> {
                use crate::table::ValueText as _;
                vec![$((table!(@name $field $($name)?), self.$field.value_text())),*]
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@read $report:ident, $section:ident, $name:expr) => {
        crate::table::Read::read_or_default($report, $section, $name)
    };
    (@read $report:ident, $section:ident, $name:expr, $read:expr) => { ($read)(&mut *$report, $section) };
}
pub(crate) use table;
