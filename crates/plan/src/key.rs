//! A key of the configuration as a section declares it. The parser, the JSON schema and the reference page follow from it.

use crate::names::{WHOLE_INTERFACE, WHOLE_PORT};
use units::declare::Declaration;

/// A key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    /// As written in the file; empty without a default.
    pub default: &'static str,
    /// A value as written in the file.
    pub example: &'static str,
    /// One sentence for the operator. It becomes part of the reference page and of the schema.
    pub doc: &'static str,
}

/// The type of a key's value.
#[derive(Debug)]
pub(crate) enum Kind {
    /// An integer.
    Integer {
        least: u64,
        most: u64,
    },
    Boolean,
    /// A number from 0 to 1.
    Probability,
    /// A string.
    Text(Form),
    /// A string with a quantity from `least` to `most`.
    Quantity {
        form: Form,
        least: &'static str,
        most: &'static str,
    },
    /// A list of strings, with a limit.
    Texts {
        form: Form,
        most: usize,
    },
    /// A list of strings, with a limit, or the table.
    TextsOrTable {
        form: Form,
        most: usize,
        keys: &'static [Key],
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
    /// `true` for a table of defaults, `false` for no table, or the table.
    Switch(&'static [Key]),
    /// A list of at most `most` integers up to `highest`; empty if it is not set.
    Counts {
        least: usize,
        most: usize,
        highest: u64,
    },
}

/// The syntax of a string.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// One of these.
    Choice(&'static [&'static str]),
    /// A string that matches this ECMA-262 regular expression.
    Pattern(&'static str),
    /// A string that matches this regular expression, except for these.
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

// Forms that several sections use. A form of a single section is declared there.
pub(crate) const FILE: Form = Form::Pattern("^.+$");
pub(crate) const MAC: Form = Form::Pattern("^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$");
pub(crate) const ADDRESS: Form = Form::Pattern("^[0-9a-fA-F.:]+$");
/// An address with a prefix length.
pub(crate) const PREFIX: Form = Form::Pattern("^[0-9a-fA-F.:]+/[0-9]{1,3}$");
pub(crate) const INTERFACE: Form = Form::Pattern(WHOLE_INTERFACE);
/// A VRF or a policy: names like those of ports.
pub(crate) const NAME: Form = Form::Pattern(WHOLE_PORT);
pub(crate) const TIME: Form = Form::Pattern("^[0-9.]+ *[a-z]+$");
/// A time, or `none`.
pub(crate) const WAIT: Form = Form::Pattern("^(none| *[0-9.]+ *[a-z]+ *)$");
/// A fraction.
pub(crate) const PART: Form = Form::Pattern("^ *[0-9.]+ *(%|ppm)? *$");
pub(crate) const SIZE: Form = Form::Pattern("^ *[0-9.]+ *[kmgKMG]?[bB] *$");
pub(crate) const PACKET_RATE: Form = Form::Pattern("^ *[0-9.]+ *[kmKM]?[pP][pP][sS] *$");
/// Packets or bits a second.
pub(crate) const RESERVE: Form = Form::Pattern("^ *([0-9.]+ *[kmKM]?[pP][pP][sS]|[0-9.]+ *[kmgtKMGT]?[bB][iI][tT]) *$");

/// Keys with a new name: their table, the old name, and the name to write instead.
const RENAMED: &[(&str, &str, &str)] = &[
    ("cpu", "harvest", "work_conserving"),
    ("nat", "anybody", "endpoint_independent_filtering"),
    ("path", "delay", "max_delay"),
    ("path", "limit", "cpu_limit"),
    ("path", "packet", "packet_size"),
    ("path", "share", "cpu_share"),
    ("router", "spin", "busy_poll"),
];

/// The present name of a key that `table` had under the name `old`.
pub(crate) fn new_name(table: &str, old: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(of, name, _)| (*of, *name) == (table, old)).map(|(_, _, new)| *new)
}

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
