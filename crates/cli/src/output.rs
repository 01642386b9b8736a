//! Tables and colours; without colours if the output is no terminal.

use anyhow::Result;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use plan::Diagnostics;
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// Returns whether the stream is a terminal that may have colours.
pub fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Shows diagnostics to the person at the terminal.
pub fn show_diagnostics(found: &Diagnostics) -> Result<()> {
    if !found.is_empty() {
        write!(std::io::stderr(), "{}", found.render(is_coloured(&std::io::stderr())))?;
    }
    Ok(())
}

/// A table with one line a row. Columns whose name starts with `>` are right-aligned.
pub struct Rows {
    table: Table,
    columns: Vec<String>,
}

impl Rows {
    /// Creates a table with these columns.
    pub fn new(columns: &[&str]) -> Rows {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let bold = is_coloured(&std::io::stdout());
        let header = columns.iter().map(|name| {
            let cell = Cell::new(name.trim_start_matches('>'));
            let cell = if name.starts_with('>') { cell.set_alignment(CellAlignment::Right) } else { cell };
            if bold { cell.add_attribute(Attribute::Bold) } else { cell }
        });
        table.set_header(header);
        Rows { table, columns: columns.iter().map(|name| (*name).to_owned()).collect() }
    }

    /// Adds a row with one cell for each column.
    pub fn add<const N: usize>(&mut self, cells: [String; N]) {
        self.line(cells.into());
    }

    /// Adds a row whose number of cells is only known at run time.
    pub fn line(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.table.add_row(self.columns.iter().zip(cells).map(|(column, text)| aligned(column, text)));
    }

    /// Adds a row with the colour of each cell.
    pub fn shaded(&mut self, cells: Vec<(String, Option<Heat>)>) {
        let coloured = is_coloured(&std::io::stdout());
        let (texts, heats): (Vec<String>, Vec<Option<Heat>>) = cells.into_iter().unzip();
        let cell = |((column, text), heat): ((&String, String), Option<Heat>)| {
            let cell = aligned(column, text);
            heat.filter(|_| coloured).map_or(cell.clone(), |heat| cell.fg(heat.colour()))
        };
        self.table.add_row(self.columns.iter().zip(texts).zip(heats).map(cell));
    }

    /// Prints the table.
    pub fn print(&self, out: &mut dyn Write) -> Result<()> {
        for line in self.table.lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn aligned(column: &str, text: String) -> Cell {
    let align = if column.starts_with('>') { CellAlignment::Right } else { CellAlignment::Left };
    Cell::new_owned(text).set_alignment(align)
}

/// How much of a link is in use, in tenths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heat(usize);

impl Heat {
    /// The heat of a use in millionths of the ceiling. A burst may exceed the ceiling for a moment.
    pub fn of_ppm(ppm: u64) -> Heat {
        Heat((ppm.saturating_add(50_000) / 100_000).min(10) as usize)
    }

    /// A bar of ten characters.
    pub fn bar(self) -> String {
        let [full, empty] = if is_coloured(&std::io::stdout()) { ["\u{2588}", "\u{2591}"] } else { ["#", "."] };
        full.repeat(self.0) + &empty.repeat(10 - self.0)
    }

    /// Green, yellow from 65 %, red from 85 %.
    fn colour(self) -> Color {
        match self.0 {
            9.. => Color::Red,
            7.. => Color::Yellow,
            _ => Color::Green,
        }
    }
}

/// Prints a value as indented JSON.
pub fn print_json(out: &mut dyn Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Returns the text, or a dash for a missing one.
pub fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

/// Formats a short time with three digits: `35ns`, `1.2us`, `17ms`.
pub fn brief(ns: u64) -> String {
    scaled(ns as f64, &["ns", "us", "ms", "s"])
}

/// Formats a rate as tc does, with three digits.
pub fn rate(bps: f64) -> String {
    scaled(bps, &["bit", "kbit", "mbit", "gbit", "tbit"])
}

/// Formats a number with three digits: `1.25M`.
pub fn short(number: f64) -> String {
    scaled(number, &["", "k", "M", "G", "T"])
}

fn scaled(mut number: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while number >= 999.5 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    // The sum of no floating-point numbers is -0.0, which would print as `-0`.
    if number.abs() < 0.5 && unit == 0 {
        number = 0.0;
    }
    let digits = match number {
        n if unit == 0 || n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.digits$}{}", units[unit])
}

/// A part of the processor in millionths, as per cent.
pub fn processor(ppm: u64) -> String {
    format!("{:.3}%", ppm as f64 / 1e4)
}

/// Formats a duration in its two largest units.
pub fn span(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, 0) => format!("{}ms", ns / 1_000_000),
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, s) => format!("{m}m{s:02}s"),
        (0, h, m, _) => format!("{h}h{m:02}m"),
        (d, h, ..) => format!("{d}d{h:02}h"),
    }
}

/// Formats a date and a time of day in UTC, to the second: `2026-03-01 13:05:59`. Days count from 1 March of the year 0, so that the leap day is the
/// last of its year.
pub fn date_and_time(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}")
}

/// Formats a time of day in UTC, to the millisecond: `13:05:59.123`.
pub fn time_of_day(ns: u64) -> String {
    let ms = ns / 1_000_000 % 86_400_000;
    format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (number, text) in
            [(0.0, "0bit"), (999.0, "999bit"), (999.6, "1.00kbit"), (12_345.0, "12.3kbit"), (9.4e9, "9.40gbit")]
        {
            assert_eq!(rate(number), text);
        }
        assert_eq!(short(-0.0), "0", "an empty sum is minus zero");
        assert_eq!(short(1_250_000.0), "1.25M");
        assert_eq!(short(123_456.0), "123k");
    }

    #[test]
    fn durations_and_times_are_formatted_in_fixed_forms() {
        for (ns, text) in
            [(5_000_000, "5ms"), (59_000_000_000, "59s"), (61_000_000_000, "1m01s"), (90_000_000_000_000, "1d01h")]
        {
            assert_eq!(span(ns), text);
        }
        assert_eq!(time_of_day(47_159_123_456_789), "13:05:59.123");
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (1_767_225_599, "2025-12-31 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date_and_time(seconds * 1_000_000_000), text);
        }
    }

    #[test]
    fn a_table_is_plain_text_in_columns() {
        let mut rows = Rows::new(&["name", ">packets"]);
        rows.add(["lan".into(), "7".into()]);
        rows.add(["a".into(), "12345678".into()]);
        let mut out = Vec::new();
        rows.print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text.lines().map(str::trim_end).collect::<Vec<_>>(),
            [" name   packets", " lan          7", " a     12345678"]
        );
    }
}
