//! The graph as a picture: ports on the left and on the right, and a row for each path between them.

use super::PathGraph;
use std::fmt::Write;

/// The width of a letter, the height of a box, and the space between rows and between boxes.
const LETTER: f64 = 7.2;
const BOX: f64 = 30.0;
const ROW: f64 = 78.0;
const GAP: f64 = 26.0;
/// The space at the edges, inside a box beside its text, and for the edges beside the ports.
const MARGIN: f64 = 16.0;
const PADDING: f64 = 9.0;
const FAN: f64 = 60.0;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER + 2.0 * PADDING
}

/// A picture in work.
struct Picture {
    out: String,
    height: f64,
}

impl Picture {
    /// A box with its text. `at` is its left edge and its middle.
    fn node(&mut self, (x, y): (f64, f64), text: &str, class: &str) {
        let (wide, top) = (width(text), y - BOX / 2.0);
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{BOX}\" rx=\"5\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + PADDING,
            y + 4.5,
            escaped(text)
        );
    }

    fn label(&mut self, (x, y): (f64, f64), text: &str, class: &str) {
        let _ = writeln!(self.out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text));
    }

    /// A curve between two points, with an arrow at its end.
    fn edge(&mut self, (x, y): (f64, f64), (to, end): (f64, f64)) {
        let half = (to - x) / 2.0;
        let _ = writeln!(
            self.out,
            "<path d=\"M{x:.1} {y:.1}C{:.1} {y:.1} {:.1} {end:.1} {to:.1} {end:.1}\" marker-end=\"url(#arrow)\"/>",
            x + half,
            to - half
        );
    }

    /// The heights of so many boxes in a column.
    fn places(&self, count: usize) -> Vec<f64> {
        let step = (self.height - 2.0 * MARGIN) / count.max(1) as f64;
        (0..count).map(|number| MARGIN + step * (number as f64 + 0.5)).collect()
    }
}

impl PathGraph {
    /// The graph as an SVG picture.
    pub(super) fn svg(&self) -> String {
        let rows = self.paths.len().max(self.ports.len()).max(1);
        let mut picture = Picture { out: String::new(), height: rows as f64 * ROW + 2.0 * MARGIN };
        let (ports, paths) = (picture.places(self.ports.len()), picture.places(self.paths.len()));
        let names = self.ports.iter().map(|port| width(&port.name)).fold(0.0, f64::max);
        let classify = (MARGIN + names + FAN, picture.height / 2.0);
        for (port, &y) in self.ports.iter().zip(&ports) {
            picture.node((MARGIN, y), &port.name, "port");
            picture.edge((MARGIN + width(&port.name), y), classify);
        }
        picture.node(classify, "classify", "choice");
        let first = classify.0 + width("classify") + FAN;
        let length = |path: &super::GraphPath| path.way().map(|stage| width(stage) + GAP).sum::<f64>() - GAP;
        let caption = |path: &super::GraphPath| width(&format!("{}: {}", path.name, path.packets));
        let longest = self.paths.iter().map(|path| length(path).max(caption(path))).fold(0.0, f64::max);
        let right = first + longest + FAN;
        for (path, &y) in self.paths.iter().zip(&paths) {
            picture.edge((classify.0 + width("classify"), classify.1), (first, y));
            picture.label((first, y - BOX / 2.0 - 8.0), &format!("{}: {}", path.name, path.packets), "name");
            let (mut x, last) = (first, path.functions.len() + 1);
            for (number, stage) in path.way().enumerate() {
                picture.node((x, y), stage, if number == 0 || number == last { "queue" } else { "function" });
                x += width(stage);
                if number < last {
                    picture.edge((x, y), (x + GAP, y));
                    x += GAP;
                }
            }
            let leads: Vec<String> = path.leads.iter().map(|(rule, to)| format!("{rule} -> {to}")).collect();
            if !leads.is_empty() {
                picture.label((first, y + BOX / 2.0 + 15.0), &leads.join("; "), "lead");
            }
            // Straight until behind the longest path, so that no curve crosses boxes of another path.
            let end = (first + longest, y);
            let _ = writeln!(picture.out, "<path d=\"M{x:.1} {y:.1}H{:.1}\"/>", end.0);
            ports.iter().for_each(|&port| picture.edge(end, (right, port)));
        }
        let texts: Vec<String> = self.ports.iter().map(|port| format!("{}: {}", port.name, port.scheme)).collect();
        texts.iter().zip(&ports).for_each(|(text, &y)| picture.node((right, y), text, "port"));
        let wide = right + texts.iter().map(|text| width(text)).fold(0.0, f64::max) + MARGIN;
        let Picture { out, height } = picture;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide:.0} {height:.0}\" width=\"{wide:.0}\" height=\"{height:.0}\">\n\
             <style>text{{font:12px monospace;fill:#1f2328}}.name{{font-weight:bold}}.lead{{fill:#59636e}}rect{{fill:#fff;stroke:#59636e}}\
             .queue{{fill:#eef3f8}}.function{{fill:#e6f4ea}}.choice{{fill:#fdf3e1}}path{{fill:none;stroke:#59636e}}</style>\n\
             <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
             <path d=\"M0 0L8 4L0 8z\" style=\"fill:#59636e;stroke:none\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" style=\"stroke:none\"/>\n{out}</svg>\n"
        )
    }
}
