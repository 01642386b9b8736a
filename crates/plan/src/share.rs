//! Shares: the nodes of the tree by which a port divides its link. Their names and settings, as lines write them.

use crate::Call;
use crate::text::{quote, visible};
use serde::{Serialize, Serializer};
use std::borrow::Borrow;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use units::{Bytes, Cells, Framing, Nanos, Rate, UnitError};

/// The longest name of a share, in bytes.
const LONGEST_NAME: usize = 63;
/// The name of the port itself in lines, which no share can have.
pub(crate) const ROOT_NAME: &str = "root";
/// Characters of a name that quotes must enclose. `#` begins a comment; the others separate lists.
const QUOTED_IN_NAMES: [char; 3] = ['#', ',', ';'];

/// The scheme of ports that have shares in levels.
pub(crate) const SHARE_SCHEME: &str = "share";
/// The scheme of ports whose shares get a quantum in each cycle.
pub(crate) const CYCLE_SCHEME: &str = "dfq";

impl Call {
    /// The framing of the line behind a scheme with a rate, as its options state it.
    pub(crate) fn framing(&self) -> Framing {
        let option = |name: &str| self.option(name).unwrap_or(0);
        let cells = [Cells::None, Cells::Atm, Cells::Ptm];
        let small = |name| u32::try_from(option(name)).unwrap_or(u32::MAX);
        Framing {
            overhead: small("overhead"),
            minimum: small("minimum"),
            cells: cells.get(option("cells") as usize).copied().unwrap_or_default(),
        }
    }

    /// True for the schemes that divide a link among shares.
    pub fn has_shares(&self) -> bool {
        self.has_share_levels() || self.name == CYCLE_SCHEME
    }

    /// True for the scheme whose shares may be below other shares.
    pub fn has_share_levels(&self) -> bool {
        self.name == SHARE_SCHEME
    }
}

/// The rate of a port that its scheme gives; `None` if it has none.
pub(crate) fn port_rate(scheme: &Call) -> Option<Rate> {
    scheme.option("rate").filter(|rate| (1..u64::MAX).contains(rate)).map(Rate::bits)
}

/// The rates that a share can have, as rate or as ceiling.
pub(crate) const SHARE_RATES: RangeInclusive<Rate> = Rate::bits(1_000)..=Rate::bits(1_000_000_000_000);
/// The weights that a share can have.
pub(crate) const SHARE_WEIGHTS: RangeInclusive<u32> = 1..=10_000;
/// The bursts that a share can have.
pub(crate) const SHARE_BURSTS: RangeInclusive<Bytes> = Bytes::new(64)..=Bytes::new(1 << 30);
/// The delays that a share can have.
pub(crate) const SHARE_DELAYS: RangeInclusive<Nanos> = Nanos::micros(100)..=Nanos::secs(10);
/// The default burst: the time for which a share sends at its ceiling after an idle time. It covers the delay until a worker serves the link again.
const BURST: Nanos = Nanos::millis(4);
/// The least default burst: two packets of the usual length.
const LEAST_BURST: Bytes = Bytes::new(2 * 1514);
/// The priorities that a share can have; 0 is the highest.
pub(crate) const SHARE_PRIORITIES: RangeInclusive<u8> = 0..=7;

/// The name of a share: 1 to 63 bytes, without control characters and without `"`. `root` is the port and no share.
///
/// `Display` prints it as lines write it: in quotes if it has blanks or one of `#,;`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShareName(Arc<str>);

impl ShareName {
    /// The name, or the reason why no share can have it.
    pub fn new(text: &str) -> Result<ShareName, UnitError> {
        let wrong = |reason: String, hint: &str| Err(UnitError { reason, hint: hint.to_string() });
        if text.is_empty() {
            return wrong("the name is empty".to_string(), "write 1 to 63 bytes, like 'gold'");
        }
        if text.len() > LONGEST_NAME {
            let reason = format!("the name {} has {} bytes", quote(text), text.len());
            return wrong(reason, "use at most 63 bytes");
        }
        if text.chars().any(|c| c == '"' || visible(c) != c) {
            let reason = format!("the name {} has a quote or a control character", quote(text));
            return wrong(reason, "remove it");
        }
        if text == ROOT_NAME {
            return wrong("'root' is the port itself, and no share".to_string(), "use another name");
        }
        Ok(ShareName(Arc::from(text)))
    }

    /// The name that stands for the port in a tree. No share has it, because it is empty.
    pub(crate) fn of_port() -> ShareName {
        ShareName(Arc::from(""))
    }

    /// The name without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if lines must write the name in quotes.
    pub(crate) fn needs_quotes(text: &str) -> bool {
        text.contains(|c: char| c.is_whitespace() || QUOTED_IN_NAMES.contains(&c))
    }
}

impl Borrow<str> for ShareName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for ShareName {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        ShareName::new(text)
    }
}

impl fmt::Display for ShareName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if ShareName::needs_quotes(&self.0) { write!(f, "\"{}\"", self.0) } else { f.write_str(&self.0) }
    }
}

impl Serialize for ShareName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The settings of a share. `None` is the default of the scheme; for a rate the sum of its children's, for a ceiling no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShareSettings {
    /// The guaranteed rate, 1kbit to 1tbit.
    pub rate: Option<Rate>,
    /// The rate that it never exceeds, 1kbit to 1tbit.
    pub ceiling: Option<Rate>,
    /// Its part of the excess in proportion to the other shares of its priority, 1 to 10000.
    pub weight: Option<u32>,
    /// The bytes that it may send at once after an idle time, 64b to 1gb.
    pub burst: Option<Bytes>,
    /// The time within which a burst leaves, 100us to 10s. Zero stands for none, to remove one.
    pub delay: Option<Nanos>,
    /// Its turn at the excess, 0 (first) to 7.
    pub priority: Option<u8>,
    /// A leaf's packets wait in one queue of so many bytes, 64b to 1gb, instead of the scheme of all leaves.
    pub queue: Option<Bytes>,
    /// The bytes of a turn of a leaf with its own queue: one packet. Only reserved flows set it, and lines do not write it.
    pub turn: Option<Bytes>,
}

impl ShareSettings {
    /// Checks the bounds of settings that were not read from a line.
    ///
    /// # Errors
    /// A value is out of its bounds.
    pub fn check(&self) -> Result<(), UnitError> {
        fn within<T: PartialOrd + fmt::Display>(
            (name, value): (&str, Option<T>),
            bounds: RangeInclusive<T>,
        ) -> Result<(), UnitError> {
            match value {
                Some(value) if !bounds.contains(&value) => Err(UnitError {
                    reason: format!("the {name} {value} is out of its bounds"),
                    hint: format!("use {} to {}", bounds.start(), bounds.end()),
                }),
                _ => Ok(()),
            }
        }
        within(("rate", self.rate), SHARE_RATES)?;
        within(("ceiling", self.ceiling), SHARE_RATES)?;
        within(("weight", self.weight), SHARE_WEIGHTS)?;
        within(("burst", self.burst), SHARE_BURSTS)?;
        within(("delay", self.delay.filter(|delay| *delay > Nanos::ZERO)), SHARE_DELAYS)?;
        within(("priority", self.priority), SHARE_PRIORITIES)?;
        within(("queue", self.queue), SHARE_BURSTS)
    }

    /// These settings with those of `other` in place of their own, where it has some.
    pub fn updated(self, other: ShareSettings) -> ShareSettings {
        ShareSettings {
            rate: other.rate.or(self.rate),
            ceiling: other.ceiling.or(self.ceiling),
            weight: other.weight.or(self.weight),
            burst: other.burst.or(self.burst),
            delay: other.delay.or(self.delay),
            priority: other.priority.or(self.priority),
            queue: other.queue.or(self.queue),
            turn: other.turn.or(self.turn),
        }
    }

    /// Its burst. Without a setting it has 4 ms at its ceiling, or at the guaranteed `rate`, and at least two packets.
    pub fn burst_at(&self, rate: Rate) -> Bytes {
        let rate = u128::from(self.ceiling.unwrap_or(rate).get());
        let usual = Bytes::new((rate * u128::from(BURST.get()) / 8_000_000_000) as u64);
        self.burst.unwrap_or(usual.max(LEAST_BURST))
    }

    /// The rate at which it sends its burst within its delay, at least its guaranteed rate. `None` without a rate of its own.
    pub fn peak(&self) -> Option<Rate> {
        let delay = self.delay.unwrap_or_default();
        self.rate.map(|rate| rate.max(self.burst_at(rate).rate_within(delay)))
    }
}

impl fmt::Display for ShareSettings {
    /// Each setting with a blank before it: ` rate 10mbit weight 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut one = |keyword: &str, value: Option<&dyn fmt::Display>| match value {
            Some(value) => write!(f, " {keyword} {value}"),
            None => Ok(()),
        };
        one("rate", self.rate.as_ref().map(|rate| rate as _))?;
        one("ceiling", self.ceiling.as_ref().map(|ceiling| ceiling as _))?;
        one("weight", self.weight.as_ref().map(|weight| weight as _))?;
        one("burst", self.burst.as_ref().map(|burst| burst as _))?;
        let delay = self.delay.as_ref();
        one("delay", delay.map(|delay| if *delay == Nanos::ZERO { &"none" as &dyn fmt::Display } else { delay }))?;
        one("priority", self.priority.as_ref().map(|priority| priority as _))?;
        one("queue", self.queue.as_ref().map(|queue| queue as _))
    }
}
