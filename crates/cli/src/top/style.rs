//! The style of the panes of `top`: frames, and bold, dim or red text.

use super::state::{Pane, TopState};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Borders};

/// For names and the focused pane.
pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// For secondary text.
pub fn dim() -> Style {
    Style::new().fg(Color::DarkGray)
}

/// Red for errors.
pub fn alarm(wrong: bool) -> Style {
    if wrong { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) } else { Style::new() }
}

/// Returns the frame of a pane, with its sort order, and its visible lines if it does not show all.
pub fn block(state: &TopState, pane: Pane, title: &str, lines: usize, from: usize, room: usize) -> Block<'static> {
    let sorted = match pane.orders() {
        [_] => String::new(),
        _ => format!(" by {}", state.order(pane)),
    };
    let part =
        if lines > room { format!(", {}-{} of {lines}", from + 1, lines.min(from + room)) } else { String::new() };
    let block = Block::new().borders(Borders::TOP).title(format!(" {title}{sorted}{part} "));
    if state.focus == pane { block.border_style(bold()).title_style(bold()) } else { block.border_style(dim()) }
}
