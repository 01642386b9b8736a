//! Names by id, for events and packets. They may name an object that no longer exists when they are read.

use plane::ROUTING_RULES;
use plane::snapshot::{ROUTING, Snapshot};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{InterfaceId, Mac, PathId, PortId};

/// Names kept of each kind besides those in use; the oldest are dropped first.
const MOST_OLD_NAMES: usize = 1000;

/// Names by id. Ids are never reused, so a name stays valid after its object is gone.
#[derive(Clone, Debug, Default)]
pub struct Names {
    ports: BTreeMap<PortId, Arc<str>>,
    stations: BTreeMap<PortId, Mac>,
    interfaces: BTreeMap<InterfaceId, Arc<str>>,
    paths: BTreeMap<PathId, Arc<str>>,
}

impl Names {
    /// Adds the names of a generation.
    pub fn add_generation(&mut self, snapshot: &Snapshot) {
        let ports = || snapshot.ports.iter().enumerate().filter_map(|(i, port)| Some((PortId::at(i), port.as_ref()?)));
        merge_names(&mut self.ports, ports().map(|(id, port)| (id, port.name.clone())));
        merge_names(&mut self.stations, ports().map(|(id, port)| (id, port.mac)));
        merge_names(&mut self.interfaces, snapshot.interfaces.iter().map(|i| (i.id, Arc::from(i.name.as_str()))));
        merge_names(&mut self.paths, snapshot.paths.iter().map(|path| (path.id, path.name.clone())));
    }

    /// Returns the name of a port, or its number if it is unknown.
    pub fn port(&self, id: PortId) -> String {
        self.ports.get(&id).map_or_else(|| format!("#{id}"), |name| name.to_string())
    }

    /// Returns the MAC address of a port, if it is known.
    pub fn mac(&self, id: PortId) -> Option<Mac> {
        self.stations.get(&id).copied()
    }

    /// Returns the name of an interface, or its number if it is unknown.
    pub fn interface(&self, id: InterfaceId) -> String {
        self.interfaces.get(&id).map_or_else(|| format!("#{id}"), |name| name.to_string())
    }

    /// Returns the name of a path, or its number if it is unknown. The rules of routes have the name of their list.
    pub fn path(&self, id: PathId) -> String {
        if id == ROUTING {
            return ROUTING_RULES.to_string();
        }
        self.paths.get(&id).map_or_else(|| format!("#{id}"), |name| name.to_string())
    }
}

fn merge_names<K: Ord + Copy, V>(names: &mut BTreeMap<K, V>, current: impl Iterator<Item = (K, V)>) {
    let current: BTreeMap<K, V> = current.collect();
    let surplus = names.len().saturating_sub(MOST_OLD_NAMES);
    let gone: Vec<K> = names.keys().filter(|id| !current.contains_key(id)).take(surplus).copied().collect();
    gone.iter().for_each(|id| drop(names.remove(id)));
    names.extend(current);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_removed_objects_are_kept_up_to_a_bound() {
        let mut names = BTreeMap::new();
        for id in 1..5000 {
            merge_names(&mut names, [0, id].into_iter().map(|id| (id, format!("p{id}"))));
        }
        assert!(names.len() <= MOST_OLD_NAMES + 2, "{}", names.len());
        for id in [0, 4500, 4999] {
            assert_eq!(names[&id], format!("p{id}"));
        }
    }
}
