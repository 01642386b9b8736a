//! How the processor's time is divided: the table `[cpu]`, how each worker divides its processor.
//!
//! Terms and defaults follow Qie, Bavier, Peterson and Karlin, "Scheduling Computations on a Software-Based Router"
//! (SIGMETRICS 2001).

mod batching;

pub use batching::Batching;

use crate::diagnostic::Report;
use crate::diff::{Edit, edit, or_none};
use crate::document::Section;
use crate::key::{Form, Key, Kind, PART, TIME, WAIT, key};
use crate::named::{as_optional_text, as_text, named};
use batching::BATCHINGS;
use serde::{Serialize, Serializer};
use std::fmt;
use units::{Nanos, PacketRate, Parts};

pub(crate) const KEY: Key =
    key("cpu", Kind::Table(KEYS), "", "{ layout = 3 }", "How each worker divides its processor.");

const BATCHING: &str = "\"timeslice(packets=256, slice=100us)\"";

const KEYS: &[Key] = &[
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
        Kind::Text(Form::Call(BATCHINGS)),
        BATCHING,
        "\"timeslice(packets=16, slice=30us)\"",
        "How much an input task does at once: `none` (one packet), `simple(packets=N)`, `timeslice(packets=N, slice=T)`, \
         `throttle(overhead=P, slice=T)`.",
    ),
    key(
        "forwarding",
        Kind::Text(Form::Call(BATCHINGS)),
        BATCHING,
        "\"throttle(overhead=10%, slice=30us)\"",
        "How much a forwarding task does at once.",
    ),
    key(
        "output",
        Kind::Text(Form::Call(BATCHINGS)),
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
        Kind::Text(TIME),
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
        Kind::Text(WAIT),
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
        Kind::Text(TIME),
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
const TUNE: &[Key] = &[
    key("period", Kind::Text(TIME), "\"10ms\"", "\"10ms\"", "How often they are set, 100us to 10s."),
    key("least", Kind::Text(PART), "\"2%\"", "\"2%\"", "The least overhead: under the highest load."),
    key("most", Kind::Text(PART), "\"30%\"", "\"30%\"", "The most overhead: under little load."),
    key(
        "margin",
        Kind::Text(PART),
        "\"10%\"",
        "\"10%\"",
        "The part of the processor that is to be left beside the present load.",
    ),
];

named! {
    Discipline { Wf2q "wf2q+", Sfq "sfq", Stride "stride", Eevdf "eevdf", Drr "drr", RoundRobin "rr" }
    Receive { Polling "polling", Interrupt "interrupt" }
    Charge { None "none", Incoming "incoming", Outgoing "outgoing" }
    InputShare { Auto "auto", Balanced "balanced", LineSpeed "line_speed", Explicit "explicit" }
    Grouping { PerFunction "per_function", Aggregate "aggregate", ByRule "by_rule", Single "single" }
    Admission { Refuse "refuse", Warn "warn" }
}

/// How long a preemptible path has the processor at once where its batching knows no slice.
pub const LENT: Nanos = Nanos::micros(100);

/// How a worker divides its processor among its tasks. All of it may change while the router runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CpuPlan {
    /// How many tasks a packet passes.
    pub layout: Layout,
    /// Which task runs next.
    pub scheduler: Discipline,
    /// How packets are received.
    pub receive: Receive,
    /// How much an input task does at once.
    pub input: Batching,
    /// How much a forwarding task does at once.
    pub forwarding: Batching,
    /// How much an output task does at once.
    pub output: Batching,
    /// Packets between two looks at the meter; none: one where a packet costs a microsecond or more, else many.
    pub vector: Option<u16>,
    /// Who pays for changing from one task to another.
    pub charge: Charge,
    /// What that costs; none: measured at start.
    #[serde(serialize_with = "as_optional_text")]
    pub switch_cost: Option<Nanos>,
    /// Under `throttle`: whether a task may wait for more packets than its queues hold.
    pub strict: bool,
    /// Under `throttle`: whether the fullest of the tasks that wait for more packets runs where nothing else would.
    pub harvest: bool,
    /// Under `throttle`: how long a task waits for more packets where its path says nothing; none: for ever.
    #[serde(serialize_with = "as_optional_text")]
    pub max_wait: Option<Nanos>,
    /// Whether and how overhead and slice of `throttle` follow the load.
    pub tune: Option<TunePlan>,
    /// What input tasks get of the processor.
    pub input_share: InputShare,
    /// What best effort gives its input, forwarding and output tasks, as a ratio; all zero: by what they cost.
    pub balance: [u32; 3],
    /// Which packets without a path of their own share one.
    pub best_effort: Grouping,
    /// What becomes of reservations that do not fit.
    pub admission: Admission,
    /// The time that classifying a packet may take; more is counted. None: not looked at.
    #[serde(serialize_with = "as_optional_text")]
    pub classify_budget: Option<Nanos>,
    /// Whether plain forwarding is done in the input task.
    pub inline: bool,
}

impl Default for CpuPlan {
    fn default() -> CpuPlan {
        CpuPlan {
            layout: Layout::default(),
            scheduler: Discipline::default(),
            receive: Receive::default(),
            input: Batching::default(),
            forwarding: Batching::default(),
            output: Batching::default(),
            vector: None,
            charge: Charge::default(),
            switch_cost: None,
            strict: false,
            harvest: true,
            max_wait: None,
            tune: None,
            input_share: InputShare::default(),
            balance: [0; 3],
            best_effort: Grouping::default(),
            admission: Admission::default(),
            classify_budget: None,
            inline: false,
        }
    }
}

impl CpuPlan {
    /// How many packets a run of an input task takes at most; none where it has no such limit.
    pub fn input_limit(&self) -> Option<u16> {
        self.input.packets()
    }
}

/// How many tasks a packet passes (section 3.1).
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
    /// Their number.
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

impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.tasks())
    }
}

/// A CPU scheduling discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Discipline {
    /// Worst-case fair weighted fair queueing, with the virtual time of WF2Q+ (Bennett and Zhang 1997).
    #[default]
    Wf2q,
    /// Start-time fair queueing (Goyal, Vin, Cheng 1996).
    Sfq,
    /// Stride scheduling (Waldspurger and Weihl 1995).
    Stride,
    /// Earliest eligible virtual deadline first (Stoica et al. 1996).
    Eevdf,
    /// Deficit round robin (Shreedhar and Varghese 1995), with time for bytes.
    Drr,
    /// Round robin: turns, whatever the shares.
    RoundRobin,
}

/// How packets are received (section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Receive {
    /// By tasks that the scheduler gives their time.
    #[default]
    Polling,
    /// Before anything else goes on: the way of interrupts, under which a flood leaves no time for anything else.
    Interrupt,
}

/// Who pays for changing to another task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Charge {
    /// Nobody: it makes everybody's share smaller.
    #[default]
    None,
    /// The task changed to.
    Incoming,
    /// The task that ran before.
    Outgoing,
}

/// How the overhead and slice of `throttle` follow the load (section 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct TunePlan {
    /// How often they are set.
    #[serde(serialize_with = "as_text")]
    pub period: Nanos,
    /// The least overhead: under the highest load.
    #[serde(serialize_with = "as_text")]
    pub least: Parts,
    /// The most: under little load.
    #[serde(serialize_with = "as_text")]
    pub most: Parts,
    /// How much more than the present load there is to be room for.
    #[serde(serialize_with = "as_text")]
    pub margin: Parts,
}

impl Default for TunePlan {
    fn default() -> TunePlan {
        TunePlan {
            period: Nanos::millis(10),
            least: Parts::percent(2),
            most: Parts::percent(30),
            margin: Parts::percent(10),
        }
    }
}

impl fmt::Display for TunePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TunePlan { period, least, most, margin } = self;
        write!(f, "period {period} least {least} most {most} margin {margin}")
    }
}

/// What input tasks get of the processor (section 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InputShare {
    /// What serves the line at its full rate where a path with a reservation may come in by the port, else `Balanced`.
    #[default]
    Auto,
    /// As much as serves what is forwarded.
    Balanced,
    /// As much as serves the line at its full rate.
    LineSpeed,
    /// What each port says.
    Explicit,
}

/// Which packets without a path of their own share one (section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grouping {
    /// Each list of functions has a task, and a share.
    #[default]
    PerFunction,
    /// All best-effort packets have one task, whatever their functions.
    Aggregate,
    /// Each path of the configuration has a task.
    ByRule,
    /// All packets have one task, those with reservations too: for comparison.
    Single,
}

/// What becomes of reservations that do not fit the processor, a link or a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Admission {
    /// The configuration is not taken.
    #[default]
    Refuse,
    /// It is taken, with a warning: to see what happens then.
    Warn,
}

/// A packet that takes longer than this is no packet's business.
pub(crate) const MOST_COST: Nanos = Nanos::secs(1);
/// More packets a second than the fastest link brings.
pub(crate) const MOST_PACKETS: PacketRate = PacketRate::pps(1_000_000_000);
pub(crate) const MOST_WAIT: Nanos = Nanos::secs(10);

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>) -> CpuPlan {
    let mut cpu = CpuPlan::default();
    let Some(section) = root.node("cpu").and_then(|node| node.section(report, KEYS, "[cpu]")) else { return cpu };
    cpu.layout = match section.integer(report, "layout") {
        Some(1) => Layout::One,
        Some(2) => Layout::Two,
        _ => Layout::Three,
    };
    cpu.scheduler = section.choice(report, "scheduler", Discipline::ALL).unwrap_or_default();
    cpu.receive = section.choice(report, "receive", Receive::ALL).unwrap_or_default();
    cpu.input = batching(report, &section, "input");
    cpu.forwarding = batching(report, &section, "forwarding");
    cpu.output = batching(report, &section, "output");
    // The declared range is within the type.
    cpu.vector = section.node("vector").and_then(|_| section.integer(report, "vector")).map(|packets| packets as u16);
    cpu.charge = section.choice(report, "charge", Charge::ALL).unwrap_or_default();
    cpu.switch_cost = section.within(report, "switch_cost", Nanos::ZERO..=Nanos::millis(10));
    cpu.strict = section.boolean(report, "strict");
    cpu.harvest = section.boolean(report, "harvest");
    cpu.max_wait = wait(report, &section).filter(|time| *time != Nanos::MAX);
    cpu.tune = section.node("tune").and_then(|_| tune(report, &section));
    cpu.input_share = section.choice(report, "input_share", InputShare::ALL).unwrap_or_default();
    cpu.balance = balance(report, &section);
    cpu.best_effort = section.choice(report, "best_effort", Grouping::ALL).unwrap_or_default();
    cpu.admission = section.choice(report, "admission", Admission::ALL).unwrap_or_default();
    cpu.classify_budget = section.within(report, "classify_budget", Nanos::new(1)..=MOST_COST);
    cpu.inline = section.boolean(report, "inline");
    cpu
}

fn batching(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Batching {
    let Some(text) = section.text(report, name) else { return Batching::default() };
    Batching::parse(text.value).unwrap_or_else(|error| {
        text.wrong(report, error);
        Batching::default()
    })
}

/// `max_wait`: [`Nanos::MAX`] for `none`. None: left out or reported.
pub(crate) fn wait(report: &mut Report<'_>, section: &Section<'_>) -> Option<Nanos> {
    match section.text(report, "max_wait")?.value.trim() {
        "none" => Some(Nanos::MAX),
        _ => section.within(report, "max_wait", Nanos::new(1)..=MOST_WAIT),
    }
}

fn tune(report: &mut Report<'_>, section: &Section<'_>) -> Option<TunePlan> {
    let section = section.node("tune")?.section(report, TUNE, "tune = { period = \"10ms\" }")?;
    let default = TunePlan::default();
    let overhead = Parts::millionths(1)..=Parts::ONE;
    let period = section.within(report, "period", Nanos::micros(100)..=MOST_WAIT).unwrap_or(default.period);
    let least = section.within(report, "least", overhead.clone()).unwrap_or(default.least);
    let most = section.within(report, "most", overhead).unwrap_or(default.most);
    let margin = section.within(report, "margin", Parts::default()..=Parts::ONE).unwrap_or(default.margin);
    if least > most {
        report.error(section.span.clone(), section.path, || {
            (format!("the least overhead, {least}, is more than the most, {most}"), "exchange them".to_string())
        });
    }
    Some(TunePlan { period, least, most, margin })
}

fn balance(report: &mut Report<'_>, section: &Section<'_>) -> [u32; 3] {
    let mut ratio = [0; 3];
    let numbers = section.counts(report, "balance");
    // The declared range is within the type.
    ratio.iter_mut().zip(&numbers).for_each(|(part, number)| *part = *number as u32);
    if let Some(node) = section.node("balance").filter(|_| numbers.contains(&0)) {
        report.error(node.span, node.path, || {
            ("a task with a share of nothing never runs".to_string(), "give each a number above 0".to_string())
        });
    }
    ratio
}

pub(crate) fn diff(old: &CpuPlan, new: &CpuPlan) -> Vec<Edit> {
    let mut what = Vec::new();
    edit(&mut what, "layout", old.layout, new.layout);
    edit(&mut what, "scheduler", old.scheduler, new.scheduler);
    edit(&mut what, "receive", old.receive, new.receive);
    edit(&mut what, "input", old.input, new.input);
    edit(&mut what, "forwarding", old.forwarding, new.forwarding);
    edit(&mut what, "output", old.output, new.output);
    edit(&mut what, "vector", or_none(&old.vector), or_none(&new.vector));
    edit(&mut what, "charge", old.charge, new.charge);
    edit(&mut what, "switch_cost", or_none(&old.switch_cost), or_none(&new.switch_cost));
    edit(&mut what, "strict", old.strict, new.strict);
    edit(&mut what, "harvest", old.harvest, new.harvest);
    edit(&mut what, "max_wait", or_none(&old.max_wait), or_none(&new.max_wait));
    edit(&mut what, "tune", or_none(&old.tune), or_none(&new.tune));
    edit(&mut what, "input_share", old.input_share, new.input_share);
    let ratio = |cpu: &CpuPlan| cpu.balance.map(|part| part.to_string()).join(":");
    edit(&mut what, "balance", ratio(old), ratio(new));
    edit(&mut what, "best_effort", old.best_effort, new.best_effort);
    edit(&mut what, "admission", old.admission, new.admission);
    edit(&mut what, "classify_budget", or_none(&old.classify_budget), or_none(&new.classify_budget));
    edit(&mut what, "inline", old.inline, new.inline);
    what
}
