//! The keys of `[state]`, and what ports say of it.

use super::{Form, Key, Kind, key, required};
use crate::state::{Cleaning, Instruction, MOST_ENTRIES, MOST_QUEUES, OnAbort, Overload, Places, Variable, WhenFull};

const ENTRIES: Kind = Kind::Integer { least: 1, most: MOST_ENTRIES };

pub(crate) const STATE: &[Key] = &[
    key(
        "lifetime",
        Kind::Text(Form::Time),
        "\"10s\"",
        "\"10s\"",
        "How long each entry lives, 1ms to 1800s: from its creation, whatever is done to it.",
    ),
    key(
        "capacity",
        ENTRIES,
        "65536",
        "2000000",
        "Entries of each port's store. A store of two entries for each packet that the line brings in a lifetime never \
         overflows: `switchpath state size`.",
    ),
    key(
        "central",
        Kind::Integer { least: 0, most: MOST_ENTRIES },
        "65536",
        "0",
        "Entries of the central store; with 0 nothing is executed in the middle.",
    ),
    key(
        "strict",
        Kind::Boolean,
        "false",
        "true",
        "Whether a port that could overflow its store, by its `line_rate` or else its device's, is an error, not a warning.",
    ),
    key(
        "full",
        Kind::Text(Form::Choice(WhenFull::NAMES)),
        "\"abort_creates\"",
        "\"abort_all\"",
        "What a full store does: `abort_creates` aborts instructions that would create an entry, `abort_all` every one.",
    ),
    key(
        "on_abort",
        Kind::Text(Form::Choice(OnAbort::NAMES)),
        "\"forward\"",
        "\"drop\"",
        "What becomes of packets whose instruction cannot be executed: `forward` lets them go on with their error bit set, \
         `drop` drops them.",
    ),
    key(
        "overload",
        Kind::Text(Form::Choice(Overload::NAMES)),
        "\"execute\"",
        "\"pass\"",
        "What becomes of instructions where more packets come than a worker keeps up with: `execute` executes them, and what \
         finds no room is dropped, with an instruction or without; `pass` lets packets pass unexecuted until the worker has \
         caught up.",
    ),
    key(
        "cleaner",
        Kind::Text(Form::Choice(Cleaning::NAMES)),
        "\"inline\"",
        "\"assist\"",
        "Who takes away what has expired: `inline` the worker that owns the part, with each batch; `assist` the first worker, \
         beside its other work; `dedicated` a thread of its own.",
    ),
    key(
        "shards",
        Kind::Integer { least: 1, most: 64 },
        "",
        "1",
        "Parts that each store is divided into, each with a worker of its own that executes all instructions on it; by default as many \
         as there are workers. A part that is full is full, whatever room the others have: fewer waste less, and leave more to do to \
         fewer workers.",
    ),
    key(
        "queues",
        Kind::Integer { least: 1, most: MOST_QUEUES },
        "1",
        "4",
        "Queues that packets wait in on their way from the worker that received them to the one that their computation belongs to, each with \
         its part of the room for 1024 that each two workers have. A computation is in one of them, so what is too much of it takes no room \
         from those in others; nor does it find any but that of its own.",
    ),
    key(
        "batch",
        Kind::Integer { least: 1, most: 64 },
        "32",
        "1",
        "Packets whose entries are fetched from memory together.",
    ),
    key(
        "protocol",
        Kind::Integer { least: 143, most: 254 },
        "253",
        "254",
        "The protocol of IPv4 and IPv6 that carries instructions: 253 and 254 are for experiments (RFC 3692), 143 to 252 are \
         not assigned.",
    ),
    key(
        "udp_port",
        Kind::Integer { least: 0, most: 65_535 },
        "5937",
        "0",
        "The UDP port that carries instructions; 0 for none.",
    ),
    key(
        "ip_option",
        Kind::Integer { least: 0, most: 255 },
        "158",
        "0",
        "The type of the IPv4 option that carries instructions along with other packets; 0 for none. 30, 94, 158 and 222 are for \
         experiments (RFC 4727).",
    ),
    key(
        "single_store",
        Kind::Boolean,
        "false",
        "true",
        "Whether all ports and the centre have one store, that of `central`: subcast does not work then. For comparison.",
    ),
    key(
        "by_computation",
        Kind::Boolean,
        "false",
        "true",
        "Whether two computations that use the same tag mean two entries.",
    ),
    key(
        "flow_order",
        Kind::Boolean,
        "true",
        "false",
        "With several workers: whether the other packets of a flow that carries instructions along go by the same worker, in \
         order.",
    ),
    key(
        "diagnostics",
        Kind::Boolean,
        "false",
        "true",
        "Whether entries remember which computation created them: `switchpath state show` has it then, and tags that two \
         computations use are counted. Two bytes an entry, and memory touched once more.",
    ),
    key(
        "instructions",
        Kind::Texts(Form::Choice(Instruction::NAMES)),
        "",
        "[\"count\", \"compare\"]",
        "The instructions that are executed; by default all.",
    ),
    key(
        "source_rate",
        Kind::Text(Form::PacketRate),
        "",
        "\"1kpps\"",
        "Instructions a second that each worker executes for one source (an IPv4 address, or a /64) at each store, a second's \
         worth at once; without it as many as come.",
    ),
    key(
        "source_creates",
        Kind::Text(Form::PacketRate),
        "",
        "\"100pps\"",
        "Entries a second that one source may create in each worker's part of a store, a second's worth at once; without it as \
         many as fit.",
    ),
    key(
        "key",
        Kind::Text(Form::File),
        "",
        "\"/etc/switchpath/state.key\"",
        "The file of the operator's key, 32 hexadecimal digits, read with each apply and reload: with it, only instructions are \
         executed that are sealed with this key, or with that of a second line.",
    ),
    key(
        "instruction",
        Kind::Tables { name: "[a-z][a-z0-9_-]{0,31}", keys: INSTRUCTION },
        "",
        "{ mean = { number = 128 } }",
        "Instructions besides the built-in ones, by their names: guests (`mean.wasm` in the directory of `--guests`).",
    ),
];

pub(crate) const INSTRUCTION: &[Key] =
    &[required("number", Kind::Integer { least: 128, most: 255 }, "128", "The number by which packets name it.")];

pub(crate) const PORT_STATE: &[Key] = &[
    key(
        "at",
        Kind::Text(Form::Choice(Places::NAMES)),
        "\"both\"",
        "\"output\"",
        "Where instructions are executed: where packets come in (`input`), where they leave (`output`), `both`, or `none`.",
    ),
    key("capacity", ENTRIES, "", "2000000", "Entries of the port's store; by default those that `[state]` says."),
    key(
        "variables",
        Kind::Texts(Form::Choice(Variable::NAMES)),
        "[]",
        "[\"queue\", \"rate\"]",
        "What of the router instructions may read at the port: `queue` (packets that wait), `drops`, `rate` (bits a second), \
         `node`, `time` (nanoseconds).",
    ),
];
