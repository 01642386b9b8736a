//! How the processor's time is divided: the table `[cpu]`, and what ports and paths add to it.
//!
//! Terms and defaults follow Qie, Bavier, Peterson and Karlin, "Scheduling Computations on a Software-Based Router"
//! (SIGMETRICS 2001).

#[path = "cpu/batching.rs"]
mod batching;

pub(crate) use batching::BATCHINGS;
pub use batching::Batching;

use serde::{Serialize, Serializer};
use std::fmt;
use units::{Bytes, Nanos, PacketRate, Parts, Rate};

/// An enumeration whose members have names in the configuration.
macro_rules! named {
    ($($type:ident { $($member:ident $name:literal),* $(,)? })*) => {$(
        impl $type {
            /// All of them, in the order they are listed.
            pub const ALL: &'static [$type] = &[$($type::$member),*];
            /// Their names, in the order of [`Self::ALL`].
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// As in the configuration.
            pub const fn name(self) -> &'static str {
                match self { $($type::$member => $name),* }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    )*};
}
pub(crate) use named;

named! {
    Discipline { Wf2q "wf2q+", Sfq "sfq", Stride "stride", Eevdf "eevdf", Drr "drr", RoundRobin "rr" }
    Receive { Polling "polling", Interrupt "interrupt" }
    Charge { None "none", Incoming "incoming", Outgoing "outgoing" }
    InputShare { Auto "auto", Balanced "balanced", LineSpeed "line_speed", Explicit "explicit" }
    Grouping { PerFunction "per_function", Aggregate "aggregate", ByRule "by_rule", Single "single" }
    Admission { Refuse "refuse", Warn "warn" }
    Congestion { Drop "drop", Throttle "throttle" }
}

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

/// A time, or `none` for one that never ends.
fn as_wait<S: Serializer>(value: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(time) => serializer.collect_str(&wait_text(*time)),
        None => serializer.serialize_none(),
    }
}

/// A wait as the configuration writes it: `none` for one that never ends.
pub(crate) fn wait_text(time: Nanos) -> String {
    if time == Nanos::MAX { "none".to_string() } else { time.to_string() }
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

/// The processor and a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PortCpu {
    /// What its input task gets, where shares are explicit.
    #[serde(serialize_with = "as_optional_text")]
    pub share: Option<Parts>,
    /// Packets a second that the line may bring; none: from the rate of the device and 64-byte frames, where it has one.
    #[serde(serialize_with = "as_optional_text")]
    pub line_rate: Option<PacketRate>,
    /// What becomes of packets whose path is full.
    pub congestion: Congestion,
    /// When its input task looks for packets; none: whenever it has its turn.
    pub estimator: Option<EstimatorPlan>,
    /// Without an estimator: whether the task keeps its turns while it finds nothing, as in the paper. Else it steps back.
    pub greedy: bool,
}

/// What becomes of packets whose path is full (section 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Congestion {
    /// They are dropped, after they have been received.
    #[default]
    Drop,
    /// The port waits, and the line loses the rest at no cost.
    Throttle,
}

/// The queue estimator of a port: how long its input task sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct EstimatorPlan {
    /// The weight of the newest run in the average.
    #[serde(serialize_with = "as_text")]
    pub weight: Parts,
    /// Where a run finds fewer on average it sleeps longer, packets.
    pub low: u16,
    /// Where a run finds more on average it sleeps less; below the batch of an input task, packets.
    pub high: u16,
    /// The shortest sleep.
    #[serde(serialize_with = "as_text")]
    pub sleep_min: Nanos,
    /// The longest sleep; none: what the receive ring holds at the line's rate.
    #[serde(serialize_with = "as_optional_text")]
    pub sleep_max: Option<Nanos>,
    /// How sleep changes.
    pub law: SleepLaw,
    /// Whether one full run after the longest sleep ends it.
    pub fast_attack: bool,
    /// Whether there is no sleep after a run that its limit has ended.
    pub stay: bool,
    /// Whether sleep stays as it is once a run is back in the range; else the average alone decides.
    pub settle: bool,
}

/// How an estimator changes its sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SleepLaw {
    /// Times or divided by this; at least a microsecond more or less.
    Multiply(Parts),
    /// So much more or less.
    Add(Nanos),
}

impl fmt::Display for SleepLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SleepLaw::Multiply(factor) => {
                let text = format!("x{}.{:06}", factor.get() / 1_000_000, factor.get() % 1_000_000);
                f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
            }
            SleepLaw::Add(step) => write!(f, "+{step}"),
        }
    }
}

impl Serialize for SleepLaw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for EstimatorPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EstimatorPlan { weight, low, high, sleep_min, sleep_max, law, fast_attack, stay, settle } = self;
        write!(f, "weight {weight} low {low} high {high} sleep_min {sleep_min} sleep_max ")?;
        match sleep_max {
            Some(time) => time.fmt(f)?,
            None => f.write_str("auto")?,
        }
        write!(f, " law {law} fast_attack {fast_attack} stay {stay} settle {settle}")
    }
}

impl EstimatorPlan {
    /// The range of packets that an estimator aims at where nothing is said: the paper's 8 to 12 for batches of 16, less
    /// for smaller ones. None: batches of one packet leave nothing to aim at.
    pub fn range(batch: Option<u16>) -> Option<(u16, u16)> {
        let high = batch.map_or(12, |batch| (batch / 4 * 3).max(batch.min(4).saturating_sub(1)).min(12));
        (high > 0).then_some((high - high / 3, high))
    }
}

impl Default for EstimatorPlan {
    fn default() -> EstimatorPlan {
        EstimatorPlan {
            weight: Parts::percent(25),
            low: 8,
            high: 12,
            sleep_min: Nanos::ZERO,
            sleep_max: None,
            law: SleepLaw::Multiply(Parts::percent(125)),
            fast_attack: true,
            stay: true,
            settle: true,
        }
    }
}

/// The processor and a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PathCpu {
    /// What it was promised; none: best effort.
    pub reservation: Option<Reservation>,
    /// Its forwarding task's part of the processor; none: it follows from the reservation, or best effort divides what is
    /// left.
    #[serde(serialize_with = "as_optional_text")]
    pub share: Option<Parts>,
    /// Under `throttle`: how long it waits for more packets; [`Nanos::MAX`] is for ever, none as [`CpuPlan::max_wait`] says.
    #[serde(serialize_with = "as_wait")]
    pub max_wait: Option<Nanos>,
    /// What a packet is said to cost; none: as its functions declare, then as measured.
    #[serde(serialize_with = "as_optional_text")]
    pub cost: Option<Cost>,
    /// A packet that takes longer is dropped, and counted; none: it may take as long as it takes.
    #[serde(serialize_with = "as_optional_text")]
    pub limit: Option<Nanos>,
    /// Whether its functions are interrupted when their slice is over, in the middle of a packet too.
    pub preemptible: bool,
}

/// What a path was promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Reservation {
    /// Packets a second; more than zero.
    #[serde(serialize_with = "as_text")]
    pub packets: PacketRate,
    /// The size of its packets, where it is said; it is where the rate was said in bits.
    #[serde(serialize_with = "as_optional_text")]
    pub size: Option<Bytes>,
    /// The rate in bits, where it was said so.
    #[serde(serialize_with = "as_optional_text")]
    pub rate: Option<Rate>,
    /// How long a packet may take through the router; none: no promise.
    #[serde(serialize_with = "as_optional_text")]
    pub delay: Option<Nanos>,
}

impl Reservation {
    /// The size that is reckoned with: the smallest frame of Ethernet where none is said.
    pub fn packet_size(&self) -> Bytes {
        self.size.unwrap_or(Bytes::new(64))
    }
}

/// What a packet costs: so much, and so much more for each byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// For any packet.
    pub packet: Nanos,
    /// For each 1000 bytes.
    pub kilobyte: Nanos,
}

impl Cost {
    /// What a packet of `size` bytes costs.
    pub fn of(self, size: Bytes) -> Nanos {
        self.packet + Nanos::new(self.kilobyte.get().saturating_mul(size.get()) / 1000)
    }
}

impl fmt::Display for Cost {
    /// As the configuration writes it: `1us + 2ns/b`, by the kilobyte of 1000 bytes where it is no whole number for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kilobyte.get(), self.packet) {
            (0, packet) => return packet.fmt(f),
            (_, Nanos::ZERO) => {}
            (_, packet) => write!(f, "{packet} + ")?,
        }
        let (whole, rest) = (self.kilobyte.get() / 1000, self.kilobyte.get() % 1000);
        let text = format!("{whole}.{rest:03}");
        write!(f, "{}ns/b", text.trim_end_matches('0').trim_end_matches('.'))
    }
}
