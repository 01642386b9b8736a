//! How a verdict follows from the paper's figure, ours and the tolerance. Nothing else decides about a claim.
//!
//! | `published` | `tolerance` | `holds` | the verdict |
//! |---|---|---|---|
//! | numbers | given | - | *matches* within the tolerance, else *not reproduced* |
//! | numbers | given | given | *matches* where it holds and the numbers are within the tolerance; *direction only* where it holds and they are not; else *not reproduced* |
//! | words, or nothing | - | given | *matches* where it holds, else *not reproduced* |
//! | anything | - | - | *reported*: an input of the model, or a figure of which nothing is claimed |

use serde::{Deserialize, Serialize};
use std::fmt;

/// The most that a tolerance may be. With more, figures that a reader would call different would match: 0.6 and 0.7.
pub const MOST_TOLERANCE: f64 = 0.1;

/// What a paper says of a figure.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Number(f64),
    /// Several numbers, in the order of those that were measured.
    Numbers(Vec<f64>),
    /// A statement without a number.
    Words(String),
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // `f64` writes what is needed to read the same number again, and whole numbers without a point.
            Published::Number(number) => write!(f, "{number}"),
            Published::Numbers(numbers) => {
                f.write_str(&numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" "))
            }
            Published::Words(words) => f.write_str(words),
        }
    }
}

impl Published {
    /// The numbers; none of words.
    pub fn numbers(&self) -> Option<&[f64]> {
        match self {
            Published::Number(number) => Some(std::slice::from_ref(number)),
            Published::Numbers(numbers) => Some(numbers),
            Published::Words(_) => None,
        }
    }
}

/// The verdict on a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Ours is the paper's figure, within the tolerance that the claim states, or does what the claim says.
    Matches,
    /// Ours changes in the direction that the paper reports, and is not its figure.
    DirectionOnly,
    /// Neither.
    NotReproduced,
    /// Nothing is claimed: an input, or a figure that stands for itself.
    Reported,
}

impl Agreement {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Agreement; 4] =
        [Agreement::Matches, Agreement::DirectionOnly, Agreement::NotReproduced, Agreement::Reported];

    /// `within`: whether our numbers are within the tolerance of the paper's, where these are numbers. `holds`: whether what the
    /// claim says is so, where it says anything.
    pub fn of(within: Option<bool>, holds: Option<bool>) -> Agreement {
        match (within, holds) {
            (None, None) => Agreement::Reported,
            (Some(true), None | Some(true)) | (None, Some(true)) => Agreement::Matches,
            (Some(false), Some(true)) => Agreement::DirectionOnly,
            (Some(false), None) | (_, Some(false)) => Agreement::NotReproduced,
        }
    }

    /// Whether the paper's figure was missed.
    pub fn is_off(self) -> bool {
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

/// Whether each measured number is within the tolerance of the published one, as a part of that.
pub fn is_within(measured: &[f64], published: &[f64], tolerance: f64) -> bool {
    let near = |(ours, theirs): (&f64, &f64)| (ours - theirs).abs() <= tolerance * theirs.abs();
    measured.len() == published.len() && measured.iter().zip(published).all(near)
}

/// How often each verdict was given.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Tally {
    /// Claims that match.
    pub matches: usize,
    /// Claims of which only the direction is reproduced.
    pub direction_only: usize,
    /// Claims that are not reproduced.
    pub not_reproduced: usize,
    /// Inputs and figures without a claim.
    pub reported: usize,
}

impl Tally {
    /// How often one of them was given.
    pub fn count(&self, verdict: Agreement) -> usize {
        match verdict {
            Agreement::Matches => self.matches,
            Agreement::DirectionOnly => self.direction_only,
            Agreement::NotReproduced => self.not_reproduced,
            Agreement::Reported => self.reported,
        }
    }
}

impl FromIterator<Agreement> for Tally {
    fn from_iter<I: IntoIterator<Item = Agreement>>(verdicts: I) -> Tally {
        let mut tally = Tally::default();
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

impl fmt::Display for Tally {
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
    fn a_tally_counts_each_verdict() {
        use Agreement::{DirectionOnly, Matches, NotReproduced, Reported};
        let tally: Tally =
            [Matches, Matches, DirectionOnly, NotReproduced, NotReproduced, Reported].into_iter().collect();
        assert_eq!(tally.to_string(), "2 match, 1 direction only, 2 not reproduced, 1 reported");
        assert_eq!(Agreement::ALL.map(|verdict| tally.count(verdict)), [2, 1, 2, 1]);
    }
}
