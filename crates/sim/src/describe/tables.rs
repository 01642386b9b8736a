//! The tables of a description, as they stand in the file.

use super::text::Text;
use plan::MediumText;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub duration: Text,
    pub warmup: Option<Text>,
    pub sample: Option<Text>,
    pub seed: Option<Spanned<i64>>,
    pub router: BTreeMap<String, Spanned<RouterTable>>,
    #[serde(default)]
    pub card: BTreeMap<String, Spanned<CardTable>>,
    #[serde(default)]
    pub link: Vec<Spanned<LinkTable>>,
    #[serde(default)]
    pub source: Vec<Spanned<SourceTable>>,
    #[serde(default)]
    pub sink: Vec<SinkTable>,
    #[serde(default)]
    pub at: Vec<Spanned<AtTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouterTable {
    pub config: Text,
    #[serde(default)]
    pub cost: CostTable,
    #[serde(default)]
    pub spin: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct CostTable {
    pub switch: Option<Text>,
    pub poll: Option<Text>,
    pub input: Option<Text>,
    pub interrupt: Option<Text>,
    pub forwarding: Option<Text>,
    pub output: Option<Text>,
    #[serde(default)]
    pub path: BTreeMap<String, Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CardTable {
    pub ring: Option<Spanned<i64>>,
    pub transmit_ring: Option<Spanned<i64>>,
    pub rate: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    pub between: Spanned<Vec<Text>>,
    pub rate: Option<Text>,
    pub burst: Option<Text>,
    pub trace: Option<Text>,
    pub mode: Option<Text>,
    pub end: Option<Text>,
    pub poisson: Option<Text>,
    pub brownian: Option<Text>,
    pub sigma: Option<Text>,
    pub most: Option<Text>,
    pub delay: Option<Text>,
    pub jitter: Option<Text>,
    pub loss: Option<Text>,
    pub duplicate: Option<Text>,
    pub reorder: Option<Text>,
    pub reorder_by: Option<Text>,
    pub overhead: Option<Text>,
}

impl LinkTable {
    /// What it says of the link itself.
    pub fn medium(&self) -> Vec<MediumText<'_>> {
        let keys = [
            ("rate", &self.rate),
            ("burst", &self.burst),
            ("trace", &self.trace),
            ("mode", &self.mode),
            ("end", &self.end),
            ("poisson", &self.poisson),
            ("brownian", &self.brownian),
            ("sigma", &self.sigma),
            ("most", &self.most),
            ("delay", &self.delay),
            ("jitter", &self.jitter),
            ("loss", &self.loss),
            ("duplicate", &self.duplicate),
            ("reorder", &self.reorder),
            ("reorder_by", &self.reorder_by),
            ("overhead", &self.overhead),
        ];
        let given = keys.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?)));
        given.map(|(key, text)| MediumText { key, text: text.get_ref(), span: text.span() }).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SinkTable {
    pub name: Text,
    /// The card whose link leads here, for a link that has nothing else to say.
    pub card: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceTable {
    pub name: Text,
    pub card: Text,
    pub kind: Text,
    /// One size, or several that take turns.
    pub size: Option<Text>,
    pub destination: Option<Text>,
    pub source: Option<Text>,
    pub ports: Option<Spanned<[u16; 2]>>,
    pub dscp: Option<Text>,
    pub ttl: Option<Spanned<i64>>,
    pub flows: Option<Spanned<i64>>,
    pub start: Option<Text>,
    pub stop: Option<Text>,
    pub phase: Option<Text>,
    pub rate: Option<Text>,
    pub on: Option<Text>,
    pub off: Option<Text>,
    pub random: Option<Spanned<bool>>,
    pub from: Option<Text>,
    pub to: Option<Text>,
    pub step: Option<Text>,
    pub every: Option<Text>,
    pub rise: Option<Text>,
    pub file: Option<Text>,
    pub again: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtTable {
    pub time: Text,
    pub router: Option<Text>,
    pub config: Option<Text>,
    pub card: Option<Text>,
    pub up: Option<bool>,
}
