//! Processor settings of a port: its share, its line rate, and the sleep of its input task (`[port.NAME.estimator]`).

use crate::diagnostic::Report;
use crate::diff::or_none;
use crate::document::Section;
use crate::key::{Form, Kind, PART, TIME};
use crate::named::{as_optional_text, as_text, named};
use crate::section::cpu::MOST_PACKETS;
use crate::table::{self, Value, table};
use crate::text::quote;
use serde::{Serialize, Serializer};
use std::fmt;
use units::{Nanos, PacketRate, Parts, UnitError};

/// Processor settings of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PortCpu {
    /// The share of its input task, if shares are explicit.
    #[serde(serialize_with = "as_optional_text")]
    pub share: Option<Parts>,
    /// The line rate in packets a second; `None`: from the device's rate and 64-byte frames, if it has one.
    #[serde(serialize_with = "as_optional_text")]
    pub line_rate: Option<PacketRate>,
    /// The treatment of packets whose path is full.
    pub congestion: Congestion,
    /// When its input task polls for packets; `None`: at each of its turns.
    pub estimator: Option<EstimatorPlan>,
    /// Without an estimator: true if the task keeps its turns while it finds nothing, as in the paper. Otherwise it backs off.
    pub greedy: bool,
}

table! {
    /// The queue estimator of a port: it determines how long its input task sleeps.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
    pub struct EstimatorPlan, pub(super) ESTIMATOR {
        /// The weight of the newest run in the average.
        #[serde(serialize_with = "as_text")]
        pub weight: Parts = (
            Kind::Quantity { form: PART, least: "1%", most: "100%" }, "\"25%\"", "\"25%\"",
            "The weight of the newest run in the average."
        );
        /// If runs find fewer packets than this on average, the sleep grows.
        pub low: u16 = (
            Kind::Integer { least: 1, most: 65_535 }, "", "8",
            "If runs find fewer packets than this on average, the sleep grows. The default is two thirds of `high`."
        ) by |_, _| 8;
        /// If runs find more packets than this on average, the sleep shrinks. Below the batch of an input task.
        pub high: u16 = (
            Kind::Integer { least: 1, most: 65_535 }, "", "12",
            "If runs find more packets than this on average, the sleep shrinks. It has to be below the batch of \
             `input`. The default is 12, or three quarters of a batch below 16."
        ) by |_, _| 12;
        /// The shortest sleep.
        #[serde(serialize_with = "as_text")]
        pub sleep_min: Nanos = (
            Kind::Quantity { form: TIME, least: "0s", most: "1s" }, "\"0s\"", "\"0s\"",
            "The shortest sleep."
        );
        /// The longest sleep; `None`: the size of the receive ring at the line rate.
        #[serde(serialize_with = "as_optional_text")]
        pub sleep_max: Option<Nanos> = (
            Kind::Quantity { form: TIME, least: "1ns", most: "1s" }, "", "\"343us\"",
            "The longest sleep, up to 1s. By default the receive ring less a batch, at the line rate."
        );
        /// How the sleep changes.
        pub law: SleepLaw = (
            Kind::Text(Form::Pattern(r"^ *(x *[0-9.]+|\+ *[0-9.]+ *[a-z]+) *$")), "\"x1.25\"", "\"+10us\"",
            "How the sleep changes: by a factor (`x1.25`), and at least by 1us, or by a step (`+10us`)."
        );
        /// True if one full run after the longest sleep ends it.
        pub fast_attack: bool = (
            Kind::Boolean, "true", "false",
            "If true, one full run after the longest sleep ends it."
        );
        /// True if the task runs again without sleep after a run that reached its limit.
        pub stay: bool = (
            Kind::Boolean, "true", "false",
            "If true, the task runs again without sleep after a run that reached its limit."
        );
        /// True if the sleep stays the same once a run is back in the range. Otherwise only the average decides.
        pub settle: bool = (
            Kind::Boolean, "true", "false",
            "If true, the sleep stays the same once a run is back in the range, even if the average is not. With \
             `false` only the average decides. The paper's law is `false` with `fast_attack = false` and `stay = \
             false`."
        );
    }
}

/// How an estimator changes its sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SleepLaw {
    /// Multiplied or divided by this, and by at least a microsecond.
    Multiply(Parts),
    /// Increased or decreased by this.
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
        let mut fields = self.fields();
        let follows = fields.iter_mut().filter(|(name, value)| *name == "sleep_max" && value == "none");
        follows.for_each(|(_, value)| *value = "auto".to_string());
        f.write_str(&table::text(&fields))
    }
}

impl EstimatorPlan {
    /// The default range of packets for an estimator: the paper's 8 to 12 for batches of 16, less for smaller batches. `None`: batches of one packet
    /// leave no range.
    pub fn range(batch: Option<u16>) -> Option<(u16, u16)> {
        let high = batch.map_or(12, |batch| (batch / 4 * 3).max(batch.min(4).saturating_sub(1)).min(12));
        (high > 0).then_some((high - high / 3, high))
    }
}

impl Default for EstimatorPlan {
    fn default() -> EstimatorPlan {
        table::defaults(ESTIMATOR, EstimatorPlan::read)
    }
}

impl PortCpu {
    /// As in the configuration: `false` without an estimator.
    pub(super) fn estimator_text(&self) -> String {
        if self.greedy { "false".to_string() } else { or_none(&self.estimator) }
    }
}

/// The treatment of packets whose path is full (section 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Congestion {
    /// They are received and dropped.
    #[default]
    Drop,
    /// The port stops receiving, and the card drops the excess at no cost.
    Throttle,
}

named! { Congestion { Drop "drop", Throttle "throttle" } }

/// Reads the processor settings of a port. The paths determine the default of its estimator.
pub(crate) fn check(report: &mut Report<'_>, section: &Section<'_>, batch: Option<u16>) -> PortCpu {
    PortCpu {
        share: section.within(report, "share", Parts::millionths(1)..=Parts::ONE),
        line_rate: section.within(report, "line_rate", PacketRate::pps(1)..=MOST_PACKETS),
        congestion: section.choice(report, "congestion", Congestion::ALL).unwrap_or_default(),
        estimator: estimator(report, section, batch),
        greedy: section.node("estimator").is_some_and(|node| node.boolean() == Some(false)),
    }
}

fn estimator(report: &mut Report<'_>, section: &Section<'_>, batch: Option<u16>) -> Option<EstimatorPlan> {
    let node = section.node("estimator")?;
    let range = EstimatorPlan::range(batch);
    let default = range.map(|(low, high)| EstimatorPlan { low, high, ..EstimatorPlan::default() });
    match (node.boolean(), default) {
        (Some(false), _) => return None,
        (Some(true), Some(default)) => return Some(default),
        (_, None) => {
            report.error(node.span, node.path, || {
                let reason = "an estimator needs batches of more than one packet".to_string();
                (reason, "raise the batch of [cpu] input, or write estimator = false".to_string())
            });
            return None;
        }
        (None, Some(_)) => {}
    }
    let default = default?;
    let section = node.section(report, ESTIMATOR, "estimator = true, or estimator = { high = 12 }")?;
    // The declared ranges fit the types.
    let mut number = |name| section.node(name).and_then(|_| section.integer(report, name)).map(|n| n as u16);
    let (low, high) = (number("low"), number("high"));
    let high = high.unwrap_or_else(|| default.high.max(low.unwrap_or(0)));
    let low = low.unwrap_or(high - high / 3);
    let plan = EstimatorPlan { low, high, ..EstimatorPlan::read(report, &section) };
    check_estimator(report, &section, &plan, batch);
    Some(plan)
}

/// Reports settings that disable an estimator (Q-32 of the paper's edge cases: an average never exceeds a batch).
fn check_estimator(report: &mut Report<'_>, section: &Section<'_>, plan: &EstimatorPlan, batch: Option<u16>) {
    let EstimatorPlan { low, high, sleep_min, sleep_max, .. } = *plan;
    if let Some(batch) = batch.filter(|batch| high >= *batch) {
        report.error(section.place("high"), section.path, || {
            let reason =
                format!("high is {high}, but a run has at most {batch} packets, so the average never exceeds it");
            (reason, format!("write high below {batch}, or raise the batch of [cpu] input"))
        });
    }
    if low > high {
        report.error(section.place("low"), section.path, || {
            (format!("low is {low}, above high, {high}"), "write low below high".to_string())
        });
    }
    if let Some(most) = sleep_max.filter(|most| *most < sleep_min) {
        report.error(section.place("sleep_max"), section.path, || {
            (format!("sleep_max is {most}, less than sleep_min, {sleep_min}"), "exchange them".into())
        });
    }
}

impl Value for SleepLaw {
    fn read(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Option<SleepLaw> {
        let text = section.text(report, name)?;
        let hint = "write a factor above 1 and up to 16, like 'x1.25', or a step, like '+10us'".to_string();
        law(text.value).map_err(|reason| text.error(report, || (reason, hint))).ok()
    }

    fn from_default(text: &'static str) -> Option<SleepLaw> {
        law(text).ok()
    }
}

/// Parses a law.
fn law(text: &str) -> Result<SleepLaw, String> {
    let value = text.trim();
    let law = match (value.strip_prefix('x'), value.strip_prefix('+')) {
        (Some(factor), _) => factor.parse().map(SleepLaw::Multiply).map_err(|error: UnitError| error.reason)?,
        (_, Some(step)) => step.parse().map(SleepLaw::Add).map_err(|error: UnitError| error.reason)?,
        _ => return Err(format!("{} is not a sleep law", quote(text))),
    };
    match law {
        SleepLaw::Multiply(factor) if factor <= Parts::ONE || factor > Parts::percent(1600) => {
            Err(format!("the factor {} is out of range", quote(&value[1..])))
        }
        SleepLaw::Add(Nanos::ZERO) => Err("a step of zero has no effect".to_string()),
        law => Ok(law),
    }
}
