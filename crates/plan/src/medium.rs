//! The description of one direction of a link: its rate, its delay, and its impairments.
//!
//! Links of simulated worlds and the `link` of a real port use the same keys, which [`MediumPlan::read`] parses. `link::medium` implements them. The
//! semantics of traces are those of the published tools (spec N-31).

use crate::named::named;
use crate::{Call, Report, TextError, did_you_mean, quote};
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Bytes, Nanos, Pace, PacketRate, Parts, Rate, UnitError};

/// One direction of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediumPlan {
    /// When it sends packets.
    pub service: LinkService,
    /// The propagation delay after a packet's last bit has left.
    pub delay: Nanos,
    /// The largest additional delay, drawn for each packet.
    pub jitter: Nanos,
    /// Which packets are lost.
    pub loss: Loss,
    /// The fraction of packets that is duplicated.
    pub duplicate: Parts,
    /// The fraction of packets that is delayed, so that later packets overtake them.
    pub reorder: Parts,
    /// The additional delay of those packets.
    pub reorder_by: Nanos,
    /// Additional bytes of a packet on the link. On Ethernet these are check sequence, preamble and gap, 24 bytes. The value is negative if only IP
    /// packets count: the 14 bytes of the header less.
    pub overhead: i32,
}

impl Default for MediumPlan {
    fn default() -> MediumPlan {
        MediumPlan {
            service: LinkService::Constant(Rate::MAX),
            delay: Nanos::ZERO,
            jitter: Nanos::ZERO,
            loss: Loss::default(),
            duplicate: Parts::default(),
            reorder: Parts::default(),
            reorder_by: Nanos::millis(1),
            overhead: ETHERNET,
        }
    }
}

/// Ethernet's overhead per frame.
const ETHERNET: i32 = 24;
/// The largest difference between a packet's size on a link and in memory, in bytes.
const MOST_OVERHEAD: i32 = 4096;

/// When a link sends packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkService {
    /// At a constant rate; [`Rate::MAX`] for no limit.
    Constant(Rate),
    /// At a rate, with a burst of this many bytes after an idle time.
    Bucket(Rate, Bytes),
    /// At recorded times.
    Trace(TracePlan),
    /// Each packet after an exponentially distributed time.
    Poisson(Pace),
    /// As a Poisson process whose rate changes in a random walk.
    Brownian(BrownianPlan),
}

/// A recorded link: the milliseconds at which it could send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracePlan {
    /// The source of the times.
    pub source: TraceSource,
    /// The capacity of an opportunity.
    pub mode: TraceMode,
    /// The behaviour after the last opportunity.
    pub end: TraceEnd,
}

/// The source of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceSource {
    /// In a file.
    File(String),
    /// Generated, like those of a moving mobile phone.
    Lte {
        /// The average rate, in opportunities of 1500 bytes.
        mean: Rate,
        /// Its duration.
        length: Nanos,
        /// The seed of the random numbers.
        seed: u64,
    },
}

/// The capacity of an opportunity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceMode {
    /// One packet of any size. The link takes it from the queue as soon as the previous one has left, and holds it until the opportunity.
    Packet,
    /// This many bytes: as many packets as fit, and the first part of one more, whose rest follows with the next opportunity.
    Bytes(u32),
}

named! {
    TraceEnd { Repeat "repeat", Stop "stop", Error "error" }
}

/// The behaviour after the last opportunity of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TraceEnd {
    /// The trace repeats. The time of the last opportunity becomes its new time zero.
    #[default]
    Repeat,
    /// The link sends no more.
    Stop,
    /// The link sends no more, and that is an error.
    Error,
}

/// A rate in a random walk: each second it changes by a normally distributed step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrownianPlan {
    /// The rate of the first second.
    pub start: PacketRate,
    /// The standard deviation of a step.
    pub sigma: PacketRate,
    /// The upper bound.
    pub most: PacketRate,
}

/// Random losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Independent losses with this probability.
    Independent(Parts),
    /// Losses in two states, good and bad (Gilbert 1960, Elliott 1963). All probabilities are per packet.
    Gilbert {
        /// The probability that the bad state begins.
        begin: Parts,
        /// The probability that the bad state ends.
        end: Parts,
        /// The loss probability in the good state.
        good: Parts,
        /// The loss probability in the bad state.
        bad: Parts,
    },
}

impl Default for Loss {
    fn default() -> Loss {
        Loss::Independent(Parts::default())
    }
}

/// One key of a link with its text.
#[derive(Clone, Debug)]
pub struct MediumText<'t> {
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub text: &'t str,
    /// Its position in the file.
    pub span: Range<usize>,
}

const fn option(
    name: &'static str,
    unit: Unit,
    default: &'static str,
    (least, most): (u64, u64),
    doc: &'static str,
) -> OptionDeclaration {
    OptionDeclaration { name, unit, default, least, most, doc }
}

const WHOLE: (u64, u64) = (0, 1_000_000);

/// The form of `loss` besides a fraction.
const GILBERT: Declaration = Declaration {
    name: "gilbert",
    summary: "losses in bursts",
    source: "Gilbert 1960, Elliott 1963",
    cost: DeclaredCost::None,
    options: &[
        option("begin", Unit::Part, "1%", WHOLE, "The probability that a burst of losses begins with a packet."),
        option("end", Unit::Part, "30%", (1, 1_000_000), "The probability that a burst of losses ends with a packet."),
        option("good", Unit::Part, "0%", WHOLE, "The loss probability outside of bursts."),
        option("bad", Unit::Part, "100%", WHOLE, "The loss probability within bursts."),
    ],
};

/// The form of `trace` besides a file.
const LTE: Declaration = Declaration {
    name: "lte",
    summary: "a generated trace, like that of a moving mobile phone",
    source: "Winstein, Sivaraman, Balakrishnan, NSDI 2013",
    cost: DeclaredCost::None,
    options: &[
        option(
            "mean",
            Unit::Rate,
            "5mbit",
            (12_000, 1_000_000_000),
            "The average rate, with opportunities of 1500 bytes.",
        ),
        option("length", Unit::Time, "140s", (1_000_000_000, 3_600_000_000_000), "The length of the trace."),
        option("seed", Unit::Count, "1", (0, i64::MAX as u64), "The seed of the random choices."),
    ],
};

/// Keys that select the service: at most one of them.
const SERVICES: [&str; 4] = ["rate", "trace", "poisson", "brownian"];
/// Keys with details, and the keys that they refine.
const DETAILS: [(&str, &str); 6] = [
    ("burst", "rate"),
    ("mode", "trace"),
    ("end", "trace"),
    ("sigma", "brownian"),
    ("most", "brownian"),
    ("reorder_by", "reorder"),
];

impl MediumPlan {
    /// The link that `texts` describe, with missing keys from `base`. Errors are reported; `path` is the link's name in messages.
    pub fn read(report: &mut Report<'_>, path: &str, texts: &[MediumText<'_>], base: &MediumPlan) -> MediumPlan {
        let mut reader = Reader { report, path, texts };
        reader.report_exclusive_keys();
        let service = reader.service().unwrap_or_else(|| base.service.clone());
        // If IP packets count, follow the published tools: cellsim has 1500 bytes, mahimahi adds four of a tunnel device.
        let usual = match &service {
            LinkService::Trace(TracePlan { mode: TraceMode::Bytes(1504), .. }) => -10,
            LinkService::Trace(_) => -14,
            _ => base.overhead,
        };
        MediumPlan {
            service,
            delay: reader.quantity("delay").unwrap_or(base.delay),
            jitter: reader.quantity("jitter").unwrap_or(base.jitter),
            loss: reader.read("loss", loss).unwrap_or(base.loss),
            duplicate: reader.read("duplicate", part).unwrap_or(base.duplicate),
            reorder: reader.read("reorder", part).unwrap_or(base.reorder),
            reorder_by: reader.quantity("reorder_by").unwrap_or(base.reorder_by),
            overhead: reader.read("overhead", overhead).unwrap_or(usual),
        }
    }
}

/// Reason and hint of an error in a text.
type ReasonAndHint = (String, String);

struct Reader<'r, 's, 't> {
    report: &'r mut Report<'s>,
    path: &'r str,
    texts: &'r [MediumText<'t>],
}

impl<'t> Reader<'_, '_, 't> {
    fn text(&self, key: &str) -> Option<MediumText<'t>> {
        self.texts.iter().find(|text| text.key == key).cloned()
    }

    fn read<T>(&mut self, key: &str, read: impl FnOnce(&str) -> Result<T, ReasonAndHint>) -> Option<T> {
        let MediumText { text, span, .. } = self.text(key)?;
        let read = read(text);
        read.map_err(|wrong| self.report.error(span, format!("{}.{key}", self.path), || wrong)).ok()
    }

    fn quantity<T: FromStr<Err = UnitError>>(&mut self, key: &str) -> Option<T> {
        self.read(key, quantity)
    }

    /// Reports keys that exclude each other.
    fn report_exclusive_keys(&mut self) {
        let mut given = SERVICES.iter().filter_map(|key| self.text(key));
        if let Some(first) = given.next()
            && let Some(second) = given.next()
        {
            let reason = format!("'{}' and '{}' both set the rate of the link", first.key, second.key);
            let path = format!("{}.{}", self.path, second.key);
            self.report.error(second.span, path, || (reason, "remove one of the two".into()));
        }
        for (detail, of) in DETAILS {
            if let Some(text) = self.text(detail).filter(|_| self.text(of).is_none()) {
                let say = || (format!("'{detail}' requires '{of}', which is missing"), format!("add {of}"));
                self.report.error(text.span, format!("{}.{detail}", self.path), say);
            }
        }
    }

    fn service(&mut self) -> Option<LinkService> {
        if let Some(rate) = self.read("rate", rate) {
            return Some(match self.quantity::<Bytes>("burst") {
                Some(burst) => LinkService::Bucket(rate, burst),
                None => LinkService::Constant(rate),
            });
        }
        if let Some(source) = self.read("trace", trace) {
            let mode = self.read("mode", mode).unwrap_or(TraceMode::Bytes(1504));
            let end = self.read("end", end).unwrap_or_default();
            return Some(LinkService::Trace(TracePlan { source, mode, end }));
        }
        if let Some(pace) = self.quantity("poisson") {
            return Some(LinkService::Poisson(pace));
        }
        let start = self.quantity("brownian")?;
        let sigma = self.quantity("sigma").unwrap_or(PacketRate::pps(100));
        let most = self.quantity("most").unwrap_or(PacketRate::pps(1250));
        if start > most || (start, sigma) == (PacketRate::ZERO, PacketRate::ZERO) {
            let span = self.text("brownian")?.span;
            let reason = format!("a rate cannot vary from {start} in steps of {sigma} up to {most}");
            let hint = "write brownian = \"500pps\", sigma = \"100pps\", most = \"1250pps\"".into();
            self.report.error(span, format!("{}.brownian", self.path), || (reason, hint));
        }
        Some(LinkService::Brownian(BrownianPlan { start, sigma, most }))
    }
}

fn quantity<T: FromStr<Err = UnitError>>(text: &str) -> Result<T, ReasonAndHint> {
    text.parse().map_err(|error: UnitError| (error.reason, error.hint))
}

fn rate(text: &str) -> Result<Rate, ReasonAndHint> {
    match quantity(text)? {
        Rate::ZERO => {
            Err(("a link with rate zero sends no packets".into(), "write a rate above zero, or leave it out".into()))
        }
        rate => Ok(rate),
    }
}

/// Parses a fraction of the packets. A bare number is refused, because it is ambiguous: tc reads 1 as 1 %, others as all packets.
fn part(text: &str) -> Result<Parts, ReasonAndHint> {
    if let Some(hint) = ambiguous(text) {
        return Err((format!("{} is ambiguous: a percentage or a fraction", quote(text)), hint));
    }
    let part: Parts = quantity(text)?;
    if part > Parts::ONE { Err((format!("{part} is more than 100%"), "write at most 100%".into())) } else { Ok(part) }
}

/// The hint for a bare number above zero.
fn ambiguous(text: &str) -> Option<String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| *number > 0.0)?;
    Some(match number <= 1.0 {
        // Keep the decimals as written.
        true => format!("write {}% or {}%", text.trim(), (number * 1e8).round() / 1e6),
        false => format!("write {}%", text.trim()),
    })
}

fn parse_call(text: &str, declaration: Declaration, what: &str) -> Result<Call, ReasonAndHint> {
    Call::parse(text, &[declaration], what).map_err(|TextError { reason, hint, .. }| (reason, hint))
}

fn loss(text: &str) -> Result<Loss, ReasonAndHint> {
    if !text.trim_start().starts_with(|c: char| c.is_ascii_alphabetic()) {
        return part(text).map(Loss::Independent);
    }
    let call = parse_call(text, GILBERT, "kind of loss")?;
    let values = text.split(['(', ')', ',']).filter_map(|option| option.split_once('='));
    if let Some((name, value, hint)) = values.filter_map(|(name, value)| Some((name, value, ambiguous(value)?))).next()
    {
        let reason = format!("{name} of {} is ambiguous: a percentage or a fraction", quote(value.trim()));
        return Err((reason, hint));
    }
    let part = |name| Parts::millionths(call.option(name).unwrap_or(0) as u32);
    Ok(Loss::Gilbert { begin: part("begin"), end: part("end"), good: part("good"), bad: part("bad") })
}

fn trace(text: &str) -> Result<TraceSource, ReasonAndHint> {
    if text.is_empty() {
        return Err((
            "the file name is empty".into(),
            "write trace = \"FILE\", or trace = \"lte\" for a generated trace".into(),
        ));
    }
    if text != LTE.name && !text.starts_with("lte(") {
        return Ok(TraceSource::File(text.to_owned()));
    }
    let call = parse_call(text, LTE, "generated trace")?;
    let value = |name| call.option(name).unwrap_or(0);
    let (mean, length) = (Rate::bits(value("mean")), Nanos::new(value("length")));
    Ok(TraceSource::Lte { mean, length, seed: value("seed") })
}

fn mode(text: &str) -> Result<TraceMode, ReasonAndHint> {
    if text == "packet" {
        return Ok(TraceMode::Packet);
    }
    let bytes = text.strip_prefix("bytes(").and_then(|rest| rest.strip_suffix(')'));
    match bytes.and_then(|bytes| bytes.parse().ok()).filter(|bytes| (1..=65_536).contains(bytes)) {
        Some(bytes) => Ok(TraceMode::Bytes(bytes)),
        None => Err((
            format!("{} is not a capacity of an opportunity", quote(text)),
            "write \"packet\", \"bytes(1500)\" or \"bytes(1504)\"".into(),
        )),
    }
}

fn end(text: &str) -> Result<TraceEnd, ReasonAndHint> {
    TraceEnd::ALL.iter().find(|end| end.name() == text).copied().ok_or_else(|| {
        (format!("{} is not a value of 'end'", quote(text)), did_you_mean(text, TraceEnd::NAMES.iter().copied()))
    })
}

fn overhead(text: &str) -> Result<i32, ReasonAndHint> {
    let (sign, size) = match text.trim().strip_prefix('-') {
        Some(size) => (-1, size),
        None => (1, text),
    };
    let bytes: Bytes = quantity(size)?;
    let bytes = i32::try_from(bytes.get()).ok().filter(|bytes| *bytes <= MOST_OVERHEAD);
    let hint =
        format!("write {MOST_OVERHEAD}b at most; \"-14b\" counts only the IP packet, \"24b\" adds Ethernet's overhead");
    bytes.map(|bytes| sign * bytes).ok_or_else(|| (format!("{} is too much", quote(text)), hint))
}

impl MediumPlan {
    /// The keys that describe it, each with its text, without those at their default.
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        let mut keys = self.service.keys();
        let usual = MediumPlan::default();
        let mut add = |key: &'static str, said: bool, value: &dyn fmt::Display| {
            if said {
                keys.push((key, value.to_string()));
            }
        };
        add("delay", self.delay != usual.delay, &self.delay);
        add("jitter", self.jitter != usual.jitter, &self.jitter);
        add("loss", self.loss != usual.loss, &self.loss);
        add("duplicate", self.duplicate != usual.duplicate, &self.duplicate);
        add("reorder", self.reorder != usual.reorder, &self.reorder);
        add("reorder_by", self.reorder_by != usual.reorder_by, &self.reorder_by);
        add("overhead", self.overhead != usual.overhead, &format_args!("{}b", self.overhead));
        keys
    }
}

impl fmt::Display for MediumPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys();
        let of_service = self.service.keys().len();
        write!(f, "{}", self.service)?;
        keys[of_service..].iter().try_for_each(|(key, value)| write!(f, " {key} {value}"))
    }
}

impl Serialize for MediumPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl LinkService {
    /// The keys that describe it, each with its text; none for an unlimited link.
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        match self {
            LinkService::Constant(Rate::MAX) => Vec::new(),
            LinkService::Constant(rate) => vec![("rate", rate.to_string())],
            LinkService::Bucket(rate, burst) => vec![("rate", rate.to_string()), ("burst", burst.to_string())],
            LinkService::Trace(TracePlan { source, mode, end }) => {
                vec![("trace", source.to_string()), ("mode", mode.to_string()), ("end", end.to_string())]
            }
            LinkService::Poisson(pace) => vec![("poisson", pace.to_string())],
            LinkService::Brownian(BrownianPlan { start, sigma, most }) => {
                vec![("brownian", start.to_string()), ("sigma", sigma.to_string()), ("most", most.to_string())]
            }
        }
    }
}

impl fmt::Display for LinkService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys();
        let words: Vec<String> = keys.iter().map(|(key, value)| format!("{key} {value}")).collect();
        f.write_str(if words.is_empty() { "rate unlimited" } else { "" })?;
        f.write_str(&words.join(" "))
    }
}

impl fmt::Display for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceSource::File(file) => f.write_str(file),
            TraceSource::Lte { mean, length, seed } => write!(f, "lte(mean={mean},length={length},seed={seed})"),
        }
    }
}

impl fmt::Display for TraceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceMode::Packet => f.write_str("packet"),
            TraceMode::Bytes(bytes) => write!(f, "bytes({bytes})"),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Independent(part) => part.fmt(f),
            Loss::Gilbert { begin, end, good, bad } => {
                write!(f, "gilbert(begin={begin},end={end},good={good},bad={bad})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses and prints a link, or prints the errors.
    fn read(texts: &[(&'static str, &'static str)]) -> String {
        let mut report = Report::new("", "f");
        let texts: Vec<_> = texts.iter().map(|&(key, text)| MediumText { key, text, span: 0..0 }).collect();
        let plan = MediumPlan::read(&mut report, "link", &texts, &MediumPlan::default());
        match report.failed() {
            false => plan.to_string(),
            true => {
                let wrong = report.finish();
                let said: Vec<String> =
                    wrong.errors().map(|e| format!("{}: {}; {}", e.path, e.reason, e.hint)).collect();
                said.join("\n")
            }
        }
    }

    #[test]
    fn link_is_described_by_its_keys() {
        assert_eq!(read(&[]), "rate unlimited");
        assert_eq!(
            read(&[("rate", "15mbit"), ("delay", "75ms"), ("loss", "0.1%")]),
            "rate 15mbit delay 75ms loss 0.1%"
        );
        assert_eq!(
            read(&[("rate", "1mbit"), ("burst", "10kb"), ("overhead", "-14b")]),
            "rate 1mbit burst 10kb overhead -14b"
        );
        assert_eq!(read(&[("trace", "a.down")]), "trace a.down mode bytes(1504) end repeat overhead -10b");
        assert_eq!(
            read(&[("trace", "lte(seed=3)"), ("mode", "packet"), ("end", "stop"), ("overhead", "0b")]),
            "trace lte(mean=5mbit,length=140s,seed=3) mode packet end stop overhead 0b"
        );
        assert_eq!(read(&[("poisson", "500pps"), ("jitter", "5ms")]), "poisson 500pps jitter 5ms");
        assert_eq!(read(&[("brownian", "500pps")]), "brownian 500pps sigma 100pps most 1250pps");
        assert_eq!(
            read(&[("loss", "gilbert(begin=2%)"), ("duplicate", "1%"), ("reorder", "1%"), ("reorder_by", "3ms")]),
            "rate unlimited loss gilbert(begin=2%,end=30%,good=0%,bad=100%) duplicate 1% reorder 1% reorder_by 3ms"
        );
    }

    #[test]
    fn wrong_link_is_reported_with_a_correction() {
        let expected = "link.trace: 'rate' and 'trace' both set the rate of the link; remove one of the two\n\
             link.sigma: 'sigma' requires 'brownian', which is missing; add brownian";
        assert_eq!(read(&[("rate", "1mbit"), ("trace", "a"), ("sigma", "1pps")]), expected);
        for (texts, said) in [
            (
                ("rate", "0bit"),
                "link.rate: a link with rate zero sends no packets; write a rate above zero, or leave it out",
            ),
            (("loss", "1"), "link.loss: '1' is ambiguous: a percentage or a fraction; write 1% or 100%"),
            (("loss", "0.01"), "link.loss: '0.01' is ambiguous: a percentage or a fraction; write 0.01% or 1%"),
            (("reorder", "5"), "link.reorder: '5' is ambiguous: a percentage or a fraction; write 5%"),
            (("duplicate", "1"), "link.duplicate: '1' is ambiguous"),
            (
                ("loss", "gilbert(begin=1)"),
                "link.loss: begin of '1' is ambiguous: a percentage or a fraction; write 1% or 100%",
            ),
            (("loss", "101%"), "link.loss: 101% is more than 100%; write at most 100%"),
            (("loss", "gilbert(end=0%)"), "link.loss: "),
            (("loss", "markov"), "link.loss: no kind of loss is called 'markov'"),
            (("trace", ""), "link.trace: the file name is empty; write trace = \"FILE\""),
            (("trace", "lte(mean=1bit)"), "link.trace: "),
            (("overhead", "1gb"), "link.overhead: '1gb' is too much; write 4096b at most"),
            (("poisson", "0pps"), "link.poisson: a rate of zero sends no packets"),
            (("brownian", "2kpps"), "link.brownian: a rate cannot vary from 2kpps in steps of 100pps up to 1250pps"),
        ] {
            let got = read(&[texts]);
            assert!(got.starts_with(said), "{got}");
        }
        let got = read(&[("trace", "a"), ("mode", "bytes"), ("end", "repat")]);
        assert!(got.contains("link.mode: 'bytes' is not a capacity of an opportunity"), "{got}");
        assert!(got.contains("link.end: 'repat' is not a value of 'end'; did you mean 'repeat'?"), "{got}");
    }
}
