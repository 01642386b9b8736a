//! A key of the configuration as a section declares it: the reader, the JSON schema and the reference page follow from it.

use crate::names::{WHOLE_INTERFACE, WHOLE_PORT};
use units::declare::Declaration;

/// A key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    /// As written in the file; empty where there is none.
    pub default: &'static str,
    /// A value as written in the file.
    pub example: &'static str,
    /// One sentence for the operator.
    pub doc: &'static str,
}

/// What belongs behind a key.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A whole number.
    Integer {
        least: u64,
        most: u64,
    },
    Boolean,
    /// A number from 0 to 1.
    Probability,
    /// A string.
    Text(Form),
    /// A string that says a quantity from `least` to `most`.
    Quantity {
        form: Form,
        least: &'static str,
        most: &'static str,
    },
    /// A list of strings, at most so many.
    Texts {
        form: Form,
        most: usize,
    },
    /// A string, or a list of them.
    OneOrMore(Form),
    /// A table.
    Table(&'static [Key]),
    /// Tables by name.
    Tables {
        name: &'static str,
        keys: &'static [Key],
    },
    /// A list of tables.
    List(&'static [Key]),
    /// True for a table of defaults, false for none, or the table.
    Switch(&'static [Key]),
    /// A list of so many whole numbers, of which none is higher than `highest`; empty where left out.
    Counts {
        least: usize,
        most: usize,
        highest: u64,
    },
}

/// What a string says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// One of these.
    Choice(&'static [&'static str]),
    /// A string that matches this regular expression of ECMA-262.
    Pattern(&'static str),
    /// A string that matches this regular expression, and is none of these.
    Except(&'static str, &'static [&'static str]),
    /// One of these with its options.
    Call(&'static [Declaration]),
    /// A device of the catalogue.
    Device,
    /// A queueing scheme of the catalogue.
    Scheme,
    /// A function of the catalogue.
    Function,
    /// A CPU scheduler of the catalogue.
    CpuScheduler,
}

// Forms of several sections. One that a single section has is declared there.
pub(crate) const FILE: Form = Form::Pattern("^.+$");
pub(crate) const MAC: Form = Form::Pattern("^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$");
pub(crate) const ADDRESS: Form = Form::Pattern("^[0-9a-fA-F.:]+$");
/// An address with a length.
pub(crate) const PREFIX: Form = Form::Pattern("^[0-9a-fA-F.:]+/[0-9]{1,3}$");
pub(crate) const INTERFACE: Form = Form::Pattern(WHOLE_INTERFACE);
/// A VRF or a policy: names like those of ports.
pub(crate) const NAME: Form = Form::Pattern(WHOLE_PORT);
pub(crate) const TIME: Form = Form::Pattern("^[0-9.]+ *[a-z]+$");
/// A time, or `none`.
pub(crate) const WAIT: Form = Form::Pattern("^(none| *[0-9.]+ *[a-z]+ *)$");
/// A part of a whole.
pub(crate) const PART: Form = Form::Pattern("^ *[0-9.]+ *(%|ppm)? *$");
pub(crate) const SIZE: Form = Form::Pattern("^ *[0-9.]+ *[kmgKMG]?[bB] *$");
pub(crate) const PACKET_RATE: Form = Form::Pattern("^ *[0-9.]+ *[kmKM]?[pP][pP][sS] *$");
/// Packets or bits a second.
pub(crate) const RESERVE: Form = Form::Pattern("^ *([0-9.]+ *[kmKM]?[pP][pP][sS]|[0-9.]+ *[kmgtKMGT]?[bB][iI][tT]) *$");

pub(crate) const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    doc: &'static str,
) -> Key {
    Key { name, kind, required: false, default, example, doc }
}

pub(crate) const fn required(name: &'static str, kind: Kind, example: &'static str, doc: &'static str) -> Key {
    Key { name, kind, required: true, default: "", example, doc }
}
