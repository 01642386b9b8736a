use super::*;
use sim::experiment::{Axis, Reference};

fn picture() -> Picture {
    let axis = |label: &str, log: bool| Axis { label: label.into(), log, ..Axis::default() };
    let curve = |label: &str, points: &[(f64, f64)]| Curve { label: label.into(), points: points.to_vec() };
    Picture {
        id: "efficiency".into(),
        title: "Efficiency <index> & more".into(),
        published: "Figure 10".into(),
        x: axis("most packets at once", true),
        y: axis("efficiency index", false),
        curves: vec![
            curve("flow 13: 3us", &[(1.0, 0.58), (8.0, 0.66), (16.0, 0.72), (32.0, 0.76), (64.0, 0.79)]),
            curve("flow 13: 10us", &[(1.0, 0.59), (8.0, 0.73), (16.0, 0.80), (32.0, 0.85), (64.0, 0.91)]),
            curve("flow 13: 30us, with a name that is long enough for two rows", &[(1.0, 0.6), (64.0, 0.95)]),
            curve("nothing", &[]),
        ],
        references: vec![Reference { label: "paper".into(), points: vec![(8.0, 0.84)], y: None }],
    }
}

#[test]
fn figure_contains_every_label_and_tick() {
    let svg = svg(&picture(), "E9-efficiency", &Colours::printed());
    for text in [
        "Efficiency &lt;index&gt; &amp; more",
        "beside Figure 10",
        "most packets at once",
        ">64</text>",
        ">0.9</text>",
        ">flow 13: 10us</text>",
        ">long enough for two rows</text>",
        ">paper</text>",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains("NaN"), "{svg}");
}

#[test]
fn png_contains_text() {
    let with = svg(&picture(), "E9-efficiency", &Colours::printed());
    let dark = |svg: &str| {
        let pixels = resvg::tiny_skia::Pixmap::decode_png(&png(svg).unwrap()).unwrap();
        assert!(pixels.width() > 1200, "{}", pixels.width());
        pixels.pixels().iter().filter(|pixel| pixel.red() < 128 && pixel.alpha() == 255).count()
    };
    // Without the font the text would be missing silently.
    let without = with.replace("<text", "<desc").replace("</text", "</desc");
    assert!(dark(&with) > dark(&without) + 5_000, "{} {}", dark(&with), dark(&without));
}

#[test]
fn figure_in_a_page_uses_the_colours_of_the_page() {
    let svg = svg(&picture(), "E9-efficiency", &Colours::of_page());
    assert!(svg.contains("var(--line0)") && !svg.contains("#0072b2"), "{svg}");
}
