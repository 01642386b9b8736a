//! The table `[cpu]`: how each worker divides its processor among tasks.
//!
//! Terms and defaults follow Qie, Bavier, Peterson and Karlin, "Scheduling Computations on a Software-Based Router" (SIGMETRICS 2001).

mod batching;

pub use batching::Batching;

use crate::call::{Catalogue, Lag};
use crate::diagnostic::Report;
use crate::diff::PropertyChange;
use crate::document::Section;
use crate::key::{Form, Key, Kind, PART, TIME, WAIT, key};
use crate::named::{as_optional_text, as_text, named};
use crate::table::{self, Value, ValueText, table};
use batching::BATCHINGS;
use serde::{Serialize, Serializer};
use std::fmt;
use units::{Nanos, PacketRate, Parts};

pub(crate) const KEY: Key =
    key("cpu", Kind::Table(KEYS), "", "{ layout = 3 }", "How each worker divides its processor among tasks.");

const BATCHING: &str = "\"timeslice(packets=256, slice=100us)\"";

named! {
    Receive { Polling "polling", Interrupt "interrupt" }
    Charge { None "none", Incoming "incoming", Outgoing "outgoing" }
    InputShare { Auto "auto", Balanced "balanced", LineSpeed "line_speed", Explicit "explicit" }
    Grouping { PerFunction "per_function", Aggregate "aggregate", ByRule "by_rule", Single "single" }
    Admission { Refuse "refuse", Warn "warn" }
}

/// The time slice of a preemptible path whose batching has no slice.
pub const DEFAULT_PREEMPTIBLE_SLICE: Nanos = Nanos::micros(100);

table! {
    /// How a worker divides its processor among its tasks. All of it can change at run time.
    #[derive(Clone, PartialEq, Eq, Debug, Serialize)]
    pub struct CpuPlan, KEYS {
        /// The number of tasks for a packet.
        pub layout: Layout = (
            Kind::Integer { least: 1, most: 3 }, "3", "2",
            "The number of tasks for each packet: 1 does everything in one task, 2 separates input, 3 also separates \
             output."
        );
        /// The CPU scheduler.
        pub scheduler: CpuSchedulerChoice = (
            Kind::Text(Form::CpuScheduler), "\"wf2q+\"", "\"wf2q+\"", "The CPU scheduler. The schedulers are listed \
             below."
        ) by no_scheduler;
        /// The scheduler that selects the next reserved flow of a path.
        pub flow_scheduler: CpuSchedulerChoice = (
            Kind::Text(Form::CpuScheduler), "\"spfq\"", "\"potential\"", "The scheduler that selects the next flow on a path with \
             `reservations`, within the processor time of the path."
        ) by no_flow_scheduler;
        /// How packets are received.
        pub receive: Receive = (
            Kind::Text(Form::Choice(Receive::NAMES)), "\"polling\"", "\"polling\"",
            "`polling`: input tasks receive packets when the CPU scheduler runs them. `interrupt`: packets are \
             received before any other work, as with interrupts. A flood then leaves no time for forwarding."
        );
        /// The batching of input tasks.
        pub input: Batching = (
            Kind::Text(Form::Call(BATCHINGS)), BATCHING, "\"timeslice(packets=16, slice=30us)\"",
            "How many packets an input task processes in a run: `none` (one packet), `simple(packets=N)`, \
             `timeslice(packets=N, slice=T)`, `throttle(overhead=P, slice=T)`."
        );
        /// The batching of forwarding tasks.
        pub forwarding: Batching = (
            Kind::Text(Form::Call(BATCHINGS)), BATCHING, "\"throttle(overhead=10%, slice=30us)\"",
            "How many packets a forwarding task processes in a run."
        );
        /// The batching of output tasks.
        pub output: Batching = (
            Kind::Text(Form::Call(BATCHINGS)), BATCHING, "\"simple(packets=16)\"",
            "How many packets an output task processes in a run."
        );
        /// Packets between two reads of the cycle counter. `None`: few if a packet costs a microsecond or more, else many.
        pub vector: Option<u16> = (
            Kind::Integer { least: 1, most: 256 }, "", "1",
            "Packets between two readings of the clock. The default is 16 microseconds of packets if one costs a \
             microsecond or more (one packet in a simulation), else many."
        );
        /// The task that is charged for a switch.
        pub charge: Charge = (
            Kind::Text(Form::Choice(Charge::NAMES)), "\"none\"", "\"incoming\"",
            "The task that is charged for a switch: `incoming` the next task, `outgoing` the previous one. With \
             `none` all shares shrink a little."
        );
        /// The cost of a switch; `None`: measured at start.
        #[serde(serialize_with = "as_optional_text")]
        pub switch_cost: Option<Nanos> = (
            Kind::Quantity { form: TIME, least: "0s", most: "10ms" }, "", "\"1us\"",
            "The cost of a switch between tasks. By default it is measured at start."
        );
        /// Under `throttle`: whether a task may wait for more packets than its queues hold.
        pub strict: bool = (
            Kind::Boolean, "false", "true",
            "Under `throttle`: a task waits for the full batch even if its queues hold fewer packets, and so \
             forever. For comparison."
        );
        /// Under `throttle`: true if the waiting task with the fullest queue runs if no other task is ready.
        pub work_conserving: bool = (
            Kind::Boolean, "true", "false",
            "Under `throttle`: if no task has a full batch, the one with the most packets runs."
        );
        /// Under `throttle`: how long a task waits for more packets by default; `None`: without limit.
        #[serde(serialize_with = "as_optional_text")]
        pub max_wait: Option<Nanos> = (
            Kind::Text(WAIT), "\"none\"", "\"500us\"",
            "Under `throttle`: how long a task waits for more packets if its path does not set `max_wait`. With \
             `none` it waits as long as other tasks are busy."
        ) by default_wait;
        /// How the overhead and slice of `throttle` follow the load; `None`: they are fixed.
        pub tune: Option<TunePlan> = (
            Kind::Table(TUNE), "", "{ period = \"10ms\", most = \"20%\" }",
            "Under `throttle` of forwarding tasks: overhead and slice follow the load. Without the table they are \
             fixed."
        );
        /// The processor shares of input tasks.
        pub input_share: InputShare = (
            Kind::Text(Form::Choice(InputShare::NAMES)), "\"auto\"", "\"line_speed\"",
            "The processor share of input tasks. `balanced` is enough for the forwarded packets, `line_speed` for \
             the full line rate, `explicit` is each port's `share`. `auto` is `line_speed` for ports by which \
             packets of a path with a reservation may enter, else `balanced`."
        );
        /// The ratio of best effort's input, forwarding and output shares; all zero: by their costs.
        pub balance: [u32; 3] = (
            Kind::Counts { least: 2, most: 3, highest: 1_000_000 }, "[]", "[5, 1, 5]",
            "The ratio of the shares of best effort's input, forwarding and output tasks. By default they follow \
             from their costs."
        ) by balance;
        /// How packets without a path of their own are grouped into tasks.
        pub best_effort: Grouping = (
            Kind::Text(Form::Choice(Grouping::NAMES)), "\"per_function\"", "\"aggregate\"",
            "Which paths without a reservation share a task: those with equal functions (`per_function`), all \
             (`aggregate`), or none (`by_rule`). With `single` all paths share one, including those with \
             reservations, for comparison."
        );
        /// The reaction to reservations that do not fit.
        pub admission: Admission = (
            Kind::Text(Form::Choice(Admission::NAMES)), "\"refuse\"", "\"warn\"",
            "How reservations that do not fit are handled: `refuse` refuses the configuration, `warn` accepts it \
             with a warning."
        );
        /// The time limit for classifying a packet; slower ones are counted. `None`: not checked.
        #[serde(serialize_with = "as_optional_text")]
        pub classify_budget: Option<Nanos> = (
            Kind::Quantity { form: TIME, least: "1ns", most: "1s" }, "", "\"2us\"",
            "The time limit for receiving and classifying a packet. Packets of slower vectors are counted \
             (`classify_over_budget_packets` of the port). By default there is no limit."
        );
        /// True if the input task does plain forwarding.
        pub inline: bool = (
            Kind::Boolean, "false", "true",
            "Whether the input task itself forwards packets whose path has only the function `ip` and an empty \
             queue. This saves a switch, but the input task is charged for the work. So do not use it together with \
             reservations. With `classify_budget` it applies only while both together stay within the limit."
        );
    }
}

impl Default for CpuPlan {
    fn default() -> CpuPlan {
        table::defaults(KEYS, CpuPlan::read)
    }
}

impl CpuPlan {
    /// The most packets in a run of an input task; `None` without a limit.
    pub fn input_limit(&self) -> Option<u16> {
        self.input.packets()
    }
}

/// How many tasks process a packet (section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// Input, forwarding and output in one task.
    One,
    /// Input; forwarding and output together.
    Two,
    /// Input, forwarding, output.
    #[default]
    Three,
}

impl Layout {
    /// The number of tasks.
    pub const fn tasks(self) -> u8 {
        match self {
            Layout::One => 1,
            Layout::Two => 2,
            Layout::Three => 3,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tasks().fmt(f)
    }
}

impl Value for Layout {
    fn read(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Option<Layout> {
        [Layout::One, Layout::Two, Layout::Three].get(section.integer(report, name)?.checked_sub(1)? as usize).copied()
    }

    fn from_default(_: &'static str) -> Option<Layout> {
        Some(Layout::default())
    }
}

impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.tasks())
    }
}

/// A CPU scheduler of the catalogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuSchedulerChoice {
    /// Its name in the configuration.
    pub name: &'static str,
    /// How far a task may fall behind its share.
    pub lag: Lag,
}

impl Default for CpuSchedulerChoice {
    /// The default CPU scheduler.
    fn default() -> CpuSchedulerChoice {
        CpuSchedulerChoice { name: "wf2q+", lag: Lag::OneRun }
    }
}

impl CpuSchedulerChoice {
    /// True if the scheduler respects shares. Otherwise no reservation can be kept.
    pub fn respects_shares(self) -> bool {
        self.lag != Lag::Unbounded
    }
}

impl fmt::Display for CpuSchedulerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl ValueText for CpuSchedulerChoice {
    fn value_text(&self) -> String {
        self.name.to_string()
    }
}

impl Serialize for CpuSchedulerChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// How packets are received (section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Receive {
    /// By tasks that the CPU scheduler runs.
    #[default]
    Polling,
    /// Before all other work, as by interrupts: a flood leaves no time for anything else.
    Interrupt,
}

/// The task that is charged for a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Charge {
    /// No task: all shares shrink.
    #[default]
    None,
    /// The next task.
    Incoming,
    /// The previous task.
    Outgoing,
}

table! {
    /// How the overhead and slice of `throttle` follow the load (section 4.4).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
    pub struct TunePlan, TUNE {
        /// How often they are adjusted.
        #[serde(serialize_with = "as_text")]
        pub period: Nanos = (
            Kind::Quantity { form: TIME, least: "100us", most: "10s" }, "\"10ms\"", "\"10ms\"",
            "The interval between two adjustments, 100us to 10s."
        );
        /// The smallest overhead, under the highest load.
        #[serde(serialize_with = "as_text")]
        pub least: Parts = (
            Kind::Quantity { form: PART, least: "1ppm", most: "100%" }, "\"2%\"", "\"2%\"",
            "The smallest overhead, under the highest load."
        );
        /// The largest overhead, under light load.
        #[serde(serialize_with = "as_text")]
        pub most: Parts = (
            Kind::Quantity { form: PART, least: "1ppm", most: "100%" }, "\"30%\"", "\"30%\"",
            "The largest overhead, under light load."
        );
        /// The reserve above the present load.
        #[serde(serialize_with = "as_text")]
        pub margin: Parts = (
            Kind::Quantity { form: PART, least: "0%", most: "100%" }, "\"10%\"", "\"10%\"",
            "The fraction of the processor kept in reserve above the present load."
        );
    }
}

impl Default for TunePlan {
    fn default() -> TunePlan {
        table::defaults(TUNE, TunePlan::read)
    }
}

impl fmt::Display for TunePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&table::text(&self.fields()))
    }
}

/// The processor shares of input tasks (section 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InputShare {
    /// Enough for the full line rate if a path with a reservation may enter by the port, else `Balanced`.
    #[default]
    Auto,
    /// Enough for the packets that are forwarded.
    Balanced,
    /// Enough for the full line rate.
    LineSpeed,
    /// The configured share of each port.
    Explicit,
}

/// How packets without a path of their own are grouped into tasks (section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grouping {
    /// A task and a share for each list of functions.
    #[default]
    PerFunction,
    /// One task for all best-effort packets, regardless of their functions.
    Aggregate,
    /// A task for each path of the configuration.
    ByRule,
    /// One task for all packets, including those with reservations: for comparison.
    Single,
}

/// The reaction to reservations that do not fit the processor, a link or a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Admission {
    /// The configuration is refused.
    #[default]
    Refuse,
    /// It is accepted with a warning, to study the effect.
    Warn,
}

/// More packets a second than the fastest link delivers.
pub(crate) const MOST_PACKETS: PacketRate = PacketRate::pps(1_000_000_000);
pub(crate) const MOST_WAIT: Nanos = Nanos::secs(10);

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>, catalogue: &Catalogue) -> CpuPlan {
    let section = root.node("cpu").and_then(|node| node.section(report, KEYS, "[cpu]"));
    let Some(section) = section else { return CpuPlan::default() };
    // The configured CPU scheduler of a key. `None` if it is missing or was reported.
    let mut scheduler = |name| {
        let names: Vec<_> = catalogue.cpu_schedulers.iter().map(|one| one.declaration.name).collect();
        let found = section.one_of(report, name, &names)?;
        Some(CpuSchedulerChoice { name: names[found], lag: catalogue.cpu_schedulers[found].lag })
    };
    let (of_tasks, of_flows) = (scheduler("scheduler"), scheduler("flow_scheduler"));
    let mut plan = CpuPlan::read(report, &section);
    plan.scheduler = of_tasks.unwrap_or(plan.scheduler);
    plan.flow_scheduler = of_flows.unwrap_or(plan.flow_scheduler);
    plan
}

/// A placeholder: only the catalogue knows the schedulers, so [`check`] parses the name.
fn no_scheduler(_: &mut Report<'_>, _: &Section<'_>) -> CpuSchedulerChoice {
    CpuSchedulerChoice::default()
}

/// The same for the scheduler of flows.
fn no_flow_scheduler(_: &mut Report<'_>, _: &Section<'_>) -> CpuSchedulerChoice {
    CpuSchedulerChoice { name: "spfq", lag: Lag::RunOfEach }
}

/// `max_wait`: [`Nanos::MAX`] for `none`. `None` if it is missing or was reported.
pub(crate) fn wait(report: &mut Report<'_>, section: &Section<'_>) -> Option<Nanos> {
    match section.text(report, "max_wait")?.value.trim() {
        "none" => Some(Nanos::MAX),
        _ => section.within(report, "max_wait", Nanos::new(1)..=MOST_WAIT),
    }
}

/// How long a task waits for more packets by default; `None`: without limit.
fn default_wait(report: &mut Report<'_>, section: &Section<'_>) -> Option<Nanos> {
    wait(report, section).filter(|time| *time != Nanos::MAX)
}

impl Value for TunePlan {
    fn read(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Option<TunePlan> {
        let section = section.node(name)?.section(report, TUNE, "tune = { period = \"10ms\" }")?;
        let plan = TunePlan::read(report, &section);
        let TunePlan { least, most, .. } = plan;
        if least > most {
            report.error(section.span.clone(), section.path, || {
                (format!("least is {least}, but most is only {most}"), "exchange them".to_string())
            });
        }
        Some(plan)
    }

    fn from_default(_: &'static str) -> Option<TunePlan> {
        None
    }
}

/// The ratio of the shares of best-effort tasks; all zero if it is not set.
fn balance(report: &mut Report<'_>, section: &Section<'_>) -> [u32; 3] {
    let mut ratio = [0; 3];
    let numbers = section.counts(report, "balance");
    // The declared range fits the type.
    ratio.iter_mut().zip(&numbers).for_each(|(part, number)| *part = *number as u32);
    if let Some(node) = section.node("balance").filter(|_| numbers.contains(&0)) {
        report.error(node.span, node.path, || {
            ("a task with a share of 0 never runs".to_string(), "give each a number above 0".to_string())
        });
    }
    ratio
}

impl ValueText for [u32; 3] {
    fn value_text(&self) -> String {
        self.map(|part| part.to_string()).join(":")
    }
}

pub(crate) fn diff(old: &CpuPlan, new: &CpuPlan) -> Vec<PropertyChange> {
    table::edits(&old.fields(), &new.fields())
}
