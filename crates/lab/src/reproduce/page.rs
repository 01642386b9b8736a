//! The results page: a single HTML file with its figures and styles inside, ready to open or send.

use super::plot::{Colours, escaped, svg};
use sim::experiment::{Agreement, ClaimVerdict, ExperimentReport, Grid, VerdictCounts};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// The page.
pub fn page(reports: &[ExperimentReport]) -> String {
    let tally: VerdictCounts =
        reports.iter().flat_map(|report| &report.verdicts).map(|verdict| verdict.verdict).collect();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Switchpath: results</title><style>\n{STYLE}</style></head><body><main>\n<h1>Published results and the results \
         of Switchpath</h1>\n<p>{tally}.</p>\n<p class=\"faint\">{LEGEND} Switchpath {}, {} runs.</p>\n",
        env!("CARGO_PKG_VERSION"),
        reports.iter().map(|report| report.runs).sum::<usize>(),
    );
    if reports.len() > 1 {
        out += &summary(reports);
    }
    reports.iter().for_each(|report| out += &section(report));
    out + "</main></body></html>\n"
}

fn anchor(report: &ExperimentReport) -> String {
    escaped(&format!("{}-{}", report.paper, report.experiment))
}

/// The meaning of the verdicts, for readers of the page.
const LEGEND: &str = "Matches: the figure is within the tolerance of the claim, or the claim holds if no numbers are \
                      published. Direction only: the figure is outside the tolerance, but the paper's conclusion holds. Not \
                      reproduced: neither. Reported: an input of the model, or a figure without a claim.";

fn verdict_of(verdict: Agreement) -> String {
    let (class, sign) = match verdict {
        Agreement::Matches => ("yes", '\u{2713}'),
        Agreement::DirectionOnly => ("partly", '\u{2248}'),
        Agreement::NotReproduced => ("no", '\u{2717}'),
        Agreement::Reported => ("reported", '\u{2022}'),
    };
    format!("<span class=\"{class}\">{sign} {verdict}</span>")
}

fn summary(reports: &[ExperimentReport]) -> String {
    let mut out = String::from(
        "<div class=\"scroll\"><table><tr><th>Experiment<th>About<th class=\"number\">Matches<th class=\"number\">Direction \
         only<th class=\"number\">Not reproduced<th class=\"number\">Reported</tr>\n",
    );
    for report in reports {
        let tally = report.verdict_counts();
        let counts = Agreement::ALL.map(|verdict| format!("<td class=\"number\">{}", tally.count(verdict))).concat();
        let failed = if report.errors.is_empty() { "" } else { " <span class=\"no\">with errors</span>" };
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#{}\">{} {}</a>{failed}<td>{}{counts}</tr>",
            anchor(report),
            escaped(&report.paper),
            escaped(&report.experiment),
            escaped(&report.title),
        );
    }
    out + "</table></div>\n"
}

fn section(report: &ExperimentReport) -> String {
    let e = escaped;
    let mut out = format!("<h2 id=\"{}\">{} \u{b7} {}</h2>\n", anchor(report), e(&report.experiment), e(&report.title));
    let _ = writeln!(
        out,
        "<p class=\"faint\">{} \u{b7} {} \u{b7} {} runs, {}</p>\n<p><b>Question.</b> {}</p>",
        e(&report.paper),
        e(&report.published),
        report.runs,
        e(&report.measured_by),
        e(&report.question)
    );
    for (number, paragraph) in report.method.split("\n\n").filter(|text| !text.trim().is_empty()).enumerate() {
        let head = if number == 0 { "<b>Method.</b> " } else { "" };
        let _ = writeln!(out, "<p>{head}{}</p>", e(paragraph.trim()));
    }
    if !report.verdicts.is_empty() {
        let _ = writeln!(out, "<p>{}.</p>", report.verdict_counts());
        out += &claims(&report.verdicts);
    }
    for remark in &report.remarks {
        let _ = writeln!(out, "<p class=\"faint\">{}</p>", e(remark));
    }
    for error in &report.errors {
        let _ = writeln!(out, "<p class=\"no\">{}</p>", e(error));
    }
    for picture in &report.pictures {
        let name = format!("{}-{}", report.experiment, picture.id);
        let file = e(&format!("{}/{name}", report.paper));
        let _ = writeln!(
            out,
            "<figure>{}<figcaption><a href=\"{file}.svg\">SVG</a> \u{b7} <a href=\"{file}.png\">PNG</a></figcaption></figure>",
            svg(picture, &format!("{}-{name}", report.paper), &Colours::of_page())
        );
    }
    report.tables.iter().for_each(|table| out += &grid(table));
    let file = e(&format!("{}/{}", report.paper, report.experiment));
    let _ = writeln!(
        out,
        "<p class=\"faint\"><a href=\"{file}.csv\">Tables and claims as CSV</a> \u{b7} \
         <a href=\"{file}.json\">All measurements, as JSON</a></p>"
    );
    out
}

fn claims(verdicts: &[ClaimVerdict]) -> String {
    let mut out = String::from(
        "<h3>Result</h3><div class=\"scroll\"><table><tr><th>Claim<th>Published<th>Measured<th>Verdict</tr>\n",
    );
    for verdict in verdicts {
        let published = verdict.published.as_ref().map_or(String::from("\u{2013}"), ToString::to_string);
        let error =
            verdict.error.as_ref().map_or(String::new(), |e| format!("<br><span class=\"no\">{}</span>", escaped(e)));
        let differs =
            verdict.differs.as_ref().map_or(String::new(), |d| format!("<br><b>What differs.</b> {}", escaped(d)));
        let _ = writeln!(
            out,
            "<tr><td>{}{differs}{error}<br><span class=\"faint\">{}</span><td>{}<td>{} {}<td>{}</tr>",
            escaped(&verdict.text),
            escaped(&verdict.claim),
            escaped(&published),
            escaped(&verdict.shown),
            escaped(&verdict.unit),
            verdict_of(verdict.verdict)
        );
    }
    out + "</table></div>\n"
}

fn grid(table: &Grid) -> String {
    let is_number = |cell: &str| cell.parse::<f64>().is_ok() || cell == "-";
    let numeric: Vec<bool> =
        (0..table.columns.len()).map(|column| table.rows.iter().all(|row| is_number(&row[column]))).collect();
    let class = |column: usize| if numeric[column] { " class=\"number\"" } else { "" };
    let mut out = format!("<h3>{}</h3><div class=\"scroll\"><table><tr>", escaped(&table.title));
    for (column, name) in table.columns.iter().enumerate() {
        let _ = write!(out, "<th{}>{}", class(column), escaped(name));
    }
    out += "</tr>\n";
    for row in &table.rows {
        out += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}", class(column), escaped(cell));
        }
        out += "</tr>\n";
    }
    out + "</table></div>\n"
}
