//! What links tell of themselves, drawn and put in words: backlogs and sojourn times over time, and what schemes remember.

use crate::output::{brief, short};
use control::api::{Link, QueueGroup, StateValue};

/// What a line is drawn with, from nothing to the most.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line of `width` characters that shows how values went, the latest at its right end. Where there are more values than characters each
/// stands for the most of several; a value that is not zero is seen.
pub fn line(values: &[u64], width: usize) -> String {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let together = values.len().div_ceil(width.max(1)).max(1);
    let first = values.len() % together;
    let (head, rest) = values.split_at(first);
    let parts = std::iter::once(head).filter(|head| !head.is_empty()).chain(rest.chunks(together));
    let bar = |part: &[u64]| {
        let value = part.iter().copied().max().unwrap_or(0);
        BARS[(u128::from(value) * 8).div_ceil(most.into()) as usize]
    };
    let drawn: Vec<char> = parts.map(bar).collect();
    let skip = drawn.len().saturating_sub(width);
    let blank = std::iter::repeat_n(' ', width.saturating_sub(drawn.len()));
    blank.chain(drawn.into_iter().skip(skip)).collect()
}

/// What a scheme remembers, in words: `avg 4.25, p 1.2%`.
pub fn state(values: &[StateValue]) -> String {
    let one = |StateValue { name, value }: &StateValue| {
        let text = match name.as_str() {
            "p" => format!("{:.2}%", value * 100.0),
            "drop_next" | "qdelay" | "burst_allowance" => {
                let sign = if *value < 0.0 { "-" } else { "" };
                format!("{sign}{}", brief((value.abs() * 1e9).round() as u64))
            }
            "dropping" | "marking" => if *value > 0.0 { "yes" } else { "no" }.to_owned(),
            _ if value.fract() != 0.0 => format!("{value:.2}"),
            _ => short(*value),
        };
        format!("{name} {text}")
    };
    values.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Drops by reason, in words: `scheme_front 3, buffer_full 1`.
pub fn drops(of: &[control::api::LinkDrop]) -> String {
    of.iter().map(|drop| format!("{} {}", drop.reason, drop.packets)).collect::<Vec<_>>().join(", ")
}

/// A link in a list, by its name.
pub fn link<'a>(links: &'a [Link], like: &Link) -> Option<&'a Link> {
    links.iter().find(|link| (&link.port, link.worker, &link.scheme) == (&like.port, like.worker, &like.scheme))
}

/// The group of the same name in a link.
pub fn group<'a>(link: &'a Link, like: &QueueGroup) -> Option<&'a QueueGroup> {
    link.groups.iter().find(|group| group.name == like.name && group.sent_packets <= like.sent_packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_the_latest_and_shows_the_most_of_what_stands_together() {
        assert_eq!(line(&[0, 1, 4, 8], 6), "   ▁▄█");
        assert_eq!(line(&[1, 0, 0, 1000], 4), "▁  █");
        assert_eq!(line(&[8, 0, 0, 4, 0, 0, 1], 3), "█▄▁");
        assert_eq!((line(&[], 3), line(&[0, 0], 2), line(&[5], 0)), ("   ".into(), "  ".into(), String::new()));
        for values in 0..40u64 {
            let all: Vec<u64> = (0..values).collect();
            for width in 0..20 {
                let drawn = line(&all, width);
                assert_eq!(drawn.chars().count(), width, "{values} on {width}");
                assert!(values < 2 || width == 0 || drawn.ends_with('█'), "{drawn}");
            }
        }
    }

    #[test]
    fn values_have_their_units() {
        let value = |name: &str, value: f64| StateValue { name: name.into(), value };
        let told = [
            value("avg", 4.254),
            value("p", 0.0123),
            value("count", 3.0),
            value("dropping", 1.0),
            value("drop_next", -0.0021),
            value("qdelay", 0.015),
        ];
        assert_eq!(state(&told), "avg 4.25, p 1.23%, count 3, dropping yes, drop_next -2.10ms, qdelay 15.0ms");
    }
}
