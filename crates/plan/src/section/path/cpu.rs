//! `[cpu]`, and what ports and paths add to it.

use crate::cpu::{
    Admission, Batching, Charge, Congestion, Cost, CpuPlan, Discipline, EstimatorPlan, Grouping, InputShare, Layout,
    PathCpu, PortCpu, Receive, Reservation, SleepLaw, TunePlan,
};
use crate::diagnostic::Report;
use crate::document::{Section, Text};
use crate::keys::{CPU, ESTIMATOR, TUNE};
use crate::text::quote;
use std::ops::RangeInclusive;
use units::{Bytes, Nanos, PacketRate, Parts, Rate, UnitError};

/// A packet that takes longer than this is no packet's business.
const MOST_COST: Nanos = Nanos::secs(1);
/// More packets a second than the fastest link brings.
const MOST_PACKETS: PacketRate = PacketRate::pps(1_000_000_000);
const MOST_WAIT: Nanos = Nanos::secs(10);

pub(super) fn read(report: &mut Report<'_>, root: &Section<'_>) -> CpuPlan {
    let mut cpu = CpuPlan::default();
    let Some(section) = root.node("cpu").and_then(|node| node.section(report, CPU, "[cpu]")) else { return cpu };
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
    cpu.switch_cost = time(report, &section, "switch_cost", Nanos::ZERO..=Nanos::millis(10));
    cpu.strict = section.boolean(report, "strict");
    cpu.harvest = section.boolean(report, "harvest");
    cpu.max_wait = wait(report, &section).filter(|time| *time != Nanos::MAX);
    cpu.tune = section.node("tune").and_then(|_| tune(report, &section));
    cpu.input_share = section.choice(report, "input_share", InputShare::ALL).unwrap_or_default();
    cpu.balance = balance(report, &section);
    cpu.best_effort = section.choice(report, "best_effort", Grouping::ALL).unwrap_or_default();
    cpu.admission = section.choice(report, "admission", Admission::ALL).unwrap_or_default();
    cpu.classify_budget = time(report, &section, "classify_budget", Nanos::new(1)..=MOST_COST);
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

/// A quantity within a range. None: left out or reported.
pub(super) fn within<T>(
    report: &mut Report<'_>,
    section: &Section<'_>,
    name: &'static str,
    range: RangeInclusive<T>,
) -> Option<T>
where
    T: std::str::FromStr<Err = UnitError> + PartialOrd + std::fmt::Display,
{
    let value: T = section.parsed(report, name)?;
    if range.contains(&value) {
        return Some(value);
    }
    section
        .text(report, name)?
        .error(report, || (format!("{value} is out of range"), format!("give {} to {}", range.start(), range.end())));
    None
}

pub(super) fn time(
    report: &mut Report<'_>,
    section: &Section<'_>,
    name: &'static str,
    range: RangeInclusive<Nanos>,
) -> Option<Nanos> {
    within(report, section, name, range)
}

/// `max_wait`: [`Nanos::MAX`] for `none`. None: left out or reported.
fn wait(report: &mut Report<'_>, section: &Section<'_>) -> Option<Nanos> {
    match section.text(report, "max_wait")?.value.trim() {
        "none" => Some(Nanos::MAX),
        _ => time(report, section, "max_wait", Nanos::new(1)..=MOST_WAIT),
    }
}

fn tune(report: &mut Report<'_>, section: &Section<'_>) -> Option<TunePlan> {
    let section = section.node("tune")?.section(report, TUNE, "tune = { period = \"10ms\" }")?;
    let default = TunePlan::default();
    let overhead = Parts::millionths(1)..=Parts::ONE;
    let period = time(report, &section, "period", Nanos::micros(100)..=MOST_WAIT).unwrap_or(default.period);
    let least = within(report, &section, "least", overhead.clone()).unwrap_or(default.least);
    let most = within(report, &section, "most", overhead).unwrap_or(default.most);
    let margin = within(report, &section, "margin", Parts::default()..=Parts::ONE).unwrap_or(default.margin);
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

/// What a port says. Its estimator, where it is not said, follows from the paths.
pub(super) fn port(report: &mut Report<'_>, section: &Section<'_>, batch: Option<u16>) -> PortCpu {
    PortCpu {
        share: within(report, section, "share", Parts::millionths(1)..=Parts::ONE),
        line_rate: within(report, section, "line_rate", PacketRate::pps(1)..=MOST_PACKETS),
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
                let reason = "batches of one packet leave an estimator nothing to aim at".to_string();
                (reason, "let [cpu] input take more packets at once, or write estimator = false".to_string())
            });
            return None;
        }
        (None, Some(_)) => {}
    }
    let default = default?;
    let section = node.section(report, ESTIMATOR, "estimator = true, or estimator = { high = 12 }")?;
    // The declared ranges are within the types.
    let mut number = |name| section.node(name).and_then(|_| section.integer(report, name)).map(|n| n as u16);
    let (low, high) = (number("low"), number("high"));
    let high = high.unwrap_or_else(|| default.high.max(low.unwrap_or(0)));
    let low = low.unwrap_or(high - high / 3);
    let plan = EstimatorPlan {
        weight: within(report, &section, "weight", Parts::percent(1)..=Parts::ONE).unwrap_or(default.weight),
        low,
        high,
        sleep_min: time(report, &section, "sleep_min", Nanos::ZERO..=MOST_COST).unwrap_or(default.sleep_min),
        sleep_max: time(report, &section, "sleep_max", Nanos::new(1)..=MOST_COST),
        law: law(report, &section).unwrap_or(default.law),
        fast_attack: section.boolean(report, "fast_attack"),
        stay: section.boolean(report, "stay"),
        settle: section.boolean(report, "settle"),
    };
    check_estimator(report, &section, &plan, batch);
    Some(plan)
}

/// What would keep an estimator from doing its work (Q-32 of the paper's edge cases: an average never exceeds a batch).
fn check_estimator(report: &mut Report<'_>, section: &Section<'_>, plan: &EstimatorPlan, batch: Option<u16>) {
    let place = |name| section.node(name).map_or(section.span.clone(), |node| node.span);
    let EstimatorPlan { low, high, sleep_min, sleep_max, .. } = *plan;
    if let Some(batch) = batch.filter(|batch| high >= *batch) {
        report.error(place("high"), section.path, || {
            let reason = format!("a run takes {batch} packets at most, and so never more than {high} on average");
            (reason, format!("give high below {batch}, or let [cpu] input take more packets at once"))
        });
    }
    if low > high {
        report.error(place("low"), section.path, || {
            (format!("low, {low}, is above high, {high}"), "give low below high".to_string())
        });
    }
    if let Some(most) = sleep_max.filter(|most| *most < sleep_min) {
        report.error(place("sleep_max"), section.path, || {
            (format!("the longest sleep, {most}, is shorter than the shortest, {sleep_min}"), "exchange them".into())
        });
    }
}

fn law(report: &mut Report<'_>, section: &Section<'_>) -> Option<SleepLaw> {
    let text = section.text(report, "law")?;
    let hint = || "write a factor above 1 and up to 16, as 'x1.25', or a step, as '+10us'".to_string();
    let value = text.value.trim();
    let read = match (value.strip_prefix('x'), value.strip_prefix('+')) {
        (Some(factor), _) => factor.parse::<Parts>().map(SleepLaw::Multiply).map_err(|error| error.reason),
        (_, Some(step)) => step.parse::<Nanos>().map(SleepLaw::Add).map_err(|error| error.reason),
        _ => Err(format!("{} is no law of sleep", quote(text.value))),
    };
    let reason = match read {
        Err(reason) => reason,
        Ok(SleepLaw::Multiply(factor)) if factor <= Parts::ONE || factor > Parts::percent(1600) => {
            format!("times {} is no growth that works", quote(&value[1..]))
        }
        Ok(SleepLaw::Add(Nanos::ZERO)) => "a step of nothing changes nothing".to_string(),
        Ok(law) => return Some(law),
    };
    text.error(report, || (reason, hint()));
    None
}

/// What a path says.
pub(super) fn path(report: &mut Report<'_>, section: &Section<'_>) -> PathCpu {
    let cpu = PathCpu {
        reservation: reservation(report, section),
        share: within(report, section, "share", Parts::millionths(1)..=Parts::ONE),
        max_wait: wait(report, section),
        cost: cost(report, section),
        limit: time(report, section, "limit", Nanos::new(1)..=MOST_COST),
        preemptible: section.boolean(report, "preemptible"),
    };
    let size = cpu.reservation.map_or(Bytes::new(64), |reservation| reservation.packet_size());
    if let (Some(limit), Some(cost), Some(node)) = (cpu.limit, cpu.cost, section.node("limit"))
        && cost.of(size) > limit
    {
        report.error(node.span, node.path, || {
            let reason = format!("a packet of {size} costs {}, and would be dropped for it", cost.of(size));
            (reason, "give a limit well above the cost".to_string())
        });
    }
    cpu
}

fn reservation(report: &mut Report<'_>, section: &Section<'_>) -> Option<Reservation> {
    let size = within(report, section, "packet", Bytes::new(20)..=Bytes::new(65_549));
    let delay = time(report, section, "delay", Nanos::new(1)..=MOST_WAIT);
    let Some(text) = section.text(report, "reserve") else {
        for node in ["packet", "delay"].into_iter().filter_map(|name| section.node(name)) {
            report.error(node.span, node.path, || {
                let reason = "it is part of a promise, and this path has none".to_string();
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
    let hint = || "write packets a second, as '49kpps', or bits with the size of a packet, as '10mbit'".to_string();
    let read = match (in_packets, size) {
        (true, _) => text.value.parse().map(|packets| (packets, None)).map_err(|error: UnitError| error.reason),
        (false, size) => match (text.value.parse::<Rate>(), size) {
            (Ok(rate), Some(size)) => Ok((PacketRate::of(rate, size), Some(rate))),
            (Ok(_), None) => {
                text.error(report, || {
                    let reason = "what bits cost the processor depends on the size of a packet".to_string();
                    (reason, "add packet = \"200b\", or write the rate in packets: '49kpps'".to_string())
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
        Ok((PacketRate::ZERO, _)) => "a promise of nothing is none".to_string(),
        Ok((packets, _)) if packets > MOST_PACKETS => format!("{packets} is more than any link brings"),
        Ok(read) => return Some(read),
    };
    text.error(report, || (reason, hint()));
    None
}

fn cost(report: &mut Report<'_>, section: &Section<'_>) -> Option<Cost> {
    let text = section.text(report, "cost")?;
    let read = parse_cost(text.value);
    let (reason, hint) = match read {
        Err(error) => (error.reason, error.hint),
        Ok(cost) if cost.packet > MOST_COST || cost.kilobyte > MOST_COST => {
            (format!("{cost} is out of range"), "a packet costs a second at most".to_string())
        }
        Ok(cost) => return Some(cost),
    };
    text.error(report, || (reason, hint));
    None
}

/// `6us`, `1us + 2ns/b` or `2ns/b`.
fn parse_cost(text: &str) -> Result<Cost, UnitError> {
    let hint = || "write '6us', '1us + 2ns/b' or '2ns/b'".to_string();
    let wrong = |error: UnitError| UnitError { reason: error.reason, hint: hint() };
    let mut cost = Cost::default();
    let parts: Vec<&str> = text.split('+').collect();
    if parts.len() > 2 || (parts.len() == 2 && !parts[1].contains('/')) {
        return Err(UnitError { reason: format!("{} is no cost", quote(text)), hint: hint() });
    }
    for part in parts {
        let Some((time, byte)) = part.split_once('/') else {
            cost.packet = part.parse().map_err(wrong)?;
            continue;
        };
        if byte.trim() != "b" || cost.kilobyte != Nanos::ZERO {
            return Err(UnitError { reason: format!("{} is no cost of a byte", quote(part.trim())), hint: hint() });
        }
        // What a byte costs in one unit, a thousand cost in the next: so fractions of a nanosecond are exact.
        let time = time.trim();
        let (number, unit) = time.split_at(time.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(time.len()));
        let larger = match unit {
            "ns" => "us",
            "us" => "ms",
            _ => {
                return Err(UnitError { reason: format!("{} is no cost of a byte", quote(part.trim())), hint: hint() });
            }
        };
        cost.kilobyte = format!("{number}{larger}").parse().map_err(wrong)?;
    }
    Ok(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn costs_are_a_time_and_a_time_for_each_byte() {
        let cost = |packet, kilobyte| Ok(Cost { packet: Nanos::new(packet), kilobyte: Nanos::new(kilobyte) });
        assert_eq!(parse_cost("6us"), cost(6_000, 0));
        assert_eq!(parse_cost("1us + 2ns/b"), cost(1_000, 2_000));
        assert_eq!(parse_cost("0.25 ns / b"), cost(0, 250));
        assert_eq!(parse_cost("1.5us+0.001ns/b"), cost(1_500, 1));
        for wrong in ["", "6", "2ns/b + 1us", "1us + 2us", "1us+1ns/b+1ns/b", "1ns/kb", "1s/b", "-1us", "1ns/b + 1ns/b"]
        {
            assert!(parse_cost(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn costs_read_back_as_printed(packet in 0u64..1 << 40, kilobyte in 0u64..1 << 40) {
            let cost = Cost { packet: Nanos::new(packet), kilobyte: Nanos::new(kilobyte) };
            prop_assert_eq!(parse_cost(&cost.to_string()).unwrap(), cost);
        }

        #[test]
        fn no_cost_panics(text in "[0-9nsu/b+. é]{0,20}") {
            let _ = parse_cost(&text);
        }
    }
}
