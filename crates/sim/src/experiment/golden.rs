//! The golden file of an experiment: its tables and verdicts as comma-separated values, with numbers as printed.

use super::report::ExperimentReport;

/// The content of the golden file: the tables, then the claims.
pub fn golden(report: &ExperimentReport) -> String {
    let mut out = String::new();
    for table in &report.tables {
        out += &format!("# {}\n", table.title);
        out += &line(&table.columns);
        table.rows.iter().for_each(|row| out += &line(row));
        out.push('\n');
    }
    out += "# Claims\nclaim,published,measured,unit,verdict,what differs\n";
    for verdict in &report.verdicts {
        let published = verdict.published.as_ref().map_or(String::new(), ToString::to_string);
        let agreement = verdict.verdict.to_string();
        let differs = verdict.differs.as_deref().unwrap_or("");
        let cells = [&verdict.claim, &published, &verdict.shown, &verdict.unit, &agreement, differs];
        out += &line(&cells.map(str::to_owned));
    }
    report.errors.iter().for_each(|error| out += &format!("# error: {error}\n"));
    out
}

/// One line; a cell with a comma, a quote or an end of line is quoted (RFC 4180).
fn line(cells: &[String]) -> String {
    let quoted = |cell: &String| {
        if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.clone() }
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}
