//! `[router]`: the router as a whole.

mod cores;

pub use cores::Cores;

use crate::diagnostic::Report;
use crate::diff::PropertyChange;
use crate::document::Section;
use crate::key::{Form, Key, Kind, TIME, key};
use crate::table::{self, Value, table};
use crate::text::quote;
use units::Nanos;

pub(crate) const KEY: Key = key("router", Kind::Table(KEYS), "", "{ workers = 1 }", "The router as a whole.");

table! {
    /// The router as a whole. [`crate::Plan`] has these fields itself.
    #[derive(Clone)]
    pub struct Router, KEYS {
        pub name: String = (
            Kind::Text(Form::Pattern("^[A-Za-z0-9._-]{1,63}$")), "\"switchpath\"", "\"edge\"",
            "The router's name, in `show` and in metrics."
        ) by name;
        pub workers: u16 = (
            Kind::Integer { least: 1, most: 64 }, "1", "1",
            "Worker threads. Each has a queue of every port, or receives packets from another worker that has. The \
             default is one for each core in `cores`. A change requires a restart."
        );
        pub cores: Cores = (
            Kind::Text(Form::Pattern("^ *[0-9]+ *(- *[0-9]+ *)?(, *[0-9]+ *(- *[0-9]+ *)?)*$")), "", "\"0-1,3\"",
            "The cores that workers are pinned to, in order. Without it the system chooses. A change requires a \
             restart."
        );
        pub busy_poll: Nanos = (
            Kind::Text(TIME), "\"50us\"", "\"50us\"",
            "How long an idle worker polls before it sleeps, up to 1s. A longer time avoids wakeups, which take \
             microseconds, but occupies the core."
        ) by busy_poll;
        pub frames: u32 = (
            Kind::Integer { least: 256, most: 4_194_304 }, "16384", "16384",
            "Frames in the pool, 2 KB each. Every packet in the router occupies one. A change requires a restart."
        );
        pub super_frames: u32 = (
            Kind::Integer { least: 0, most: 65_536 }, "256", "256",
            "Additional frames of 64 KB, for jumbo frames and unsegmented packets of local senders. The system \
             allocates their memory at the first use. A change requires a restart."
        );
        pub route_cache: u32 = (
            Kind::Integer { least: 0, most: 65_536 }, "0", "1024",
            "Address ranges that each port caches on each worker in front of the IPv4 forwarding table: a power of \
             two, or 0 for no cache. The forwarding table of the main VRF is faster without it; see the figures of \
             `switchpath bench routes`."
        ) by route_cache;
        pub icmp_rate: u32 = (
            Kind::Integer { least: 1, most: 1_000_000 }, "100", "100",
            "The largest rate of ICMP errors per second (RFC 1812 4.3.2.8, RFC 4443 2.4)."
        );
        pub icmp_burst: u32 = (
            Kind::Integer { least: 1, most: 100_000 }, "10", "10",
            "The largest burst of ICMP errors after an idle time."
        );
    }
}

/// The default polling time before a worker sleeps: about the cost of falling asleep and waking up.
const BUSY_POLL: Nanos = Nanos::micros(50);
/// The longest polling time.
const MOST_BUSY_POLL: Nanos = Nanos::secs(1);

/// Keys whose change requires a restart: threads and the frame pool are created once.
pub(crate) const RESTART: [&str; 4] = ["workers", "cores", "frames", "super_frames"];

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>) -> Router {
    let section = root.node("router").and_then(|node| node.section(report, KEYS, "[router]"));
    let Some(section) = section else { return table::defaults(KEYS, Router::read) };
    let mut router = Router::read(report, &section);
    let workers = router.workers;
    let pinned = router.cores.list().len();
    if pinned > 0 && section.node("workers").is_none() {
        router.workers = pinned as u16;
    } else if pinned > 0 && pinned != usize::from(workers) {
        section.text(report, "cores").into_iter().for_each(|text| {
            text.error(report, || {
                let cores = if pinned == 1 { "core" } else { "cores" };
                let hint = "list a core for each worker, or remove `workers`";
                (format!("{pinned} {cores} for {workers} workers"), hint.to_string())
            });
        });
    }
    router
}

impl Value for Cores {
    fn read(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Option<Cores> {
        let text = section.text(report, name)?;
        text.value.parse().map_err(|error| text.wrong(report, error)).ok()
    }

    fn from_default(_: &'static str) -> Option<Cores> {
        Some(Cores::default())
    }
}

fn busy_poll(report: &mut Report<'_>, section: &Section<'_>) -> Nanos {
    let Some(text) = section.text(report, "busy_poll") else { return BUSY_POLL };
    let hint = "write a time up to 1s, like 50us, or 0s to sleep at once";
    match text.value.parse::<Nanos>() {
        Err(error) => text.error(report, || (error.reason, hint.into())),
        Ok(time) if time > MOST_BUSY_POLL => text.error(report, || (format!("{time} is out of range"), hint.into())),
        Ok(time) => return time,
    }
    BUSY_POLL
}

fn route_cache(report: &mut Report<'_>, section: &Section<'_>) -> u32 {
    let Some(node) = section.node("route_cache") else { return 0 };
    match section.integer(report, "route_cache") {
        Some(ranges) if ranges == 0 || ranges.is_power_of_two() => ranges as u32,
        Some(ranges) => {
            let next = ranges.next_power_of_two();
            report.error(node.span, node.path, || {
                (format!("{ranges} is no power of two"), format!("write {next}, or {}", next / 2))
            });
            0
        }
        None => 0,
    }
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

pub(crate) fn diff(old: &Router, new: &Router) -> Vec<PropertyChange> {
    table::edits(&old.fields(), &new.fields())
}
