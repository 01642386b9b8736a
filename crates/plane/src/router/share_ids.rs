//! The numbers of shares by name. A name keeps its number, also if the share is removed and added again, and has the same one at all ports.

use link::MOST_SHARES;
use plan::{ShareName, ShareTree};
use std::collections::HashMap;
use units::ShareId;

/// The most names that the hint of an error considers.
const HINTED: usize = 1000;

/// The numbers of shares by name.
#[derive(Clone, Debug, Default)]
pub(super) struct ShareIds {
    ids: HashMap<ShareName, ShareId>,
    names: Vec<ShareName>,
}

impl ShareIds {
    pub fn get(&self, name: &ShareName) -> Option<ShareId> {
        self.ids.get(name).copied()
    }

    /// The number of a name, a new one if it has none. None if the numbers are used up.
    pub fn number(&mut self, name: &ShareName) -> Option<ShareId> {
        if let Some(id) = self.get(name) {
            return Some(id);
        }
        // Number 0 is no share.
        let id = ShareId::at(self.names.len() + 1);
        if id.index() >= MOST_SHARES {
            return None;
        }
        self.names.push(name.clone());
        self.ids.insert(name.clone(), id);
        Some(id)
    }

    /// The number of a share that one of the trees has, or the reason why there is none, and a hint.
    pub fn id_in<'t>(
        &self,
        name: &ShareName,
        trees: impl Iterator<Item = &'t ShareTree> + Clone,
    ) -> Result<ShareId, (String, String)> {
        let has = |tree: &ShareTree| tree.get(name.as_str()).is_some();
        let id = self.get(name).filter(|_| trees.clone().any(has));
        id.ok_or_else(|| {
            let names: Vec<&str> =
                trees.flat_map(|tree| tree.iter().map(|node| node.name.as_str())).take(HINTED).collect();
            let hint = if names.is_empty() {
                "give a port the scheme 'share', and 'shares'".to_string()
            } else {
                plan::did_you_mean(name.as_str(), names)
            };
            (format!("no port has a share {}", plan::quote(name.as_str())), hint)
        })
    }
}
