//! Filters of many tenants in one table: ternary conditions on keys that only their tenant understands, as a TCAM shared by tenants has them.
//!
//! A tenant has a quota of the table's entries, and its own positions. The filter at the lowest position that matches a key decides. A position is a
//! number that the tenant chooses: between two positions there is room for more, so a new filter moves no other. Its number selects the tenant's
//! filters before the key is compared: no filter can name another tenant, match its keys, or learn of its filters.
//!
//! [`TenantFilters`] belongs to the control thread. Workers look up batches in the [`TenantTable`] that it publishes, which never changes.

mod counters;
mod error;
mod filter;
mod rebuild;
mod table;

use crate::publish::{Published, PublishedReader};
use crate::rule::TernaryRule;
use crate::rule_set::RuleSet;
pub use counters::ReusedNumbers;
pub use error::{RefusedChanges, TenantError};
use filter::WORDS;
pub use filter::{KeyRange, NumberPrefix, OpaqueKey, TenantFilter, prefixes};
use rebuild::{EntryEdit, Rebuilding};
pub use rebuild::{RebuiltFilters, WornFilters};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
pub use table::{TenantKey, TenantTable};

/// Bits of an opaque key.
const KEY_BITS: u16 = 320;
/// Entries of a table by default, for all tenants together.
const ENTRIES: usize = 128 << 10;
/// Building takes about a microsecond an entry, an edit several. With more edits than a quarter of the entries, and these, the table is built anew.
const FEW_EDITS: usize = 256;
/// The largest number of a tenant. A change copies a reference for each number in use.
const LARGEST_TENANT: TenantId = TenantId(4095);

/// The number of a tenant. Before the owner gives a number to another tenant, no packet of the former one may be under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TenantId(pub u16);

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A change of one filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FilterChange {
    /// Adds a filter at a position without one.
    Insert(u32, TenantFilter),
    /// Replaces the filter at a position. Its counter stays the same.
    Replace(u32, TenantFilter),
    /// Deletes the filter at a position.
    Delete(u32),
}

/// The counter and the entries of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterUse {
    /// The number of its counter: the same as long as the filter is at its position. A number is used again only when no worker has a table with the
    /// former filter. So its count begins at the sum that the workers have for the number when the filter is added.
    pub counter: u32,
    /// The entries that its ranges need.
    pub entries: u32,
}

/// The quota of a tenant, and its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantUse {
    /// The entries that it may use.
    pub quota: usize,
    /// The entries that its filters use.
    pub entries: usize,
    /// Its filters.
    pub filters: usize,
}

struct Stored {
    filter: TenantFilter,
    uses: FilterUse,
}

#[derive(Default)]
struct Tenant {
    quota: usize,
    entries: usize,
    filters: BTreeMap<u32, Stored>,
    rules: RuleSet<WORDS>,
    rebuilding: Option<Rebuilding>,
}

impl Stored {
    fn entries(&self, position: u32) -> Vec<TernaryRule<WORDS>> {
        let entries = self.filter.entries((position, self.uses.counter), usize::MAX);
        entries.expect("the same entries were made when the filter was added")
    }
}

/// The filters of all tenants, and who may have how many.
pub struct TenantFilters {
    tenants: BTreeMap<TenantId, Tenant>,
    /// The entries that the quotas share.
    entries: usize,
    counters: ReusedNumbers,
    rebuilds: u64,
    published: Arc<Published<TenantTable>>,
}

impl Default for TenantFilters {
    /// A table of 128 K entries.
    fn default() -> Self {
        TenantFilters::new(ENTRIES)
    }
}

impl TenantFilters {
    /// A table of so many entries, without tenants.
    pub fn new(entries: usize) -> TenantFilters {
        let published = Arc::new(Published::new(TenantTable::default()));
        TenantFilters {
            tenants: BTreeMap::new(),
            entries,
            counters: ReusedNumbers::new(entries),
            rebuilds: 0,
            published,
        }
    }

    /// A worker's view of the table. It is refreshed once for each batch.
    pub fn reader(&self) -> PublishedReader<TenantTable> {
        PublishedReader::new(&self.published)
    }

    /// The newest table, for a user who publishes it together with other values. A table in use keeps the numbers of its counters from being reused.
    pub fn table(&self) -> Arc<TenantTable> {
        self.published.latest()
    }

    /// Numbers of counters are below this one.
    pub fn counters(&self) -> u32 {
        self.counters.most()
    }

    /// The entries that no tenant has in its quota.
    pub fn free_entries(&self) -> usize {
        self.entries - self.tenants.values().map(|tenant| tenant.quota).sum::<usize>()
    }

    /// The tenants in ascending order.
    pub fn tenants(&self) -> impl Iterator<Item = TenantId> + '_ {
        self.tenants.keys().copied()
    }

    /// Adds a tenant that may use `quota` entries.
    pub fn create(&mut self, tenant: TenantId, quota: usize) -> Result<(), TenantError> {
        if tenant > LARGEST_TENANT {
            return Err(TenantError::TenantTooLarge { tenant, most: LARGEST_TENANT });
        }
        if self.tenants.contains_key(&tenant) {
            return Err(TenantError::TenantExists { tenant });
        }
        let free = self.free_entries();
        if quota > free {
            return Err(TenantError::TableTooSmall { quota, free });
        }
        self.tenants.insert(tenant, Tenant { quota, ..Tenant::default() });
        Ok(())
    }

    /// Changes the entries that a tenant may use.
    pub fn set_quota(&mut self, tenant: TenantId, quota: usize) -> Result<(), TenantError> {
        let TenantUse { quota: old, entries, .. } = self.usage(tenant)?;
        if entries > quota {
            return Err(TenantError::QuotaExceeded { tenant, entries, quota });
        }
        let free = self.free_entries() + old;
        if quota > free {
            return Err(TenantError::TableTooSmall { quota, free });
        }
        tenant_of(&mut self.tenants, tenant)?.quota = quota;
        Ok(())
    }

    /// Removes a tenant and all its filters. Returns their number.
    pub fn remove(&mut self, tenant: TenantId) -> Result<usize, TenantError> {
        let removed = self.tenants.remove(&tenant).ok_or(TenantError::UnknownTenant { tenant })?;
        self.publish(tenant, RuleSet::default());
        self.counters.free(removed.filters.values().map(|stored| stored.uses.counter), self.published.version());
        Ok(removed.filters.len())
    }

    /// The quota of a tenant, and its use.
    pub fn usage(&self, tenant: TenantId) -> Result<TenantUse, TenantError> {
        let Tenant { quota, entries, filters, .. } =
            self.tenants.get(&tenant).ok_or(TenantError::UnknownTenant { tenant })?;
        Ok(TenantUse { quota: *quota, entries: *entries, filters: filters.len() })
    }

    /// The filters of a tenant from position `from` on, with their positions, in ascending order.
    pub fn filters(
        &self,
        tenant: TenantId,
        from: u32,
    ) -> Result<impl Iterator<Item = (u32, &TenantFilter, FilterUse)>, TenantError> {
        let tenant = self.tenants.get(&tenant).ok_or(TenantError::UnknownTenant { tenant })?;
        Ok(tenant.filters.range(from..).map(|(position, stored)| (*position, &stored.filter, stored.uses)))
    }

    /// Adds a filter at a position without one. All others stay where they are.
    pub fn insert(&mut self, tenant: TenantId, position: u32, filter: TenantFilter) -> Result<FilterUse, TenantError> {
        self.change_one(tenant, FilterChange::Insert(position, filter))
    }

    /// Replaces the filter at a position. Its counter stays the same.
    pub fn replace(&mut self, tenant: TenantId, position: u32, filter: TenantFilter) -> Result<FilterUse, TenantError> {
        self.change_one(tenant, FilterChange::Replace(position, filter))
    }

    /// Deletes the filter at a position. Returns the use that has ended.
    pub fn delete(&mut self, tenant: TenantId, position: u32) -> Result<FilterUse, TenantError> {
        self.change_one(tenant, FilterChange::Delete(position))
    }

    fn change_one(&mut self, tenant: TenantId, change: FilterChange) -> Result<FilterUse, TenantError> {
        match self.change(tenant, [change]) {
            Ok(uses) => Ok(uses[0]),
            Err(refused) => Err(refused.error),
        }
    }

    /// Makes all changes of a tenant's filters in this order, or none. A look-up sees the table before or after all of them. Returns for each change the use
    /// of its filter, or of the deleted one.
    pub fn change(
        &mut self,
        tenant: TenantId,
        changes: impl IntoIterator<Item = FilterChange>,
    ) -> Result<Vec<FilterUse>, RefusedChanges> {
        // Workers may have gone on to newer tables since the last change.
        self.published.free_retired();
        self.counters.recover(self.published.oldest_version());
        let changed = tenant_of(&mut self.tenants, tenant)?;
        let mut draft = Draft {
            tenant: changed,
            counters: &mut self.counters,
            most: self.entries,
            undo: Vec::new(),
            edits: Vec::new(),
            freed: Vec::new(),
        };
        let numbered = changes.into_iter().enumerate();
        let made = numbered.map(|(number, change)| {
            draft.change(change).map_err(|error| RefusedChanges { change: Some(number), error })
        });
        let made: Result<Vec<FilterUse>, RefusedChanges> = made.collect();
        let (entries, quota) = (draft.tenant.entries, draft.tenant.quota);
        let made = match made {
            // Only the sum counts: a batch may insert first and delete then.
            Ok(_) if entries > quota => Err(TenantError::QuotaExceeded { tenant, entries, quota }.into()),
            made => made,
        };
        if made.is_err() {
            draft.revert();
            return made;
        }
        let (rules, freed) = draft.finish();
        self.publish(tenant, rules);
        self.counters.free(freed, self.published.version());
        made
    }

    fn publish(&self, tenant: TenantId, rules: RuleSet<WORDS>) {
        // The reference to the old table ends here, so that the old table can be freed.
        let table = self.published.latest().with(tenant, rules);
        self.published.publish(table);
    }

    /// Bytes of memory: of the table, and of the list of filters. Takes time in proportion to the filters.
    pub fn bytes(&self) -> (usize, usize) {
        let stored = |stored: &Stored| size_of::<(u32, Stored)>() + size_of_val(&*stored.filter.ranges);
        let list = self.tenants.values().flat_map(|tenant| tenant.filters.values()).map(stored).sum();
        (self.published.latest().bytes(), list)
    }
}

fn tenant_of(tenants: &mut BTreeMap<TenantId, Tenant>, tenant: TenantId) -> Result<&mut Tenant, TenantError> {
    tenants.get_mut(&tenant).ok_or(TenantError::UnknownTenant { tenant })
}

/// Changes of one tenant that may still be reverted.
struct Draft<'a> {
    tenant: &'a mut Tenant,
    counters: &'a mut ReusedNumbers,
    /// The most entries of one filter.
    most: usize,
    /// The filter of a position before each change.
    undo: Vec<(u32, Option<Stored>)>,
    edits: Vec<EntryEdit>,
    /// Counters of deleted filters.
    freed: Vec<u32>,
}

impl Draft<'_> {
    fn change(&mut self, change: FilterChange) -> Result<FilterUse, TenantError> {
        let (position, filter, is_new) = match change {
            FilterChange::Insert(position, filter) => (position, Some(filter), true),
            FilterChange::Replace(position, filter) => (position, Some(filter), false),
            FilterChange::Delete(position) => (position, None, false),
        };
        let counter = match self.tenant.filters.get(&position) {
            _ if position == u32::MAX => return Err(TenantError::PositionTooLarge),
            Some(_) if is_new => return Err(TenantError::PositionTaken { position }),
            None if !is_new => return Err(TenantError::NoFilter { position }),
            Some(stored) => stored.uses.counter,
            None => self.counters.take().ok_or(TenantError::CountersInUse)?,
        };
        let entries = filter.as_ref().map_or(Ok(Vec::new()), |filter| filter.entries((position, counter), self.most));
        let entries = entries.inspect_err(|_| {
            if is_new {
                self.counters.give_back(counter);
            }
        })?;
        // From here on nothing fails.
        let before = self.tenant.filters.remove(&position);
        if let Some(stored) = &before {
            self.tenant.entries -= stored.uses.entries as usize;
            self.edits.extend(stored.entries(position).into_iter().map(EntryEdit::Remove));
        }
        let uses = match filter {
            Some(filter) => {
                let uses = FilterUse { counter, entries: entries.len() as u32 };
                self.tenant.entries += entries.len();
                self.edits.extend(entries.into_iter().map(EntryEdit::Add));
                self.tenant.filters.insert(position, Stored { filter, uses });
                uses
            }
            None => {
                self.freed.push(counter);
                before.as_ref().map_or(FilterUse { counter, entries: 0 }, |stored| stored.uses)
            }
        };
        self.undo.push((position, before));
        Ok(uses)
    }

    /// Restores the filters before the first change.
    fn revert(self) {
        for (position, before) in self.undo.into_iter().rev() {
            let after = self.tenant.filters.remove(&position);
            self.tenant.entries -= after.as_ref().map_or(0, |stored| stored.uses.entries as usize);
            if let Some(before) = before {
                self.tenant.entries += before.uses.entries as usize;
                self.tenant.filters.insert(position, before);
            } else if let Some(added) = after {
                self.counters.give_back(added.uses.counter);
            }
        }
    }

    /// The rules after all changes, and the counters of deleted filters.
    fn finish(self) -> (RuleSet<WORDS>, Vec<u32>) {
        let Draft { tenant, edits, freed, .. } = self;
        if edits.len() > tenant.rules.len() / 4 + FEW_EDITS {
            tenant.rules = RuleSet::build(
                tenant.filters.iter().flat_map(|(position, stored)| stored.entries(*position)).collect(),
            );
            // It would be older than these rules.
            tenant.rebuilding = None;
        } else {
            edits.iter().for_each(|edit| edit.apply(&mut tenant.rules));
            Rebuilding::record(&mut tenant.rebuilding, edits, tenant.rules.len());
        }
        (tenant.rules.clone(), freed)
    }
}
