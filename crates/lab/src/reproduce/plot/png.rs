//! Converts SVG to PNG with an embedded font, so that figures are identical on every machine.

use anyhow::{Context, Result};
use resvg::{tiny_skia, usvg};
use std::sync::Arc;

/// PNG pixels per SVG pixel: sharp on screens with a double pixel density.
const SHARP: f32 = 2.0;

/// The figure as PNG.
///
/// # Errors
///
/// It is no SVG, or too large for the memory.
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_source(usvg::fontdb::Source::Binary(Arc::new(ttf_noto_sans::REGULAR)));
    fonts.load_font_source(usvg::fontdb::Source::Binary(Arc::new(ttf_noto_sans::BOLD)));
    fonts.set_sans_serif_family("Noto Sans");
    let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options).context("cannot read the rendered picture")?;
    let size = tree.size().to_int_size().scale_by(SHARP).context("a picture has no size")?;
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).context("a picture is too large")?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SHARP, SHARP), &mut pixels.as_mut());
    pixels.encode_png().context("a picture cannot be written as PNG")
}
