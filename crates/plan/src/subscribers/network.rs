//! `network.json` of LibreQoS: a tree of nodes by name.
//!
//! ```json
//! { "Tower": { "downloadBandwidthMbps": 1000, "uploadBandwidthMbps": 500, "children": { "AP_A": { "virtual": true } } } }
//! ```
//!
//! Source: LibreQoS v2.0, `docs/v2.0/configuration-advanced.md`, section Network Hierarchy, and `src/rust/lqos_config/src/network_json.rs`. A virtual
//! node is left out; its children and circuits belong to the nearest node above it that is not virtual. Unknown members have no effect.

use super::megabits::megabits;
use super::sites::{SiteDraft, Sites};
use crate::diagnostic::Report;
use crate::share::ShareName;
use crate::text::quote;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use units::Rate;

/// The nesting at which reading stops. Nodes on the last permitted level are far above it, virtual ones included.
const DEEPEST: usize = 64;

/// The members of an object in the order of the text, duplicates included. Both parts are the text itself.
struct Members<'j>(Vec<(&'j RawValue, &'j RawValue)>);

impl<'j> Deserialize<'j> for Members<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'j> Visitor<'j> for Object {
            type Value = Members<'j>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Members<'j>, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Members(all))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A node as it was read.
struct Node {
    name: String,
    place: Range<usize>,
    /// The index of the node above it.
    parent: Option<usize>,
    is_virtual: bool,
    id: Option<String>,
    /// Toward the subscribers, and toward the Internet.
    rates: [Option<Rate>; 2],
}

struct Reader<'r, 's> {
    report: &'r mut Report<'s>,
    nodes: Vec<Node>,
    /// The node of each name.
    names: HashMap<String, usize>,
}

/// The sites of a network. An object without nodes is a flat network.
pub(super) fn network(report: &mut Report<'_>) -> Sites {
    let source = report.source;
    let text = source.strip_prefix('\u{feff}').unwrap_or(source);
    let mut reader = Reader { report, nodes: Vec::new(), names: HashMap::new() };
    if let Some(members) = reader.members(text) {
        reader.read_nodes(members, None, 1);
    }
    let Reader { report, nodes, .. } = reader;
    sites(report, nodes)
}

impl<'s> Reader<'_, 's> {
    fn offset(&self, part: &str) -> usize {
        part.as_ptr().addr() - self.report.source.as_ptr().addr()
    }

    fn place(&self, part: &RawValue) -> Range<usize> {
        let start = self.offset(part.get());
        start..start + part.get().len()
    }

    /// The members of an object. `None` if it was reported.
    fn members(&mut self, text: &'s str) -> Option<Members<'s>> {
        let error = match serde_json::from_str(text) {
            Ok(members) => return Some(members),
            Err(error) => error,
        };
        let before = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
        let at = self.offset(text) + before + error.column().saturating_sub(1);
        // The message ends with the position, which the report has.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_string();
        self.report.error(at..at + 1, "", || {
            let hint = "the file is JSON: {\"Site\": {\"downloadBandwidthMbps\": 1000, \"children\": {}}}";
            (message, hint.to_string())
        });
        None
    }

    fn read_nodes(&mut self, members: Members<'s>, parent: Option<usize>, depth: usize) {
        for (key, value) in members.0 {
            let place = self.place(key);
            if depth > DEEPEST {
                let hint = "use fewer levels";
                self.report.error(place, "", || ("the nodes are nested too deep".to_string(), hint.to_string()));
                return;
            }
            let Ok(name) = serde_json::from_str::<String>(key.get()).map(|name| name.trim().to_string()) else {
                continue;
            };
            if !value.get().starts_with('{') {
                self.report.error(self.place(value), "", || {
                    let hint = format!("write {}: {{\"downloadBandwidthMbps\": 1000}}", key.get());
                    (format!("the node {} is no object", quote(&name)), hint)
                });
                continue;
            }
            if let Some(other) = self.names.get(&name) {
                let line = self.report.line(self.nodes[*other].place.start);
                self.report.error(place, "", || {
                    let reason = format!("there is another node {} in line {line}", quote(&name));
                    (reason, "rename one of the two: circuits name their parent".to_string())
                });
                continue;
            }
            let Some(inner) = self.members(value.get()) else { continue };
            let index = self.nodes.len();
            self.names.insert(name.clone(), index);
            self.nodes.push(Node { name, place, parent, is_virtual: false, id: None, rates: [None; 2] });
            self.read_node(index, inner, depth);
        }
    }

    fn read_node(&mut self, index: usize, members: Members<'s>, depth: usize) {
        for (key, value) in members.0 {
            match key.get() {
                "\"downloadBandwidthMbps\"" => self.nodes[index].rates[0] = self.rate(value),
                "\"uploadBandwidthMbps\"" => self.nodes[index].rates[1] = self.rate(value),
                "\"id\"" => self.nodes[index].id = text(value),
                "\"virtual\"" => self.nodes[index].is_virtual |= value.get() == "true",
                "\"type\"" => {
                    self.nodes[index].is_virtual |=
                        text(value).is_some_and(|kind| kind.eq_ignore_ascii_case("virtual"));
                }
                "\"children\"" if value.get() == "null" => {}
                "\"children\"" => {
                    if let Some(children) = self.members(value.get()) {
                        self.read_nodes(children, Some(index), depth + 1);
                    }
                }
                _ => {}
            }
        }
    }

    /// A bandwidth, as a number or as text. `None` if there is none, or if it was reported: zero stands for none in LibreQoS.
    fn rate(&mut self, value: &'s RawValue) -> Option<Rate> {
        let number = text(value).unwrap_or_else(|| value.get().to_string());
        if number == "null" || number.trim().is_empty() {
            return None;
        }
        megabits(number.trim()).unwrap_or_else(|(reason, hint)| {
            self.report.error(self.place(value), "", || (reason, hint));
            None
        })
    }
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// The sites of nodes, without the virtual ones. Each parent precedes its children.
fn sites(report: &mut Report<'_>, nodes: Vec<Node>) -> Sites {
    let errors = report.error_count();
    let mut drafts = Vec::with_capacity(nodes.len());
    // The draft of each node; that of the nearest one above it for virtual ones.
    let mut found: Vec<Option<usize>> = Vec::with_capacity(nodes.len());
    for node in &nodes {
        let parent = node.parent.and_then(|parent| found[parent]);
        let name = if node.is_virtual { None } else { Some(ShareName::new(&node.name)) };
        match name {
            None => found.push(parent),
            Some(Ok(name)) => {
                found.push(Some(drafts.len()));
                let [down, up] = node.rates;
                drafts.push(SiteDraft { name, parent, down, up, place: node.place.clone() });
            }
            Some(Err(error)) => {
                found.push(parent);
                let reason = format!("no site can have this name: {}", error.reason);
                report.error(node.place.clone(), "", || (reason, error.hint));
            }
        }
    }
    let (mut sites, moved) = Sites::new(report, drafts);
    for (node, draft) in nodes.into_iter().zip(found) {
        let site = draft.map(|draft| moved[draft]);
        sites.ids.extend(node.id.map(|id| (id, site)));
        sites.names.insert(node.name, site);
    }
    sites.is_incomplete = report.error_count() > 0 || errors > 0;
    sites
}
