//! Draws one frame of the view, for a terminal of 80 by 24 and larger.

use super::links;
use super::sample::{DropLine, PathLine, PortLine, Rates};
use super::state::{Pane, TopState};
use super::style::{alarm, block, bold, dim};
use crate::output::{brief, rate, short, span, time_of_day};
use crate::stats;
use control::api;
use packet::DropReason;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, Wrap};

/// The smallest terminal on which everything fits.
const LEAST: (u16, u16) = (60, 16);

/// Lines above the panes; the least height of the bottom panes in a snapshot; and the most events there.
const HEAD: u16 = 4;
const LEAST_BOTTOM: u16 = 6;
const EVENTS: usize = 20;

/// From this width on there are more columns, and from this height on a graph of several lines.
const WIDE: u16 = 110;
/// Characters of a backlog graph of a port.
const DRAWN: usize = 12;
const HIGH: u16 = 30;

const KEYS: &str = "q quit  tab pane  s sort  p pause  d drops  b backlog  ? help";
const HELP: &str = "\
 q, Esc        quit
 tab, arrows   next or previous pane; up and down scroll
 s             sort the pane by the next column
 p, space      pause and resume
 d             drops with their meanings and remedies
 b             links: backlog and waiting times over half a minute,
               drops, and the state of queueing schemes
 ?             this help

 Rates are those between the last two answers of the router.
 busy is the time a worker spent on tasks that were charged; E the
 part of it that moved packets, and with empty looks as work. The
 cpu of a path is in parts of a core, p99 what 99 of 100 packets took
 no longer than; red where some took longer than was promised.";

/// Returns the number of lines that show everything.
pub fn height(state: &TopState) -> u16 {
    let bottom = titled(state.samples.drops().len().max(state.samples.events.len().min(EVENTS)));
    let other = bottom.max(LEAST_BOTTOM).saturating_add(links::height(state));
    tables(state).into_iter().fold(HEAD.saturating_add(other), u16::saturating_add)
}

/// Draws everything on a screen of the necessary height, without keys and history.
pub fn draw_whole(frame: &mut Frame<'_>, state: &mut TopState) {
    let parts = [Constraint::Length(HEAD), Constraint::Min(8), Constraint::Length(links::height(state))];
    let [head, body, foot] = Layout::vertical(parts).areas(frame.area());
    header(frame, state, head);
    panes(frame, state, body, tables(state));
    if foot.height > 0 {
        links::draw(frame, state, foot);
    }
}

/// Draws the view.
pub fn draw(frame: &mut Frame<'_>, state: &mut TopState) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("the terminal is too small: it needs at least {}x{}", LEAST.0, LEAST.1);
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }
    let graph = if area.height < HIGH { 1 } else { 3 };
    let parts = [HEAD, graph].map(Constraint::Length).into_iter().chain([Constraint::Min(8), Constraint::Length(1)]);
    let [head, graph, body, foot] = Layout::vertical(parts).areas(area);
    header(frame, state, head);
    history(frame, state, graph);
    if state.links {
        links::draw(frame, state, body)
    } else if state.detail {
        detail(frame, state, body)
    } else {
        panes(frame, state, body, shared(state, body))
    }
    footer(frame, state, foot);
    if state.help {
        help(frame, area);
    }
}

fn header(frame: &mut Frame<'_>, state: &TopState, area: Rect) {
    let Some(now) = state.samples.now() else {
        let text = state.error.clone().unwrap_or_else(|| "asking the router ...".into());
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    };
    let (status, total) = (&now.status, state.samples.total());
    let condition = match status.state {
        _ if state.error.is_some() => Span::styled("DOES NOT ANSWER", alarm(true)),
        api::RouterState::Running => Span::raw("forwards"),
        api::RouterState::Degraded => Span::styled("FORWARDS WITHOUT SOME WORKER", alarm(true)),
        api::RouterState::Stopping => Span::styled("is ending", alarm(true)),
        api::RouterState::Failed => Span::styled("HAS FAILED", alarm(true)),
    };
    let about = format!(
        "  generation {} ({})  up {}  every {}",
        status.generation,
        status.config,
        span(status.uptime_ns),
        state.interval
    );
    let mut first = vec![Span::styled(status.name.clone(), bold()), Span::raw(" "), condition, Span::raw(about)];
    if let Some(pending) = &status.pending {
        first.push(Span::styled(format!("  TO BE CONFIRMED in {}", span(pending.left_ns)), alarm(true)));
    }
    if state.paused {
        first.push(Span::styled("  PAUSED", bold()));
    }
    let traffic = vec![
        Span::raw(format!("in {} {}  out ", pps(total.received_pps), rate(total.received_bps))),
        Span::raw(format!("{} {}  ", pps(total.sent_pps), rate(total.sent_bps))),
        Span::styled(format!("drops {}/s", short(total.dropped_pps)), alarm(total.dropped_pps >= 1.0)),
        Span::raw(format!("  held {}", status.held_packets)),
    ];
    let used = 100 * (status.frames - status.frames_spare.min(status.frames)) / status.frames.max(1);
    let mut tables = vec![
        Span::styled(format!("pool {used}% of {}", short(status.frames as f64)), alarm(used >= 90)),
        Span::raw(format!("  routes {}  neighbours {}  ", status.routes, status.neighbours)),
    ];
    tables.push(match status.balanced {
        true => Span::raw("ledger balances"),
        false => Span::styled("LEDGER DOES NOT BALANCE", alarm(true)),
    });
    let mut workers = vec![Span::raw("workers busy")];
    for (worker, busy) in state.samples.busy() {
        workers.push(Span::styled(format!("  {worker}: {:>3.0}%", busy * 100.0), alarm(busy >= 0.95)));
        if let Some((useful, literal)) = state.samples.efficiency(worker) {
            workers.push(Span::styled(format!(" E {:.0}/{:.0}%", useful * 100.0, literal * 100.0), dim()));
        }
    }
    let lines = [first, traffic, tables, workers].map(Line::from);
    frame.render_widget(Paragraph::new(lines.to_vec()), area);
}

fn history(frame: &mut Frame<'_>, state: &TopState, area: Rect) {
    let [label, graph] = Layout::horizontal([Constraint::Length(18), Constraint::Min(10)]).areas(area);
    let most = state.samples.packets.iter().copied().max().unwrap_or(0);
    frame.render_widget(Paragraph::new(format!("in, most {}", pps(most as f64))).style(dim()), label);
    // Shows the latest points that fit.
    let width = usize::from(graph.width);
    let skip = state.samples.packets.len().saturating_sub(width);
    let mut data: Vec<u64> = vec![0; width.saturating_sub(state.samples.packets.len())];
    data.extend(state.samples.packets.iter().skip(skip));
    frame.render_widget(Sparkline::default().data(&data).max(most.max(1)), graph);
}

/// Divides the height between ports and paths: as many lines as they have, as far as the other panes leave room.
fn shared(state: &TopState, area: Rect) -> [u16; 2] {
    let [ports, paths] = tables(state);
    let bottom = (area.height / 3).max(4);
    let middle = paths.min((area.height - bottom) / 2).max(3);
    [ports.min(area.height - bottom - middle).max(3), middle]
}

/// Returns the lines of the tables of ports and paths.
fn tables(state: &TopState) -> [u16; 2] {
    [state.samples.ports().len(), state.samples.paths().len()].map(titled)
}

/// Adds a title and a header to a number of lines.
fn titled(lines: usize) -> u16 {
    u16::try_from(lines + 2).unwrap_or(u16::MAX)
}

/// Draws the panes: ports and paths with this many lines, the others below.
fn panes(frame: &mut Frame<'_>, state: &mut TopState, area: Rect, [ports, paths]: [u16; 2]) {
    let parts = [Constraint::Length(ports), Constraint::Length(paths), Constraint::Min(4)];
    let [top, middle, bottom] = Layout::vertical(parts).areas(area);
    let [drops, events] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(bottom);
    ports_table(frame, state, top);
    paths_table(frame, state, middle);
    drops_table(frame, state, drops);
    events_list(frame, state, events);
}

/// Returns the first visible line of a pane, and its frame.
fn pane_window(state: &mut TopState, pane: Pane, title: &str, lines: usize, room: u16) -> (usize, Block<'static>) {
    let room = usize::from(room);
    let from = state.scrolled(pane, lines, room);
    (from, block(state, pane, title, lines, from, room))
}

/// A column: its header, its width, and whether it holds numbers, which are right-aligned.
struct Column(&'static str, Constraint, bool);

/// A column of words.
fn words(head: &'static str, width: Constraint) -> Column {
    Column(head, width, false)
}

/// A column of numbers.
fn numbers(head: &'static str, width: u16) -> Column {
    Column(head, Constraint::Length(width), true)
}

/// Returns the width of the longest text, including the header.
fn fitting<'a>(head: &str, texts: impl Iterator<Item = &'a str>) -> Constraint {
    let longest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
    Constraint::Length(longest.max(head.len()).min(usize::from(u16::MAX)) as u16)
}

fn table(frame: &mut Frame<'_>, area: Rect, block: Block<'_>, columns: &[Column], rows: Vec<Vec<Span<'_>>>) {
    let aligned = |(Column(.., right), text): (&Column, Span<'_>)| {
        let line = Line::from(text.content.into_owned()).style(text.style);
        Cell::from(if *right { line.right_aligned() } else { line })
    };
    let head = columns.iter().map(|column| aligned((column, Span::raw(column.0))));
    let head = Row::new(head).style(dim());
    let rows = rows.into_iter().map(|row| Row::new(columns.iter().zip(row).map(aligned)));
    let widths = columns.iter().map(|column| column.1);
    frame.render_widget(Table::new(rows, widths).header(head).block(block).column_spacing(1), area);
}

/// Formats packets a second.
fn pps(packets: f64) -> String {
    format!("{}pps", short(packets))
}

/// Formats a rate of errors, in red if it is not zero.
fn error_rate(packets: f64) -> Span<'static> {
    Span::styled(format!("{}/s", short(packets)), alarm(packets >= 1.0))
}

fn ports_table(frame: &mut Frame<'_>, state: &mut TopState, area: Rect) {
    let all = state.ports();
    let (from, block) = pane_window(state, Pane::Ports, "ports", all.len(), area.height.saturating_sub(2));
    let mut columns = vec![
        words("port", fitting("port", all.iter().map(|port| &*port.name))),
        words("device", Constraint::Fill(1)),
        words("state", Constraint::Length(7)),
        numbers("in", 8),
        numbers("", 8),
        numbers("out", 8),
        numbers("", 8),
        numbers("backlog", 7),
        numbers("drops", 7),
    ];
    if area.width >= WIDE {
        let drawn = words("last 30s", Constraint::Length(DRAWN as u16));
        columns.extend([drawn, numbers("p99", 7), numbers("drops in all", 12)]);
    }
    let row = |port: PortLine| {
        let condition = match (port.closing, port.up) {
            (true, _) => Span::styled("closing", alarm(true)),
            (_, true) => Span::raw("up"),
            _ => Span::styled("down", alarm(true)),
        };
        let Rates { received_pps, sent_pps, received_bps, sent_bps, dropped_pps } = port.rates;
        let rates = [pps(received_pps), rate(received_bps), pps(sent_pps), rate(sent_bps)].map(Span::raw);
        let mut row = vec![Span::raw(port.name), Span::raw(port.device), condition];
        row.extend(rates);
        row.extend([Span::raw(port.backlog_packets.to_string()), error_rate(dropped_pps)]);
        let waited = port.p99_sojourn_ns.map_or("-".into(), brief);
        let drawn = stats::draw_graph(&port.backlog_series, DRAWN);
        row.extend([drawn, waited, short(port.dropped_packets as f64)].map(Span::raw));
        row
    };
    let rows = all.into_iter().skip(from).map(row).collect();
    table(frame, area, block, &columns, rows);
}

fn paths_table(frame: &mut Frame<'_>, state: &mut TopState, area: Rect) {
    let all = state.paths();
    let (from, block) = pane_window(state, Pane::Paths, "paths", all.len(), area.height.saturating_sub(2));
    let columns = [
        words("path", fitting("path", all.iter().map(|path| &*path.name))),
        words("functions", Constraint::Fill(1)),
        numbers("rate", 9),
        numbers("cpu", 6),
        numbers("p99", 7),
        numbers("queued", 7),
        numbers("drops", 7),
        numbers("in all", 8),
    ];
    let row = |path: PathLine| {
        vec![
            Span::raw(path.name),
            Span::raw(path.functions),
            Span::raw(pps(path.entered_pps)),
            Span::raw(format!("{:.1}%", path.cpu * 100.0)),
            Span::styled(path.p99_ns.map_or("-".into(), brief), alarm(path.late_pps > 0.0)),
            Span::raw(path.queued_packets.to_string()),
            error_rate(path.dropped_pps),
            Span::raw(short(path.dropped_packets as f64)),
        ]
    };
    let rows = all.into_iter().skip(from).map(row).collect();
    table(frame, area, block, &columns, rows);
}

fn drops_table(frame: &mut Frame<'_>, state: &mut TopState, area: Rect) {
    let all = state.drops();
    let (from, block) = pane_window(state, Pane::Drops, "drops", all.len(), area.height.saturating_sub(2));
    let columns = [
        words("reason", fitting("reason", all.iter().map(|drop| &*drop.reason))),
        numbers("in all", 6),
        numbers("new", 6),
        words("at", Constraint::Fill(1)),
    ];
    let row = |drop: DropLine| {
        let new = Span::styled(format!("+{}", short(drop.new_packets as f64)), alarm(drop.new_packets > 0));
        vec![Span::raw(drop.reason), Span::raw(short(drop.packets as f64)), new, Span::styled(drop.places, dim())]
    };
    let rows = all.into_iter().skip(from).map(row).collect();
    table(frame, area, block, &columns, rows);
}

fn events_list(frame: &mut Frame<'_>, state: &mut TopState, area: Rect) {
    let room = area.height.saturating_sub(1);
    let (from, block) = pane_window(state, Pane::Events, "events", state.samples.events.len(), room);
    let lines: Vec<Line<'_>> = state
        .samples
        .events
        .iter()
        .skip(from)
        .map(|event| {
            let time = time_of_day(event.time_ns);
            let subject = event.subject.as_ref().map_or_else(String::new, |subject| format!("{subject}: "));
            Line::from(vec![Span::styled(time[..8].to_owned(), dim()), Span::raw(format!(" {subject}{}", event.text))])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Draws the drops on the whole screen: meaning, places, remedy.
fn detail(frame: &mut Frame<'_>, state: &mut TopState, area: Rect) {
    let all = state.drops();
    let from = state.scrolled(Pane::Drops, all.len(), 1);
    let block = block(state, Pane::Drops, "drops", 0, 0, 1);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for DropLine { reason, explanation, packets, dropped_pps, places, .. } in all.into_iter().skip(from) {
        let hint = DropReason::named(&reason).map_or("", DropReason::hint);
        let count = format!("  {packets}, {}/s", short(dropped_pps));
        lines.push(Line::from(vec![Span::styled(reason, bold()), Span::styled(count, alarm(dropped_pps >= 1.0))]));
        lines.push(Line::from(format!("  {explanation}")));
        lines.push(Line::styled(format!("  {hint}"), dim()));
        if !places.is_empty() {
            lines.push(Line::from(format!("  at {places}")));
        }
    }
    if lines.is_empty() {
        lines.push(Line::from("nothing was dropped"));
    }
    let lines = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(lines.block(block.border_style(bold())), area);
}

fn footer(frame: &mut Frame<'_>, state: &TopState, area: Rect) {
    let line = match (&state.error, state.samples.now()) {
        (Some(error), Some(_)) => Line::styled(format!("{error}; retrying every {}", state.interval), alarm(true)),
        _ => Line::styled(KEYS, dim()),
    };
    frame.render_widget(Paragraph::new(line), area);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (64.min(area.width), (HELP.lines().count() as u16 + 2).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), place);
}
