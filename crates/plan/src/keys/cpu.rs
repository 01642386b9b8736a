//! The keys of `[cpu]`: how a worker divides its processor.

use super::{Form, Key, Kind, key};
use crate::cpu::{Admission, Charge, Discipline, Grouping, InputShare, Receive};

const BATCHING: &str = "\"timeslice(packets=256, slice=100us)\"";

pub(crate) const CPU: &[Key] = &[
    key(
        "layout",
        Kind::Integer { least: 1, most: 3 },
        "3",
        "2",
        "Tasks that a packet passes: 1 does everything at once, 2 has input apart, 3 output as well.",
    ),
    key(
        "scheduler",
        Kind::Text(Form::Choice(Discipline::NAMES)),
        "\"wf2q+\"",
        "\"wf2q+\"",
        "Which task runs next: `wf2q+`, `sfq`, `stride`, `eevdf` and `drr` go by shares, `rr` takes turns.",
    ),
    key(
        "receive",
        Kind::Text(Form::Choice(Receive::NAMES)),
        "\"polling\"",
        "\"polling\"",
        "`polling`: input tasks receive when it is their turn. `interrupt`: packets are received before anything else goes \
         on, as interrupts do it; a flood then leaves no time for forwarding.",
    ),
    key(
        "input",
        Kind::Text(Form::Batching),
        BATCHING,
        "\"timeslice(packets=16, slice=30us)\"",
        "How much an input task does at once: `none` (one packet), `simple(packets=N)`, `timeslice(packets=N, slice=T)`, \
         `throttle(overhead=P, slice=T)`.",
    ),
    key(
        "forwarding",
        Kind::Text(Form::Batching),
        BATCHING,
        "\"throttle(overhead=10%, slice=30us)\"",
        "How much a forwarding task does at once.",
    ),
    key(
        "output",
        Kind::Text(Form::Batching),
        BATCHING,
        "\"simple(packets=16)\"",
        "How much an output task does at once.",
    ),
    key(
        "vector",
        Kind::Integer { least: 1, most: 256 },
        "",
        "1",
        "Packets between two readings of the clock; by default one where a packet costs a microsecond or more, else many.",
    ),
    key(
        "charge",
        Kind::Text(Form::Choice(Charge::NAMES)),
        "\"none\"",
        "\"incoming\"",
        "Who pays for changing to another task: `none` makes everybody's share a little smaller, `incoming` the task \
         changed to, `outgoing` the one before.",
    ),
    key(
        "switch_cost",
        Kind::Text(Form::Time),
        "",
        "\"1us\"",
        "What changing to another task costs; by default it is measured at start.",
    ),
    key(
        "strict",
        Kind::Boolean,
        "false",
        "true",
        "Under `throttle`: a task waits for as many packets as are worth it even where its queues hold fewer, and so for \
         ever; for comparison.",
    ),
    key(
        "harvest",
        Kind::Boolean,
        "true",
        "false",
        "Under `throttle`: where no task has enough packets, the one with the most runs.",
    ),
    key(
        "max_wait",
        Kind::Text(Form::Wait),
        "\"none\"",
        "\"500us\"",
        "Under `throttle`: how long a task waits for more packets where its path says nothing; `none` is as long as others \
         have enough to do.",
    ),
    key(
        "tune",
        Kind::Table(TUNE),
        "",
        "{ period = \"10ms\", most = \"20%\" }",
        "Under `throttle` of forwarding: overhead and slice follow the load; without the table they are as said.",
    ),
    key(
        "input_share",
        Kind::Text(Form::Choice(InputShare::NAMES)),
        "\"auto\"",
        "\"line_speed\"",
        "What input tasks get: `balanced` serves what is forwarded, `line_speed` all that the line may bring, `explicit` is \
         each port's `share`; `auto` is line_speed where a path with a reservation may come in by the port, else balanced.",
    ),
    key(
        "balance",
        Kind::Counts { least: 2, most: 3, highest: 1_000_000 },
        "[]",
        "[5, 1, 5]",
        "What best effort gives its input, forwarding and output tasks, as a ratio; by default by what they cost.",
    ),
    key(
        "best_effort",
        Kind::Text(Form::Choice(Grouping::NAMES)),
        "\"per_function\"",
        "\"aggregate\"",
        "Which paths without a reservation share a task: those of equal functions (`per_function`), all (`aggregate`), none \
         (`by_rule`), or all paths whatsoever (`single`), for comparison.",
    ),
    key(
        "admission",
        Kind::Text(Form::Choice(Admission::NAMES)),
        "\"refuse\"",
        "\"warn\"",
        "What becomes of reservations that do not fit: `refuse` takes no such configuration, `warn` says so and takes it.",
    ),
    key(
        "classify_budget",
        Kind::Text(Form::Time),
        "",
        "\"2us\"",
        "The time that receiving and classifying a packet may take; those of vectors that take longer are counted \
         (`classify_over_budget_packets` of the port). By default nobody looks.",
    ),
    key(
        "inline",
        Kind::Boolean,
        "false",
        "true",
        "Whether the input task forwards packets itself whose path does nothing else and has nothing waiting: a change of \
         task less, charged to the input task, and so best left alone where paths were promised something. With \
         `classify_budget` only while both together stay within it.",
    ),
];

/// How `throttle` follows the load.
pub(crate) const TUNE: &[Key] = &[
    key("period", Kind::Text(Form::Time), "\"10ms\"", "\"10ms\"", "How often they are set, 100us to 10s."),
    key("least", Kind::Text(Form::Part), "\"2%\"", "\"2%\"", "The least overhead: under the highest load."),
    key("most", Kind::Text(Form::Part), "\"30%\"", "\"30%\"", "The most overhead: under little load."),
    key(
        "margin",
        Kind::Text(Form::Part),
        "\"10%\"",
        "\"10%\"",
        "The part of the processor that is to be left beside the present load.",
    ),
];

/// The queue estimator of a port.
pub(crate) const ESTIMATOR: &[Key] = &[
    key("weight", Kind::Text(Form::Part), "\"25%\"", "\"25%\"", "The weight of the newest run in the average."),
    key(
        "low",
        Kind::Integer { least: 1, most: 65_535 },
        "",
        "8",
        "Where a run finds fewer packets on average, the task sleeps longer; by default two thirds of `high`.",
    ),
    key(
        "high",
        Kind::Integer { least: 1, most: 65_535 },
        "",
        "12",
        "Where a run finds more on average, it sleeps less; below the packets of `input`. By default 12, or three quarters \
         of a batch below 16.",
    ),
    key("sleep_min", Kind::Text(Form::Time), "\"0s\"", "\"0s\"", "The shortest sleep."),
    key(
        "sleep_max",
        Kind::Text(Form::Time),
        "",
        "\"343us\"",
        "The longest sleep, up to 1s; by default what the receive ring less a batch holds at the line's rate.",
    ),
    key(
        "law",
        Kind::Text(Form::Law),
        "\"x1.25\"",
        "\"+10us\"",
        "How sleep changes: times or divided by a factor (`x1.25`), by 1us at least; or by a step (`+10us`).",
    ),
    key("fast_attack", Kind::Boolean, "true", "false", "Whether one full run after the longest sleep ends it."),
    key("stay", Kind::Boolean, "true", "false", "Whether there is no sleep after a run that its limit has ended."),
    key(
        "settle",
        Kind::Boolean,
        "true",
        "false",
        "Whether sleep stays as it is once a run is back in the range, though the average is not yet. With `false` the average alone \
         decides; with `fast_attack = false` and `stay = false` besides, that is the law of the paper.",
    ),
];
