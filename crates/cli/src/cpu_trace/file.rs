//! Reads a file of trace events strictly: unknown fields are refused.

use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Track numbers of a core: the first is its own, then one for each task.
pub const TRACKS: u64 = 1_000_000;

/// A file of trace events.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct TraceFile<'a> {
    #[serde(rename = "displayTimeUnit", borrow)]
    _unit: Cow<'a, str>,
    #[serde(rename = "otherData")]
    pub other: TraceMetadata,
    #[serde(rename = "traceEvents", borrow)]
    pub events: Vec<TraceEvent<'a>>,
}

/// Metadata of the file.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct TraceMetadata {
    #[serde(rename = "producer")]
    _producer: String,
    #[serde(rename = "started_ns")]
    _started_ns: Option<u64>,
    pub took_ns: u64,
    pub lost_events: u64,
}

/// An event.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct TraceEvent<'a> {
    #[serde(rename = "ph")]
    pub phase: char,
    #[serde(rename = "pid")]
    pub process: u64,
    #[serde(rename = "tid")]
    pub track: u64,
    #[serde(rename = "ts", deserialize_with = "micros")]
    pub at_ns: u64,
    #[serde(rename = "dur", default, deserialize_with = "micros")]
    pub lasts_ns: u64,
    #[serde(rename = "s", borrow)]
    _scope: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub args: Args<'a>,
}

/// Arguments of an event.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Args<'a> {
    #[serde(borrow)]
    pub name: Option<Cow<'a, str>>,
    pub packets: Option<u64>,
    pub bytes: Option<u64>,
    pub used_ns: Option<u64>,
    #[serde(rename = "cost_ns")]
    _cost_ns: Option<u64>,
    #[serde(rename = "waiting")]
    _waiting: Option<u64>,
    pub times: Option<u64>,
    pub percent: Option<f64>,
}

/// Converts microseconds with up to three decimals to nanoseconds.
fn micros<'d, D: Deserializer<'d>>(from: D) -> Result<u64, D::Error> {
    f64::deserialize(from).map(|us| (us * 1e3).round() as u64)
}

impl<'a> TraceFile<'a> {
    /// Parses the file.
    pub fn read(text: &'a [u8]) -> serde_json::Result<TraceFile<'a>> {
        serde_json::from_slice(text)
    }

    /// Returns the names of its tracks, by process and track.
    pub fn tracks(&self) -> BTreeMap<(u64, u64), &str> {
        let named = self.events.iter().filter(|event| event.phase == 'M' && event.name == "thread_name");
        named.filter_map(|event| Some(((event.process, event.track), event.args.name.as_deref()?))).collect()
    }
}

/// The beginning of a slice, its end and its name.
#[cfg(test)]
type Slice<'a> = (u64, u64, &'a str);

#[cfg(test)]
impl TraceFile<'_> {
    /// Returns the errors in the file: phases unknown to viewers, unnamed tracks, times beyond the duration, overlapping slices of a track. A viewer
    /// silently drops such events, or shows them in the wrong place.
    pub fn faults(&self) -> Vec<String> {
        let tracks = self.tracks();
        let mut faults = Vec::new();
        let mut slices: BTreeMap<(u64, u64), Vec<Slice<'_>>> = BTreeMap::new();
        for event in &self.events {
            let track = (event.process, event.track);
            let mut wrong = |what: &str| faults.push(format!("{what}: {event:?}"));
            if event.phase != 'M' && !tracks.contains_key(&track) {
                wrong("no name");
            }
            if event.at_ns + event.lasts_ns > self.other.took_ns + 1_000_000 {
                wrong("after the end");
            }
            match event.phase {
                'X' => slices.entry(track).or_default().push((event.at_ns, event.at_ns + event.lasts_ns, &event.name)),
                'C' if event.args.packets.is_some()
                    || event.args.percent.is_some_and(|p| (0.0..=100.0).contains(&p)) => {}
                'i' if event._scope.as_deref() == Some("t") => {}
                'M' if event.args.name.is_some() => {}
                _ => wrong("no such event"),
            }
        }
        for (track, slices) in &mut slices {
            slices.sort_unstable();
            let pairs = slices.windows(2).filter(|pair| pair[0].1 > pair[1].0);
            // Merged polls may surround the slices of other tasks.
            let pairs = pairs.filter(|pair| !pair[0].2.starts_with("looks"));
            faults.extend(pairs.map(|pair| format!("overlap on {track:?}: {pair:?}")));
        }
        faults
    }
}
