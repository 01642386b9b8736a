//! The folder of a report: the request, the method and the results, with figures.

use super::report::{DirectionReport, EmulationReport};
use crate::reproduce::files::{prepare, put};
use crate::reproduce::plot::{Colours, escaped, png, svg};
use anyhow::Result;
use cli::arguments::LinkArguments;
use sim::experiment::{Axis, Curve, Picture};
use std::fmt::Write;
use std::path::Path;

const STYLE: &str = include_str!("../reproduce/page.css");

fn axis(label: &str) -> Axis {
    Axis { label: label.into(), min: Some(0.0), max: None, log: false, scale: None }
}

/// The figures of a report.
fn pictures(report: &EmulationReport) -> Vec<Picture> {
    let picture = |id: &str, title: &str, (x, y): (&str, &str), curves: Vec<Curve>| Picture {
        id: id.into(),
        title: title.into(),
        published: String::new(),
        x: axis(x),
        y: axis(y),
        curves,
        references: Vec::new(),
    };
    let each = |of: fn(&DirectionReport) -> Curve| report.directions.iter().map(of).collect::<Vec<Curve>>();
    let mut carried = each(DirectionReport::throughputs);
    carried.extend(report.directions.iter().filter_map(DirectionReport::limits));
    let time = "time, s";
    vec![
        picture("throughput", "Throughput of the links", (time, "Mbit/s"), carried),
        picture("queue", "Queueing delay", (time, "ms"), each(DirectionReport::delays)),
        picture(
            "delay",
            "One-way delay to the far end",
            ("ms", "fraction of packets with at most this delay"),
            each(DirectionReport::distribution),
        ),
    ]
}

/// The points of a figure's curves, one per line.
fn series(pictures: &[Picture]) -> String {
    let mut out = String::from("picture,curve,x,y\n");
    for picture in pictures {
        for curve in &picture.curves {
            for (x, y) in &curve.points {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "{},\"{}\",{x},{y}", picture.id, curve.label);
            }
        }
    }
    out
}

/// Checks that the folder is writable before the measurement starts.
///
/// # Errors
///
/// Why it is not.
pub fn look(folder: &Path) -> Result<()> {
    prepare(folder)
}

/// Writes the report into a folder: `index.html`, `report.json`, `series.csv`, and each figure as SVG and PNG.
///
/// # Errors
///
/// The file that cannot be written.
pub fn write(folder: &Path, report: &EmulationReport, options: &LinkArguments) -> Result<()> {
    let pictures = pictures(report);
    for picture in &pictures {
        let drawn = svg(picture, &picture.id, &Colours::printed());
        put(&folder.join(format!("{}.svg", picture.id)), drawn.as_bytes())?;
        put(&folder.join(format!("{}.png", picture.id)), &png(&drawn)?)?;
    }
    put(&folder.join("series.csv"), series(&pictures).as_bytes())?;
    put(&folder.join("report.json"), serde_json::to_string_pretty(&report.full_json())?.as_bytes())?;
    put(&folder.join("index.html"), page(report, &pictures, options).as_bytes())
}

fn page(report: &EmulationReport, pictures: &[Picture], options: &LinkArguments) -> String {
    let command = escaped(&options.command.join(" "));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Switchpath: a command behind a link</title><style>\n{STYLE}</style></head><body><main>\n<h1>A command behind a \
         link</h1>\n<p class=\"faint\">Switchpath {}, {:.1} s</p>\n<p><b>Question.</b> How does <code>{command}</code> \
         perform behind these links?</p>\n",
        env!("CARGO_PKG_VERSION"),
        report.duration.as_secs_f64(),
    );
    let links = report.directions.iter().map(|direction| {
        let link = direction.link.as_ref().map_or(String::new(), |link| link.medium.to_string());
        let scheme = direction.side.scheme_of(options);
        format!("{}: <code>{}</code> behind <code>{}</code>", direction.side.name(), escaped(&link), escaped(scheme))
    });
    let links: Vec<String> = links.collect();
    out += &format!(
        "<p><b>Method.</b> The command ran in its own network namespace, with the kernel's TCP. Its packets crossed a router \
         of this process and the two links. {}. Bytes are those of IP packets, as counted by the \
         links.</p>\n<h3>Result</h3>\n<div class=\"scroll\"><table>\
         <tr><th><th class=\"number\">Down<th class=\"number\">Up</tr>\n",
        links.join("; "),
    );
    for [name, down, up] in report.rows() {
        let [name, down, up] = [name, down, up].map(|cell| escaped(&cell));
        let _ = writeln!(out, "<tr><td>{name}<td class=\"number\">{down}<td class=\"number\">{up}</tr>");
    }
    out += "</table></div>\n";
    out += &verdict(report);
    for picture in pictures {
        let (drawn, id) = (svg(picture, &picture.id, &Colours::of_page()), &picture.id);
        let _ = writeln!(
            out,
            "<figure>{drawn}<figcaption><a href=\"{id}.svg\">SVG</a> \u{b7} <a href=\"{id}.png\">PNG</a></figcaption></figure>"
        );
    }
    out + "<p class=\"faint\"><a href=\"series.csv\">The curves as CSV</a> \u{b7} <a href=\"report.json\">Everything, as \
           JSON</a></p>\n</main></body></html>\n"
}

/// Says if the links, and not this machine, limited the measurement.
fn verdict(report: &EmulationReport) -> String {
    let told = report.bottleneck();
    if told.is_empty() {
        return "<p><span class=\"yes\">\u{2713}</span> The machine did not distort the result: it added less than 0.3 ms to \
                99 of 100 packets, and lost none.</p>\n"
            .into();
    }
    let items: String = told.iter().map(|line| format!("<li>{}</li>", escaped(line))).collect();
    format!(
        "<p><span class=\"no\">\u{2717}</span> This machine was a bottleneck, in addition to the links:</p><ul>{items}</ul>\n"
    )
}
