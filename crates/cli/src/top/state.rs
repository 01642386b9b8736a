//! The selections of the person at the terminal, and the keys that change them.

use super::sample::{DropLine, PathLine, PortLine, Samples, TopSample};
use control::ClientError;
use ratatui::crossterm::event::KeyCode;
use std::cmp::Ordering;

/// A pane of the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pane {
    Ports,
    Paths,
    Drops,
    Events,
    /// Shown on the whole screen.
    Links,
}

impl Pane {
    const ALL: [Pane; 4] = [Pane::Ports, Pane::Paths, Pane::Drops, Pane::Events];

    /// The columns it can be sorted by.
    pub fn orders(self) -> &'static [&'static str] {
        match self {
            Pane::Ports => &["name", "in", "out", "drops", "backlog"],
            Pane::Paths => &["order", "rate", "cpu", "drops", "queued"],
            Pane::Drops => &["rate", "total", "reason"],
            Pane::Events => &["latest"],
            Pane::Links => &["name"],
        }
    }
}

/// The action after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyAction {
    /// Draw again.
    Draw,
    /// Ask the router at once, and draw.
    Ask,
    /// End.
    Quit,
}

/// The state of the view.
pub struct TopState {
    pub samples: Samples,
    /// The interval between requests, for the header: `1s`.
    pub interval: String,
    pub focus: Pane,
    pub paused: bool,
    pub help: bool,
    /// True if drops with their meanings fill the screen.
    pub detail: bool,
    /// True if the links fill the screen.
    pub links: bool,
    /// Why the previous request failed.
    pub error: Option<String>,
    sorting: [usize; 5],
    scroll: [usize; 5],
}

impl TopState {
    pub fn new(interval: String) -> TopState {
        TopState {
            samples: Samples::default(),
            interval,
            focus: Pane::Ports,
            paused: false,
            help: false,
            detail: false,
            links: false,
            error: None,
            sorting: [0; 5],
            scroll: [0; 5],
        }
    }

    /// Stores the answer of the router, or its error. A lost router may return.
    pub fn record_answer(&mut self, answer: Result<TopSample, ClientError>) {
        self.error = match answer {
            Ok(sample) => {
                self.samples.add(sample);
                None
            }
            Err(error) => Some(error.to_string()),
        };
    }

    /// Handles a key.
    pub fn key(&mut self, code: KeyCode) -> KeyAction {
        if self.help && code != KeyCode::Char('q') {
            self.help = false;
            return KeyAction::Draw;
        }
        match code {
            KeyCode::Char('q') => return KeyAction::Quit,
            KeyCode::Esc if self.detail || self.links => (self.detail, self.links) = (false, false),
            KeyCode::Esc => return KeyAction::Quit,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('d') => (self.detail, self.links) = (!self.detail, false),
            KeyCode::Char('b') => (self.links, self.detail) = (!self.links, false),
            KeyCode::Char('p' | ' ') => {
                self.paused = !self.paused;
                return if self.paused { KeyAction::Draw } else { KeyAction::Ask };
            }
            KeyCode::Char('s') => {
                let at = self.focus as usize;
                self.sorting[at] = (self.sorting[at] + 1) % self.focus.orders().len();
            }
            KeyCode::Tab | KeyCode::Right => self.move_focus(1),
            KeyCode::BackTab | KeyCode::Left => self.move_focus(Pane::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll[self.scrolled_pane() as usize] += 1,
            KeyCode::Up | KeyCode::Char('k') => {
                let at = self.scrolled_pane() as usize;
                self.scroll[at] = self.scroll[at].saturating_sub(1);
            }
            KeyCode::Home => self.scroll[self.scrolled_pane() as usize] = 0,
            _ => {}
        }
        KeyAction::Draw
    }

    fn move_focus(&mut self, by: usize) {
        self.focus = Pane::ALL[(self.focus as usize + by) % Pane::ALL.len()];
    }

    /// Returns the pane that keys scroll.
    fn scrolled_pane(&self) -> Pane {
        match () {
            () if self.links => Pane::Links,
            () if self.detail => Pane::Drops,
            () => self.focus,
        }
    }

    /// Returns the column a pane is sorted by.
    pub fn order(&self, pane: Pane) -> &'static str {
        pane.orders()[self.sorting[pane as usize]]
    }

    /// Returns how far a pane of `lines` lines is scrolled, with room for `room`.
    pub fn scrolled(&mut self, pane: Pane, lines: usize, room: usize) -> usize {
        let scroll = &mut self.scroll[pane as usize];
        *scroll = (*scroll).min(lines.saturating_sub(room));
        *scroll
    }

    /// Returns the ports in sorted order.
    pub fn ports(&self) -> Vec<PortLine> {
        let mut ports = self.samples.ports();
        match self.order(Pane::Ports) {
            "in" => ports.sort_by(|a, b| descending(a.rates.received_pps, b.rates.received_pps)),
            "out" => ports.sort_by(|a, b| descending(a.rates.sent_pps, b.rates.sent_pps)),
            "drops" => ports.sort_by(|a, b| {
                descending(a.rates.dropped_pps, b.rates.dropped_pps).then(b.dropped_packets.cmp(&a.dropped_packets))
            }),
            "backlog" => ports.sort_by_key(|port| std::cmp::Reverse(port.backlog_packets)),
            _ => {}
        }
        ports
    }

    /// Returns the paths in sorted order.
    pub fn paths(&self) -> Vec<PathLine> {
        let mut paths = self.samples.paths();
        match self.order(Pane::Paths) {
            "rate" => paths.sort_by(|a, b| descending(a.entered_pps, b.entered_pps)),
            "cpu" => paths.sort_by(|a, b| descending(a.cpu, b.cpu)),
            "drops" => paths.sort_by(|a, b| {
                descending(a.dropped_pps, b.dropped_pps).then(b.dropped_packets.cmp(&a.dropped_packets))
            }),
            "queued" => paths.sort_by_key(|path| std::cmp::Reverse(path.queued_packets)),
            _ => {}
        }
        paths
    }

    /// Returns the drop reasons in sorted order.
    pub fn drops(&self) -> Vec<DropLine> {
        let mut drops = self.samples.drops();
        match self.order(Pane::Drops) {
            "total" => drops.sort_by_key(|drop| std::cmp::Reverse(drop.packets)),
            "reason" => drops.sort_by(|a, b| a.reason.cmp(&b.reason)),
            _ => drops.sort_by(|a, b| descending(a.dropped_pps, b.dropped_pps).then(b.packets.cmp(&a.packets))),
        }
        drops
    }
}

/// Orders the larger value first.
fn descending(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}
