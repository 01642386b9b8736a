//! Formats the statistics of links: backlogs and sojourn times as a line graph, and the state of schemes in words.

use crate::output::{brief, short};
use control::api::{LinkReply, QueueGroup, StateValue};

/// The characters of a line graph, from zero to the maximum.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws values as a graph of `width` characters, the latest at the right end. With more values than characters, each character shows the maximum of
/// several values. A value above zero is always visible.
pub fn draw_graph(values: &[u64], width: usize) -> String {
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

/// Formats the state of a scheme: `avg 4.25, p 1.2%`.
pub fn format_scheme_state(values: &[StateValue]) -> String {
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

/// Formats drops by reason: `scheme_front 3, buffer_full 1`.
pub fn drops(of: &[control::api::LinkDrop]) -> String {
    of.iter().map(|drop| format!("{} {}", drop.reason, drop.packets)).collect::<Vec<_>>().join(", ")
}

/// Finds the same link in a list.
pub fn find_link<'a>(links: &'a [LinkReply], like: &LinkReply) -> Option<&'a LinkReply> {
    links.iter().find(|link| (&link.port, link.worker, &link.scheme) == (&like.port, like.worker, &like.scheme))
}

/// Finds the queue group with the same name in a link.
pub fn find_group<'a>(link: &'a LinkReply, like: &QueueGroup) -> Option<&'a QueueGroup> {
    // A counter that has decreased belongs to a new queue group of the same name.
    link.groups.iter().find(|group| group.name == like.name && group.sent_packets <= like.sent_packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_ends_with_the_latest_value_and_shows_maxima() {
        assert_eq!(draw_graph(&[0, 1, 4, 8], 6), "   ▁▄█");
        assert_eq!(draw_graph(&[1, 0, 0, 1000], 4), "▁  █");
        assert_eq!(draw_graph(&[8, 0, 0, 4, 0, 0, 1], 3), "█▄▁");
        assert_eq!(
            (draw_graph(&[], 3), draw_graph(&[0, 0], 2), draw_graph(&[5], 0)),
            ("   ".into(), "  ".into(), String::new())
        );
        for values in 0..40u64 {
            let all: Vec<u64> = (0..values).collect();
            for width in 0..20 {
                let drawn = draw_graph(&all, width);
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
        assert_eq!(
            format_scheme_state(&told),
            "avg 4.25, p 1.23%, count 3, dropping yes, drop_next -2.10ms, qdelay 15.0ms"
        );
    }
}
