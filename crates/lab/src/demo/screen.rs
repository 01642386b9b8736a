//! The terminal output: a table that is redrawn in place, or one line a second if the output is no terminal.
//!
//! The terminal is never put into a special mode, so there is nothing to restore when the process is killed.

use super::Reload;
use super::traffic::Traffic;
use super::view::DemoView;
use std::io::{self, IsTerminal, Write};

/// The assumed size of a terminal that does not report one.
const SIZE: (usize, usize) = (24, 80);

/// The standard output.
pub struct Screen {
    live: bool,
    /// Lines of the last drawing, which the next one replaces.
    drawn: usize,
}

impl Screen {
    /// With a live table on a terminal, unless `plain` is set.
    pub fn new(plain: bool) -> Screen {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Screen { live: !plain && !dumb && io::stdout().is_terminal(), drawn: 0 }
    }

    /// True if there is a live table.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Prints a line above the table.
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }

    /// Shows the counters.
    pub fn draw(&mut self, view: &DemoView, traffic: &Traffic, reload: Option<&Reload>) -> io::Result<()> {
        if !self.live {
            return self.say(&view.line(traffic));
        }
        let (rows, columns) = size();
        // Leave the last row free, or the terminal scrolls.
        let lines = view.table(traffic, reload, rows.saturating_sub(1));
        let mut text = String::from("\x1b[?2026h");
        if self.drawn > 0 {
            text += &format!("\x1b[{}A", self.drawn);
        }
        for line in &lines {
            text += &format!("\r{}\x1b[K\n", cut(line, columns));
        }
        text += "\x1b[J\x1b[?2026l";
        self.drawn = lines.len();
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Keeps the last drawing on the screen.
    pub fn leave(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.drawn) > 0 {
            self.say("")?;
        }
        Ok(())
    }
}

fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => SIZE,
    }
}

/// The first `columns` characters of a line. Colour sequences (ECMA-48 CSI) have no width and are kept.
fn cut(line: &str, columns: usize) -> String {
    let (mut kept, mut left, mut in_sequence) = (String::new(), columns, false);
    for character in line.chars() {
        if in_sequence || character == '\x1b' {
            in_sequence = character == '\x1b' || character == '[' || !character.is_ascii_alphabetic();
            kept.push(character);
        } else if left > 0 {
            left -= 1;
            kept.push(character);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn line_is_cut_to_screen_width_but_keeps_colours() {
        assert_eq!(cut("abcdef", 4), "abcd");
        assert_eq!(cut("\x1b[1mabcdef\x1b[0m", 4), "\x1b[1mabcd\x1b[0m");
        assert_eq!(cut("ab\x1b[38;5;10mcd\x1b[0mef", 3), "ab\x1b[38;5;10mc\x1b[0m");
        assert_eq!(cut("è é", 80), "è é");
    }
}
