//! The numbers of shares by name. A name keeps its number, also if the share is removed and added again, and has the same one at all ports. Only the names of
//! ended flows lose theirs: the one that ended first, when no number is left that was never used.

use link::MOST_SHARES;
use plan::{ShareName, ShareTree};
use std::collections::{HashMap, HashSet, VecDeque};
use units::ShareId;

/// The most names that the hint of an error considers.
const HINTED: usize = 1000;

/// The numbers of shares by name.
#[derive(Clone, Debug, Default)]
pub(super) struct ShareIds {
    ids: HashMap<ShareName, ShareId>,
    names: Vec<ShareName>,
    /// Numbers of ended flows, the first ended first, and those of them that are still not in use.
    ended: VecDeque<ShareId>,
    resting: HashSet<ShareId>,
}

impl ShareIds {
    pub fn get(&self, name: &ShareName) -> Option<ShareId> {
        self.ids.get(name).copied()
    }

    /// The number of a name, a new one if it has none. None if the numbers are used up.
    pub fn number(&mut self, name: &ShareName) -> Option<ShareId> {
        if let Some(id) = self.get(name) {
            self.resting.remove(&id);
            return Some(id);
        }
        // Number 0 is no share.
        let id = ShareId::at(self.names.len() + 1);
        if id.index() >= MOST_SHARES {
            return self.reuse(name);
        }
        self.names.push(name.clone());
        self.ids.insert(name.clone(), id);
        Some(id)
    }

    /// Gives the number of the flow that ended first to another name. None if there is none.
    fn reuse(&mut self, name: &ShareName) -> Option<ShareId> {
        let id = loop {
            let id = self.ended.pop_front()?;
            if self.resting.remove(&id) {
                break id;
            }
        };
        let before = std::mem::replace(&mut self.names[id.index() - 1], name.clone());
        self.ids.remove(&before);
        self.ids.insert(name.clone(), id);
        Some(id)
    }

    /// The flow of this name has ended: another may get its number, when no other is left.
    pub fn release(&mut self, name: &ShareName) {
        if let Some(id) = self.get(name)
            && self.resting.insert(id)
        {
            self.ended.push_back(id);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ShareName {
        ShareName::new(text).expect("it is a name")
    }

    #[test]
    fn numbers_of_ended_flows_are_used_again_when_no_other_is_left() {
        let mut ids = ShareIds::default();
        let [a, b, c] = ["a", "b", "c"].map(|text| ids.number(&name(text)).expect("there are many"));
        ids.release(&name("b"));
        ids.release(&name("a"));
        ids.release(&name("b"));
        // A flow of the same name gets its number back, and it is not given to another.
        assert_eq!(ids.number(&name("b")), Some(b));
        for number in 3..MOST_SHARES - 1 {
            assert_eq!(ids.number(&name(&format!("x{number}"))), Some(ShareId::at(number + 1)));
        }
        assert_eq!(ids.number(&name("new")), Some(a));
        assert_eq!((ids.get(&name("a")), ids.get(&name("c"))), (None, Some(c)));
        assert_eq!(ids.number(&name("newer")), None);
    }
}
