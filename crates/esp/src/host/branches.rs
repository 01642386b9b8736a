//! Finds the branch points of the paths from one host to several others (spec E-44).

use std::collections::BTreeMap;

/// A router, or a silent hop, and the paths through it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedHop<R> {
    /// The distance in hops; 1 is the first router.
    pub hop: usize,
    /// The router; `None` if it does not answer.
    pub router: Option<R>,
    /// The paths through it, by index.
    pub paths: Vec<usize>,
}

/// A branch point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch<R> {
    /// The distance in hops; 0 is the host itself.
    pub hop: usize,
    /// The last router known to be common; `None` if that is the host itself.
    pub router: Option<R>,
    /// True if the paths diverge right behind this router. False if silent routers follow, so that they may diverge later.
    pub exact: bool,
    /// The paths of each branch, by index.
    pub towards: Vec<Vec<usize>>,
}

/// Merges several paths from one host. Each path is a list of routers; `None` is a router that does not answer. Returns the routers in order of hops,
/// and the branch points.
pub fn branches<R: Clone + Ord>(paths: &[Vec<Option<R>>]) -> (Vec<SharedHop<R>>, Vec<Branch<R>>) {
    let (mut shared, mut branches) = (Vec::new(), Vec::new());
    // Each group has been the same path so far: its last known router, that router's distance, and the paths' indices.
    let mut groups: Vec<(Option<R>, usize, Vec<usize>)> = vec![(None, 0, (0..paths.len()).collect())];
    for hop in 1.. {
        let mut next = Vec::new();
        for (router, at, paths_here) in groups {
            let mut parts: BTreeMap<Option<R>, Vec<usize>> = BTreeMap::new();
            for path in paths_here {
                if let Some(here) = paths[path].get(hop - 1) {
                    parts.entry(here.clone()).or_default().push(path);
                }
            }
            let mut parts: Vec<(Option<R>, Vec<usize>)> = parts.into_iter().collect();
            // In order of the paths' indices.
            parts.sort_by_key(|(_, paths)| paths.first().copied());
            if parts.len() > 1 {
                let exact = at + 1 == hop && parts.iter().all(|(here, _)| here.is_some());
                let towards = parts.iter().map(|(_, paths)| paths.clone()).collect();
                branches.push(Branch { hop: at, router: router.clone(), exact, towards });
            }
            for (here, paths) in parts {
                shared.push(SharedHop { hop, router: here.clone(), paths: paths.clone() });
                let known = here.map_or((router.clone(), at), |here| (Some(here), hop));
                next.push((known.0, known.1, paths));
            }
        }
        if next.is_empty() {
            break;
        }
        groups = next;
    }
    (shared, branches)
}
