//! Making the table of a tenant anew, outside of the thread that changes it.

use super::filter::WORDS;
use super::{TenantFilters, TenantId};
use crate::rule::TernaryRule;
use crate::rule_set::RuleSet;

/// A change of one entry of the table.
pub(super) enum EntryEdit {
    Add(TernaryRule<WORDS>),
    Remove(TernaryRule<WORDS>),
}

impl EntryEdit {
    pub fn apply(&self, rules: &mut RuleSet<WORDS>) {
        let done = match self {
            EntryEdit::Add(rule) => rules.insert(*rule),
            EntryEdit::Remove(rule) => rules.remove(rule),
        };
        // Positions differ between filters, and the entries of one filter differ from each other.
        assert!(done, "an entry is added once, and removed once");
    }
}

/// The changes of a tenant's entries since a copy of them was given out to be rebuilt.
pub(super) struct Rebuilding {
    serial: u64,
    edits: Vec<EntryEdit>,
}

/// With so many changes beyond the number of entries the rebuilt table would be worn itself.
const MOST_EDITS: usize = 4096;

impl Rebuilding {
    /// Records edits for a rebuild under way. With too many the rebuild is given up.
    pub fn record(rebuilding: &mut Option<Rebuilding>, edits: Vec<EntryEdit>, entries: usize) {
        if let Some(under_way) = rebuilding {
            under_way.edits.extend(edits);
            if under_way.edits.len() > entries + MOST_EDITS {
                *rebuilding = None;
            }
        }
    }
}

/// The filters of a tenant, in a table that a new one would make faster.
pub struct WornFilters {
    tenant: TenantId,
    serial: u64,
    rules: RuleSet<WORDS>,
}

impl WornFilters {
    /// Makes the new table. This takes about a microsecond an entry, in any thread.
    pub fn rebuilt(self) -> RebuiltFilters {
        RebuiltFilters(WornFilters { rules: self.rules.rebuilt(), ..self })
    }
}

/// A new table for the filters of a tenant.
pub struct RebuiltFilters(WornFilters);

impl TenantFilters {
    /// The filters of a tenant that have changed so much that a new table would make look-ups faster. Filters may change while the table is made:
    /// [`adopt`](TenantFilters::adopt) repeats the changes. A tenant is given out again only after that, or after so many changes that the table is of no
    /// use.
    pub fn worn(&mut self) -> Option<WornFilters> {
        let (tenant, worn) =
            self.tenants.iter_mut().find(|(_, tenant)| tenant.rebuilding.is_none() && tenant.rules.is_worn())?;
        self.rebuilds += 1;
        worn.rebuilding = Some(Rebuilding { serial: self.rebuilds, edits: Vec::new() });
        Some(WornFilters { tenant: *tenant, serial: self.rebuilds, rules: worn.rules.clone() })
    }

    /// Publishes a rebuilt table. False if the tenant was removed meanwhile, or changed so much that the new table is of no use.
    pub fn adopt(&mut self, RebuiltFilters(WornFilters { tenant, serial, mut rules }): RebuiltFilters) -> bool {
        let Some(adopting) = self.tenants.get_mut(&tenant) else { return false };
        let Some(rebuilding) = adopting.rebuilding.take_if(|rebuilding| rebuilding.serial == serial) else {
            return false;
        };
        rebuilding.edits.iter().for_each(|edit| edit.apply(&mut rules));
        adopting.rules = rules.clone();
        self.publish(tenant, rules);
        true
    }
}
