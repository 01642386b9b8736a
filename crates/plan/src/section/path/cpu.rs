//! Processor settings of a path: its reservation, the cost of its packets, and their time limits.

use crate::cost::Cost;
use crate::diagnostic::Report;
use crate::diff::{PropertyChange, edit, or_none};
use crate::document::{Section, Text};
use crate::named::{as_optional_text, as_text};
use crate::section::cpu::{MOST_PACKETS, MOST_WAIT, wait};
use crate::text::quote;
use serde::{Serialize, Serializer};
use units::{Bytes, Nanos, PacketRate, Parts, Rate, UnitError};

/// Limit of a configured cost per packet.
const MOST_COST: Nanos = Nanos::secs(1);

/// Serializes a time, or `none` for no limit.
fn as_wait<S: Serializer>(value: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(time) => serializer.collect_str(&wait_text(*time)),
        None => serializer.serialize_none(),
    }
}

/// A wait as in the configuration: `none` for no limit.
pub(crate) fn wait_text(time: Nanos) -> String {
    if time == Nanos::MAX { "none".to_string() } else { time.to_string() }
}

/// Processor settings of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PathCpu {
    /// Its reservation; `None`: best effort.
    pub reservation: Option<Reservation>,
    /// Its forwarding task's share of the processor. `None`: it follows from the reservation, or from the division of best effort.
    #[serde(serialize_with = "as_optional_text")]
    pub share: Option<Parts>,
    /// Under `throttle`: how long it waits for more packets. [`Nanos::MAX`] is without limit, `None` as `CpuPlan::max_wait` says.
    #[serde(serialize_with = "as_wait")]
    pub max_wait: Option<Nanos>,
    /// The configured cost of a packet; `None`: as its functions declare, then as measured.
    #[serde(serialize_with = "as_optional_text")]
    pub cost: Option<Cost>,
    /// Packets that take longer are dropped and counted; `None`: no limit.
    #[serde(serialize_with = "as_optional_text")]
    pub limit: Option<Nanos>,
    /// True if its functions are preempted at the end of their slice, also within a packet.
    pub preemptible: bool,
    /// True if flows can be reserved on it while the router runs. Its reservation is then the sum of theirs; the configuration states none.
    pub reservations: bool,
    /// True if the scheduler selects the next flow after each function, instead of after a batch of packets.
    pub interleave: bool,
}

/// The reservation of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Reservation {
    /// Packets a second; more than zero.
    #[serde(serialize_with = "as_text")]
    pub packets: PacketRate,
    /// The packet size, if configured. A rate in bits requires it.
    #[serde(serialize_with = "as_optional_text")]
    pub size: Option<Bytes>,
    /// The rate in bits, if configured so.
    #[serde(serialize_with = "as_optional_text")]
    pub rate: Option<Rate>,
    /// The delay bound through the router; `None`: no bound.
    #[serde(serialize_with = "as_optional_text")]
    pub delay: Option<Nanos>,
}

impl Reservation {
    /// The reservation of a path without reserved flows.
    pub const NO_FLOWS: Reservation = Reservation { packets: PacketRate::pps(1), size: None, rate: None, delay: None };

    /// The packet size for computations: the smallest Ethernet frame if it is not set.
    pub fn packet_size(&self) -> Bytes {
        self.size.unwrap_or(Bytes::new(64))
    }
}

/// Reads the processor settings of a path.
pub(super) fn check(report: &mut Report<'_>, section: &Section<'_>) -> PathCpu {
    let cpu = PathCpu {
        reservation: reservation(report, section),
        share: section.within(report, "cpu_share", Parts::millionths(1)..=Parts::ONE),
        max_wait: wait(report, section),
        cost: cost(report, section),
        limit: section.within(report, "cpu_limit", Nanos::new(1)..=MOST_COST),
        preemptible: section.boolean(report, "preemptible"),
        reservations: section.boolean(report, "reservations"),
        interleave: interleave(report, section),
    };
    let size = cpu.reservation.map_or(Bytes::new(64), |reservation| reservation.packet_size());
    if let (Some(limit), Some(cost), Some(node)) = (cpu.limit, cpu.cost, section.node("cpu_limit"))
        && cost.of(size) > limit
    {
        report.error(node.span, node.path, || {
            let reason =
                format!("a packet of {size} costs {}, more than the limit, and would be dropped", cost.of(size));
            (reason, "give a limit well above the cost".to_string())
        });
    }
    cpu
}

fn interleave(report: &mut Report<'_>, section: &Section<'_>) -> bool {
    let Some(node) = section.node("interleave").filter(|_| section.boolean(report, "interleave")) else { return false };
    let wrong = if !section.boolean(report, "reservations") {
        ("only flows can be interleaved, and none can be reserved on this path", "add reservations = true")
    } else if section.boolean(report, "preemptible") {
        ("functions of a preemptible path run in a thread of their own, in batches", "remove one of the two keys")
    } else {
        return true;
    };
    report.error(node.span, node.path, || (wrong.0.to_string(), wrong.1.to_string()));
    false
}

fn reservation(report: &mut Report<'_>, section: &Section<'_>) -> Option<Reservation> {
    if section.boolean(report, "reservations") {
        for node in
            ["reserve", "packet_size", "max_delay", "cpu_share"].into_iter().filter_map(|name| section.node(name))
        {
            report.error(node.span, node.path, || {
                let reason = "a path with 'reservations' reserves what its flows reserve".to_string();
                (reason, "remove the key, or use another path".to_string())
            });
        }
        return Some(Reservation::NO_FLOWS);
    }
    let size = section.within(report, "packet_size", Bytes::new(20)..=Bytes::new(65_549));
    let delay = section.within(report, "max_delay", Nanos::new(1)..=MOST_WAIT);
    let Some(text) = section.text(report, "reserve") else {
        for node in ["packet_size", "max_delay"].into_iter().filter_map(|name| section.node(name)) {
            report.error(node.span, node.path, || {
                let reason = "the key needs a reservation, but this path has none".to_string();
                (reason, "add the rate: reserve = \"49kpps\"".to_string())
            });
        }
        return None;
    };
    let (packets, rate) = reserve(report, &text, size)?;
    Some(Reservation { packets, size, rate, delay })
}

fn reserve(report: &mut Report<'_>, text: &Text<'_>, size: Option<Bytes>) -> Option<(PacketRate, Option<Rate>)> {
    let in_packets = text.value.trim_end().to_ascii_lowercase().ends_with("pps");
    let hint = || "write packets a second, like '49kpps', or bits with packet_size, like '10mbit'".to_string();
    let read = match (in_packets, size) {
        (true, _) => text.value.parse().map(|packets| (packets, None)).map_err(|error: UnitError| error.reason),
        (false, size) => match (text.value.parse::<Rate>(), size) {
            (Ok(rate), Some(size)) => Ok((PacketRate::of(rate, size), Some(rate))),
            (Ok(_), None) => {
                text.error(report, || {
                    let reason = "the processor cost of a rate in bits depends on the packet size".to_string();
                    (reason, "add packet_size = \"200b\", or write the rate in packets: '49kpps'".to_string())
                });
                return None;
            }
            (Err(error), _) if error.hint.contains("bps") => {
                text.error(report, || (error.reason, error.hint));
                return None;
            }
            (Err(_), _) => Err(format!("{} is no rate", quote(text.value))),
        },
    };
    let reason = match read {
        Err(reason) => reason,
        Ok((PacketRate::ZERO, _)) => "the reserved rate is zero".to_string(),
        Ok((packets, _)) if packets > MOST_PACKETS => format!("{packets} is more than any link carries"),
        Ok(read) => return Some(read),
    };
    text.error(report, || (reason, hint()));
    None
}

fn cost(report: &mut Report<'_>, section: &Section<'_>) -> Option<Cost> {
    let text = section.text(report, "cost")?;
    let read = text.value.parse::<Cost>();
    let (reason, hint) = match read {
        Err(error) => (error.reason, error.hint),
        Ok(cost) if cost.packet > MOST_COST || cost.kilobyte > MOST_COST => {
            (format!("{cost} is out of range"), "a packet costs at most a second".to_string())
        }
        Ok(cost) => return Some(cost),
    };
    text.error(report, || (reason, hint));
    None
}

pub(super) fn edits(old: &PathCpu, new: &PathCpu, what: &mut Vec<PropertyChange>) {
    let wait = |wait: Option<Nanos>| wait.map_or("as [cpu]".to_string(), wait_text);
    edit(what, "reservations", old.reservations, new.reservations);
    edit(what, "interleave", old.interleave, new.interleave);
    edit(what, "reserve", or_none(&rate_text(old)), or_none(&rate_text(new)));
    let of = |cpu: &PathCpu, get: fn(&Reservation) -> Option<String>| or_none(&cpu.reservation.as_ref().and_then(get));
    let size = |reservation: &Reservation| reservation.size.map(|size| size.to_string());
    edit(what, "packet_size", of(old, size), of(new, size));
    let delay = |reservation: &Reservation| reservation.delay.map(|delay| delay.to_string());
    edit(what, "max_delay", of(old, delay), of(new, delay));
    edit(what, "cpu_share", or_none(&old.share), or_none(&new.share));
    edit(what, "max_wait", wait(old.max_wait), wait(new.max_wait));
    edit(what, "cost", or_none(&old.cost), or_none(&new.cost));
    edit(what, "cpu_limit", or_none(&old.limit), or_none(&new.limit));
    edit(what, "preemptible", old.preemptible, new.preemptible);
}

/// The rate as configured: in bits or in packets.
fn rate_text(cpu: &PathCpu) -> Option<String> {
    cpu.reservation
        .filter(|_| !cpu.reservations)
        .map(|r| r.rate.map_or_else(|| r.packets.to_string(), |rate| rate.to_string()))
}
