//! How the panes of `top` look: the frame of each, and which text is bold, dim or red.

use super::state::{Pane, State};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Borders};

/// For names and what has the focus.
pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// For what is beside the point.
pub fn dim() -> Style {
    Style::new().fg(Color::DarkGray)
}

/// Red where something is wrong.
pub fn alarm(wrong: bool) -> Style {
    if wrong { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) } else { Style::new() }
}

/// The frame of a pane, which says what it is sorted by, and which of its lines are shown where not all are.
pub fn block(state: &State, pane: Pane, title: &str, lines: usize, from: usize, room: usize) -> Block<'static> {
    let sorted = match pane.orders() {
        [_] => String::new(),
        _ => format!(" by {}", state.order(pane)),
    };
    let part =
        if lines > room { format!(", {}-{} of {lines}", from + 1, lines.min(from + room)) } else { String::new() };
    let block = Block::new().borders(Borders::TOP).title(format!(" {title}{sorted}{part} "));
    if state.focus == pane { block.border_style(bold()).title_style(bold()) } else { block.border_style(dim()) }
}
