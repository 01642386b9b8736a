//! How the processor's time is divided: the table `[cpu]`, and what ports and paths add to it.
//!
//! Terms and defaults follow Qie, Bavier, Peterson and Karlin, "Scheduling Computations on a Software-Based Router"
//! (SIGMETRICS 2001).

use units::{Bytes, Nanos, PacketRate, Parts, Rate};

/// How a worker divides its processor among its tasks. All of it may change while the router runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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
    pub switch_cost: Option<Nanos>,
    /// Under `throttle`: whether a task may wait for more packets than its queues hold.
    pub strict: bool,
    /// Under `throttle`: whether the fullest of the tasks that wait for more packets runs where nothing else would.
    pub harvest: bool,
    /// Under `throttle`: how long a task waits for more packets where its path says nothing; none: for ever.
    pub max_wait: Option<Nanos>,
    /// Whether and how overhead and slice of `throttle` follow the load.
    pub tune: Option<TunePlan>,
    /// What input tasks get of the processor.
    pub input_share: InputShare,
    /// What best effort gives its input, forwarding and output tasks, as a ratio; all zero: by what they cost.
    pub balance: [u32; 3],
    /// Which packets without a path of their own share one.
    pub best_effort: Grouping,
    /// The time that classifying a packet may take; more is counted. None: not looked at.
    pub classify_budget: Option<Nanos>,
    /// Whether plain forwarding is done in the input task.
    pub inline: bool,
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

/// How much a task does before another is chosen (section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batching {
    /// One packet.
    None,
    /// At most so many packets.
    Simple {
        /// At least 1.
        packets: u16,
    },
    /// At most so many packets, and no new one after so long.
    Timeslice {
        /// At least 1.
        packets: u16,
        /// More than zero.
        slice: Nanos,
    },
    /// Nothing until there are so many packets that changing to the task costs at most `overhead` of what it does then;
    /// after that no new packet after `slice`.
    Throttle {
        /// More than zero.
        overhead: Parts,
        /// At least what a switch costs divided by the overhead.
        slice: Nanos,
    },
}

impl Default for Batching {
    /// As much as keeps both the overhead of small packets and the wait behind dear functions low.
    fn default() -> Batching {
        Batching::Timeslice { packets: 256, slice: Nanos::micros(100) }
    }
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunePlan {
    /// How often they are set.
    pub period: Nanos,
    /// The least overhead: under the highest load.
    pub least: Parts,
    /// The most: under little load.
    pub most: Parts,
    /// How much more than the present load there is to be room for.
    pub margin: Parts,
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

/// The processor and a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCpu {
    /// What its input task gets, where shares are explicit.
    pub share: Option<Parts>,
    /// Packets a second that the line may bring; none: from the rate of the device and 64-byte frames, where it has one.
    pub line_rate: Option<PacketRate>,
    /// What becomes of packets whose path is full.
    pub congestion: Congestion,
    /// When its input task looks for packets; none: always.
    pub estimator: Option<EstimatorPlan>,
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EstimatorPlan {
    /// The weight of the newest run in the average.
    pub weight: Parts,
    /// Where a run finds fewer on average it sleeps longer, packets.
    pub low: u16,
    /// Where a run finds more on average it sleeps less; below the batch of an input task, packets.
    pub high: u16,
    /// The shortest sleep.
    pub sleep_min: Nanos,
    /// The longest sleep; none: what the receive ring holds at the line's rate.
    pub sleep_max: Option<Nanos>,
    /// How sleep changes.
    pub law: SleepLaw,
    /// Whether one full run after the longest sleep ends it.
    pub fast_attack: bool,
    /// Whether there is no sleep after a run that its limit has ended.
    pub stay: bool,
}

/// How an estimator changes its sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SleepLaw {
    /// Times or divided by this; at least a microsecond more or less.
    Multiply(Parts),
    /// So much more or less.
    Add(Nanos),
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
        }
    }
}

/// The processor and a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathCpu {
    /// What it was promised; none: best effort.
    pub reservation: Option<Reservation>,
    /// Its forwarding task's part of the processor; none: it follows from the reservation, or best effort divides what is
    /// left.
    pub share: Option<Parts>,
    /// Under `throttle`: how long it waits for more packets.
    pub max_wait: Option<Nanos>,
    /// What a packet is said to cost; none: as its functions declare, then as measured.
    pub cost: Option<Cost>,
    /// A packet that takes longer is dropped, and counted; none: it may take as long as it takes.
    pub limit: Option<Nanos>,
}

/// What a path was promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// Packets a second; more than zero.
    pub packets: PacketRate,
    /// The size of a packet that the rate was said in bits for; none where it was said in packets.
    pub size: Option<Bytes>,
    /// The rate in bits, where it was said so.
    pub rate: Option<Rate>,
    /// How long a packet may take through the router; none: no promise.
    pub delay: Option<Nanos>,
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
