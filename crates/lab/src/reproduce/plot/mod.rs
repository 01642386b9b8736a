//! Figures of results as SVG and PNG. Curves differ in colour, dash pattern and marker, and are labelled directly.

mod png;
mod scale;

pub use png::png;
use scale::Scale;
use sim::experiment::{Curve, Picture};
use std::fmt::Write;

/// Width and height of the plot area in pixels.
const FIELD: (f64, f64) = (520.0, 320.0);
/// Margins: left for tick labels and axis label, above for the title, below for tick labels and axis label.
const LEFT: f64 = 78.0;
const ABOVE: f64 = 62.0;
const BELOW: f64 = 58.0;
/// Average width of a character of a label.
const LETTER: f64 = 6.6;
/// Curves with more points than this have no markers.
const MARKED: usize = 40;
/// Characters in one row of a curve's label.
const ROW: usize = 34;

/// The colours of a figure as CSS.
#[derive(Clone, Debug)]
pub struct Colours {
    background: String,
    ink: String,
    faint: String,
    grid: String,
    lines: [String; 7],
}

impl Colours {
    /// Dark on white, for files and print. The curves use the palette of Okabe and Ito (2008), which is safe for all kinds of colour vision. Its
    /// yellow is darkened, because it is hard to see on white.
    pub fn printed() -> Colours {
        Colours {
            background: "#ffffff".into(),
            ink: "#1f2328".into(),
            faint: "#59636e".into(),
            grid: "#e4e7eb".into(),
            lines: ["#0072b2", "#d55e00", "#009e73", "#aa4499", "#b07d00", "#56b4e9", "#555555"].map(str::to_owned),
        }
    }

    /// The colours of the surrounding page (`page.css`), light or dark.
    pub fn of_page() -> Colours {
        let variable = |name: &str| format!("var(--{name})");
        Colours {
            background: "none".into(),
            ink: variable("ink"),
            faint: variable("faint"),
            grid: variable("grid"),
            lines: [0, 1, 2, 3, 4, 5, 6].map(|n| variable(&format!("line{n}"))),
        }
    }
}

/// The figure as SVG. Its `name` has to be unique in the page.
pub fn svg(picture: &Picture, name: &str, colours: &Colours) -> String {
    Drawing::new(picture, name, colours).draw()
}

struct Drawing<'a> {
    picture: &'a Picture,
    name: String,
    colours: &'a Colours,
    x: Scale,
    y: Scale,
    out: String,
}

/// Escapes `<`, `&` and quotes for XML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Wraps a text into rows of at most `most` characters.
fn rows(text: &str, most: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split_whitespace() {
        let last = rows.last_mut().expect("there is one from the start");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > most {
            rows.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    rows
}

impl<'a> Drawing<'a> {
    fn new(picture: &'a Picture, name: &str, colours: &'a Colours) -> Drawing<'a> {
        let points = || {
            let measured = picture.curves.iter().flat_map(|curve| &curve.points);
            measured.chain(picture.references.iter().flat_map(|reference| &reference.points))
        };
        let xs: Vec<f64> = points().map(|p| p.0).collect();
        let levels = picture.references.iter().filter_map(|reference| reference.y);
        let ys: Vec<f64> = points().map(|p| p.1).chain(levels).collect();
        let x = Scale::new(&xs, picture.x.min, picture.x.max, picture.x.log);
        let y = Scale::new(&ys, picture.y.min, picture.y.max, picture.y.log);
        Drawing { picture, name: escaped(name), colours, x, y, out: String::new() }
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (LEFT + self.x.place(x) * FIELD.0, ABOVE + (1.0 - self.y.place(y)) * FIELD.1)
    }

    fn add(&mut self, element: impl AsRef<str>) {
        self.out += element.as_ref();
        self.out.push('\n');
    }

    fn draw(mut self) -> String {
        let names =
            self.picture.curves.iter().map(|c| &c.label).chain(self.picture.references.iter().map(|r| &r.label));
        let widest = names.flat_map(|name| rows(name, ROW)).map(|row| row.chars().count()).max().unwrap_or(0);
        let width = (LEFT + FIELD.0 + 58.0 + LETTER * widest as f64).max(LEFT + FIELD.0 + 20.0).ceil();
        let height = ABOVE + FIELD.1 + BELOW;
        let Colours { background, ink, faint, .. } = self.colours;
        self.add(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="Noto Sans, system-ui, sans-serif" font-size="12" role="img">"#
        ));
        let (title, beside) = (escaped(&self.picture.title), escaped(&self.picture.published));
        self.add(format!("<title>{title}</title>"));
        self.add(format!(r#"<rect width="{width}" height="{height}" fill="{background}"/>"#));
        self.add(format!(r#"<text x="14" y="24" font-size="15" font-weight="bold" fill="{ink}">{title}</text>"#));
        if !beside.is_empty() {
            self.add(format!(r#"<text x="14" y="43" fill="{faint}">beside {beside}</text>"#));
        }
        self.axes();
        self.add(format!(
            r#"<clipPath id="field-{0}"><rect x="{LEFT}" y="{ABOVE}" width="{1}" height="{2}"/></clipPath>"#,
            self.name, FIELD.0, FIELD.1
        ));
        let mut below = ABOVE + 8.0;
        for number in 0..self.picture.references.len() {
            self.reference(number);
        }
        for (number, curve) in self.picture.curves.iter().enumerate() {
            self.curve(number, curve);
            below = self.label(below, &curve.label, |d, at| d.sample(number, at));
        }
        for reference in &self.picture.references {
            let faint = faint.clone();
            below = self.label(below, &reference.label, |d, (x, y)| {
                if reference.y.is_some() || reference.points.len() > 1 {
                    d.add(dotted(&format!("{x:.1} {y:.1}h26"), &faint));
                }
                if !reference.points.is_empty() {
                    d.add(ring((x + 13.0, y), &faint));
                }
            });
        }
        self.add("</svg>");
        self.out
    }

    fn axes(&mut self) {
        let Colours { ink, faint, grid, .. } = self.colours.clone();
        let (right, bottom) = (LEFT + FIELD.0, ABOVE + FIELD.1);
        for tick in self.y.ticks.clone() {
            let y = ABOVE + (1.0 - self.y.place(tick)) * FIELD.1;
            self.add(format!(r#"<path d="M{LEFT} {y:.1}H{right}" stroke="{grid}"/>"#));
            let text = self.y.written(tick);
            self.add(format!(
                r#"<text x="{}" y="{:.1}" text-anchor="end" fill="{faint}">{text}</text>"#,
                LEFT - 8.0,
                y + 4.0
            ));
        }
        for tick in self.x.ticks.clone() {
            let x = LEFT + self.x.place(tick) * FIELD.0;
            self.add(format!(r#"<path d="M{x:.1} {bottom}v5" stroke="{faint}"/>"#));
            let text = self.x.written(tick);
            self.add(format!(
                r#"<text x="{x:.1}" y="{}" text-anchor="middle" fill="{faint}">{text}</text>"#,
                bottom + 19.0
            ));
        }
        self.add(format!(r#"<path d="M{LEFT} {ABOVE}V{bottom}H{right}" stroke="{faint}" fill="none"/>"#));
        let middle = (LEFT + FIELD.0 / 2.0, ABOVE + FIELD.1 / 2.0);
        let (x, y) = (escaped(&self.picture.x.label), escaped(&self.picture.y.label));
        self.add(format!(
            r#"<text x="{}" y="{}" text-anchor="middle" fill="{ink}">{x}</text>"#,
            middle.0,
            bottom + 42.0
        ));
        self.add(format!(
            r#"<text transform="translate(20 {}) rotate(-90)" text-anchor="middle" fill="{ink}">{y}</text>"#,
            middle.1
        ));
    }

    /// Draws the label of a curve beside the plot area. Returns the position of the next.
    fn label(&mut self, below: f64, label: &str, sample: impl FnOnce(&mut Self, (f64, f64))) -> f64 {
        let x = LEFT + FIELD.0 + 16.0;
        sample(self, (x, below));
        let mut y = below;
        let ink = self.colours.ink.clone();
        for row in rows(label, ROW) {
            self.add(format!(r#"<text x="{}" y="{:.1}" fill="{ink}">{}</text>"#, x + 34.0, y + 4.0, escaped(&row)));
            y += 15.0;
        }
        y + 5.0
    }

    fn stroke(&self, number: usize) -> (String, &'static str) {
        let colour = self.colours.lines[number % self.colours.lines.len()].clone();
        // Dash patterns, from the second curve on, distinguish curves without colour.
        let dashes = ["", "7 3", "2 3", "9 3 2 3", "12 4", "5 2 1 2 1 2", "1 2"];
        (colour, dashes[number % dashes.len()])
    }

    fn sample(&mut self, number: usize, (x, y): (f64, f64)) {
        let (colour, dash) = self.stroke(number);
        self.add(format!(
            r#"<path d="M{x:.1} {y:.1}h26" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" fill="none"/>"#
        ));
        let marked = self.picture.curves[number].points.len() <= MARKED;
        if marked {
            self.mark(number, (x + 13.0, y), &colour);
        }
    }

    fn curve(&mut self, number: usize, curve: &Curve) {
        let (colour, dash) = self.stroke(number);
        let places: Vec<(f64, f64)> = curve.points.iter().map(|&point| self.at(point)).collect();
        let mut path = String::new();
        for (n, (x, y)) in places.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if n == 0 { 'M' } else { 'L' });
        }
        if path.is_empty() {
            return;
        }
        let name = self.name.clone();
        self.add(format!(
            r#"<path d="{path}" clip-path="url(#field-{name})" stroke="{colour}" stroke-width="2" stroke-linejoin="round" stroke-dasharray="{dash}" fill="none"/>"#
        ));
        if places.len() <= MARKED {
            places.into_iter().for_each(|place| self.mark(number, place, &colour));
        }
    }

    fn mark(&mut self, number: usize, (x, y): (f64, f64), colour: &str) {
        let r = 4.0;
        let shape = match number % 5 {
            0 => return self.add(format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{r}" fill="{colour}"/>"#)),
            1 => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
            2 => format!("M{x:.1} {:.1}l4.6 8h-9.2z", y - 5.0),
            3 => format!("M{x:.1} {:.1}l5 5l-5 5l-5-5z", y - 5.0),
            _ => format!("M{x:.1} {:.1}l-4.6-8h9.2z", y + 5.0),
        };
        self.add(format!(r#"<path d="{shape}" fill="{colour}"/>"#));
    }

    fn reference(&mut self, number: usize) {
        let reference = &self.picture.references[number];
        let faint = self.colours.faint.clone();
        let mut places: Vec<(f64, f64)> = reference.points.iter().map(|&point| self.at(point)).collect();
        let marks = places.clone();
        if let Some(y) = reference.y {
            let y = ABOVE + (1.0 - self.y.place(y)) * FIELD.1;
            places = vec![(LEFT, y), (LEFT + FIELD.0, y)];
        }
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        if path.len() > 1 {
            self.add(dotted(&path.join("L"), &faint));
        }
        for place in marks {
            self.add(ring(place, &faint));
        }
    }
}

/// A curve of published values.
fn dotted(path: &str, colour: &str) -> String {
    format!(r#"<path d="M{path}" stroke="{colour}" stroke-width="1.5" stroke-dasharray="2 4" fill="none"/>"#)
}

/// A point of published values.
fn ring((x, y): (f64, f64), colour: &str) -> String {
    format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="none" stroke="{colour}"/>"#)
}

#[cfg(test)]
mod tests;
