//! `[subscribers]`: the ports of an access network, and the files with its subscribers.

use crate::diagnostic::{Diagnostics, Report, absolute_beside};
use crate::diff::{PropertyChange, edit, or_none};
use crate::document::Section;
use crate::key::{FILE, Key, Kind, NAME, key, required};
use crate::names::Name;
use crate::section::port::PortPlan;
use crate::share::{SHARE_SCHEME, port_rate};
use crate::share_batch::ShareChange;
use crate::subscribers::{
    OversubscribedSite, SubscriberPlan, SubscriberResult, SubscriberShares, shaped_devices, subscriber_file,
    to_share_changes,
};
use crate::text::{did_you_mean, quote};
use serde::Serialize;
use std::fmt;

pub(crate) const KEY: Key = key(
    "subscribers",
    Kind::Table(KEYS),
    "",
    "{ inside = [\"lan\"], outside = [\"wan\"], file = \"subscribers.csv\" }",
    "The subscribers of an access network, whose plans become shares of its ports.",
);

/// Limit of ports on each side.
const MOST_PORTS: usize = 64;

const KEYS: &[Key] = &[
    required(
        "inside",
        Kind::Texts { form: NAME, most: MOST_PORTS },
        "[\"lan\"]",
        "The ports toward the subscribers, with the scheme `share`. Their shares divide the downlinks.",
    ),
    required(
        "outside",
        Kind::Texts { form: NAME, most: MOST_PORTS },
        "[\"wan\"]",
        "The ports toward the Internet, with the scheme `share`. Their shares divide the uplinks.",
    ),
    key(
        "file",
        Kind::Text(FILE),
        "",
        "\"subscribers.csv\"",
        "The table of sites and subscribers. A relative name begins at the directory of the configuration file.",
    ),
    key(
        "shaped_devices",
        Kind::Text(FILE),
        "",
        "\"ShapedDevices.csv\"",
        "In place of `file`: a table of subscribers in the format of LibreQoS.",
    ),
    key(
        "network",
        Kind::Text(FILE),
        "",
        "\"network.json\"",
        "With `shaped_devices`: the tree of sites in the format of LibreQoS. Without it all subscribers are below the port.",
    ),
    key(
        "rtt",
        Kind::Boolean,
        "true",
        "false",
        "If true, the router measures the round-trip times of the subscribers' TCP connections, on both sides, from the timestamps in their packets.",
    ),
];

/// The access network of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SubscriberSection {
    /// The ports toward the subscribers, sorted; at least one.
    pub inside: Vec<Name>,
    /// The ports toward the Internet, sorted; at least one.
    pub outside: Vec<Name>,
    /// The files with the subscribers.
    pub source: SubscriberSource,
    /// Round-trip times of TCP connections are measured.
    pub rtt: bool,
}

/// The files with the subscribers, by their absolute names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriberSource {
    /// A table of sites and subscribers: [`crate::subscribers::subscriber_file`].
    File(String),
    /// Files of LibreQoS: [`crate::subscribers::shaped_devices`].
    ShapedDevices {
        /// `ShapedDevices.csv`.
        devices: String,
        /// `network.json`.
        network: Option<String>,
    },
}

impl SubscriberSource {
    /// The files, by their absolute names.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let (table, network) = match self {
            SubscriberSource::File(table) => (table, None),
            SubscriberSource::ShapedDevices { devices, network } => (devices, network.as_deref()),
        };
        std::iter::once(table.as_str()).chain(network)
    }

    /// Reads the subscribers. `open` returns the text of a file by its absolute name, or the diagnostics of reading it.
    pub fn read(&self, mut open: impl FnMut(&str) -> Result<String, Diagnostics>) -> SubscriberResult {
        let texts: Result<Vec<(String, &str)>, Diagnostics> =
            self.files().map(|file| open(file).map(|text| (text, file))).collect();
        let texts = match texts {
            Ok(texts) => texts,
            Err(diagnostics) => return SubscriberResult { plan: None, diagnostics },
        };
        let mut parts = texts.iter().map(|(text, file)| (text.as_str(), *file));
        let table = parts.next().unwrap_or_default();
        match self {
            SubscriberSource::File(_) => subscriber_file(table.0, table.1),
            SubscriberSource::ShapedDevices { .. } => shaped_devices(table, parts.next()),
        }
    }
}

impl SubscriberSection {
    /// The shares of the subscribers at the ports of a plan. Guarantees that exceed the rate of a port are reduced in proportion, each with a warning.
    pub fn shares(&self, mut network: SubscriberPlan, ports: &[PortPlan]) -> (SubscriberShares, Vec<String>) {
        let slowest = |names: &[Name]| {
            let rates =
                ports.iter().filter(|port| names.contains(&port.name)).filter_map(|port| port_rate(&port.scheme));
            rates.min()
        };
        let reduced = network.reduce_guarantees(slowest(&self.inside), slowest(&self.outside));
        let warning = |site: &OversubscribedSite| {
            let (names, direction) = if site.is_down { (&self.inside, "down") } else { (&self.outside, "up") };
            format!(
                "the guarantees of subscribers add up to {} {direction}, more than the {} of {}: they are reduced in proportion",
                site.guaranteed,
                site.bandwidth,
                names.join(" and ")
            )
        };
        // The files were read with the bandwidths of the sites, so only ports are left.
        let warnings = reduced.iter().filter(|site| site.site.is_none()).map(warning).collect();
        (to_share_changes(&network), warnings)
    }

    /// The shares of subscribers at this port; `None` if it is on neither side.
    pub fn shares_of<'s>(&self, port: &Name, shares: &'s SubscriberShares) -> Option<&'s Vec<ShareChange>> {
        let inside = self.inside.contains(port).then_some(&shares.down);
        inside.or(self.outside.contains(port).then_some(&shares.up))
    }
}

impl fmt::Display for SubscriberSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inside {} outside {} ", self.inside.join(" "), self.outside.join(" "))?;
        match &self.source {
            SubscriberSource::File(name) => write!(f, "file {name:?}"),
            SubscriberSource::ShapedDevices { devices, network } => {
                write!(f, "shaped_devices {devices:?}")?;
                network.as_ref().map_or(Ok(()), |network| write!(f, " network {network:?}"))
            }
        }?;
        if self.rtt { Ok(()) } else { f.write_str(" rtt false") }
    }
}

/// `is_incomplete` is true if some ports could not be read. `file_name` is the name of the configuration.
pub(crate) fn check(
    report: &mut Report<'_>,
    root: &Section<'_>,
    (ports, is_incomplete): (&[PortPlan], bool),
    file_name: &str,
) -> Option<SubscriberSection> {
    let section = root.node("subscribers")?.section(report, KEYS, "[subscribers]")?;
    let mut used: Vec<Name> = Vec::new();
    let [inside, outside] = ["inside", "outside"].map(|side| {
        let before = report.error_count();
        // The fault in the scheme of a named port was reported.
        let mut is_faulty = false;
        let mut names = section.texts(report, side, surplus, "\"lan\"", |report, text| {
            let port = ports.iter().find(|port| *port.name == *text.value);
            let (reason, hint) = match port {
                None if is_incomplete => return None,
                None => {
                    let hint = did_you_mean(text.value, ports.iter().map(|port| &*port.name));
                    (format!("there is no port {}", quote(text.value)), hint)
                }
                Some(port) if port.scheme.name.is_empty() => {
                    is_faulty = true;
                    return None;
                }
                Some(port) if !port.scheme.has_share_levels() => {
                    let lacks =
                        if port.scheme.has_shares() { "whose shares have no levels" } else { "which has no shares" };
                    let reason = format!("the scheme of the port '{}' is '{}', {lacks}", port.name, port.scheme.name);
                    (reason, format!("write scheme = \"{SHARE_SCHEME}\" in [port.{}]", port.name))
                }
                Some(port) if used.contains(&port.name) => {
                    let hint = "name each port once, on one side".to_string();
                    (format!("the port '{}' is named twice", port.name), hint)
                }
                Some(port) => {
                    used.push(port.name.clone());
                    return Some(port.name.clone());
                }
            };
            text.error(report, || (reason, hint));
            None
        });
        if names.is_empty()
            && !is_incomplete
            && !is_faulty
            && report.error_count() == before
            && section.node(side).is_some()
        {
            report.error(section.place(side), section.path, || {
                (
                    format!("'{side}' names no port"),
                    format!("write {side} = [\"{}\"]", if side == "inside" { "lan" } else { "wan" }),
                )
            });
        }
        names.sort_unstable();
        names
    });
    let rtt = section.boolean(report, "rtt");
    let source = source(report, &section, file_name)?;
    Some(SubscriberSection { inside, outside, source, rtt })
}

/// The files with the subscribers. `None` if it was reported.
fn source(report: &mut Report<'_>, section: &Section<'_>, file_name: &str) -> Option<SubscriberSource> {
    let [file, devices, network] = ["file", "shaped_devices", "network"]
        .map(|name| section.text(report, name).map(|text| absolute_beside(file_name, text.value)));
    let (place, reason, hint) = match (section.node("file"), section.node("shaped_devices"), section.node("network")) {
        (Some(_), Some(both), _) => {
            (both.span, "'file' and 'shaped_devices' exclude each other", "remove one of the two")
        }
        (Some(_), None, Some(network)) => {
            (network.span, "'network' belongs to 'shaped_devices'", "write the sites into 'file'")
        }
        (None, None, _) => {
            let hint = "add file = \"subscribers.csv\", or shaped_devices = \"ShapedDevices.csv\"";
            (section.span.clone(), "there is no file with the subscribers", hint)
        }
        (Some(_), None, None) => return file.map(SubscriberSource::File),
        (None, Some(_), _) => return devices.map(|devices| SubscriberSource::ShapedDevices { devices, network }),
    };
    report.error(place, section.path, || (reason.to_string(), hint.to_string()));
    None
}

fn surplus(most: usize) -> (String, String) {
    (format!("there are more than {most} ports"), format!("name at most {most}"))
}

pub(crate) fn diff(old: &Option<SubscriberSection>, new: &Option<SubscriberSection>) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    edit(&mut what, "files", or_none(old), or_none(new));
    what
}
