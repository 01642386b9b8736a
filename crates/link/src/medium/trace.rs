//! The file format of a trace. Each line is an opportunity: the milliseconds since the trace began, in order. A number that occurs several times is
//! several opportunities in that millisecond.

use std::fmt;

/// The most lines of a trace. Each takes four bytes of memory.
pub const MOST_LINES: usize = 1 << 24;
/// The longest line that an error message quotes in full.
const QUOTED: usize = 40;

/// A trace: the opportunities of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Milliseconds, in order; not empty, and the last is not zero.
    at: Box<[u32]>,
}

/// An error in a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceError {
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub reason: String,
    /// How to correct it.
    pub hint: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.line, self.reason, self.hint)
    }
}

impl std::error::Error for TraceError {}

impl Trace {
    /// Parses the text of a file. The last line may lack a line feed, and lines may end in carriage returns.
    ///
    /// # Errors
    ///
    /// The first line that is wrong.
    pub fn parse(text: &[u8]) -> Result<Trace, TraceError> {
        // One line feed ends the last line. A second one is an empty line, and an error.
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if text.is_empty() {
            return Err(wrong(
                1,
                "the trace is empty",
                "write one number of milliseconds per line, a line for each packet",
            ));
        }
        let mut at: Vec<u32> = Vec::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let number = index + 1;
            // Before the push: the numbers take at most 64 MB of memory.
            if index == MOST_LINES {
                let reason = format!("the trace has more than {MOST_LINES} lines");
                return Err(wrong(number, reason, "split it"));
            }
            let millis = milliseconds(line).map_err(|(reason, hint)| wrong(number, reason, hint))?;
            if at.last().is_some_and(|last| millis < *last) {
                let reason = format!("{millis} ms comes after {} ms", at.last().unwrap_or(&0));
                return Err(wrong(number, reason, "sort the lines: sort -n FILE"));
            }
            at.push(millis);
        }
        // A repetition begins at the time of the last line: at zero, the repeated trace would never advance.
        if at.last() == Some(&0) {
            let hint = "the last line is the length of the trace: write at least 1";
            return Err(wrong(at.len(), "the length of the trace is 0", hint));
        }
        Ok(Trace { at: at.into() })
    }

    /// A trace of these milliseconds; none if they are out of order or all are zero.
    pub fn from_millis(at: Vec<u32>) -> Option<Trace> {
        let fits = at.len() <= MOST_LINES && at.is_sorted() && at.last().is_some_and(|last| *last > 0);
        fits.then(|| Trace { at: at.into() })
    }

    /// The milliseconds, one for each opportunity.
    pub fn millis(&self) -> &[u32] {
        &self.at
    }

    /// The text of a file that parses to this trace.
    pub fn to_text(&self) -> String {
        use fmt::Write as _;
        // A line has at most seven bytes in the first 1000 seconds.
        let mut text = String::with_capacity(self.at.len() * 7);
        for at in &self.at {
            _ = writeln!(text, "{at}");
        }
        text
    }

    /// The number of opportunities.
    pub(super) fn len(&self) -> u64 {
        self.at.len() as u64
    }

    /// The milliseconds until the last opportunity.
    pub(super) fn length(&self) -> u64 {
        self.at.last().copied().unwrap_or(1).into()
    }

    pub(super) fn at(&self, index: u64) -> u64 {
        self.at[index as usize].into()
    }

    /// The index of the first opportunity at `millis` or later; the number of opportunities if there is none.
    pub(super) fn first(&self, millis: u64) -> u64 {
        self.at.partition_point(|at| u64::from(*at) < millis) as u64
    }
}

fn wrong(line: usize, reason: impl Into<String>, hint: impl Into<String>) -> TraceError {
    TraceError { line, reason: reason.into(), hint: hint.into() }
}

fn milliseconds(line: &[u8]) -> Result<u32, (String, &'static str)> {
    const HINT: &str = "write whole milliseconds since the trace began, and nothing else";
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(("the line is empty".into(), "remove it"));
    }
    // `parse` alone would accept a plus sign. A number of digits that does not parse exceeds 32 bits.
    let digits = line.iter().all(u8::is_ascii_digit);
    let number = digits.then(|| std::str::from_utf8(line).ok()?.parse().ok()).flatten();
    number.ok_or_else(|| {
        let said = plan::quote(&String::from_utf8_lossy(&line[..line.len().min(QUOTED)]));
        match digits {
            true => (format!("{said} ms exceeds the limit of a trace"), "write at most 4294967295"),
            false => (format!("{said} is no whole number"), HINT),
        }
    })
}
