//! The tables of a description, as the TOML file contains them.

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
    /// How flows of hosts are hashed.
    pub hash: Option<Text>,
    #[serde(default)]
    pub router: BTreeMap<String, Spanned<RouterTable>>,
    #[serde(default)]
    pub host: Vec<HostTable>,
    #[serde(default)]
    pub flow: Vec<Spanned<FlowTable>>,
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
    /// The ring of I3 routers, for slices and sources.
    pub ring: Option<RingTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RingTable {
    pub seed: Option<Spanned<i64>>,
    pub routers: Option<Spanned<i64>>,
    pub triggers: Option<Spanned<i64>>,
    /// The number of the router that slices are.
    pub router: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouterTable {
    pub config: Text,
    /// Changes of slices before the world begins.
    pub slices: Option<Text>,
    #[serde(default)]
    pub cost: CostTable,
    #[serde(default)]
    pub busy_poll: bool,
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
    pub instruction: Option<Text>,
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

/// Declares a table with its own keys and all keys of a medium.
macro_rules! with_medium {
    ($table:ident { $($field:ident: $of:ty),* } $($key:ident)*) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $table {
            $(pub $field: $of,)*
            pub scheme: Option<Text>,
            pub buffer: Option<Spanned<i64>>,
            $(pub $key: Option<Text>),*
        }

        impl $table {
            /// The keys of the medium that are given.
            pub fn medium(&self) -> Vec<MediumText<'_>> {
                let all = [$((stringify!($key), &self.$key)),*].into_iter();
                all.filter_map(|(key, text)| {
                    text.as_ref().map(|text| MediumText { key, text: text.get_ref(), span: text.span() })
                }).collect()
            }
        }
    };
}

with_medium!(LinkTable { between: Spanned<Vec<Text>>, forward: Option<WayTable>, back: Option<WayTable> }
    rate burst trace mode end poisson brownian sigma most delay jitter loss duplicate reorder reorder_by overhead);
with_medium!(WayTable {}
    rate burst trace mode end poisson brownian sigma most delay jitter loss duplicate reorder reorder_by overhead);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostTable {
    pub name: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowTable {
    pub name: Text,
    pub from: Text,
    pub to: Text,
    pub transport: Option<Text>,
    pub application: Option<Text>,
    pub sizes: Option<String>,
    pub packet: Option<Text>,
    pub acknowledgement: Option<Text>,
    pub start: Option<Text>,
    pub look: Option<Text>,
    pub class: Option<Spanned<i64>>,
    pub dscp: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SinkTable {
    pub name: Text,
    /// The card whose link leads to this sink, for a link without further keys.
    pub card: Option<Text>,
}

// Large: a field for each key of a source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceTable {
    pub name: Text,
    pub card: Text,
    pub kind: Text,
    /// One size, or several that packets use in turn.
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
    pub rates: Option<Text>,
    pub file: Option<Text>,
    pub again: Option<Spanned<bool>>,
    /// The ephemeral-state instruction, the locations that execute it, and the number of computations.
    pub instruction: Option<Text>,
    pub at: Option<Text>,
    pub computations: Option<Spanned<i64>>,
    /// The packets of a slice's network inside of its packets.
    pub inner: Option<Spanned<InnerTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InnerTable {
    pub code: Text,
    /// One address, or several that packets use in turn.
    pub destination: Option<Text>,
    pub source: Option<Text>,
    pub ports: Option<Spanned<[u16; 2]>>,
    pub ttl: Option<Spanned<i64>>,
    #[serde(default)]
    pub options: bool,
    /// The number of triggers that packets are for.
    pub triggers: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AtTable {
    pub time: Text,
    pub every: Option<Text>,
    pub router: Option<Text>,
    pub config: Option<Text>,
    pub reserve: Option<Text>,
    pub slices: Option<Text>,
    pub card: Option<Text>,
    pub up: Option<bool>,
    pub link: Option<Text>,
    pub scheme: Option<Text>,
    pub change: Option<Text>,
    pub rate: Option<Text>,
}
