//! Where the paths from one host to several part (spec E-44).

use std::collections::BTreeMap;

/// What is there at one hop of several paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shared<R> {
    /// How far away, 1 for the next.
    pub hop: usize,
    /// Which router; none where it does not answer.
    pub router: Option<R>,
    /// The paths that go through it, by their numbers.
    pub paths: Vec<usize>,
}

/// A router behind which paths part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch<R> {
    /// How far away it is; 0 is the host itself.
    pub hop: usize,
    /// Which one: the last that is known to be common; none where that is the host itself.
    pub router: Option<R>,
    /// Whether paths part right there; else there, or behind it where somebody does not answer.
    pub exact: bool,
    /// The paths of each branch, by their numbers.
    pub towards: Vec<Vec<usize>>,
}

/// Several paths that begin at one host, laid over one another: each a list of routers, in which those that do not answer are none.
/// Answers who is where, in the order of hops, and where they part.
pub fn branches<R: Clone + Ord>(paths: &[Vec<Option<R>>]) -> (Vec<Shared<R>>, Vec<Branch<R>>) {
    let (mut shared, mut branches) = (Vec::new(), Vec::new());
    // Each group has come the same way so far: the last router known of it, and how far away that is.
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
            // In the order in which the paths were named.
            parts.sort_by_key(|(_, paths)| paths.first().copied());
            if parts.len() > 1 {
                let exact = at + 1 == hop && parts.iter().all(|(here, _)| here.is_some());
                let towards = parts.iter().map(|(_, paths)| paths.clone()).collect();
                branches.push(Branch { hop: at, router: router.clone(), exact, towards });
            }
            for (here, paths) in parts {
                shared.push(Shared { hop, router: here.clone(), paths: paths.clone() });
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
