//! The sites of an access network: their order, their levels, and the look-up of a circuit's parent.

use super::SubscriberSite;
use crate::diagnostic::Report;
use crate::share::ShareName;
use crate::share_tree::MOST_SHARE_LEVELS;
use std::collections::HashMap;
use std::ops::Range;
use units::Rate;

/// A site as it was read.
pub(super) struct SiteDraft {
    pub name: ShareName,
    /// The index of the site above it.
    pub parent: Option<usize>,
    pub down: Option<Rate>,
    pub up: Option<Rate>,
    /// The position of its name.
    pub place: Range<usize>,
}

/// The sites, each parent before its children.
#[derive(Default)]
pub(super) struct Sites {
    pub list: Vec<SubscriberSite>,
    /// The position of each name.
    pub places: Vec<Range<usize>>,
    /// The level of each; the port is level 1.
    pub levels: Vec<usize>,
    /// The site for each name that a circuit may give as its parent; `None` for the port.
    pub names: HashMap<String, Option<usize>>,
    /// The same for identifiers other than names.
    pub ids: HashMap<String, Option<usize>>,
    /// True if some sites could not be read, so that an unknown name may be one of them.
    pub is_incomplete: bool,
}

impl Sites {
    /// Orders sites, and reports circles and too many levels. Returns the sites with the new index of each draft.
    pub fn new(report: &mut Report<'_>, drafts: Vec<SiteDraft>) -> (Sites, Vec<usize>) {
        let levels = levels(report, &drafts);
        for (draft, level) in drafts.iter().zip(&levels).filter(|(_, level)| **level > MOST_SHARE_LEVELS) {
            report.error(draft.place.clone(), "", || too_deep(&draft.name, *level));
        }
        let mut order: Vec<usize> = (0..drafts.len()).collect();
        order.sort_by_key(|at| levels[*at]);
        let mut moved = vec![0; drafts.len()];
        order.iter().enumerate().for_each(|(new, old)| moved[*old] = new);
        let mut sites = Sites::default();
        for at in order {
            let SiteDraft { name, parent, down, up, place } = &drafts[at];
            let parent = parent.map(|parent| drafts[parent].name.clone());
            sites.names.insert(name.as_str().to_string(), Some(sites.list.len()));
            sites.list.push(SubscriberSite { name: name.clone(), parent, down: *down, up: *up });
            sites.places.push(place.clone());
            sites.levels.push(levels[at]);
        }
        (sites, moved)
    }
}

/// The reason and the hint for a share on a level that is too low.
pub(super) fn too_deep(name: &ShareName, level: usize) -> (String, String) {
    let reason = format!("'{}' is on level {level}, with the port as level 1", name.as_str());
    (reason, format!("use at most {MOST_SHARE_LEVELS} levels: leave out a site, or mark it as virtual in network.json"))
}

/// The level of each site, from 2.
fn levels(report: &mut Report<'_>, drafts: &[SiteDraft]) -> Vec<usize> {
    const UNKNOWN: usize = 0;
    /// On the path that is being followed.
    const OPEN: usize = usize::MAX;
    let mut levels = vec![UNKNOWN; drafts.len()];
    let mut path = Vec::new();
    for start in 0..drafts.len() {
        let mut at = Some(start);
        while let Some(one) = at.filter(|one| levels[*one] == UNKNOWN) {
            levels[one] = OPEN;
            path.push(one);
            at = drafts[one].parent;
        }
        let mut level = match at {
            None => 1,
            Some(one) if levels[one] == OPEN => {
                let draft = &drafts[one];
                report.error(draft.place.clone(), "", || {
                    let reason = format!("the site '{}' is above itself", draft.name.as_str());
                    (reason, "correct the parent of one of the sites in the circle".to_string())
                });
                1
            }
            Some(one) => levels[one],
        };
        while let Some(one) = path.pop() {
            level += 1;
            levels[one] = level;
        }
    }
    levels
}
