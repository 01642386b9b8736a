//! The table of filters as workers see it.

use super::TenantId;
use super::filter::{OpaqueKey, WORDS};
use crate::lookup::{GROUP, look_up_each};
use crate::rule::{Key, RuleResult};
use crate::rule_set::RuleSet;
use std::sync::Arc;

/// A key to look up, and the tenant whose filters it is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TenantKey {
    /// The tenant.
    pub tenant: TenantId,
    /// The key that the tenant's code made of a packet.
    pub key: OpaqueKey,
}

/// The filters of all tenants at one moment. A clone shares all memory with the original.
#[derive(Clone, Debug, Default)]
pub struct TenantTable {
    /// The filters of each tenant at the place of its number: an exact match of the number, and no way from one tenant to the filters of another.
    tenants: Arc<[RuleSet<WORDS>]>,
}

impl TenantTable {
    /// The result of the filter at the lowest position that matches, for each key; `None` for a key without a filter, and for an unknown tenant. The
    /// counter of the result is the number of the filter's counter. Panics if the slices differ in length.
    pub fn look_up(&self, keys: &[TenantKey], results: &mut [Option<RuleResult>]) {
        assert_eq!(keys.len(), results.len(), "one result for each key");
        for (keys, results) in keys.chunks(GROUP).zip(results.chunks_mut(GROUP)) {
            let (mut words, mut found) = ([Key([0; WORDS]); GROUP], [None; GROUP]);
            let (words, found) = (&mut words[..keys.len()], &mut found[..keys.len()]);
            words.iter_mut().zip(keys).for_each(|(words, key)| *words = key.key.words());
            let mut starts = [(0, &[][..]); GROUP];
            let mut waiting = 0;
            for (i, key) in keys.iter().enumerate() {
                let Some(filters) = self.tenants.get(usize::from(key.tenant.0)) else { continue };
                match filters.begin(&words[i]) {
                    Ok(rule) => found[i] = rule,
                    Err(partitions) => {
                        starts[waiting] = (i, partitions);
                        waiting += 1;
                    }
                }
            }
            look_up_each(starts.into_iter().take(waiting), words, found);
            results.iter_mut().zip(found).for_each(|(result, rule)| *result = rule.map(|rule| rule.result));
        }
    }

    /// The table with other filters for one tenant.
    pub(super) fn with(&self, tenant: TenantId, filters: RuleSet<WORDS>) -> TenantTable {
        let mut tenants = self.tenants.to_vec();
        let at = usize::from(tenant.0);
        tenants.resize(tenants.len().max(at + 1), RuleSet::default());
        tenants[at] = filters;
        TenantTable { tenants: tenants.into() }
    }

    /// Bytes of memory, parts that other versions share included. Takes time in proportion to the filters.
    pub fn bytes(&self) -> usize {
        self.tenants.iter().map(|filters| size_of_val(filters) + filters.bytes()).sum()
    }
}
