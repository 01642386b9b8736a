//! Lists of processor cores, in the format of `taskset -c` and the kernel: `0-3,8`.

use crate::text::{TextError, quote};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The highest core number, by the limit of sched_setaffinity(2) in the C library (`CPU_SETSIZE`).
const LAST: u16 = 1023;
/// The largest number of workers.
const MOST: usize = 64;

/// Cores in the order of the text, without duplicates; empty if none is set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cores(Vec<u16>);

impl Cores {
    /// Their numbers.
    pub fn list(&self) -> &[u16] {
        &self.0
    }
}

impl FromStr for Cores {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Cores, TextError> {
        let mut cores = Vec::new();
        let mut offset = 0;
        for part in text.split(',') {
            let wrong = |reason: String| TextError {
                offset,
                length: part.len(),
                reason,
                hint: "write cores and ranges, separated by commas, like 0-3,8".into(),
            };
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                let number = text.trim().parse::<u16>().ok().filter(|&core| core <= LAST);
                number.ok_or_else(|| wrong(format!("{} is no core from 0 to {LAST}", quote(text))))
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong(format!("the range {} ends before it begins", quote(part))));
            }
            for core in first..=last {
                if cores.contains(&core) {
                    return Err(wrong(format!("core {core} is listed twice")));
                }
                cores.push(core);
            }
            if cores.len() > MOST {
                return Err(wrong(format!("there are more cores than the {MOST} workers that are possible")));
            }
            offset += part.len() + 1;
        }
        Ok(Cores(cores))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &self.0[..];
        if rest.is_empty() {
            return f.write_str("any");
        }
        while let Some(&first) = rest.first() {
            let length = rest.iter().zip(first..).take_while(|&(&core, next)| core == next).count();
            let comma = if length < rest.len() { "," } else { "" };
            match length {
                1 => write!(f, "{first}{comma}")?,
                _ => write!(f, "{first}-{}{comma}", rest[length - 1])?,
            }
            rest = &rest[length..];
        }
        Ok(())
    }
}

impl Serialize for Cores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn core_lists_are_parsed() {
        for (text, cores, said) in [
            ("0", &[0][..], "0"),
            ("0-1,3", &[0, 1, 3], "0-1,3"),
            ("3, 0 - 1", &[3, 0, 1], "3,0-1"),
            ("4,5,6", &[4, 5, 6], "4-6"),
            ("1023", &[1023], "1023"),
        ] {
            let read: Cores = text.parse().unwrap();
            assert_eq!((read.list(), read.to_string().as_str()), (cores, said), "{text}");
        }
        for (text, offset, reason) in [
            ("", 0, "'' is no core from 0 to 1023"),
            ("0,", 2, "'' is no core"),
            ("0-1,1", 4, "core 1 is listed twice"),
            ("2-1", 0, "the range '2-1' ends before it begins"),
            ("all", 0, "'all' is no core"),
            ("1024", 0, "'1024' is no core"),
            ("-1", 0, "'' is no core"),
            ("0-1023", 0, "there are more cores than the 64 workers"),
        ] {
            let wrong = text.parse::<Cores>().unwrap_err();
            assert_eq!(wrong.offset, offset, "{text}: {wrong}");
            assert!(wrong.reason.starts_with(reason), "{text}: {wrong}");
        }
    }

    proptest! {
        #[test]
        fn core_list_parses_back_as_printed(cores in prop::collection::hash_set(0u16..=LAST, 1..MOST)) {
            let cores = Cores(cores.into_iter().collect());
            prop_assert_eq!(cores.to_string().parse::<Cores>(), Ok(cores));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Cores>();
        }
    }
}
