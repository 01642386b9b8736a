//! How a verdict follows from the paper's figure, ours and the tolerance. Nothing else affects a verdict.
//!
//! | `published` | `tolerance` | `holds` | verdict |
//! |---|---|---|---|
//! | numbers | given | - | *matches* within the tolerance, else *not reproduced* |
//! | numbers | given | given | if `holds` is true: *matches* within the tolerance, else *direction only*; otherwise *not reproduced* |
//! | words, or nothing | - | given | *matches* if `holds` is true, else *not reproduced* |
//! | anything | - | - | *reported*: an input of the model, or a figure without a claim |

use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest tolerance. With a larger one, figures that a reader would call different would match: 0.6 and 0.7.
pub const MOST_TOLERANCE: f64 = 0.1;

/// A published figure.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum PublishedFigure {
    /// A number.
    Number(f64),
    /// Several numbers, in the order of the measured ones.
    Numbers(Vec<f64>),
    /// A statement without a number.
    Words(String),
}

impl fmt::Display for PublishedFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // `f64` prints the shortest text that parses to the same number, and whole numbers without a point.
            PublishedFigure::Number(number) => write!(f, "{number}"),
            PublishedFigure::Numbers(numbers) => {
                f.write_str(&numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" "))
            }
            PublishedFigure::Words(words) => f.write_str(words),
        }
    }
}

impl PublishedFigure {
    /// The numbers; none for words.
    pub fn numbers(&self) -> Option<&[f64]> {
        match self {
            PublishedFigure::Number(number) => Some(std::slice::from_ref(number)),
            PublishedFigure::Numbers(numbers) => Some(numbers),
            PublishedFigure::Words(_) => None,
        }
    }
}

/// The verdict on a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Our figure is the paper's within the tolerance of the claim, or the claim's statement is true.
    Matches,
    /// Our figure changes in the direction that the paper reports, but misses its value.
    DirectionOnly,
    /// Neither the value nor the direction.
    NotReproduced,
    /// There is no claim: an input, or a figure for information.
    Reported,
}

impl Agreement {
    /// All verdicts, in the order in which they are counted.
    pub const ALL: [Agreement; 4] =
        [Agreement::Matches, Agreement::DirectionOnly, Agreement::NotReproduced, Agreement::Reported];

    /// `within` is true if our numbers are within the tolerance of the paper's; it is none without published numbers. `holds` is the value of the
    /// claim's `holds`; it is none without one.
    pub fn of(within: Option<bool>, holds: Option<bool>) -> Agreement {
        match (within, holds) {
            (None, None) => Agreement::Reported,
            (Some(true), None | Some(true)) | (None, Some(true)) => Agreement::Matches,
            (Some(false), Some(true)) => Agreement::DirectionOnly,
            (Some(false), None) | (_, Some(false)) => Agreement::NotReproduced,
        }
    }

    /// True if the paper's figure was missed.
    pub fn is_missed(self) -> bool {
        matches!(self, Agreement::DirectionOnly | Agreement::NotReproduced)
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Agreement::Matches => "matches",
            Agreement::DirectionOnly => "direction only",
            Agreement::NotReproduced => "not reproduced",
            Agreement::Reported => "reported",
        })
    }
}

/// True if each measured number is within the tolerance of the published one, relative to that.
pub fn is_within(measured: &[f64], published: &[f64], tolerance: f64) -> bool {
    let near = |(ours, theirs): (&f64, &f64)| (ours - theirs).abs() <= tolerance * theirs.abs();
    measured.len() == published.len() && measured.iter().zip(published).all(near)
}

/// The number of claims with each verdict.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct VerdictCounts {
    /// Claims that match.
    pub matches: usize,
    /// Claims for which only the direction is reproduced.
    pub direction_only: usize,
    /// Claims that are not reproduced.
    pub not_reproduced: usize,
    /// Inputs and figures without a claim.
    pub reported: usize,
}

impl VerdictCounts {
    /// The number of claims with this verdict.
    pub fn count(&self, verdict: Agreement) -> usize {
        match verdict {
            Agreement::Matches => self.matches,
            Agreement::DirectionOnly => self.direction_only,
            Agreement::NotReproduced => self.not_reproduced,
            Agreement::Reported => self.reported,
        }
    }
}

impl FromIterator<Agreement> for VerdictCounts {
    fn from_iter<I: IntoIterator<Item = Agreement>>(verdicts: I) -> VerdictCounts {
        let mut tally = VerdictCounts::default();
        for verdict in verdicts {
            *match verdict {
                Agreement::Matches => &mut tally.matches,
                Agreement::DirectionOnly => &mut tally.direction_only,
                Agreement::NotReproduced => &mut tally.not_reproduced,
                Agreement::Reported => &mut tally.reported,
            } += 1;
        }
        tally
    }
}

impl fmt::Display for VerdictCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = Agreement::ALL.map(|verdict| match (verdict, self.count(verdict)) {
            (Agreement::Matches, count) if count != 1 => format!("{count} match"),
            (_, count) => format!("{count} {verdict}"),
        });
        f.write_str(&counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_follows_from_the_tolerance_and_the_direction() {
        use Agreement::{DirectionOnly, Matches, NotReproduced, Reported};
        for (within, holds, verdict) in [
            (None, None, Reported),
            (None, Some(true), Matches),
            (None, Some(false), NotReproduced),
            (Some(true), None, Matches),
            (Some(true), Some(true), Matches),
            (Some(true), Some(false), NotReproduced),
            (Some(false), None, NotReproduced),
            (Some(false), Some(true), DirectionOnly),
            (Some(false), Some(false), NotReproduced),
        ] {
            assert_eq!(Agreement::of(within, holds), verdict, "{within:?} {holds:?}");
        }
    }

    #[test]
    fn numbers_match_within_the_tolerance_and_zero_matches_only_zero() {
        assert!(is_within(&[0.72], &[0.7], 0.03));
        assert!(!is_within(&[0.45], &[0.7], MOST_TOLERANCE));
        assert!(is_within(&[0.0], &[0.0], 0.1) && !is_within(&[1e-9], &[0.0], 0.1));
        assert!(is_within(&[100.0, 55.0], &[101.0, 56.0], 0.02));
        assert!(!is_within(&[101.0], &[101.0, 56.0], 0.02), "one is missing");
        assert!(!is_within(&[f64::NAN], &[1.0], 0.1));
    }

    #[test]
    fn verdict_counts_count_each_verdict() {
        use Agreement::{DirectionOnly, Matches, NotReproduced, Reported};
        let tally: VerdictCounts =
            [Matches, Matches, DirectionOnly, NotReproduced, NotReproduced, Reported].into_iter().collect();
        assert_eq!(tally.to_string(), "2 match, 1 direction only, 2 not reproduced, 1 reported");
        assert_eq!(Agreement::ALL.map(|verdict| tally.count(verdict)), [2, 1, 2, 1]);
    }
}
