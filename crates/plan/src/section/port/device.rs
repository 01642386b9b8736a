//! The device of a port: its kind, its target, and the files it reads and writes.

use crate::connected::TunnelPlace;
use crate::diagnostic::Report;
use crate::diff::{PropertyChange, edit, file, or_none};
use crate::document::Section;
use crate::names::{self, Name};
use crate::section::port::tunnel::{self, TunnelKind, TunnelPlan};
use crate::text::{TextError, did_you_mean, quote};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use units::Rate;
use units::declare::Declaration;

/// The device of a port: `kind:target`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DevicePlan {
    /// A kind of the catalogue: `memory`, `pcap`, `packet`, `xdp`, `gre`.
    pub kind: String,
    /// The target: a name, a file, a kernel interface. Empty for a `pcap` port that only writes.
    pub target: String,
    /// `pcap`: the file for transmitted frames.
    pub write: Option<String>,
    /// `pcap`: how fast frames are read; [`ReplayPace::Recorded`] for the other kinds.
    pub pace: ReplayPace,
    /// `xdp`: the treatment of checksums, if configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Checksums>,
    /// `packet` and `tap`: whether super-frames and partial checksums are exchanged with the kernel as they are.
    pub offloads: bool,
    /// `gre`, `ipip` and `vxlan`: the outer header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<TunnelPlan>,
}

impl fmt::Display for DevicePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.target)
    }
}

/// How fast a capture is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplayPace {
    /// With the recorded gaps.
    #[default]
    Recorded,
    /// As fast as the router receives it.
    Fast,
    /// At a rate of bits; more than zero.
    Bits(Rate),
    /// At a rate of packets a second; more than zero.
    Packets(u64),
}

impl fmt::Display for ReplayPace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayPace::Recorded => f.write_str("recorded"),
            ReplayPace::Fast => f.write_str("fast"),
            ReplayPace::Bits(rate) => rate.fmt(f),
            ReplayPace::Packets(rate) => write!(f, "{rate}pps"),
        }
    }
}

impl FromStr for ReplayPace {
    type Err = units::UnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hint = || "write 'recorded', 'fast', a rate like '10mbit', '1000pps' or '100kpps'".to_string();
        let zero = || units::UnitError { reason: format!("a pace of {text} never reads a frame"), hint: hint() };
        match text {
            "recorded" => return Ok(ReplayPace::Recorded),
            "fast" => return Ok(ReplayPace::Fast),
            _ => {}
        }
        if text.trim_end().to_ascii_lowercase().ends_with("pps") {
            let rate: units::PacketRate =
                text.parse().map_err(|error: units::UnitError| units::UnitError { hint: hint(), ..error })?;
            return if rate.get() == 0 { Err(zero()) } else { Ok(ReplayPace::Packets(rate.get())) };
        }
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(units::UnitError { reason: format!("{} is no pace", quote(text)), hint: hint() });
        }
        match text.parse::<Rate>()? {
            Rate::ZERO => Err(zero()),
            rate => Ok(ReplayPace::Bits(rate)),
        }
    }
}

impl Serialize for ReplayPace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The treatment of transport checksums of received frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// A sender on this machine may have left them to a network card: checksums that look partial are completed.
    Complete,
    /// They arrived over a wire and are left as they are.
    Trust,
}

impl fmt::Display for Checksums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Checksums::Complete { "complete" } else { "trust" })
    }
}

impl FromStr for Checksums {
    type Err = units::UnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "complete" => Ok(Checksums::Complete),
            "trust" => Ok(Checksums::Trust),
            _ => {
                let reason = format!("{} is not a value of 'checksums'", quote(text));
                Err(units::UnitError { reason, hint: "write 'complete' or 'trust'".to_string() })
            }
        }
    }
}

impl Serialize for Checksums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The kinds whose devices are kernel interfaces.
const INTERFACES: [&str; 3] = ["packet", "tap", "xdp"];

/// Keys of a port that only some kinds of device have.
const OPTIONS: [(&str, &[&str]); 5] = [
    ("write", &["pcap"]),
    ("pace", &["pcap"]),
    ("checksums", &["xdp"]),
    ("offloads", &["packet", "tap"]),
    ("tunnel", TunnelKind::NAMES),
];

/// The devices and files of the ports so far.
#[derive(Default)]
pub(crate) struct Devices {
    /// The port of each device, by the device's name space and name.
    targets: HashMap<(String, String), Name>,
    /// Files that are written, and the key that names each.
    files: HashMap<PathBuf, String>,
    /// Captures that are read: the file, and its key with the position.
    reads: Vec<(PathBuf, String, Range<usize>)>,
}

impl Devices {
    /// The device of a port.
    pub fn check(
        &mut self,
        report: &mut Report<'_>,
        section: &Section<'_>,
        port: &Name,
        (declared, tunnels): (&[Declaration], &mut Vec<TunnelPlace>),
    ) -> DevicePlan {
        let write = self.file(report, section, "write");
        let pace = section.parsed(report, "pace").unwrap_or_default();
        let checksums = section.parsed(report, "checksums");
        let offloads = section.boolean(report, "offloads");
        let mut plan =
            DevicePlan { kind: String::new(), target: String::new(), write, pace, checksums, offloads, tunnel: None };
        let Some(text) = section.text(report, "device") else { return plan };
        let Some((kind, target)) = text.value.split_once(':') else {
            let kinds: Vec<String> = declared.iter().map(|d| format!("{}:...", d.name)).collect();
            text.error(report, || {
                (
                    format!("{} does not begin with a kind of device", quote(text.value)),
                    format!("write one of {}", kinds.join(", ")),
                )
            });
            return plan;
        };
        if !declared.iter().any(|known| known.name == kind) {
            let hint = did_you_mean(kind, declared.iter().map(|d| d.name));
            let reason = format!("no kind of device is called {}", quote(kind));
            text.wrong(report, TextError { offset: 0, length: kind.len(), reason, hint });
            return plan;
        }
        (plan.kind, plan.target) = (kind.to_string(), target.to_string());
        if let Err((reason, hint)) = check_target(&plan) {
            text.wrong(report, TextError { offset: kind.len() + 1, length: target.len(), reason, hint });
            return plan;
        }
        for (name, kinds) in OPTIONS {
            if let Some(node) = section.node(name).filter(|_| !kinds.contains(&kind)) {
                report.error(node.span, node.path, || {
                    let owners: Vec<String> = kinds.iter().map(|kind| quote(kind)).collect();
                    let owners = owners.join(" and ");
                    (format!("'{name}' is for {owners} devices, but this one is '{kind}'"), "remove it".to_string())
                });
            }
        }
        if kind == "pcap" && !target.is_empty() {
            self.reads.push((plain(target), text.path.to_string(), text.span.clone()));
        }
        if let Some(kind) = TunnelKind::of(kind) {
            // Several tunnels may have the same other end: `check::tunnels` compares all that distinguishes them.
            plan.tunnel = tunnel::check(report, section, (kind, target), (port, tunnels));
            return plan;
        }
        if !target.is_empty() {
            // A kernel interface is one device, also for different kinds of port.
            let namespace = if INTERFACES.contains(&kind) { "interface" } else { kind };
            let first = self.targets.entry((namespace.to_string(), target.to_string())).or_insert_with(|| port.clone());
            if first != port {
                text.error(report, || {
                    (
                        format!("the device belongs to '{first}' already"),
                        "give each port a device of its own".to_string(),
                    )
                });
            }
        }
        plan
    }

    /// A file that is written; no two keys may name the same.
    pub fn file(&mut self, report: &mut Report<'_>, section: &Section<'_>, key: &'static str) -> Option<String> {
        let text = section.text(report, key)?;
        if text.value.is_empty() || text.value.contains(char::is_control) {
            text.error(report, || {
                (format!("{} is no name of a file", quote(text.value)), "write \"out.pcapng\"".to_string())
            });
            return None;
        }
        let path = text.path.to_string();
        let first = self.files.entry(plain(text.value)).or_insert_with(|| path.clone());
        if *first != path {
            text.error(report, || {
                (format!("{first} writes to the file already"), "give each a file of its own".to_string())
            });
        }
        Some(text.value.to_string())
    }

    /// Reports files that are both read and written.
    pub fn check_read_files(&self, report: &mut Report<'_>) {
        for (file, path, span) in &self.reads {
            if let Some(writer) = self.files.get(file) {
                report.error(span.clone(), path, || {
                    (format!("{writer} would overwrite the file"), "write to another file".to_string())
                });
            }
        }
    }
}

/// A file name with `./a` and `a//b` normalised. Symbolic links are not resolved.
fn plain(file: &str) -> PathBuf {
    std::path::Path::new(file).components().filter(|part| *part != std::path::Component::CurDir).collect()
}

/// Checks that a device of the kind can have the target.
fn check_target(device: &DevicePlan) -> Result<(), (String, String)> {
    let target = device.target.as_str();
    let wrong = |hint: &str| Err((format!("'{}:' cannot open {}", device.kind, quote(target)), hint.to_string()));
    if target.contains(char::is_control) {
        return wrong("write a name without control characters");
    }
    match device.kind.as_str() {
        // Valid interface names of the kernel: net/core/dev.c, dev_valid_name.
        "packet" | "xdp" | "tap" => {
            let odd = |c: char| c == '/' || c == ':' || c.is_ascii_whitespace() || c == '\u{b}';
            if target.is_empty() || target.len() > 15 || target == "." || target == ".." || target.contains(odd) {
                let example = if device.kind == "tap" { "tap0" } else { "eth0" };
                return wrong(&format!("write the name of a kernel interface, like '{}:{example}'", device.kind));
            }
        }
        "memory" if !names::is_port(target) => return wrong("write a name, like 'memory:a'"),
        "pcap" if target.is_empty() && device.write.is_none() => {
            return wrong("write 'pcap:FILE', or add write = \"out.pcapng\" for a port that only writes");
        }
        "pcap" => {}
        // sockaddr_un: 108 bytes with the terminating zero.
        "memif" => {
            let path = target.split_once(':').filter(|(end, _)| matches!(*end, "listen" | "connect"));
            if path.is_none_or(|(_, path)| path.is_empty() || path.len() > 107) {
                return wrong(
                    "write 'memif:listen:PATH' at one end, 'memif:connect:PATH' at the other; PATH is a socket",
                );
            }
        }
        kind if let Some(kind) = TunnelKind::of(kind) => return tunnel::check_target(kind, target),
        _ if target.is_empty() => return wrong("write the target of the device after the colon"),
        _ => {}
    }
    Ok(())
}

pub(crate) fn edits(old: &DevicePlan, new: &DevicePlan, what: &mut Vec<PropertyChange>) {
    edit(what, "device", old, new);
    edit(what, "write", file(&old.write), file(&new.write));
    edit(what, "pace", old.pace, new.pace);
    edit(what, "checksums", or_none(&old.checksums), or_none(&new.checksums));
    edit(what, "offloads", old.offloads, new.offloads);
    edit(what, "tunnel", or_none(&old.tunnel), or_none(&new.tunnel));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_parses_back_as_printed() {
        for (text, pace) in [
            ("recorded", ReplayPace::Recorded),
            ("fast", ReplayPace::Fast),
            ("10mbit", ReplayPace::Bits(Rate::mbit(10))),
            ("1000pps", ReplayPace::Packets(1000)),
        ] {
            assert_eq!(text.parse(), Ok(pace));
            assert_eq!(pace.to_string(), text);
        }
        for (text, packets) in
            [("100kpps", 100_000), ("1.5mpps", 1_500_000), ("100 kpps", 100_000), ("2MPPS", 2_000_000)]
        {
            assert_eq!(text.parse(), Ok(ReplayPace::Packets(packets)), "{text}");
            assert_eq!(ReplayPace::Packets(packets).to_string().parse(), Ok(ReplayPace::Packets(packets)));
        }
        for text in ["", "0pps", "0kpps", "kpps", "1kkpps", "0bit", "slow", "10mbps", "10", "-1pps", "10ps"] {
            assert!(text.parse::<ReplayPace>().is_err(), "{text}");
        }
    }
}
