//! `[router]`: the router as a whole.

use crate::Cores;
use crate::diagnostic::Report;
use crate::document::Section;
use crate::keys::ROUTER;
use crate::text::quote;
use units::Nanos;

/// How long a worker looks for work where nothing is said: about what falling asleep and waking costs.
const SPIN: Nanos = Nanos::micros(50);
/// The longest that makes sense.
const MOST_SPIN: Nanos = Nanos::secs(1);

pub(super) struct Router {
    pub name: String,
    pub workers: u16,
    pub cores: Cores,
    pub spin: Nanos,
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
    let (mut workers, frames) = (integer("workers") as u16, integer("frames") as u32);
    let super_frames = integer("super_frames") as u32;
    let (icmp_rate, icmp_burst) = (integer("icmp_rate") as u32, integer("icmp_burst") as u32);
    let (cores, spin) = (cores(report, &section), spin(report, &section));
    let pinned = cores.list().len();
    if pinned > 0 && section.node("workers").is_none() {
        workers = pinned as u16;
    } else if pinned > 0 && pinned != usize::from(workers) {
        section.text(report, "cores").into_iter().for_each(|text| {
            text.error(report, || {
                let cores = if pinned == 1 { "core" } else { "cores" };
                let hint = "name a core for each worker, or leave `workers` out";
                (format!("{pinned} {cores} for {workers} workers"), hint.to_string())
            });
        });
    }
    Router { name: name(report, &section), workers, cores, spin, frames, super_frames, icmp_rate, icmp_burst }
}

fn cores(report: &mut Report<'_>, section: &Section<'_>) -> Cores {
    let Some(text) = section.text(report, "cores") else { return Cores::default() };
    text.value.parse().unwrap_or_else(|error| {
        text.wrong(report, error);
        Cores::default()
    })
}

fn spin(report: &mut Report<'_>, section: &Section<'_>) -> Nanos {
    let Some(text) = section.text(report, "spin") else { return SPIN };
    let hint = "write a time up to 1s, as 50us, or 0s to sleep at once";
    match text.value.parse::<Nanos>() {
        Err(error) => text.error(report, || (error.reason, hint.into())),
        Ok(time) if time > MOST_SPIN => text.error(report, || (format!("{time} is out of range"), hint.into())),
        Ok(time) => return time,
    }
    SPIN
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
