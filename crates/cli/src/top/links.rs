//! The full-screen view of links: backlogs and waiting times of each port as graphs over the last half minute; drops and marks of each queue group;
//! and the state of the schemes.

use super::sample::{LinkLine, QueuesLine};
use super::state::{Pane, TopState};
use super::style::{alarm, block, bold, dim};
use crate::output::{brief, short};
use crate::stats;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

/// The least and the largest number of characters of a graph over half a minute.
const LINE: (usize, usize) = (20, 60);
/// Columns beside the graph.
const BESIDE: usize = 52;

/// Draws the links, as far as there is room.
pub fn draw(frame: &mut Frame<'_>, state: &mut TopState, area: Rect) {
    let lines = lines(state, area.width);
    let from = state.scrolled(Pane::Links, lines.len(), usize::from(area.height.saturating_sub(1)));
    let block = block(state, Pane::Links, "links", lines.len(), from, usize::from(area.height.saturating_sub(1)));
    let shown: Vec<Line<'_>> = lines.into_iter().skip(from).collect();
    frame.render_widget(Paragraph::new(shown).wrap(Wrap { trim: false }).block(block), area);
}

/// Returns the number of lines of the view.
pub fn height(state: &TopState) -> u16 {
    let links = state.samples.links();
    let lines: usize = links.iter().map(|link| 4 + groups(link).count()).sum();
    if links.is_empty() { 0 } else { u16::try_from(lines + 1).unwrap_or(u16::MAX) }
}

fn lines(state: &TopState, width: u16) -> Vec<Line<'static>> {
    if state.samples.links().is_empty() {
        return vec![Line::from("no link reported")];
    }
    state.samples.links().iter().flat_map(|link| of(link, width)).collect()
}

/// Returns the queue groups with a line of their own: all of several, or one whose scheme has state.
fn groups(link: &LinkLine) -> impl Iterator<Item = &QueuesLine> {
    link.queues.iter().filter(|group| link.queues.len() > 1 || !group.state.is_empty())
}

fn of(link: &LinkLine, width: u16) -> Vec<Line<'static>> {
    let wide = usize::from(width).saturating_sub(BESIDE).clamp(LINE.0, LINE.1);
    let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let time = |ns: Option<u64>| ns.map_or("-".into(), brief);
    let drawn = |values: &[u64]| format!("{}|", stats::draw_graph(values, wide));
    let packets = |packets: u64| if packets == 1 { "1 packet".to_owned() } else { format!("{packets} packets") };
    let waits = format!(
        " {}, {}b; most {}",
        packets(link.backlog_packets),
        short(link.backlog_bytes as f64),
        most(&link.backlog_series)
    );
    let waited =
        format!(" p50 {} p99 {}; most {}", time(link.p50_ns), time(link.p99_ns), brief(most(&link.sojourn_series_ns)));
    let dropped = Span::styled(format!("dropped {}/s", short(link.dropped_pps)), alarm(link.dropped_pps >= 1.0));
    let why = link.drops.iter().filter(|drop| drop.1 > 0.0);
    let why: Vec<String> = why.map(|(reason, pps)| format!("{reason} {}/s", short(*pps))).collect();
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(", ")) };
    let mut lines = vec![
        Line::from(vec![Span::styled(link.name.clone(), bold()), Span::styled(format!(" {}", link.scheme), dim())]),
        Line::from(vec![Span::raw("  backlog "), Span::raw(drawn(&link.backlog_series)), Span::raw(waits)]),
        Line::from(vec![Span::raw("  sojourn "), Span::raw(drawn(&link.sojourn_series_ns)), Span::raw(waited)]),
        Line::from(vec![
            Span::raw("  "),
            dropped,
            Span::raw(format!("{why}, marked {}/s, bypassed {}/s", short(link.marked_pps), short(link.passed_pps))),
        ]),
    ];
    lines.extend(groups(link).map(|group| {
        let state = stats::format_scheme_state(&group.state);
        let text = format!(
            "  {}: {}, p99 {}, dropped {}/s{}{state}",
            group.name,
            packets(group.backlog_packets),
            time(group.p99_ns),
            short(group.dropped_pps),
            if state.is_empty() { "" } else { "; " }
        );
        Line::from(text)
    }));
    lines
}
