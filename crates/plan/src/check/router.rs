//! `[router]`: the router as a whole.

use crate::diagnostic::Report;
use crate::document::Section;
use crate::keys::ROUTER;
use crate::text::quote;

pub(super) struct Router {
    pub name: String,
    pub workers: u16,
    pub frames: u32,
    pub super_frames: u32,
    pub icmp_rate: u32,
    pub icmp_burst: u32,
}

pub(super) fn read(report: &mut Report<'_>, root: &Section<'_>) -> Router {
    let empty = toml::de::DeTable::new();
    let section = match root.node("router") {
        Some(node) => node.section(report, ROUTER, "[router]"),
        None => None,
    };
    // Without the table every key has its default.
    let section = section.unwrap_or_else(|| Section::open(report, &empty, 0..0, root.path, ROUTER));
    let mut integer = |name| section.integer(report, name).unwrap_or(1);
    // The declared ranges are within the types.
    let (workers, frames) = (integer("workers") as u16, integer("frames") as u32);
    let super_frames = integer("super_frames") as u32;
    let (icmp_rate, icmp_burst) = (integer("icmp_rate") as u32, integer("icmp_burst") as u32);
    Router { name: name(report, &section), workers, frames, super_frames, icmp_rate, icmp_burst }
}

fn name(report: &mut Report<'_>, section: &Section<'_>) -> String {
    let Some(text) = section.text(report, "name") else { return "switchpath".to_string() };
    if !is_router_name(text.value) {
        text.error(report, || {
            let hint = "use 1 to 63 letters, digits, points, underscores and hyphens";
            (format!("{} is no name for a router", quote(text.value)), hint.to_string())
        });
    }
    text.value.to_string()
}

fn is_router_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=63).contains(&text.len()) && text.bytes().all(plain)
}
